// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the advice: samples, simulated caches, counts over time, and switching it on and
 * off while samples are taken.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
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
	u64 number[11 + 4 * RXC_MINI_SIZES];
	unsigned int nr;
};

enum {
	HOUR_SECONDS,
	HOUR_LEFT_OUT,
	HOUR_READS,
	FED,
	LOST,
	DAY_SECONDS,
	DAY_LEFT_OUT,
	DAY_READS,
	HALVED = 2 * DAY_SECONDS,
	SIZES,
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
	return told->number[SIZES + 4 * size];
}

static u64 used_of(const struct told *told, unsigned int size)
{
	return told->number[SIZES + 4 * size + 1];
}

static u64 hour_misses(const struct told *told, unsigned int size)
{
	return told->number[SIZES + 4 * size + 2];
}

static u64 day_misses(const struct told *told, unsigned int size)
{
	return told->number[SIZES + 4 * size + 3];
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
		/* On a slow machine, the worker would rest. */
		test_end_rest(&sampler);
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
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 5, RXC_USE_MISS));
	KUNIT_EXPECT_TRUE(test, rxc_mini_use(&mini, 5, RXC_USE_DROP));
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 5, RXC_USE_DROP));
	KUNIT_EXPECT_EQ(test, mini.used, 0);
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 5, RXC_USE_WRITE));
	KUNIT_EXPECT_TRUE(test, rxc_mini_use(&mini, 5, RXC_USE_READ));
	KUNIT_EXPECT_TRUE(test, rxc_mini_use(&mini, 5, RXC_USE_DISCARD));
	KUNIT_EXPECT_FALSE(test, rxc_mini_use(&mini, 5, RXC_USE_READ));
	KUNIT_EXPECT_EQ(test, mini.used, 1);
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
		KUNIT_EXPECT_EQ(test, mini.used, hits);
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
	rxc_sampler_take(&sampler, 1, 2, RXC_USE_READ);
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
	KUNIT_EXPECT_EQ(test, used_of(&told, 3), 64);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_LEFT_OUT], 0);
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
	read_slowly(0, 32 * RXC_SPREAD);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 32 * RXC_SPREAD);
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		/* A sample of fewer than one block of a region has as many only on average. */
		if (BIT(test_mini(&sampler, i)->shift) > RXC_SPREAD)
			continue;
		KUNIT_EXPECT_EQ(test, hour_misses(&told, i), 32 * RXC_SPREAD);
		KUNIT_EXPECT_EQ(test, used_of(&told, i), 32 * RXC_SPREAD);
	}
	rxc_sampler_off(&sampler);
}

/* Of which size the caches are simulated repeats with each power of two. */
static void takes_less_than_a_mebibyte(struct kunit *test)
{
	unsigned int nr_cpus;
	u64 nr, worst = NR_SLOTS;

	for (nr = RXC_SLOTS_MIN; nr < 16 * (RXC_MINI_SLOTS + 1); nr++)
		if (test_bytes_for(nr, nr_cpu_ids) > test_bytes_for(worst, nr_cpu_ids))
			worst = nr;
	for (nr_cpus = 1; nr_cpus <= 4096; nr_cpus++)
		KUNIT_ASSERT_LT(test, test_bytes_for(worst, nr_cpus), SZ_1M);
	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, worst, stats), 0);
	KUNIT_EXPECT_EQ(test, test_advice_bytes(&sampler), test_bytes_for(worst, nr_cpu_ids));
	kunit_info(test, "%llu slots: %zu bytes", worst, test_advice_bytes(&sampler));
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
		KUNIT_EXPECT_EQ(test, told.number[FED] - before.number[FED], expected);
		before = told;
	}
	rxc_sampler_off(&sampler);
}

/* Fill a ring of this processor with so many samples, while the worker does nothing. */
static void overflow(unsigned int nr, enum rxc_use use)
{
	test_hold_worker(&sampler);
	migrate_disable();
	rxc_sampler_note(&sampler, 0, (u64)nr * sampler.every, use);
	migrate_enable();
	test_release_worker(&sampler);
}

/* What the simulated caches are like after @steps steps. */
static void check_steps(struct kunit *test, unsigned int steps)
{
	unsigned int i;

	for (i = 0; i < RXC_MINI_SIZES; i++) {
		KUNIT_EXPECT_LE(test, mini_slots(i), RXC_MINI_SLOTS >> steps);
		KUNIT_EXPECT_GT(test, mini_slots(i), RXC_MINI_SLOTS >> (steps + 1));
		KUNIT_EXPECT_EQ(test, test_mini(&sampler, i)->used, 0);
	}
}

/*
 * Lose @nr samples, which fill whole regions, and let the worker look. It empties the ring, however
 * slow the machine is, so that the next call finds it empty.
 */
static void lose(struct kunit *test, unsigned int nr, struct told *told)
{
	test_end_rest(&sampler);
	rxc_stat_add(stats, RXC_READ_MISSES, 1000);
	overflow(test_ring_length(&sampler) + nr, RXC_USE_READ);
	KUNIT_ASSERT_EQ(test, tell(&sampler, told), 0);
}

/*
 * If samples are lost again and again, it begins again with half as many. What was counted before
 * stays, and the part in which it happened does not count.
 */
static void samples_are_halved(struct kunit *test)
{
	unsigned int length, steps, i;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, BIG, stats), 0);
	length = test_ring_length(&sampler);
	read_slowly(0, 8 * RXC_SPREAD);
	test_pass_time(&sampler, HOUR / 2);
	lose(test, length, &told);
	KUNIT_EXPECT_EQ(test, told.number[HALVED], 0);
	test_pass_time(&sampler, 60);
	lose(test, length, &told);
	check_steps(test, 1);
	KUNIT_EXPECT_EQ(test, told.number[HALVED], 1);
	/* What comes later in this part does not count, either. */
	test_pass_time(&sampler, 60);
	read_slowly(0, 100 * RXC_SPREAD);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 2 * length);
	KUNIT_EXPECT_GE(test, told.number[HOUR_LEFT_OUT], 120);
	KUNIT_EXPECT_LE(test, told.number[HOUR_LEFT_OUT], 180);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 8 * RXC_SPREAD);
	KUNIT_EXPECT_EQ(test, hour_misses(&told, 0), 8 * RXC_SPREAD);
	KUNIT_EXPECT_GE(test, told.number[HOUR_SECONDS], HOUR / 2);
	/* A sample, or what was one, sets the new rate. */
	rxc_sampler_note(&sampler, 0, sampler.every, RXC_USE_DROP);
	KUNIT_EXPECT_EQ(test, sampler.every, 128);
	test_pass_time(&sampler, 300);
	read_slowly(200 * RXC_SPREAD, 8 * RXC_SPREAD);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 16 * RXC_SPREAD);
	for (i = 0; i < RXC_MINI_SIZES; i++)
		if (BIT(test_mini(&sampler, i)->shift) <= RXC_SPREAD)
			KUNIT_EXPECT_EQ(test, hour_misses(&told, i), 16 * RXC_SPREAD);
	/* Once in a part, and twice at most. */
	for (steps = 2; steps < 5; steps++) {
		test_pass_time(&sampler, 300);
		for (i = 0; i < 3; i++) {
			lose(test, length, &told);
			test_pass_time(&sampler, 25);
		}
		KUNIT_EXPECT_EQ(test, told.number[HALVED], 2);
		KUNIT_EXPECT_EQ(test, BIT(test_mini(&sampler, 0)->shift), 64 << 2);
	}
	KUNIT_EXPECT_GT(test, mini_slots(0), RXC_MINI_SLOTS_MIN / 2);
	/* After the second time, half the samples that came next found room. */
	KUNIT_EXPECT_EQ(test, told.number[LOST], 10 * length);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], 16 * RXC_SPREAD);
	rxc_sampler_off(&sampler);
}

/* A cache whose smallest size has all blocks takes half of them, and no size loses more slots. */
static void small_caches_are_halved_once(struct kunit *test)
{
	const u64 nr[] = { 8192, 16383, 8191 };
	unsigned int i, k, slots;
	struct told told;

	for (i = 0; i < ARRAY_SIZE(nr); i++) {
		KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, nr[i], stats), 0);
		slots = mini_slots(RXC_MINI_SIZES - 1);
		for (k = 0; k < 4; k++) {
			lose(test, test_ring_length(&sampler), &told);
			test_pass_time(&sampler, 25);
			lose(test, test_ring_length(&sampler), &told);
			test_pass_time(&sampler, 300);
		}
		KUNIT_EXPECT_EQ(test, told.number[HALVED], nr[i] < 8192 ? 0 : 1);
		KUNIT_EXPECT_GE(test, mini_slots(RXC_MINI_SIZES - 1) + RXC_WAYS, slots / 2);
		rxc_sampler_off(&sampler);
	}
}

/* One burst, whoever looks meanwhile, and few losses later are no reason for fewer samples. */
static void bursts_halve_nothing(struct kunit *test)
{
	unsigned int length, i;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, BIG, stats), 0);
	length = test_ring_length(&sampler);
	for (i = 0; i < 3; i++) {
		lose(test, length, &told);
		test_pass_time(&sampler, 10);
		lose(test, length, &told);
		test_pass_time(&sampler, 700);
	}
	for (i = 0; i < 3; i++) {
		lose(test, length / 256, &told);
		test_pass_time(&sampler, 25);
	}
	KUNIT_EXPECT_EQ(test, told.number[HALVED], 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 6 * length + 3 * (length / 256));
	KUNIT_EXPECT_GE(test, told.number[HOUR_LEFT_OUT], 900);
	rxc_sampler_off(&sampler);
}

/* With a burst in every part, no part would count. */
static void regular_bursts_halve(struct kunit *test)
{
	unsigned int length, i;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, BIG, stats), 0);
	length = test_ring_length(&sampler);
	for (i = 0; i < 2; i++) {
		test_pass_time(&sampler, 300);
		lose(test, length, &told);
		KUNIT_EXPECT_EQ(test, told.number[HALVED], i);
	}
	rxc_sampler_off(&sampler);
}

/* A small cache keeps its rate, but the parts in which samples are lost do not count. */
static void parts_with_holes(struct kunit *test)
{
	unsigned int length, few;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	length = test_ring_length(&sampler);
	/* One of a hundred may be lost. */
	few = length / 100;
	rxc_stat_add(stats, RXC_READ_HITS, length + few);
	overflow(length + few, RXC_USE_READ);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], few);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], length + few);
	test_pass_time(&sampler, 300);
	/* But no more. */
	rxc_stat_add(stats, RXC_READ_HITS, 1000);
	overflow(length + 3 * few, RXC_USE_WRITE);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 4 * few);
	KUNIT_EXPECT_EQ(test, told.number[FED], 2 * length);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], length + few);
	test_pass_time(&sampler, 300);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_GE(test, told.number[HOUR_LEFT_OUT], 300);
	KUNIT_EXPECT_LE(test, told.number[HOUR_LEFT_OUT], 330);
	KUNIT_EXPECT_EQ(test, told.number[DAY_LEFT_OUT], told.number[HOUR_LEFT_OUT]);
	KUNIT_EXPECT_GE(test, told.number[HOUR_SECONDS], 300);
	KUNIT_EXPECT_LE(test, told.number[HOUR_SECONDS], 330);
	read_slowly(1 << 20, 10);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], length + few + 10);
	test_pass_time(&sampler, 2 * HOUR);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_LEFT_OUT], 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 0);
	KUNIT_EXPECT_GE(test, told.number[DAY_LEFT_OUT], 300);
	rxc_sampler_off(&sampler);
}

/* Discards that are lost make no hole, and leave room for reads. */
static void discards_overflow(struct kunit *test)
{
	unsigned int length;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	length = test_ring_length(&sampler);
	rxc_stat_add(stats, RXC_READ_MISSES, length / 2);
	test_hold_worker(&sampler);
	migrate_disable();
	rxc_sampler_note(&sampler, 0, 10 * length, RXC_USE_DISCARD);
	rxc_sampler_note(&sampler, 0, length / 2, RXC_USE_READ);
	migrate_enable();
	test_release_worker(&sampler);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, told.number[LOST], 0);
	KUNIT_EXPECT_EQ(test, told.number[FED], length);
	KUNIT_EXPECT_EQ(test, told.number[HOUR_READS], length / 2);
	KUNIT_EXPECT_EQ(test, hour_misses(&told, 3), length / 2);
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
	read_blocks(0, length);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), length);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), length);
	KUNIT_EXPECT_EQ(test, hour_misses(&told, 3), 0);
	test_pass_time(&sampler, 2 * HOUR);
	KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), 0);
	KUNIT_EXPECT_EQ(test, told.number[DAY_READS], length);
	KUNIT_EXPECT_EQ(test, day_misses(&told, 3), length);
	rxc_sampler_off(&sampler);
}

/* The worker measures its time. It gets one of a hundred seconds, and saves up for five minutes. */
static void the_worker_has_a_budget(struct kunit *test)
{
	const s64 second = NSEC_PER_SEC, tolerance = second / 10;
	unsigned int length, turn;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, NR_SLOTS, stats), 0);
	length = test_ring_length(&sampler);
	test_set_budget(&sampler, second / 1000);
	for (turn = 0; turn < 1000 && !test_rests(&sampler); turn++) {
		migrate_disable();
		read_blocks((u64)turn * length, length / 2);
		migrate_enable();
		test_samples_left(&sampler);
	}
	KUNIT_EXPECT_TRUE(test, test_rests(&sampler));
	KUNIT_EXPECT_LE(test, test_budget(&sampler), 0);
	/* KCSAN makes a batch of samples take seconds. */
	if (!IS_ENABLED(CONFIG_KCSAN))
		KUNIT_EXPECT_GE(test, test_budget(&sampler), -second / 2);
	test_set_budget(&sampler, -second / 10);
	test_pass_time(&sampler, 100);
	if (!IS_ENABLED(CONFIG_KCSAN)) {
		KUNIT_EXPECT_FALSE(test, test_rests(&sampler));
		KUNIT_EXPECT_GE(test, test_budget(&sampler), second * 9 / 10 - tolerance);
	}
	KUNIT_EXPECT_LE(test, test_budget(&sampler), second * 9 / 10 + tolerance);
	test_pass_time(&sampler, 10 * HOUR);
	KUNIT_EXPECT_GE(test, test_budget(&sampler), 3 * second - tolerance);
	KUNIT_EXPECT_LE(test, test_budget(&sampler), 3 * second);
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

static void take_another(u64 block)
{
	if (!block)
		rxc_sampler_take(&sampler, 1 << 20, (1 << 20) + 1, RXC_USE_READ);
}

/* As long as a sample of a full ring has not been fed, none takes its place. */
static void a_sample_keeps_its_place(struct kunit *test)
{
	unsigned int length;
	struct told told;

	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, 4 * RXC_SLOTS_MIN, stats), 0);
	length = test_ring_length(&sampler);
	test_use_up_budget(&sampler);
	migrate_disable();
	read_blocks(0, length);
	test_watch(take_another);
	test_end_rest(&sampler);
	KUNIT_EXPECT_EQ(test, tell(&sampler, &told), 0);
	test_watch(NULL);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, told.number[LOST], 1);
	KUNIT_EXPECT_EQ(test, told.number[FED], length);
	rxc_sampler_off(&sampler);
}

#define NR_PRODUCERS	2
#define PRODUCER_SHIFT	32

/**
 * struct producer - takes samples on one processor
 * @taken: number of samples that it took
 * @last: the last of them that was fed
 * @wrong: number of samples that were fed out of order
 */
static struct producer {
	u64 taken;
	u64 last;
	u64 wrong;
} producers[NR_PRODUCERS];

/*
 * Each sample has a greater number than the one before it. They come too fast at times, so that the
 * ring is full, and slowly at others, so that it is nearly empty.
 */
static int produce(void *arg)
{
	struct producer *producer = arg;
	u64 first = (u64)(producer - producers) << PRODUCER_SHIFT, block;
	unsigned int cpu = (producer - producers) % num_online_cpus();

	set_cpus_allowed_ptr(current, cpumask_of(cpu));
	while (!kthread_should_stop()) {
		producer->taken++;
		block = first + producer->taken;
		rxc_sampler_take(&sampler, block, block + 1, RXC_USE_READ);
		if (producer->taken & 4096)
			usleep_range(20, 40);
		cond_resched();
	}
	return 0;
}

static int feed_always(void *arg)
{
	struct told told;

	while (!kthread_should_stop()) {
		test_end_rest(&sampler);
		tell(&sampler, &told);
		cond_resched();
	}
	return 0;
}

static void watch_order(u64 block)
{
	struct producer *producer = &producers[block >> PRODUCER_SHIFT];

	block &= BIT(PRODUCER_SHIFT) - 1;
	producer->wrong += block <= producer->last;
	producer->last = block;
}

/* What producers on several processors put in is fed once, and in order, or it is lost. */
static void samples_are_fed_once(struct kunit *test)
{
	u64 taken = 0, wrong = 0;
	struct crew crew = {};
	struct told told;
	unsigned int i;

	memset(producers, 0, sizeof(producers));
	KUNIT_ASSERT_EQ(test, rxc_sampler_on(&sampler, 4 * RXC_SLOTS_MIN, stats), 0);
	test_watch(watch_order);
	for (i = 0; i < NR_PRODUCERS; i++)
		crew_add(test, &crew, produce, &producers[i]);
	crew_add(test, &crew, feed_always, NULL);
	crew_run(&crew, STRESS_MSECS);
	/* On a slow machine, the time of the worker suffices for one ring. */
	for (i = 0; i <= num_possible_cpus(); i++) {
		test_end_rest(&sampler);
		KUNIT_ASSERT_EQ(test, tell(&sampler, &told), 0);
	}
	KUNIT_EXPECT_EQ(test, test_samples_left(&sampler), 0);
	test_watch(NULL);
	for (i = 0; i < NR_PRODUCERS; i++) {
		taken += producers[i].taken;
		wrong += producers[i].wrong;
		KUNIT_EXPECT_GT(test, producers[i].last, 0);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, told.number[FED] + told.number[LOST], taken);
	rxc_sampler_off(&sampler);
}

static DEFINE_MUTEX(switching);

static int take_samples(void *arg)
{
	while (!kthread_should_stop()) {
		read_blocks(get_random_u32_below(4 * NR_SLOTS), 64);
		rxc_sampler_note(&sampler, get_random_u32_below(NR_SLOTS), NR_SLOTS, RXC_USE_DROP);
		rxc_sampler_note(&sampler, get_random_u32_below(NR_SLOTS), NR_SLOTS,
				 RXC_USE_DISCARD);
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
		usleep_range(100, 50000);
	}
	return 0;
}

static int ask(void *arg)
{
	struct told told;
	int ret;

	while (!kthread_should_stop()) {
		mutex_lock(&switching);
		if (rxc_sampler_is_on(&sampler) && !get_random_u32_below(16))
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
	KUNIT_CASE(takes_less_than_a_mebibyte),
	KUNIT_CASE(hours_pass),
	KUNIT_CASE(notes_what_is_in_the_sample),
	KUNIT_CASE(samples_are_halved),
	KUNIT_CASE(small_caches_are_halved_once),
	KUNIT_CASE(bursts_halve_nothing),
	KUNIT_CASE(regular_bursts_halve),
	KUNIT_CASE(parts_with_holes),
	KUNIT_CASE(discards_overflow),
	KUNIT_CASE(the_worker_rests),
	KUNIT_CASE(the_worker_has_a_budget),
	KUNIT_CASE(a_full_ring_wakes_the_worker),
	KUNIT_CASE_SLOW(memory_fails),
	KUNIT_CASE(another_inherits),
	KUNIT_CASE(a_sample_keeps_its_place),
	KUNIT_CASE_SLOW(samples_are_fed_once),
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
