// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ask the driver which ranges of a RAM disk have memory, which were changed, and which it does not
 * share with another one; compare the data of two RAM disks; begin and end the record of changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/rxd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/error.h"
#include "base/text.h"
#include "copy/copy.h"
#include "copy/file.h"
#include "device/device.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"
#include "kernel/extents.h"

#define AT_ONCE	4096

/* --compare reads this many bytes at once, and compares blocks of the size COMPARE_BLOCK. */
#define COMPARE_AT_ONCE	((size_t)1 << 20)
#define COMPARE_BLOCK	4096

/**
 * extents_begin - prepare to ask for extents
 * @extents: out
 * @fd: the disk
 * @size: its size in bytes
 * @changed: those that were changed, by the record of changes; otherwise, those with memory
 */
void extents_begin(struct extents *extents, int fd, uint64_t size, bool changed)
{
	*extents = (struct extents){ .fd = fd, .size = size, .changed = changed };
	extents->array = zeroed_array(AT_ONCE, sizeof(*extents->array));
}

void extents_end(struct extents *extents)
{
	free(extents->array);
	extents->array = NULL;
}

static int map(struct extents *extents, uint64_t from)
{
	struct rxd_map arg = {
		.version = control_abi(),
		.start = from,
		.length = extents->size - from,
		.extents = (uintptr_t)extents->array,
		.count = AT_ONCE,
	};

	if (ioctl(extents->fd, RXD_MAP, &arg))
		return errno;
	extents->count = arg.count;
	extents->end = arg.next;
	return 0;
}

static int ask_changed(int fd, struct rxd_changed *arg)
{
	arg->version = RXD_ABI_VERSION;
	return ioctl(fd, RXD_CHANGED, arg) ? errno : 0;
}

static int changed(struct extents *extents, uint64_t from)
{
	struct rxd_changed arg = {
		.start = from,
		.length = extents->size - from,
		.extents = (uintptr_t)extents->array,
		.count = AT_ONCE,
	};
	int err = ask_changed(extents->fd, &arg);

	extents->count = arg.count;
	extents->end = arg.next;
	return err;
}

/* Get the next part. */
static int get_more(struct extents *extents, uint64_t from)
{
	int err = extents->changed ? changed(extents, from) : map(extents, from);

	extents->begin = from;
	extents->next = 0;
	return !err && extents->end <= from ? EIO : err;
}

/**
 * extents_find - find the next extent, or the rest of one
 * @extents: the extents
 * @from: offset on the disk to start at
 * @found: out: the part from @from on; its length is 0 if there is none
 *
 * Return: 0 or an errno.
 */
int extents_find(struct extents *extents, uint64_t from, struct image_extent *found)
{
	const struct rxd_extent *extent;
	int err;

	*found = (struct image_extent){ 0 };
	if (from < extents->begin || (!extents->begin && !extents->end))
		extents->end = from;
	for (;;) {
		/* The last one that was found may be asked for again. */
		while (extents->next && extents->end > from &&
		       extents->array[extents->next - 1].start +
		       extents->array[extents->next - 1].length > from)
			extents->next--;
		for (; extents->end > from && extents->next < extents->count; extents->next++) {
			extent = &extents->array[extents->next];
			if (extent->start + extent->length <= from)
				continue;
			found->start = extent->start > from ? extent->start : from;
			found->length = extent->start + extent->length - found->start;
			return 0;
		}
		if (extents->end >= extents->size)
			return 0;
		err = get_more(extents, extents->end > from ? extents->end : from);
		if (err)
			return err;
	}
}

/**
 * extents_each - call a function for each range of a RAM disk that holds data
 * @fd: the disk, open for reading
 * @each: the function, called in ascending order until it returns false
 * @data: argument of @each
 *
 * Return: 0 or an errno; EBUSY: it is in use as a cache.
 */
int extents_each(int fd, bool (*each)(void *data, const struct rxd_extent *extent), void *data)
{
	struct extents extents;
	struct rxd_extent extent;
	struct image_extent found;
	bool more = true;
	int err;

	extents_begin(&extents, fd, RXD_SIZE_MAX, false);
	err = extents_find(&extents, 0, &found);
	while (!err && more && found.length) {
		extent = (struct rxd_extent){ found.start, found.length };
		more = each(data, &extent);
		if (more)
			err = extents_find(&extents, found.start + found.length, &found);
	}
	extents_end(&extents);
	return err;
}

struct disk {
	struct device dev;
	int index;
	int fd;
	char *data;	/* buffer for --compare */
};

static enum exit_code open_disk(struct disk *disk, const char *what, const char *name,
				bool compare)
{
	enum exit_code ret;

	ret = device_find_rxd(what, name, &disk->dev, &disk->index);
	if (ret)
		return ret;
	/* Read what is on the disk, past the page cache. */
	disk->fd = open(disk->dev.path, O_RDONLY | O_CLOEXEC | (compare ? O_DIRECT : 0));
	if (disk->fd < 0)
		return report(exit_code_of(errno), "%s '%s': cannot be opened: %s", what,
			      disk->dev.path, strerror(errno));
	disk->data = compare ? aligned_alloc(COPY_ALIGN, COMPARE_AT_ONCE) : NULL;
	return compare && !disk->data ? report(EXIT_MEMORY, "out of memory") : EXIT_OK;
}

static void close_disk(struct disk *disk)
{
	if (disk->fd >= 0)
		close(disk->fd);
	free(disk->data);
	device_release(&disk->dev);
}

/**
 * ramdisk_extents - list the ranges of a RAM disk that hold data, or report why not
 * @name: the disk, as the user named it
 * @each: called for each range in ascending order, until it returns false
 * @data: argument of @each
 */
enum exit_code ramdisk_extents(const char *name,
			       bool (*each)(void *data, const struct rxd_extent *extent),
			       void *data)
{
	struct disk disk = { .fd = -1 };
	enum exit_code ret;
	int err = 0;

	ret = open_disk(&disk, "device", name, false);
	if (!ret)
		err = extents_each(disk.fd, each, data);
	if (err == EBUSY)
		ret = report(EXIT_BUSY,
			     "%s '%s': is in use as a cache; 'rxadm status' shows what it holds",
			     disk.dev.what, disk.dev.path);
	else if (err)
		ret = control_error(err, disk.dev.path);
	close_disk(&disk);
	return ret;
}

struct diff {
	struct disk disk;
	struct disk base;
	bool compare;
	bool (*each)(void *data, const struct rxd_extent *extent);
	void *data;
	struct rxd_extent found;	/* @each does not know it yet; length 0: none */
	bool any;			/* a range was found */
	enum exit_code ret;
};

static void tell_found(struct diff *diff)
{
	if (!diff->found.length)
		return;
	diff->each(diff->data, &diff->found);
	diff->any = true;
}

static void add_range(struct diff *diff, uint64_t start, uint64_t length)
{
	if (diff->found.length && diff->found.start + diff->found.length == start) {
		diff->found.length += length;
		return;
	}
	tell_found(diff);
	diff->found = (struct rxd_extent){ start, length };
}

/* Fill the part beyond the end of the smaller disk with zeros. */
static enum exit_code read_part(struct disk *disk, uint64_t start, size_t length)
{
	size_t done;
	int err;

	err = file_read(disk->fd, disk->data, length, start, &done);
	if (err)
		return report(exit_code_of(err), "%s '%s': cannot be read: %s", disk->dev.what,
			      disk->dev.path, strerror(err));
	memset(disk->data + done, 0, length - done);
	return EXIT_OK;
}

static enum exit_code compare_part(struct diff *diff, uint64_t start, size_t length)
{
	enum exit_code ret;
	size_t at;

	ret = read_part(&diff->disk, start, length);
	if (!ret)
		ret = read_part(&diff->base, start, length);
	for (at = 0; !ret && at < length; at += COMPARE_BLOCK)
		if (memcmp(diff->disk.data + at, diff->base.data + at, COMPARE_BLOCK))
			add_range(diff, start + at, COMPARE_BLOCK);
	return ret;
}

static bool add_extent(struct diff *diff, const struct rxd_extent *extent)
{
	uint64_t start = extent->start, end = start + extent->length, part;

	if (!diff->compare)
		add_range(diff, start, extent->length);
	for (; diff->compare && !diff->ret && start < end; start += part) {
		part = end - start < COMPARE_AT_ONCE ? end - start : COMPARE_AT_ONCE;
		diff->ret = compare_part(diff, start, part);
	}
	return !diff->ret;
}

/*
 * Look at each range that the disks do not share. Return: 0 or an errno; EBUSY: one of the disks is
 * in use as a cache; ENOTTY: the module is too old.
 */
static int each_unshared(struct diff *diff, uint64_t *shared)
{
	struct rxd_extent *extents = zeroed_array(AT_ONCE, sizeof(*extents));
	uint64_t start = 0;
	bool more = true;
	int err = 0;
	uint32_t i;

	*shared = 0;
	while (more && start < RXD_SIZE_MAX) {
		struct rxd_diff arg = {
			.version = RXD_ABI_VERSION,
			.start = start,
			.length = RXD_SIZE_MAX - start,
			.extents = (uintptr_t)extents,
			.count = AT_ONCE,
			.base = diff->base.fd,
		};

		if (ioctl(diff->disk.fd, RXD_DIFF, &arg)) {
			if (errno == EINTR)
				continue;
			err = errno;
			break;
		}
		for (i = 0; more && i < arg.count; i++)
			more = add_extent(diff, &extents[i]);
		*shared += arg.shared;
		start = arg.next;
	}
	free(extents);
	return err;
}

static bool is_lost(const struct device *dev)
{
	char *state = sysfs_read(dev->number, "rxd/state");
	bool lost = state && strstr(state, "lost");

	free(state);
	return lost;
}

static enum exit_code diff_error(int err, const struct diff *diff)
{
	const struct device *dev = &diff->disk.dev, *base = &diff->base.dev;

	if (err == EIO && is_lost(base))
		dev = base;
	if (err == EBUSY)
		return report(EXIT_BUSY,
			      "%s '%s' or %s '%s': is in use as a cache; 'rxadm list' shows which",
			      dev->what, dev->path, base->what, base->path);
	return control_clone_error(err, dev, "compared with another one");
}

static enum exit_code find_diff(struct diff *diff)
{
	uint64_t shared;
	int err;

	err = each_unshared(diff, &shared);
	if (err)
		return diff_error(err, diff);
	if (diff->ret)
		return diff->ret;
	tell_found(diff);
	if (!diff->compare && diff->any && !shared)
		report(EXIT_OK,
		       "%s '%s': shares no memory with %s '%s', so all data of both is listed; --compare lists what differs",
		       diff->disk.dev.what, diff->disk.dev.path, diff->base.dev.what,
		       diff->base.dev.path);
	return EXIT_OK;
}

/**
 * ramdisk_diff - list the ranges that two RAM disks do not share, or report why not
 * @name: the disk, as the user named it
 * @base: the disk to compare it with
 * @compare: read these ranges, and list only those that differ
 * @each: called for each range in ascending order; its result is ignored
 * @data: argument of @each
 */
enum exit_code ramdisk_diff(const char *name, const char *base, bool compare,
			    bool (*each)(void *data, const struct rxd_extent *extent), void *data)
{
	struct diff diff = {
		.disk.fd = -1,
		.base.fd = -1,
		.compare = compare,
		.each = each,
		.data = data,
	};
	enum exit_code ret;

	ret = open_disk(&diff.disk, "device", name, compare);
	if (!ret)
		ret = open_disk(&diff.base, "base", base, compare);
	if (!ret && diff.disk.index == diff.base.index)
		ret = report(EXIT_PARAMETERS,
			     "base '%s': is the RAM disk to be compared; give another one",
			     diff.base.dev.path);
	if (!ret)
		ret = find_diff(&diff);
	close_disk(&diff.disk);
	close_disk(&diff.base);
	return ret;
}

/**
 * extents_state - get the name of the state since which changes were recorded
 * @fd: the disk
 * @size: its size in bytes
 * @state: out
 *
 * Return: 0 or an errno; ENODATA: there is no record.
 */
int extents_state(int fd, uint64_t size, uint8_t *state)
{
	struct rxd_extent extent;
	struct rxd_changed arg = {
		.length = size,
		.extents = (uintptr_t)&extent,
		.count = 1,
	};
	int err = ask_changed(fd, &arg);

	memcpy(state, arg.state, sizeof(arg.state));
	return err;
}

/**
 * track_begin - record the changes of a RAM disk from now on
 * @control: the control node
 * @index: number of the disk
 * @disk: its device number
 * @state: the name of its present state; zeros: it has none, and nothing is done
 *
 * Return: 0 or an errno; EINVAL or ENOTTY: the module is older.
 */
int track_begin(int control, int index, dev_t disk, const uint8_t *state)
{
	struct rxd_track arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_IF_SAME,
		.index = index,
	};
	char *generation = disk_generation(disk);
	char *sequence = disk_sequence(disk);
	struct disk_seen seen;
	int err = 0;

	disk_note(sequence, generation, &seen);
	free(generation);
	free(sequence);
	arg.diskseq = seen.diskseq;
	arg.changes = seen.changes;
	memcpy(arg.state, state, sizeof(arg.state));
	if (!uuid_is_null(state) && ioctl(control, RXD_TRACK, &arg))
		err = errno;
	return err;
}

/**
 * track_end - end the record of changes of a RAM disk
 * @control: the control node
 * @index: number of the disk
 *
 * Return: 0 or an errno.
 */
int track_end(int control, int index)
{
	struct rxd_track arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_TRACK_STOP,
		.index = index,
	};

	return ioctl(control, RXD_TRACK, &arg) ? errno : 0;
}
