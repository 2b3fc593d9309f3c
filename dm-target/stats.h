/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_STATS_H
#define RXC_STATS_H

#include <linux/percpu.h>
#include <linux/types.h>

/* The counters, in cache blocks unless noted. */
enum rxc_stat {
	RXC_READ_HITS,
	RXC_READ_MISSES,
	RXC_READ_PARTIALS,	/* reads of a part of a block, hit or miss */
	RXC_WRITE_HITS,
	RXC_WRITE_MISSES,
	RXC_WRITE_PARTIALS,	/* writes of a part of a block, hit or miss */
	RXC_FILLS,		/* blocks read from the origin into the cache */
	RXC_EVICTIONS,		/* blocks evicted to make room */
	RXC_BYPASSES,		/* blocks that bypassed the cache */
	RXC_INVALIDATIONS,	/* blocks removed by a write, a discard or a message */
	RXC_ORIGIN_ERRORS,	/* bios that failed on the origin */
	RXC_GIVEN,		/* blocks evicted because others needed lent memory */
	RXC_TAKEN,		/* blocks that memory was lent for */
	RXC_NR_STATS,
};

/**
 * struct rxc_stats - counters of one processor, or their sums
 * @count: never reset, because no other processor can write to it safely
 * @used: number of cached blocks; only the sum over all processors has a meaning
 */
struct rxc_stats {
	u64 count[RXC_NR_STATS];
	s64 used;
};

#define rxc_stat_add(stats, stat, n)	this_cpu_add((stats)->count[stat], n)
#define rxc_stat_inc(stats, stat)	rxc_stat_add(stats, stat, 1)

void rxc_stats_read(const struct rxc_stats __percpu *stats, const struct rxc_stats *base,
		    struct rxc_stats *sum);
void rxc_stats_reset(struct rxc_stats __percpu *stats, struct rxc_stats *base);

#endif /* RXC_STATS_H */
