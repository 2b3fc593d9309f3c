// SPDX-License-Identifier: GPL-2.0-only
/*
 * S3-FIFO within a set (J. Yang et al., "FIFO queues are all you need for cache
 * eviction", SOSP 2023). A new block enters a small queue. At its end, a block
 * that was used twice moves on to the main queue, others leave and are remembered
 * as ghosts; a ghost that comes back enters the main queue at once. The main
 * queue is a CLOCK with a two-bit frequency. Each tag carries a stamp, which
 * tells the order in its queue.
 *
 * How large the small queues should be depends on the load, from a fiftieth of
 * the cache to most of it. So they learn it, as ARC does (N. Megiddo, D. S. Modha,
 * "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003): a block that
 * left a small queue just now and is missed makes them one slot larger, a block
 * that left a main queue just now, one slot smaller. All sets learn together.
 */
#include <linux/bitfield.h>
#include <linux/cache.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/math.h>
#include <linux/overflow.h>
#include <linux/vmalloc.h>

#include "index.h"
#include "policy.h"

#define S3_MAIN		BIT(0)
#define S3_FREQ		GENMASK(2, 1)
#define S3_FREQ_MAX	3
#define S3_STAMP	GENMASK(9, 3)
#define S3_STAMPS	128

/* How often a block was used that moves on to the main queue. */
#define MOVE_FREQ	2

/* The share of the small queues, in percent of the cache. */
#define SHARE_FIRST	20
#define SHARE_MIN	2
#define SHARE_MAX	90

/* A set remembers so many blocks, in percent of its own. */
#define GHOSTS		90
#define FRESH		6

#define GHOSTS_MAX	(RXC_WAYS * GHOSTS / 100)
#define FRESH_MAX	DIV_ROUND_UP(RXC_WAYS * FRESH, 100)

/**
 * struct s3_set - what a set knows beside its tags
 * @ghosts: prints of blocks that left the small queue, a ring
 * @main_ghosts: prints of blocks that left the main queue, a ring
 * @next_ghost: which of @ghosts is the oldest
 * @next_main_ghost: which of @main_ghosts is the oldest
 * @clock: the newest stamp in the small and in the main queue
 */
struct s3_set {
	u16 ghosts[GHOSTS_MAX];
	u16 main_ghosts[FRESH_MAX];
	u8 next_ghost;
	u8 next_main_ghost;
	u8 clock[2];
} __aligned(128);

/**
 * struct rxc_policy - the sets, and what they have learned
 * @nr_sets: number of sets
 * @ways: blocks of a set
 * @nr_ghosts: how many of s3_set.ghosts are in use
 * @nr_fresh: how many of the newest ghosts teach, and how many of the main queue's
 *	are in use
 * @share: slots that the small queues may have, in all sets together; misses change
 *	it, so it has a cache line of its own
 * @sets: the sets
 */
struct rxc_policy {
	unsigned long nr_sets;
	unsigned int ways;
	unsigned int nr_ghosts;
	unsigned int nr_fresh;
	unsigned long share ____cacheline_aligned;
	struct s3_set sets[];
};

/* A look at the tags of a set: the oldest valid block of each queue, or -1. */
struct s3_view {
	unsigned int nr_small;
	int oldest_small;
	int oldest_main;
};

static unsigned long policy_bits(u64 tag)
{
	return (tag & RXC_TAG_POLICY) >> RXC_TAG_POLICY_SHIFT;
}

static void set_policy_bits(u64 *tag, unsigned long bits)
{
	WRITE_ONCE(*tag, (READ_ONCE(*tag) & ~RXC_TAG_POLICY) | (u64)bits << RXC_TAG_POLICY_SHIFT);
}

static unsigned long percent_of(unsigned long nr, unsigned int percent)
{
	return mult_frac(nr, percent, 100);
}

/**
 * rxc_policy_create - make a policy
 * @nr_sets: number of sets
 * @ways: blocks of each set, from RXC_SLOTS_MIN to RXC_WAYS
 *
 * Return: the policy, or NULL if memory is short.
 */
struct rxc_policy *rxc_policy_create(unsigned long nr_sets, unsigned int ways)
{
	struct rxc_policy *policy;

	policy = vmalloc_huge(rxc_policy_bytes(nr_sets),
			      GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN);
	if (!policy)
		return NULL;
	policy->nr_sets = nr_sets;
	policy->ways = ways;
	policy->nr_ghosts = ways * GHOSTS / 100;
	policy->nr_fresh = DIV_ROUND_UP(ways * FRESH, 100);
	policy->share = percent_of(nr_sets * ways, SHARE_FIRST);
	return policy;
}

/**
 * rxc_policy_destroy - free a policy
 * @policy: the policy, or NULL
 */
void rxc_policy_destroy(struct rxc_policy *policy)
{
	vfree(policy);
}

/**
 * rxc_policy_bytes - memory that a policy takes, beside the tags
 * @nr_sets: number of sets
 *
 * Return: bytes; SIZE_MAX if that is too many.
 */
size_t rxc_policy_bytes(unsigned long nr_sets)
{
	struct rxc_policy *policy;

	return struct_size(policy, sets, nr_sets);
}

/**
 * rxc_policy_touch - note that a block was used
 * @tag: its tag
 *
 * A block used often stops changing its tag: its readers then share the cache
 * line without taking it from each other.
 *
 * Return: the policy bits that the tag should have.
 */
unsigned long rxc_policy_touch(u64 tag)
{
	unsigned long bits = policy_bits(tag);

	if (FIELD_GET(S3_FREQ, bits) < S3_FREQ_MAX)
		bits += FIELD_PREP(S3_FREQ, 1);
	return bits;
}

/* The bits of a block that is now the newest of a queue. */
static unsigned long newest_of(struct s3_set *s, bool in_main)
{
	s->clock[in_main] = (s->clock[in_main] + 1) % S3_STAMPS;
	return (in_main ? S3_MAIN : 0) | FIELD_PREP(S3_STAMP, s->clock[in_main]);
}

/* What is left when the share is divided is a slot more in some sets, always the same. */
static unsigned long small_limit(const struct rxc_policy *policy, unsigned long set)
{
	unsigned long dither = reciprocal_scale(hash_64(set, 32), policy->nr_sets);

	return max((READ_ONCE(policy->share) + dither) / policy->nr_sets, 1UL);
}

/* Races with other sets lose a step, which does not matter. */
static void grow_small(struct rxc_policy *policy)
{
	unsigned long share = READ_ONCE(policy->share);

	if (share < percent_of(policy->nr_sets * policy->ways, SHARE_MAX))
		WRITE_ONCE(policy->share, share + 1);
}

static void shrink_small(struct rxc_policy *policy)
{
	unsigned long share = READ_ONCE(policy->share);

	if (share > percent_of(policy->nr_sets * policy->ways, SHARE_MIN))
		WRITE_ONCE(policy->share, share - 1);
}

static u16 print_of(u64 block)
{
	/* 0 is no ghost. */
	return (u16)hash_64(block, 16) ?: 1;
}

static void remember(u16 *ring, u8 *next, unsigned int len, u64 block)
{
	ring[*next] = print_of(block);
	*next = (*next + 1) % len;
}

/* Return: how many were remembered after the block, or -1 if it is no ghost. */
static int recall(u16 *ring, u8 next, unsigned int len, u64 block)
{
	u16 print = print_of(block);
	unsigned int i;

	for (i = 0; i < len; i++) {
		if (ring[i] != print)
			continue;
		ring[i] = 0;
		return (next + len - 1 - i) % len;
	}
	return -1;
}

static bool older(const struct s3_set *s, const u64 *tags, int way, int than, bool in_main)
{
	unsigned int clock = s->clock[in_main];
	unsigned long a, b;

	if (than < 0)
		return true;
	a = policy_bits(READ_ONCE(tags[way]));
	b = policy_bits(READ_ONCE(tags[than]));
	return (clock - FIELD_GET(S3_STAMP, a)) % S3_STAMPS >
	       (clock - FIELD_GET(S3_STAMP, b)) % S3_STAMPS;
}

static void look_at(const struct rxc_policy *policy, const struct s3_set *s, const u64 *tags,
		    struct s3_view *view)
{
	unsigned int way;
	bool in_main;
	int *oldest;
	u64 tag;

	view->nr_small = 0;
	view->oldest_small = -1;
	view->oldest_main = -1;
	for (way = 0; way < policy->ways; way++) {
		tag = READ_ONCE(tags[way]);
		if (rxc_tag_state(tag) == RXC_EMPTY)
			continue;
		in_main = policy_bits(tag) & S3_MAIN;
		view->nr_small += !in_main;
		if (rxc_tag_state(tag) != RXC_VALID)
			continue;
		oldest = in_main ? &view->oldest_main : &view->oldest_small;
		if (older(s, tags, way, *oldest, in_main))
			*oldest = way;
	}
}

/**
 * rxc_policy_insert - the policy bits of a block that enters a set
 * @policy: the policy
 * @set: number of the set
 * @tags: its tags
 * @block: the block
 * @room: there is an empty slot for it
 *
 * Return: the bits.
 */
unsigned long rxc_policy_insert(struct rxc_policy *policy, unsigned long set, const u64 *tags,
				u64 block, bool room)
{
	struct s3_set *s = &policy->sets[set];
	struct s3_view view;
	bool in_main;
	int age;

	age = recall(s->ghosts, s->next_ghost, policy->nr_ghosts, block);
	in_main = age >= 0;
	if (in_main) {
		if (age < policy->nr_fresh)
			grow_small(policy);
	} else if (recall(s->main_ghosts, s->next_main_ghost, policy->nr_fresh, block) >= 0) {
		shrink_small(policy);
	}
	if (!in_main && room) {
		/* As long as there is room, nothing must prove its worth. */
		look_at(policy, s, tags, &view);
		in_main = view.nr_small >= small_limit(policy, set);
	}
	return newest_of(s, in_main);
}

/**
 * rxc_policy_victim - choose the block that makes room
 * @policy: the policy
 * @set: number of the set
 * @tags: its tags
 *
 * Return: its way, or -1 if no block of the set is valid.
 */
int rxc_policy_victim(struct rxc_policy *policy, unsigned long set, u64 *tags)
{
	unsigned long limit = small_limit(policy, set);
	struct s3_set *s = &policy->sets[set];
	/* Readers touch what this counts down: that must not go on for ever. */
	unsigned int patience = policy->ways * (S3_FREQ_MAX + 1);
	struct s3_view view;
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
		bits = policy_bits(READ_ONCE(tags[way]));
		freq = FIELD_GET(S3_FREQ, bits);
		if (freq < (from_small ? MOVE_FREQ : 1) || !patience--)
			break;
		bits = newest_of(s, true);
		if (!from_small)
			bits |= FIELD_PREP(S3_FREQ, freq - 1);
		set_policy_bits(&tags[way], bits);
	}
	if (from_small)
		remember(s->ghosts, &s->next_ghost, policy->nr_ghosts,
			 rxc_tag_block(READ_ONCE(tags[way])));
	else
		remember(s->main_ghosts, &s->next_main_ghost, policy->nr_fresh,
			 rxc_tag_block(READ_ONCE(tags[way])));
	return way;
}
