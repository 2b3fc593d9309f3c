// SPDX-License-Identifier: GPL-2.0-only
/*
 * The I/O of a RAM disk: reads, writes, discards and write-zeroes, each complete when it returns.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sizes.h>

#include "compat.h"
#include "disk.h"
#include "hold.h"

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

/*
 * Does a program demand memory, for itself or on another machine? Direct I/O and targets such as
 * NVMe-oF set REQ_IDLE. Writeback does not, nor do dm-crypt and RAID 5 for what they make of it.
 * Journals may set it together with REQ_META. The threads of loop devices pass on both kinds of
 * bios, and have a flag. So have programs that serve a device and have called prctl(2) with
 * PR_SET_IO_FLUSHER. If a thread of dm-thin or RAID 1 submits one, only the page tells.
 */
static bool is_demand(const struct bio *bio)
{
	if ((bio->bi_opf & (REQ_IDLE | REQ_META)) != REQ_IDLE || current->flags & PF_LOCAL_THROTTLE)
		return false;
	return !(current->flags & PF_KTHREAD && bio->bi_iter.bi_size &&
		 PageWriteback(bio_page(bio)));
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
	gfp_t gfp;
	u64 pos;

	gfp = nowait ? RXD_GFP_NOWAIT : RXD_GFP;
	if (!is_demand(bio))
		gfp |= RXD_GFP_WRITEBACK;
	/* In bytes, because a segment need not consist of whole sectors. */
	pos = (u64)iter.bi_sector << SECTOR_SHIFT;
	rxd_write_begin(&write, iter.bi_size, gfp);
	while (iter.bi_size) {
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
		pos += bv.bv_len;
		bio_advance_iter_single(bio, &iter, bv.bv_len);
		/* To be scheduled is not to wait, so REQ_NOWAIT does not exclude it. */
		if (iter.bi_size)
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

/**
 * rxd_disk_zero - zero a range without freeing memory
 * @rxd: the disk
 * @pos: position in bytes
 * @len: number of bytes; the range lies within the capacity
 * @write: the write that rxd_write_begin() began, of which this is a part
 *
 * Return: 0 or -ENOSPC.
 */
int rxd_disk_zero(struct rxd_disk *rxd, u64 pos, u64 len, struct rxd_write *write)
{
	unsigned int part;
	int ret = 0;

	while (len && !ret) {
		part = min_t(u64, len, RXD_COPY_BYTES);
		ret = rxd_store_zero(rxd->store, pos, part, write);
		pos += part;
		len -= part;
		cond_resched();
	}
	return ret;
}

/* Write zeroes without unmap guarantees memory for later writes, so allocate all pages now. */
static int rxd_provision(struct rxd_disk *rxd, u64 pos, u64 len, struct rxd_write *write)
{
	unsigned long first = pos >> PAGE_SHIFT;
	unsigned long end = DIV_ROUND_UP_ULL(pos + len, PAGE_SIZE);

	return rxd_store_fill(rxd->store, first, end - first, write) ?:
	       rxd_disk_zero(rxd, pos, len, write);
}

/*
 * Zero what rxd_free() has left of whole pages: a clone may have shared the leaves at both ends
 * again after they were replaced by copies.
 */
static int rxd_zero_ends(struct rxd_disk *rxd, u64 first, u64 last, struct rxd_write *write)
{
	const u64 size = RXD_PAGES_PER_LEAF << PAGE_SHIFT;
	u64 head = min_t(u64, round_up(first, size), last);
	u64 tail = max_t(u64, round_down(last, size), head);

	return rxd_disk_zero(rxd, first, head - first, write) ?:
	       rxd_disk_zero(rxd, tail, last - tail, write);
}

/* Free the pages of a range, and zero what is not a whole page. Return: 0 or -ENOSPC. */
static int rxd_unmap(struct rxd_disk *rxd, u64 pos, u64 len, struct rxd_write *write)
{
	u64 end = pos + len;
	u64 first = min_t(u64, round_up(pos, PAGE_SIZE), end);
	u64 last = max_t(u64, round_down(end, PAGE_SIZE), first);
	int ret = 0;

	if (first < last)
		ret = rxd_store_unshare_ends_wait(rxd->store, first >> PAGE_SHIFT,
						  (last - first) >> PAGE_SHIFT, write);
	if (!ret)
		ret = rxd_disk_zero(rxd, pos, first - pos, write) ?:
		      rxd_disk_zero(rxd, last, end - last, write);
	if (ret)
		return ret;
	rxd_free(rxd, first, last - first, RXD_GFP);
	return rxd->store->hold ? rxd_zero_ends(rxd, first, last, write) : 0;
}

static blk_status_t rxd_write_zeroes(struct rxd_disk *rxd, struct bio *bio, u64 pos, u64 len)
{
	struct rxd_write write;
	int ret;

	if (bio->bi_opf & REQ_NOWAIT)
		return BLK_STS_AGAIN;
	/* One for all parts, which bounds how long they wait for memory together. */
	rxd_write_begin(&write, 0, RXD_GFP);
	/* With detect_zeroes, the next write of zeros would free provisioned pages again. */
	if (rxd->reserved || (bio->bi_opf & REQ_NOUNMAP && !rxd->detect_zeroes))
		ret = rxd_provision(rxd, pos, len, &write);
	else
		ret = rxd_unmap(rxd, pos, len, &write);
	rxd_write_end(&write);
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

/**
 * rxd_submit_bio - carry out a bio, and complete it
 * @bio: the bio, which the block layer has checked
 */
void rxd_submit_bio(struct bio *bio)
{
	struct rxd_disk *rxd = bio->bi_bdev->bd_disk->private_data;
	bool account = blk_queue_io_stat(rxd->gd->queue);
	unsigned long start = 0;
	blk_status_t status;

	if (account)
		start = bio_start_io_acct(bio);
	status = rxd_do_bio(rxd, bio);
	/* Keep an error that a chained bio has stored here. */
	if (unlikely(status) && !bio->bi_status)
		bio->bi_status = status;
	if (account)
		bio_end_io_acct(bio, start);
	bio_endio(bio);
}
