// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block device of a RAM disk: gendisk, queue limits, bios.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "arm.h"
#include "compat.h"
#include "diff.h"
#include "disk.h"
#include "hold.h"
#include "map.h"
#include "name.h"
#include "rxd.h"
#include "track.h"

/* For rxd_disk.parent of all disks. */
static DEFINE_SPINLOCK(rxd_parent_lock);

static int rxd_open(struct gendisk *gd, blk_mode_t mode)
{
	struct rxd_disk *rxd = gd->private_data;

	lockdep_assert_held(&gd->open_mutex);
	if (rxd->removing)
		return -ENXIO;
	return rxd->shut ? -EBUSY : 0;
}

RXD_OPEN_METHOD(rxd_open)

/* Bytes that are copied between two calls of cond_resched(). */
#define RXD_COPY_BYTES	SZ_256K

static void flush_dcache_bvec(const struct bio_vec *bv)
{
	struct page *page = bv->bv_page + (bv->bv_offset >> PAGE_SHIFT);
	int left = offset_in_page(bv->bv_offset) + bv->bv_len;

	for (; left > 0; left -= PAGE_SIZE)
		flush_dcache_page(page++);
}

/* A writer that may wait might find memory, but waiting does not lift the limit. */
static blk_status_t rxd_write_failed(struct rxd_disk *rxd, bool may_succeed)
{
	if (unlikely(rxd_disk_is_lost(rxd)))
		return BLK_STS_IOERR;
	if (may_succeed)
		return BLK_STS_AGAIN;
	atomic64_inc(&rxd->nospc);
	return BLK_STS_NOSPC;
}

/* Without high memory (see compat.h), a multi-page bvec is one range of addresses. */
static blk_status_t rxd_rw(struct rxd_disk *rxd, struct bio *bio)
{
	bool nowait = bio->bi_opf & REQ_NOWAIT;
	bool is_write = op_is_write(bio_op(bio));
	struct bvec_iter iter = bio->bi_iter;
	blk_status_t status = BLK_STS_OK;
	struct rxd_write write;
	struct bio_vec bv;
	u64 pos;

	rxd_write_begin(&write, iter.bi_size, nowait ? RXD_GFP_NOWAIT : RXD_GFP);
	while (iter.bi_size) {
		pos = (u64)iter.bi_sector << SECTOR_SHIFT;
		bv = mp_bvec_iter_bvec(bio->bi_io_vec, iter);
		bv.bv_len = min_t(unsigned int, bv.bv_len, RXD_COPY_BYTES);

		if (is_write) {
			flush_dcache_bvec(&bv);
			if (rxd_store_write_part(rxd->store, pos, bvec_virt(&bv), bv.bv_len,
						 &write)) {
				status = rxd_write_failed(rxd, nowait && !write.limited);
				break;
			}
		} else {
			rxd_store_read(rxd->store, pos, bvec_virt(&bv), bv.bv_len);
			flush_dcache_bvec(&bv);
		}
		bio_advance_iter_single(bio, &iter, bv.bv_len);
		if (iter.bi_size && !nowait)
			cond_resched();
	}
	rxd_write_end(&write);
	return status;
}

/* A discard may ignore pages that it covers only in part, and shared ones. */
static void rxd_free(struct rxd_disk *rxd, u64 pos, u64 len, gfp_t gfp)
{
	unsigned long first = DIV_ROUND_UP_ULL(pos, PAGE_SIZE);
	unsigned long end = (pos + len) >> PAGE_SHIFT;

	if (first >= end)
		return;
	rxd_store_unshare_ends(rxd->store, first, end - first, gfp);
	if (rxd_store_free_range(rxd->store, first, end - first))
		atomic64_inc(&rxd->discards);
}

static blk_status_t rxd_discard(struct rxd_disk *rxd, struct bio *bio, u64 pos, u64 len)
{
	bool nowait = bio->bi_opf & REQ_NOWAIT;

	/* It waits while writes are held. */
	if (nowait && rxd->store->hold)
		return BLK_STS_AGAIN;
	rxd_free(rxd, pos, len, nowait ? RXD_GFP_NOWAIT : RXD_GFP);
	return BLK_STS_OK;
}

/* Return: 0 or -ENOSPC. */
static int rxd_zero(struct rxd_disk *rxd, u64 pos, u64 len)
{
	unsigned int part;
	int ret = 0;

	while (len && !ret) {
		part = min_t(u64, len, RXD_COPY_BYTES);
		ret = rxd_store_zero(rxd->store, pos, part);
		pos += part;
		len -= part;
		cond_resched();
	}
	return ret;
}

/* Write zeroes without unmap guarantees memory for later writes, so allocate all pages now. */
static int rxd_provision(struct rxd_disk *rxd, u64 pos, u64 len)
{
	unsigned long first = pos >> PAGE_SHIFT;
	unsigned long end = DIV_ROUND_UP_ULL(pos + len, PAGE_SIZE);

	return rxd_store_fill(rxd->store, first, end - first, RXD_GFP) ?:
	       rxd_zero(rxd, pos, len);
}

/*
 * Zero what rxd_free() has left of whole pages: a clone may have shared the leaves at both ends
 * again after they were replaced by copies.
 */
static int rxd_zero_ends(struct rxd_disk *rxd, u64 first, u64 last)
{
	const u64 size = RXD_PAGES_PER_LEAF << PAGE_SHIFT;
	u64 head = min_t(u64, round_up(first, size), last);
	u64 tail = max_t(u64, round_down(last, size), head);

	return rxd_zero(rxd, first, head - first) ?: rxd_zero(rxd, tail, last - tail);
}

/* Free the pages of a range, and zero what is not a whole page. Return: 0 or -ENOSPC. */
static int rxd_unmap(struct rxd_disk *rxd, u64 pos, u64 len)
{
	u64 end = pos + len;
	u64 first = min_t(u64, round_up(pos, PAGE_SIZE), end);
	u64 last = max_t(u64, round_down(end, PAGE_SIZE), first);
	int ret = 0;

	if (first < last)
		ret = rxd_store_unshare_ends(rxd->store, first >> PAGE_SHIFT,
					     (last - first) >> PAGE_SHIFT, RXD_GFP);
	if (!ret)
		ret = rxd_zero(rxd, pos, first - pos) ?: rxd_zero(rxd, last, end - last);
	if (ret)
		return ret;
	rxd_free(rxd, first, last - first, RXD_GFP);
	return rxd->store->hold ? rxd_zero_ends(rxd, first, last) : 0;
}

static blk_status_t rxd_write_zeroes(struct rxd_disk *rxd, struct bio *bio, u64 pos, u64 len)
{
	int ret;

	if (bio->bi_opf & REQ_NOWAIT)
		return BLK_STS_AGAIN;
	/* With detect_zeroes, the next write of zeros would free provisioned pages again. */
	if (rxd->reserved || (bio->bi_opf & REQ_NOUNMAP && !rxd->detect_zeroes))
		ret = rxd_provision(rxd, pos, len);
	else
		ret = rxd_unmap(rxd, pos, len);
	return ret ? rxd_write_failed(rxd, false) : BLK_STS_OK;
}

/*
 * Programs that read all disks, such as udev, get an error from this one. Do not log these
 * errors. A lost write is logged.
 */
static blk_status_t rxd_refuse(struct bio *bio, enum rxd_refusal refusal)
{
	if (!op_is_write(bio_op(bio)))
		bio_set_flag(bio, BIO_QUIET);
	return refusal == RXD_LOST ? BLK_STS_IOERR : BLK_STS_DEV_RESOURCE;
}

static blk_status_t rxd_do_bio(struct rxd_disk *rxd, struct bio *bio)
{
	u64 pos = (u64)bio->bi_iter.bi_sector << SECTOR_SHIFT;
	enum req_op op = bio_op(bio);
	u64 len = bio->bi_iter.bi_size;
	enum rxd_refusal refusal;

	/*
	 * Entering the queue is no acquire. A bio that enters after the queue was unfrozen must
	 * see what was changed before: the number of pages, @refusal, and that @changes was
	 * reported.
	 */
	smp_rmb();
	/*
	 * The block layer checks the bio against the capacity of the disk or partition
	 * before it enters the queue. The disk may have shrunk since then.
	 */
	if (unlikely(pos + len > (u64)rxd_store_nr_pages(rxd->store) << PAGE_SHIFT))
		return BLK_STS_IOERR;
	/* Not even reads may access the pages of a cache: some are not filled yet. */
	refusal = READ_ONCE(rxd->refusal);
	if (unlikely(refusal))
		return rxd_refuse(bio, refusal);
	if (op != REQ_OP_READ)
		rxd_note_change(&rxd->changes);

	switch (op) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		return rxd_rw(rxd, bio);
	case REQ_OP_DISCARD:
		return rxd_discard(rxd, bio, pos, len);
	case REQ_OP_WRITE_ZEROES:
		return rxd_write_zeroes(rxd, bio, pos, len);
	default:
		return BLK_STS_NOTSUPP;
	}
}

static void rxd_submit_bio(struct bio *bio)
{
	struct rxd_disk *rxd = bio->bi_bdev->bd_disk->private_data;
	bool account = blk_queue_io_stat(rxd->gd->queue);
	unsigned long start = 0;
	blk_status_t status;

	if (account)
		start = bio_start_io_acct(bio);
	status = rxd_do_bio(rxd, bio);
	/* Do not overwrite an error that a chained bio has stored here. */
	if (unlikely(status))
		bio->bi_status = status;
	if (account)
		bio_end_io_acct(bio, start);
	bio_endio(bio);
}

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

/* Allocate pages of zeros. Return: 0, -ENOSPC, or -EINTR if the task is killed. */
static int rxd_reserve(struct rxd_disk *rxd, unsigned long first, unsigned long nr)
{
	unsigned long part;
	int ret;

	for (; nr; first += part, nr -= part) {
		/* Check for SIGKILL after each part, because a part may wait for memory. */
		part = min_t(unsigned long, nr, SZ_2M >> PAGE_SHIFT);
		ret = rxd_store_fill(rxd->store, first, part, RXD_GFP);
		if (ret)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	return 0;
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
	rxd->reserved = arg->flags & RXD_CREATE_RESERVE;
	rxd->detect_zeroes = arg->flags & RXD_CREATE_DETECT_ZEROES;
	rxd->folio_size = arg->folio_size ?: PAGE_SIZE;
	rxd->node = arg->node;
	memcpy(&rxd->uuid, arg->uuid, sizeof(rxd->uuid));
	mutex_init(&rxd->lock);
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
 * Return: 0, -ENOMEM or -ENOSPC.
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
	if (!rxd->store)
		return -ENOMEM;
	if (arg->mem_limit)
		rxd_store_set_limit(rxd->store, arg->mem_limit >> PAGE_SHIFT);
	return rxd->reserved ? rxd_reserve(rxd, 0, arg->size >> PAGE_SHIFT) : 0;
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
		.max_write_zeroes_sectors = round_down(UINT_MAX, PAGE_SIZE) >> SECTOR_SHIFT,
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

/* The pages go first: writes to other disks must go on finding this memory. */
static void rxd_stop_expending(struct rxd_disk *rxd)
{
	if (!rxd->expendable)
		return;
	mutex_lock(&rxd->lock);
	rxd_store_clear(rxd->store);
	mutex_unlock(&rxd->lock);
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
	rxd_stop_expending(rxd);
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

/*
 * Prevent opens from now on by setting @flag, unless the disk is open, or is not as @seen. A dry
 * run only looks: a disk that is not going to change stays as usable as it is.
 */
static int rxd_shut(struct rxd_disk *rxd, bool *flag, const struct rxd_seen *seen, bool dry_run)
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
	return rxd_shut(rxd, &rxd->removing, seen, dry_run);
}

/**
 * rxd_disk_remove - unregister the block device of a RAM disk
 * @rxd: the disk, after rxd_disk_shut_down(); look-ups do not find it any more
 */
void rxd_disk_remove(struct rxd_disk *rxd)
{
	cancel_delayed_work_sync(&rxd->disarm);
	del_gendisk(rxd->gd);
	rxd_stop_expending(rxd);
	rxd_name_drop(rxd);
	put_disk(rxd->gd);
	module_put(THIS_MODULE);
}

/* Freeze the queue, because I/O in flight was checked against the old capacity. */
static void rxd_cut_store(struct rxd_disk *rxd, unsigned long nr_pages, bool only_zeroes)
{
	unsigned int memflags;
	bool drops_data;

	memflags = rxd_freeze_queue(rxd->gd->queue);
	drops_data = !only_zeroes &&
		     rxd_store_next_data(rxd->store, nr_pages) < rxd_store_nr_pages(rxd->store);
	rxd_store_shrink(rxd->store, nr_pages);
	/* Last: a number that is reported meanwhile is that of the old data. */
	if (drops_data)
		rxd_note_change(&rxd->changes);
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
}

static void rxd_clear_store(struct rxd_disk *rxd)
{
	unsigned int memflags;

	memflags = rxd_freeze_queue(rxd->gd->queue);
	rxd_store_clear(rxd->store);
	/* Last: a number that is reported meanwhile is that of the old data. */
	rxd_note_change(&rxd->changes);
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
	rxd_disk_set_parent(rxd, &uuid_null);
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
		ret = rxd_reserve(rxd, old, new - old);
		if (ret) {
			rxd_cut_store(rxd, old, true);
			return ret;
		}
	}
	set_capacity_and_notify(rxd->gd, size >> SECTOR_SHIFT);
	return 0;
}

/*
 * A reserved disk has all its pages, so look for bytes other than zero.
 *
 * Return: 0, -ENOTEMPTY, or -EINTR if the task is killed.
 */
static int rxd_check_zeroes_from(struct rxd_disk *rxd, unsigned long first)
{
	unsigned long nr_pages = rxd_store_nr_pages(rxd->store);
	struct page *page;
	bool found = false;

	for (; first < nr_pages && !found; first++) {
		if (fatal_signal_pending(current))
			return -EINTR;
		rcu_read_lock();
		page = rxd_store_lookup(rxd->store, first);
		found = page && memchr_inv(page_address(page), 0, PAGE_SIZE);
		rcu_read_unlock();
		cond_resched();
	}
	return found ? -ENOTEMPTY : 0;
}

/* Send the uevent before the queue is frozen, because sending may wait for other tasks. */
static void rxd_cut(struct rxd_disk *rxd, u64 size, bool only_zeroes)
{
	lockdep_assert_held(&rxd->gd->open_mutex);
	set_capacity_and_notify(rxd->gd, size >> SECTOR_SHIFT);
	rxd_cut_store(rxd, size >> PAGE_SHIFT, only_zeroes);
}

/*
 * Reading all pages of a reserved disk takes long. Do not hold the open_mutex for so long,
 * because sync(2) takes it for each disk. Opening the disk fails with EBUSY meanwhile.
 */
static int rxd_shrink_reserved(struct rxd_disk *rxd, u64 size, bool dry_run)
{
	int ret;

	ret = rxd_shut(rxd, &rxd->shut, NULL, dry_run);
	if (ret)
		return ret;
	ret = rxd_check_zeroes_from(rxd, size >> PAGE_SHIFT);

	if (dry_run)
		return ret;
	mutex_lock(&rxd->gd->open_mutex);
	if (!ret)
		rxd_cut(rxd, size, true);
	rxd->shut = false;
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

static int rxd_shrink_thin(struct rxd_disk *rxd, u64 size, u32 flags)
{
	unsigned long nr_pages = rxd_store_nr_pages(rxd->store);
	bool force = flags & RXD_RESIZE_FORCE;
	int ret = 0;

	mutex_lock(&rxd->gd->open_mutex);
	if (!force && disk_openers(rxd->gd))
		ret = -EBUSY;
	else if (!force && rxd_store_next_data(rxd->store, size >> PAGE_SHIFT) < nr_pages)
		ret = -ENOTEMPTY;
	else if (!(flags & RXD_DRY_RUN))
		rxd_cut(rxd, size, false);
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
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
	xa_for_each(&rxd->gd->part_tbl, partno, part) {
		start = (u64)part->bd_start_sect << SECTOR_SHIFT;
		truncate_inode_pages(rxd_bdev_mapping(part), max(from, start) - start);
	}
	mutex_unlock(&rxd->gd->open_mutex);
}

static int rxd_disk_shrink(struct rxd_disk *rxd, u64 size, u32 flags)
{
	bool dry_run = flags & RXD_DRY_RUN;
	int ret;

	if (rxd->owner)
		return -EBUSY;
	if (!dry_run) {
		ret = rxd_store_prepare_shrink(rxd->store, size >> PAGE_SHIFT);
		if (ret)
			return ret;
	}
	if (rxd->reserved && !(flags & RXD_RESIZE_FORCE))
		ret = rxd_shrink_reserved(rxd, size, dry_run);
	else
		ret = rxd_shrink_thin(rxd, size, flags);
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
 * Return: 0, -EBUSY, -ENOTEMPTY, -ENOSPC, -EINTR or -ENOMEM; see struct rxd_resize.
 */
int rxd_disk_resize(struct rxd_disk *rxd, u64 size, u32 flags)
{
	unsigned long nr_pages = rxd_store_nr_pages(rxd->store);
	u64 old = rxd_disk_size(rxd);
	int ret = 0;

	lockdep_assert_held(&rxd->lock);
	if (rxd_disk_is_lost(rxd))
		return -EIO;
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
	u64 pos, part;
	int ret;

	for (pos = 0; pos < size; pos += part) {
		if (fatal_signal_pending(current))
			return -EINTR;
		part = min_t(u64, size - pos, SZ_2M);
		ret = rxd_zero(rxd, pos, part);
		if (ret)
			return ret;
	}
	return 0;
}

static int rxd_clear_reserved(struct rxd_disk *rxd, const struct rxd_seen *seen, bool dry_run)
{
	int ret;

	ret = rxd_shut(rxd, &rxd->shut, seen, dry_run);
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
		rxd_clear_store(rxd);
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
	memset(arg->reserved1, 0, sizeof(arg->reserved1));
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

/**
 * rxd_claim - claim a RAM disk as the memory of a cache
 * @bdev: the whole disk; the caller keeps it open
 * @owner: identifies the claimant, which may claim the disk several times
 * @opens: number of times that @owner has the disk open exclusively
 *
 * A claimed disk cannot be claimed by another owner, and cannot shrink. It keeps its data
 * and serves I/O until rxd_take().
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
		rxd->expendable = false;
		rxd->nr_claims++;
		WRITE_ONCE(rxd->owner, owner);
		rxd_disk_end_record(rxd);
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
		/* A cache is never cloned. */
		swap(hold, rxd->store->hold);
		rxd_disk_set_parent(rxd, &uuid_null);
	}
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
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
 * Return: 0; -EBUSY if another task has opened the disk exclusively since the claim;
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
	else
		ret = seen ? rxd_take_same(rxd, seen) : rxd_take_store(rxd, NULL);
	if (!ret)
		rxd_reject_page_cache(rxd);
	mutex_unlock(&rxd->lock);
	return ret;
}
EXPORT_SYMBOL_NS_GPL(rxd_take, RXD_NS);

/**
 * rxd_release - release a claim of a RAM disk
 * @bdev: the disk
 * @owner: the owner of the claim
 *
 * The last release frees all pages of a disk that was taken, because no other user may
 * read the data of the cache.
 */
void rxd_release(struct block_device *bdev, const void *owner)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);

	mutex_lock(&rxd->lock);
	if (WARN_ON_ONCE(rxd->owner != owner) || --rxd->nr_claims)
		goto out_unlock;
	if (rxd->refusal == RXD_TAKEN) {
		rxd_clear_store(rxd);
		rxd_reject_page_cache(rxd);
		WRITE_ONCE(rxd->refusal, RXD_SERVES);
	}
	WRITE_ONCE(rxd->owner, NULL);
out_unlock:
	mutex_unlock(&rxd->lock);
}
EXPORT_SYMBOL_NS_GPL(rxd_release, RXD_NS);
