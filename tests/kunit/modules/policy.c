// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy, and the plain way to choose a victim: search the whole set for the oldest
 * block of each queue, move one block, and search again.
 */
#include "../dm-target/policy-s3fifo.c"
#include "policy-test.h"

struct plain_view {
	unsigned int nr_small;
	int oldest_small;
	int oldest_main;
};

static bool older(const struct s3_set *s, const u64 *tags, int way, int than, bool in_main)
{
	unsigned int clock = s->clock[in_main];
	unsigned long a, b;

	if (than < 0)
		return true;
	a = policy_bits(tags[way]);
	b = policy_bits(tags[than]);
	return (clock - FIELD_GET(S3_STAMP, a)) % S3_STAMPS >
	       (clock - FIELD_GET(S3_STAMP, b)) % S3_STAMPS;
}

static void look_at(const struct rxc_policy *policy, const struct s3_set *s, const u64 *tags,
		    struct plain_view *view)
{
	unsigned int way;
	bool in_main;
	int *oldest;

	view->nr_small = 0;
	view->oldest_small = -1;
	view->oldest_main = -1;
	for (way = 0; way < policy->ways; way++) {
		if (rxc_tag_state(tags[way]) == RXC_EMPTY)
			continue;
		in_main = policy_bits(tags[way]) & S3_MAIN;
		view->nr_small += !in_main;
		if (rxc_tag_state(tags[way]) != RXC_VALID)
			continue;
		oldest = in_main ? &view->oldest_main : &view->oldest_small;
		if (older(s, tags, way, *oldest, in_main))
			*oldest = way;
	}
}

bool test_in_main(u64 tag)
{
	return policy_bits(tag) & S3_MAIN;
}

int test_plain_victim(struct rxc_policy *policy, u64 *tags)
{
	unsigned long limit = small_limit(policy, 0);
	struct s3_set *s = &policy->sets[0];
	struct plain_view view;
	unsigned long bits;
	unsigned int freq;
	bool from_small;
	int way;

	for (;;) {
		look_at(policy, s, tags, &view);
		from_small = view.oldest_small >= 0 &&
			     (view.nr_small >= limit || view.oldest_main < 0);
		way = from_small ? view.oldest_small : view.oldest_main;
		if (way < 0)
			return -1;
		bits = policy_bits(tags[way]);
		freq = FIELD_GET(S3_FREQ, bits);
		if (freq < (from_small ? MOVE_FREQ : 1))
			break;
		bits = newest_of(s, true);
		if (!from_small)
			bits |= FIELD_PREP(S3_FREQ, freq - 1);
		set_policy_bits(&tags[way], bits);
	}
	if (from_small)
		remember(s->ghosts, &s->next_ghost, policy->nr_ghosts, rxc_tag_block(tags[way]));
	else
		remember(s->main_ghosts, &s->next_main_ghost, policy->nr_fresh,
			 rxc_tag_block(tags[way]));
	return way;
}

/*
 * Does the main queue have an order? Two blocks get the same stamp if one of them was
 * busy while all stamps were given. If all older stamps are in use as well, another search
 * mistakes the second of the two for the newest block.
 */
bool test_has_order(const struct rxc_policy *policy, const u64 *tags)
{
	const struct s3_set *s = &policy->sets[0];
	unsigned int nr[S3_STAMPS] = {}, older = 0, way, turn;

	for (way = 0; way < policy->ways; way++)
		if (rxc_tag_state(tags[way]) == RXC_VALID && in_main_queue(tags[way]))
			nr[(FIELD_GET(S3_STAMP, policy_bits(tags[way])) - s->clock[1] - 1) %
			   S3_STAMPS]++;
	for (turn = 0; turn < S3_STAMPS; turn++) {
		older += nr[turn];
		if (nr[turn] && older > turn + 1)
			return false;
	}
	return true;
}

void test_copy_policy(struct rxc_policy *to, const struct rxc_policy *from)
{
	to->share = from->share;
	to->sets[0] = from->sets[0];
}

bool test_same_policy(const struct rxc_policy *a, const struct rxc_policy *b)
{
	return a->share == b->share && !memcmp(&a->sets[0], &b->sets[0], sizeof(a->sets[0]));
}

void test_set_policy(struct rxc_policy *policy, unsigned int share, u32 clocks)
{
	policy->share = clamp(share, percent_of(policy->ways, SHARE_MIN),
			      percent_of(policy->ways, SHARE_MAX));
	policy->sets[0].clock[0] = clocks % S3_STAMPS;
	policy->sets[0].clock[1] = clocks / S3_STAMPS % S3_STAMPS;
}

u64 test_make_tag(u64 block, bool in_main, unsigned int freq, unsigned int stamp,
		  enum rxc_state state)
{
	unsigned long bits = (in_main ? S3_MAIN : 0) | FIELD_PREP(S3_FREQ, freq) |
			     FIELD_PREP(S3_STAMP, stamp % S3_STAMPS);

	return block << RXC_TAG_BLOCK_SHIFT | (u64)bits << RXC_TAG_POLICY_SHIFT | state;
}
