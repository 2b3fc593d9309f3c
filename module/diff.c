// SPDX-License-Identifier: GPL-2.0-only
/*
 * RXD_DIFF: report which ranges of a disk are not shared with another disk.
 *
 * The walk takes no lock, because RCU keeps the directories and leaves of both disks. Disks may
 * be written, resized, cloned and claimed meanwhile.
 */
#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "check.h"
#include "map.h"
#include "store-internal.h"

/* Extents that are collected before they are copied to user space. */
#define BUFFER_EXTENTS	128

/**
 * struct walk - the comparison of two disks
 * @store: the pages of the disk
 * @base: the pages of the disk to compare with
 * @next: the page to compare next
 * @end: the end of the range
 * @shared: number of pages before @next that the disks share
 * @extents: the ranges that were found and not yet copied to user space
 * @nr: number of @extents
 * @max: number of @extents that there is room for
 */
struct walk {
	const struct rxd_store *store;
	const struct rxd_store *base;
	unsigned long next;
	unsigned long end;
	unsigned long shared;
	struct rxd_extent *extents;
	unsigned int nr;
	unsigned int max;
};

/* Return: false if there is no room. */
static bool add_page(struct walk *walk, unsigned long pgno)
{
	struct rxd_extent *last = walk->nr ? &walk->extents[walk->nr - 1] : NULL;
	u64 start = (u64)pgno << PAGE_SHIFT;

	if (last && last->start + last->length == start) {
		last->length += PAGE_SIZE;
		return true;
	}
	if (walk->nr == walk->max)
		return false;
	walk->extents[walk->nr++] = (struct rxd_extent) { .start = start, .length = PAGE_SIZE };
	return true;
}

/* Return: the leaf of a page, which is NULL beyond the capacity. */
static struct rxd_leaf *find_leaf(const struct rxd_store *store, unsigned long pgno)
{
	/* Read capacity and directory in one section: pairs with rxd_store_trim(). */
	return pgno < rxd_store_nr_pages(store) ? rxd_store_leaf(store, pgno) : NULL;
}

static struct page *find_page(const struct rxd_leaf *leaf, unsigned int i)
{
	return leaf ? rxd_plain(rcu_access_pointer(leaf->page[i])) : NULL;
}

/*
 * Compare the pages from @walk->next to the end of their leaf.
 *
 * No page can be freed and used again between the two look-ups, because both are in one RCU
 * section. So equal pointers mean that the page is shared.
 *
 * Return: false if there is no room for more extents.
 */
static bool compare_leaf(struct walk *walk)
{
	unsigned long first = walk->next;
	unsigned int i = first % RXD_PAGES_PER_LEAF;
	unsigned int end = min(RXD_PAGES_PER_LEAF, i + walk->end - first);
	bool whole = end - i == RXD_PAGES_PER_LEAF, room = true;
	struct rxd_leaf *leaf, *base;
	struct page *page;

	rcu_read_lock();
	leaf = find_leaf(walk->store, first);
	base = find_leaf(walk->base, first);
	if (leaf == base && (whole || !leaf)) {
		/* Nobody changes the pages of a leaf that is shared. */
		if (leaf)
			walk->shared += rxd_leaf_pages(leaf);
		i = end;
	}
	for (; i < end; i++) {
		page = find_page(leaf, i);
		if (page != find_page(base, i)) {
			room = add_page(walk, round_down(first, RXD_PAGES_PER_LEAF) + i);
			if (!room)
				break;
		} else if (page) {
			walk->shared++;
		}
	}
	rcu_read_unlock();

	walk->next = round_down(first, RXD_PAGES_PER_LEAF) + i;
	return room;
}

/* Do both disks have their pages? Look again after the pages were read. */
static int check_pages(const struct rxd_disk *rxd, const struct rxd_disk *base)
{
	if (READ_ONCE(rxd->owner) || READ_ONCE(base->owner))
		return -EBUSY;
	return rxd_disk_is_lost(rxd) || rxd_disk_is_lost(base) ? -EIO : 0;
}

/* Return: 0 at the end of the range, or if there is no room for more extents, or -errno. */
static int compare(struct walk *walk, struct rxd_disk *rxd, struct rxd_disk *base)
{
	bool room = true;
	int ret;

	while (room) {
		if (signal_pending(current))
			return -EINTR;
		ret = check_pages(rxd, base);
		if (ret)
			return ret;
		walk->end = min(walk->end, max(rxd_store_nr_pages(walk->store),
					       rxd_store_nr_pages(walk->base)));
		if (walk->next >= walk->end)
			break;
		room = compare_leaf(walk);
		cond_resched();
	}
	/* Pages may have gone since the last check. The mark was set before they went. */
	smp_rmb();
	return check_pages(rxd, base);
}

static int compare_disks(struct rxd_disk *rxd, struct rxd_disk *base, struct rxd_diff *arg,
			 struct rxd_extent *buffer)
{
	struct rxd_extent __user *extents = u64_to_user_ptr(arg->extents);
	struct walk walk = {
		.store = rxd->store,
		.base = base->store,
		.next = arg->start >> PAGE_SHIFT,
		.end = (arg->start + arg->length) >> PAGE_SHIFT,
		.extents = buffer,
	};
	unsigned int room = arg->count;
	int ret;

	arg->count = 0;
	do {
		walk.nr = 0;
		walk.max = min_t(unsigned int, room - arg->count, BUFFER_EXTENTS);
		ret = compare(&walk, rxd, base);
		if (ret)
			return ret;
		if (copy_to_user(extents + arg->count, buffer, walk.nr * sizeof(*buffer)))
			return -EFAULT;
		arg->count += walk.nr;
	} while (walk.next < walk.end && arg->count < room);

	arg->next = walk.next < walk.end ? (u64)walk.next << PAGE_SHIFT : arg->start + arg->length;
	arg->shared = (u64)walk.shared << PAGE_SHIFT;
	return 0;
}

/* Return: the file, which keeps the disk open, or an ERR_PTR(). */
static struct file *open_base(int fd, struct rxd_disk **base)
{
	struct file *file = fget(fd);
	struct inode *inode;
	int ret = -EBADF;

	if (!file)
		return ERR_PTR(-EBADF);
	if (!(file->f_mode & FMODE_READ))
		goto out_put;

	ret = -ENODEV;
	inode = file->f_mapping->host;
	if (!S_ISBLK(inode->i_mode))
		goto out_put;
	*base = rxd_of_bdev(I_BDEV(inode));
	if (!*base)
		goto out_put;
	return file;

out_put:
	fput(file);
	return ERR_PTR(ret);
}

/**
 * rxd_diff - handle the ioctl RXD_DIFF
 * @rxd: the disk
 * @argp: the argument of the ioctl
 *
 * Return: 0 or a negative errno; see struct rxd_diff.
 */
int rxd_diff(struct rxd_disk *rxd, struct rxd_diff __user *argp)
{
	struct rxd_extent *buffer;
	struct rxd_disk *base;
	struct rxd_diff arg;
	struct file *file;
	int ret;

	if (copy_from_user(&arg, argp, sizeof(arg)))
		return -EFAULT;
	ret = rxd_check_diff(&arg);
	if (ret)
		return ret;
	file = open_base(arg.base, &base);
	if (IS_ERR(file))
		return PTR_ERR(file);
	ret = -EINVAL;
	if (base == rxd)
		goto out_put;

	ret = -ENOMEM;
	buffer = kmalloc_array(BUFFER_EXTENTS, sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		goto out_put;
	ret = compare_disks(rxd, base, &arg, buffer);
	if (!ret && copy_to_user(argp, &arg, sizeof(arg)))
		ret = -EFAULT;
	kfree(buffer);
out_put:
	fput(file);
	return ret;
}
