// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads: hits are copied from the pages of the cache, misses wait for a fill, and other
 * reads go to the origin.
 */
#include <linux/bio.h>
#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>

#include "../module/copy.h"
#include "../module/rxd.h"
#include "origin-internal.h"

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

/*
 * Copy a block from @offset on, or as much of it as a bio asks for. Call under rcu_read_lock().
 *
 * Return: false if it is not cached, or has left the cache; then a part may have been copied, and
 * @iter is undefined.
 */
static bool copy_hit(struct rxcache *c, struct rxc_walk *walk, u64 block, unsigned int offset,
		     struct bio *bio, struct bvec_iter *iter)
{
	unsigned int end = offset + min(iter->bi_size, block_bytes(c) - offset);
	unsigned long slot;
	struct page *page;
	unsigned int len;

	page = rxc_index_hit(c->index, walk, block, offset >> PAGE_SHIFT, &slot);
	while (page) {
		len = min_t(unsigned int, end - offset, PAGE_SIZE - offset_in_page(offset));
		copy_to_bio(bio, iter, page_address(page) + offset_in_page(offset), len);
		offset += len;
		if (offset == end)
			return true;
		page = rxc_index_hit_page(c->index, slot, block, offset >> PAGE_SHIFT);
	}
	return false;
}

/* Copy the leading blocks that are cached. Return: the first block that is not cached. */
static u64 read_hits(struct rxcache *c, const struct rxc_span *span, struct bio *bio)
{
	u64 block = span->first, end = min(span->end, c->nr_blocks);
	unsigned int offset = (span->sector - block_sector(c, block)) << SECTOR_SHIFT;
	struct bvec_iter iter = bio->bi_iter;
	unsigned int pause = iter.bi_size;
	struct rxc_walk walk;

	rcu_read_lock();
	rxc_index_begin_walk(c->index, block, end, &walk);
	while (block < end && copy_hit(c, &walk, block, offset, bio, &iter)) {
		offset = 0;
		block++;
		if (pause - iter.bi_size >= HIT_PART && block < end) {
			pause = iter.bi_size;
			rcu_read_unlock();
			let_others_run(bio);
			rcu_read_lock();
		}
	}
	rcu_read_unlock();
	return block;
}

/*
 * Send the first block to the origin, together with the blocks after it that are not cached
 * either. Unless @all, end before a block that can enter the cache. @around: the blocks must not
 * be cached.
 */
static int read_around(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
		       bool around, bool all)
{
	u64 end = min(span->end, c->nr_blocks);
	u64 block = span->first + 1;
	struct rxc_walk walk;

	begin_looking(c, block, end, &walk);
	while (block < end && rxc_index_find(c->index, block) < 0 &&
	       (all || !rxc_index_can_fill(c->index, block))) {
		look_ahead(c, block, &walk);
		let_others_run(bio);
		block++;
	}
	/* The sectors after the last whole block are never cached. */
	if (block >= c->nr_blocks)
		block = span->end;
	count_read(c, span, span->first, block, RXC_READ_MISSES,
		   around ? RXC_USE_PASS : RXC_USE_READ);
	rxc_stat_add(c->stats, RXC_BYPASSES, block - span->first);
	accept_until(c, bio, span, block);
	return rxc_remap(c, bio);
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
	count_read(c, span, span->first, span->end, RXC_READ_MISSES, RXC_USE_MISS);
	rxc_stat_add(c->stats, RXC_BYPASSES, span->end - span->first);
	return rxc_remap(c, bio);
}

/* Return: true if the first blocks are cached; device-mapper maps the rest again. */
static bool serve_hits(struct rxcache *c, const struct rxc_span *span, struct bio *bio)
{
	u64 block = read_hits(c, span, bio);

	if (block == span->first)
		return false;
	count_read(c, span, span->first, block, RXC_READ_HITS, RXC_USE_READ);
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
	struct rxc_supply supply;
	bool around, failed;

	if (unlikely(READ_ONCE(c->mode) == RXC_PASSTHROUGH))
		return pass_read(c, &span, bio);

	if (serve_hits(c, &span, bio))
		return DM_MAPIO_SUBMITTED;
	around = note_sequence(c, &span);
	/* A prefetch in flight may wait for a bad sector of the block, too. */
	failed = rxc_failed_find(&c->failed, span.first, span.first + 1) == span.first;
	if (!failed && rxc_join_fill(c, &span, bio))
		return DM_MAPIO_SUBMITTED;

	note_io(c);
	if (failed)
		return read_around(c, &span, bio, around, around);
	begin_supply(&supply, gfp_of(bio));
	if (!around) {
		if (rxc_start_fill(c, &span, bio, &supply) > span.first)
			return DM_MAPIO_SUBMITTED;
		/* Another task may have started to fill the block meanwhile, or even finished. */
		if (serve_hits(c, &span, bio) || rxc_join_fill(c, &span, bio))
			return DM_MAPIO_SUBMITTED;
	}
	return read_around(c, &span, bio, around, around || supply.is_short);
}
