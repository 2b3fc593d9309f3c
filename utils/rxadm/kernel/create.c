// SPDX-License-Identifier: GPL-2.0-only
/*
 * Create RAM disks: empty ones, and clones of others, also of those in use.
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

#include "base/signals.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "device/device_users.h"
#include "device/filesystems.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "kernel/dry_run.h"

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
		return control_share_error(fd, request->size_text, request->size, -1, NULL);
	case ENOSPC:
		if (request->flags & RXD_CREATE_RESERVE)
			return control_reserve_error(request->size_text);
		return report(EXIT_BUSY, "no device number from 0 to %d is free", RXD_INDEX_MAX);
	case ENXIO:
	case EINVAL:
		/* EINVAL: the kernel may be built for fewer nodes, or the module may be older. */
		if (err == ENXIO || request->node >= 0)
			return node_error(request);
		err = request->flags & RXD_CREATE_ELASTIC ? EPROTONOSUPPORT : err;
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

/*
 * Remove a disk that was just created. @sequence: its diskseq, which no other disk has; NULL: the
 * disk is not visible to others.
 */
static enum exit_code remove_again(int fd, int index, const char *path, const char *sequence)
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
 * ramdisk_remove_made - remove a disk that this process has made, unless another one was faster
 * @fd: the control node
 * @uuid: UUID of the disk, which udev may have open
 */
enum exit_code ramdisk_remove_made(int fd, const uint8_t *uuid)
{
	enum exit_code ret = EXIT_OK;
	struct rxd_query query;
	char *path, *sequence;
	int next;

	for (next = 0; !control_query(fd, next, RXD_QUERY_NEXT, &query); next = query.index + 1) {
		if (memcmp(query.uuid, uuid, sizeof(query.uuid)))
			continue;
		path = format_text("/dev/rxd%d", query.index);
		sequence = disk_sequence(makedev(query.major, query.minor));
		/* The diskseq belongs to the disk with the UUID if it still has the number. */
		if (sequence && !control_query(fd, query.index, 0, &query) &&
		    !memcmp(query.uuid, uuid, sizeof(query.uuid)))
			ret = remove_again(fd, query.index, path, sequence);
		free(sequence);
		free(path);
		break;
	}
	return ret;
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
		remove_again(fd, index, path, NULL);
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
	if (arg.flags & RXD_CREATE_RESERVE && waits_are_told())
		report(EXIT_OK, "waiting until the memory is reserved");
	if (ioctl(fd, RXD_CREATE, &arg)) {
		err = errno;
		if (err == EEXIST && request->first_choice &&
		    !control_has_uuid(fd, request->uuid)) {
			*index = RXD_INDEX_ANY;
			return EXIT_BUSY;
		}
		return ramdisk_create_error(fd, err, request);
	}
	*index = arg.index;
	return ramdisk_complete(fd, arg.index, request->name);
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

static enum exit_code cache_error(const struct device *dev)
{
	char *users = users_of(dev->number);
	enum exit_code ret;

	ret = report(EXIT_BUSY, "%s '%s': is in use as a cache%s%s; run 'rxadm unmap' first",
		     dev->what, dev->path, users ? ", " : "", users ? users : "");
	free(users);
	return ret;
}

/* Report a disk that is gone, or that a cache has claimed. */
static enum exit_code check_source(int fd, const struct device *dev, int index, bool *open)
{
	struct rxd_query query;
	int err = control_query(fd, index, 0, &query);

	if (err)
		return control_error(err, dev->path);
	*open = query.state & RXD_STATE_OPEN;
	return query.state & RXD_STATE_CACHE ? cache_error(dev) : EXIT_OK;
}

/**
 * clone_files - find and open what is to be frozen for a clone, and report what cannot be frozen
 * @fd: the control node
 * @source: the RAM disk to be cloned
 * @request: how
 * @files: out: to be released by filesystems_close(), also after an error
 */
enum exit_code clone_files(int fd, const struct device *source,
			   const struct clone_request *request, struct filesystems *files)
{
	enum exit_code ret;
	bool open;

	*files = (struct filesystems){ 0 };
	ret = check_source(fd, source, request->source, &open);
	if (!ret && open)
		ret = filesystems_check_swap(source);
	if (ret || !open || request->create.flags & RXD_CLONE_NO_FREEZE)
		return ret;
	ret = filesystems_open(source, files);
	if (!ret && files->unfrozen)
		report(EXIT_OK,
		       "note: %s '%s': not all users can be frozen (%s); the copy has their data as after a power failure",
		       source->what, source->path, files->unfrozen);
	if (!ret && files->count && !request->create.dry_run && waits_are_told())
		report(EXIT_OK, "waiting until the file systems on '%s' are frozen", source->path);
	return ret;
}

static void tell_times(const struct device *source, const struct rxd_clone *made,
		       const struct clone_request *request, const struct filesystems *files)
{
	if (made->held_ns && !files->searched && !(request->create.flags & RXD_CLONE_NO_FREEZE))
		report(EXIT_OK,
		       "note: %s '%s': was opened meanwhile; in the copy, its data is as after a power failure",
		       source->what, source->path);
	if (waits_are_told())
		report(EXIT_OK,
		       "%s '%s': writes were held for %.3f ms, file systems were frozen for %.3f ms",
		       source->what, source->path, made->held_ns / 1e6, made->frozen_ns / 1e6);
}

/* A clone is not supported because of reserved memory, or because of a file system. */
static enum exit_code unsupported_error(int fd, const struct device *source,
					const struct clone_request *request)
{
	uint32_t expendable = request->create.flags & RXD_CLONE_EXPENDABLE;
	struct rxd_query query;
	int err;

	if (!control_reserve_forbids(fd, request->source, expendable))
		return report(EXIT_DEVICE,
			      "%s '%s': one of its file systems cannot be frozen; --no-freeze freezes none",
			      source->what, source->path);
	/* Older modules refuse all clones of reserved memory. */
	if (expendable)
		return control_clone_error(ENOTTY, source, "cloned");
	err = control_query(fd, request->source, 0, &query);
	return err ? control_error(err, source->path) :
	       control_reserved_error(source, query.state & RXD_STATE_RESERVED,
				      "a clone of it must be expendable; give --expendable");
}

/* Before the driver clones a disk in use, it writes back the page cache of the disk. */
static enum exit_code page_cache_error(int err, const struct device *source)
{
	return report(exit_code_of(err),
		      "%s '%s': the page cache cannot be written back: %s; %s only the data that is already on the disk",
		      source->what, source->path, strerror(err),
		      advice("--no-freeze copies", "'rxadm save --no-freeze' saves"));
}

static enum exit_code clone_error(int fd, int err, const struct device *source,
				  const struct clone_request *request)
{
	enum exit_code ret;
	bool open;

	switch (err) {
	case EEXIST:
		return ramdisk_create_error(fd, err, &request->create);
	case ENOSPC:
		if (!request->create.has_index && !control_has_free_index(fd))
			return ramdisk_create_error(fd, err, &request->create);
		return page_cache_error(err, source);
	case EIO:
		if (control_is_lost(fd, request->source))
			return control_clone_error(err, source, "cloned");
		return page_cache_error(err, source);
	case ERANGE:
		return control_clone_share_error(fd, source, request->create.size, 1);
	case EBUSY:
		ret = check_source(fd, source, request->source, &open);
		if (!ret)
			ret = filesystems_check_swap(source);
		return ret ? ret :
		       report(EXIT_BUSY,
			      "%s '%s': is being resized, or another program has frozen one of its file systems; 'fsfreeze -u' thaws it",
			      source->what, source->path);
	case EOPNOTSUPP:
		return unsupported_error(fd, source, request);
	default:
		return control_clone_error(err, source, "cloned");
	}
}

/**
 * clone_make - issue RXD_CLONE, or only check it
 * @fd: the control node
 * @source: the RAM disk with the data
 * @request: how
 * @files: what is to be frozen
 * @arg: out: the answer
 *
 * Another clone, or a program such as fsfreeze, may have frozen a file system for a moment: wait.
 * A module that records no changes clones without: @arg's flags then lack RXD_CLONE_TRACK.
 */
enum exit_code clone_make(int fd, const struct device *source,
			  const struct clone_request *request,
			  const struct filesystems *files, struct rxd_clone *arg)
{
	const struct create_request *create = &request->create;
	const uint8_t *state = request->state;
	unsigned int round = 0;
	int err;

	for (;;) {
		*arg = (struct rxd_clone) {
			.version = RXD_ABI_VERSION,
			.flags = create->flags,
			.source = request->source,
			.index = create->has_index ? (int)create->index : RXD_INDEX_ANY,
			.fds = files->count ? (uintptr_t)files->fds : 0,
			.nr_fds = files->count,
		};
		memcpy(arg->uuid, create->uuid, sizeof(arg->uuid));
		if (state) {
			arg->flags |= RXD_CLONE_TRACK;
			memcpy(arg->state, state, sizeof(arg->state));
		}
		if (create->dry_run)
			err = dry_run_clone(fd, arg);
		else
			err = ioctl(fd, RXD_CLONE, arg) ? errno : 0;
		if (err == EINVAL && state) {
			state = NULL;
			continue;
		}
		if (err != EBUSY || round == BUSY_ROUNDS)
			break;
		pause_for(round++, "until '%s' is released or thawed", source->path);
	}
	if (err)
		return clone_error(fd, err, source, request);
	if (!create->dry_run)
		tell_times(source, arg, request, files);
	return EXIT_OK;
}

static enum exit_code clone_one(int fd, const struct device *source,
				const struct clone_request *request,
				const struct filesystems *files, struct rxd_clone *made)
{
	enum exit_code ret = clone_make(fd, source, request, files, made);

	if (ret || request->create.dry_run)
		return ret;
	ret = ramdisk_complete(fd, made->index, request->create.name);
	if (!ret) {
		ramdisk_read_partitions(made->index);
		disk_unfinished_end(made->uuid);
	}
	return ret;
}

/* Refuse too many clones before the first is made. The driver checks each of them again. */
static enum exit_code check_clones(int fd, const struct device *source,
				   struct clone_request *request)
{
	const uint32_t unlimited = RXD_CREATE_OVERCOMMIT | RXD_CLONE_EXPENDABLE;
	struct rxd_query query;
	int err = control_query(fd, request->source, 0, &query);

	if (err)
		return control_error(err, source->path);
	request->create.size = query.size;
	/* The driver first refuses clones of reserved memory that are not expendable. */
	if (request->count > 1 && !(request->create.flags & unlimited) &&
	    query.size * request->count > control_share_left(fd, -1) &&
	    !control_reserve_forbids(fd, request->source, 0))
		return control_clone_share_error(fd, source, query.size, request->count);
	return request->create.name ? ramdisk_name_check(request->create.name) : EXIT_OK;
}

/**
 * ramdisk_clone - create RAM disks with the data of another one, all or none
 * @fd: the control node
 * @source: the RAM disk with the data
 * @request: how
 * @made: out: the clones, unless @request is for a dry run; room for as many as requested
 *
 * The caller blocks signals. If one arrives, no clone remains, which is not reported.
 */
enum exit_code ramdisk_clone(int fd, const struct device *source, struct clone_request *request,
			     struct rxd_clone *made)
{
	const struct create_request *create = &request->create;
	enum exit_code ret = check_clones(fd, source, request);
	struct filesystems files = { 0 };
	unsigned int count;

	if (!ret)
		ret = clone_files(fd, source, request, &files);
	for (count = 0; !ret && count < request->count && !signals_pending(); count++) {
		ret = clone_one(fd, source, request, &files, &made[count]);
		if (ret)
			break;
		if (create->dry_run && create->name)
			printf("echo '%s' > '/sys/block/rxdN/rxd/name'\n", create->name);
	}
	filesystems_close(&files);
	if (!ret && signals_pending())
		ret = EXIT_BUSY;
	while (ret && !create->dry_run && count)
		ramdisk_remove_made(fd, made[--count].uuid);
	return ret;
}
