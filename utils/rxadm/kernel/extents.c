// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ask the driver which ranges of a RAM disk have memory, which were changed, and which it does not
 * share with another one; begin and end the record of changes.
 */
#include <errno.h>
#include <linux/rxd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <uuid/uuid.h>

#include "base/error.h"
#include "base/text.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"
#include "kernel/extents.h"

#define AT_ONCE	4096

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

/**
 * extents_diff - call a function for each range that two RAM disks do not share
 * @fd: the disk, open for reading
 * @base: the disk to compare with, open for reading
 * @each: the function, called in ascending order; if it returns false, the search ends
 * @data: argument of @each
 * @shared: out: bytes of data that the disks share
 *
 * Return: 0 or an errno; EBUSY: one of the disks is in use as a cache; ENOTTY: the module is too
 * old.
 */
int extents_diff(int fd, int base, bool (*each)(void *data, const struct rxd_extent *extent),
		 void *data, uint64_t *shared)
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
			.base = base,
		};

		if (ioctl(fd, RXD_DIFF, &arg)) {
			if (errno == EINTR)
				continue;
			err = errno;
			break;
		}
		for (i = 0; more && i < arg.count; i++)
			more = each(data, &extents[i]);
		*shared += arg.shared;
		start = arg.next;
	}
	free(extents);
	return err;
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
