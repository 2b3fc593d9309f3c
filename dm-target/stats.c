// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counters of a cache, which are the sums over all processors since the last reset.
 */
#include <linux/compiler.h>
#include <linux/cpumask.h>
#include <linux/string.h>

#include "stats.h"

/**
 * rxc_stats_read - read the counters
 * @stats: the counters
 * @base: their sums at the last rxc_stats_reset()
 * @sum: set to the sums since then
 *
 * The caller prevents changes of @base.
 */
void rxc_stats_read(const struct rxc_stats __percpu *stats, const struct rxc_stats *base,
		    struct rxc_stats *sum)
{
	const struct rxc_stats *one;
	unsigned int i;
	int cpu;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		one = per_cpu_ptr(stats, cpu);
		for (i = 0; i < RXC_NR_STATS; i++)
			sum->count[i] += READ_ONCE(one->count[i]);
		sum->used += READ_ONCE(one->used);
	}
	for (i = 0; i < RXC_NR_STATS; i++)
		sum->count[i] -= base->count[i];
}

/**
 * rxc_stats_reset - reset the counters
 * @stats: the counters
 * @base: set to their current sums
 *
 * The counters themselves do not change, because clearing a counter races with its processor,
 * which may write the old value back. The caller prevents other use of @base.
 */
void rxc_stats_reset(struct rxc_stats __percpu *stats, struct rxc_stats *base)
{
	const struct rxc_stats zero = {};

	rxc_stats_read(stats, &zero, base);
}
