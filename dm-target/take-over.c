// SPDX-License-Identifier: GPL-2.0-only
/*
 * A larger index takes over the blocks of the one that it replaces. Both have their pages in the
 * same store, at other places, so the pages move within it.
 *
 * Nobody uses the indices meanwhile. Hence no locks are taken, and there are no blocks with I/O in
 * flight.
 */
#include <linux/bug.h>
#include <linux/mm.h>
#include <linux/sched.h>

#include "../module/rxd.h"
#include "index-internal.h"
#include "policy.h"

/*
 * Find the way of a block in its new set. If the set is full, the coldest block leaves, whose pages
 * rxd_store_move() frees.
 *
 * Return: the way, or -1 if the coldest block is this one.
 */
static int find_new_way(struct rxc_index *index, unsigned long set, u64 tag, bool *replaces)
{
	const u64 *tags = &index->tags[first_slot(index, set)];
	int way = find_empty(index, tags, rxc_tag_block(tag));

	*replaces = way < 0;
	return way < 0 ? rxc_policy_coldest(index->policy, set, tags, tag) : way;
}

/* Return: number of blocks that have left the cache, 0 or 1. */
static unsigned int take_block(struct rxc_index *index, const struct rxc_index *old,
			       unsigned long old_set, unsigned long old_slot,
			       struct rxd_moves *moves)
{
	const unsigned int nr = index->block_pages;
	u64 tag = old->tags[old_slot], block = rxc_tag_block(tag);
	unsigned long set = set_of(index, block), slot;
	bool replaces;
	int way;

	tag = make_tag(block, RXC_VALID, rxc_policy_bits_of(old->policy, old_set, tag));
	way = find_new_way(index, set, tag, &replaces);
	if (way < 0) {
		rxd_store_leave(moves, old_slot * nr, nr);
		return 1;
	}
	slot = first_slot(index, set) + way;
	if (!rxd_store_move(moves, old_slot * nr, slot * nr, nr))
		return 1;
	set_hint(&index->hints[set], way, block);
	WRITE_ONCE(index->tags[slot], tag);
	return replaces;
}

static unsigned int take_set(struct rxc_index *index, const struct rxc_index *old,
			     unsigned long set, struct rxd_moves *moves)
{
	unsigned long slot = first_slot(old, set), end = first_slot(old, set + 1);
	unsigned int lost = 0;
	enum rxc_state state;

	for (; slot < end; slot++) {
		state = rxc_tag_state(old->tags[slot]);
		if (state == RXC_VALID)
			lost += take_block(index, old, set, slot, moves);
		else
			lost += WARN_ON_ONCE(state != RXC_EMPTY);
	}
	return lost;
}

/**
 * rxc_index_take_over - take over the blocks of a smaller index
 * @index: an empty index with the same store and blocks of the same size
 * @old: the other index, which nobody uses meanwhile, or afterwards
 * @moves: the pages of the store
 *
 * A block whose set is full, or for whose pages there is no leaf, leaves the cache. So does one
 * that the policy would evict before such a block. They count as evictions, in the counters of
 * @old. May sleep.
 *
 * Of 1024 neighbouring sets of one index, the blocks are in few more of the other one. So the parts
 * of both that are in use fit into the caches of a processor.
 */
void rxc_index_take_over(struct rxc_index *index, const struct rxc_index *old,
			 struct rxd_moves *moves)
{
	unsigned long set, lost = 0;

	rxc_policy_take_over(index->policy, old->policy);
	for (set = 0; set < old->nr_sets; set++) {
		lost += take_set(index, old, set, moves);
		cond_resched();
	}
	this_cpu_sub(old->stats->used, lost);
	rxc_stat_add(old->stats, RXC_EVICTIONS, lost);
}
