// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clear a RAM disk, or reset it to the data of another one.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/signals.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "kernel/dry_run.h"
#include "kernel/ramdisk.h"

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
		if (request->dry_run)
			return dry_run_discard(fd, dev, RXD_CLEAR, &arg);
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

/* The driver refuses as in clear(). */
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
