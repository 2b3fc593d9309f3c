// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the detection of sequential streams.
 */
#include <kunit/test.h>
#include <linux/module.h>

#include "../dm-target/sequence.h"

#define CUTOFF	64

static struct rxc_sequence seq;

static bool exceeds(sector_t sector, unsigned int nr)
{
	return rxc_sequence_exceeds(&seq, sector, nr, CUTOFF);
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
	/* Device mapper brings parts again: the stream does not grow by them. */
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

	for (i = 0; i < 4 * CUTOFF / 8; i++)
		for (stream = 0; stream <= RXC_STREAMS; stream++)
			KUNIT_EXPECT_FALSE(test, exceeds((stream << 20) + i * 8, 8));
}

static void random_bios_among_a_stream(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 100; i++) {
		KUNIT_EXPECT_EQ(test, exceeds(1000 + i * 8, 8), (i + 1) * 8 > CUTOFF);
		KUNIT_EXPECT_FALSE(test, exceeds(1000000 + i * 5000, 8));
	}
}

static int sequence_init(struct kunit *test)
{
	rxc_sequence_init(&seq);
	return 0;
}

static struct kunit_case sequence_cases[] = {
	KUNIT_CASE(stream_up_to_the_cutoff),
	KUNIT_CASE(stream_from_zero),
	KUNIT_CASE(one_long_bio),
	KUNIT_CASE(the_rest_of_a_bio),
	KUNIT_CASE(gaps_and_steps_back),
	KUNIT_CASE(the_same_again),
	KUNIT_CASE(streams_side_by_side),
	KUNIT_CASE(more_streams_than_kept),
	KUNIT_CASE(random_bios_among_a_stream),
	{}
};

static struct kunit_suite sequence_suite = {
	.name = "rxcache_sequence",
	.init = sequence_init,
	.test_cases = sequence_cases,
};

kunit_test_suite(sequence_suite);

MODULE_DESCRIPTION("KUnit tests of the detection of sequential streams");
MODULE_LICENSE("GPL");
