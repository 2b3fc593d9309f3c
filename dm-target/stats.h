/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_STATS_H
#define RXC_STATS_H

#include <linux/percpu.h>
#include <linux/types.h>

/* What is counted, in cache blocks unless said otherwise. */
enum rxc_stat {
	RXC_READ_HITS,
	RXC_READ_MISSES,
	RXC_READ_PARTIALS,	/* reads of a part of a block, hit or miss */
	RXC_WRITE_HITS,
	RXC_WRITE_MISSES,
	RXC_WRITE_PARTIALS,	/* writes of a part of a block, hit or miss */
	RXC_FILLS,		/* blocks that a read brought in */
	RXC_EVICTIONS,		/* blocks that made room for another */
	RXC_BYPASSES,		/* blocks that went round the cache */
	RXC_INVALIDATIONS,	/* blocks dropped by a write, a discard or a message */
	RXC_ORIGIN_ERRORS,	/* bios that the origin failed */
	RXC_NR_STATS,
};

struct rxc_stats {
	u64 count[RXC_NR_STATS];
	s64 used;		/* blocks in the cache; only the sum means something */
};

#define rxc_stat_add(stats, stat, n)	this_cpu_add((stats)->count[stat], n)
#define rxc_stat_inc(stats, stat)	rxc_stat_add(stats, stat, 1)

#endif /* RXC_STATS_H */
