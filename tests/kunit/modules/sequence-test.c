// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the detection of sequential streams.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/workqueue.h>

#include "../dm-target/sequence.h"
#include "crew.h"

#define CUTOFF		64
#define REGION		BIT(RXC_REGION_SHIFT)
#define MANY		4096
/* Number of hits that make a stream. */
#define RUN_BIOS	(CUTOFF / 4 / 8)

static struct rxc_sequence seq;

static bool exceeds(sector_t sector, unsigned int nr)
{
	return rxc_sequence_note(&seq, sector, nr) > CUTOFF;
}

static void stream_up_to_the_cutoff(struct kunit *test)
{
	sector_t sector;

	for (sector = 1000; sector < 1000 + CUTOFF; sector += 8)
		KUNIT_EXPECT_FALSE(test, exceeds(sector, 8));
	for (; sector < 1000 + 4 * CUTOFF; sector += 8)
		KUNIT_EXPECT_TRUE(test, exceeds(sector, 8));
}

static void stream_from_zero(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, exceeds(0, CUTOFF));
	KUNIT_EXPECT_TRUE(test, exceeds(CUTOFF, 1));
}

static void one_long_bio(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, exceeds(5000, CUTOFF));
	KUNIT_EXPECT_TRUE(test, exceeds(9000, CUTOFF + 1));
}

static void the_rest_of_a_bio(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, exceeds(1000, CUTOFF));
	/* Device mapper submits the rest of a split bio again: the stream does not grow by it. */
	KUNIT_EXPECT_FALSE(test, exceeds(1008, CUTOFF - 8));
	KUNIT_EXPECT_FALSE(test, exceeds(1016, CUTOFF - 16));
	KUNIT_EXPECT_TRUE(test, exceeds(1000 + CUTOFF, 8));
	KUNIT_EXPECT_TRUE(test, exceeds(1000 + CUTOFF + 4, 4));
}

static void gaps_and_steps_back(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_FALSE(test, exceeds(1000 + i * 9, 8));
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_FALSE(test, exceeds(100000 - i * 8, 8));
}

static void the_same_again(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_FALSE(test, exceeds(1000, 8));
}

static void streams_side_by_side(struct kunit *test)
{
	unsigned int i, stream;

	for (i = 0; i < 4 * CUTOFF / 8; i++)
		for (stream = 0; stream < RXC_STREAMS; stream++)
			KUNIT_EXPECT_EQ(test, exceeds((stream << 20) + i * 8, 8),
					(i + 1) * 8 > CUTOFF);
}

static void more_streams_than_kept(struct kunit *test)
{
	unsigned int i, stream;

	/* More streams than a region can distinguish: in one region, then in all. */
	for (i = 0; i < 4 * CUTOFF / 8; i++)
		for (stream = 0; stream <= RXC_STREAMS; stream++)
			KUNIT_EXPECT_FALSE(test, exceeds((stream << 10) + i * 8, 8));
	for (i = 0; i < 4 * CUTOFF / 8; i++)
		for (stream = 0; stream < MANY; stream++)
			KUNIT_EXPECT_FALSE(test, exceeds(((u64)stream << 20) + i * 8, 8));
}

static void random_bios_among_a_stream(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_EQ(test, exceeds(1000 + i * 8, 8), (i + 1) * 8 > CUTOFF);
		KUNIT_EXPECT_FALSE(test, exceeds(1000000 + i * 5000, 8));
	}
}

static void streams_of_one_region(struct kunit *test)
{
	unsigned int i, stream;

	for (i = 0; i < 4 * CUTOFF / 8; i++)
		for (stream = 0; stream < RXC_STREAMS; stream++)
			KUNIT_EXPECT_EQ(test, exceeds((stream << 10) + i * 8, 8),
					(i + 1) * 8 > CUTOFF);
}

static void into_other_regions(struct kunit *test)
{
	sector_t sector = REGION - 2 * CUTOFF;
	unsigned int i;

	KUNIT_EXPECT_FALSE(test, exceeds(sector, CUTOFF));
	for (i = 0; i < 3 * REGION / 24; i++) {
		sector += i ? 24 : CUTOFF;
		if (!exceeds(sector, 24))
			break;
	}
	KUNIT_EXPECT_EQ(test, i, 3 * REGION / 24);
}

static void the_rest_of_a_bio_in_another_region(struct kunit *test)
{
	sector_t border;

	for (border = REGION; border < 40 * REGION; border += REGION) {
		KUNIT_EXPECT_FALSE(test, exceeds(border - 8, CUTOFF));
		/* Bios on both sides of the border, then one on the first side. */
		KUNIT_EXPECT_FALSE(test, exceeds(border + 8, CUTOFF - 16));
		KUNIT_EXPECT_FALSE(test, exceeds(border, CUTOFF - 8));
		KUNIT_EXPECT_FALSE(test, exceeds(border - 4, CUTOFF - 4));
		KUNIT_EXPECT_TRUE(test, exceeds(border - 8 + CUTOFF, 8));
		KUNIT_EXPECT_TRUE(test, exceeds(border + CUTOFF - 4, 4));
	}
}

/* The rest of the bio may begin in each of its regions. */
static void a_bio_over_many_regions(struct kunit *test)
{
	const unsigned int nr = 100 * REGION;
	sector_t sector, start = 7 * REGION - 8;
	u64 length;

	rxc_sequence_note(&seq, start - 8, 8);
	length = rxc_sequence_note(&seq, start, nr);
	KUNIT_ASSERT_EQ(test, length, nr + 8);
	for (sector = start + 8; sector < start + nr; sector += REGION / 2) {
		length = rxc_sequence_note(&seq, sector, start + nr - sector);
		KUNIT_ASSERT_EQ(test, length, nr + 8);
	}
	KUNIT_EXPECT_EQ(test, rxc_sequence_note(&seq, start + nr, 8), nr + 16);
}

/* A long bio takes the place of one other stream of a region. */
static void other_streams_beside_a_long_bio(struct kunit *test)
{
	unsigned int stream;

	for (stream = 1; stream < RXC_STREAMS; stream++)
		KUNIT_EXPECT_FALSE(test, exceeds(stream << 10, CUTOFF));
	KUNIT_EXPECT_TRUE(test, exceeds(1000 * REGION, 100 * REGION));
	for (stream = 1; stream < RXC_STREAMS; stream++)
		KUNIT_EXPECT_TRUE(test, exceeds((stream << 10) + CUTOFF, 8));
}

static void hit(sector_t sector, unsigned int nr)
{
	rxc_sequence_hit(&seq, sector, nr, CUTOFF);
}

static void hits_before_a_miss(struct kunit *test)
{
	sector_t sector, start;

	/* Bios that are shorter than a stream, and that are longer. */
	for (start = 0; start < 100000; start += 10000) {
		for (sector = start; sector < start + CUTOFF; sector += 8)
			hit(sector, 8);
		KUNIT_EXPECT_TRUE(test, exceeds(sector, 1));
		hit(sector + 5000, 8);
		KUNIT_EXPECT_FALSE(test, exceeds(sector + 5008, CUTOFF - 8));
		KUNIT_EXPECT_TRUE(test, exceeds(sector + 5000 + CUTOFF, 1));
	}
}

static void hits_within_a_stream(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		if (i % 3)
			hit(1000 + i * 8, 8);
		else
			KUNIT_EXPECT_EQ(test, exceeds(1000 + i * 8, 8), (i + 1) * 8 > CUTOFF);
	}
}

static void random_hits(struct kunit *test)
{
	const size_t size = sizeof(*seq.shards) << RXC_SHARDS_BITS;
	void *before = kunit_kmalloc(test, size, GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, before);
	exceeds(500, 8);
	memcpy(before, seq.shards, size);
	for (i = 0; i < 1000; i++) {
		hit(10000 + i * 1000, 8);
		hit(10008 + i * 1000, 8);
	}
	KUNIT_EXPECT_MEMEQ(test, before, (void *)seq.shards, size);
	KUNIT_EXPECT_FALSE(test, exceeds(10000 + 999 * 1000 + 8, 8));
}

struct part {
	sector_t sector;
	bool is_hit;
	bool exceeds;
};

static long do_part(void *arg)
{
	struct part *part = arg;

	if (part->is_hit)
		hit(part->sector, 8);
	else
		part->exceeds = exceeds(part->sector, 8);
	return 0;
}

/* The reader moves from processor to processor. */
static void migrate(struct kunit *test, unsigned int nr_hits, unsigned int stay)
{
	struct part part = {};
	unsigned int i, cpu;

	for (i = 0; i < 200; i++) {
		part.sector = 1000 + i * 8;
		part.is_hit = i < nr_hits;
		part.exceeds = false;
		cpu = cpumask_nth(i / stay % num_online_cpus(), cpu_online_mask);
		KUNIT_ASSERT_EQ(test, work_on_cpu(cpu, do_part, &part), 0);
		if (!part.is_hit)
			KUNIT_EXPECT_EQ(test, part.exceeds, (i + 1) * 8 > CUTOFF);
	}
}

static void migrating_misses(struct kunit *test)
{
	migrate(test, 0, 1);
}

static void migrating_hits(struct kunit *test)
{
	migrate(test, CUTOFF / 8, 5);
}

static void hits_that_migrate_at_once(struct kunit *test)
{
	migrate(test, 2 * CUTOFF / 8, 1 + RUN_BIOS);
}

struct counts {
	atomic_t right;
	atomic_t forgotten;
	atomic_t wrong;
};

/* Each thread reads its own streams, in regions that all threads share. */
static int read_streams(void *arg)
{
	struct counts *counts = arg;
	sector_t sector, start;
	bool is_far;

	while (!kthread_should_stop()) {
		start = (sector_t)get_random_u32() << 12;
		for (sector = start; sector < start + 2 * CUTOFF; sector += 8) {
			/* A run that begins with hits may be overwritten by another thread's. */
			if (sector > start && get_random_u32_below(4)) {
				hit(sector, 8);
				continue;
			}
			is_far = sector + 8 - start > CUTOFF;
			if (exceeds(sector, 8) == is_far)
				atomic_inc(&counts->right);
			else
				atomic_inc(is_far ? &counts->forgotten : &counts->wrong);
		}
		cond_resched();
	}
	return 0;
}

static void streams_at_once(struct kunit *test)
{
	struct counts counts = {};
	struct crew crew = {};
	unsigned int i;

	for (i = 0; i < 4; i++)
		crew_add(test, &crew, read_streams, &counts);
	crew_run(&crew, 1000);
	KUNIT_EXPECT_EQ(test, atomic_read(&counts.wrong), 0);
	/* Others may replace the streams of a thread that does not run for a while. */
	KUNIT_EXPECT_LE(test, atomic_read(&counts.forgotten),
			atomic_read(&counts.right) / 50);
}

static int sequence_init(struct kunit *test)
{
	return rxc_sequence_init(&seq);
}

static void sequence_exit(struct kunit *test)
{
	rxc_sequence_exit(&seq);
}

static struct kunit_case sequence_cases[] = {
	KUNIT_CASE(stream_up_to_the_cutoff),
	KUNIT_CASE(stream_from_zero),
	KUNIT_CASE(one_long_bio),
	KUNIT_CASE(the_rest_of_a_bio),
	KUNIT_CASE(gaps_and_steps_back),
	KUNIT_CASE(the_same_again),
	KUNIT_CASE(streams_side_by_side),
	KUNIT_CASE_SLOW(more_streams_than_kept),
	KUNIT_CASE(random_bios_among_a_stream),
	KUNIT_CASE(streams_of_one_region),
	KUNIT_CASE(into_other_regions),
	KUNIT_CASE(the_rest_of_a_bio_in_another_region),
	KUNIT_CASE(a_bio_over_many_regions),
	KUNIT_CASE(other_streams_beside_a_long_bio),
	KUNIT_CASE(hits_before_a_miss),
	KUNIT_CASE(hits_within_a_stream),
	KUNIT_CASE(random_hits),
	KUNIT_CASE_SLOW(migrating_misses),
	KUNIT_CASE_SLOW(migrating_hits),
	KUNIT_CASE_SLOW(hits_that_migrate_at_once),
	KUNIT_CASE_SLOW(streams_at_once),
	{}
};

static struct kunit_suite sequence_suite = {
	.name = "rxcache_sequence",
	.init = sequence_init,
	.exit = sequence_exit,
	.test_cases = sequence_cases,
};

kunit_test_suite(sequence_suite);

MODULE_DESCRIPTION("KUnit tests of the detection of sequential streams");
MODULE_LICENSE("GPL");
