// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lock, resize and reset RAM disks.
 *
 * The lock of a disk is taken before lock_take(): a clear of reserved memory may take minutes, in
 * which commands for other disks must not wait.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "device/contents.h"
#include "device/device.h"
#include "device/device_users.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "kernel/dry_run.h"
#include "kernel/ramdisk.h"

/* Return: the key of a lock. The numbers of devices and lock_take() have other keys. */
uint64_t disk_lock_key(const char *sequence, enum disk_lock what)
{
	return UINT64_C(1) << what | (sequence ? strtoull(sequence, NULL, 10) : 0);
}

/**
 * disk_lock - wait until no other rxadm does the same with a RAM disk
 * @dev: the disk
 * @sequence: its disk_sequence(); it is an error if this is not the same after the wait
 * @what: what the caller does until disk_unlock()
 */
enum exit_code disk_lock(const struct device *dev, const char *sequence, enum disk_lock what)
{
	enum exit_code ret = lock_take_one(disk_lock_key(sequence, what), dev->path);

	if (ret)
		return ret;
	ret = disk_check_same(dev, sequence);
	if (ret)
		disk_unlock(sequence, what);
	return ret;
}

void disk_unlock(const char *sequence, enum disk_lock what)
{
	lock_give_one(disk_lock_key(sequence, what));
}

/**
 * disk_empty_begin - let no save of a RAM disk begin, and suspend its list of images
 * @dev: the disk
 * @sequence: its disk_sequence(); the caller has DISK_LOCK_DATA
 *
 * If this process is killed before disk_empty_end(), a part of the data may be left.
 */
enum exit_code disk_empty_begin(const struct device *dev, const char *sequence)
{
	enum exit_code ret = lock_take_one(disk_lock_key(sequence, DISK_LOCK_EMPTY), dev->path);

	if (ret)
		return ret;
	ret = disk_images_suspend(sequence);
	if (ret)
		disk_unlock(sequence, DISK_LOCK_EMPTY);
	return ret;
}

/**
 * disk_empty_end - undo disk_empty_begin()
 * @sequence: as there
 * @emptied: the disk may replace none of its images any more
 */
enum exit_code disk_empty_end(const char *sequence, bool emptied)
{
	enum exit_code ret = EXIT_OK;

	if (emptied)
		ret = disk_images_forget(sequence);
	else
		disk_images_restore(sequence);
	disk_unlock(sequence, DISK_LOCK_EMPTY);
	return ret;
}

/* Report if another process is between disk_empty_begin() and disk_empty_end(). */
enum exit_code disk_check_emptying(const struct device *dev, const char *sequence)
{
	pid_t holder;

	return lock_is_held(disk_lock_key(sequence, DISK_LOCK_EMPTY), &holder) ?
	       report(EXIT_BUSY, "%s '%s': process %d is discarding its data", dev->what, dev->path,
		      (int)holder) : EXIT_OK;
}

static enum exit_code check_contents(int fd, const struct device *dev, int index,
				     const struct resize_request *request, char **unknown)
{
	struct rxd_query query;

	if (request->flags & RXD_RESIZE_FORCE ||
	    control_query(fd, index, 0, &query) || query.state & RXD_STATE_CACHE ||
	    request->size >= query.size)
		return EXIT_OK;
	return contents_check(dev, request->size, request->size_text, unknown);
}

/* The driver returns the same error for the limit of the disk and for the memory left. */
static enum exit_code reserve_error(int fd, const struct device *dev,
				    const struct resize_request *request, int index)
{
	char limit[SIZE_TEXT_MAX];
	struct rxd_query query;

	if (control_query(fd, index, 0, &query) || !query.mem_limit ||
	    query.mem_limit >= request->size)
		return control_reserve_error(request->size_text);
	return report(EXIT_MEMORY,
		      "%s '%s': is reserved, and its memory limit is %s (%llu bytes), less than the size '%s' (%llu bytes); raise it with 'rxadm limit' first",
		      dev->what, dev->path, size_format(query.mem_limit, limit),
		      (unsigned long long)query.mem_limit, request->size_text,
		      (unsigned long long)request->size);
}

static enum exit_code grown_error(const struct device *dev, const struct resize_request *request)
{
	return report(EXIT_BUSY,
		      "%s '%s': another process has resized it to more than %llu bytes; not resized by '%s'",
		      dev->what, dev->path, (unsigned long long)request->size, request->size_text);
}

static enum exit_code resize(int fd, const struct device *dev, int index,
			     const struct resize_request *request)
{
	struct rxd_resize arg = {
		.version = RXD_ABI_VERSION,
		.flags = request->flags & ~(request->grow ? RXD_RESIZE_FORCE : 0),
		.index = index,
		.size = request->size,
	};
	struct rxd_query query;
	int err;

	if (request->dry_run) {
		err = dry_run_resize(fd, &arg, request->quiet);
	} else {
		if (waits_are_told() && !control_query(fd, index, 0, &query) &&
		    query.state & RXD_STATE_RESERVED && arg.size != query.size)
			report(EXIT_OK, "waiting until the memory of '%s' is %s", dev->path,
			       arg.size > query.size ? "reserved" : "searched for data");
		err = ioctl(fd, RXD_RESIZE, &arg) ? errno : 0;
	}
	if (request->grow && (err == EBUSY || err == ENOTEMPTY) &&
	    !control_query(fd, index, 0, &query) && query.size > arg.size)
		return grown_error(dev, request);
	switch (err) {
	case 0:
		return EXIT_OK;
	case EBUSY:
		return control_resize_busy(fd, dev, &arg);
	case ENOTEMPTY:
		return report(EXIT_BUSY,
			      "%s '%s': holds data beyond the new end '%s' (%llu bytes); %s discards it",
			      dev->what, dev->path, request->size_text,
			      (unsigned long long)request->size,
			      advice("--force", "'rxadm resize --force'"));
	case ERANGE:
		return control_share_error(fd, request->size_text, request->size, index,
					   request->for_cache && request->grow ?
					   "remove another RAM disk" : NULL);
	case ENOSPC:
		return reserve_error(fd, dev, request, index);
	default:
		return control_error(err, dev->path);
	}
}

static void note_cache(int fd, const struct device *dev, int index)
{
	struct rxd_query query;
	char *users;

	if (control_query(fd, index, 0, &query) || !(query.state & RXD_STATE_CACHE))
		return;
	users = users_of(dev->number);
	report(EXIT_OK,
	       "note: %s '%s': is in use as a cache%s%s%s; to use the new size, run 'dmsetup suspend' and 'dmsetup resume'",
	       dev->what, dev->path, users ? " (" : "", users ? users : "", users ? ")" : "");
	free(users);
}

/**
 * ramdisk_resize - grow or shrink a RAM disk, or report why not
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 * @request: the new size
 */
enum exit_code ramdisk_resize(int fd, const struct device *dev, int index,
			      const struct resize_request *request)
{
	char *unknown = NULL;
	struct rxd_query old;
	enum exit_code ret;
	bool same;

	if (control_query(fd, index, 0, &old))
		old.size = 0;
	if (old.state & RXD_STATE_LOST)
		return control_clone_error(EIO, dev, "resized");
	if (request->grow && old.size > request->size)
		return grown_error(dev, request);
	same = old.size == request->size;
	ret = check_contents(fd, dev, index, request, &unknown);
	if (!ret)
		ret = resize(fd, dev, index, request);
	if (!ret && !same && !request->dry_run && !request->for_cache)
		note_cache(fd, dev, index);
	if (!ret && unknown)
		report(EXIT_OK,
		       "note: %s '%s': holds %s, whose size is unknown; only data beyond the new end was checked for",
		       dev->what, dev->path, unknown);
	free(unknown);
	return ret;
}

/**
 * ramdisk_grow - have a RAM disk grow to a size, or report why not
 * @disk: the RAM disk
 * @request: the size, with @grow
 */
enum exit_code ramdisk_grow(dev_t disk, const struct resize_request *request)
{
	char *path = device_path(disk), *sequence = disk_sequence(disk);
	struct device dev;
	enum exit_code ret;
	int control, index;

	ret = control_open(&control);
	if (ret)
		goto out;
	ret = device_find_rxd("RAM disk", path, &dev, &index);
	if (!ret) {
		ret = disk_lock(&dev, sequence, DISK_LOCK_SIZE);
		if (!ret) {
			ret = ramdisk_resize(control, &dev, index, request);
			disk_unlock(sequence, DISK_LOCK_SIZE);
		}
		device_release(&dev);
	}
	close(control);
out:
	free(sequence);
	free(path);
	return ret;
}

struct reset_request {
	const struct device *source;	/* the RAM disk with the data */
	int index;			/* its device number */
	bool force;
	bool dry_run;
};

/* Return true if a RAM disk began with the data of another one. It may have changed since. */
static bool is_clone_of(int fd, const struct device *dev, int source)
{
	char *parent = ramdisk_parent(dev->number);
	struct rxd_query query;
	bool found = false;
	char *uuid;

	if (parent && !control_query(fd, source, 0, &query)) {
		uuid = ramdisk_uuid(query.uuid);
		found = !strcmp(parent, uuid);
		free(uuid);
	}
	free(parent);
	return found;
}

/* The changes of a clone are what the user wants to discard. */
static enum exit_code check_reset(int fd, const struct device *dev, int index,
				  const struct reset_request *request, struct disk_seen *seen)
{
	bool force = request->force || is_clone_of(fd, dev, request->index);
	enum exit_code ret = control_idle_check(fd, request->index, request->source);

	return ret ? ret : disk_check_discard(fd, dev, index, force, seen);
}

static enum exit_code reset_error(int fd, int err, const struct device *dev, int index,
				  const struct reset_request *request)
{
	char dev_text[SIZE_TEXT_MAX], source_text[SIZE_TEXT_MAX];
	const struct device *source = request->source;
	struct rxd_query query, from;

	if (control_query(fd, index, 0, &query))
		return control_error(ENODEV, dev->path);
	if (control_query(fd, request->index, 0, &from))
		return control_error(ENODEV, source->path);
	switch (err) {
	case EOPNOTSUPP:
		/* The driver looks at the source first. */
		if (control_reserve_forbids(fd, request->index, 0))
			return control_reserved_error(source, from.state & RXD_STATE_RESERVED,
						      "no RAM disk can be reset to it; 'rxadm clone --expendable' makes a new RAM disk with its data");
		return control_reserved_error(dev, true,
					      "it cannot be reset; 'rxadm save' and 'rxadm load --into' copy data to it");
	case EIO:
		if (from.state & RXD_STATE_LOST)
			return control_clone_error(err, source, "the source of a reset");
		return control_clone_error(err, dev, "reset");
	case ERANGE:
		if (query.size == from.size)
			return report(EXIT_PARAMETERS,
				      "%s '%s': has logical blocks of %u bytes, but %s '%s' has %u; both must be the same",
				      dev->what, dev->path, query.logical_block_size, source->what,
				      source->path, from.logical_block_size);
		return report(EXIT_PARAMETERS,
			      "%s '%s': has %llu bytes, but %s '%s' has %llu; both must be of the same size",
			      dev->what, dev->path, (unsigned long long)query.size, source->what,
			      source->path, (unsigned long long)from.size);
	case ENOSPC:
		return report(EXIT_MEMORY,
			      "%s '%s': its memory limit is %s, but the data of '%s' takes %s; raise it with 'rxadm limit'",
			      dev->what, dev->path, size_format(query.mem_limit, dev_text),
			      source->path, size_format(from.mem_used, source_text));
	default:
		return control_clone_error(err, dev, "reset");
	}
}

/* The records must say what the disk holds, also if a signal arrives. */
static enum exit_code try_reset(int fd, const struct device *dev, const char *diskseq,
				const uint8_t *uuid, struct rxd_reset *arg, int *err)
{
	enum exit_code ret;

	signals_block();
	ret = disk_empty_begin(dev, diskseq);
	if (!ret) {
		*err = ioctl(fd, RXD_RESET, arg) ? errno : 0;
		ret = disk_empty_end(diskseq, !*err);
		if (!*err)
			disk_unfinished_end(uuid);
	}
	signals_allow();
	return ret;
}

/* The driver refuses if the disk was written to or replaced after the check. */
static enum exit_code reset(int fd, const struct device *dev, int index, const char *diskseq,
			    const char *source_seq, const struct reset_request *request)
{
	struct rxd_reset arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_IF_SAME,
		.index = index,
		.source = request->index,
	};
	struct disk_seen seen;
	unsigned int round = 0;
	enum exit_code ret;
	int err;

	do {
		ret = check_reset(fd, dev, index, request, &seen);
		if (!ret)
			ret = disk_check_same(dev, diskseq);
		if (!ret)
			ret = disk_check_same(request->source, source_seq);
		if (ret)
			return ret;
		arg.diskseq = seen.diskseq;
		arg.changes = seen.changes;
		if (request->dry_run)
			err = dry_run_reset(fd, &arg);
		else
			ret = try_reset(fd, dev, diskseq, seen.query.uuid, &arg, &err);
	} while (!ret && (err == EBUSY || err == ESTALE) && round++ < BUSY_ROUNDS);
	if (!ret && err)
		ret = reset_error(fd, err, dev, index, request);
	if (!ret && !request->dry_run)
		ramdisk_read_partitions(index);
	return ret;
}

static enum exit_code check_no_cache(int fd, int index, const struct device *dev)
{
	struct rxd_query query;

	return !control_query(fd, index, 0, &query) && query.state & RXD_STATE_CACHE ?
	       control_idle_check(fd, index, dev) : EXIT_OK;
}

/* The one with the lower number first: two resets must not wait for each other. */
static enum exit_code lock_both(const struct device *dev, const char *diskseq,
				const struct device *source, const char *source_seq)
{
	bool swap = diskseq && source_seq &&
		    strtoull(source_seq, NULL, 10) < strtoull(diskseq, NULL, 10);
	const char *first = swap ? source_seq : diskseq;
	enum exit_code ret;

	ret = disk_lock(swap ? source : dev, first, DISK_LOCK_DATA);
	if (ret)
		return ret;
	ret = disk_lock(swap ? dev : source, swap ? diskseq : source_seq, DISK_LOCK_DATA);
	if (ret)
		disk_unlock(first, DISK_LOCK_DATA);
	return ret;
}

static enum exit_code lock_and_reset(int fd, const struct device *dev, int index,
				     const struct reset_request *request)
{
	char *diskseq = disk_sequence(dev->number);
	char *source = disk_sequence(request->source->number);
	enum exit_code ret;

	/* 'rxadm map' of one of them may have its lock, and wait for an origin. */
	ret = check_no_cache(fd, request->index, request->source);
	if (!ret)
		ret = check_no_cache(fd, index, dev);
	if (!ret)
		ret = lock_both(dev, diskseq, request->source, source);
	if (!ret) {
		ret = reset(fd, dev, index, diskseq, source, request);
		disk_unlock(source, DISK_LOCK_DATA);
		disk_unlock(diskseq, DISK_LOCK_DATA);
	}
	free(source);
	free(diskseq);
	return ret;
}

/**
 * ramdisk_reset - replace the data of a RAM disk by that of another one, or report why not
 * @fd: the control node
 * @name: the RAM disk, as the user named it
 * @source_name: the RAM disk with the data
 * @force: discard unsaved data, too
 * @dry_run: only check, and print what would be done
 */
enum exit_code ramdisk_reset(int fd, const char *name, const char *source_name, bool force,
			     bool dry_run)
{
	struct reset_request request = { .force = force, .dry_run = dry_run };
	struct device dev, source;
	enum exit_code ret;
	int index;

	ret = device_find_rxd("device", name, &dev, &index);
	if (ret)
		return ret;
	ret = device_find_rxd("source", source_name, &source, &request.index);
	if (!ret) {
		request.source = &source;
		if (request.index == index)
			ret = report(EXIT_PARAMETERS,
				     "source '%s': is the RAM disk to be reset; give another one",
				     source.path);
		else
			ret = lock_and_reset(fd, &dev, index, &request);
		device_release(&source);
	}
	device_release(&dev);
	return ret;
}
