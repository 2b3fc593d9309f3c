// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bios between the reader or writer, the cache's pages and the origin.
 *
 * What enters the cache comes from the origin or is on its way there from the
 * cache's own pages, never straight from a buffer that its owner may change
 * meanwhile. Each step handles the longest run of blocks of equal fate; device
 * mapper sends the rest of the bio again.
 *
 * Whatever is short, a slot, a page or a bio, the I/O goes round the cache.
 */
#include <linux/bio.h>
#include <linux/blk-cgroup.h>
#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/hash.h>
#include <linux/ioprio.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "../module/copy.h"
#include "../module/rxd.h"
#include "origin.h"

/* How many pages one of our bios carries at most. */
#define MAX_PAGES	BIO_MAX_VECS
#define MIN_BIOS	16
/* How far ahead of the block that it handles a long read or write asks for the index. */
#define BLOCKS_AHEAD	4

/* A prefetch waits until no other I/O was seen for so long, but not for ever. */
#define QUIET_TIME	(HZ / 20)
#define MAX_PATIENCE	(HZ / 2)
/* After so long it begins with no further MiB: others wait for the message to end. */
#define MAX_PREFETCH	(HZ / 10)

/*
 * Flags of the reader's bio that ours inherits. A fill is also for others than the
 * reader: it must be neither given up nor split short because this one only reads
 * ahead or does not wait.
 */
#define FILL_FLAGS	(REQ_SYNC | REQ_META | REQ_PRIO | REQ_IDLE | REQ_BACKGROUND)

/**
 * struct rxc_wait - somebody waits for fills
 * @pending: how many are under way, and 1 as long as more may follow
 * @done: completed when all have ended
 * @status: an error, if one failed
 */
struct rxc_wait {
	atomic_t pending;
	struct completion done;
	blk_status_t status;
};

/**
 * struct rxc_io - a bio of our own, from the origin to the cache's pages
 * @work: finishes it
 * @c: the cache
 * @list: among the fills under way
 * @readers: the bios it serves, not yet advanced; none at first for a prefetch
 * @wait: who waits for a prefetch; NULL for a reader's
 * @iter: where @bio began
 * @first: its first block
 * @nr: number of blocks, each with a slot that is ours
 * @bio: the bio; last, since its bvecs may follow
 */
struct rxc_io {
	struct work_struct work;
	struct rxcache *c;
	struct list_head list;
	struct bio_list readers;
	struct rxc_wait *wait;
	struct bvec_iter iter;
	u64 first;
	unsigned int nr;
	struct bio bio;
};

/**
 * struct rxc_span - the blocks of the index that a bio touches
 * @sector: first sector of the bio, within the target
 * @first: first block
 * @end: the block after the last
 * @end_sector: the sector after the last of the bio
 */
struct rxc_span {
	sector_t sector;
	sector_t end_sector;
	u64 first;
	u64 end;
};

static struct rxc_span span_of(const struct rxcache *c, const struct bio *bio)
{
	struct rxc_span span;

	span.sector = dm_target_offset(c->ti, bio->bi_iter.bi_sector);
	span.end_sector = span.sector + bio_sectors(bio);
	span.first = span.sector >> c->block_shift;
	span.end = (span.end_sector + (1ULL << c->block_shift) - 1) >> c->block_shift;
	return span;
}

static sector_t block_sector(const struct rxcache *c, u64 block)
{
	return block << c->block_shift;
}

static unsigned int block_pages(const struct rxcache *c)
{
	return 1U << (c->block_shift + SECTOR_SHIFT - PAGE_SHIFT);
}

static bool covers(const struct rxcache *c, const struct rxc_span *span, u64 block)
{
	return block_sector(c, block) >= span->sector &&
	       block_sector(c, block + 1) <= span->end_sector;
}

static gfp_t gfp_of(const struct bio *bio)
{
	return bio->bi_opf & REQ_NOWAIT ? RXD_GFP_NOWAIT : RXD_GFP;
}

/* Cut a bio so that it ends with a block; the rest comes again. */
static void accept_until(struct rxcache *c, struct bio *bio, const struct rxc_span *span,
			 u64 end)
{
	sector_t end_sector = min(block_sector(c, end), span->end_sector);

	if (end_sector < span->end_sector)
		dm_accept_partial_bio(bio, end_sector - span->sector);
}

static void count_read(struct rxcache *c, const struct rxc_span *span, u64 first, u64 end,
		       enum rxc_stat stat)
{
	unsigned int partials = 0;

	if (!covers(c, span, first))
		partials++;
	if (end - 1 > first && !covers(c, span, end - 1))
		partials++;
	rxc_stat_add(c->stats, stat, end - first);
	if (partials)
		rxc_stat_add(c->stats, RXC_READ_PARTIALS, partials);
}

/* Copy between two bios that are at least as long as @dst_iter says. */
static void copy_bio(struct bio *dst, struct bvec_iter dst_iter, struct bio *src,
		     struct bvec_iter src_iter)
{
	struct bio_vec dst_bv, src_bv;
	void *dst_addr, *src_addr;
	unsigned int len;

	while (dst_iter.bi_size) {
		dst_bv = bio_iter_iovec(dst, dst_iter);
		src_bv = bio_iter_iovec(src, src_iter);
		len = min(dst_bv.bv_len, src_bv.bv_len);
		bio_advance_iter_single(dst, &dst_iter, len);
		bio_advance_iter_single(src, &src_iter, len);

		dst_addr = bvec_kmap_local(&dst_bv);
		src_addr = bvec_kmap_local(&src_bv);
		rxd_copy(dst_addr, src_addr, len);
		flush_dcache_page(dst_bv.bv_page);
		kunmap_local(src_addr);
		kunmap_local(dst_addr);
	}
}

static void copy_to_bio(struct bio *bio, struct bvec_iter *iter, const void *src,
			unsigned int len)
{
	struct bio_vec bv;
	void *addr;

	while (len) {
		bv = bio_iter_iovec(bio, *iter);
		bv.bv_len = min(bv.bv_len, len);
		addr = bvec_kmap_local(&bv);
		rxd_copy(addr, src, bv.bv_len);
		flush_dcache_page(bv.bv_page);
		kunmap_local(addr);
		bio_advance_iter_single(bio, iter, bv.bv_len);
		src += bv.bv_len;
		len -= bv.bv_len;
	}
}

static void free_pages_list(struct list_head *pages)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, pages, lru)
		rxd_store_free_page(page);
	INIT_LIST_HEAD(pages);
}

/*
 * Pages for some blocks from @block on, side by side in memory if that can be had:
 * at least for one. Where there are none, have the cache give some back: what is
 * cached must not stay the same for ever because the machine's memory is short.
 */
static bool alloc_pages_list(struct rxcache *c, u64 block, unsigned int nr_blocks,
			     struct list_head *pages, gfp_t gfp)
{
	unsigned int wanted = nr_blocks * block_pages(c), found = 0, nr, i;
	struct page *page;

	while (found < wanted) {
		nr = wanted - found;
		page = rxd_store_alloc_run(c->store, block * block_pages(c) + found, &nr, gfp);
		if (!page)
			break;
		for (i = 0; i < nr; i++)
			list_add_tail(&page[i].lru, pages);
		found += nr;
	}
	for (; found % block_pages(c); found--) {
		page = list_last_entry(pages, struct page, lru);
		list_del(&page->lru);
		rxd_store_free_page(page);
	}
	if (!found)
		rxc_index_make_room(c->index);
	return found;
}

static struct rxc_io *alloc_io(struct rxcache *c, u64 first, u64 end, blk_opf_t opf,
			       gfp_t gfp)
{
	unsigned int nr_vecs = min_t(u64, (end - first) * block_pages(c), MAX_PAGES);
	struct rxc_io *io;
	struct bio *bio;

	bio = bio_alloc_bioset(c->origin->bdev, nr_vecs, opf, gfp, &c->bios);
	if (!bio)
		return NULL;

	io = container_of(bio, struct rxc_io, bio);
	io->c = c;
	bio_list_init(&io->readers);
	io->wait = NULL;
	io->first = first;
	io->nr = 0;
	return io;
}

/* The priority that the disk would give a bio that we sent now. */
static unsigned short prio_of(const struct bio *bio)
{
	if (IOPRIO_PRIO_CLASS(bio->bi_ioprio) == IOPRIO_CLASS_NONE)
		return get_current_ioprio();
	return bio->bi_ioprio;
}

static unsigned int class_of(unsigned short prio)
{
	return IOPRIO_PRIO_CLASS(prio) ?: IOPRIO_CLASS_BE;
}

static struct rxc_io *alloc_io_for(struct rxcache *c, struct bio *reader,
				   const struct rxc_span *span)
{
	struct rxc_io *io;

	/* Waiting for a bio of ours could wait for ourselves: step aside instead. */
	io = alloc_io(c, span->first, span->end, REQ_OP_READ | (reader->bi_opf & FILL_FLAGS),
		      GFP_NOWAIT | __GFP_NOWARN);
	if (!io)
		return NULL;
	io->bio.bi_ioprio = prio_of(reader);
	bio_clone_blkg_association(&io->bio, reader);
	bio_list_add(&io->readers, reader);
	return io;
}

/* How many more blocks there is room for. */
static unsigned int io_room(const struct rxc_io *io)
{
	return MAX_PAGES / block_pages(io->c) - io->nr;
}

/* Add the part of a slot from byte @from to byte @to to a bio that has room for it. */
static void add_block(struct rxcache *c, struct bio *bio, unsigned long slot,
		      unsigned int from, unsigned int to)
{
	unsigned int offset, len;
	struct page *page;

	for (; from < to; from += len) {
		offset = offset_in_page(from);
		len = min_t(unsigned int, to - from, PAGE_SIZE - offset);
		page = rxc_index_own_page(c->index, slot, from >> PAGE_SHIFT);
		/*
		 * There is a bvec for each page, so this cannot fail. It merges
		 * pages that lie side by side, or else a long bio would have more
		 * segments than the disk takes at once.
		 */
		WARN_ON_ONCE(bio_add_page(bio, page, len, offset) != len);
	}
}

static void io_prepare(struct rxc_io *io, bio_end_io_t *end_io)
{
	io->bio.bi_iter.bi_sector = block_sector(io->c, io->first);
	io->bio.bi_end_io = end_io;
	io->iter = io->bio.bi_iter;
}

/**
 * rxc_remap - send a bio to the origin as it is
 * @c: the cache
 * @bio: the bio
 *
 * Return: what map() returns.
 */
int rxc_remap(struct rxcache *c, struct bio *bio)
{
	bio_set_dev(bio, c->origin->bdev);
	if (bio_sectors(bio))
		bio->bi_iter.bi_sector = dm_target_offset(c->ti, bio->bi_iter.bi_sector);
	return DM_MAPIO_REMAPPED;
}

/* Copy what a bio asks for of a block that was found, under rcu_read_lock(). */
static bool copy_hit(struct rxcache *c, const struct rxc_span *span, u64 block,
		     unsigned long slot, struct bio *bio, struct bvec_iter *iter)
{
	u64 pos = max(block_sector(c, block), span->sector) << SECTOR_SHIFT;
	u64 end = min(block_sector(c, block + 1), span->end_sector) << SECTOR_SHIFT;
	unsigned int offset = pos - (block_sector(c, block) << SECTOR_SHIFT);
	struct bvec_iter saved = *iter;
	struct page *page;
	unsigned int len;

	for (; pos < end; pos += len, offset += len) {
		len = min_t(u64, end - pos, PAGE_SIZE - offset_in_page(offset));
		page = rxc_index_hit_page(c->index, slot, block, offset >> PAGE_SHIFT);
		if (!page) {
			*iter = saved;
			return false;
		}
		copy_to_bio(bio, iter, page_address(page) + offset_in_page(offset), len);
	}
	rxc_index_touch(c->index, slot);
	return true;
}

/* Prefetch what the index knows of the first blocks of a range. */
static void begin_looking(struct rxcache *c, u64 block, u64 end)
{
	u64 until = min(end, block + BLOCKS_AHEAD);

	for (; block < until; block++)
		rxc_index_prefetch(c->index, block);
}

/* Prefetch what the index knows of a later block of a long range. */
static void look_ahead(struct rxcache *c, u64 block, u64 end)
{
	if (block + BLOCKS_AHEAD < end)
		rxc_index_prefetch(c->index, block + BLOCKS_AHEAD);
}

/* A bio that must not wait may be mapped under an RCU read lock. */
static void let_others_run(const struct bio *bio)
{
	if (!(bio->bi_opf & REQ_NOWAIT))
		cond_resched();
}

/* Serve the leading blocks that are there. Return: the first block that is not there. */
static u64 read_hits(struct rxcache *c, const struct rxc_span *span, struct bio *bio)
{
	u64 block = span->first, end = min(span->end, c->nr_blocks);
	struct bvec_iter iter = bio->bi_iter;
	long slot;
	bool hit;

	begin_looking(c, block, end);
	while (block < end) {
		look_ahead(c, block, end);
		rcu_read_lock();
		slot = rxc_index_find(c->index, block);
		hit = slot >= 0 && copy_hit(c, span, block, slot, bio, &iter);
		rcu_read_unlock();
		if (!hit)
			break;
		if (++block < end)
			let_others_run(bio);
	}
	return block;
}

static void count_error(struct rxcache *c, blk_status_t status)
{
	if (status && status != BLK_STS_AGAIN && status != BLK_STS_NOTSUPP)
		rxc_stat_inc(c->stats, RXC_ORIGIN_ERRORS);
}

static void copy_to_reader(struct rxc_io *io, struct bio *reader)
{
	struct bvec_iter iter = io->iter;
	sector_t skip;

	skip = dm_target_offset(io->c->ti, reader->bi_iter.bi_sector) -
	       block_sector(io->c, io->first);
	bio_advance_iter(&io->bio, &iter, skip << SECTOR_SHIFT);
	copy_bio(reader, reader->bi_iter, &io->bio, iter);
}

/* A fill that begins in one region ends in the next at the latest. */
static u64 region_of(const struct rxcache *c, u64 block)
{
	return block * block_pages(c) / MAX_PAGES;
}

static struct rxc_fills *fills_in(struct rxcache *c, u64 region)
{
	return &c->fills[hash_64(region, RXC_FILLS_BITS)];
}

/* From here on readers may join. */
static void begin_joining(struct rxc_io *io)
{
	struct rxc_fills *fills = fills_in(io->c, region_of(io->c, io->first));

	spin_lock(&fills->lock);
	list_add(&io->list, &fills->list);
	spin_unlock(&fills->lock);
}

/* Take those that have joined so far, or else let no more join. */
static bool take_readers(struct rxc_io *io, struct bio_list *readers)
{
	struct rxc_fills *fills = fills_in(io->c, region_of(io->c, io->first));

	spin_lock(&fills->lock);
	*readers = io->readers;
	bio_list_init(&io->readers);
	if (bio_list_empty(readers))
		list_del(&io->list);
	spin_unlock(&fills->lock);
	return !bio_list_empty(readers);
}

/* None of the readers goes on before all are served, so this comes to an end. */
static void end_joining(struct rxc_io *io, struct bio_list *served)
{
	struct bio_list readers;
	struct bio *reader;

	bio_list_init(served);
	while (take_readers(io, &readers)) {
		bio_list_for_each(reader, &readers) {
			if (!io->bio.bi_status)
				copy_to_reader(io, reader);
			cond_resched();
		}
		bio_list_merge(served, &readers);
	}
}

static struct rxc_io *find_fill(struct rxc_fills *fills, u64 block)
{
	struct rxc_io *io;

	lockdep_assert_held(&fills->lock);
	list_for_each_entry(io, &fills->list, list)
		if (block - io->first < io->nr)
			return io;
	return NULL;
}

/*
 * Who joins waits as long as the fill does, so he must not when the disk, or a limit
 * of a cgroup, could let it wait longer than a read of his own.
 */
static bool is_as_fast(struct rxc_io *io, struct bio *reader)
{
	return class_of(io->bio.bi_ioprio) <= class_of(prio_of(reader)) &&
	       bio_blkcg_css(&io->bio) == bio_blkcg_css(reader);
}

/*
 * Have a bio wait for a fill that begins in @region. It must see every write that
 * completed before it came. Those that had completed when the slot was taken are in
 * what the fill reads; one that was under way then has kept the block from getting a
 * slot; one that was announced later has doomed the slot:
 *
 *	write				read
 *	announced: dooms the slot
 *	  goes to the origin
 *	  completes			comes: sees the slot in FILL and doomed
 *
 * As long as a fill is listed the slots of its blocks are its own.
 *
 * Return: the block after the last that the fill is going to serve.
 */
static u64 join_in(struct rxcache *c, u64 region, const struct rxc_span *span,
		   struct bio *bio)
{
	struct rxc_fills *fills = fills_in(c, region);
	u64 end, block = span->first;
	struct rxc_io *io;

	spin_lock(&fills->lock);
	io = find_fill(fills, block);
	if (io && is_as_fast(io, bio)) {
		end = min(span->end, io->first + io->nr);
		while (block < end && rxc_index_is_filling(c->index, block))
			block++;
	}
	if (block > span->first) {
		accept_until(c, bio, span, block);
		bio_list_add(&io->readers, bio);
	}
	spin_unlock(&fills->lock);
	return block;
}

/* Return: whether a fill is going to serve the leading blocks; the rest comes again. */
static bool join_fill(struct rxcache *c, const struct rxc_span *span, struct bio *bio)
{
	u64 region = region_of(c, span->first);
	u64 block;

	/* Device mapper leaves it to the disk below to find out whose the bio is. */
	bio_associate_blkg(bio);
	block = join_in(c, region, span, bio);
	if (block == span->first && region)
		block = join_in(c, region - 1, span, bio);
	if (block == span->first)
		return false;
	count_read(c, span, span->first, block, RXC_READ_MISSES);
	return true;
}

static void end_wait(struct rxc_wait *wait, blk_status_t status)
{
	if (status)
		WRITE_ONCE(wait->status, status);
	if (atomic_dec_and_test(&wait->pending))
		complete(&wait->done);
}

static void finish_fill(struct work_struct *work)
{
	struct rxc_io *io = container_of(work, struct rxc_io, work);
	blk_status_t status = io->bio.bi_status;
	struct rxc_wait *wait = io->wait;
	struct rxcache *c = io->c;
	struct bio_list readers;
	struct bio *reader;
	u64 block;

	end_joining(io, &readers);
	for (block = io->first; block < io->first + io->nr; block++)
		rxc_index_end_fill(c->index, block, !status);
	bio_put(&io->bio);
	count_error(c, status);

	if (wait)
		end_wait(wait, status);
	while ((reader = bio_list_pop(&readers))) {
		if (!status) {
			bio_endio(reader);
			continue;
		}
		/* The fill asked for more than he did: let the origin answer him. */
		rxc_remap(c, reader);
		submit_bio_noacct(reader);
	}
}

static void fill_ended(struct bio *bio)
{
	struct rxc_io *io = container_of(bio, struct rxc_io, bio);

	INIT_WORK(&io->work, finish_fill);
	queue_work(io->c->wq, &io->work);
}

static void submit_fill(struct work_struct *work)
{
	struct rxc_io *io = container_of(work, struct rxc_io, work);

	submit_bio_noacct(&io->bio);
}

/* How many blocks that follow each other are to be filled. */
static unsigned int count_missing(struct rxcache *c, u64 first, u64 end)
{
	u64 block = first + 1;

	while (block < end && rxc_index_find(c->index, block) < 0)
		block++;
	return block - first;
}

/*
 * Take slots for the leading blocks up to @end that miss. @shortage tells whether
 * it was for want of memory that the run ended. Return: the block after the last
 * that was taken.
 */
static u64 take_slots(struct rxc_io *io, u64 end, gfp_t gfp, bool *shortage)
{
	enum rxc_fate fate = RXC_FATE_TRACKED;
	struct rxcache *c = io->c;
	u64 block = io->first;
	unsigned long slot;
	unsigned int nr;
	LIST_HEAD(pages);

	while (block < end && io_room(io)) {
		fate = rxc_index_begin_fill(c->index, block, &pages, &slot);
		if (fate == RXC_FATE_NEED_PAGES) {
			nr = count_missing(c, block, min(end, block + io_room(io)));
			if (alloc_pages_list(c, block, nr, &pages, gfp))
				continue;
			fate = RXC_FATE_SHORT;
		}
		if (fate != RXC_FATE_TRACKED)
			break;
		add_block(c, &io->bio, slot, 0, block_pages(c) << PAGE_SHIFT);
		io->nr++;
		block++;
	}
	free_pages_list(&pages);
	*shortage = fate == RXC_FATE_SHORT;
	return block;
}

/*
 * Take slots for the leading blocks that miss and read the origin into them.
 * Return: the block after the last that was taken.
 */
static u64 start_fill(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
		      bool *shortage)
{
	u64 end = min(span->end, c->nr_blocks);
	struct rxc_io *io;
	u64 block;

	*shortage = false;
	if (span->first >= end)
		return span->first;
	io = alloc_io_for(c, bio, span);
	if (!io) {
		*shortage = true;
		return span->first;
	}
	block = take_slots(io, end, gfp_of(bio), shortage);
	if (!io->nr) {
		bio_put(&io->bio);
		return block;
	}

	count_read(c, span, span->first, block, RXC_READ_MISSES);
	accept_until(c, bio, span, block);
	io_prepare(io, fill_ended);
	begin_joining(io);
	if (bio->bi_opf & REQ_NOWAIT) {
		/* The origin may have us wait, the reader must not. */
		INIT_WORK(&io->work, submit_fill);
		queue_work(c->wq, &io->work);
	} else {
		submit_bio_noacct(&io->bio);
	}
	return block;
}

/*
 * Send the leading blocks round the cache: the first, and those after it that
 * miss, too, and cannot enter the cache either, or must not if @all.
 */
static int read_around(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
		       bool all)
{
	u64 end = min(span->end, c->nr_blocks);
	u64 block = span->first + 1;

	while (block < end && rxc_index_find(c->index, block) < 0 &&
	       (all || !rxc_index_can_fill(c->index, block)))
		block++;
	/* What follows the last whole block is never in the cache. */
	if (block >= c->nr_blocks)
		block = span->end;
	count_read(c, span, span->first, block, RXC_READ_MISSES);
	rxc_stat_add(c->stats, RXC_BYPASSES, block - span->first);
	accept_until(c, bio, span, block);
	return rxc_remap(c, bio);
}

/* Let a prefetch know that it is not alone. */
static void note_io(struct rxcache *c)
{
	if (unlikely(atomic_read(&c->nr_prefetches)))
		WRITE_ONCE(c->busy_at, jiffies);
}

/* Is the bio, which is not read from the cache, far into sequential I/O? */
static bool exceeds_cutoff(struct rxcache *c, const struct rxc_span *span)
{
	u64 cutoff = READ_ONCE(c->seq_cutoff);

	return unlikely(cutoff) &&
	       rxc_sequence_exceeds(&c->sequence, span->sector,
				    span->end_sector - span->sector, cutoff >> SECTOR_SHIFT);
}

static void note_hits(struct rxcache *c, const struct rxc_span *span, u64 end)
{
	sector_t end_sector = min(block_sector(c, end), span->end_sector);
	u64 cutoff = READ_ONCE(c->seq_cutoff);

	if (unlikely(cutoff))
		rxc_sequence_hit(&c->sequence, span->sector, end_sector - span->sector,
				 cutoff >> SECTOR_SHIFT);
}

static int pass_read(struct rxcache *c, const struct rxc_span *span, struct bio *bio)
{
	note_io(c);
	count_read(c, span, span->first, span->end, RXC_READ_MISSES);
	rxc_stat_add(c->stats, RXC_BYPASSES, span->end - span->first);
	return rxc_remap(c, bio);
}

/* Return: whether the leading blocks were there; the rest comes again. */
static bool serve_hits(struct rxcache *c, const struct rxc_span *span, struct bio *bio)
{
	u64 block = read_hits(c, span, bio);

	if (block == span->first)
		return false;
	count_read(c, span, span->first, block, RXC_READ_HITS);
	note_hits(c, span, block);
	accept_until(c, bio, span, block);
	bio_endio(bio);
	return true;
}

/**
 * rxc_read - map a read
 * @c: the cache
 * @bio: the bio
 *
 * Return: what map() returns.
 */
int rxc_read(struct rxcache *c, struct bio *bio)
{
	struct rxc_span span = span_of(c, bio);
	bool around, shortage = false;

	if (unlikely(READ_ONCE(c->mode) == RXC_PASSTHROUGH))
		return pass_read(c, &span, bio);

	if (serve_hits(c, &span, bio))
		return DM_MAPIO_SUBMITTED;
	around = exceeds_cutoff(c, &span);
	if (join_fill(c, &span, bio))
		return DM_MAPIO_SUBMITTED;

	note_io(c);
	if (!around) {
		if (start_fill(c, &span, bio, &shortage) > span.first)
			return DM_MAPIO_SUBMITTED;
		/* Somebody else may have begun to fill it since we looked, or even ended. */
		if (serve_hits(c, &span, bio) || join_fill(c, &span, bio))
			return DM_MAPIO_SUBMITTED;
	}
	return read_around(c, &span, bio, around || shortage);
}

static bool must_stop(const struct rxcache *c)
{
	return READ_ONCE(c->suspended) || fatal_signal_pending(current);
}

static void give_way(struct rxcache *c)
{
	unsigned long patience = jiffies + MAX_PATIENCE;

	while (time_before(jiffies, READ_ONCE(c->busy_at) + QUIET_TIME) &&
	       time_before(jiffies, patience) && !must_stop(c))
		schedule_timeout_killable(1);
}

/* How many blocks a prefetch brings in between two looks at who else is there. */
static unsigned int blocks_at_once(const struct rxcache *c)
{
	return max(1U, MAX_PAGES / block_pages(c));
}

/* Begin to fill the leading blocks. Return: the block to go on from, or an error. */
static s64 prefetch_run(struct rxcache *c, u64 block, u64 end, struct rxc_wait *wait)
{
	struct rxc_io *io;
	bool shortage;
	u64 next;

	/* It is sent before the next is asked for, so there is always one to be had. */
	io = alloc_io(c, block, end, REQ_OP_READ, GFP_NOIO);
	io->bio.bi_ioprio = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0);
	next = take_slots(io, end, RXD_GFP, &shortage);
	if (!io->nr) {
		bio_put(&io->bio);
		/* Or else somebody is at this block. */
		return shortage ? -ENOMEM : next + 1;
	}
	io->wait = wait;
	atomic_inc(&wait->pending);
	io_prepare(io, fill_ended);
	begin_joining(io);
	submit_bio_noacct(&io->bio);
	return next;
}

static int prefetch_missing(struct rxcache *c, u64 block, u64 end)
{
	struct rxc_wait wait = { .pending = ATOMIC_INIT(1) };
	s64 next = block;

	init_completion(&wait.done);
	for (; next >= 0 && block < end; block = next) {
		next = block + 1;
		if (rxc_index_find(c->index, block) < 0)
			next = prefetch_run(c, block, end, &wait);
	}
	if (!atomic_dec_and_test(&wait.pending))
		wait_for_completion_io(&wait.done);
	return next < 0 ? next : blk_status_to_errno(wait.status);
}

static u64 count_absent(struct rxcache *c, u64 block, u64 end)
{
	u64 nr = 0;

	for (; block < end; block++)
		nr += rxc_index_find(c->index, block) < 0;
	return nr;
}

static int prefetch_part(struct rxcache *c, u64 block, u64 end, u64 *nr_left_out)
{
	int ret;

	if (!count_absent(c, block, end))
		return 0;
	give_way(c);
	if (must_stop(c))
		return READ_ONCE(c->suspended) ? -EBUSY : -EINTR;
	ret = prefetch_missing(c, block, end);
	*nr_left_out += count_absent(c, block, end);
	return ret;
}

/**
 * rxc_prefetch - bring blocks into the cache
 * @c: the cache
 * @range: the blocks; what is left of them when this returns 0
 * @nr_left_out: set to how many blocks before those are not in the cache, because
 *	somebody else was at them
 *
 * Other I/O that goes to the origin comes first. Suspending the device ends it.
 * Some time after the beginning, too, it ends, even if blocks are left: what waits
 * for the end of a message may have all I/O to the device wait.
 *
 * Return: 0; -EBUSY if the device is suspended, or to be; -EINTR; -EIO or the like;
 * -ENOMEM if the cache can take in no more.
 */
int rxc_prefetch(struct rxcache *c, struct rxc_range *range, u64 *nr_left_out)
{
	unsigned long end = jiffies + MAX_PREFETCH;
	int ret = 0;
	u64 nr;

	*nr_left_out = 0;
	atomic_inc(&c->nr_prefetches);
	while (!ret && range->nr) {
		nr = min_t(u64, range->nr, blocks_at_once(c));
		ret = prefetch_part(c, range->first, range->first + nr, nr_left_out);
		range->first += nr;
		range->nr -= nr;
		cond_resched();
		if (time_after(jiffies, end))
			break;
	}
	atomic_dec(&c->nr_prefetches);
	return ret;
}

/*
 * Room for the pages of a write: as many as it may need, or else those few that
 * there is always room for.
 */
static unsigned int alloc_bvecs(struct rxc_bio *rb, unsigned int nr)
{
	nr = min_t(unsigned int, nr, MAX_PAGES);
	rb->bvecs = rb->few_bvecs;
	if (nr > RXC_FEW_BVECS) {
		rb->bvecs = kmalloc_array(nr, sizeof(*rb->bvecs), GFP_NOWAIT | __GFP_NOWARN);
		if (!rb->bvecs) {
			rb->bvecs = rb->few_bvecs;
			nr = RXC_FEW_BVECS;
		}
	}
	return nr;
}

static void free_bvecs(struct rxc_bio *rb)
{
	if (rb->bvecs != rb->few_bvecs)
		kfree(rb->bvecs);
}

static void count_write_partial(struct rxcache *c, const struct rxc_span *span, u64 block)
{
	if (!covers(c, span, block))
		rxc_stat_inc(c->stats, RXC_WRITE_PARTIALS);
}

/* How many blocks that follow each other are to get new pages for a write. */
static unsigned int count_new(struct rxcache *c, const struct rxc_span *span, u64 first,
			      u64 end, bool afresh)
{
	u64 block = first + 1;

	while (block < end && covers(c, span, block) &&
	       (afresh || rxc_index_find(c->index, block) < 0))
		block++;
	return block - first;
}

/*
 * Do the pages of cached blocks lie so scattered that the origin would not take
 * the write in one piece? Then it is worth it to give them new pages.
 */
static bool is_scattered(struct rxcache *c, const struct rxc_span *span, u64 end)
{
	unsigned int max = bdev_max_segments(c->origin->bdev), nr = 0, i;
	struct page *page, *last = NULL;
	u64 block;
	long slot;

	if ((end - span->first) * block_pages(c) <= max)
		return false;
	for (block = span->first; block < end && nr <= max; block++) {
		look_ahead(c, block, end);
		slot = rxc_index_find(c->index, block);
		if (slot < 0)
			continue;
		for (i = 0; i < block_pages(c); i++) {
			page = rxc_index_own_page(c->index, slot, i);
			nr += page != last + 1;
			last = page;
		}
	}
	return nr > max;
}

/* Add the pages of the slots of the leading blocks up to @end; see start_write(). */
static u64 take_written(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
			u64 end, struct bio *to, bool *shortage)
{
	bool whole, afresh = is_scattered(c, span, end);
	enum rxc_fate fate = RXC_FATE_TRACKED;
	u64 block = span->first;
	unsigned long slot;
	sector_t from, until;
	unsigned int nr;
	LIST_HEAD(pages);

	while (block < end) {
		look_ahead(c, block, end);
		whole = covers(c, span, block);
		if (afresh && whole && list_empty(&pages)) {
			nr = count_new(c, span, block, end, true);
			afresh = alloc_pages_list(c, block, nr, &pages, gfp_of(bio));
		}
		fate = rxc_index_begin_write(c->index, block, whole, &pages, &slot);
		if (fate == RXC_FATE_NEED_PAGES) {
			nr = count_new(c, span, block, end, false);
			if (alloc_pages_list(c, block, nr, &pages, gfp_of(bio)))
				continue;
			fate = RXC_FATE_SHORT;
		}
		if (fate != RXC_FATE_TRACKED)
			break;
		count_write_partial(c, span, block);
		from = max(block_sector(c, block), span->sector) - block_sector(c, block);
		until = min(block_sector(c, block + 1), span->end_sector) -
			block_sector(c, block);
		add_block(c, to, slot, from << SECTOR_SHIFT, until << SECTOR_SHIFT);
		block++;
	}
	*shortage = fate == RXC_FATE_SHORT;
	free_pages_list(&pages);
	return block;
}

/*
 * Take the slots of the leading blocks, put the data into them, and have the bio
 * carry their pages to the origin in place of the writer's, who may change his.
 * @shortage tells whether it was for want of memory that the run ended. Return:
 * the block after the last that was taken.
 */
static u64 start_write(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
		       bool *shortage)
{
	struct rxc_bio *rb = dm_per_bio_data(bio, sizeof(*rb));
	u64 end = min(span->end, c->nr_blocks);
	unsigned int nr_vecs;
	struct bio to;
	u64 block;

	*shortage = false;
	if (span->first >= end)
		return span->first;
	nr_vecs = alloc_bvecs(rb, min_t(u64, end - span->first, MAX_PAGES) * block_pages(c));
	end = min(end, span->first + nr_vecs / block_pages(c));
	if (end == span->first) {
		*shortage = true;
		return end;
	}

	bio_init(&to, NULL, rb->bvecs, nr_vecs, REQ_OP_WRITE);
	block = take_written(c, span, bio, end, &to, shortage);
	if (block == span->first) {
		free_bvecs(rb);
		return block;
	}
	rb->track = RXC_TRACK_SLOTS;
	rb->range.first = span->first;
	rb->range.nr = block - span->first;
	accept_until(c, bio, span, block);
	copy_bio(&to, to.bi_iter, bio, bio->bi_iter);
	bio->bi_io_vec = rb->bvecs;
	bio->bi_iter.bi_idx = 0;
	bio->bi_iter.bi_bvec_done = 0;
	return block;
}

/*
 * Announce the leading blocks as written without a slot. Unless @all, the run ends
 * where a slot can be had. Return: the block after the run.
 */
static u64 start_untracked(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
			   bool all)
{
	struct rxc_bio *rb = dm_per_bio_data(bio, sizeof(*rb));
	u64 block = span->first, end;

	if (block >= c->nr_blocks)
		return span->end;
	end = min3(span->end, c->nr_blocks, rxc_index_region_end(c->index, block));
	do {
		count_write_partial(c, span, block);
		block++;
	} while (block < end &&
		 (all || !rxc_index_can_write(c->index, block, covers(c, span, block))));

	rb->track = RXC_TRACK_RANGE;
	rb->range.first = span->first;
	rb->range.nr = block - span->first;
	rxc_stat_add(c->stats, RXC_WRITE_MISSES, rb->range.nr);
	rxc_stat_add(c->stats, RXC_BYPASSES, rb->range.nr);
	rxc_index_begin_range(c->index, &rb->range);
	return block < c->nr_blocks ? block : span->end;
}

/**
 * rxc_write - map a write
 * @c: the cache
 * @bio: the bio
 *
 * Return: what map() returns.
 */
int rxc_write(struct rxcache *c, struct bio *bio)
{
	struct rxc_span span = span_of(c, bio);
	bool around, shortage = false;

	note_io(c);
	/* A long one comes part by part, each with a copy. */
	let_others_run(bio);
	around = READ_ONCE(c->mode) != RXC_WRITETHROUGH || exceeds_cutoff(c, &span);
	if (!around && start_write(c, &span, bio, &shortage) > span.first)
		return rxc_remap(c, bio);

	accept_until(c, bio, &span, start_untracked(c, &span, bio, around || shortage));
	return rxc_remap(c, bio);
}

/**
 * rxc_write_range - map what changes a range without bringing data: discard and such
 * @c: the cache
 * @bio: the bio
 *
 * Return: what map() returns.
 */
int rxc_write_range(struct rxcache *c, struct bio *bio)
{
	struct rxc_bio *rb = dm_per_bio_data(bio, sizeof(*rb));
	struct rxc_span span = span_of(c, bio);

	if (bio->bi_opf & REQ_NOWAIT) {
		bio_wouldblock_error(bio);
		return DM_MAPIO_SUBMITTED;
	}
	rb->range.first = span.first;
	rb->range.nr = span.end - span.first;
	rxc_index_begin_range(c->index, &rb->range);
	rb->track = RXC_TRACK_RANGE;
	return rxc_remap(c, bio);
}

static void end_slots(struct rxcache *c, const struct rxc_range *range, bool ok)
{
	u64 block, end = range->first + range->nr;

	for (block = range->first; block < end; block++) {
		look_ahead(c, block, end);
		rxc_index_end_write(c->index, block, ok);
	}
}

/**
 * rxc_bio_ended - tell the index that a bio from map() ended
 * @c: the cache
 * @bio: the bio
 * @status: how it ended
 *
 * May be called in atomic context.
 */
void rxc_bio_ended(struct rxcache *c, struct bio *bio, blk_status_t status)
{
	struct rxc_bio *rb = dm_per_bio_data(bio, sizeof(*rb));

	count_error(c, status);
	switch (rb->track) {
	case RXC_TRACK_SLOTS:
		end_slots(c, &rb->range, !status);
		free_bvecs(rb);
		break;
	case RXC_TRACK_RANGE:
		rxc_index_end_range(c->index, &rb->range);
		break;
	case RXC_TRACK_NONE:
		break;
	}
}

/**
 * rxc_origin_init - get ready for I/O
 * @c: the cache
 * @name: of the mapped device
 *
 * Return: 0 or -ENOMEM.
 */
int rxc_origin_init(struct rxcache *c, const char *name)
{
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(c->fills); i++) {
		spin_lock_init(&c->fills[i].lock);
		INIT_LIST_HEAD(&c->fills[i].list);
	}
	/* No I/O so far. Zero would lie in the future for minutes after a boot. */
	c->busy_at = jiffies - QUIET_TIME;
	ret = rxc_sequence_init(&c->sequence);
	if (ret)
		return ret;
	ret = bioset_init(&c->bios, MIN_BIOS, offsetof(struct rxc_io, bio), BIOSET_NEED_BVECS);
	if (ret)
		goto out_exit_sequence;
	c->wq = alloc_workqueue("dm-rxcache/%s", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, name);
	if (!c->wq) {
		ret = -ENOMEM;
		goto out_exit_bios;
	}
	return 0;

out_exit_bios:
	bioset_exit(&c->bios);
out_exit_sequence:
	rxc_sequence_exit(&c->sequence);
	return ret;
}

/**
 * rxc_origin_exit - undo rxc_origin_init()
 * @c: the cache; no I/O is under way
 */
void rxc_origin_exit(struct rxcache *c)
{
	destroy_workqueue(c->wq);
	bioset_exit(&c->bios);
	rxc_sequence_exit(&c->sequence);
}
