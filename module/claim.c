// SPDX-License-Identifier: GPL-2.0-only
/*
 * A RAM disk becomes the memory of a cache, and a disk again.
 */
#include <linux/blkdev.h>
#include <linux/export.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>

#include "compat.h"
#include "disk.h"
#include "hold.h"
#include "lend.h"
#include "track.h"

/**
 * rxd_claim - claim a RAM disk as the memory of a cache
 * @bdev: the whole disk; the caller keeps it open
 * @owner: identifies the claimant, which may claim the disk several times
 * @opens: number of times that @owner has the disk open exclusively
 *
 * A claimed disk cannot be claimed by another owner, cannot shrink, and is not expendable. It keeps
 * its data and serves I/O until rxd_take(). Without that, rxd_release() undoes the claim.
 *
 * Return: the store of the disk; ERR_PTR(-ENODEV) if @bdev is not a whole RAM disk,
 * ERR_PTR(-EOPNOTSUPP) if the memory of its data is reserved, ERR_PTR(-EROFS) if it is read-only,
 * ERR_PTR(-EBUSY) if another owner has claimed it, or another task has it open exclusively;
 * ERR_PTR(-EIO) if it was given up.
 */
struct rxd_store *rxd_claim(struct block_device *bdev, const void *owner, unsigned int opens)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);
	struct rxd_store *store;

	if (!rxd)
		return ERR_PTR(-ENODEV);
	if (rxd->reserved)
		return ERR_PTR(-EOPNOTSUPP);
	if (get_disk_ro(rxd->gd))
		return ERR_PTR(-EROFS);

	mutex_lock(&rxd->lock);
	store = rxd->store;
	/* An exclusive open of a whole disk counts as two holders. */
	if (bdev->bd_holders > 2 * opens || (rxd->owner && rxd->owner != owner)) {
		store = ERR_PTR(-EBUSY);
	} else if (!rxd_disk_is_lost(rxd) && store->borrows) {
		/* Until rxd_take(), it could not be given up for writes to the reserved memory. */
		store = ERR_PTR(-EOPNOTSUPP);
	} else if (!rxd_expendable_keep(&rxd->expend)) {
		store = ERR_PTR(-EIO);
	} else {
		rxd->was_expendable |= rxd->expendable;
		rxd->expendable = false;
		rxd->nr_claims++;
		WRITE_ONCE(rxd->owner, owner);
	}
	mutex_unlock(&rxd->lock);
	return store;
}
EXPORT_SYMBOL_NS_GPL(rxd_claim, RXD_NS);

/*
 * Write what the page cache holds of a disk and its partitions. Return: 0, or the error of a write.
 */
static int rxd_flush_page_cache(struct rxd_disk *rxd)
{
	struct block_device *part;
	unsigned int memflags;
	unsigned long partno;
	int ret = 0;

	lockdep_assert_held(&rxd->gd->open_mutex);
	memflags = memalloc_noio_save();
	xa_for_each(&rxd->gd->part_tbl, partno, part)
		ret = filemap_write_and_wait(rxd_bdev_mapping(part)) ?: ret;
	memalloc_noio_restore(memflags);
	return ret;
}

static bool rxd_page_cache_is_dirty(struct rxd_disk *rxd)
{
	struct address_space *mapping;
	struct block_device *part;
	unsigned long partno;

	lockdep_assert_held(&rxd->gd->open_mutex);
	xa_for_each(&rxd->gd->part_tbl, partno, part) {
		mapping = rxd_bdev_mapping(part);
		if (mapping_tagged(mapping, PAGECACHE_TAG_DIRTY) ||
		    mapping_tagged(mapping, PAGECACHE_TAG_WRITEBACK))
			return true;
	}
	return false;
}

/* Freeze the queue, because bios in flight may change the data. Return: 0 or -ESTALE. */
static int rxd_take_store(struct rxd_disk *rxd, const struct rxd_seen *seen)
{
	struct rxd_record *record = NULL;
	struct rxd_hold *hold = NULL;
	unsigned int memflags;
	int ret;

	memflags = rxd_freeze_queue(rxd->gd->queue);
	ret = rxd_disk_check_same(rxd, seen);
	if (!ret && seen && seen->changes != RXD_CHANGES_ANY && rxd_page_cache_is_dirty(rxd))
		ret = -ESTALE;
	if (!ret) {
		WRITE_ONCE(rxd->refusal, RXD_TAKEN);
		rxd_store_clear(rxd->store);
		rxd->was_expendable = false;
		if (rxd_store_record(rxd->store))
			record = rxd_store_swap_record(rxd->store, NULL);
		/* A cache is never cloned. */
		swap(hold, rxd->store->hold);
		rxd_disk_set_parent(rxd, &uuid_null);
	}
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
	rxd_record_free(record);
	rxd_hold_free(hold);
	return ret;
}

/* Data in the page cache is not counted yet: write it first. */
static int rxd_take_same(struct rxd_disk *rxd, const struct rxd_seen *seen)
{
	int ret;

	mutex_lock(&rxd->gd->open_mutex);
	ret = rxd_flush_page_cache(rxd) ?: rxd_take_store(rxd, seen);
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

/*
 * Drop what the page cache holds of a disk that rejects all bios. Writes that are lost fail
 * in fsync(): by the error of writing back, or by the error set for pages that were written
 * since then.
 */
static void rxd_reject_page_cache(struct rxd_disk *rxd)
{
	struct address_space *mapping;
	struct block_device *part;
	unsigned long partno;

	mutex_lock(&rxd->gd->open_mutex);
	rxd_flush_page_cache(rxd);
	xa_for_each(&rxd->gd->part_tbl, partno, part) {
		mapping = rxd_bdev_mapping(part);
		if (invalidate_inode_pages2(mapping)) {
			mapping_set_error(mapping, -EIO);
			truncate_inode_pages(mapping, 0);
		}
	}
	mutex_unlock(&rxd->gd->open_mutex);
}

/**
 * rxd_take - drop the data of a claimed RAM disk, and reserve its pages for the owner
 * @bdev: the disk
 * @owner: the owner of the claim, which has no I/O to the disk in flight
 * @opens: number of times that @owner has the disk open exclusively
 * @seen: what the disk must be, or NULL
 *
 * From now on the disk rejects all bios: its owner uses the store directly.
 *
 * Return: 0; -EBUSY if another task has opened the disk exclusively since the claim; -EROFS if the
 * disk has become read-only since then, before it was taken for the first time;
 * -ESTALE if the disk is not as @seen; with @seen, also the error of writing back what the
 * page cache holds of the disk.
 */
int rxd_take(struct block_device *bdev, const void *owner, unsigned int opens,
	     const struct rxd_seen *seen)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);
	int ret;

	mutex_lock(&rxd->lock);
	/* All mapped devices use the same holder, so a claim does not exclude other mappings. */
	if (WARN_ON_ONCE(rxd->owner != owner) || bdev->bd_holders > 2 * opens)
		ret = -EBUSY;
	else if (rxd->refusal != RXD_TAKEN && get_disk_ro(rxd->gd))
		ret = -EROFS;
	else
		ret = seen ? rxd_take_same(rxd, seen) : rxd_take_store(rxd, NULL);
	if (!ret)
		rxd_reject_page_cache(rxd);
	mutex_unlock(&rxd->lock);
	return ret;
}
EXPORT_SYMBOL_NS_GPL(rxd_take, RXD_NS);

/**
 * rxd_move_pages - give other numbers to the pages of a RAM disk that was taken
 * @bdev: the disk, which rejects all bios since rxd_take()
 * @owner: the owner of the claim, which does not use the pages meanwhile
 * @move: calls rxd_store_move() for the pages that stay; the others are freed
 * @data: passed to @move
 *
 * The disk is locked meanwhile, so that it does not grow. Nothing starts I/O to get memory, because
 * the owner may be suspended.
 *
 * Return: 0; or -ENOMEM if @move was not called, and nothing has changed.
 */
int rxd_move_pages(struct block_device *bdev, const void *owner,
		   void (*move)(struct rxd_moves *moves, void *data), void *data)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);
	struct rxd_moves moves;
	unsigned int memflags;
	int ret = -ENOMEM;

	mutex_lock(&rxd->lock);
	memflags = memalloc_noio_save();
	if (!WARN_ON_ONCE(rxd->owner != owner || rxd->refusal != RXD_TAKEN))
		ret = rxd_store_begin_moves(&moves, rxd->store);
	if (!ret) {
		move(&moves, data);
		rxd_store_end_moves(&moves);
	}
	memalloc_noio_restore(memflags);
	mutex_unlock(&rxd->lock);
	return ret;
}
EXPORT_SYMBOL_NS_GPL(rxd_move_pages, RXD_NS);

/**
 * rxd_release - release a claim of a RAM disk
 * @bdev: the disk
 * @owner: the owner of the claim
 *
 * The last release frees all pages of a disk that was taken, because no other user may
 * read the data of the cache. It also removes the limits that the cache has set. A disk that
 * was not taken is as it was before the claim.
 */
void rxd_release(struct block_device *bdev, const void *owner)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);

	mutex_lock(&rxd->lock);
	if (WARN_ON_ONCE(rxd->owner != owner) || --rxd->nr_claims)
		goto out_unlock;
	if (rxd->refusal == RXD_TAKEN) {
		rxd_disk_drop_data(rxd);
		rxd_reject_page_cache(rxd);
		WRITE_ONCE(rxd->refusal, RXD_SERVES);
	}
	if (rxd->was_expendable) {
		rxd->was_expendable = false;
		rxd->expendable = true;
		rxd_expendable_add(&rxd->expend, rxd->store);
	}
	rxd_store_set_cap(rxd->store, ULONG_MAX);
	rxd_store_set_lending(rxd->store, ULONG_MAX);
	WARN_ON_ONCE(!list_empty(&rxd->promises));
	WRITE_ONCE(rxd->owner, NULL);
out_unlock:
	mutex_unlock(&rxd->lock);
}
EXPORT_SYMBOL_NS_GPL(rxd_release, RXD_NS);
