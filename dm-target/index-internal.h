/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the files of the index: lookup.c finds slots, state.c changes them, and take-over.c
 * fills a larger index.
 */
#ifndef RXC_INDEX_INTERNAL_H
#define RXC_INDEX_INTERNAL_H

#include <linux/cache.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/spinlock.h>

#include "index.h"
#include "ranges.h"

#define HINTS_IN_WORD	sizeof(u64)
#define HINT_WORDS	(RXC_WAYS / HINTS_IN_WORD)
/* A byte, repeated in each byte of a word. */
#define EACH_HINT(byte)	((byte) * 0x0101010101010101ULL)

/**
 * struct rxc_hints - one byte of the hash of each block in a set
 * @word: the hint of way n is byte n % 8, counted from the lowest, of word n / 8
 */
struct rxc_hints {
	u64 word[HINT_WORDS];
};

/**
 * struct rxc_bucket - the lock that several sets share
 * @lock: held while a tag or a hint of these sets is changed
 */
struct rxc_bucket {
	spinlock_t lock; /* the tags of its sets */
};

/**
 * struct rxc_index - maps blocks to slots
 * @tags: @ways tags for each set
 * @hints: hints of each set
 * @policy: the replacement policy
 * @nr_sets: number of sets
 * @ways: number of slots in a set
 * @block_pages: number of pages in a block
 * @store: the pages; slot s has the pages from s * @block_pages on
 * @stats: counters
 * @nr_buckets: number of buckets, a power of two
 * @limit: number of slots that may hold blocks
 * @policy_limit: the limit that the policy knows
 * @no_room_until: in jiffies; rxc_index_make_room() gives up at once before this time
 * @ranges: blocks that must not enter the cache
 * @hand: counts the sets that were searched for a block to evict when memory was short
 * @round: @hand when a search last found a block, perhaps of another node than it wanted
 * @buckets: set s belongs to bucket s modulo @nr_buckets
 *
 * A hit reads the first cache line. Members that are written at times have other lines.
 */
struct rxc_index {
	u64 *tags;
	struct rxc_hints *hints;
	struct rxc_policy *policy;
	unsigned long nr_sets;
	unsigned int ways;
	unsigned int block_pages;
	struct rxd_store *store;
	struct rxc_stats __percpu *stats;
	unsigned long nr_buckets;
	unsigned long limit;
	unsigned long policy_limit;
	unsigned long no_room_until;
	struct rxc_ranges ranges;
	atomic_long_t hand ____cacheline_aligned;
	unsigned long round;
	struct rxc_bucket buckets[] ____cacheline_aligned;
};

static_assert(offsetofend(struct rxc_index, stats) <= SMP_CACHE_BYTES);

static inline unsigned long set_of(const struct rxc_index *index, u64 block)
{
	return rxc_set_among(block, index->nr_sets);
}

static inline unsigned long first_slot(const struct rxc_index *index, unsigned long set)
{
	return set * index->ways;
}

static inline struct rxc_bucket *bucket_of(struct rxc_index *index, unsigned long set)
{
	return &index->buckets[set & (index->nr_buckets - 1)];
}

static inline void assert_locked(struct rxc_index *index, unsigned long set)
{
	lockdep_assert_held(&bucket_of(index, set)->lock);
}

static inline u64 make_tag(u64 block, enum rxc_state state, unsigned long policy_bits)
{
	return block << RXC_TAG_BLOCK_SHIFT | (u64)policy_bits << RXC_TAG_POLICY_SHIFT | state;
}

static inline u32 hash_of(u64 block)
{
	return hash_64(block, 32);
}

/* A hint is never 0, so it does not match ways that were never used. */
static inline u8 hint_of(u32 hash)
{
	return hash % 255 + 1;
}

/* Return: the highest bit of each byte in which @word and @hint are equal, and no other. */
static inline u64 match_hints(u64 word, u64 hint)
{
	const u64 low = EACH_HINT(0x7f);

	word ^= hint;
	return ~(((word & low) + low) | word | low);
}

static inline unsigned int next_match(u64 matches, unsigned int word)
{
	return word * HINTS_IN_WORD + __ffs64(matches) / BITS_PER_BYTE;
}

/* The eight ways that are the home of a block, as the number of their word of hints. */
static inline unsigned int home_of(const struct rxc_index *index, u32 hash)
{
	return reciprocal_scale(hash, DIV_ROUND_UP(index->ways, HINTS_IN_WORD));
}

static inline void set_hint(struct rxc_hints *hints, unsigned int way, u64 block)
{
	unsigned int shift = way % HINTS_IN_WORD * BITS_PER_BYTE;
	u64 *word = &hints->word[way / HINTS_IN_WORD];

	WRITE_ONCE(*word, (*word & ~(0xffULL << shift)) | (u64)hint_of(hash_of(block)) << shift);
}

/* Find an empty way for a block, in its home if possible. Return: -1 if there is none. */
static inline int find_empty(const struct rxc_index *index, const u64 *tags, u64 block)
{
	unsigned int way = home_of(index, hash_of(block)) * HINTS_IN_WORD;
	unsigned int i;

	for (i = 0; i < index->ways; i++, way++) {
		if (way == index->ways)
			way = 0;
		if (rxc_tag_state(READ_ONCE(tags[way])) == RXC_EMPTY)
			return way;
	}
	return -1;
}

#endif /* RXC_INDEX_INTERNAL_H */
