// SPDX-License-Identifier: GPL-2.0-only
/*
 * The block device of a RAM disk: gendisk, queue limits, bio in, bio out.
 */
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

#include "compat.h"
#include "disk.h"
#include "map.h"
#include "rxd.h"

static int rxd_open(struct gendisk *gd, blk_mode_t mode)
{
	struct rxd_disk *rxd = gd->private_data;

	lockdep_assert_held(&gd->open_mutex);
	if (rxd->removing)
		return -ENXIO;
	return rxd->shut ? -EBUSY : 0;
}

RXD_OPEN_METHOD(rxd_open)

/* How many bytes are copied before others may have the CPU. */
#define RXD_COPY_BYTES	SZ_256K

static void flush_dcache_bvec(const struct bio_vec *bv)
{
	struct page *page = bv->bv_page + (bv->bv_offset >> PAGE_SHIFT);
	int left = offset_in_page(bv->bv_offset) + bv->bv_len;

	for (; left > 0; left -= PAGE_SIZE)
		flush_dcache_page(page++);
}

/* Memory may come while somebody waits for it, but no wait lifts the limit. */
static blk_status_t rxd_write_failed(struct rxd_disk *rxd, bool nowait)
{
	if (nowait && rxd_store_has_room(rxd->store, 1))
		return BLK_STS_AGAIN;
	atomic64_inc(&rxd->nospc);
	return BLK_STS_NOSPC;
}

/* There is no high memory (compat.h): a bvec of many pages is one range of addresses. */
static blk_status_t rxd_rw(struct rxd_disk *rxd, struct bio *bio)
{
	bool nowait = bio->bi_opf & REQ_NOWAIT;
	gfp_t gfp = nowait ? RXD_GFP_NOWAIT : RXD_GFP;
	bool write = op_is_write(bio_op(bio));
	struct bvec_iter iter = bio->bi_iter;
	blk_status_t status = BLK_STS_OK;
	struct rxd_batch batch;
	struct bio_vec bv;
	u64 pos;

	rxd_batch_init(&batch);
	while (iter.bi_size) {
		pos = (u64)iter.bi_sector << SECTOR_SHIFT;
		bv = mp_bvec_iter_bvec(bio->bi_io_vec, iter);
		bv.bv_len = min_t(unsigned int, bv.bv_len, RXD_COPY_BYTES);

		if (write) {
			flush_dcache_bvec(&bv);
			if (rxd_store_write_part(rxd->store, pos, bvec_virt(&bv), bv.bv_len,
						 iter.bi_size - bv.bv_len, &batch, gfp)) {
				status = rxd_write_failed(rxd, nowait);
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
	rxd_batch_free(&batch);
	return status;
}

/* A discard may leave alone the page that it covers only in part. */
static void rxd_discard(struct rxd_disk *rxd, u64 pos, u64 len)
{
	unsigned long first = DIV_ROUND_UP_ULL(pos, PAGE_SIZE);
	unsigned long end = (pos + len) >> PAGE_SHIFT;

	if (first < end && rxd_store_free_range(rxd->store, first, end - first))
		atomic64_inc(&rxd->discards);
}

static void rxd_zero(struct rxd_disk *rxd, u64 pos, u64 len)
{
	unsigned int part;

	while (len) {
		part = min_t(u64, len, RXD_COPY_BYTES);
		rxd_store_zero(rxd->store, pos, part);
		pos += part;
		len -= part;
		cond_resched();
	}
}

/*
 * Without unmapping, the range is to take later writes for certain: its pages
 * enter now.
 */
static blk_status_t rxd_provision(struct rxd_disk *rxd, u64 pos, u64 len)
{
	unsigned long first = pos >> PAGE_SHIFT;
	unsigned long end = DIV_ROUND_UP_ULL(pos + len, PAGE_SIZE);

	if (rxd_store_fill(rxd->store, first, end - first, RXD_GFP))
		return rxd_write_failed(rxd, false);
	rxd_zero(rxd, pos, len);
	return BLK_STS_OK;
}

static blk_status_t rxd_write_zeroes(struct rxd_disk *rxd, struct bio *bio, u64 pos, u64 len)
{
	u64 end = pos + len;
	u64 first = min_t(u64, round_up(pos, PAGE_SIZE), end);
	u64 last = max_t(u64, round_down(end, PAGE_SIZE), first);

	if (bio->bi_opf & REQ_NOWAIT)
		return BLK_STS_AGAIN;
	/* Where zeros are not stored, memory for them would go with the next of them. */
	if (rxd->reserved || (bio->bi_opf & REQ_NOUNMAP && !rxd->detect_zeroes))
		return rxd_provision(rxd, pos, len);

	rxd_zero(rxd, pos, first - pos);
	rxd_discard(rxd, first, last - first);
	rxd_zero(rxd, last, end - last);
	return BLK_STS_OK;
}

/*
 * Whoever looks at all disks looks at this one, too, and gets his error: the log needs
 * no line for each. A write that is lost is another matter.
 */
static blk_status_t rxd_refuse(struct bio *bio)
{
	if (!op_is_write(bio_op(bio)))
		bio_set_flag(bio, BIO_QUIET);
	return BLK_STS_DEV_RESOURCE;
}

static blk_status_t rxd_do_bio(struct rxd_disk *rxd, struct bio *bio)
{
	u64 pos = (u64)bio->bi_iter.bi_sector << SECTOR_SHIFT;
	enum req_op op = bio_op(bio);
	u64 len = bio->bi_iter.bi_size;

	/*
	 * The block layer compares with the capacity, or with that of a partition,
	 * before it enters the queue: the disk may have shrunk since.
	 */
	if (unlikely(pos + len > (u64)rxd_store_nr_pages(rxd->store) << PAGE_SHIFT))
		return BLK_STS_IOERR;
	/* A cache's pages are not even to be read: some are not filled yet. */
	if (unlikely(READ_ONCE(rxd->taken)))
		return rxd_refuse(bio);

	switch (op) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		return rxd_rw(rxd, bio);
	case REQ_OP_DISCARD:
		rxd_discard(rxd, pos, len);
		return BLK_STS_OK;
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
	/* A bio that was chained to this one may have left its error here. */
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

	if (cmd != RXD_MAP || bdev_is_partition(bdev))
		return -ENOTTY;
	if (!(mode & BLK_OPEN_READ))
		return -EBADF;
	return rxd_map(rxd, (struct rxd_map __user *)arg);
}

static const struct block_device_operations rxd_fops = {
	.owner		= THIS_MODULE,
	.open		= rxd_open_method(rxd_open),
	.ioctl		= rxd_ioctl,
	.compat_ioctl	= blkdev_compat_ptr_ioctl,
	.submit_bio	= rxd_submit_bio,
};

/* Zeroed pages for a part of the disk, or -ENOSPC, or -EINTR if the task is killed. */
static int rxd_reserve(struct rxd_disk *rxd, unsigned long first, unsigned long nr)
{
	unsigned long part;
	int ret;

	for (; nr; first += part, nr -= part) {
		/* A signal is looked for after each: memory may be waited for. */
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
 * rxd_disk_alloc - begin to make a RAM disk
 * @arg: a checked argument
 *
 * Return: a disk without memory or a block device, or NULL.
 */
struct rxd_disk *rxd_disk_alloc(const struct rxd_create *arg)
{
	struct rxd_disk *rxd;

	rxd = kzalloc_obj(*rxd, GFP_KERNEL);
	if (!rxd)
		return NULL;
	refcount_set(&rxd->refs, 1);
	rxd->overcommit = arg->flags & RXD_CREATE_OVERCOMMIT;
	rxd->reserved = arg->flags & RXD_CREATE_RESERVE;
	rxd->detect_zeroes = arg->flags & RXD_CREATE_DETECT_ZEROES;
	rxd->folio_size = arg->folio_size ?: PAGE_SIZE;
	rxd->node = arg->node;
	memcpy(&rxd->uuid, arg->uuid, sizeof(rxd->uuid));
	mutex_init(&rxd->lock);
	return rxd;
}

/**
 * rxd_disk_get - keep a RAM disk from being freed
 * @rxd: the disk
 */
void rxd_disk_get(struct rxd_disk *rxd)
{
	refcount_inc(&rxd->refs);
}

/**
 * rxd_disk_put - let go of a RAM disk
 * @rxd: the disk; with its last user it goes, and its memory in the background
 */
void rxd_disk_put(struct rxd_disk *rxd)
{
	if (!refcount_dec_and_test(&rxd->refs))
		return;
	rxd_store_destroy(rxd->store);
	mutex_destroy(&rxd->lock);
	kfree(rxd);
}

static int rxd_build_store(struct rxd_disk *rxd, const struct rxd_create *arg)
{
	struct rxd_store_options options = {
		.order		= arg->folio_size > PAGE_SIZE ?
				  ilog2(arg->folio_size >> PAGE_SHIFT) : 0,
		.node		= arg->node,
		.detect_zeroes	= rxd->detect_zeroes,
	};

	rxd->store = rxd_store_create(arg->size >> PAGE_SHIFT, &options);
	if (!rxd->store)
		return -ENOMEM;
	if (arg->mem_limit)
		rxd_store_set_limit(rxd->store, arg->mem_limit >> PAGE_SHIFT);
	if (!rxd->reserved)
		return 0;
	/* To fill all there is, only to give it back, would hurt everybody else. */
	if (!rxd_store_can_fill(rxd->store, arg->size >> PAGE_SHIFT))
		return -ENOSPC;
	return rxd_reserve(rxd, 0, arg->size >> PAGE_SHIFT);
}

/**
 * rxd_disk_build - give a RAM disk its memory and its block device
 * @rxd: what rxd_disk_alloc() returned, with its device number
 * @arg: what that was given
 *
 * May take long, if memory is to be reserved. What an error leaves goes with
 * rxd_disk_put().
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
	/* Without a major, the numbers are those of "blkext", which LVM and others know. */
	gd->fops = &rxd_fops;
	gd->private_data = rxd;
	rxd_store_set_bdi(rxd->store, gd->bdi);
	snprintf(gd->disk_name, sizeof(gd->disk_name), "rxd%d", rxd->index);
	set_capacity(gd, arg->size >> SECTOR_SHIFT);
	return 0;
}

/**
 * rxd_disk_add - show a RAM disk to the system
 * @rxd: what rxd_disk_build() completed
 *
 * Return: 0, or a negative errno after which only rxd_disk_put() is left.
 */
int rxd_disk_add(struct rxd_disk *rxd)
{
	struct gendisk *gd = rxd->gd;
	int ret;

	/*
	 * There are no partitions to look for yet, and the look itself keeps
	 * the disk open until its task has gone back to user space.
	 */
	set_bit(GD_SUPPRESS_PART_SCAN, &gd->state);
	ret = device_add_disk(NULL, gd, rxd_disk_groups);
	if (ret) {
		put_disk(gd);
		return ret;
	}
	clear_bit(GD_SUPPRESS_PART_SCAN, &gd->state);

	/* A live device holds the module: only its removal lets go. */
	__module_get(THIS_MODULE);
	return 0;
}

/* Have no openers from now on; @flag says why. */
static int rxd_shut(struct rxd_disk *rxd, bool *flag)
{
	struct gendisk *gd = rxd->gd;
	int ret = 0;

	lockdep_assert_held(&rxd->lock);
	mutex_lock(&gd->open_mutex);
	if (disk_openers(gd))
		ret = -EBUSY;
	else
		*flag = true;
	mutex_unlock(&gd->open_mutex);
	return ret;
}

/**
 * rxd_disk_shut_down - begin to take a RAM disk away: nobody opens it any more
 * @rxd: the disk, locked
 *
 * Return: 0, or -EBUSY if somebody has it open.
 */
int rxd_disk_shut_down(struct rxd_disk *rxd)
{
	return rxd_shut(rxd, &rxd->removing);
}

/**
 * rxd_disk_remove - take a RAM disk away from the system
 * @rxd: the disk, after rxd_disk_shut_down(), and not found by anybody any more
 */
void rxd_disk_remove(struct rxd_disk *rxd)
{
	del_gendisk(rxd->gd);
	put_disk(rxd->gd);
	module_put(THIS_MODULE);
}

/* I/O that is under way may have passed the block layer's check of the old capacity. */
static void rxd_cut_store(struct rxd_disk *rxd, unsigned long nr_pages)
{
	unsigned int memflags;

	memflags = rxd_freeze_queue(rxd->gd->queue);
	rxd_store_shrink(rxd->store, nr_pages);
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
}

static void rxd_clear_store(struct rxd_disk *rxd)
{
	unsigned int memflags;

	memflags = rxd_freeze_queue(rxd->gd->queue);
	rxd_store_clear(rxd->store);
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
}

static int rxd_disk_grow(struct rxd_disk *rxd, u64 size)
{
	unsigned long old = rxd_store_nr_pages(rxd->store);
	unsigned long new = size >> PAGE_SHIFT;
	int ret;

	if (rxd->reserved && !rxd_store_can_fill(rxd->store, new - old))
		return -ENOSPC;

	ret = rxd_store_grow(rxd->store, new);
	if (ret)
		return ret;
	if (rxd->reserved) {
		ret = rxd_reserve(rxd, old, new - old);
		if (ret) {
			rxd_cut_store(rxd, old);
			return ret;
		}
	}
	set_capacity_and_notify(rxd->gd, size >> SECTOR_SHIFT);
	return 0;
}

/* What is reserved is there, but may be zeros. -ENOTEMPTY, or -EINTR if the task is killed. */
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

/* The event is sent, and waits for whoever it waits for, while the disk still works. */
static void rxd_cut(struct rxd_disk *rxd, u64 size)
{
	lockdep_assert_held(&rxd->gd->open_mutex);
	set_capacity_and_notify(rxd->gd, size >> SECTOR_SHIFT);
	rxd_cut_store(rxd, size >> PAGE_SHIFT);
}

/*
 * To look at all of a reserved disk, or to zero it, takes longer than openers should wait
 * for a lock that sync(2) of the whole machine takes, too: they get EBUSY meanwhile.
 */
static int rxd_shrink_reserved(struct rxd_disk *rxd, u64 size)
{
	int ret;

	ret = rxd_shut(rxd, &rxd->shut);
	if (ret)
		return ret;
	ret = rxd_check_zeroes_from(rxd, size >> PAGE_SHIFT);

	mutex_lock(&rxd->gd->open_mutex);
	if (!ret)
		rxd_cut(rxd, size);
	rxd->shut = false;
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

static int rxd_shrink_thin(struct rxd_disk *rxd, u64 size, bool force)
{
	unsigned long nr_pages = rxd_store_nr_pages(rxd->store);
	int ret = 0;

	mutex_lock(&rxd->gd->open_mutex);
	if (!force && disk_openers(rxd->gd))
		ret = -EBUSY;
	else if (!force && rxd_store_next_data(rxd->store, size >> PAGE_SHIFT) < nr_pages)
		ret = -ENOTEMPTY;
	else
		rxd_cut(rxd, size);
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

/*
 * What the page cache keeps for those who have the disk or a partition open is no
 * longer what the disk holds.
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

static int rxd_disk_shrink(struct rxd_disk *rxd, u64 size, bool force)
{
	int ret;

	if (rxd->reserved && !force)
		ret = rxd_shrink_reserved(rxd, size);
	else
		ret = rxd_shrink_thin(rxd, size, force);
	/* What was cut off must not come back from the page cache. */
	if (!ret)
		rxd_drop_page_cache(rxd, size);
	return ret;
}

/**
 * rxd_disk_resize - change the capacity
 * @rxd: the disk, locked; I/O may go on
 * @size: bytes, checked
 * @force: shrink although the disk is open or data would be lost
 *
 * Return: 0, -EBUSY, -ENOTEMPTY, -ENOSPC, -EINTR or -ENOMEM as the ABI says.
 */
int rxd_disk_resize(struct rxd_disk *rxd, u64 size, bool force)
{
	u64 old = rxd_disk_size(rxd);
	int ret = 0;

	lockdep_assert_held(&rxd->lock);
	if (size > old)
		ret = rxd_disk_grow(rxd, size);
	else if (size < old)
		ret = rxd->owner ? -EBUSY : rxd_disk_shrink(rxd, size, force);
	/* Of a shrink, or of a grow that failed half-way. */
	rxd_store_trim(rxd->store);
	return ret;
}

/* Return: 0, or -EINTR if the task is killed. */
static int rxd_zero_all(struct rxd_disk *rxd)
{
	u64 size = rxd_disk_size(rxd);
	u64 pos, part;

	for (pos = 0; pos < size; pos += part) {
		if (fatal_signal_pending(current))
			return -EINTR;
		part = min_t(u64, size - pos, SZ_2M);
		rxd_zero(rxd, pos, part);
	}
	return 0;
}

static int rxd_clear_reserved(struct rxd_disk *rxd)
{
	int ret;

	ret = rxd_shut(rxd, &rxd->shut);
	if (ret)
		return ret;
	if (get_disk_ro(rxd->gd))
		ret = -EROFS;
	else
		ret = rxd_zero_all(rxd);

	mutex_lock(&rxd->gd->open_mutex);
	rxd->shut = false;
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

static int rxd_clear_thin(struct rxd_disk *rxd)
{
	int ret = 0;

	mutex_lock(&rxd->gd->open_mutex);
	if (disk_openers(rxd->gd))
		ret = -EBUSY;
	else if (get_disk_ro(rxd->gd))
		ret = -EROFS;
	else
		rxd_clear_store(rxd);
	mutex_unlock(&rxd->gd->open_mutex);
	return ret;
}

/**
 * rxd_disk_clear - forget all data
 * @rxd: the disk, locked
 *
 * Return: 0; -EROFS if it is read-only; -EBUSY if somebody uses it; -EINTR if the task is
 * killed, and reserved memory may be zeroed in part.
 */
int rxd_disk_clear(struct rxd_disk *rxd)
{
	lockdep_assert_held(&rxd->lock);
	/* Its owner has it open. */
	return rxd->reserved ? rxd_clear_reserved(rxd) : rxd_clear_thin(rxd);
}

/**
 * rxd_disk_size - the capacity
 * @rxd: the disk
 *
 * Return: bytes.
 */
u64 rxd_disk_size(const struct rxd_disk *rxd)
{
	return (u64)get_capacity(rxd->gd) << SECTOR_SHIFT;
}

/**
 * rxd_disk_state - who uses the disk
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
	return state;
}

/**
 * rxd_disk_set_mem_limit - bound the memory that data may take
 * @rxd: the disk
 * @limit: bytes, 0 for no limit
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
 * rxd_disk_query - tell what is known of a disk
 * @rxd: the disk
 * @arg: its output fields are filled in
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
	arg->mem_64k = (u64)stats.used_64k << PAGE_SHIFT;
	arg->mem_2m = (u64)stats.used_2m << PAGE_SHIFT;
	arg->nospc = atomic64_read(&rxd->nospc);
	arg->discards = atomic64_read(&rxd->discards);
	arg->node = rxd->node;
	memcpy(arg->uuid, &rxd->uuid, sizeof(arg->uuid));
}

static struct rxd_disk *rxd_of_bdev(struct block_device *bdev)
{
	if (bdev->bd_disk->fops != &rxd_fops || bdev_is_partition(bdev))
		return NULL;
	return bdev->bd_disk->private_data;
}

/**
 * rxd_claim - reserve a RAM disk to be a cache's memory
 * @bdev: the whole disk, which the caller has open and keeps open
 * @owner: who claims it; the same owner may claim it again
 * @opens: how many times @owner has it open, exclusively
 *
 * From now on nobody else can claim it and it does not shrink. It goes on to serve
 * I/O, and what it held stays, until rxd_take().
 *
 * Return: its store; ERR_PTR(-ENODEV) if @bdev is no whole RAM disk,
 * ERR_PTR(-EOPNOTSUPP) if its memory is reserved, ERR_PTR(-EROFS) if it is read-only,
 * ERR_PTR(-EBUSY) if it is another owner's, or held by anybody else.
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
	/* An exclusive opening of a whole disk counts twice. */
	if (bdev->bd_holders > 2 * opens || (rxd->owner && rxd->owner != owner)) {
		store = ERR_PTR(-EBUSY);
	} else {
		rxd->nr_claims++;
		WRITE_ONCE(rxd->owner, owner);
	}
	mutex_unlock(&rxd->lock);
	return store;
}
EXPORT_SYMBOL_NS_GPL(rxd_claim, RXD_NS);

/**
 * rxd_take - drop what a claimed RAM disk holds, and use it from now on
 * @bdev: the disk
 * @owner: who claimed it, and has no I/O to it under way
 * @opens: how many times @owner has it open, exclusively
 *
 * From now on the disk refuses all I/O but its owner's.
 *
 * Return: 0, or -EBUSY if somebody else has come to hold the disk since it was claimed.
 */
int rxd_take(struct block_device *bdev, const void *owner, unsigned int opens)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);
	int ret = 0;

	mutex_lock(&rxd->lock);
	/* All mapped devices hold as one: rxd_claim() keeps none of them away. */
	if (WARN_ON_ONCE(rxd->owner != owner) || bdev->bd_holders > 2 * opens) {
		ret = -EBUSY;
	} else {
		/* Clearing waits for the writes that do not see this yet. */
		WRITE_ONCE(rxd->taken, true);
		rxd_clear_store(rxd);
		rxd_drop_page_cache(rxd, 0);
	}
	mutex_unlock(&rxd->lock);
	return ret;
}
EXPORT_SYMBOL_NS_GPL(rxd_take, RXD_NS);

/**
 * rxd_release - give a claimed RAM disk back
 * @bdev: the disk
 * @owner: who claimed it
 *
 * With the last claim all pages go if the owner took them: what a cache held is
 * no one else's.
 */
void rxd_release(struct block_device *bdev, const void *owner)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);

	mutex_lock(&rxd->lock);
	if (WARN_ON_ONCE(rxd->owner != owner) || --rxd->nr_claims)
		goto out_unlock;
	if (rxd->taken) {
		rxd_clear_store(rxd);
		rxd_drop_page_cache(rxd, 0);
		WRITE_ONCE(rxd->taken, false);
	}
	WRITE_ONCE(rxd->owner, NULL);
out_unlock:
	mutex_unlock(&rxd->lock);
}
EXPORT_SYMBOL_NS_GPL(rxd_release, RXD_NS);
