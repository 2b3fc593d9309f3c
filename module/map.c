// SPDX-License-Identifier: GPL-2.0-only
/*
 * RXD_MAP and RXD_CHANGED: report which ranges of a disk hold data, and which were changed.
 */
#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "check.h"
#include "compat.h"
#include "map.h"
#include "record.h"

/* Extents that are collected before they are copied to user space. */
#define BUFFER_EXTENTS	128

/* Pages that are searched for extents while the disk is locked: a part of a huge disk. */
#define PAGES_PER_STEP	BIT(23)

/**
 * struct walk - a walk over the pages of a disk
 * @rxd: the disk
 * @arg: the range, and where the extents go
 * @next: finds the next page before @end that belongs to an extent, or the next one that does not
 * @open: the last extent may go on behind the part that was walked
 * @record: the number of the record of changes that is read, or 0 if none was read yet
 * @state: the name of its state
 */
struct walk {
	struct rxd_disk *rxd;
	struct rxd_map *arg;
	unsigned long (*next)(struct rxd_store *store, unsigned long first, unsigned long end,
			      bool inside);
	bool open;
	u64 record;
	uuid_t state;
};

static unsigned long next_data(struct rxd_store *store, unsigned long first, unsigned long end,
			       bool inside)
{
	return inside ? rxd_store_find_data(store, first, end) :
			rxd_store_find_hole(store, first, end);
}

static unsigned long next_change(struct rxd_store *store, unsigned long first, unsigned long end,
				 bool inside)
{
	return rxd_record_next(rxd_store_record(store), first, end, inside);
}

static u64 end_of(const struct rxd_extent *extent)
{
	return extent->start + extent->length;
}

/*
 * Add the ranges from *@first to @end, or those of a part of it, to the @nr extents in @extents.
 * The last extent may become longer, also if there are @max.
 *
 * Return: number of extents; *@first is set to the page to continue from.
 */
static int gather(struct walk *walk, unsigned long *first, unsigned long end,
		  struct rxd_extent *extents, int nr, int max)
{
	unsigned long step_end = min(*first + PAGES_PER_STEP, end);
	struct rxd_store *store = walk->rxd->store;
	unsigned long from, to;

	while (*first < step_end && !signal_pending(current)) {
		from = walk->next(store, *first, step_end, true);
		if (nr == max && end_of(&extents[nr - 1]) != (u64)from << PAGE_SHIFT)
			break;
		*first = from;
		if (from >= step_end)
			break;
		to = walk->next(store, from, step_end, false);
		*first = to;
		/* The data may have been discarded between the two calls. */
		if (to == from)
			continue;
		if (!nr || end_of(&extents[nr - 1]) != (u64)from << PAGE_SHIFT)
			extents[nr++] = (struct rxd_extent){ .start = (u64)from << PAGE_SHIFT };
		extents[nr - 1].length += (u64)(to - from) << PAGE_SHIFT;
	}
	walk->open = nr && *first == step_end && step_end < end &&
		     end_of(&extents[nr - 1]) == (u64)step_end << PAGE_SHIFT;
	return nr;
}

/*
 * Is the record of changes the same as before? Return: 0, -ENODATA if there is none, or -EAGAIN
 * if it was replaced.
 */
static int check_record(struct walk *walk)
{
	struct rxd_record *record = rxd_store_record(walk->rxd->store);

	if (!record)
		return -ENODATA;
	if (walk->record && walk->record != record->id)
		return -EAGAIN;
	walk->record = record->id;
	uuid_copy(&walk->state, &record->state);
	return 0;
}

/* Return: 0 if the disk can be read, or a negative errno. */
static int check(struct walk *walk)
{
	lockdep_assert_held(&walk->rxd->lock);
	if (rxd_disk_is_lost(walk->rxd))
		return -EIO;
	if (walk->rxd->owner)
		return -EBUSY;
	return walk->next == next_change ? check_record(walk) : 0;
}

/*
 * Call gather() under the lock of the disk, so that the disk does not shrink and no cache
 * claims it. The lock is not held for long: not for all of a huge disk, and not while user memory
 * is written.
 *
 * Return: number of extents, or a negative errno.
 */
static int gather_locked(struct walk *walk, unsigned long *first, unsigned long *end,
			 struct rxd_extent *extents, int nr, int max)
{
	struct rxd_disk *rxd = walk->rxd;
	int ret;

	ret = mutex_lock_interruptible(&rxd->lock);
	if (ret)
		return ret;
	*end = min(*end, rxd_store_nr_pages(rxd->store));
	ret = check(walk) ?: gather(walk, first, *end, extents, nr, max);
	mutex_unlock(&rxd->lock);
	return ret;
}

static int walk_parts(struct walk *walk, struct rxd_extent *buffer)
{
	struct rxd_map *arg = walk->arg;
	struct rxd_extent __user *extents = u64_to_user_ptr(arg->extents);
	unsigned long end = (arg->start + arg->length) >> PAGE_SHIFT;
	unsigned long first = arg->start >> PAGE_SHIFT;
	unsigned int room = arg->count;
	int nr = 0, kept;

	arg->count = 0;
	do {
		nr = gather_locked(walk, &first, &end, buffer, nr,
				   min_t(unsigned int, room - arg->count, BUFFER_EXTENTS));
		if (nr < 0)
			return nr;
		kept = walk->open;
		if (copy_to_user(extents + arg->count, buffer, (nr - kept) * sizeof(*buffer)))
			return -EFAULT;
		arg->count += nr - kept;
		if (kept)
			buffer[0] = buffer[nr - 1];
		nr = kept;
		if (signal_pending(current))
			return -EINTR;
		cond_resched();
	} while (first < end && arg->count < room);

	arg->next = first < end ? (u64)first << PAGE_SHIFT : arg->start + arg->length;
	return 0;
}

static int walk_disk(struct walk *walk)
{
	struct rxd_extent *buffer;
	int ret;

	buffer = kmalloc_array(BUFFER_EXTENTS, sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;
	ret = walk_parts(walk, buffer);
	kfree(buffer);
	return ret;
}

/**
 * rxd_map - handle the ioctl RXD_MAP
 * @rxd: the disk
 * @argp: the argument of the ioctl
 *
 * Return: 0 or a negative errno; see struct rxd_map.
 */
int rxd_map(struct rxd_disk *rxd, struct rxd_map __user *argp)
{
	struct rxd_map arg;
	struct walk walk = { .rxd = rxd, .arg = &arg, .next = next_data };
	int ret;

	if (copy_from_user(&arg, argp, sizeof(arg)))
		return -EFAULT;
	ret = rxd_check_map(&arg) ?: walk_disk(&walk);
	if (!ret && copy_to_user(argp, &arg, sizeof(arg)))
		ret = -EFAULT;
	return ret;
}

/**
 * rxd_changed - handle the ioctl RXD_CHANGED
 * @rxd: the disk
 * @argp: the argument of the ioctl
 *
 * Return: 0 or a negative errno; see struct rxd_changed.
 */
int rxd_changed(struct rxd_disk *rxd, struct rxd_changed __user *argp)
{
	struct walk walk = { .rxd = rxd, .next = next_change };
	struct rxd_changed arg;
	struct rxd_map map;
	int ret;

	if (copy_from_user(&arg, argp, sizeof(arg)))
		return -EFAULT;
	ret = rxd_check_changed(&arg);
	if (ret)
		return ret;
	walk.arg = &map;
	/* All extents are of one record: begin again if another one has replaced it. */
	do {
		map = (struct rxd_map) {
			.start		= arg.start,
			.length		= arg.length,
			.extents	= arg.extents,
			.count		= arg.count,
		};
		walk.record = 0;
		ret = walk_disk(&walk);
	} while (ret == -EAGAIN);
	if (ret)
		return ret;
	arg.count = map.count;
	arg.next = map.next;
	export_uuid(arg.state, &walk.state);
	return copy_to_user(argp, &arg, sizeof(arg)) ? -EFAULT : 0;
}
