/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the files that move data: the blocks of a bio, pages for their slots, and
 * waiting for fills.
 */
#ifndef RXC_ORIGIN_INTERNAL_H
#define RXC_ORIGIN_INTERNAL_H

#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sizes.h>

#include "../module/compat.h"
#include "../module/rxd.h"
#include "origin.h"

/* Maximum number of pages in a bio of the cache. */
#define MAX_PAGES	BIO_MAX_VECS
/* Other tasks may run, and a grace period may end, after so many bytes of a hit. */
#define HIT_PART	SZ_64K
/* A prefetch waits until no other I/O was seen for this long (see MAX_PATIENCE). */
#define QUIET_TIME	(HZ / 20)

/**
 * struct rxc_span - the blocks of a bio
 * @sector: first sector of the bio, within the target
 * @first: first block
 * @end: the block after the last one
 * @end_sector: the sector after the last one
 */
struct rxc_span {
	sector_t sector;
	sector_t end_sector;
	u64 first;
	u64 end;
};

/**
 * struct rxc_supply - pages for a run of blocks
 * @pages: pages that are not in a slot yet, linked through lru
 * @gfp: flags for further allocations
 * @afresh: cached blocks get new pages as well
 * @is_short: the run ended because memory or slots are short
 */
struct rxc_supply {
	struct list_head pages;
	gfp_t gfp;
	bool afresh;
	bool is_short;
};

/**
 * struct rxc_wait - lets a prefetch wait for its fills
 * @pending: number of fills in flight, plus 1 as long as more may follow
 * @done: completed when all fills have ended
 * @status: error of a fill that failed, or 0
 */
struct rxc_wait {
	atomic_t pending;
	struct completion done;
	blk_status_t status;
};

static inline struct rxc_span span_of(const struct rxcache *c, const struct bio *bio)
{
	struct rxc_span span;

	span.sector = dm_target_offset(c->ti, bio->bi_iter.bi_sector);
	span.end_sector = span.sector + bio_sectors(bio);
	span.first = span.sector >> c->block_shift;
	span.end = (span.end_sector + (1ULL << c->block_shift) - 1) >> c->block_shift;
	return span;
}

static inline sector_t block_sector(const struct rxcache *c, u64 block)
{
	return block << c->block_shift;
}

static inline unsigned int block_pages(const struct rxcache *c)
{
	return 1U << (c->block_shift + SECTOR_SHIFT - PAGE_SHIFT);
}

static inline unsigned int block_bytes(const struct rxcache *c)
{
	return 1U << (c->block_shift + SECTOR_SHIFT);
}

static inline bool covers(const struct rxcache *c, const struct rxc_span *span, u64 block)
{
	return block_sector(c, block) >= span->sector &&
	       block_sector(c, block + 1) <= span->end_sector;
}

static inline gfp_t gfp_of(const struct bio *bio)
{
	return bio->bi_opf & REQ_NOWAIT ? RXD_GFP_NOWAIT : RXD_GFP;
}

/* Cut a bio before block @end. Device-mapper maps the rest again. */
static inline void accept_until(struct rxcache *c, struct bio *bio, const struct rxc_span *span,
				u64 end)
{
	sector_t end_sector = min(block_sector(c, end), span->end_sector);

	if (end_sector < span->end_sector)
		dm_accept_partial_bio(bio, end_sector - span->sector);
}

/* Inlined even if there are many callers: a hit counts and takes samples without a call. */
static __always_inline void count_read(struct rxcache *c, const struct rxc_span *span, u64 first,
				       u64 end, enum rxc_stat stat, enum rxc_use use)
{
	unsigned int partials = 0;

	if (!covers(c, span, first))
		partials++;
	if (end - 1 > first && !covers(c, span, end - 1))
		partials++;
	rxc_stat_add(c->stats, stat, end - first);
	if (partials)
		rxc_stat_add(c->stats, RXC_READ_PARTIALS, partials);
	rxc_sampler_note(&c->sampler, first, end, use);
}

static inline void count_error(struct rxcache *c, blk_status_t status)
{
	if (status && status != BLK_STS_AGAIN && status != BLK_STS_NOTSUPP)
		rxc_stat_inc(c->stats, RXC_ORIGIN_ERRORS);
}

/* Prefetch the index for the first blocks of a range. */
static inline void begin_looking(struct rxcache *c, u64 first, u64 end, struct rxc_walk *walk)
{
	rcu_read_lock();
	rxc_index_begin_walk(c->index, first, end, walk);
	rcu_read_unlock();
}

/* Prefetch the index for later blocks of a long range. Call this for each block in turn. */
static inline void look_ahead(struct rxcache *c, u64 block, struct rxc_walk *walk)
{
	if (block + 1 >= walk->end)
		return;
	rcu_read_lock();
	rxc_index_walk(c->index, walk, block);
	rcu_read_unlock();
}

/* If a bio with REQ_NOWAIT may be mapped under rcu_read_lock(), do not sleep for it. */
static inline void let_others_run(const struct bio *bio)
{
	if (RXD_MAP_MAY_SLEEP || !(bio->bi_opf & REQ_NOWAIT))
		cond_resched();
}

/* Record I/O to the origin, so that a prefetch gives way. */
static inline void note_io(struct rxcache *c)
{
	if (unlikely(atomic_read(&c->nr_prefetches)))
		WRITE_ONCE(c->busy_at, jiffies);
}

/* Record a miss or a write. Return: true if its stream has exceeded the cut-off. */
static inline bool note_sequence(struct rxcache *c, const struct rxc_span *span)
{
	u64 cutoff = READ_ONCE(c->seq_cutoff);

	return unlikely(cutoff) &&
	       rxc_sequence_note(&c->sequence, span->sector,
				 span->end_sector - span->sector) > cutoff >> SECTOR_SHIFT;
}

static inline void begin_supply(struct rxc_supply *supply, gfp_t gfp)
{
	INIT_LIST_HEAD(&supply->pages);
	supply->gfp = gfp;
	supply->afresh = false;
	supply->is_short = false;
}

bool rxc_supply_pages(struct rxcache *c, u64 block, unsigned int nr_blocks,
		      struct rxc_supply *supply);
void rxc_end_supply(struct rxc_supply *supply, enum rxc_fate fate);
void rxc_add_block(struct rxcache *c, struct bio *bio, unsigned long slot, unsigned int from,
		   unsigned int to);
void rxc_copy_bio(struct bio *dst, struct bvec_iter dst_iter, struct bio *src,
		  struct bvec_iter src_iter);

int rxc_fills_init(struct rxcache *c, const char *name);
void rxc_fills_exit(struct rxcache *c);
bool rxc_join_fill(struct rxcache *c, const struct rxc_span *span, struct bio *bio);
u64 rxc_start_fill(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
		   struct rxc_supply *supply);
s64 rxc_fill_run(struct rxcache *c, u64 block, u64 end, struct rxc_wait *wait);

#endif /* RXC_ORIGIN_INTERNAL_H */
