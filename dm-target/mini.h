/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_MINI_H
#define RXC_MINI_H

#include <linux/hash.h>
#include <linux/types.h>

#include "tag.h"

/*
 * Slots of a simulated cache at most, and more than half of it at least, unless the size that it
 * stands for has fewer. If samples come too fast, they are halved, as long as it has more than half
 * of RXC_MINI_SLOTS_MIN.
 */
#define RXC_MINI_SLOTS		8191
#define RXC_MINI_SLOTS_MIN	2047
/* Number of sizes that the advice compares. */
#define RXC_MINI_SIZES		8

/**
 * enum rxc_use - what happened to a block
 * @RXC_USE_READ: it was read, and may enter the cache
 * @RXC_USE_PASS: it was read, and must not enter the cache
 * @RXC_USE_MISS: it was read, and must not come from the cache
 * @RXC_USE_WRITE: it was written as a whole, and may enter the cache
 * @RXC_USE_DROP: it was written, and must leave the cache
 * @RXC_USE_DISCARD: it was discarded, and must leave the cache
 * @RXC_NR_USES: number of uses
 */
enum rxc_use {
	RXC_USE_READ,
	RXC_USE_PASS,
	RXC_USE_MISS,
	RXC_USE_WRITE,
	RXC_USE_DROP,
	RXC_USE_DISCARD,
	RXC_NR_USES,
};

struct rxc_policy;

/**
 * struct rxc_mini - a simulated cache, which stands for a cache of another size
 * @policy: the replacement policy
 * @tags: @ways tags for each set
 * @full_sets: number of sets of the cache that it stands for
 * @nr_sets: number of its own sets
 * @used: number of blocks that it holds
 * @ways: number of slots in a set
 * @shift: it sees the blocks of which rxc_until_sample() is 0 for this shift
 */
struct rxc_mini {
	struct rxc_policy *policy;
	u64 *tags;
	unsigned long full_sets;
	unsigned long nr_sets;
	unsigned long used;
	unsigned int ways;
	unsigned int shift;
};

/**
 * rxc_until_sample - find the next block of a sample
 * @block: block number
 * @mask: 2^shift - 1
 *
 * A sample has one of 2^shift blocks. Of a run of blocks it has every 2^shift-th, so that it fills
 * the sets of a simulated cache as evenly as the run fills those of a cache. Which blocks these
 * are depends on a hash. The sample of a larger shift is a part of that of a smaller one.
 *
 * Return: distance to the block; 0: @block is in the sample. It is right within a region of
 * RXC_SPREAD blocks.
 */
static inline u32 rxc_until_sample(u64 block, u32 mask)
{
	return -(hash_64(block / RXC_SPREAD, 32) + (u32)block) & mask;
}

u64 rxc_mini_slots(u64 nr_slots, unsigned int size);
unsigned int rxc_mini_shift(u64 nr_slots, unsigned long most);
int rxc_mini_init(struct rxc_mini *mini, u64 nr_slots, unsigned int shift);
void rxc_mini_restart(struct rxc_mini *mini, u64 nr_slots, unsigned int shift);
void rxc_mini_exit(struct rxc_mini *mini);
bool rxc_mini_use(struct rxc_mini *mini, u64 block, enum rxc_use use);

#endif /* RXC_MINI_H */
