// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulated caches: the policy of the cache, with few slots and a sample of the blocks, finds the
 * hits of a cache of any size (C. Waldspurger et al., "Efficient MRC Construction with SHARDS",
 * FAST 2015; "Cache Modeling and Optimization using Miniature Simulations", ATC 2017).
 */
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "mini.h"
#include "policy.h"

/* The sizes, in quarters of that of the cache. */
static const unsigned char quarters[RXC_MINI_SIZES] = { 1, 2, 3, 4, 6, 8, 16, 32 };

/**
 * rxc_mini_slots - get one of the sizes that the advice compares
 * @nr_slots: number of slots of the cache, at least RXC_SLOTS_MIN
 * @size: number of the size
 *
 * Return: the number of slots of a cache of this size.
 */
u64 rxc_mini_slots(u64 nr_slots, unsigned int size)
{
	return nr_slots * quarters[size] / 4;
}

/**
 * rxc_mini_shift - choose the sample for a simulated cache
 * @nr_slots: number of slots of the cache that it stands for
 * @most: number of slots that it may have
 *
 * Return: the least shift for which it has no more than @most slots.
 */
unsigned int rxc_mini_shift(u64 nr_slots, unsigned long most)
{
	unsigned int shift = 0;

	while (nr_slots >> shift > most)
		shift++;
	return shift;
}

/**
 * rxc_mini_init - make an empty simulated cache
 * @mini: set to the simulated cache
 * @nr_slots: number of slots of the cache that it stands for
 * @shift: one of 2^@shift blocks is in the sample
 *
 * Return: 0; -ENOMEM if memory is short.
 */
int rxc_mini_init(struct rxc_mini *mini, u64 nr_slots, unsigned int shift)
{
	unsigned long full_sets, nr_sets;
	unsigned int full_ways, ways;

	rxc_divide_slots(nr_slots, &full_sets, &full_ways);
	rxc_divide_slots(nr_slots >> shift, &nr_sets, &ways);
	*mini = (struct rxc_mini) {
		.policy = rxc_policy_create(nr_sets, ways),
		.tags = __vmalloc(nr_sets * ways * sizeof(u64),
				  GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN),
		.full_sets = full_sets,
		.nr_sets = nr_sets,
		.ways = ways,
		.shift = shift,
	};
	if (mini->policy && mini->tags)
		return 0;
	rxc_mini_exit(mini);
	return -ENOMEM;
}

/**
 * rxc_mini_restart - empty a simulated cache, and give it a smaller sample
 * @mini: the simulated cache
 * @nr_slots: number of slots of the cache that it stands for, as before
 * @shift: one of 2^@shift blocks is in the sample, no more than before
 */
void rxc_mini_restart(struct rxc_mini *mini, u64 nr_slots, unsigned int shift)
{
	rxc_divide_slots(nr_slots >> shift, &mini->nr_sets, &mini->ways);
	rxc_policy_restart(mini->policy, mini->nr_sets, mini->ways);
	memset(mini->tags, 0, mini->nr_sets * mini->ways * sizeof(u64));
	mini->used = 0;
	mini->shift = shift;
}

/**
 * rxc_mini_exit - free a simulated cache
 * @mini: the simulated cache, which may be zero, or one that rxc_mini_init() could not make
 */
void rxc_mini_exit(struct rxc_mini *mini)
{
	rxc_policy_destroy(mini->policy);
	vfree(mini->tags);
	mini->policy = NULL;
	mini->tags = NULL;
}

/* Neighbours in the cache that it stands for are neighbours here. */
static unsigned long set_in(const struct rxc_mini *mini, u64 block)
{
	unsigned long set = rxc_set_among(block, mini->full_sets);

	if (mini->nr_sets == mini->full_sets)
		return set;
	return div64_ul((u64)set * mini->nr_sets, mini->full_sets);
}

static u64 make_tag(u64 block, unsigned long policy_bits)
{
	return block << RXC_TAG_BLOCK_SHIFT | (u64)policy_bits << RXC_TAG_POLICY_SHIFT | RXC_VALID;
}

/* Find a block, or an empty way. Return: the way, or -1 if there is none. */
static int find_way(const struct rxc_mini *mini, const u64 *tags, u64 tag)
{
	unsigned int way;

	for (way = 0; way < mini->ways; way++)
		if ((tags[way] & (RXC_TAG_BLOCK | RXC_TAG_STATE)) == tag)
			return way;
	return -1;
}

static void insert(struct rxc_mini *mini, unsigned long set, u64 *tags, u64 block)
{
	int way = find_way(mini, tags, 0);
	unsigned long bits;

	bits = rxc_policy_insert(mini->policy, set, tags, block, way >= 0);
	if (way < 0)
		way = rxc_policy_victim(mini->policy, set, tags);
	else
		mini->used++;
	/* All blocks of a full set are valid, so one of them can leave. */
	tags[way] = make_tag(block, bits);
}

/**
 * rxc_mini_use - tell a simulated cache what happened to a block of its sample
 * @mini: the simulated cache
 * @block: block number
 * @use: what happened
 *
 * Return: true if it had the block.
 */
bool rxc_mini_use(struct rxc_mini *mini, u64 block, enum rxc_use use)
{
	unsigned long set = set_in(mini, block);
	u64 *tags = &mini->tags[set * mini->ways];
	int way = find_way(mini, tags, make_tag(block, 0));

	if (use == RXC_USE_MISS)
		return false;
	if (way < 0) {
		if (use == RXC_USE_READ || use == RXC_USE_WRITE)
			insert(mini, set, tags, block);
		return false;
	}
	if (use == RXC_USE_DROP || use == RXC_USE_DISCARD) {
		tags[way] = 0;
		mini->used--;
	} else if (use != RXC_USE_WRITE) {
		tags[way] = make_tag(block, rxc_policy_touch(tags[way]));
	}
	return true;
}
