/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_INDEX_H
#define RXC_INDEX_H

#include <linux/bits.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/types.h>

#include "stats.h"

struct page;
struct rxd_store;

/* Slots in a set, at most, and the fewest that a cache needs. */
#define RXC_WAYS		64
#define RXC_SLOTS_MIN		16

/*
 * A tag tells which block a slot holds.
 *
 *	bits 0-1	state
 *	bit 2		doomed: must not become valid when its I/O ends
 *	bits 3-12	the policy's
 *	bits 13-63	block number
 */
#define RXC_TAG_STATE		GENMASK_ULL(1, 0)
#define RXC_TAG_DOOMED		BIT_ULL(2)
#define RXC_TAG_POLICY		GENMASK_ULL(12, 3)
#define RXC_TAG_POLICY_SHIFT	3
#define RXC_TAG_POLICY_MAX	1023
#define RXC_TAG_BLOCK		GENMASK_ULL(63, 13)
#define RXC_TAG_BLOCK_SHIFT	13

/* The largest number of a block. */
#define RXC_BLOCK_MAX		(RXC_TAG_BLOCK >> RXC_TAG_BLOCK_SHIFT)

enum rxc_state {
	RXC_EMPTY,	/* the slot has no pages */
	RXC_VALID,	/* its pages hold what the origin holds */
	RXC_FILL,	/* a read of the origin fills its pages */
	RXC_WRITE,	/* its pages are on their way to the origin */
};

static inline enum rxc_state rxc_tag_state(u64 tag)
{
	return tag & RXC_TAG_STATE;
}

static inline u64 rxc_tag_block(u64 tag)
{
	return tag >> RXC_TAG_BLOCK_SHIFT;
}

/**
 * enum rxc_fate - what the index decided on a block that is to be read or written
 * @RXC_FATE_TRACKED: a slot is the caller's until it says that the I/O ended
 * @RXC_FATE_UNTRACKED: this block must not have a slot now; nothing was changed
 * @RXC_FATE_SHORT: slots or memory are short; the block has no slot
 * @RXC_FATE_NEED_PAGES: a slot could be had: call again with pages for it
 */
enum rxc_fate {
	RXC_FATE_TRACKED,
	RXC_FATE_UNTRACKED,
	RXC_FATE_SHORT,
	RXC_FATE_NEED_PAGES,
};

/**
 * struct rxc_range - blocks that are written round the cache
 * @list: among the ranges of the index
 * @first: first block, also if it is covered only in part
 * @nr: number of blocks
 */
struct rxc_range {
	struct list_head list;
	u64 first;
	u64 nr;
};

struct rxc_index;

struct rxc_index *rxc_index_create(struct rxd_store *store, unsigned int block_pages,
				   struct rxc_stats __percpu *stats);
void rxc_index_destroy(struct rxc_index *index);

bool rxc_index_is_outgrown(const struct rxc_index *index);
unsigned long rxc_index_nr_slots(const struct rxc_index *index);
size_t rxc_index_metadata_bytes(const struct rxc_index *index);

void rxc_index_prefetch(const struct rxc_index *index, u64 block);
long rxc_index_find(struct rxc_index *index, u64 block);
bool rxc_index_block_in(struct rxc_index *index, unsigned long slot, u64 *block);
void rxc_index_touch(struct rxc_index *index, unsigned long slot);
struct page *rxc_index_hit_page(struct rxc_index *index, unsigned long slot, u64 block,
				unsigned int i);
struct page *rxc_index_own_page(struct rxc_index *index, unsigned long slot,
				unsigned int i);

enum rxc_fate rxc_index_begin_fill(struct rxc_index *index, u64 block,
				   struct list_head *pages, unsigned long *slot);
void rxc_index_end_fill(struct rxc_index *index, u64 block, bool ok);
bool rxc_index_can_fill(struct rxc_index *index, u64 block);
bool rxc_index_is_filling(struct rxc_index *index, u64 block);
bool rxc_index_make_room(struct rxc_index *index);

enum rxc_fate rxc_index_begin_write(struct rxc_index *index, u64 block, bool whole,
				    struct list_head *pages, unsigned long *slot);
void rxc_index_end_write(struct rxc_index *index, u64 block, bool ok);
bool rxc_index_can_write(struct rxc_index *index, u64 block, bool whole);

u64 rxc_index_region_end(const struct rxc_index *index, u64 block);
void rxc_index_begin_range(struct rxc_index *index, struct rxc_range *range);
void rxc_index_end_range(struct rxc_index *index, struct rxc_range *range);
void rxc_index_drop(struct rxc_index *index, u64 first, u64 nr);

#endif /* RXC_INDEX_H */
