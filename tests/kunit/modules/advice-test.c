// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the advice: samples, miniature caches, counts over time, and switching it on and
 * off while samples are taken.
 */
#include <kunit/test.h>
#include <linux/kstrtox.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "advice-test.h"
#include "crew.h"
#include "fault.h"

#define NR_SLOTS	1024
#define BIG		1048576
#define STRESS_MSECS	4000
#define REPORT_SIZE	1024
#define HOUR		3600

/**
 * struct told - what a report says
 * @number: its numbers
 * @nr: how many these are
 */
struct told {
	u64 number[12 + 3 * RXC_MINI_SIZES];
	unsigned int nr;
};

enum {
	HOUR_SECONDS,
	HOUR_READS,
	FED,
	LOST,
	CHANGES_FED,
	CHANGES_LOST,
	DAY_SECONDS,
	DAY_READS,
	SIZES = 2 * DAY_SECONDS,
};

static struct rxc_stats __percpu *stats;
static struct rxc_sampler sampler;
static atomic_t bad_reports;

static int tell(struct rxc_sampler *from, struct told *told)
{
	char *text = kzalloc(REPORT_SIZE, GFP_KERNEL), *rest = text, *word;
	int ret;

	memset(told, 0, sizeof(*told));
	if (!text)
		return -ENOMEM;
	ret = rxc_sampler_report(from, text, REPORT_SIZE);
	while (!ret && (word = strsep(&rest, " "))) {
		if (told->nr == ARRAY_SIZE(told->number) ||
		    kstrtou64(word, 10, &told->number[told->nr++]))
			ret = -EINVAL;
	}
	kfree(text);
	return ret;
}

static u64 slots_of(const struct told *told, unsigned int size)
{
	return told->number[SIZES + 3 * size];
}

static u64 hour_misses(const struct told *told, unsigned int size)
{
	return told->number[SIZES + 3 * size + 1];
}

static u64 day_misses(const struct told *told, unsigned int size)
{
	return told->number[SIZES + 3 * size + 2];
}

static void read_blocks(u64 first, u64 nr)
{
	rxc_stat_add(stats, RXC_READ_HITS, nr);
	rxc_sampler_note(&sampler, first, first + nr, RXC_USE_READ);
}

/* Read in pieces that fit into a ring. */
static void read_slowly(u64 first, u64 nr)
{
	struct told told;
	u64 piece;

	for (; nr; nr -= piece, first += piece) {
		piece = min_t(u64, nr, test_ring_length(&sampler) / 2);
		read_blocks(first, piece);
		tell(&sampler, &told);
	}
}

static bool in_sample(u64 block, unsigned int shift)
{
	return !rxc_until_sample(block, BIT(shift) - 1);
}

static unsigned long mini_slots(unsigned int i)
{
	const struct rxc_mini *mini = test_mini(&sampler, i);

	return mini->nr_sets * mini->ways;
}

static void samples_are_even(struct kunit *test)
{
	unsigned int shift, nr, wrong = 0;
	u64 block, first = 7 * RXC_SPREAD;

	for (shift = 0; shift <= 10; shift++) {
		nr = 0;
		for (block = first; block < first + RXC_SPREAD; block++) {
			nr += in_sample(block, shift);
			wrong += shift && in_sample(block, shift) && !in_sample(block, shift - 1);
		}
		KUNIT_EXPECT_EQ(test, nr, RXC_SPREAD >> shift);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

static void other_regions_have_other_samples(struct kunit *test)
{
	unsigned int nr = 0, region;

	/* The first blocks of the regions: one of 16 is in the sample. */
	for (region = 0; region < 1600; region++)
		nr += in_sample((u64)region * RXC_SPREAD, 4);
	KUNIT_EXPECT_GE(test, nr, 50);
	KUNIT_EXPECT_LE(test, nr, 200);
	/* Beyond the length of a region, whole regions have none. */
	for (nr = 0, region = 0; region < 64 * RXC_SPREAD; region++)
		nr += in_sample(region, 12);
	KUNIT_EXPECT_GE(test, nr, 4);
	KUNIT_EXPECT_LE(test, nr, 40);
}

static void uses_of_a_mini(struct kunit *test)
{
	struct rxc_mini mini;

	KUNIT_ASSERT_EQ(test, rxc_mini_init(&mini, NR_SLOTS, 0), 0);
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 5, RXC_USE_PASS));
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 5, RXC_USE_READ));
	KUNIT_EXPECT_TRUE(test, rxc_mini_use(&mini, 5, RXC_USE_READ));
	KUNIT_EXPECT_TRUE(test, rxc_mini_use(&mini, 5, RXC_USE_PASS));
	KUNIT_EXPECT_TRUE(test, rxc_mini_use(&mini, 5, RXC_USE_DROP));
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 5, RXC_USE_DROP));
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 5, RXC_USE_WRITE));
	KUNIT_EXPECT_TRUE(test, rxc_mini_use(&mini, 5, RXC_USE_READ));
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 0, RXC_USE_READ));
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, RXC_BLOCK_MAX, RXC_USE_READ));
	KUNIT_EXPECT_TRUE(test, rxc_mini_use(&mini, RXC_BLOCK_MAX, RXC_USE_READ));
	rxc_mini_exit(&mini);
}

static void a_mini_holds_what_it_has_slots_for(struct kunit *test)
{
	unsigned int shift, hits;
	struct rxc_mini mini;
	u64 block;

	for (shift = 0; shift <= 4; shift += 2) {
		KUNIT_ASSERT_EQ(test, rxc_mini_init(&mini, BIG / 64, shift), 0);
		for (block = 0; block < BIG / 64; block++)
			if (in_sample(block, shift))
				rxc_mini_use(&mini, block, RXC_USE_READ);
		for (hits = 0, block = 0; block < BIG / 64; block++)
			if (in_sample(block, shift))
				hits += rxc_mini_use(&mini, block, RXC_USE_READ);
		/* A run fills the sets evenly, all but where the last region ends. */
		KUNIT_EXPECT_GE(test, hits << shift, BIG / 64 * 9 / 10);
		rxc_mini_exit(&mini);
	}
}

static void smallest_cache(struct kunit *test)
{
	struct told told;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, RXC_SLOTS_MIN, stats), 0);
	for (i = 0; i < 100; i++)
		read_slowly(0, 100);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	for (i = 1; i < RXC_MINI_SIZES; i++)
		KUNIT_EXPECT_GT(test, slots_of(&told, i), slots_of(&told, i - 1));
	KUNIT_EXPECT_EQ(test, hour_misses(&told, RXC_MINI_SIZES - 1), 100);
	rxc_sampler_off(&sampler);
}

static void off_takes_no_samples(struct kunit *test)
{
	struct told told;

	KUNIT_EXPECT_FALSE(test, rxc_sampler_is_on(&sampler));
	KUNIT_EXPECT_EQ(test, sampler.every, 0);
	read_blocks(0, 100);
	rxc_sampler_take(&sampler, 1, RXC_USE_READ);
	KUNIT_EXPECT_EQ(test, tell(&sampler, &told), -ENODATA);
	rxc_sampler_off(&sampler);
	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	rxc_sampler_off(&sampler);
	KUNIT_EXPECT_FALSE(test, rxc_sampler_is_on(&sampler));
	KUNIT_EXPECT_EQ(test, sampler.every, 0);
}

static void counts_misses(struct kunit *test)
{
	struct told told;
	unsigned int i;

	/* Reads before it was switched on do not count. */
	rxc_stat_add(stats, RXC_READ_MISSES, 1000);
	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	KUNIT_EXPECT_EQ(test, sampler.every, 1);
	KUNIT_EXPECT_TRUE(test, rxc_sampler_suits(&sampler, NR_SLOTS));
	KUNIT_EXPECT_FALSE(test, rxc_sampler_suits(&sampler, NR_SLOTS + 1));
	read_slowly(0, 64);
	read_slowly(0, 64);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.nr, ARRAY_SIZE(told.number));
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 128);
	KUNIT_EXPECT_EQ(test, told.number[DAY_READS], 128);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 0);
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		KUNIT_EXPECT_EQ(test, hour_misses(&told, i), 64);
		KUNIT_EXPECT_EQ(test, day_misses(&told, i), 64);
		KUNIT_EXPECT_EQ(test, slots_of(&told, i), rxc_mini_slots(NR_SLOTS, i));
	}
	KUNIT_EXPECT_EQ(test, slots_of(&told, 3), NR_SLOTS);
	rxc_sampler_off(&sampler);
}

static void sizes_differ(struct kunit *test)
{
	struct told told;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	/* A loop over a bit less than twice the size. */
	for (i = 0; i < 4; i++)
		read_slowly(0, NR_SLOTS * 15 / 8);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		if (slots_of(&told, i) >= 4 * NR_SLOTS)
			KUNIT_EXPECT_EQ(test, hour_misses(&told, i), NR_SLOTS * 15 / 8);
		else if (slots_of(&told, i) <= NR_SLOTS)
			KUNIT_EXPECT_GE(test, hour_misses(&told, i), NR_SLOTS * 15 / 4);
	}
	rxc_sampler_off(&sampler);
}

static void a_big_cache_is_sampled(struct kunit *test)
{
	struct told told;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, BIG, stats), 0);
	KUNIT_EXPECT_EQ(test, sampler.every, 64);
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		KUNIT_EXPECT_LE(test, mini_slots(i), RXC_MINI_SLOTS);
		KUNIT_EXPECT_GT(test, mini_slots(i), RXC_MINI_SLOTS / 2);
	}
	KUNIT_EXPECT_LE(test, test_advice_bytes(&sampler), SZ_1M);
	read_slowly(0, 32 * RXC_SPREAD);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 32 * RXC_SPREAD);
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		/* A sample of fewer than one block of a region has as many only on average. */
		if (BIT(test_mini(&sampler, i)->shift) <= RXC_SPREAD)
			KUNIT_EXPECT_EQ(test, hour_misses(&told, i), 32 * RXC_SPREAD);
	}
	rxc_sampler_off(&sampler);
}

static void hours_pass(struct kunit *test)
{
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	read_slowly(0, 10);
	test_pass_time(&sampler, HOUR / 2);
	read_slowly(0, 20);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 30);
	KUNIT_EXPECT_GE(test, told.number[HOUR_SECONDS], HOUR / 2);
	KUNIT_EXPECT_LE(test, told.number[HOUR_SECONDS], HOUR / 2 + 60);
	KUNIT_EXPECT_EQ(test, hour_misses(&told, 3), 20);
	test_pass_time(&sampler, HOUR * 3 / 4);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 20);
	KUNIT_EXPECT_EQ(test, hour_misses(&told, 3), 10);
	KUNIT_EXPECT_GE(test, told.number[HOUR_SECONDS], HOUR - 300);
	KUNIT_EXPECT_LE(test, told.number[HOUR_SECONDS], HOUR);
	KUNIT_EXPECT_EQ(test, told.number[DAY_READS], 30);
	KUNIT_EXPECT_EQ(test, day_misses(&told, 3), 20);
	test_pass_time(&sampler, 22 * HOUR + HOUR * 3 / 4 - 60);
	read_slowly(0, 5);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 5);
	KUNIT_EXPECT_EQ(test, told.number[DAY_READS], 35);
	test_pass_time(&sampler, HOUR);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 0);
	KUNIT_EXPECT_EQ(test, told.number[DAY_READS], 5);
	KUNIT_EXPECT_LE(test, told.number[DAY_SECONDS], 24 * HOUR);
	KUNIT_EXPECT_GE(test, told.number[DAY_SECONDS], 24 * HOUR - 300);
	test_pass_time(&sampler, 1000 * HOUR);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[DAY_READS], 0);
	KUNIT_EXPECT_EQ(test, day_misses(&told, 0), 0);
	rxc_sampler_off(&sampler);
}

/* Of long runs and of their edges, the sampler finds the same blocks as a test of each block. */
static void notes_what_is_in_the_sample(struct kunit *test)
{
	u64 first, end, block, expected;
	struct told told, before;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, BIG, stats), 0);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &before), 0);
	for (i = 0; i < 200; i++) {
		first = get_random_u32_below(100 * RXC_SPREAD);
		end = first + get_random_u32_below(i % 2 ? 300 : 10 * RXC_SPREAD);
		for (expected = 0, block = first; block < end; block++)
			expected += in_sample(block, ilog2(sampler.every));
		rxc_sampler_note(&sampler, first, end, RXC_USE_WRITE);
		KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
		KUNIT_EXPECT_EQ(test, told.number[CHANGES_FED] - before.number[CHANGES_FED],
				expected);
		before = told;
	}
	rxc_sampler_off(&sampler);
}

/* Fill a ring of this processor many times over, while the worker does nothing. */
static void overflow(unsigned int nr, enum rxc_use use)
{
	test_hold_worker(&sampler);
	migrate_disable();
	rxc_sampler_note(&sampler, 0, nr, use);
	migrate_enable();
	test_release_worker(&sampler);
}

/* What does not fit into a ring is lost, and its reads do not count. */
static void rings_overflow(struct kunit *test)
{
	unsigned int length;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	length = test_ring_length(&sampler);
	rxc_stat_add(stats, RXC_READ_HITS, 4 * length);
	overflow(4 * length, RXC_USE_READ);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[FED], length);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 3 * length);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], length);
	KUNIT_EXPECT_EQ(test, hour_misses(&told, 3), length);
	read_slowly(0, 10);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 3 * length);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], length + 10);
	rxc_sampler_off(&sampler);
}

/* Changes that are lost do not change what counts as read, and discards leave room for reads. */
static void changes_overflow(struct kunit *test)
{
	unsigned int length;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	length = test_ring_length(&sampler);
	read_slowly(0, 50);
	overflow(10 * length, RXC_USE_WRITE);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[CHANGES_LOST], 9 * length);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 50);
	rxc_stat_add(stats, RXC_READ_MISSES, length / 2);
	test_hold_worker(&sampler);
	migrate_disable();
	rxc_sampler_note(&sampler, 0, 10 * length, RXC_USE_DROP);
	rxc_sampler_note(&sampler, 0, length / 2, RXC_USE_READ);
	migrate_enable();
	test_release_worker(&sampler);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 0);
	KUNIT_EXPECT_EQ(test, told.number[FED], 50 + length / 2);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 50 + length / 2);
	KUNIT_EXPECT_EQ(test, told.number[CHANGES_FED], length + length / 2);
	KUNIT_EXPECT_EQ(test, told.number[CHANGES_LOST], 9 * length + 10 * length - length / 2);
	rxc_sampler_off(&sampler);
}

/* When its time is used up, the worker feeds nothing, whoever asks, until time has passed. */
static void the_worker_rests(struct kunit *test)
{
	unsigned int length;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	length = test_ring_length(&sampler);
	test_use_up_budget(&sampler);
	migrate_disable();
	read_blocks(0, 3 * length);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), length);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), length);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 0);
	KUNIT_EXPECT_EQ(test, hour_misses(&told, 3), 0);
	test_pass_time(&sampler, 2 * HOUR);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 2 * length);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], length);
	KUNIT_EXPECT_EQ(test, hour_misses(&told, 3), length);
	rxc_sampler_off(&sampler);
}

/* Each sample of a ring that is half full wakes the worker, also one that is lost. */
static void a_full_ring_wakes_the_worker(struct kunit *test)
{
	unsigned int length, full;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	length = test_ring_length(&sampler);
	for (full = length / 2; full <= length; full += length / 4) {
		test_use_up_budget(&sampler);
		migrate_disable();
		read_blocks(0, full);
		KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), full);
		test_end_rest(&sampler);
		read_blocks(0, 1);
		KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), 0);
		migrate_enable();
	}
	rxc_sampler_off(&sampler);
}

static void memory_fails(struct kunit *test)
{
	unsigned int nth, failed = 0;
	bool more = true;
	int ret;

	if (fault_check())
		kunit_skip(test, "allocations cannot fail");
	for (nth = 1; more && nth < 64 * FAULT_MAX; nth++) {
		fault_begin(nth);
		ret = rxc_sampler_on(&sampler, BIG, stats);
		more = fault_end();
		if (ret) {
			KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
			KUNIT_EXPECT_FALSE(test, rxc_sampler_is_on(&sampler));
			KUNIT_EXPECT_EQ(test, sampler.every, 0);
			failed++;
		}
		rxc_sampler_off(&sampler);
	}
	KUNIT_EXPECT_FALSE(test, more);
	/* At least the policies, whose allocations have no other way. */
	KUNIT_EXPECT_GE(test, failed, RXC_MINI_SIZES);
}

static void another_inherits(struct kunit *test)
{
	struct rxc_sampler heir = {};
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	read_slowly(0, 10);
	rxc_sampler_inherit(&heir, &sampler);
	KUNIT_EXPECT_FALSE(test, rxc_sampler_is_on(&sampler));
	KUNIT_EXPECT_EQ(test, sampler.every, 0);
	KUNIT_EXPECT_EQ(test, heir.every, 1);
	KUNIT_ASSERT_EQ(test, tell(&heir, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 10);
	rxc_sampler_inherit(&sampler, &heir);
	rxc_sampler_inherit(&heir, &(struct rxc_sampler){});
	KUNIT_EXPECT_FALSE(test, rxc_sampler_is_on(&heir));
	rxc_sampler_off(&sampler);
}

static DEFINE_MUTEX(switching);

static int take_samples(void *arg)
{
	while (!kthread_should_stop()) {
		read_blocks(get_random_u32_below(4 * NR_SLOTS), 64);
		rxc_sampler_note(&sampler, get_random_u32_below(NR_SLOTS), NR_SLOTS, RXC_USE_DROP);
		cond_resched();
	}
	return 0;
}

static int switch_on_and_off(void *arg)
{
	while (!kthread_should_stop()) {
		mutex_lock(&switching);
		if (rxc_sampler_is_on(&sampler))
			rxc_sampler_off(&sampler);
		else
			rxc_sampler_on(&sampler, NR_SLOTS << get_random_u32_below(12), stats);
		mutex_unlock(&switching);
		usleep_range(100, 5000);
	}
	return 0;
}

static int ask(void *arg)
{
	struct told told;
	int ret;

	while (!kthread_should_stop()) {
		mutex_lock(&switching);
		if (rxc_sampler_is_on(&sampler) && get_random_u32_below(2))
			test_use_up_budget(&sampler);
		ret = tell(&sampler, &told);
		if (ret != -ENODATA && (ret || told.nr != ARRAY_SIZE(told.number)))
			atomic_inc(&bad_reports);
		mutex_unlock(&switching);
		cond_resched();
	}
	return 0;
}

static void samples_beside_switching(struct kunit *test)
{
	struct crew crew = {};

	crew_add(test, &crew, take_samples, NULL);
	crew_add(test, &crew, take_samples, NULL);
	crew_add(test, &crew, switch_on_and_off, NULL);
	crew_add(test, &crew, ask, NULL);
	crew_run(&crew, STRESS_MSECS);
	rxc_sampler_off(&sampler);
	KUNIT_EXPECT_EQ(test, atomic_read(&bad_reports), 0);
	KUNIT_EXPECT_EQ(test, sampler.every, 0);
}

static int advice_init(struct kunit *test)
{
	memset(&sampler, 0, sizeof(sampler));
	atomic_set(&bad_reports, 0);
	stats = alloc_percpu(struct rxc_stats);
	return stats ? 0 : -ENOMEM;
}

static void advice_exit(struct kunit *test)
{
	rxc_sampler_off(&sampler);
	free_percpu(stats);
}

static struct kunit_case advice_cases[] = {
	KUNIT_CASE(samples_are_even),
	KUNIT_CASE(other_regions_have_other_samples),
	KUNIT_CASE(uses_of_a_mini),
	KUNIT_CASE(a_mini_holds_what_it_has_slots_for),
	KUNIT_CASE(smallest_cache),
	KUNIT_CASE(off_takes_no_samples),
	KUNIT_CASE(counts_misses),
	KUNIT_CASE(sizes_differ),
	KUNIT_CASE(a_big_cache_is_sampled),
	KUNIT_CASE(hours_pass),
	KUNIT_CASE(notes_what_is_in_the_sample),
	KUNIT_CASE(rings_overflow),
	KUNIT_CASE(changes_overflow),
	KUNIT_CASE(the_worker_rests),
	KUNIT_CASE(a_full_ring_wakes_the_worker),
	KUNIT_CASE_SLOW(memory_fails),
	KUNIT_CASE(another_inherits),
	KUNIT_CASE_SLOW(samples_beside_switching),
	{}
};

static struct kunit_suite advice_suite = {
	.name = "rxcache_advice",
	.init = advice_init,
	.exit = advice_exit,
	.test_cases = advice_cases,
};

kunit_test_suite(advice_suite);

MODULE_DESCRIPTION("KUnit tests of the advice on the size of a cache");
MODULE_LICENSE("GPL");
