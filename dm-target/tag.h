/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the index, the policy and the simulated caches: the tag of a slot, the size of a set,
 * and the set of a block.
 */
#ifndef RXC_TAG_H
#define RXC_TAG_H

#include <linux/bits.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/types.h>

/* Maximum number of slots in a set, and minimum number of slots in a cache. */
#define RXC_WAYS		64
#define RXC_SLOTS_MIN		16
/* The limit of the slots is at least one of so many parts. */
#define RXC_SIZE_PARTS		32
/* This many consecutive blocks are in consecutive sets. */
#define RXC_SPREAD		1024

/*
 * A tag tells which block a slot holds.
 *
 *	bits 0-1	state
 *	bit 2		doomed: must not become valid when its I/O ends
 *	bits 3-12	for the policy
 *	bits 13-63	block number
 */
#define RXC_TAG_STATE		GENMASK_ULL(1, 0)
#define RXC_TAG_DOOMED		BIT_ULL(2)
#define RXC_TAG_POLICY		GENMASK_ULL(12, 3)
#define RXC_TAG_POLICY_SHIFT	3
#define RXC_TAG_POLICY_MAX	1023
#define RXC_TAG_BLOCK		GENMASK_ULL(63, 13)
#define RXC_TAG_BLOCK_SHIFT	13

/* The largest block number. */
#define RXC_BLOCK_MAX		(RXC_TAG_BLOCK >> RXC_TAG_BLOCK_SHIFT)

enum rxc_state {
	RXC_EMPTY,	/* the slot has no pages */
	RXC_VALID,	/* its pages hold what the origin holds */
	RXC_FILL,	/* its pages are being read from the origin */
	RXC_WRITE,	/* its pages are being written to the origin */
};

static inline enum rxc_state rxc_tag_state(u64 tag)
{
	return tag & RXC_TAG_STATE;
}

static inline u64 rxc_tag_block(u64 tag)
{
	return tag >> RXC_TAG_BLOCK_SHIFT;
}

/* Form sets of equal size, such that few slots are left over. */
static inline void rxc_divide_slots(unsigned long nr_slots, unsigned long *nr_sets,
				    unsigned int *ways)
{
	unsigned long fewer = nr_slots / RXC_WAYS, more = DIV_ROUND_UP(nr_slots, RXC_WAYS);

	if (fewer * RXC_WAYS >= more * (nr_slots / more)) {
		*nr_sets = fewer;
		*ways = RXC_WAYS;
	} else {
		*nr_sets = more;
		*ways = nr_slots / more;
	}
}

/*
 * Consecutive blocks are in consecutive sets. So they do not crowd one set, and a working
 * set that consists of runs fills all sets evenly.
 */
static inline unsigned long rxc_set_among(u64 block, unsigned long nr_sets)
{
	unsigned long set = reciprocal_scale(hash_64(block / RXC_SPREAD, 32), nr_sets);

	set += block % RXC_SPREAD;
	if (set < nr_sets)
		return set;
	/* Only small caches need the division, which takes longer than all the rest. */
	set -= nr_sets;
	return likely(set < nr_sets) ? set : set % nr_sets;
}

#endif /* RXC_TAG_H */
