// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block device of a RAM disk: gendisk, queue limits, life and properties.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "disk.h"
#include "hold-arm.h"
#include "hold.h"
#include "map.h"
#include "name.h"
#include "track.h"

/*
 * How much a write-zeroes request may zero. It waits for memory for a limited time, as a write
 * does: let the block layer split long ones, so that each part has that time.
 */
#define RXD_ZERO_BYTES	SZ_64M

/* For rxd_disk.parent of all disks. */
static DEFINE_SPINLOCK(rxd_parent_lock);

/* See rxd_disk_end_load(). */
static DECLARE_COMPLETION(rxd_load_ended);
static bool rxd_load_failed;

static int rxd_open(struct gendisk *gd, blk_mode_t mode)
{
	struct rxd_disk *rxd = gd->private_data;

	lockdep_assert_held(&gd->open_mutex);
	if (wait_for_completion_killable(&rxd_load_ended))
		return -EINTR;
	if (rxd_load_failed || rxd->removing)
		return -ENXIO;
	return rxd->shut ? -EBUSY : 0;
}

RXD_OPEN_METHOD(rxd_open)

static int rxd_ioctl(struct block_device *bdev, blk_mode_t mode, unsigned int cmd,
		     unsigned long arg)
{
	struct rxd_disk *rxd = bdev->bd_disk->private_data;

	if ((cmd != RXD_MAP && cmd != RXD_DIFF && cmd != RXD_CHANGED) || bdev_is_partition(bdev))
		return -ENOTTY;
	if (!(mode & BLK_OPEN_READ))
		return -EBADF;
	if (cmd == RXD_DIFF)
		return rxd_diff(rxd, (struct rxd_diff __user *)arg);
	if (cmd == RXD_CHANGED)
		return rxd_changed(rxd, (struct rxd_changed __user *)arg);
	return rxd_map(rxd, (struct rxd_map __user *)arg);
}

/* BLKROSET does not clear the mark of a disk that was created read-only. */
static int rxd_set_read_only(struct block_device *bdev, bool read_only)
{
	if (!read_only && !bdev_is_partition(bdev))
		set_disk_ro(bdev->bd_disk, false);
	return 0;
}

static const struct block_device_operations rxd_fops = {
	.owner		= THIS_MODULE,
	.open		= rxd_open_method(rxd_open),
	.ioctl		= rxd_ioctl,
	.compat_ioctl	= blkdev_compat_ptr_ioctl,
	.set_read_only	= rxd_set_read_only,
	.submit_bio	= rxd_submit_bio,
};

/**
 * rxd_disk_reserve - allocate pages of zeros for all holes of a range
 * @rxd: the disk
 * @first: first page
 * @nr: number of pages; the range lies within the capacity
 *
 * Return: 0, -ENOSPC, or -EINTR if the task is killed.
 */
int rxd_disk_reserve(struct rxd_disk *rxd, unsigned long first, unsigned long nr)
{
	struct rxd_write write;
	unsigned long part;
	int ret;

	for (; nr; first += part, nr -= part) {
		part = min_t(unsigned long, nr, SZ_2M >> PAGE_SHIFT);
		rxd_write_begin(&write, 0, RXD_GFP);
		ret = rxd_store_fill(rxd->store, first, part, &write);
		rxd_write_end(&write);
		/*
		 * Check for SIGKILL after each part, because a part may wait for memory. A task
		 * that is killed may find less memory than others: this is no shortage.
		 */
		if (fatal_signal_pending(current))
			return -EINTR;
		if (ret)
			return ret;
	}
	return 0;
}

/**
 * rxd_disk_end_load - let tasks open disks, or make them fail
 * @loaded: the module is loaded; otherwise, its disks are about to be removed
 *
 * A disk that is open cannot be removed, but loading the module must be able to fail. Until it has
 * ended, tasks that open a disk wait. One that was made earlier is visible while others are made:
 *
 *	insmod				udev
 *
 *	rxd_disk_add(rxd0)
 *					rxd_open(rxd0): waits
 *	no memory for rxd1
 *	rxd_disk_end_load(false)
 *					-ENXIO
 *	rxd_disk_shut_down(rxd0)
 *
 * No one may take the open_mutex of a disk before the end, except to open it.
 */
void rxd_disk_end_load(bool loaded)
{
	rxd_load_failed = !loaded;
	complete_all(&rxd_load_ended);
}

/**
 * rxd_disk_is_lost - was a disk given up, or is it about to be?
 * @rxd: the disk
 *
 * Return: true if all I/O fails, or will fail soon.
 */
bool rxd_disk_is_lost(const struct rxd_disk *rxd)
{
	return READ_ONCE(rxd->store->lost);
}

/**
 * rxd_disk_set_parent - note where the data of a disk comes from
 * @rxd: the disk
 * @parent: UUID of the other disk, or uuid_null
 */
void rxd_disk_set_parent(struct rxd_disk *rxd, const uuid_t *parent)
{
	spin_lock(&rxd_parent_lock);
	uuid_copy(&rxd->parent, parent);
	spin_unlock(&rxd_parent_lock);
}

/**
 * rxd_disk_get_parent - get the disk that the data of a disk comes from
 * @rxd: the disk
 * @parent: set to its UUID, or to uuid_null
 */
void rxd_disk_get_parent(struct rxd_disk *rxd, uuid_t *parent)
{
	spin_lock(&rxd_parent_lock);
	uuid_copy(parent, &rxd->parent);
	spin_unlock(&rxd_parent_lock);
}

/* Let go of the pages for a write to another disk, which waits for this. */
static void rxd_give_up(struct work_struct *work)
{
	struct rxd_disk *rxd = container_of(work, struct rxd_disk, expend.work);
	unsigned int memflags;

	mutex_lock(&rxd->lock);
	WRITE_ONCE(rxd->refusal, RXD_LOST);
	memflags = rxd_freeze_queue(rxd->gd->queue);
	rxd_store_clear(rxd->store);
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
	mutex_unlock(&rxd->lock);
	rxd_expendable_gave_up();
	pr_notice("%s was given up, because memory is short\n", rxd->gd->disk_name);
}

/**
 * rxd_disk_alloc - allocate the structure of a RAM disk
 * @arg: the checked argument of RXD_CREATE
 *
 * Return: a disk without data memory and block device, or NULL.
 */
struct rxd_disk *rxd_disk_alloc(const struct rxd_create *arg)
{
	struct rxd_disk *rxd;

	rxd = kzalloc_obj(*rxd, GFP_KERNEL);
	if (!rxd)
		return NULL;
	refcount_set(&rxd->refs, 1);
	atomic64_set(&rxd->changes, RXD_CHANGES_REPORTED);
	rxd->overcommit = arg->flags & RXD_CREATE_OVERCOMMIT;
	rxd->elastic = arg->flags & RXD_CREATE_ELASTIC;
	rxd->reserved = arg->flags & RXD_CREATE_RESERVE;
	rxd->detect_zeroes = arg->flags & RXD_CREATE_DETECT_ZEROES;
	rxd->folio_size = arg->folio_size ?: PAGE_SIZE;
	rxd->node = arg->node;
	memcpy(&rxd->uuid, arg->uuid, sizeof(rxd->uuid));
	mutex_init(&rxd->lock);
	INIT_LIST_HEAD(&rxd->promises);
	INIT_LIST_HEAD(&rxd->named);
	rxd_expendable_init(&rxd->expend, rxd_give_up);
	INIT_DELAYED_WORK(&rxd->disarm, rxd_disk_disarm);
	return rxd;
}

/**
 * rxd_disk_get - take a reference to a RAM disk
 * @rxd: the disk
 */
void rxd_disk_get(struct rxd_disk *rxd)
{
	refcount_inc(&rxd->refs);
}

/**
 * rxd_disk_put - drop a reference to a RAM disk
 * @rxd: the disk
 *
 * Dropping the last reference frees the disk. Its pages are freed in the background.
 */
void rxd_disk_put(struct rxd_disk *rxd)
{
	if (!refcount_dec_and_test(&rxd->refs))
		return;
	rxd_store_destroy(rxd->store);
	mutex_destroy(&rxd->lock);
	kfree(rxd);
}

/**
 * rxd_disk_prepare - wait for the memory that rxd_disk_build() will need
 * @arg: the checked argument of RXD_CREATE
 *
 * Do not take memory from others for a disk that cannot be completed.
 *
 * Return: 0, -ENOMEM, -ENOSPC, or -EINTR if the task is killed.
 */
int rxd_disk_prepare(const struct rxd_create *arg)
{
	unsigned long nr_pages = arg->size >> PAGE_SHIFT;
	int ret;

	ret = rxd_store_prepare(nr_pages);
	if (!ret && arg->flags & RXD_CREATE_RESERVE)
		ret = rxd_store_prepare_fill(NULL, nr_pages);
	return ret;
}

static int rxd_build_store(struct rxd_disk *rxd, const struct rxd_create *arg)
{
	struct rxd_store_options options = {
		.order		= arg->folio_size > PAGE_SIZE ?
				  ilog2(arg->folio_size >> PAGE_SHIFT) : 0,
		.node		= arg->node,
		.detect_zeroes	= rxd->detect_zeroes,
		.reserved	= rxd->reserved,
	};

	rxd->store = rxd_store_create(arg->size >> PAGE_SHIFT, &options);
	/* The directory may have been waited for once more. */
	if (!rxd->store)
		return fatal_signal_pending(current) ? -EINTR : -ENOMEM;
	if (arg->mem_limit)
		rxd_store_set_limit(rxd->store, arg->mem_limit >> PAGE_SHIFT);
	return rxd->reserved ? rxd_disk_reserve(rxd, 0, arg->size >> PAGE_SHIFT) : 0;
}

/**
 * rxd_disk_build - allocate the memory and the block device of a RAM disk
 * @rxd: the disk from rxd_disk_alloc(), with its device number set
 * @arg: the argument that was passed to rxd_disk_alloc()
 *
 * This may take long if memory is reserved. After an error, rxd_disk_abandon() and rxd_disk_put()
 * free what was allocated.
 *
 * Return: 0, -ENOMEM, -ENOSPC, or -EINTR if the task is killed.
 */
int rxd_disk_build(struct rxd_disk *rxd, const struct rxd_create *arg)
{
	struct queue_limits lim = {
		.logical_block_size	= arg->logical_block_size ?: SECTOR_SIZE,
		.physical_block_size	= PAGE_SIZE,
		.max_hw_discard_sectors	= round_down(UINT_MAX, PAGE_SIZE) >> SECTOR_SHIFT,
		.max_discard_segments	= 1,
		.max_write_zeroes_sectors = RXD_ZERO_BYTES >> SECTOR_SHIFT,
		.discard_granularity	= PAGE_SIZE,
	};
	struct gendisk *gd;
	int ret;

	ret = rxd_build_store(rxd, arg);
	if (ret)
		return ret;

	if (rxd->reserved) {
		lim.max_hw_discard_sectors = 0;
		lim.discard_granularity = 0;
	}
	gd = rxd_alloc_disk(&lim, arg->node >= 0 ? arg->node : NUMA_NO_NODE);
	if (IS_ERR(gd))
		return PTR_ERR(gd);
	rxd->gd = gd;
	/* Without a major number, the disk is a "blkext" device, which LVM accepts. */
	gd->fops = &rxd_fops;
	gd->private_data = rxd;
	rxd_store_set_bdi(rxd->store, gd->bdi);
	snprintf(gd->disk_name, sizeof(gd->disk_name), "rxd%d", rxd->index);
	set_capacity(gd, arg->size >> SECTOR_SHIFT);
	return 0;
}

/*
 * Drop the pages of a disk to which there is no I/O any more. Do not leave this to the last
 * reference: a task that waits for memory may hold it. The pages of an expendable disk go before
 * the disk leaves the list, because writes to other disks must go on finding this memory.
 */
static void rxd_drop_pages(struct rxd_disk *rxd)
{
	mutex_lock(&rxd->lock);
	rxd_store_clear(rxd->store);
	mutex_unlock(&rxd->lock);
	if (rxd->expendable)
		rxd_expendable_remove(&rxd->expend);
}

/**
 * rxd_disk_abandon - undo rxd_disk_build() and rxd_disk_clone()
 * @rxd: the disk, built or not, which was not added; the caller only calls rxd_disk_put()
 */
void rxd_disk_abandon(struct rxd_disk *rxd)
{
	if (!rxd->gd)
		return;
	rxd_drop_pages(rxd);
	rxd_name_drop(rxd);
	put_disk(rxd->gd);
}

/**
 * rxd_disk_add - register the block device of a RAM disk
 * @rxd: the disk, which rxd_disk_build() has completed
 *
 * Return: 0, or a negative errno, after which the caller calls rxd_disk_abandon().
 */
int rxd_disk_add(struct rxd_disk *rxd)
{
	struct gendisk *gd = rxd->gd;
	int ret;

	/*
	 * Do not scan for partitions now: the scan would keep the disk open until the task
	 * returns to user space, and lookups of other disks would wait for it.
	 */
	set_bit(GD_SUPPRESS_PART_SCAN, &gd->state);
	ret = device_add_disk(NULL, gd, rxd_disk_groups);
	if (ret)
		return ret;
	clear_bit(GD_SUPPRESS_PART_SCAN, &gd->state);
	/* A clone may have partitions: read them at the first open. */
	if (!uuid_is_null(&rxd->parent))
		set_bit(GD_NEED_PART_SCAN, &gd->state);

	/* The disk holds a reference to the module until rxd_disk_remove(). */
	__module_get(THIS_MODULE);
	return 0;
}

/**
 * rxd_disk_check_same - check that a disk has not changed
 * @rxd: the disk; if no write to it is in flight, its number counts all changes
 * @seen: what the disk must be, or NULL
 *
 * Return: 0, or -ESTALE if the disk is not as @seen.
 */
int rxd_disk_check_same(struct rxd_disk *rxd, const struct rxd_seen *seen)
{
	u64 changes = (u64)atomic64_read(&rxd->changes) >> 1;

	if (!seen)
		return 0;
	if (seen->diskseq != rxd->gd->diskseq)
		return -ESTALE;
	return seen->changes == changes || seen->changes == RXD_CHANGES_ANY ? 0 : -ESTALE;
}

/**
 * rxd_disk_check_idle - check that nobody uses a disk
 * @rxd: the disk; the open_mutex of its gendisk is held
 * @seen: what the disk must be, or NULL
 *
 * Return: 0; -EBUSY if the disk is open; -ESTALE if it is not as @seen.
 */
int rxd_disk_check_idle(struct rxd_disk *rxd, const struct rxd_seen *seen)
{
	lockdep_assert_held(&rxd->gd->open_mutex);
	return disk_openers(rxd->gd) ? -EBUSY : rxd_disk_check_same(rxd, seen);
}

/**
 * rxd_disk_shut - prevent opens from now on, unless the disk is open
 * @rxd: the disk, locked
 * @flag: &rxd->shut or &rxd->removing, which is set
 * @seen: what the disk must be, or NULL
 * @dry_run: only look: a disk that is not going to change stays as usable as it is
 *
 * Return: 0; -EBUSY if the disk is open; -ESTALE if it is not as @seen.
 */
int rxd_disk_shut(struct rxd_disk *rxd, bool *flag, const struct rxd_seen *seen, bool dry_run)
{
	struct gendisk *gd = rxd->gd;
	int ret;

	lockdep_assert_held(&rxd->lock);
	mutex_lock(&gd->open_mutex);
	ret = rxd_disk_check_idle(rxd, seen);
	if (!ret && !dry_run)
		*flag = true;
	mutex_unlock(&gd->open_mutex);
	return ret;
}

/**
 * rxd_disk_shut_down - prepare a RAM disk for removal: it cannot be opened any more
 * @rxd: the disk, locked
 * @seen: what the disk must be, or NULL
 * @dry_run: only check, and change nothing
 *
 * Return: 0; -EBUSY if the disk is open; -ESTALE if it is not as @seen.
 */
int rxd_disk_shut_down(struct rxd_disk *rxd, const struct rxd_seen *seen, bool dry_run)
{
	return rxd_disk_shut(rxd, &rxd->removing, seen, dry_run);
}

/**
 * rxd_disk_remove - unregister the block device of a RAM disk
 * @rxd: the disk, after rxd_disk_shut_down(); look-ups do not find it any more
 */
void rxd_disk_remove(struct rxd_disk *rxd)
{
	cancel_delayed_work_sync(&rxd->disarm);
	del_gendisk(rxd->gd);
	rxd_drop_pages(rxd);
	rxd_name_drop(rxd);
	put_disk(rxd->gd);
	module_put(THIS_MODULE);
}

/**
 * rxd_disk_size - get the capacity
 * @rxd: the disk
 *
 * Return: bytes.
 */
u64 rxd_disk_size(const struct rxd_disk *rxd)
{
	return (u64)get_capacity(rxd->gd) << SECTOR_SHIFT;
}

/**
 * rxd_disk_state - get the state of a disk
 * @rxd: the disk
 *
 * Return: RXD_STATE_* bits.
 */
u32 rxd_disk_state(struct rxd_disk *rxd)
{
	u32 state = 0;

	if (disk_openers(rxd->gd))
		state |= RXD_STATE_OPEN;
	if (READ_ONCE(rxd->owner))
		state |= RXD_STATE_CACHE;
	if (rxd->overcommit)
		state |= RXD_STATE_OVERCOMMIT;
	else if (rxd->elastic)
		state |= RXD_STATE_ELASTIC;
	if (get_disk_ro(rxd->gd))
		state |= RXD_STATE_READONLY;
	if (rxd->reserved)
		state |= RXD_STATE_RESERVED;
	if (rxd->detect_zeroes)
		state |= RXD_STATE_DETECT_ZEROES;
	if (rxd->expendable)
		state |= RXD_STATE_EXPENDABLE;
	if (rxd_disk_is_lost(rxd))
		state |= RXD_STATE_LOST;
	return state;
}

/**
 * rxd_disk_report_changes - get the number of the changes until now
 * @rxd: the disk; the caller prevents changes
 *
 * Return: as rxd_disk_changes().
 */
u64 rxd_disk_report_changes(struct rxd_disk *rxd)
{
	return (u64)atomic64_fetch_or(RXD_CHANGES_REPORTED, &rxd->changes) >> 1;
}

/**
 * rxd_disk_changes - tell states of the data apart
 * @rxd: the disk
 *
 * If two calls return the same number, the data was not changed in between. Data of a cache is not
 * counted until rxd_release().
 *
 * Return: a number that never decreases; 0 if the data was never changed.
 */
u64 rxd_disk_changes(struct rxd_disk *rxd)
{
	u64 changes = atomic64_read(&rxd->changes);
	unsigned int memflags;

	if (!(changes & RXD_CHANGES_REPORTED)) {
		/* Bios in flight may still change the data, but not the number. */
		memflags = rxd_freeze_queue(rxd->gd->queue);
		changes = rxd_disk_report_changes(rxd);
		rxd_unfreeze_queue(rxd->gd->queue, memflags);
		return changes;
	}
	return changes >> 1;
}

/**
 * rxd_disk_set_mem_limit - limit the memory that data may take
 * @rxd: the disk
 * @limit: number of bytes; 0 for no limit
 *
 * Return: 0, or -EINVAL if @limit is not a multiple of the page size.
 */
int rxd_disk_set_mem_limit(struct rxd_disk *rxd, u64 limit)
{
	if (!IS_ALIGNED(limit, PAGE_SIZE))
		return -EINVAL;
	rxd_store_set_limit(rxd->store, limit ? limit >> PAGE_SHIFT : ULONG_MAX);
	return 0;
}

/**
 * rxd_disk_query - report the properties and counters of a disk
 * @rxd: the disk
 * @arg: the argument of RXD_QUERY; its output fields are filled in
 */
void rxd_disk_query(struct rxd_disk *rxd, struct rxd_query *arg)
{
	struct rxd_store_stats stats;

	rxd_store_get_stats(rxd->store, &stats);
	arg->index = rxd->index;
	arg->state = rxd_disk_state(rxd);
	arg->major = MAJOR(disk_devt(rxd->gd));
	arg->minor = MINOR(disk_devt(rxd->gd));
	arg->logical_block_size = queue_logical_block_size(rxd->gd->queue);
	arg->folio_size = rxd->folio_size;
	arg->size = rxd_disk_size(rxd);
	arg->mem_limit = stats.limit == ULONG_MAX ? 0 : (u64)stats.limit << PAGE_SHIFT;
	arg->mem_used = (u64)stats.used << PAGE_SHIFT;
	arg->mem_max_used = (u64)stats.max_used << PAGE_SHIFT;
	arg->mem_index = stats.index_bytes;
	arg->promised = READ_ONCE(rxd->promised);
	arg->reserved1 = 0;
	arg->nospc = atomic64_read(&rxd->nospc);
	arg->discards = atomic64_read(&rxd->discards);
	arg->node = rxd->node;
	memcpy(arg->uuid, &rxd->uuid, sizeof(arg->uuid));
}

/**
 * rxd_of_bdev - find the RAM disk of a block device
 * @bdev: the block device; the caller keeps it open
 *
 * Return: the RAM disk, or NULL if @bdev is not a whole RAM disk.
 */
struct rxd_disk *rxd_of_bdev(struct block_device *bdev)
{
	if (bdev->bd_disk->fops != &rxd_fops || bdev_is_partition(bdev))
		return NULL;
	return bdev->bd_disk->private_data;
}
