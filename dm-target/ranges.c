// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ranges of blocks with a write in flight that bypasses the cache.
 *
 * A range within a region of the origin is in the list of a shard, which is selected by the
 * number of the region. Longer ranges, such as large discards, are in a separate list, whose
 * lock all blocks that enter meanwhile take. Both lists for a block are usually empty, and then
 * the check takes no lock.
 */
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "ranges.h"

#define MAX_SHARDS	4096
#define REGION_SIZE	SZ_4M

static void init_shard(struct rxc_range_shard *shard)
{
	spin_lock_init(&shard->lock);
	INIT_LIST_HEAD(&shard->ranges);
}

/**
 * rxc_ranges_init - allocate the shards
 * @ranges: the ranges
 * @nr_shards: number of shards, reduced to MAX_SHARDS
 * @block_pages: number of pages in a block
 *
 * Return: 0 or -ENOMEM.
 */
int rxc_ranges_init(struct rxc_ranges *ranges, unsigned long nr_shards,
		    unsigned int block_pages)
{
	unsigned long i;

	ranges->nr_shards = min_t(unsigned long, nr_shards, MAX_SHARDS);
	ranges->shards = kvmalloc_array(ranges->nr_shards, sizeof(*ranges->shards), GFP_KERNEL);
	if (!ranges->shards)
		return -ENOMEM;
	ranges->region_shift = ilog2(max_t(unsigned int, REGION_SIZE >> PAGE_SHIFT, block_pages) /
				     block_pages);
	for (i = 0; i < ranges->nr_shards; i++)
		init_shard(&ranges->shards[i]);
	init_shard(&ranges->wide);
	return 0;
}

/**
 * rxc_ranges_exit - undo rxc_ranges_init(), if it was called
 * @ranges: the ranges, all of which were removed; or a zeroed structure
 */
void rxc_ranges_exit(struct rxc_ranges *ranges)
{
	kvfree(ranges->shards);
}

/**
 * rxc_ranges_bytes - get the memory of the shards
 * @ranges: the ranges
 *
 * Return: number of bytes.
 */
size_t rxc_ranges_bytes(const struct rxc_ranges *ranges)
{
	return ranges->nr_shards * sizeof(*ranges->shards);
}

/**
 * rxc_ranges_region_end - find the end of the region of a block
 * @ranges: the ranges
 * @block: block number
 *
 * Return: the block after the last one of the region.
 */
u64 rxc_ranges_region_end(const struct rxc_ranges *ranges, u64 block)
{
	return ((block >> ranges->region_shift) + 1) << ranges->region_shift;
}

/**
 * rxc_range_in_region - check whether a range is within one region
 * @ranges: the ranges
 * @range: the range
 *
 * Return: true if it does.
 */
bool rxc_range_in_region(const struct rxc_ranges *ranges, const struct rxc_range *range)
{
	return range->first + range->nr <= rxc_ranges_region_end(ranges, range->first);
}

static struct rxc_range_shard *shard_of(struct rxc_ranges *ranges, u64 block)
{
	u32 hash = hash_64(block >> ranges->region_shift, 32);

	return &ranges->shards[reciprocal_scale(hash, ranges->nr_shards)];
}

/* The shard that lists a range. */
static struct rxc_range_shard *shard_of_range(struct rxc_ranges *ranges,
					      const struct rxc_range *range)
{
	return rxc_range_in_region(ranges, range) ? shard_of(ranges, range->first) :
						    &ranges->wide;
}

/**
 * rxc_ranges_add - add a range to its list
 * @ranges: the ranges
 * @range: the range, which is in use until rxc_ranges_remove()
 */
void rxc_ranges_add(struct rxc_ranges *ranges, struct rxc_range *range)
{
	struct rxc_range_shard *shard = shard_of_range(ranges, range);
	unsigned long flags;

	spin_lock_irqsave(&shard->lock, flags);
	list_add_tail(&range->list, &shard->ranges);
	spin_unlock_irqrestore(&shard->lock, flags);
}

/**
 * rxc_ranges_remove - remove a range from its list
 * @ranges: the ranges
 * @range: the range
 */
void rxc_ranges_remove(struct rxc_ranges *ranges, struct rxc_range *range)
{
	struct rxc_range_shard *shard = shard_of_range(ranges, range);
	unsigned long flags;

	spin_lock_irqsave(&shard->lock, flags);
	/*
	 * A task that does not find the range must see the written data when it reads the
	 * origin, which may be a RAM disk: pairs with is_listed().
	 */
	smp_mb__after_spinlock();
	list_del(&range->list);
	spin_unlock_irqrestore(&shard->lock, flags);
}

static bool is_listed(struct rxc_range_shard *shard, u64 block)
{
	const struct rxc_range *range;
	bool found = false;

	if (likely(list_empty(&shard->ranges))) {
		/* Pairs with rxc_ranges_remove(): the origin has the written data. */
		smp_acquire__after_ctrl_dep();
		return false;
	}
	spin_lock(&shard->lock);
	list_for_each_entry(range, &shard->ranges, list) {
		found = rxc_range_holds(range, block);
		if (found)
			break;
	}
	spin_unlock(&shard->lock);
	return found;
}

/**
 * rxc_ranges_hold - check whether a block is in a listed range
 * @ranges: the ranges
 * @block: block number
 *
 * Call with the bucket of the block locked, and thus with interrupts off.
 *
 * Return: true if it is.
 */
bool rxc_ranges_hold(struct rxc_ranges *ranges, u64 block)
{
	/* With PREEMPT_RT, a spinlock leaves them on. */
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		lockdep_assert_irqs_disabled();
	return is_listed(shard_of(ranges, block), block) || is_listed(&ranges->wide, block);
}
