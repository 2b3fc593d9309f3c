// SPDX-License-Identifier: GPL-2.0-only
/*
 * The size of a RAM disk changes, or its data is dropped.
 */
#include <linux/bits.h>
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/xarray.h>

#include "compat.h"
#include "disk.h"
#include "hold.h"
#include "track.h"

/* Pages of a thin disk that are searched for data between two looks for SIGKILL. */
#define PAGES_PER_SEARCH	BIT(23)

/* Freeze the queue, because I/O in flight was checked against the old capacity. */
static void rxd_cut_store(struct rxd_disk *rxd, unsigned long nr_pages, bool only_zeroes)
{
	struct rxd_store_stats before, after;
	unsigned int memflags;

	memflags = rxd_freeze_queue(rxd->gd->queue);
	rxd_store_get_stats(rxd->store, &before);
	rxd_store_shrink(rxd->store, nr_pages);
	rxd_store_get_stats(rxd->store, &after);
	/* Last: a number that is reported meanwhile is that of the old data. */
	if (!only_zeroes && after.used < before.used)
		rxd_note_change(&rxd->changes);
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
}

/**
 * rxd_disk_drop_data - free all pages, whatever they hold
 * @rxd: the disk, locked; it may have I/O in flight
 */
void rxd_disk_drop_data(struct rxd_disk *rxd)
{
	unsigned int memflags;

	lockdep_assert_held(&rxd->lock);
	memflags = rxd_freeze_queue(rxd->gd->queue);
	rxd_store_clear(rxd->store);
	/* Last: a number that is reported meanwhile is that of the old data. */
	rxd_note_change(&rxd->changes);
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
	rxd_disk_set_parent(rxd, &uuid_null);
}

/**
 * rxd_disk_prepare_growth - wait for the memory that rxd_disk_resize() will need
 * @rxd: the disk, not locked: it may be resized meanwhile
 * @size: checked size in bytes; if the disk does not grow, there is nothing to wait for
 *
 * If memory is short, rxd_disk_resize() returns the error. It waits only for what was queued for
 * freeing in between.
 *
 * Return: 0, or -EINTR if the task is killed.
 */
int rxd_disk_prepare_growth(struct rxd_disk *rxd, u64 size)
{
	unsigned long old = rxd_store_nr_pages(rxd->store);
	unsigned long new = size >> PAGE_SHIFT;
	int ret = 0;

	if (new <= old)
		return 0;
	if (rxd->reserved)
		ret = rxd_store_prepare_fill(rxd->store, new - old);
	if (!ret)
		ret = rxd_store_prepare(new);
	return ret == -EINTR ? ret : 0;
}

static int rxd_disk_grow(struct rxd_disk *rxd, u64 size, u32 flags)
{
	unsigned long old = rxd_store_nr_pages(rxd->store);
	unsigned long new = size >> PAGE_SHIFT;
	int ret = 0;

	if (rxd->reserved)
		ret = rxd_store_prepare_fill(rxd->store, new - old);
	if (!ret)
		ret = rxd_store_prepare_grow(rxd->store, new);
	if (ret || flags & RXD_DRY_RUN)
		return ret;
	ret = rxd_store_grow(rxd->store, new);
	if (ret)
		return ret;
	if (rxd->reserved) {
		ret = rxd_disk_reserve(rxd, old, new - old);
		if (ret) {
			rxd_cut_store(rxd, old, true);
			return ret;
		}
	}
	set_capacity_and_notify(rxd->gd, size >> SECTOR_SHIFT);
	return 0;
}

/* A reserved disk has all its pages, so look for bytes other than zero. */
static bool rxd_page_holds_data(struct rxd_disk *rxd, unsigned long pgno)
{
	struct page *page;
	bool found;

	rcu_read_lock();
	page = rxd_store_lookup(rxd->store, pgno);
	/* A dry run does not prevent writes. Its answer may be out of date at once in any case. */
	found = page && data_race(memchr_inv(page_address(page), 0, PAGE_SIZE));
	rcu_read_unlock();
	return found;
}

/* Return: 0; -ENOTEMPTY if there is data from @first on; or -EINTR if the task is killed. */
static int rxd_check_empty_from(struct rxd_disk *rxd, unsigned long first)
{
	unsigned long nr_pages = rxd_store_nr_pages(rxd->store);
	unsigned long step = rxd->reserved ? 1 : PAGES_PER_SEARCH;
	unsigned long end;
	bool found;

	for (; first < nr_pages; first = end) {
		if (fatal_signal_pending(current))
			return -EINTR;
		end = min(first + step, nr_pages);
		found = rxd->reserved ? rxd_page_holds_data(rxd, first) :
					rxd_store_find_data(rxd->store, first, end) < end;
		if (found)
			return -ENOTEMPTY;
		cond_resched();
	}
	return 0;
}

/*
 * Looking for data may take long. Do not hold the open_mutex for so long, because sync(2) takes it
 * for each disk. Opening the disk fails with EBUSY meanwhile.
 *
 * Send the uevent before the queue is frozen, because sending may wait for other tasks.
 */
static int rxd_shrink_empty(struct rxd_disk *rxd, u64 size, bool dry_run)
{
	int ret;

	ret = rxd_disk_shut(rxd, &rxd->shut, NULL, dry_run);
	if (ret)
		return ret;
	ret = rxd_check_empty_from(rxd, size >> PAGE_SHIFT);

	if (dry_run)
		return ret;
	mutex_lock(&rxd->gd->open_mutex);
	if (!ret) {
		set_capacity_and_notify(rxd->gd, size >> SECTOR_SHIFT);
		rxd_cut_store(rxd, size >> PAGE_SHIFT, true);
	}
	rxd->shut = false;
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

static bool rxd_is_dirty_from(struct address_space *mapping, u64 pos)
{
	unsigned long dirty = pos >> PAGE_SHIFT, writeback = dirty;

	return xa_find(&mapping->i_pages, &dirty, ULONG_MAX, PAGECACHE_TAG_DIRTY) ||
	       xa_find(&mapping->i_pages, &writeback, ULONG_MAX, PAGECACHE_TAG_WRITEBACK);
}

/* Have fsync() return an error to tasks that have written data which is about to be dropped. */
static void rxd_fail_page_cache(struct rxd_disk *rxd, u64 from)
{
	struct address_space *mapping;
	struct block_device *part;
	unsigned long partno;
	u64 start;

	lockdep_assert_held(&rxd->gd->open_mutex);
	xa_for_each(&rxd->gd->part_tbl, partno, part) {
		start = (u64)part->bd_start_sect << SECTOR_SHIFT;
		mapping = rxd_bdev_mapping(part);
		if (rxd_is_dirty_from(mapping, max(from, start) - start))
			mapping_set_error(mapping, -EIO);
	}
}

/*
 * Release the open_mutex before the queue is frozen: this waits for bios in flight, which may
 * wait for memory.
 */
static void rxd_shrink_forced(struct rxd_disk *rxd, u64 size)
{
	mutex_lock(&rxd->gd->open_mutex);
	rxd_fail_page_cache(rxd, size);
	set_capacity_and_notify(rxd->gd, size >> SECTOR_SHIFT);
	mutex_unlock(&rxd->gd->open_mutex);
	rxd_cut_store(rxd, size >> PAGE_SHIFT, false);
}

/*
 * Tasks that have the disk or a partition open must not read data from the page cache that
 * the disk no longer holds.
 */
static void rxd_drop_page_cache(struct rxd_disk *rxd, u64 from)
{
	struct block_device *part;
	unsigned long partno;
	u64 start;

	mutex_lock(&rxd->gd->open_mutex);
	rxd_fail_page_cache(rxd, from);
	xa_for_each(&rxd->gd->part_tbl, partno, part) {
		start = (u64)part->bd_start_sect << SECTOR_SHIFT;
		truncate_inode_pages(rxd_bdev_mapping(part), max(from, start) - start);
	}
	mutex_unlock(&rxd->gd->open_mutex);
}

static int rxd_disk_shrink(struct rxd_disk *rxd, u64 size, u32 flags)
{
	bool dry_run = flags & RXD_DRY_RUN;
	bool force = flags & RXD_RESIZE_FORCE;
	int ret = 0;

	if (rxd->owner)
		return -EBUSY;
	/* Without data beyond the new end, a thin disk needs no copy of a shared leaf. */
	if (!dry_run && (force || rxd->reserved)) {
		ret = rxd_store_prepare_shrink(rxd->store, size >> PAGE_SHIFT);
		if (ret)
			return ret;
	}
	if (!force)
		ret = rxd_shrink_empty(rxd, size, dry_run);
	else if (!dry_run)
		rxd_shrink_forced(rxd, size);
	if (!ret && !dry_run)
		rxd_drop_page_cache(rxd, size);
	return ret;
}

/**
 * rxd_disk_resize - change the capacity
 * @rxd: the disk, locked; I/O may continue
 * @size: checked size in bytes
 * @flags: RXD_RESIZE_FORCE: shrink even if the disk is open or data is lost;
 *	RXD_DRY_RUN: only check, and change nothing
 *
 * Reserving memory takes long, and a forced shrink may wait for bios in flight. Do neither while
 * file systems may be frozen for a clone, which waits for the lock. It would fail, too.
 *
 * Return: 0, -EBUSY, -ENOTEMPTY, -ENOSPC, -EIO, -EINTR or -ENOMEM; see struct rxd_resize.
 */
int rxd_disk_resize(struct rxd_disk *rxd, u64 size, u32 flags)
{
	unsigned long nr_pages = rxd_store_nr_pages(rxd->store);
	u64 old = rxd_disk_size(rxd);
	int ret = 0;

	lockdep_assert_held(&rxd->lock);
	if (rxd_disk_is_lost(rxd))
		return -EIO;
	if (rxd->cloning && size != old && (rxd->reserved || flags & RXD_RESIZE_FORCE))
		return -EBUSY;
	if (size > old)
		ret = rxd_disk_grow(rxd, size, flags);
	else if (size < old)
		ret = rxd_disk_shrink(rxd, size, flags);
	if (rxd_store_nr_pages(rxd->store) != nr_pages)
		rxd_disk_end_record(rxd);
	/* The directory is too long after a shrink, or after a grow that failed half-way. */
	if (!(flags & RXD_DRY_RUN))
		rxd_store_trim(rxd->store);
	return ret;
}

/* Return: 0; -EINTR if the task is killed; or -ENOSPC. */
static int rxd_zero_all(struct rxd_disk *rxd)
{
	u64 size = rxd_disk_size(rxd);
	struct rxd_write write;
	u64 pos, part;
	int ret;

	for (pos = 0; pos < size; pos += part) {
		if (fatal_signal_pending(current))
			return -EINTR;
		part = min_t(u64, size - pos, SZ_2M);
		rxd_write_begin(&write, 0, RXD_GFP);
		ret = rxd_disk_zero(rxd, pos, part, &write);
		rxd_write_end(&write);
		if (ret)
			return ret;
	}
	return 0;
}

static int rxd_clear_reserved(struct rxd_disk *rxd, const struct rxd_seen *seen, bool dry_run)
{
	int ret;

	ret = rxd_disk_shut(rxd, &rxd->shut, seen, dry_run);
	if (ret)
		return ret;
	if (get_disk_ro(rxd->gd))
		ret = -EROFS;
	else if (!dry_run)
		ret = rxd_zero_all(rxd);

	if (dry_run)
		return ret;
	/* Last, and also if it ended half-way. A disk that was never written held zeros before. */
	if (ret != -EROFS && atomic64_read(&rxd->changes) != RXD_CHANGES_REPORTED)
		rxd_note_change(&rxd->changes);
	mutex_lock(&rxd->gd->open_mutex);
	rxd->shut = false;
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

static int rxd_clear_thin(struct rxd_disk *rxd, const struct rxd_seen *seen, bool dry_run)
{
	int ret;

	mutex_lock(&rxd->gd->open_mutex);
	ret = rxd_disk_check_idle(rxd, seen);
	if (!ret && get_disk_ro(rxd->gd))
		ret = -EROFS;
	if (!ret && !dry_run)
		rxd_disk_drop_data(rxd);
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

/**
 * rxd_disk_clear - drop all data
 * @rxd: the disk, locked
 * @seen: what the disk must be, or NULL
 * @dry_run: only check, and change nothing
 *
 * Return: 0; -EROFS if the disk is read-only; -EBUSY if it is in use; -ESTALE if it is not
 * as @seen; -EINTR if the task is killed, or -ENOSPC, after which a part of the reserved memory may
 * be zeroed.
 */
int rxd_disk_clear(struct rxd_disk *rxd, const struct rxd_seen *seen, bool dry_run)
{
	bool was_clone = !uuid_is_null(&rxd->parent);
	int ret;

	lockdep_assert_held(&rxd->lock);
	if (rxd_disk_is_lost(rxd))
		return -EIO;
	/* A cache keeps its disk open, so this also fails for a claimed disk. */
	ret = rxd->reserved ? rxd_clear_reserved(rxd, seen, dry_run) :
			      rxd_clear_thin(rxd, seen, dry_run);
	if (!ret && !dry_run)
		rxd_disk_end_record(rxd);
	/* udev treats clones in another way. */
	if (!ret && !dry_run && was_clone)
		disk_uevent(rxd->gd, KOBJ_CHANGE);
	return ret;
}
