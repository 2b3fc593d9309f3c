// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the cache's counters.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "../dm-target/stats.h"
#include "crew.h"

#define ROUNDS	300

static struct rxc_stats __percpu *stats;
static struct rxc_stats base;
static u64 counted;

static u64 hits(void)
{
	struct rxc_stats sum;

	rxc_stats_read(stats, &base, &sum);
	return sum.count[RXC_READ_HITS];
}

static void sum_of_all(struct kunit *test)
{
	struct rxc_stats sum;
	int cpu;

	for_each_possible_cpu(cpu) {
		per_cpu_ptr(stats, cpu)->count[RXC_FILLS] = 3;
		per_cpu_ptr(stats, cpu)->used = cpu ? -2 : 7;
	}
	rxc_stats_read(stats, &base, &sum);
	KUNIT_EXPECT_EQ(test, sum.count[RXC_FILLS], 3 * num_possible_cpus());
	KUNIT_EXPECT_EQ(test, sum.used, 9 - 2 * (s64)num_possible_cpus());
}

static void reset(struct kunit *test)
{
	struct rxc_stats sum;

	rxc_stat_add(stats, RXC_READ_HITS, 5);
	this_cpu_add(stats->used, 4);
	rxc_stats_reset(stats, &base);
	KUNIT_EXPECT_EQ(test, hits(), 0);
	rxc_stat_add(stats, RXC_READ_HITS, 2);
	KUNIT_EXPECT_EQ(test, hits(), 2);
	rxc_stats_reset(stats, &base);
	rxc_stat_inc(stats, RXC_READ_HITS);
	rxc_stats_read(stats, &base, &sum);
	KUNIT_EXPECT_EQ(test, sum.count[RXC_READ_HITS], 1);
	/* A reset does not change the number of cached blocks. */
	KUNIT_EXPECT_EQ(test, sum.used, 4);
}

static int count_on(void *arg)
{
	unsigned int i;

	while (!kthread_should_stop()) {
		for (i = 0; i < 1000; i++) {
			WRITE_ONCE(counted, counted + 1);
			rxc_stat_inc(stats, RXC_READ_HITS);
		}
		cond_resched();
	}
	return 0;
}

static void reset_beside_a_counter(struct kunit *test)
{
	unsigned int round, lost = 0;
	struct crew crew = {};
	u64 before, after;

	crew_add(test, &crew, count_on, NULL);
	for (round = 0; round < ROUNDS; round++) {
		usleep_range(500, 1500);
		/* A thread announces an increment before it makes it: one may be missing. */
		before = READ_ONCE(counted);
		rxc_stats_reset(stats, &base);
		after = hits();
		lost += after > READ_ONCE(counted) - before + 1;
	}
	crew_run(&crew, 0);
	KUNIT_EXPECT_EQ(test, lost, 0);
}

static int stats_init(struct kunit *test)
{
	base = (struct rxc_stats) {};
	counted = 0;
	stats = alloc_percpu(struct rxc_stats);
	return stats ? 0 : -ENOMEM;
}

static void stats_exit(struct kunit *test)
{
	free_percpu(stats);
}

static struct kunit_case stats_cases[] = {
	KUNIT_CASE(sum_of_all),
	KUNIT_CASE(reset),
	KUNIT_CASE_SLOW(reset_beside_a_counter),
	{}
};

static struct kunit_suite stats_suite = {
	.name = "rxcache_stats",
	.init = stats_init,
	.exit = stats_exit,
	.test_cases = stats_cases,
};

kunit_test_suite(stats_suite);

MODULE_DESCRIPTION("KUnit tests of the cache's counters");
MODULE_LICENSE("GPL");
