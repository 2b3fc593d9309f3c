// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lock, remove and resize RAM disks.
 *
 * The lock of a disk is taken before lock_take(): a clear of reserved memory may take minutes, in
 * which commands for other disks must not wait.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "device/device_users.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "kernel/dry_run.h"
#include "kernel/ramdisk.h"
#include "kernel/saves.h"

/* The numbers of devices and lock_take() have other keys. */
static uint64_t key_of(const char *sequence, enum disk_lock what)
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
	enum exit_code ret = lock_take_one(key_of(sequence, what), dev->path);

	if (ret)
		return ret;
	ret = disk_check_same(dev, sequence);
	if (ret)
		disk_unlock(sequence, what);
	return ret;
}

void disk_unlock(const char *sequence, enum disk_lock what)
{
	lock_give_one(key_of(sequence, what));
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
	enum exit_code ret = lock_take_one(key_of(sequence, DISK_LOCK_EMPTY), dev->path);

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

	return lock_is_held(key_of(sequence, DISK_LOCK_EMPTY), &holder) ?
	       report(EXIT_BUSY, "%s '%s': process %d is discarding its data", dev->what, dev->path,
		      (int)holder) : EXIT_OK;
}

/*
 * Check the disk and remove it. The driver refuses if the disk was written to or replaced after the
 * check: check it again then.
 */
static enum exit_code remove_checked(int fd, const struct device *dev, int index,
				     const char *diskseq, const struct discard_request *request,
				     struct disk_seen *seen)
{
	struct rxd_remove arg = {
		.version = control_abi(),
		.flags = RXD_IF_SAME,
		.index = index,
	};
	unsigned int round = 0;
	enum exit_code ret;
	int err = 0;

	do {
		ret = disk_check_discard(fd, dev, index, request->force, seen);
		if (!ret)
			ret = disk_check_same(dev, diskseq);
		if (ret)
			return ret;
		if (err == ESTALE && request->saved) {
			*request->changed = true;
			return EXIT_BUSY;
		}
		arg.diskseq = request->saved ? request->saved->diskseq : seen->diskseq;
		arg.changes = request->saved ? request->saved->changes : seen->changes;
		if (request->dry_run)
			return dry_run_discard(fd, dev, RXD_REMOVE, &arg);
		err = control_discard(fd, RXD_REMOVE, &arg);
	} while ((err == EBUSY || err == ESTALE) && round++ < BUSY_ROUNDS);
	return err ? control_error(err, dev->path) : EXIT_OK;
}

static bool is_kept(int fd, int index, const struct discard_request *request)
{
	struct rxd_query query;

	return request->is_kept && !control_query(fd, index, 0, &query) &&
	       request->is_kept(&query);
}

/**
 * ramdisk_remove - remove a RAM disk, or report why not
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 * @request: how
 */
enum exit_code ramdisk_remove(int fd, const struct device *dev, int index,
			      const struct discard_request *request)
{
	char *diskseq = request->diskseq ? copy_text(request->diskseq) : disk_sequence(dev->number);
	struct disk_seen seen;
	enum exit_code ret;

	ret = disk_check_same(dev, diskseq);
	if (!ret && !is_kept(fd, index, request)) {
		ret = remove_checked(fd, dev, index, diskseq, request, &seen);
		if (!ret && !request->dry_run)
			disk_state_forget(diskseq, seen.query.uuid);
	}
	free(diskseq);
	return ret;
}

static enum exit_code remove_locked(int fd, const char *name, const struct discard_request *request)
{
	struct device dev;
	enum exit_code ret;
	char *sequence;
	int index;

	ret = device_find_rxd("device", name, &dev, &index);
	if (ret)
		return ret;
	sequence = disk_sequence(dev.number);
	ret = disk_lock(&dev, sequence, DISK_LOCK_DATA);
	if (!ret) {
		ret = lock_take();
		if (!ret) {
			ret = ramdisk_remove(fd, &dev, index, request);
			lock_give();
		}
		disk_unlock(sequence, DISK_LOCK_DATA);
	}
	free(sequence);
	device_release(&dev);
	return ret;
}

typedef enum exit_code (*discard_fn)(int fd, const struct device *dev, int index,
				     const struct discard_request *request);

static enum exit_code find_and_discard(int fd, const char *name,
				       const struct discard_request *request,
				       discard_fn discard_it)
{
	struct device dev;
	enum exit_code ret;
	int index;

	ret = device_find_rxd("device", name, &dev, &index);
	if (ret)
		return ret;
	ret = discard_it(fd, &dev, index, request);
	device_release(&dev);
	return ret;
}

/* Remove one of all disks. It is no error if it is gone after the waits. */
static enum exit_code remove_found(int fd, const struct rxd_query *query,
				   const struct discard_request *request)
{
	dev_t number = makedev(query->major, query->minor);
	char *path = format_text("/dev/rxd%d", query->index);
	char *sequence = disk_sequence(number), *now;
	uint64_t key = key_of(sequence, DISK_LOCK_DATA);
	enum exit_code ret = EXIT_OK;

	/* A cache is refused. Its 'rxadm map' may have the lock, and wait for the origin. */
	if (!(query->state & RXD_STATE_CACHE))
		ret = lock_take_one(key, path);
	if (!ret) {
		ret = lock_take();
		if (!ret) {
			now = disk_sequence(number);
			if (now && sequence && !strcmp(now, sequence))
				ret = find_and_discard(fd, path, request, ramdisk_remove);
			free(now);
			lock_give();
		}
		lock_give_one(key);
	}
	free(sequence);
	free(path);
	return ret;
}

/*
 * Check whether the data of a disk can be discarded. @seqs has the diskseq of the @count disks
 * before it.
 */
static enum exit_code check_one(int fd, const char *name, bool force, bool writes, char **seqs,
				size_t count)
{
	struct disk_seen seen;
	struct device dev;
	enum exit_code ret;
	int index;
	size_t i;

	seqs[count] = NULL;
	ret = device_find_rxd("device", name, &dev, &index);
	if (ret)
		return ret;
	seqs[count] = disk_sequence(dev.number);
	for (i = 0; i < count; i++)
		if (seqs[i] && seqs[count] && !strcmp(seqs[i], seqs[count]))
			break;
	if (i < count)
		ret = report(EXIT_PARAMETERS, "device '%s': is given more than once", dev.path);
	else
		ret = disk_check_same(&dev, seqs[count]);
	if (!ret)
		ret = disk_check_discard(fd, &dev, index, force, &seen);
	if (!ret && writes && seen.query.state & RXD_STATE_READONLY)
		ret = control_error(EROFS, dev.path);
	device_release(&dev);
	return ret;
}

/**
 * ramdisk_remove_all - remove all RAM disks that can be removed, and report why not the others
 * @fd: the control node
 * @request: how
 *
 * Return: the exit code of the first error.
 */
enum exit_code ramdisk_remove_all(int fd, const struct discard_request *request)
{
	enum exit_code first = EXIT_OK;
	struct rxd_query query;
	enum exit_code ret;
	int next = 0;
	int err;

	if (!request->dry_run)
		save_clones_clean(fd);
	do {
		ret = EXIT_OK;
		err = control_query(fd, next, RXD_QUERY_NEXT, &query);
		if (!err) {
			ret = remove_found(fd, &query, request);
			next = query.index + 1;
		} else if (err != ENODEV) {
			ret = control_error(err, "/dev/" RXD_CONTROL_NAME);
		}
		first = first ? first : ret;
	} while (!err);
	return first;
}

/**
 * ramdisk_discard_these - remove or clear RAM disks, or none if that is refused for one
 * @fd: the control node
 * @names: their names, terminated by NULL
 * @request: how
 * @remove: remove them, and do not clear them
 *
 * If another process uses one of them after the check, the others are still changed.
 *
 * Return: the exit code of the first error.
 */
enum exit_code ramdisk_discard_these(int fd, char *const *names,
				     const struct discard_request *request, bool remove)
{
	struct discard_request each = *request;
	enum exit_code first = EXIT_OK;
	enum exit_code refused, ret;
	char **seqs = NULL;
	size_t count, i;

	/* Remove disks that the user names, even if they would be kept otherwise. */
	each.is_kept = NULL;
	for (count = 0; names[count]; count++) {
		seqs = resize_array(seqs, count + 1, sizeof(*seqs));
		ret = check_one(fd, names[count], request->force, !remove, seqs, count);
		first = first ? first : ret;
	}
	refused = first;
	for (i = 0; i < count; i++) {
		each.diskseq = seqs[i];
		/* Lock each disk alone: freeing the memory of one may take long. */
		if (refused)
			ret = refused;
		else if (remove)
			ret = remove_locked(fd, names[i], &each);
		else
			ret = find_and_discard(fd, names[i], &each, ramdisk_clear);
		first = first ? first : ret;
		free(seqs[i]);
	}
	free(seqs);
	return first;
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
		      "%s '%s': another process has just made it larger than %llu bytes; size '%s' is not added",
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
		err = dry_run_resize(fd, &arg);
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
		return control_share_error(fd, request->size_text, request->size, index);
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
	       "note: %s '%s': is in use as a cache%s%s%s; to use the new size, run 'dmsetup suspend' and 'dmsetup resume', which empties the cache",
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
	if (!ret && !same && !request->dry_run)
		note_cache(fd, dev, index);
	if (!ret && unknown)
		report(EXIT_OK,
		       "note: %s '%s': holds %s, whose size is unknown; only data beyond the new end was checked for",
		       dev->what, dev->path, unknown);
	free(unknown);
	return ret;
}
