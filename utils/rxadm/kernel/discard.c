// SPDX-License-Identifier: GPL-2.0-only
/*
 * Remove and clear RAM disks, which discards their data.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/discard.h"
#include "kernel/disk_state.h"
#include "kernel/dry_run.h"
#include "kernel/ramdisk.h"
#include "kernel/saves.h"

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
			err = dry_run_discard(fd, RXD_REMOVE, &arg);
		else
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

/*
 * Try to clear a disk. The records must say what it holds, also if a signal arrives. Reserved
 * memory is zeroed piece by piece, which may take minutes, so signals end that. What holds only a
 * part may replace no image.
 */
static enum exit_code try_clear(int fd, const struct device *dev, const char *diskseq,
				const struct rxd_query *query, struct rxd_remove *arg, int *err)
{
	const bool reserved = query->state & RXD_STATE_RESERVED;
	enum exit_code ret;

	if (!reserved)
		signals_block();
	ret = disk_empty_begin(dev, diskseq);
	if (!ret) {
		*err = control_discard(fd, RXD_CLEAR, arg);
		ret = disk_empty_end(diskseq, !*err || *err == ENOSPC);
		if (!*err)
			disk_unfinished_end(query->uuid);
	}
	if (!reserved)
		signals_allow();
	return ret;
}

/* The driver refuses if the disk was written to or replaced after the check. */
static enum exit_code clear(int fd, const struct device *dev, int index, const char *diskseq,
			    const struct discard_request *request)
{
	struct rxd_remove arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_IF_SAME,
		.index = index,
	};
	struct disk_seen seen;
	unsigned int round = 0;
	enum exit_code ret;
	int err;

	do {
		ret = disk_check_discard(fd, dev, index, request->force, &seen);
		if (!ret)
			ret = disk_check_same(dev, diskseq);
		if (ret)
			return ret;
		arg.diskseq = seen.diskseq;
		arg.changes = seen.changes;
		if (request->dry_run) {
			err = dry_run_discard(fd, RXD_CLEAR, &arg);
			continue;
		}
		if (!round && seen.query.state & RXD_STATE_RESERVED && waits_are_told())
			report(EXIT_OK, "waiting until the memory of '%s' is zeroed", dev->path);
		ret = try_clear(fd, dev, diskseq, &seen.query, &arg, &err);
	} while (!ret && (err == EBUSY || err == ESTALE) && round++ < BUSY_ROUNDS);
	if (ret || !err)
		return ret;
	if (err == ENOSPC)
		return report(EXIT_MEMORY,
			      "%s '%s': memory is short, so only a part of it was cleared; remove its clones, and run 'rxadm clear --force' again",
			      dev->what, dev->path);
	return control_error(err, dev->path);
}

/**
 * ramdisk_clear - discard all data of a RAM disk, or report why not
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 * @request: how
 */
enum exit_code ramdisk_clear(int fd, const struct device *dev, int index,
			     const struct discard_request *request)
{
	char *diskseq = request->diskseq ? copy_text(request->diskseq) : disk_sequence(dev->number);
	enum exit_code ret = disk_lock(dev, diskseq, DISK_LOCK_DATA);

	if (!ret) {
		ret = clear(fd, dev, index, diskseq, request);
		disk_unlock(diskseq, DISK_LOCK_DATA);
	}
	free(diskseq);
	return ret;
}

/**
 * ramdisk_remove_same - remove a RAM disk if it is still the same one, or report why not
 * @path: its node
 * @diskseq: its disk_sequence() at first
 */
enum exit_code ramdisk_remove_same(const char *path, const char *diskseq)
{
	const struct discard_request request = { .diskseq = diskseq };
	struct device dev;
	enum exit_code ret;
	int control, index;

	ret = control_open(&control);
	if (ret)
		return ret;
	ret = device_find_rxd("RAM disk", path, &dev, &index);
	if (!ret) {
		ret = disk_lock(&dev, diskseq, DISK_LOCK_DATA);
		if (!ret) {
			ret = ramdisk_remove(control, &dev, index, &request);
			disk_unlock(diskseq, DISK_LOCK_DATA);
		}
		device_release(&dev);
	}
	close(control);
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
	uint64_t key = disk_lock_key(sequence, DISK_LOCK_DATA);
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
	struct rxd_query query;
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
	/* Do not suggest --force for a disk that it does not help. */
	if (!ret && writes && !control_query(fd, index, 0, &query) &&
	    query.state & RXD_STATE_READONLY)
		ret = report(EXIT_DEVICE,
			     "%s '%s': is read-only; 'blockdev --setrw' makes it writable",
			     dev.what, dev.path);
	if (!ret)
		ret = disk_check_discard(fd, &dev, index, force, &seen);
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
