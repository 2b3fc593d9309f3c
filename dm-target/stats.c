// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all processors have counted since the counters were last set to zero.
 */
#include <linux/compiler.h>
#include <linux/cpumask.h>
#include <linux/string.h>

#include "stats.h"

/**
 * rxc_stats_read - add up what was counted
 * @stats: the counters
 * @base: what they had counted at the last rxc_stats_reset()
 * @sum: set to the sum since then
 *
 * The caller keeps others from changing @base.
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
 * rxc_stats_reset - have the counters begin with zero again
 * @stats: the counters
 * @base: set to what they have counted so far
 *
 * A counter that is set to zero while its processor adds to it may get the old
 * value back, so none is. The caller keeps others from using @base.
 */
void rxc_stats_reset(struct rxc_stats __percpu *stats, struct rxc_stats *base)
{
	const struct rxc_stats zero = {};

	rxc_stats_read(stats, &zero, base);
}
