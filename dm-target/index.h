/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_INDEX_H
#define RXC_INDEX_H

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/types.h>

#include "ranges.h"
#include "stats.h"
#include "tag.h"

struct page;
struct rxd_moves;
struct rxd_store;

/**
 * enum rxc_fate - answer of the index to a request for a slot
 * @RXC_FATE_TRACKED: the caller owns a slot until it reports the end of the I/O
 * @RXC_FATE_UNTRACKED: the block must not have a slot now; nothing was changed
 * @RXC_FATE_SHORT: slots or memory are short; the block has no slot
 * @RXC_FATE_NEED_PAGES: call again with pages for a new slot
 */
enum rxc_fate {
	RXC_FATE_TRACKED,
	RXC_FATE_UNTRACKED,
	RXC_FATE_SHORT,
	RXC_FATE_NEED_PAGES,
};

/**
 * struct rxc_victims - the set that rxc_index_take_out() goes on with; all 0 at first
 * @set: the set
 * @left: number of blocks that may leave this set before another one is looked for
 */
struct rxc_victims {
	unsigned long set;
	unsigned int left;
};

/* So many blocks before its use, the hints and the home of a block are prefetched. */
#define RXC_LOOK_AHEAD	4
/* So many blocks before its use, the slot of a block is guessed by its hint. */
#define RXC_GUESS_AHEAD	2

/**
 * struct rxc_place - where a look-up searches for a block
 * @set: the set of the block
 * @word: number of the word of hints of its home
 * @hint: its hint
 * @slot: the first slot that had this hint; -1 if none had, or if none was searched yet
 */
struct rxc_place {
	unsigned long set;
	unsigned int word;
	u8 hint;
	long slot;
};

/**
 * struct rxc_walk - look-ups of consecutive blocks, whose cache lines are prefetched
 * @end: the block after the last one
 * @places: the next blocks; block b is in element b % RXC_LOOK_AHEAD
 *
 * It holds numbers only, so it may be kept while RCU pauses, but not beyond the I/O: the index is
 * only replaced while there is none. What others have changed in the index is noticed when the
 * block is looked up.
 */
struct rxc_walk {
	u64 end;
	struct rxc_place places[RXC_LOOK_AHEAD];
};

struct rxc_index;

struct rxc_index *rxc_index_create(struct rxd_store *store, unsigned int block_pages,
				   struct rxc_stats __percpu *stats);
void rxc_index_destroy(struct rxc_index *index);

void rxc_index_swap_stats(struct rxc_index *a, struct rxc_index *b);
bool rxc_index_is_outgrown(const struct rxc_index *index);
void rxc_index_take_over(struct rxc_index *index, const struct rxc_index *old,
			 struct rxd_moves *moves);
unsigned long rxc_index_nr_slots(const struct rxc_index *index);
size_t rxc_index_metadata_bytes(const struct rxc_index *index);

void rxc_index_begin_walk(const struct rxc_index *index, u64 first, u64 end, struct rxc_walk *walk);
void rxc_index_walk(const struct rxc_index *index, struct rxc_walk *walk, u64 block);
long rxc_index_find(struct rxc_index *index, u64 block);
bool rxc_index_block_in(struct rxc_index *index, unsigned long slot, u64 *block);
struct page *rxc_index_hit(struct rxc_index *index, struct rxc_walk *walk, u64 block,
			   unsigned int i, unsigned long *slot);
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
bool rxc_index_take_out(struct rxc_index *index, int nid, struct rxc_victims *victims,
			struct list_head *pages);

unsigned long rxc_index_min_limit(const struct rxc_index *index);
unsigned long rxc_index_limit(const struct rxc_index *index);
void rxc_index_set_limit(struct rxc_index *index, unsigned long nr);

enum rxc_fate rxc_index_begin_write(struct rxc_index *index, u64 block, bool whole,
				    struct list_head *pages, unsigned long *slot);
void rxc_index_end_write(struct rxc_index *index, u64 block, bool ok);
bool rxc_index_can_write(struct rxc_index *index, u64 block, bool whole);

u64 rxc_index_region_end(const struct rxc_index *index, u64 block);
void rxc_index_begin_range(struct rxc_index *index, struct rxc_range *range);
void rxc_index_end_range(struct rxc_index *index, struct rxc_range *range);
void rxc_index_drop(struct rxc_index *index, u64 first, u64 nr);

#endif /* RXC_INDEX_H */
