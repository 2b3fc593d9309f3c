// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the policy, which selects the block of a set to evict.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "../dm-target/policy.h"
#include "../dm-target/tag.h"
#include "policy-test.h"

static u64 tags[RXC_WAYS];

KUNIT_DEFINE_ACTION_WRAPPER(destroy_policy, rxc_policy_destroy, struct rxc_policy *);

static struct rxc_policy *make_policy(struct kunit *test, unsigned int ways)
{
	struct rxc_policy *policy = rxc_policy_create(1, ways);

	KUNIT_ASSERT_NOT_NULL(test, policy);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_policy, policy), 0);
	memset(tags, 0, sizeof(tags));
	return policy;
}

static void set_tag(struct rxc_policy *policy, unsigned int way, u64 block,
		    enum rxc_state state, bool room)
{
	u64 bits = rxc_policy_insert(policy, 0, tags, block, room);

	tags[way] = block << RXC_TAG_BLOCK_SHIFT | bits << RXC_TAG_POLICY_SHIFT | state;
}

static void touch(unsigned int way)
{
	tags[way] = (tags[way] & ~RXC_TAG_POLICY) |
		    (u64)rxc_policy_touch(tags[way]) << RXC_TAG_POLICY_SHIFT;
}

static void fill_set(struct rxc_policy *policy, enum rxc_state state)
{
	unsigned int way;

	for (way = 0; way < RXC_WAYS; way++)
		set_tag(policy, way, way, state, true);
}

static int way_of(u64 block)
{
	unsigned int way;

	for (way = 0; way < RXC_WAYS; way++)
		if (rxc_tag_state(tags[way]) && rxc_tag_block(tags[way]) == block)
			return way;
	return -1;
}

/* Do what the index does with a block that is read. Return: true if it was cached. */
static bool use(struct kunit *test, struct rxc_policy *policy, unsigned int ways, u64 block)
{
	int way = way_of(block);
	unsigned int i;

	if (way >= 0) {
		touch(way);
		return true;
	}
	for (i = 0; i < ways && way < 0; i++)
		if (!rxc_tag_state(tags[i]))
			way = i;
	if (way >= 0) {
		set_tag(policy, way, block, RXC_VALID, true);
		return false;
	}
	way = rxc_policy_victim(policy, 0, tags);
	KUNIT_ASSERT_GE(test, way, 0);
	KUNIT_ASSERT_LT(test, way, ways);
	set_tag(policy, way, block, RXC_VALID, false);
	return false;
}

static void no_victim_in_empty_set(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);

	KUNIT_EXPECT_EQ(test, rxc_policy_victim(policy, 0, tags), -1);
}

static void no_victim_among_busy(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);

	fill_set(policy, RXC_FILL);
	set_tag(policy, 3, 3, RXC_WRITE, false);
	KUNIT_EXPECT_EQ(test, rxc_policy_victim(policy, 0, tags), -1);
}

static void victim_is_the_only_valid(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	unsigned int way, i;

	/* One of the two ways is in the small queue, the other in the main queue. */
	for (way = 0; way < RXC_WAYS; way += RXC_WAYS - 1) {
		memset(tags, 0, sizeof(tags));
		fill_set(policy, RXC_WRITE);
		tags[way] = (tags[way] & ~RXC_TAG_STATE) | RXC_VALID;
		for (i = 0; i < 100; i++)
			touch(way);
		KUNIT_EXPECT_EQ(test, rxc_policy_victim(policy, 0, tags), way);
	}
}

/* Only some may leave: one after the other they do, and no other one. */
static void victims_among_some(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	u64 ways = 0x8000000180f00f01ULL;
	unsigned int i;
	int way;

	fill_set(policy, RXC_VALID);
	for (i = 0; i < RXC_WAYS; i += 2)
		touch(i);
	while (ways) {
		way = rxc_policy_victim_among(policy, 0, tags, ways);
		KUNIT_ASSERT_GE(test, way, 0);
		KUNIT_ASSERT_TRUE(test, ways & BIT_ULL(way));
		tags[way] = 0;
		ways &= ~BIT_ULL(way);
	}
	KUNIT_EXPECT_EQ(test, rxc_policy_victim_among(policy, 0, tags, ways), -1);
	KUNIT_EXPECT_GE(test, rxc_policy_victim(policy, 0, tags), 0);
}

/* Blocks that were never used leave in the order in which they entered. */
static void new_blocks_leave_in_order(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	u64 block, last = 0, gone;
	int way;

	fill_set(policy, RXC_VALID);
	/* Evict more blocks than there are stamps. */
	for (block = 100; block < 1100; block++) {
		way = rxc_policy_victim(policy, 0, tags);
		KUNIT_ASSERT_GE(test, way, 0);
		gone = rxc_tag_block(tags[way]);
		if (block > 100)
			KUNIT_ASSERT_GT(test, gone, last);
		last = gone;
		set_tag(policy, way, block, RXC_VALID, false);
	}
	KUNIT_EXPECT_GT(test, last, 1000);
}

static void use_wears_off(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	unsigned int i;
	u64 block;

	fill_set(policy, RXC_VALID);
	for (i = 0; i < 100; i++)
		touch(5);
	/* Blocks that are used often enter and leave the main queue. */
	for (block = 100; block < 100 + 20 * RXC_WAYS; block++)
		for (i = 0; i < 3; i++)
			use(test, policy, RXC_WAYS, block);
	KUNIT_EXPECT_EQ(test, way_of(5), -1);
}

/* Blocks that are read once must not evict blocks that are read many times. */
static void scan_spares_what_is_used(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	unsigned int i, missed = 0;
	u64 block;

	for (i = 0; i < 3; i++)
		for (block = 0; block < RXC_WAYS / 2; block++)
			use(test, policy, RXC_WAYS, block);
	for (block = 1000; block < 1000 + 10 * RXC_WAYS; block++)
		use(test, policy, RXC_WAYS, block);
	for (block = 0; block < RXC_WAYS / 2; block++)
		missed += !use(test, policy, RXC_WAYS, block);
	KUNIT_EXPECT_EQ(test, missed, 0);
}

/* A block that comes back soon after it left is not thrown out again at once. */
static void ghost_enters_main_queue(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	u64 block;

	for (block = 0; block < 2 * RXC_WAYS; block++)
		use(test, policy, RXC_WAYS, block);
	KUNIT_ASSERT_EQ(test, way_of(RXC_WAYS), -1);
	use(test, policy, RXC_WAYS, RXC_WAYS);
	for (block = 1000; block < 1000 + RXC_WAYS / 2; block++)
		use(test, policy, RXC_WAYS, block);
	KUNIT_EXPECT_GE(test, way_of(RXC_WAYS), 0);
}

static unsigned int nr_resident(u64 first, u64 end)
{
	unsigned int nr = 0;

	while (first < end)
		nr += way_of(first++) >= 0;
	return nr;
}

/* Each block is used again soon after it has left the small queue. */
static void small_queue_grows(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	const unsigned int later = RXC_WAYS / 5 + 2;
	unsigned int hits = 0;
	u64 block;

	for (block = later; block < 5000; block++) {
		use(test, policy, RXC_WAYS, block);
		if (use(test, policy, RXC_WAYS, block - later) && block >= 4000)
			hits++;
	}
	KUNIT_EXPECT_GT(test, hits, 900);
}

/* Blocks that are used again and again just fit in beside some new ones. */
static void small_queue_shrinks(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	const unsigned int nr_wanted = RXC_WAYS * 15 / 16;
	unsigned int hits = 0, i;

	for (i = 0; i < 50000; i++) {
		if (i % 16 == 0)
			use(test, policy, RXC_WAYS, 1000 + i);
		if (use(test, policy, RXC_WAYS, i % nr_wanted) && i >= 49000)
			hits++;
	}
	KUNIT_EXPECT_GT(test, hits, 900);
}

static void touch_stops_changing_the_tag(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	unsigned int i;
	u64 before;

	fill_set(policy, RXC_VALID);
	for (i = 0; i < 16; i++)
		touch(5);
	before = tags[5];
	touch(5);
	KUNIT_EXPECT_EQ(test, tags[5], before);
}

static void bits_fit(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	unsigned int i, way;

	for (i = 0; i < 1000; i++) {
		way = i % RXC_WAYS;
		KUNIT_ASSERT_LE(test, rxc_policy_insert(policy, 0, tags, i % 100, i & 1),
				RXC_TAG_POLICY_MAX);
		set_tag(policy, way, RXC_BLOCK_MAX, RXC_VALID, i & 1);
		KUNIT_ASSERT_LE(test, rxc_policy_touch(tags[way]), RXC_TAG_POLICY_MAX);
	}
}

static void victim_changes_only_policy_bits(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	u64 before[RXC_WAYS];
	unsigned int way, i;

	fill_set(policy, RXC_VALID);
	for (way = 0; way < RXC_WAYS; way++)
		for (i = 0; i < way % 5; i++)
			touch(way);
	memcpy(before, tags, sizeof(before));
	rxc_policy_victim(policy, 0, tags);
	for (way = 0; way < RXC_WAYS; way++)
		KUNIT_EXPECT_EQ(test, tags[way] & ~RXC_TAG_POLICY, before[way] & ~RXC_TAG_POLICY);
}

/* Sets of all sizes, with random reads. */
static void small_sets(struct kunit *test)
{
	struct rxc_policy *policy;
	unsigned int ways, i;
	u32 seed;

	for (ways = RXC_SLOTS_MIN; ways <= RXC_WAYS; ways++) {
		policy = make_policy(test, ways);
		for (seed = 1, i = 0; i < 2000; i++) {
			seed = seed * 1664525 + 1013904223;
			use(test, policy, ways, (seed >> 16) % (2 * ways + 1));
		}
		KUNIT_EXPECT_EQ(test, nr_resident(0, 2 * ways + 1), ways);
	}
}

static u64 plain_tags[RXC_WAYS];
static struct rnd_state rnd;

static u32 below(u32 end)
{
	return prandom_u32_state(&rnd) % end;
}

/* Choose a victim in both ways from the same state, and compare the resulting states. */
static void choose_in_both_ways(struct kunit *test, struct rxc_policy *policy,
				struct rxc_policy *plain, int *way)
{
	test_copy_policy(plain, policy);
	memcpy(plain_tags, tags, sizeof(tags));
	*way = rxc_policy_victim(policy, 0, tags);
	KUNIT_ASSERT_EQ(test, *way, test_plain_victim(plain, plain_tags));
	KUNIT_ASSERT_MEMEQ(test, tags, plain_tags, sizeof(tags));
	KUNIT_ASSERT_TRUE(test, test_same_policy(policy, plain));
}

static void shuffle(u8 *numbers, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		numbers[i] = i;
	while (nr > 1) {
		i = below(nr--);
		swap(numbers[i], numbers[nr]);
	}
}

/* No two blocks of a queue have the same stamp. */
static void make_random_set(unsigned int ways)
{
	unsigned int busy = below(2) * below(8), main_queue = below(9), most = below(4), way;
	unsigned int least = below(most + 1);
	enum rxc_state state;
	u8 stamps[128];

	shuffle(stamps, ARRAY_SIZE(stamps));
	for (way = 0; way < ways; way++) {
		state = below(8) < busy ? below(4) : RXC_VALID;
		tags[way] = test_make_tag(way, below(8) < main_queue,
					  least + below(most + 1 - least), stamps[way], state);
	}
}

static void same_victim_of_random_sets(struct kunit *test)
{
	struct rxc_policy *policy, *plain;
	unsigned int ways, i;
	int way;

	prandom_seed_state(&rnd, 3141);
	for (ways = RXC_SLOTS_MIN; ways <= RXC_WAYS; ways++) {
		policy = make_policy(test, ways);
		plain = make_policy(test, ways);
		for (i = 0; i < 500; i++) {
			make_random_set(ways);
			test_set_policy(policy, below(ways), prandom_u32_state(&rnd));
			choose_in_both_ways(test, policy, plain, &way);
		}
	}
}

/* Blocks are added, used, busy, dropped and evicted, some more often than others. */
static void same_victim_under_load(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	struct rxc_policy *plain = make_policy(test, RXC_WAYS);
	unsigned int i, compared = 0, skipped = 0, range;
	int way;
	u64 block;

	prandom_seed_state(&rnd, 2718);
	for (i = 0; i < 200000; i++) {
		range = RXC_WAYS + (i >> 13) * 8;
		block = below(1 + below(range));
		way = way_of(block);
		if (way >= 0) {
			touch(way);
			if (!below(16))
				tags[way] ^= RXC_VALID ^ RXC_WRITE;
			else if (!below(64))
				tags[way] &= ~RXC_TAG_STATE;
			continue;
		}
		for (way = 0; way < RXC_WAYS && rxc_tag_state(tags[way]); way++)
			;
		if (way < RXC_WAYS) {
			set_tag(policy, way, block, RXC_VALID, true);
		} else if (test_has_order(policy, tags)) {
			choose_in_both_ways(test, policy, plain, &way);
			compared++;
			if (way >= 0)
				set_tag(policy, way, block, RXC_VALID, false);
		} else {
			way = rxc_policy_victim(policy, 0, tags);
			skipped++;
			if (way >= 0)
				set_tag(policy, way, block, RXC_VALID, false);
		}
	}
	kunit_info(test, "%u compared, %u without an order", compared, skipped);
	KUNIT_EXPECT_GT(test, compared, 10000);
	KUNIT_EXPECT_LT(test, skipped, compared / 100);
}

/* Moves to another policy */

static u64 moved(const struct rxc_policy *from, unsigned int way)
{
	return (tags[way] & ~RXC_TAG_POLICY) |
	       (u64)rxc_policy_bits_of(from, 0, tags[way]) << RXC_TAG_POLICY_SHIFT;
}

static void moved_blocks_keep_their_order(struct kunit *test)
{
	struct rxc_policy *to = rxc_policy_create(1, RXC_WAYS), *from;
	u64 there[RXC_WAYS];
	unsigned int i, way;
	int here;

	KUNIT_ASSERT_NOT_NULL(test, to);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_policy, to), 0);
	from = make_policy(test, RXC_WAYS);
	for (i = 0; i < 2000; i++) {
		use(test, from, RXC_WAYS, i);
		use(test, from, RXC_WAYS, i % 50);
		use(test, from, RXC_WAYS, i - i % 7);
	}
	rxc_policy_take_over(to, from);
	for (way = 0; way < RXC_WAYS; way++)
		there[way] = moved(from, way);
	for (i = 0; i < RXC_WAYS; i++) {
		here = rxc_policy_victim(from, 0, tags);
		KUNIT_ASSERT_GE(test, here, 0);
		KUNIT_ASSERT_EQ(test, rxc_policy_victim(to, 0, there), here);
		tags[here] = RXC_EMPTY;
		there[here] = RXC_EMPTY;
	}
}

/* The oldest block must not look new after as many blocks as there is room for. */
static void moved_blocks_stay_old(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	unsigned int way, nr_main = 0;
	u64 old;

	/* Its age is 100, which is possible if others left before it. */
	test_set_policy(policy, 0, 100 * 128);
	tags[0] = test_make_tag(1000, true, 0, 0, RXC_VALID);
	old = moved(policy, 0);
	policy = make_policy(test, RXC_WAYS);
	tags[0] = old;
	for (way = 1; way < RXC_WAYS; way++)
		set_tag(policy, way, way, RXC_VALID, true);
	KUNIT_EXPECT_TRUE(test, test_has_order(policy, tags));
	for (way = 1; way < RXC_WAYS; way++) {
		if (!test_in_main(tags[way]))
			continue;
		nr_main++;
		KUNIT_EXPECT_EQ(test, rxc_policy_victim_among(policy, 0, tags, BIT_ULL(way) | 1),
				0);
	}
	KUNIT_EXPECT_GT(test, nr_main, RXC_WAYS / 2);
}

static int coldest(const struct rxc_policy *policy, bool in_main, unsigned int freq,
		   unsigned int stamp)
{
	return rxc_policy_coldest(policy, 0, tags,
				  test_make_tag(1000, in_main, freq, stamp, RXC_VALID));
}

/* The clocks are at 0: a higher stamp is older. */
static void coldest_leaves(struct kunit *test)
{
	struct rxc_policy *policy = make_policy(test, RXC_WAYS);
	unsigned int way;

	/* Sixteen blocks of the small queue may stay. */
	test_set_policy(policy, 16, 0);
	for (way = 0; way < RXC_WAYS; way++)
		tags[way] = test_make_tag(way, way >= 16, 1, 128 - way, RXC_VALID);
	/* The small queue is not too long, so the oldest of the main queue leaves. */
	KUNIT_EXPECT_EQ(test, coldest(policy, true, 1, 0), RXC_WAYS - 1);
	KUNIT_EXPECT_EQ(test, coldest(policy, true, 3, 64), RXC_WAYS - 1);
	KUNIT_EXPECT_EQ(test, coldest(policy, true, 1, 128 - 62), RXC_WAYS - 1);
	KUNIT_EXPECT_EQ(test, coldest(policy, true, 1, 128 - 64), -1);
	KUNIT_EXPECT_EQ(test, coldest(policy, true, 0, 0), -1);
	tags[20] = test_make_tag(20, true, 0, 0, RXC_VALID);
	KUNIT_EXPECT_EQ(test, coldest(policy, true, 1, 128 - 64), 20);
	/* Now it is. */
	KUNIT_EXPECT_EQ(test, coldest(policy, false, 0, 0), 15);
	KUNIT_EXPECT_EQ(test, coldest(policy, false, 1, 128 - 14), 15);
	KUNIT_EXPECT_EQ(test, coldest(policy, false, 1, 128 - 16), -1);
	tags[15] = test_make_tag(15, false, 2, 128 - 15, RXC_VALID);
	KUNIT_EXPECT_EQ(test, coldest(policy, false, 0, 0), 14);
}

static struct kunit_case policy_cases[] = {
	KUNIT_CASE(no_victim_in_empty_set),
	KUNIT_CASE(no_victim_among_busy),
	KUNIT_CASE(victim_is_the_only_valid),
	KUNIT_CASE(victims_among_some),
	KUNIT_CASE(new_blocks_leave_in_order),
	KUNIT_CASE(use_wears_off),
	KUNIT_CASE(scan_spares_what_is_used),
	KUNIT_CASE(ghost_enters_main_queue),
	KUNIT_CASE(small_queue_grows),
	KUNIT_CASE(small_queue_shrinks),
	KUNIT_CASE(touch_stops_changing_the_tag),
	KUNIT_CASE(bits_fit),
	KUNIT_CASE(victim_changes_only_policy_bits),
	KUNIT_CASE(small_sets),
	KUNIT_CASE(moved_blocks_keep_their_order),
	KUNIT_CASE(moved_blocks_stay_old),
	KUNIT_CASE(coldest_leaves),
	KUNIT_CASE_SLOW(same_victim_of_random_sets),
	KUNIT_CASE_SLOW(same_victim_under_load),
	{}
};

static struct kunit_suite policy_suite = {
	.name = "rxcache_policy",
	.test_cases = policy_cases,
};

kunit_test_suite(policy_suite);

MODULE_DESCRIPTION("KUnit tests of rxcache's policy");
MODULE_LICENSE("GPL");
