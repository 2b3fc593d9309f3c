// SPDX-License-Identifier: GPL-2.0-only
/*
 * Create empty RAM disks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/system.h"
#include "device/device.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "kernel/dry_run.h"

#define BUSY_ROUNDS	100	/* of pause_for(): five seconds */

static enum exit_code exists_error(int fd, const struct create_request *request)
{
	struct rxd_query query;

	if (request->has_index && !control_query(fd, request->index, 0, &query))
		return report(EXIT_BUSY,
			      "index '%u': /dev/rxd%u exists; leave out %s to get a free one",
			      request->index, request->index, advice("--index", "the key index"));
	return report(EXIT_BUSY,
		      "UUID '%s': another RAM disk has it; 'rxadm list -o +UUID' shows which",
		      request->uuid_text ? request->uuid_text : "");
}

static enum exit_code node_error(const struct create_request *request)
{
	char *nodes = system_nodes();
	enum exit_code ret;

	ret = report(EXIT_PARAMETERS,
		     "node '%s': has no memory or does not exist; nodes with memory: %s",
		     request->node_text ? request->node_text : "local", nodes ? nodes : "none");
	free(nodes);
	return ret;
}

/**
 * ramdisk_create_error - report why a RAM disk could not be created
 * @fd: the control node
 * @err: errno of RXD_CREATE
 * @request: the request
 */
enum exit_code ramdisk_create_error(int fd, int err, const struct create_request *request)
{
	char *object;
	enum exit_code ret;

	switch (err) {
	case EEXIST:
		return exists_error(fd, request);
	case ERANGE:
		return control_share_error(fd, request->size_text, request->size, -1);
	case ENOSPC:
		if (request->flags & RXD_CREATE_RESERVE)
			return control_reserve_error(request->size_text);
		return report(EXIT_BUSY, "no device number from 0 to %d is free", RXD_INDEX_MAX);
	case ENXIO:
		return node_error(request);
	case EINVAL:
		/* The kernel may be built for fewer nodes. */
		if (request->node >= 0)
			return node_error(request);
		break;
	}
	object = format_text("size '%s'", request->size_text);
	ret = control_error(err, object);
	free(object);
	return ret;
}

/**
 * ramdisk_create_wait - wait for the node of a new RAM disk
 * @fd: the control node
 * @index: device number
 * @path: the node
 */
enum exit_code ramdisk_create_wait(int fd, int index, const char *path)
{
	struct rxd_query query;
	int err;

	err = control_query(fd, index, 0, &query);
	if (!err && device_wait(path, makedev(query.major, query.minor)))
		return EXIT_OK;
	if (err)
		return control_error(err, path);
	return report(EXIT_DEVICE,
		      "'%s': the device node did not appear; is devtmpfs mounted on /dev?", path);
}

/**
 * ramdisk_create_argument - return the argument of RXD_CREATE
 * @request: the request
 */
struct rxd_create ramdisk_create_argument(const struct create_request *request)
{
	struct rxd_create arg = {
		.version = RXD_ABI_VERSION,
		.flags = request->flags,
		.index = request->has_index ? (int)request->index : RXD_INDEX_ANY,
		.logical_block_size = request->logical_block_size,
		.size = request->size,
		.mem_limit = request->mem_limit,
		.folio_size = request->folio_size,
		.node = request->node,
	};

	memcpy(arg.uuid, request->uuid, sizeof(arg.uuid));
	return arg;
}

/**
 * ramdisk_remove_again - remove a disk that was just created
 * @fd: the control node
 * @index: device number
 * @path: the node
 * @sequence: diskseq of the disk, which no other disk has; NULL: the disk is not visible to others
 */
enum exit_code ramdisk_remove_again(int fd, int index, const char *path, const char *sequence)
{
	struct rxd_remove remove = { .version = RXD_ABI_VERSION, .index = index };
	unsigned int round = 0;

	if (sequence) {
		remove.flags = RXD_IF_SAME;
		remove.diskseq = strtoull(sequence, NULL, 10);
		remove.changes = RXD_CHANGES_ANY;
	}
	/* udev may be probing the disk. */
	while (ioctl(fd, RXD_REMOVE, &remove) && errno != ENODEV && errno != ESTALE) {
		if (errno != EBUSY || round == BUSY_ROUNDS)
			return report(EXIT_BUSY, "'%s': cannot be removed again: %s", path,
				      strerror(errno));
		pause_for(round++, "until '%s' is closed", path);
	}
	return EXIT_OK;
}

/**
 * ramdisk_complete - wait for the node of a new RAM disk and give it a name, or remove it again
 * @fd: the control node
 * @index: device number
 * @name: the name; NULL: none
 */
enum exit_code ramdisk_complete(int fd, int index, const char *name)
{
	char *path = format_text("/dev/rxd%d", index);
	enum exit_code ret = ramdisk_create_wait(fd, index, path);

	if (!ret && name)
		ret = ramdisk_rename(path + strlen("/dev/"), name, false);
	if (ret)
		ramdisk_remove_again(fd, index, path, NULL);
	free(path);
	return ret;
}

/**
 * ramdisk_create - create a RAM disk, with its node in /dev, or report why not
 * @fd: the control node
 * @request: the request
 * @index: out: its device number, unless @request is for a dry run; RXD_INDEX_ANY: the
 *	first choice is in use, which is not reported
 */
enum exit_code ramdisk_create(int fd, const struct create_request *request, int *index)
{
	struct rxd_create arg = ramdisk_create_argument(request);
	enum exit_code ret;
	int err;

	ret = request->name ? ramdisk_name_check(request->name) : EXIT_OK;
	if (ret)
		return ret;
	if (request->dry_run) {
		err = dry_run_create(fd, &arg);
		if (!err && request->name)
			printf("echo '%s' > '/sys/block/rxdN/rxd/name'\n", request->name);
		return err ? ramdisk_create_error(fd, err, request) : EXIT_OK;
	}
	if (ioctl(fd, RXD_CREATE, &arg)) {
		err = errno;
		if (err == EEXIST && request->first_choice &&
		    !control_has_uuid(fd, request->uuid)) {
			*index = RXD_INDEX_ANY;
			return EXIT_BUSY;
		}
		return ramdisk_create_error(fd, err, request);
	}
	ret = ramdisk_complete(fd, arg.index, request->name);
	*index = arg.index;
	return ret;
}

/**
 * ramdisk_read_partitions - let the kernel read the partition table of new data
 * @index: device number of the RAM disk
 *
 * The kernel does this when the disk is opened.
 */
void ramdisk_read_partitions(int index)
{
	char *path = format_text("/dev/rxd%d", index);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	free(path);
}
