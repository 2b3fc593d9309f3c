/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_RANGES_H
#define RXC_RANGES_H

#include <linux/cache.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/**
 * struct rxc_range - blocks of a write that bypasses the cache
 * @list: entry in the list of a shard
 * @first: first block, which may be covered only in part
 * @nr: number of blocks
 */
struct rxc_range {
	struct list_head list;
	u64 first;
	u64 nr;
};

/**
 * struct rxc_range_shard - a list of ranges
 * @lock: protects @ranges; taken after the lock of a bucket, or alone
 * @ranges: ranges, as struct rxc_range
 */
struct rxc_range_shard {
	spinlock_t lock; /* the list of ranges */
	struct list_head ranges;
};

/**
 * struct rxc_ranges - all ranges of writes that bypass the cache
 * @nr_shards: number of shards
 * @shards: ranges within one region
 * @region_shift: log2 of the blocks of a region
 * @wide: ranges that span several regions
 */
struct rxc_ranges {
	unsigned long nr_shards;
	struct rxc_range_shard *shards;
	unsigned int region_shift;
	struct rxc_range_shard wide ____cacheline_aligned;
};

int rxc_ranges_init(struct rxc_ranges *ranges, unsigned long nr_shards,
		    unsigned int block_pages);
void rxc_ranges_exit(struct rxc_ranges *ranges);
size_t rxc_ranges_bytes(const struct rxc_ranges *ranges);

u64 rxc_ranges_region_end(const struct rxc_ranges *ranges, u64 block);
bool rxc_range_in_region(const struct rxc_ranges *ranges, const struct rxc_range *range);
void rxc_ranges_add(struct rxc_ranges *ranges, struct rxc_range *range);
void rxc_ranges_remove(struct rxc_ranges *ranges, struct rxc_range *range);
bool rxc_ranges_hold(struct rxc_ranges *ranges, u64 block);

static inline bool rxc_range_holds(const struct rxc_range *range, u64 block)
{
	return block - range->first < range->nr;
}

#endif /* RXC_RANGES_H */
