// SPDX-License-Identifier: GPL-2.0-only
/*
 * For --dry-run, let the driver check an ioctl without executing it, and print the call.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/dry_run.h"

static const char *const same_flags[] = { "RXD_IF_SAME" };

/* Print the names of the bits that are set. @names is in the order of the bits. */
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

static void print_begin(const char *request, uint32_t version)
{
	printf("ioctl(/dev/" RXD_CONTROL_NAME ", %s, {version=%u, flags=", request, version);
}

/* Print the end of the argument of an ioctl with RXD_IF_SAME. */
static void print_seen(uint64_t diskseq, uint64_t changes)
{
	printf(", diskseq=%llu, changes=", (unsigned long long)diskseq);
	if (changes == RXD_CHANGES_ANY)
		puts("RXD_CHANGES_ANY})");
	else
		printf("%llu})\n", (unsigned long long)changes);
}

static void print_create(const struct rxd_create *arg)
{
	static const char *const flags[] = {
		"RXD_CREATE_OVERCOMMIT", "RXD_CREATE_RESERVE", "RXD_CREATE_DETECT_ZEROES",
		"RXD_CREATE_ELASTIC",
	};
	char *uuid = ramdisk_uuid(arg->uuid);

	print_begin("RXD_CREATE", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", index=%d, logical_block_size=%u, size=%llu, mem_limit=%llu", arg->index,
	       arg->logical_block_size, (unsigned long long)arg->size,
	       (unsigned long long)arg->mem_limit);
	printf(", folio_size=%u, node=%d, uuid=%s})\n", arg->folio_size, arg->node, uuid);
	free(uuid);
}

/* A module that does not know RXD_DRY_RUN refuses it, whether the disk exists or not. */
static bool can_ask(int fd)
{
	/* The ioctl waits for operations on the disk: use the number that is most likely free. */
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

static bool noted;

/* Print the next note, although one was printed before. */
void dry_run_begin(void)
{
	noted = false;
}

/* Print the note only once, even if several calls are printed. */
static void note_not_asked(int fd)
{
	if (!noted)
		report(EXIT_OK, "note: the driver did not check this, because the module rxd %s",
		       fd < 0 ? "is not loaded" : "is older than rxadm");
	noted = true;
}

/* Check a creation as far as possible without the driver. Return: 0 or an errno. */
static int guess_create(int fd, const struct rxd_create *arg)
{
	if (!(arg->flags & (RXD_CREATE_OVERCOMMIT | RXD_CREATE_ELASTIC)) &&
	    arg->size > control_share_left(fd, -1))
		return ERANGE;
	if (arg->node >= 0 && !system_has_node(arg->node))
		return ENXIO;
	if (arg->flags & RXD_CREATE_RESERVE && arg->size > system_ram_available())
		return ENOSPC;
	return 0;
}

/**
 * dry_run_check_create - check whether a RAM disk can be created
 * @fd: the control node; -1: the module is not loaded
 * @arg: the argument
 *
 * Return: 0, or the errno of RXD_CREATE.
 */
int dry_run_check_create(int fd, const struct rxd_create *arg)
{
	struct rxd_create question = *arg;
	bool asked = can_ask(fd);
	int err;

	question.flags |= RXD_DRY_RUN;
	err = asked ? ask(fd, RXD_CREATE, &question) : guess_create(fd, arg);
	if (!asked)
		note_not_asked(fd);
	return err;
}

/* Print the ioctl that creates a RAM disk, unless dry_run_check_create() fails. */
int dry_run_create(int fd, const struct rxd_create *arg)
{
	int err = dry_run_check_create(fd, arg);

	if (err)
		return err;
	if (fd < 0)
		puts("modprobe rxd");
	print_create(arg);
	return 0;
}

/**
 * dry_run_resize - check whether a RAM disk can be resized, and print the ioctl
 * @fd: the control node
 * @arg: the argument
 * @quiet: do not print the ioctl
 *
 * Return: 0, or the errno of RXD_RESIZE.
 */
int dry_run_resize(int fd, const struct rxd_resize *arg, bool quiet)
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
	if (quiet)
		return 0;
	print_begin("RXD_RESIZE", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", index=%d, size=%llu})\n", arg->index, (unsigned long long)arg->size);
	return 0;
}

/**
 * dry_run_discard - check whether a RAM disk can be removed or cleared, and print the ioctl
 * @fd: the control node
 * @command: RXD_REMOVE or RXD_CLEAR
 * @arg: its argument, see control_discard()
 *
 * Return: 0, or the errno of the ioctl.
 */
int dry_run_discard(int fd, unsigned long command, const struct rxd_remove *arg)
{
	struct rxd_remove question = *arg;
	bool asked = can_ask(fd);
	int err;

	question.flags |= RXD_DRY_RUN;
	err = asked ? control_discard(fd, command, &question) : 0;
	if (err)
		return err;
	if (!asked)
		note_not_asked(fd);
	print_begin(command == RXD_REMOVE ? "RXD_REMOVE" : "RXD_CLEAR", arg->version);
	print_flags(arg->flags, same_flags, ARRAY_SIZE(same_flags));
	printf(", index=%d", arg->index);
	print_seen(arg->diskseq, arg->changes);
	return 0;
}

static void print_files(const struct rxd_clone *arg)
{
	const int32_t *fds = (const int32_t *)(uintptr_t)arg->fds;
	char file[PATH_MAX];
	ssize_t length;
	uint32_t i;
	char *path;

	for (i = 0; i < arg->nr_fds; i++) {
		path = format_text("/proc/self/fd/%d", fds[i]);
		length = readlink(path, file, sizeof(file));
		free(path);
		printf("%s%.*s", i ? ", " : ", fds=[", length > 0 ? (int)length : 1,
		       length > 0 ? file : "?");
	}
	if (arg->nr_fds)
		putchar(']');
}

/**
 * dry_run_clone - check whether a RAM disk can be cloned, and print the ioctl
 * @fd: the control node
 * @arg: the argument
 *
 * All modules with RXD_CLONE know RXD_DRY_RUN.
 *
 * Return: 0, or the errno of RXD_CLONE.
 */
int dry_run_clone(int fd, const struct rxd_clone *arg)
{
	/* By bit: the flags that RXD_CLONE does not take are never set. */
	static const char *const flags[] = {
		[0] = "RXD_CREATE_OVERCOMMIT", [8] = "RXD_CLONE_READ_ONLY",
		[9] = "RXD_CLONE_EXPENDABLE", [10] = "RXD_CLONE_NO_FREEZE",
	};
	struct rxd_clone question = *arg;
	char *uuid;
	int err;

	question.flags |= RXD_DRY_RUN;
	err = ask(fd, RXD_CLONE, &question);
	if (err)
		return err;
	uuid = ramdisk_uuid(arg->uuid);
	print_begin("RXD_CLONE", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", source=%d, index=%d, uuid=%s", arg->source, arg->index, uuid);
	print_files(arg);
	puts("})");
	free(uuid);
	return 0;
}

/**
 * dry_run_reset - check whether a RAM disk can be reset to another one, and print the ioctl
 * @fd: the control node
 * @arg: the argument
 *
 * Return: 0, or the errno of RXD_RESET.
 */
int dry_run_reset(int fd, const struct rxd_reset *arg)
{
	struct rxd_reset question = *arg;
	int err;

	question.flags |= RXD_DRY_RUN;
	err = ask(fd, RXD_RESET, &question);
	if (err)
		return err;
	print_begin("RXD_RESET", arg->version);
	print_flags(arg->flags, same_flags, ARRAY_SIZE(same_flags));
	printf(", index=%d, source=%d", arg->index, arg->source);
	print_seen(arg->diskseq, arg->changes);
	return 0;
}
