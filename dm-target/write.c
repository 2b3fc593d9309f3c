// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes: they go to the origin from slots, with the pages of the cache instead of the
 * writer's, or they bypass the cache.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "../module/rxd.h"
#include "origin-internal.h"

/*
 * Samples of a discard that the advice gets. The other blocks just grow old in its caches, as do
 * those of many discards at once.
 */
#define MAX_NOTED	1024

/*
 * Allocate bvecs for a write of @nr pages. If memory is short, use the few in the per-bio data.
 *
 * Return: number of bvecs.
 */
static unsigned int alloc_bvecs(struct rxc_bio *rb, unsigned int nr)
{
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

/* Length of the run of blocks from @first on that need new pages for a write. */
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
 * Could a write that has so many segments already need more than the origin accepts in a request,
 * and will the next block bring it past half of them?
 */
static bool may_be_scattered(struct rxcache *c, unsigned int segments, u64 nr_blocks)
{
	unsigned int max = bdev_max_segments(c->origin->bdev);

	return segments + block_pages(c) > max / 2 && segments + nr_blocks * block_pages(c) > max;
}

/*
 * Are the pages of the cached blocks so scattered that the write would need more segments than the
 * origin accepts? @segments: those of the blocks before @block. In this case the blocks from @block
 * on get new pages.
 */
static bool is_scattered(struct rxcache *c, u64 block, u64 end, unsigned int segments)
{
	unsigned int max = bdev_max_segments(c->origin->bdev), i;
	struct page *page, *last = NULL;
	long slot;

	for (; block < end && segments <= max; block++) {
		slot = rxc_index_find(c->index, block);
		if (slot < 0)
			continue;
		for (i = 0; i < block_pages(c); i++) {
			page = rxc_index_own_page(c->index, slot, i);
			segments += page != last + 1;
			last = page;
		}
	}
	return segments > max;
}

/*
 * Tell the advice of a write of the blocks before @end. A write of a part of a block leaves a cache
 * as it is, unless the block must not be cached.
 */
static void note_write(struct rxcache *c, const struct rxc_span *span, u64 end, bool around)
{
	u64 block = span->first;

	if (!around && !covers(c, span, block))
		block++;
	if (!around && block < end && !covers(c, span, end - 1))
		end--;
	rxc_sampler_note(&c->sampler, block, end, around ? RXC_USE_DROP : RXC_USE_WRITE);
}

/* Take slots for the leading blocks up to @end and add their pages to @to. */
static u64 take_written(struct rxcache *c, const struct rxc_span *span, u64 end,
			struct bio *to, struct rxc_supply *supply, struct rxc_walk *walk)
{
	enum rxc_fate fate = RXC_FATE_TRACKED;
	u64 block = span->first;
	bool judged = false;
	unsigned long slot;
	sector_t from, until;
	unsigned int nr;
	bool whole;

	while (block < end) {
		look_ahead(c, block, walk);
		whole = covers(c, span, block);
		if (!judged && may_be_scattered(c, to->bi_vcnt, end - block)) {
			supply->afresh = is_scattered(c, block, end, to->bi_vcnt);
			judged = true;
		}
		if (supply->afresh && whole && list_empty(&supply->pages)) {
			nr = count_new(c, span, block, end, true);
			supply->afresh = rxc_supply_pages(c, block, nr, supply);
		}
		fate = rxc_index_begin_write(c->index, block, whole, &supply->pages, &slot);
		if (fate == RXC_FATE_NEED_PAGES) {
			nr = count_new(c, span, block, end, false);
			if (rxc_supply_pages(c, block, nr, supply))
				continue;
			fate = RXC_FATE_SHORT;
		}
		if (fate != RXC_FATE_TRACKED)
			break;
		count_write_partial(c, span, block);
		from = max(block_sector(c, block), span->sector) - block_sector(c, block);
		until = min(block_sector(c, block + 1), span->end_sector) -
			block_sector(c, block);
		rxc_add_block(c, to, slot, from << SECTOR_SHIFT, until << SECTOR_SHIFT);
		block++;
	}
	rxc_end_supply(supply, fate);
	return block;
}

/*
 * Take slots for the leading blocks, copy the data into their pages, and put these pages
 * into the bio in place of the pages of the writer, who may change them meanwhile.
 *
 * Return: the block after the last one that got a slot.
 */
static u64 start_write(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
		       struct rxc_supply *supply)
{
	struct rxc_bio *rb = dm_per_bio_data(bio, sizeof(*rb));
	u64 end = min3(span->end, c->nr_blocks, span->first + MAX_PAGES / block_pages(c));
	unsigned int nr_vecs;
	struct rxc_walk walk;
	struct bio to;
	u64 block;

	if (span->first >= end)
		return span->first;
	begin_looking(c, span->first, end, &walk);
	nr_vecs = alloc_bvecs(rb, (end - span->first) * block_pages(c));
	end = min(end, span->first + nr_vecs / block_pages(c));
	if (end == span->first) {
		supply->is_short = true;
		return end;
	}

	bio_init(&to, NULL, rb->bvecs, nr_vecs, REQ_OP_WRITE);
	block = take_written(c, span, end, &to, supply, &walk);
	if (block == span->first) {
		free_bvecs(rb);
		return block;
	}
	if (unlikely(rxc_sampler_may_take(&c->sampler, span->first, block)))
		note_write(c, span, block, false);
	rb->track = RXC_TRACK_SLOTS;
	rb->range.first = span->first;
	rb->range.nr = block - span->first;
	accept_until(c, bio, span, block);
	rxc_copy_bio(&to, to.bi_iter, bio, bio->bi_iter);
	bio->bi_io_vec = rb->bvecs;
	bio->bi_iter.bi_idx = 0;
	bio->bi_iter.bi_bvec_done = 0;
	return block;
}

/*
 * Announce a write of the leading blocks that bypasses the cache. Unless @all, end before a
 * block that can get a slot. @around: the blocks must not be cached.
 *
 * Return: the block before which the bio is to be cut.
 */
static u64 start_untracked(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
			   bool around, bool all)
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

	if (unlikely(rxc_sampler_may_take(&c->sampler, span->first, block)))
		note_write(c, span, block, around);
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
	struct rxc_supply supply;
	bool around;

	note_io(c);
	/* A long write is mapped in parts, each of which may copy data. */
	let_others_run(bio);
	around = READ_ONCE(c->mode) != RXC_WRITETHROUGH || note_sequence(c, &span);
	begin_supply(&supply, gfp_of(bio));
	if (!around && start_write(c, &span, bio, &supply) > span.first)
		return rxc_remap(c, bio);

	accept_until(c, bio, &span,
		     start_untracked(c, &span, bio, around, around || supply.is_short));
	return rxc_remap(c, bio);
}

/**
 * rxc_write_range - map a bio that changes a range without data, such as a discard
 * @c: the cache
 * @bio: the bio
 *
 * Return: what map() returns.
 */
int rxc_write_range(struct rxcache *c, struct bio *bio)
{
	struct rxc_bio *rb = dm_per_bio_data(bio, sizeof(*rb));
	struct rxc_span span = span_of(c, bio);
	u64 noted;

	if (bio->bi_opf & REQ_NOWAIT) {
		bio_wouldblock_error(bio);
		return DM_MAPIO_SUBMITTED;
	}
	rb->range.first = span.first;
	rb->range.nr = span.end - span.first;
	noted = (u64)READ_ONCE(c->sampler.every) * MAX_NOTED;
	rxc_sampler_note(&c->sampler, span.first, min(span.end, span.first + noted),
			 RXC_USE_DISCARD);
	rxc_index_begin_range(c->index, &rb->range);
	rb->track = RXC_TRACK_RANGE;
	return rxc_remap(c, bio);
}

static void end_slots(struct rxcache *c, const struct rxc_range *range, bool ok)
{
	u64 block;

	for (block = range->first; block < range->first + range->nr; block++)
		rxc_index_end_write(c->index, block, ok);
}

/**
 * rxc_bio_ended - tell the index that a mapped bio has ended
 * @c: the cache
 * @bio: the bio
 * @status: status of the bio
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
