// SPDX-License-Identifier: GPL-2.0-only
/*
 * --dry-run: the driver checks an ioctl and does not execute it, and the call is printed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kernel/control.h"
#include "kernel/dry_run.h"
#include "lib/system.h"

#define NODE_FOLDER	"/sys/devices/system/node/node"

/* Names of bits, in the order of the bits. */
static void print_flags(uint32_t flags, const char *const *names, size_t count)
{
	const char *separator = "";
	size_t i;

	if (!flags)
		putchar('0');
	for (i = 0; i < count; i++) {
		if (!(flags & 1U << i))
			continue;
		printf("%s%s", separator, names[i]);
		separator = "|";
	}
}

static void begin(const char *request, uint32_t version)
{
	printf("ioctl(/dev/" RXD_CONTROL_NAME ", %s, {version=%u, flags=", request, version);
}

static void print_create(const struct rxd_create *arg)
{
	static const char *const flags[] = {
		"RXD_CREATE_OVERCOMMIT", "RXD_CREATE_RESERVE", "RXD_CREATE_DETECT_ZEROES",
	};
	char *uuid = ramdisk_uuid(arg->uuid);

	begin("RXD_CREATE", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", index=%d, logical_block_size=%u, size=%llu, mem_limit=%llu", arg->index,
	       arg->logical_block_size, (unsigned long long)arg->size,
	       (unsigned long long)arg->mem_limit);
	printf(", folio_size=%u, node=%d, uuid=%s})\n", arg->folio_size, arg->node, uuid);
	free(uuid);
}

static bool node_is_there(int32_t node)
{
	char *path;
	bool there;

	if (node < 0)
		return true;
	path = format_text(NODE_FOLDER "%d", node);
	there = !access(path, F_OK);
	free(path);
	return there;
}

/* A module that does not know RXD_DRY_RUN refuses it, whether the disk exists or not. */
static bool can_ask(int fd)
{
	/* Whoever has this number is hardly busy: this waits for other operations on the disk. */
	const struct rxd_remove arg = {
		.version = control_abi(),
		.flags = RXD_DRY_RUN,
		.index = RXD_INDEX_MAX,
	};

	return fd >= 0 && (!ioctl(fd, RXD_REMOVE, &arg) || errno != EINVAL);
}

static int ask(int fd, unsigned long request, const void *arg)
{
	return ioctl(fd, request, arg) ? errno : 0;
}

/* One line is enough, however many calls are printed. */
static void note_not_asked(int fd)
{
	static bool noted;

	if (!noted)
		report(EXIT_OK, "note: the driver was not asked, because the module rxd %s",
		       fd < 0 ? "is not loaded" : "is older than rxadm");
	noted = true;
}

/* What can be known of a new disk without the driver. */
static int guess_create(int fd, const struct rxd_create *arg)
{
	if (!(arg->flags & RXD_CREATE_OVERCOMMIT) && arg->size > control_share_left(fd, -1))
		return ERANGE;
	if (!node_is_there(arg->node))
		return ENXIO;
	if (arg->flags & RXD_CREATE_RESERVE && arg->size > system_ram_available())
		return ENOSPC;
	return 0;
}

/**
 * dry_run_create - ask whether a RAM disk can be made, and print how
 * @fd: the control node; -1: the module is not loaded
 * @arg: the argument
 *
 * Return: 0, or the errno of RXD_CREATE.
 */
int dry_run_create(int fd, const struct rxd_create *arg)
{
	struct rxd_create question = *arg;
	bool asked = can_ask(fd);
	int err;

	question.flags |= RXD_DRY_RUN;
	err = asked ? ask(fd, RXD_CREATE, &question) : guess_create(fd, arg);
	if (err)
		return err;
	if (!asked)
		note_not_asked(fd);
	if (fd < 0)
		puts("modprobe rxd");
	print_create(arg);
	return 0;
}

/**
 * dry_run_resize - ask whether a RAM disk can be resized, and print how
 * @fd: the control node
 * @arg: the argument
 *
 * Return: 0, or the errno of RXD_RESIZE.
 */
int dry_run_resize(int fd, const struct rxd_resize *arg)
{
	static const char *const flags[] = { "RXD_RESIZE_FORCE", "RXD_RESIZE_OVERCOMMIT" };
	struct rxd_resize question = *arg;
	bool asked = can_ask(fd);
	int err;

	question.flags |= RXD_DRY_RUN;
	err = asked ? ask(fd, RXD_RESIZE, &question) : 0;
	if (err)
		return err;
	if (!asked)
		note_not_asked(fd);
	begin("RXD_RESIZE", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", index=%d, size=%llu})\n", arg->index, (unsigned long long)arg->size);
	return 0;
}

/* Remove and clear: as control_idle() does it, and so with its errors. */
static enum exit_code ask_idle(int fd, unsigned long request, const void *arg,
			       const struct device *dev, int index)
{
	enum exit_code ret;

	if (can_ask(fd))
		return control_idle(fd, request, arg, dev);
	ret = control_idle_check(fd, index, dev);
	if (!ret)
		note_not_asked(fd);
	return ret;
}

/**
 * dry_run_remove - ask whether a RAM disk can be removed, and print how, or report why not
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 */
enum exit_code dry_run_remove(int fd, const struct device *dev, int index)
{
	const struct rxd_remove arg = {
		.version = control_abi(),
		.flags = RXD_DRY_RUN,
		.index = index,
	};
	enum exit_code ret = ask_idle(fd, RXD_REMOVE, &arg, dev, index);

	if (!ret) {
		begin("RXD_REMOVE", arg.version);
		printf("0, index=%d})\n", index);
	}
	return ret;
}

/**
 * dry_run_clear - ask whether a RAM disk can be cleared, and print how, or report why not
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 */
enum exit_code dry_run_clear(int fd, const struct device *dev, int index)
{
	const struct rxd_clear arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_DRY_RUN,
		.index = index,
	};
	enum exit_code ret = ask_idle(fd, RXD_CLEAR, &arg, dev, index);

	if (!ret) {
		begin("RXD_CLEAR", arg.version);
		printf("0, index=%d})\n", index);
	}
	return ret;
}
