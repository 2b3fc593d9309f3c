// SPDX-License-Identifier: GPL-2.0-only
/*
 * S3-FIFO within a set (J. Yang et al., "FIFO queues are all you need for cache
 * eviction", SOSP 2023). A new block enters a small queue. At the end of this queue, a
 * block that was used twice moves to the main queue. Other blocks leave the cache, and the
 * set remembers them as ghosts. A ghost that returns enters the main queue at once. The main
 * queue is a CLOCK with a two-bit frequency. A stamp in each tag gives the order in a queue.
 *
 * The best size of the small queues depends on the load: from a fiftieth of the cache to
 * most of it. Therefore the size adapts, as in ARC (N. Megiddo, D. S. Modha, "ARC: A
 * Self-Tuning, Low Overhead Replacement Cache", FAST 2003). A miss of a block that has just
 * left a small queue makes the small queues one slot larger. A miss of a block that has just
 * left a main queue makes them one slot smaller. All sets share the size.
 *
 * All sizes are parts of the slots that may hold blocks, which can be fewer than there are.
 */
#include <linux/bitfield.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/stddef.h>
#include <linux/vmalloc.h>

#include "policy.h"
#include "tag.h"

#define S3_MAIN		BIT(0)
#define S3_FREQ		GENMASK(2, 1)
#define S3_FREQ_MAX	3
#define S3_STAMP	GENMASK(9, 3)
#define S3_STAMPS	128

static_assert(RXC_TAG_USES == (u64)S3_FREQ << RXC_TAG_POLICY_SHIFT);

/* Uses that a block needs to move to the main queue. */
#define MOVE_FREQ	2

/* Share of the small queues: initial value and limits, in percent of the slots in use. */
#define SHARE_FIRST	20
#define SHARE_MIN	2
#define SHARE_MAX	90

/* Ghosts of a set, and those that count as just evicted, in percent of its slots in use. */
#define GHOSTS		90
#define FRESH		6

#define GHOSTS_MAX	(RXC_WAYS * GHOSTS / 100)
#define FRESH_MAX	DIV_ROUND_UP(RXC_WAYS * FRESH, 100)

/**
 * struct s3_set - data of a set, in addition to its tags
 * @ghosts: ring of fingerprints of blocks that have left the small queue
 * @main_ghosts: ring of fingerprints of blocks that have left the main queue
 * @next_ghost: the oldest of @ghosts
 * @next_main_ghost: the oldest of @main_ghosts
 * @clock: the newest stamp in the small queue, and in the main queue
 */
struct s3_set {
	u16 ghosts[GHOSTS_MAX];
	u16 main_ghosts[FRESH_MAX];
	u8 next_ghost;
	u8 next_main_ghost;
	u8 clock[2];
} __aligned(128);

/**
 * struct rxc_policy - the policy of a cache
 * @nr_sets: number of sets
 * @ways: number of slots in a set
 * @nr_ghosts: length of the ring s3_set.ghosts
 * @nr_fresh: length of the ring s3_set.main_ghosts
 * @nr_slots: number of slots of all sets that may hold blocks
 * @ghost_age: number of newest entries of s3_set.ghosts that count
 * @fresh_age: number of newest entries of both rings that count as just evicted
 * @share: number of slots for the small queues of all sets; misses change it, so it has a
 *	separate cache line
 * @sets: the sets
 */
struct rxc_policy {
	unsigned long nr_sets;
	unsigned int ways;
	unsigned int nr_ghosts;
	unsigned int nr_fresh;
	unsigned long nr_slots;
	unsigned int ghost_age;
	unsigned int fresh_age;
	unsigned long share ____cacheline_aligned;
	struct s3_set sets[];
};

static_assert(offsetofend(struct rxc_policy, fresh_age) <= SMP_CACHE_BYTES);

/**
 * struct s3_queue - the valid blocks of a queue
 * @nr: number of blocks
 * @way: their ways, the oldest first
 */
struct s3_queue {
	unsigned int nr;
	u8 way[RXC_WAYS];
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

static void set_up(struct rxc_policy *policy, unsigned long nr_sets, unsigned int ways)
{
	policy->nr_sets = nr_sets;
	policy->ways = ways;
	policy->nr_ghosts = ways * GHOSTS / 100;
	policy->nr_fresh = DIV_ROUND_UP(ways * FRESH, 100);
	policy->nr_slots = nr_sets * ways;
	policy->ghost_age = policy->nr_ghosts;
	policy->fresh_age = policy->nr_fresh;
	policy->share = percent_of(policy->nr_slots, SHARE_FIRST);
}

/**
 * rxc_policy_create - create a policy
 * @nr_sets: number of sets
 * @ways: number of slots in a set, from RXC_SLOTS_MIN to RXC_WAYS
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
	set_up(policy, nr_sets, ways);
	return policy;
}

/**
 * rxc_policy_restart - forget all blocks, and go on with fewer sets
 * @policy: the policy, which nobody uses meanwhile
 * @nr_sets: number of sets, at most that for which it was created
 * @ways: number of slots in a set, from RXC_SLOTS_MIN to RXC_WAYS
 */
void rxc_policy_restart(struct rxc_policy *policy, unsigned long nr_sets, unsigned int ways)
{
	memset(policy, 0, rxc_policy_bytes(nr_sets));
	set_up(policy, nr_sets, ways);
}

/**
 * rxc_policy_set_capacity - set the number of slots that may hold blocks
 * @policy: the policy
 * @nr_slots: number of slots of all sets, at least one for each set
 *
 * With fewer slots, the small queues must be smaller, too. Otherwise the main queues, which hold
 * the blocks that are used most, would give all the slots. Callers serialise this. Blocks may
 * enter and leave meanwhile.
 */
void rxc_policy_set_capacity(struct rxc_policy *policy, unsigned long nr_slots)
{
	/* Twice the share, to round to the nearest number. */
	unsigned long share = mul_u64_u64_div_u64(READ_ONCE(policy->share), 2 * nr_slots,
						  policy->nr_slots);
	unsigned int ways = DIV_ROUND_UP(nr_slots, policy->nr_sets);

	WRITE_ONCE(policy->nr_slots, nr_slots);
	WRITE_ONCE(policy->ghost_age, DIV_ROUND_UP(ways * policy->nr_ghosts, policy->ways));
	WRITE_ONCE(policy->fresh_age, DIV_ROUND_UP(ways * policy->nr_fresh, policy->ways));
	WRITE_ONCE(policy->share, clamp((share + 1) / 2, percent_of(nr_slots, SHARE_MIN),
					percent_of(nr_slots, SHARE_MAX)));
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
 * rxc_policy_bytes - get the memory of a policy
 * @nr_sets: number of sets
 *
 * Return: number of bytes, without the tags; SIZE_MAX on overflow.
 */
size_t rxc_policy_bytes(unsigned long nr_sets)
{
	struct rxc_policy *policy;

	return struct_size(policy, sets, nr_sets);
}

/**
 * rxc_policy_touch - count a use of a block
 * @tag: the tag of the block
 *
 * The tag of a block that is used often stops changing, so its readers can share the cache
 * line.
 *
 * Return: the new policy bits of the tag.
 */
unsigned long rxc_policy_touch(u64 tag)
{
	unsigned long bits = policy_bits(tag);

	if (FIELD_GET(S3_FREQ, bits) < S3_FREQ_MAX)
		bits += FIELD_PREP(S3_FREQ, 1);
	return bits;
}

/* Policy bits of a block that becomes the newest of a queue. */
static unsigned long newest_of(struct s3_set *s, bool in_main)
{
	s->clock[in_main] = (s->clock[in_main] + 1) % S3_STAMPS;
	return (in_main ? S3_MAIN : 0) | FIELD_PREP(S3_STAMP, s->clock[in_main]);
}

static unsigned long main_bits(unsigned int stamp, unsigned int freq)
{
	return S3_MAIN | FIELD_PREP(S3_STAMP, stamp % S3_STAMPS) | FIELD_PREP(S3_FREQ, freq);
}

/* The remainder of the division gives one more slot to some sets, always the same ones. */
static unsigned long small_limit(const struct rxc_policy *policy, unsigned long set)
{
	unsigned long dither = reciprocal_scale(hash_64(set, 32), policy->nr_sets);

	return max((READ_ONCE(policy->share) + dither) / policy->nr_sets, 1UL);
}

/*
 * A race with another set may lose a step, which does no harm. A race with
 * rxc_policy_set_capacity() must not bring the share of the other capacity back.
 */
static void grow_small(struct rxc_policy *policy)
{
	unsigned long share = READ_ONCE(policy->share);

	if (share < percent_of(READ_ONCE(policy->nr_slots), SHARE_MAX))
		cmpxchg(&policy->share, share, share + 1);
}

static void shrink_small(struct rxc_policy *policy)
{
	unsigned long share = READ_ONCE(policy->share);

	if (share > percent_of(READ_ONCE(policy->nr_slots), SHARE_MIN))
		cmpxchg(&policy->share, share, share - 1);
}

static u16 print_of(u64 block)
{
	/* 0 marks a free entry of a ring. */
	return (u16)hash_64(block, 16) ?: 1;
}

static void remember(u16 *ring, u8 *next, unsigned int len, u64 block)
{
	ring[*next] = print_of(block);
	*next = (*next + 1) % len;
}

/* Forget a ghost. Return: number of ghosts that are newer, or -1 if the block is no ghost. */
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

static bool is_young(int age, unsigned int limit)
{
	return age >= 0 && age < limit;
}

static bool in_main_queue(u64 tag)
{
	return policy_bits(tag) & S3_MAIN;
}

static unsigned int freq_of(u64 tag)
{
	return FIELD_GET(S3_FREQ, policy_bits(tag));
}

/* Count the blocks of the small queue, including those that cannot leave now. */
static unsigned int count_small(const struct rxc_policy *policy, const u64 *tags)
{
	unsigned int way, nr = 0;
	u64 tag;

	for (way = 0; way < policy->ways; way++) {
		tag = READ_ONCE(tags[way]);
		nr += rxc_tag_state(tag) != RXC_EMPTY && !in_main_queue(tag);
	}
	return nr;
}

static bool has_main(const struct rxc_policy *policy, const u64 *tags, u64 ways)
{
	unsigned int way;
	u64 tag;

	for (way = 0; way < policy->ways; way++) {
		tag = READ_ONCE(tags[way]);
		if (ways & BIT_ULL(way) && rxc_tag_state(tag) == RXC_VALID && in_main_queue(tag))
			return true;
	}
	return false;
}

/* Sort a queue by stamps. Of two blocks with the same stamp, the lower way is older. */
static void sort_queue(const struct rxc_policy *policy, const struct s3_set *s, const u64 *tags,
		       u64 ways, bool in_main, struct s3_queue *queue)
{
	u8 first[S3_STAMPS], next[RXC_WAYS];
	unsigned int way, turn;
	u64 tag;

	memset(first, RXC_WAYS, sizeof(first));
	for (way = policy->ways; way--;) {
		tag = READ_ONCE(tags[way]);
		if (!(ways & BIT_ULL(way)) || rxc_tag_state(tag) != RXC_VALID ||
		    in_main_queue(tag) != in_main)
			continue;
		/* The stamp that is assigned next is the oldest. */
		turn = (FIELD_GET(S3_STAMP, policy_bits(tag)) - s->clock[in_main] - 1) % S3_STAMPS;
		next[way] = first[turn];
		first[turn] = way;
	}
	queue->nr = 0;
	for (turn = 0; turn < S3_STAMPS; turn++)
		for (way = first[turn]; way < RXC_WAYS; way = next[way])
			queue->way[queue->nr++] = way;
}

/**
 * rxc_policy_insert - get the policy bits of a block that enters a set
 * @policy: the policy
 * @set: number of the set
 * @tags: tags of the set
 * @block: the block
 * @room: no block has to leave for it
 *
 * Return: the policy bits.
 */
unsigned long rxc_policy_insert(struct rxc_policy *policy, unsigned long set, const u64 *tags,
				u64 block, bool room)
{
	struct s3_set *s = &policy->sets[set];
	bool in_main;
	int age;

	age = recall(s->ghosts, s->next_ghost, policy->nr_ghosts, block);
	in_main = is_young(age, READ_ONCE(policy->ghost_age));
	if (in_main) {
		if (is_young(age, READ_ONCE(policy->fresh_age)))
			grow_small(policy);
	} else {
		age = recall(s->main_ghosts, s->next_main_ghost, policy->nr_fresh, block);
		if (is_young(age, READ_ONCE(policy->fresh_age)))
			shrink_small(policy);
	}
	/* While there is room, blocks beyond the limit enter the main queue. */
	if (!in_main && room)
		in_main = count_small(policy, tags) >= small_limit(policy, set);
	return newest_of(s, in_main);
}

/*
 * Choose a block of the small queue, if the queue has reached its limit. The oldest block
 * leaves the cache, unless it was used often enough: then it moves to the main queue, and
 * the next one is examined, until the queue is below its limit. If no block of the main
 * queue can leave, the oldest block is examined in any case.
 */
static int leave_small(const struct rxc_policy *policy, struct s3_set *s, u64 *tags, u64 ways,
		       unsigned long limit)
{
	unsigned int nr_small = count_small(policy, tags), most, i;
	struct s3_queue queue;
	unsigned int way;

	most = nr_small >= limit ? nr_small - limit + 1 : !has_main(policy, tags, ways);
	if (!most)
		return -1;
	sort_queue(policy, s, tags, ways, false, &queue);
	for (i = 0; i < min(most, queue.nr); i++) {
		way = queue.way[i];
		if (freq_of(READ_ONCE(tags[way])) < MOVE_FREQ)
			return way;
		set_policy_bits(&tags[way], newest_of(s, true));
	}
	return -1;
}

/*
 * Choose a block of the main queue. The oldest block leaves if it was not used. Otherwise it
 * loses one use and becomes the newest. If all blocks were used, they go round at least once,
 * which does not change their order. These rounds are done at once: the uses of the least
 * used block are subtracted from each.
 */
static int leave_main(const struct rxc_policy *policy, struct s3_set *s, u64 *tags, u64 ways)
{
	unsigned int least = S3_FREQ_MAX + 1, leaves = 0, freq, moves, i;
	struct s3_queue queue;
	u64 *tag;

	sort_queue(policy, s, tags, ways, true, &queue);
	if (!queue.nr)
		return -1;
	for (i = 0; i < queue.nr; i++) {
		freq = freq_of(READ_ONCE(tags[queue.way[i]]));
		if (freq < least) {
			least = freq;
			leaves = i;
		}
	}
	for (i = 0; i < queue.nr && (least || i < leaves); i++) {
		tag = &tags[queue.way[i]];
		freq = freq_of(READ_ONCE(*tag)) - least - (i < leaves);
		/* Number of moves of all blocks up to the last move of this one. */
		moves = (least - (i >= leaves)) * queue.nr + i + 1;
		set_policy_bits(tag, main_bits(s->clock[1] + moves, freq));
	}
	s->clock[1] = (s->clock[1] + least * queue.nr + leaves) % S3_STAMPS;
	return queue.way[leaves];
}

/**
 * rxc_policy_victim_among - choose the block to evict, among some
 * @policy: the policy
 * @set: number of the set
 * @tags: tags of the set
 * @ways: a bit for each way that may be chosen
 *
 * This runs with interrupts off, so the work is bounded: six passes over the tags or the
 * stamps of the set, and at most one change of each tag in each queue. It depends neither on
 * the number of uses, nor on readers that count uses meanwhile.
 *
 * Return: the way of the block, or -1 if none of these blocks is valid.
 */
int rxc_policy_victim_among(struct rxc_policy *policy, unsigned long set, u64 *tags, u64 ways)
{
	struct s3_set *s = &policy->sets[set];
	int way;

	way = leave_small(policy, s, tags, ways, small_limit(policy, set));
	if (way >= 0) {
		remember(s->ghosts, &s->next_ghost, policy->nr_ghosts,
			 rxc_tag_block(READ_ONCE(tags[way])));
		return way;
	}
	way = leave_main(policy, s, tags, ways);
	if (way >= 0)
		remember(s->main_ghosts, &s->next_main_ghost, policy->nr_fresh,
			 rxc_tag_block(READ_ONCE(tags[way])));
	return way;
}

/**
 * rxc_policy_take_over - begin with what another policy has found out
 * @policy: a new policy
 * @old: the other one
 *
 * The small queues get the same share of the slots. Ghosts do not move: it is unknown to which set
 * a fingerprint belongs.
 */
void rxc_policy_take_over(struct rxc_policy *policy, const struct rxc_policy *old)
{
	unsigned long share = mul_u64_u64_div_u64(old->share, policy->nr_slots, old->nr_slots);

	policy->share = clamp(share, percent_of(policy->nr_slots, SHARE_MIN),
			      percent_of(policy->nr_slots, SHARE_MAX));
}

static unsigned int age_of(const struct s3_set *s, u64 tag)
{
	return (s->clock[in_main_queue(tag)] - FIELD_GET(S3_STAMP, policy_bits(tag))) % S3_STAMPS;
}

/**
 * rxc_policy_bits_of - get the policy bits of a block that moves to a new policy
 * @old: the policy that it comes from
 * @set: number of the set there
 * @tag: its tag there
 *
 * All sets get about the same number of new blocks. So blocks from several sets are in the right
 * order if each keeps its age, which is the number of blocks that have entered the queue since.
 * The clocks of the new policy have not moved yet. The oldest of a full queue is RXC_WAYS - 1 old,
 * and stays the oldest if the new set has room for as many blocks again. One that is older, because
 * others left before it, must not be taken for a new one then.
 *
 * Return: the policy bits.
 */
unsigned long rxc_policy_bits_of(const struct rxc_policy *old, unsigned long set, u64 tag)
{
	unsigned int age = min(age_of(&old->sets[set], tag), RXC_WAYS - 1U);

	return (policy_bits(tag) & ~S3_STAMP) |
	       FIELD_PREP(S3_STAMP, (S3_STAMPS - age) % S3_STAMPS);
}

/* The lower the number, the sooner a block leaves. @small_leaves: the small queue is too long */
static unsigned int stay_of(const struct s3_set *s, u64 tag, bool small_leaves)
{
	unsigned int youth = S3_STAMPS - 1 - age_of(s, tag);

	if (in_main_queue(tag))
		return (1 + freq_of(tag)) * S3_STAMPS + youth;
	if (!small_leaves)
		return (2 + S3_FREQ_MAX) * S3_STAMPS + youth;
	/* As in leave_small(), a block that was used becomes the newest of the main queue. */
	return freq_of(tag) < MOVE_FREQ ? youth : 2 * S3_STAMPS - 1;
}

/**
 * rxc_policy_coldest - choose the block of a full set that leaves for another one
 * @policy: the policy
 * @set: number of the set
 * @tags: tags of the set, all of them valid
 * @tag: the tag that the other block would have there
 *
 * In contrast to rxc_policy_victim(), the other block may be the one that leaves, and the policy
 * changes nothing.
 *
 * Return: the way of the block that would be evicted first, or -1 if this is the other block.
 */
int rxc_policy_coldest(const struct rxc_policy *policy, unsigned long set, const u64 *tags,
		       u64 tag)
{
	const struct s3_set *s = &policy->sets[set];
	bool small_leaves = count_small(policy, tags) + !in_main_queue(tag) >
			    small_limit(policy, set);
	unsigned int least = stay_of(s, tag, small_leaves), stay, way;
	int coldest = -1;

	for (way = 0; way < policy->ways; way++) {
		stay = stay_of(s, tags[way], small_leaves);
		if (stay < least) {
			least = stay;
			coldest = way;
		}
	}
	return coldest;
}
