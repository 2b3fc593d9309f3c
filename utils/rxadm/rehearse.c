// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ioctls that are not issued: what the driver would say, as far as can be known
 * without it, and how the call would look.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "machine.h"
#include "ramdisk.h"
#include "rehearse.h"

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

static bool uuid_is_taken(int fd, const uint8_t *uuid)
{
	static const uint8_t any[16];
	struct rxd_query query;
	int next;

	if (!memcmp(uuid, any, sizeof(any)))
		return false;
	for (next = 0; !control_query(fd, next, RXD_QUERY_NEXT, &query); next = query.index + 1)
		if (!memcmp(query.uuid, uuid, sizeof(query.uuid)))
			return true;
	return false;
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

static int check_create(int fd, const struct rxd_create *arg)
{
	struct rxd_query query;

	if (arg->index != RXD_INDEX_ANY && !control_query(fd, arg->index, 0, &query))
		return EEXIST;
	if (uuid_is_taken(fd, arg->uuid))
		return EEXIST;
	if (!(arg->flags & RXD_CREATE_OVERCOMMIT) && arg->size > control_share_left(fd, -1))
		return ERANGE;
	if (!node_is_there(arg->node))
		return ENXIO;
	if (arg->flags & RXD_CREATE_RESERVE && arg->size > machine_available())
		return ENOSPC;
	return 0;
}

/**
 * rehearse_create - print how a RAM disk would be made, if it can be
 * @fd: the control node; -1: the module is not loaded, there is no RAM disk
 * @arg: the argument
 *
 * Return: 0, or the errno that is to be expected.
 */
int rehearse_create(int fd, const struct rxd_create *arg)
{
	int err = check_create(fd, arg);

	if (err)
		return err;
	if (fd < 0)
		puts("modprobe rxd");
	print_create(arg);
	return 0;
}

static void note_end(void *data, const struct rxd_extent *extent)
{
	uint64_t *end = data;

	*end = extent->start + extent->length;
}

/* Where the data ends; 0 where that is not to be known. */
static uint64_t data_end(const struct device *dev)
{
	int fd = open(dev->path, O_RDONLY | O_CLOEXEC);
	uint64_t end = 0;

	if (fd < 0)
		return 0;
	ramdisk_extents(fd, note_end, &end);
	close(fd);
	return end;
}

static int check_shrink(const struct device *dev, const struct rxd_resize *arg,
			const struct rxd_query *query)
{
	if (query->state & RXD_STATE_CACHE)
		return EBUSY;
	if (arg->flags & RXD_RESIZE_FORCE)
		return 0;
	if (query->state & RXD_STATE_OPEN)
		return EBUSY;
	return data_end(dev) > arg->size ? ENOTEMPTY : 0;
}

static int check_resize(int fd, const struct device *dev, const struct rxd_resize *arg)
{
	struct rxd_query query;
	int err;

	err = control_query(fd, arg->index, 0, &query);
	if (err)
		return err;
	if (arg->size < query.size)
		return check_shrink(dev, arg, &query);
	if (arg->size > query.size && query.state & RXD_STATE_RESERVED &&
	    arg->size - query.size > machine_available())
		return ENOSPC;
	if (!(arg->flags & RXD_RESIZE_OVERCOMMIT) && !(query.state & RXD_STATE_OVERCOMMIT) &&
	    arg->size > control_share_left(fd, arg->index))
		return ERANGE;
	return 0;
}

/**
 * rehearse_resize - print how a RAM disk would be resized, if it can be
 * @fd: the control node
 * @dev: the disk
 * @arg: the argument
 *
 * Return: 0, or the errno that is to be expected.
 */
int rehearse_resize(int fd, const struct device *dev, const struct rxd_resize *arg)
{
	static const char *const flags[] = { "RXD_RESIZE_FORCE", "RXD_RESIZE_OVERCOMMIT" };
	int err = check_resize(fd, dev, arg);

	if (err)
		return err;
	begin("RXD_RESIZE", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", index=%d, size=%llu})\n", arg->index, (unsigned long long)arg->size);
	return 0;
}

/**
 * rehearse_remove - print how a RAM disk that nobody uses would be removed
 * @arg: the argument
 */
void rehearse_remove(const struct rxd_remove *arg)
{
	begin("RXD_REMOVE", arg->version);
	print_flags(arg->flags, NULL, 0);
	printf(", index=%d})\n", arg->index);
}

/**
 * rehearse_clear - print how a RAM disk that nobody uses would be cleared
 * @arg: the argument
 */
void rehearse_clear(const struct rxd_clear *arg)
{
	begin("RXD_CLEAR", arg->version);
	print_flags(arg->flags, NULL, 0);
	printf(", index=%d})\n", arg->index);
}
