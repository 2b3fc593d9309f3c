// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks that share data: clone a disk, also one in use, and reset one to the data of another.
 */
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "clone.h"
#include "compat.h"
#include "hold-arm.h"
#include "hold.h"
#include "record.h"
#include "track.h"

/* Writing to swap space must not take memory. */
static bool rxd_is_swap(struct rxd_disk *rxd)
{
	struct block_device *part;
	unsigned long partno;
	bool found = false;

	rcu_read_lock();
	xa_for_each(&rxd->gd->part_tbl, partno, part)
		found |= IS_SWAPFILE(rxd_bdev_mapping(part)->host);
	rcu_read_unlock();
	return found;
}

/* Return: 0, -EOPNOTSUPP, -EIO or -EBUSY. */
static int rxd_may_clone(struct rxd_disk *rxd, bool expendable)
{
	lockdep_assert_held(&rxd->lock);
	if (!expendable && rxd_store_must_be_expendable(rxd->store))
		return -EOPNOTSUPP;
	if (rxd_disk_is_lost(rxd))
		return -EIO;
	return rxd->owner || rxd_is_swap(rxd) ? -EBUSY : 0;
}

/*
 * Let an empty store share the data of a disk, or only check if it is NULL. Without openers,
 * no bio of the disk is in flight. If @changes is not NULL, it is set to the number of changes
 * until then. Return: 0, -EIO or -EBUSY.
 */
static int rxd_share(struct rxd_disk *rxd, struct rxd_store *store, u64 *changes)
{
	int ret;

	lockdep_assert_held(&rxd->lock);
	if (rxd_disk_is_lost(rxd))
		return -EIO;
	mutex_lock(&rxd->gd->open_mutex);
	ret = rxd_disk_check_idle(rxd, NULL);
	if (!ret && store)
		rxd_store_share(rxd->store, store);
	if (!ret && changes)
		*changes = rxd_disk_report_changes(rxd);
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

/**
 * rxd_disk_like - describe a disk that is to share the data of another one
 * @rxd: the disk with the data, locked
 * @arg: the argument for rxd_disk_alloc() and rxd_disk_build(); only its fields @index, @uuid
 *	and RXD_CREATE_OVERCOMMIT are left to the caller
 * @expendable: the new disk is to be expendable
 *
 * Return: 0; -EOPNOTSUPP if the memory of the data is reserved, unless @expendable; -EIO if the
 * disk was given up; -EBUSY if it is a cache or swap space.
 */
int rxd_disk_like(struct rxd_disk *rxd, struct rxd_create *arg, bool expendable)
{
	struct rxd_store_stats stats;

	lockdep_assert_held(&rxd->lock);
	rxd_store_get_stats(rxd->store, &stats);
	if (rxd->detect_zeroes)
		arg->flags |= RXD_CREATE_DETECT_ZEROES;
	arg->logical_block_size = queue_logical_block_size(rxd->gd->queue);
	arg->size = rxd_disk_size(rxd);
	arg->mem_limit = stats.limit == ULONG_MAX ? 0 : (u64)stats.limit << PAGE_SHIFT;
	arg->folio_size = rxd->folio_size;
	arg->node = rxd->node;
	return rxd_may_clone(rxd, expendable);
}

/*
 * A new disk that is expendable may be given up as soon as it shares the first page. Its lock makes
 * that wait for the last one. The lock of a new disk is taken for nothing else, so it may be taken
 * after that of the source.
 */
static void rxd_lock_new(struct rxd_disk *rxd)
{
	mutex_lock_nested(&rxd->lock, SINGLE_DEPTH_NESTING);
}

/* Is the disk still as it was when the new disk was made? Return: 0 or a negative errno. */
static int rxd_check_source(struct rxd_disk *source, const struct rxd_disk *rxd)
{
	lockdep_assert_held(&source->lock);
	if (source->removing)
		return -ENODEV;
	if (rxd_store_nr_pages(source->store) != rxd_store_nr_pages(rxd->store))
		return -EBUSY;
	if (rxd_store_is_taken_back(source->store))
		return -ENOMEM;
	return rxd_may_clone(source, rxd->expendable);
}

/*
 * Clone a disk that nobody has open, or prepare this for one in use. Return: 0 if it is cloned;
 * -EINPROGRESS if it is in use, with a reference to its gendisk; or another negative errno.
 */
static int rxd_clone_idle(struct rxd_cloning *cloning, struct rxd_disk *rxd)
{
	struct rxd_disk *source = cloning->source;
	unsigned int memflags;
	int ret;

	ret = mutex_lock_interruptible(&source->lock);
	if (ret)
		return ret;
	memflags = memalloc_noio_save();
	ret = rxd_check_source(source, rxd);
	if (ret)
		goto out_unlock;
	/* A record begins with no write unseen, also if another task opens the disk right now. */
	if (!(cloning->arg->flags & RXD_CLONE_TRACK)) {
		rxd_lock_new(rxd);
		ret = rxd_share(source, rxd->store, &cloning->arg->changes);
		mutex_unlock(&rxd->lock);
		if (ret != -EBUSY)
			goto out_unlock;
	}
	ret = rxd_disk_arm(source, &cloning->hold);
	if (ret)
		goto out_unlock;
	get_device(disk_to_dev(source->gd));
	source->cloning++;
	ret = -EINPROGRESS;
out_unlock:
	memalloc_noio_restore(memflags);
	mutex_unlock(&source->lock);
	return ret;
}

/* Share the data while writes are held. Return: 0, or the error of rxd_check_source(). */
static int rxd_share_held(struct rxd_cloning *cloning, struct rxd_disk *rxd)
{
	struct rxd_disk *source = cloning->source;
	unsigned int memflags;
	u64 start;
	int ret;

	/* File systems are frozen: do not wait for them. No one holds the lock for long. */
	mutex_lock(&source->lock);
	memflags = memalloc_noio_save();
	ret = rxd_check_source(source, rxd);
	/* A cache may have come and gone. */
	if (!ret && !source->store->hold)
		ret = -EBUSY;
	if (!ret) {
		rxd_lock_new(rxd);
		start = rxd_store_hold(source->store);
		rxd_store_share(source->store, rxd->store);
		cloning->arg->changes = rxd_disk_report_changes(source);
		if (cloning->record) {
			rxd_store_lend_record(source->store, rxd->store, cloning->record,
					      &rxd->loan);
			cloning->record = NULL;
		}
		cloning->arg->held_ns = rxd_store_unhold(source->store, start);
		mutex_unlock(&rxd->lock);
	}
	memalloc_noio_restore(memflags);
	mutex_unlock(&source->lock);
	return ret;
}

/* Return: a reference to the partition with the lowest number from *@partno on, or NULL. */
static struct block_device *rxd_next_part(struct gendisk *gd, unsigned long *partno)
{
	struct block_device *part;

	rcu_read_lock();
	xa_for_each_start(&gd->part_tbl, *partno, part, *partno)
		if (kobject_get_unless_zero(&part->bd_device.kobj))
			break;
	rcu_read_unlock();
	return part;
}

/*
 * Write what the page cache holds of a disk and its partitions. This may take long: do not hold the
 * open_mutex, for which opens and sync(2) wait.
 */
static int rxd_flush(struct gendisk *gd)
{
	struct block_device *part;
	unsigned long partno = 0;
	int ret = 0;

	while ((part = rxd_next_part(gd, &partno))) {
		ret = filemap_write_and_wait(rxd_bdev_mapping(part)) ?: ret;
		put_device(&part->bd_device);
		if (fatal_signal_pending(current))
			return -EINTR;
		partno++;
	}
	return ret;
}

/*
 * The first time that writes are held takes a grace period. Let it pass before file systems are
 * frozen.
 */
static int rxd_prepare_hold(struct rxd_disk *source, const struct rxd_disk *rxd)
{
	unsigned int memflags;
	int ret;

	ret = mutex_lock_killable(&source->lock);
	if (ret)
		return ret;
	memflags = memalloc_noio_save();
	ret = rxd_check_source(source, rxd);
	/* A cache may have come and gone. */
	if (!ret && source->store->hold)
		rxd_hold_prepare(source->store->hold);
	memalloc_noio_restore(memflags);
	mutex_unlock(&source->lock);
	return ret;
}

/*
 * The lock of the disk is not held across this: a frozen file system may wait for I/O, and the
 * I/O of a suspended cache may wait for the lock.
 */
static int rxd_clone_frozen(struct rxd_cloning *cloning, struct rxd_disk *rxd,
			    struct gendisk *gd)
{
	int ret;

	/*
	 * For about one grace period after rxd_prepare_hold(), holding writes needs no wait. Write
	 * the data of the file systems before it, because that may take longer.
	 */
	ret = rxd_freeze_sync(&cloning->freeze) ?: rxd_flush(gd) ?:
	      rxd_prepare_hold(cloning->source, rxd);
	if (ret)
		return ret;
	ret = rxd_freeze(&cloning->freeze);
	if (ret)
		return ret;
	ret = rxd_share_held(cloning, rxd);
	/* If a file system was thawed too early, the clone may be as after a power failure. */
	ret = rxd_thaw(&cloning->freeze) ?: ret;
	cloning->arg->frozen_ns = cloning->freeze.ns;
	return ret;
}

/*
 * Under the lock of the source, memory per CPU could not be allocated by reclaim, and nothing is
 * allocated while file systems are frozen. Return: 0, -ENOMEM, or -EINTR if the task is killed.
 */
static int rxd_clone_prepare(struct rxd_cloning *cloning, struct rxd_disk *rxd)
{
	cloning->hold = rxd_hold_alloc(NULL);
	if (!(cloning->arg->flags & RXD_CLONE_TRACK))
		return 0;
	cloning->record = rxd_record_alloc(rxd_store_nr_pages(rxd->store), cloning->arg->state);
	rxd->store->hold = rxd_hold_alloc(&rxd->changes);
	if (cloning->record && rxd->store->hold)
		return 0;
	return fatal_signal_pending(current) ? -EINTR : -ENOMEM;
}

/**
 * rxd_disk_clone - give a disk that is being created the data of another one
 * @cloning: the disk with the data, not locked, and the file systems to be frozen
 * @rxd: the new disk, after rxd_disk_build() with the argument from rxd_disk_like()
 *
 * No file system is frozen when this returns.
 *
 * Return: 0, or a negative errno, after which the caller calls rxd_disk_abandon(); see struct
 * rxd_clone.
 */
int rxd_disk_clone(struct rxd_cloning *cloning, struct rxd_disk *rxd)
{
	struct rxd_disk *source = cloning->source;
	struct gendisk *gd = source->gd;
	int ret;

	rxd_disk_set_parent(rxd, &source->uuid);
	uuid_copy(&rxd->lender, &source->uuid);
	set_disk_ro(rxd->gd, cloning->arg->flags & RXD_CLONE_READ_ONLY);
	/* It is not a disk that was never written. */
	rxd_note_change(&rxd->changes);
	rxd->expendable = cloning->arg->flags & RXD_CLONE_EXPENDABLE;
	if (rxd->expendable)
		rxd_expendable_add(&rxd->expend, rxd->store);
	ret = rxd_clone_prepare(cloning, rxd) ?: rxd_clone_idle(cloning, rxd);
	if (ret == -EINPROGRESS) {
		if (cloning->arg->flags & RXD_CLONE_NO_FREEZE)
			ret = rxd_share_held(cloning, rxd);
		else
			ret = rxd_clone_frozen(cloning, rxd, gd);
		mutex_lock(&source->lock);
		source->cloning--;
		mutex_unlock(&source->lock);
		put_device(disk_to_dev(gd));
	}
	rxd_hold_free(cloning->hold);
	rxd_record_free(cloning->record);
	/* Without a record, nothing needs to hold the writes to the clone yet. */
	if (!rxd_store_record(rxd->store)) {
		rxd_hold_free(rxd->store->hold);
		rxd->store->hold = NULL;
	}
	return ret;
}

/**
 * rxd_disk_prepare_snapshot - wait for, and allocate, the memory that rxd_disk_snapshot() will need
 * @rxd: the disk, not locked: others need its lock, so this must not be held while memory is short
 * @snapshot: its store is set; the caller destroys it
 *
 * Return: 0, -ENOMEM, or -EINTR if the task is killed.
 */
int rxd_disk_prepare_snapshot(struct rxd_disk *rxd, struct rxd_snapshot *snapshot)
{
	static const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };

	snapshot->store = rxd_store_create(rxd_store_nr_pages(rxd->store), &options);
	if (snapshot->store)
		return 0;
	return fatal_signal_pending(current) ? -EINTR : -ENOMEM;
}

/**
 * rxd_disk_snapshot - share the data of a disk with a new store
 * @rxd: the disk, locked
 * @snapshot: from rxd_disk_prepare_snapshot(), and filled in; without a store, only check
 *
 * Return: 0; -EOPNOTSUPP if the memory of the data is reserved; -EIO if the disk was given up;
 * -EBUSY if it is open; -EAGAIN if it was resized since rxd_disk_prepare_snapshot().
 */
int rxd_disk_snapshot(struct rxd_disk *rxd, struct rxd_snapshot *snapshot)
{
	struct rxd_store_stats stats;
	int ret;

	lockdep_assert_held(&rxd->lock);
	snapshot->nr_pages = rxd_store_nr_pages(rxd->store);
	snapshot->logical_block_size = queue_logical_block_size(rxd->gd->queue);
	uuid_copy(&snapshot->uuid, &rxd->uuid);
	if (rxd_store_must_be_expendable(rxd->store))
		return -EOPNOTSUPP;
	if (snapshot->store && rxd_store_nr_pages(snapshot->store) != snapshot->nr_pages)
		return -EAGAIN;
	ret = rxd_share(rxd, snapshot->store, NULL);
	if (ret)
		return ret;
	rxd_store_get_stats(snapshot->store ?: rxd->store, &stats);
	snapshot->used = stats.used;
	return 0;
}

static int rxd_may_reset(struct rxd_disk *rxd, const struct rxd_snapshot *snapshot,
			 const struct rxd_seen *seen)
{
	struct rxd_store_stats stats;
	int ret;

	if (rxd->reserved)
		return -EOPNOTSUPP;
	if (rxd_disk_is_lost(rxd))
		return -EIO;
	ret = rxd_disk_check_idle(rxd, seen);
	if (ret)
		return ret;
	if (get_disk_ro(rxd->gd))
		return -EROFS;
	if (snapshot->nr_pages != rxd_store_nr_pages(rxd->store))
		return -ERANGE;
	/* A file system may need the smaller one. */
	if (snapshot->logical_block_size != queue_logical_block_size(rxd->gd->queue))
		return -ERANGE;
	rxd_store_get_stats(rxd->store, &stats);
	return snapshot->used > stats.limit ? -ENOSPC : 0;
}

/**
 * rxd_disk_reset - replace all data
 * @rxd: the disk, locked
 * @snapshot: the new data, of another disk
 * @seen: what the disk must be, or NULL
 * @dry_run: only check, and change nothing
 *
 * Return: 0, -EOPNOTSUPP, -EIO, -EBUSY, -ESTALE, -EROFS, -ERANGE or -ENOSPC; see struct
 * rxd_reset.
 */
int rxd_disk_reset(struct rxd_disk *rxd, const struct rxd_snapshot *snapshot,
		   const struct rxd_seen *seen, bool dry_run)
{
	int ret;

	lockdep_assert_held(&rxd->lock);
	mutex_lock(&rxd->gd->open_mutex);
	ret = rxd_may_reset(rxd, snapshot, seen);
	if (!ret && !dry_run) {
		/* Without openers, no bio is in flight: do not wait for a freeze of the queue. */
		rxd_store_clear(rxd->store);
		rxd_store_share(snapshot->store, rxd->store);
		/* Last: a number that is reported meanwhile is that of the old data. */
		rxd_note_change(&rxd->changes);
		rxd_disk_set_parent(rxd, &snapshot->uuid);
		/* The new data may contain other partitions: read them at the next open. */
		set_bit(GD_NEED_PART_SCAN, &rxd->gd->state);
	}
	mutex_unlock(&rxd->gd->open_mutex);
	if (!ret && !dry_run) {
		rxd_disk_end_record(rxd);
		disk_uevent(rxd->gd, KOBJ_CHANGE);
	}
	return ret;
}
