// SPDX-License-Identifier: GPL-2.0-only
/*
 * RXD_MAP: report which ranges of a disk hold data.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "check.h"
#include "compat.h"
#include "map.h"

/* Extents that are collected before they are copied to user space. */
#define BUFFER_EXTENTS	128

/*
 * Fill @extents with the ranges of data from *@first to @end.
 *
 * Return: number of extents; *@first is set to the page to continue from.
 */
static int gather(struct rxd_store *store, unsigned long *first, unsigned long end,
		  struct rxd_extent *extents, int max)
{
	unsigned long data, hole;
	int nr = 0;

	while (nr < max && *first < end && !signal_pending(current)) {
		data = rxd_store_next_data(store, *first);
		if (data >= end) {
			*first = end;
			break;
		}
		hole = min(rxd_store_next_hole(store, data), end);
		*first = hole;
		/* The data may have been discarded between the two calls. */
		if (hole == data)
			continue;
		extents[nr].start = (u64)data << PAGE_SHIFT;
		extents[nr].length = (u64)(hole - data) << PAGE_SHIFT;
		nr++;
	}
	return nr;
}

/*
 * Call gather() under the lock of the disk, so that the disk does not shrink and no cache
 * claims it. The lock is not held while user memory is written, which may take any time.
 *
 * Return: number of extents, or a negative errno.
 */
static int gather_locked(struct rxd_disk *rxd, unsigned long *first, unsigned long *end,
			 struct rxd_extent *extents, int max)
{
	int ret;

	ret = mutex_lock_interruptible(&rxd->lock);
	if (ret)
		return ret;
	*end = min(*end, rxd_store_nr_pages(rxd->store));
	if (rxd_disk_is_lost(rxd))
		ret = -EIO;
	else
		ret = rxd->owner ? -EBUSY : gather(rxd->store, first, *end, extents, max);
	mutex_unlock(&rxd->lock);
	return ret;
}

static int walk(struct rxd_disk *rxd, struct rxd_map *arg, struct rxd_extent *buffer)
{
	struct rxd_extent __user *extents = u64_to_user_ptr(arg->extents);
	unsigned long end = (arg->start + arg->length) >> PAGE_SHIFT;
	unsigned long first = arg->start >> PAGE_SHIFT;
	unsigned int room = arg->count;
	int nr;

	arg->count = 0;
	do {
		nr = gather_locked(rxd, &first, &end, buffer,
				   min_t(unsigned int, room - arg->count, BUFFER_EXTENTS));
		if (nr < 0)
			return nr;
		if (copy_to_user(extents + arg->count, buffer, nr * sizeof(*buffer)))
			return -EFAULT;
		arg->count += nr;
		if (signal_pending(current))
			return -EINTR;
	} while (first < end && arg->count < room);

	arg->next = first < end ? (u64)first << PAGE_SHIFT : arg->start + arg->length;
	return 0;
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
	struct rxd_extent *buffer;
	struct rxd_map arg;
	int ret;

	if (copy_from_user(&arg, argp, sizeof(arg)))
		return -EFAULT;
	ret = rxd_check_map(&arg);
	if (ret)
		return ret;

	buffer = kmalloc_array(BUFFER_EXTENTS, sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;

	ret = walk(rxd, &arg, buffer);
	if (!ret && copy_to_user(argp, &arg, sizeof(arg)))
		ret = -EFAULT;
	kfree(buffer);
	return ret;
}
