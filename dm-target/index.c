// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which block of the origin lies in which slot of the RAM disk.
 *
 * Slots form sets of 64. A byte of hint for each, a cache line for the set, tells
 * which of the tags to look at. Eight ways, a cache line of tags and one of page
 * pointers, are the home of a block: it goes there while there is room, and is
 * looked for there first, so that all three lines are fetched at once. A hit takes
 * no lock: it reads the hints, a tag, the page pointer and the latter two once more.
 * Who changes a tag or a hint holds the lock of the set's bucket; a reader may only
 * add to the policy's bits, by compare-and-exchange.
 *
 * A page holds one block for life. A slot that changes its block gets fresh
 * pages; the old ones are freed after an RCU grace period, so a reader that has
 * found its page can copy it in peace.
 *
 * A write without a slot announces its range of blocks. No block of the range
 * enters the cache while the write is in flight, since nobody can tell which data
 * the origin is going to hold. A range within a region of the origin is listed in
 * one of many shards, which the region's number tells; the few that are longer are
 * in a list of their own.
 */
#include <linux/cache.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/prefetch.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include "../module/rxd.h"
#include "index.h"
#include "policy.h"

#define MAX_BUCKETS	16384
/* How many sets are looked at for a block that can make room. */
#define MAX_HAND_STEPS	1024
/* For how long nobody looks again when none was found in any. */
#define NO_ROOM_TIME	(HZ / 20)

#define MAX_SHARDS	4096
#define REGION_SIZE	SZ_4M

/* As many blocks that follow each other lie in as many sets that do. */
#define SPREAD		1024

#define HINTS_IN_WORD	sizeof(u64)
#define HINT_WORDS	(RXC_WAYS / HINTS_IN_WORD)
/* A byte repeated through a word. */
#define EACH_HINT(byte)	((byte) * 0x0101010101010101ULL)

/**
 * struct rxc_hints - a byte of each block number of a set
 * @word: the hint of way n is byte n % 8, from the lowest, of word n / 8
 */
struct rxc_hints {
	u64 word[HINT_WORDS];
};

/**
 * struct rxc_bucket - what some sets share
 * @lock: held by who changes a tag in one of them
 */
struct rxc_bucket {
	spinlock_t lock; /* the tags of its sets */
};

/**
 * struct rxc_shard - ranges that are being written without slots
 * @lock: guards @ranges; taken under a bucket's lock, or alone
 * @ranges: of struct rxc_range
 */
struct rxc_shard {
	spinlock_t lock; /* the list of ranges */
	struct list_head ranges;
};

/**
 * struct rxc_index - block to slot
 * @tags: @ways tags for each set
 * @hints: for each set
 * @policy: what stays
 * @nr_sets: number of sets
 * @ways: slots of each set
 * @block_pages: pages of a block
 * @store: holds the pages; slot s has pages s * @block_pages and on
 * @stats: counters
 * @nr_buckets: a power of two
 * @nr_shards: number of shards
 * @shards: ranges that lie within a region
 * @region_shift: log2 of the blocks of a region
 * @no_room_until: until then, in jiffies, nothing is left to evict
 * @wide: ranges that lie in several regions
 * @hand: which set makes room next when memory is short
 * @round: where the hand was when it last found a block to evict
 * @buckets: set s belongs to bucket s modulo @nr_buckets
 *
 * A hit reads the first cache line. What is written now and then has lines of its own.
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
	unsigned long nr_shards;
	struct rxc_shard *shards;
	unsigned int region_shift;
	unsigned long no_room_until;
	struct rxc_shard wide ____cacheline_aligned;
	atomic_long_t hand ____cacheline_aligned;
	unsigned long round;
	struct rxc_bucket buckets[] ____cacheline_aligned;
};

static_assert(offsetofend(struct rxc_index, stats) <= SMP_CACHE_BYTES);

/* Sets of one size each, so that few slots are left over. */
static void divide_slots(const struct rxd_store *store, unsigned int block_pages,
			 unsigned long *nr_sets, unsigned int *ways)
{
	unsigned long nr_slots = rxd_store_nr_pages(store) / block_pages;
	unsigned long fewer = nr_slots / RXC_WAYS, more = DIV_ROUND_UP(nr_slots, RXC_WAYS);

	if (fewer * RXC_WAYS >= more * (nr_slots / more)) {
		*nr_sets = fewer;
		*ways = RXC_WAYS;
	} else {
		*nr_sets = more;
		*ways = nr_slots / more;
	}
}

static void *alloc_table(unsigned long nr, size_t size)
{
	if (check_mul_overflow(nr, size, &size))
		return NULL;
	return vmalloc_huge(size, GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN);
}

/* SIZE_MAX if that is too many. */
static size_t bytes_of_sets(unsigned long nr_sets, unsigned int ways)
{
	return size_add(size_add(array3_size(nr_sets, ways, sizeof(u64)),
				 array_size(nr_sets, sizeof(struct rxc_hints))),
			rxc_policy_bytes(nr_sets));
}

static void init_shard(struct rxc_shard *shard)
{
	spin_lock_init(&shard->lock);
	INIT_LIST_HEAD(&shard->ranges);
}

/**
 * rxc_index_create - make an empty index over a store
 * @store: the store, whose pages become the index's
 * @block_pages: pages of a cache block, at least 1
 * @stats: counters, zeroed
 *
 * Return: the index; ERR_PTR(-ENOSPC) if the store has fewer than RXC_SLOTS_MIN
 * blocks, ERR_PTR(-ENOMEM) if it would leave too little memory to the rest of the machine.
 */
struct rxc_index *rxc_index_create(struct rxd_store *store, unsigned int block_pages,
				   struct rxc_stats __percpu *stats)
{
	unsigned long nr_sets, nr_buckets, i;
	struct rxc_index *index;
	unsigned int ways;

	if (rxd_store_nr_pages(store) / block_pages < RXC_SLOTS_MIN)
		return ERR_PTR(-ENOSPC);
	divide_slots(store, block_pages, &nr_sets, &ways);
	if (!rxd_memory_allows(bytes_of_sets(nr_sets, ways)))
		return ERR_PTR(-ENOMEM);

	nr_buckets = min_t(unsigned long, roundup_pow_of_two(nr_sets), MAX_BUCKETS);
	index = kvmalloc(struct_size(index, buckets, nr_buckets), GFP_KERNEL | __GFP_ZERO);
	if (!index)
		return ERR_PTR(-ENOMEM);

	index->nr_shards = min_t(unsigned long, nr_buckets, MAX_SHARDS);
	index->shards = kvmalloc_array(index->nr_shards, sizeof(*index->shards), GFP_KERNEL);
	index->tags = alloc_table(nr_sets, ways * sizeof(u64));
	index->hints = alloc_table(nr_sets, sizeof(struct rxc_hints));
	index->policy = rxc_policy_create(nr_sets, ways);
	if (!index->shards || !index->tags || !index->hints || !index->policy) {
		rxc_index_destroy(index);
		return ERR_PTR(-ENOMEM);
	}

	index->nr_sets = nr_sets;
	index->ways = ways;
	index->block_pages = block_pages;
	index->store = store;
	index->stats = stats;
	index->region_shift = ilog2(max_t(unsigned int, REGION_SIZE >> PAGE_SHIFT, block_pages) /
				    block_pages);
	index->no_room_until = jiffies;
	index->nr_buckets = nr_buckets;
	for (i = 0; i < nr_buckets; i++)
		spin_lock_init(&index->buckets[i].lock);
	for (i = 0; i < index->nr_shards; i++)
		init_shard(&index->shards[i]);
	init_shard(&index->wide);
	return index;
}

/**
 * rxc_index_destroy - free an index
 * @index: the index; no I/O is under way. The pages stay in the store.
 */
void rxc_index_destroy(struct rxc_index *index)
{
	rxc_policy_destroy(index->policy);
	vfree(index->hints);
	vfree(index->tags);
	kvfree(index->shards);
	kvfree(index);
}

/**
 * rxc_index_is_outgrown - has the store grown since the index was made?
 * @index: the index
 *
 * Return: true if a new index would have more slots.
 */
bool rxc_index_is_outgrown(const struct rxc_index *index)
{
	unsigned long nr_sets;
	unsigned int ways;

	divide_slots(index->store, index->block_pages, &nr_sets, &ways);
	return nr_sets * ways > rxc_index_nr_slots(index);
}

/**
 * rxc_index_nr_slots - how many blocks the cache can hold
 * @index: the index
 *
 * Return: blocks.
 */
unsigned long rxc_index_nr_slots(const struct rxc_index *index)
{
	return index->nr_sets * index->ways;
}

/**
 * rxc_index_metadata_bytes - memory that the index takes
 * @index: the index
 *
 * Return: bytes.
 */
size_t rxc_index_metadata_bytes(const struct rxc_index *index)
{
	return bytes_of_sets(index->nr_sets, index->ways) +
	       index->nr_shards * sizeof(*index->shards) +
	       struct_size(index, buckets, index->nr_buckets);
}

/*
 * Blocks that follow each other lie in sets that follow each other: they do not
 * crowd one set, and a working set that is made of such runs fills all sets alike.
 */
static unsigned long set_of(const struct rxc_index *index, u64 block)
{
	unsigned long set = reciprocal_scale(hash_64(block / SPREAD, 32), index->nr_sets);

	set += block % SPREAD;
	if (set < index->nr_sets)
		return set;
	/* A division takes longer than all the rest; only small caches need it. */
	set -= index->nr_sets;
	return likely(set < index->nr_sets) ? set : set % index->nr_sets;
}

static unsigned long first_slot(const struct rxc_index *index, unsigned long set)
{
	return set * index->ways;
}

static struct rxc_bucket *bucket_of(struct rxc_index *index, unsigned long set)
{
	return &index->buckets[set & (index->nr_buckets - 1)];
}

static void assert_locked(struct rxc_index *index, unsigned long set)
{
	lockdep_assert_held(&bucket_of(index, set)->lock);
}

static u64 make_tag(u64 block, enum rxc_state state, unsigned long policy_bits)
{
	return block << RXC_TAG_BLOCK_SHIFT | (u64)policy_bits << RXC_TAG_POLICY_SHIFT | state;
}

static void set_state(u64 *tag, enum rxc_state state)
{
	/* Pairs with the acquire in rxc_index_find() and rxc_index_hit_page(). */
	smp_store_release(tag, (READ_ONCE(*tag) & ~(RXC_TAG_STATE | RXC_TAG_DOOMED)) | state);
}

static void doom(u64 *tag)
{
	WRITE_ONCE(*tag, READ_ONCE(*tag) | RXC_TAG_DOOMED);
}

/* Never 0, which is the hint of ways that were never used. */
static u8 hint_of(u64 block)
{
	return hash_64(block, 32) % 255 + 1;
}

static void set_hint(struct rxc_hints *hints, unsigned int way, u64 block)
{
	unsigned int shift = way % HINTS_IN_WORD * BITS_PER_BYTE;
	u64 *word = &hints->word[way / HINTS_IN_WORD];

	WRITE_ONCE(*word, (*word & ~(0xffULL << shift)) | (u64)hint_of(block) << shift);
}

/* Return: the highest bit of each byte that is 0 in @word ^ @hint, and no other bit. */
static u64 match_hints(u64 word, u64 hint)
{
	const u64 low = EACH_HINT(0x7f);

	word ^= hint;
	return ~(((word & low) + low) | word | low);
}

static unsigned int next_match(u64 matches, unsigned int word)
{
	return word * HINTS_IN_WORD + __ffs64(matches) / BITS_PER_BYTE;
}

/* The word of hints whose ways are the home of a block. */
static unsigned int home_of(const struct rxc_index *index, u64 block)
{
	return reciprocal_scale(hash_64(block, 32), DIV_ROUND_UP(index->ways, HINTS_IN_WORD));
}

static bool is_valid(u64 tag, u64 block)
{
	return rxc_tag_state(tag) == RXC_VALID && rxc_tag_block(tag) == block;
}

/**
 * rxc_index_prefetch - have the processor fetch what the index knows of a block
 * @index: the index
 * @block: block number
 *
 * Call this before rxc_index_find(); in a long range, some blocks before.
 */
void rxc_index_prefetch(const struct rxc_index *index, u64 block)
{
	unsigned long set = set_of(index, block);
	unsigned long slot = first_slot(index, set) + home_of(index, block) * HINTS_IN_WORD;

	prefetch(&index->hints[set]);
	prefetch(&index->tags[slot]);
	rcu_read_lock();
	/* To prefetch NULL does no harm. */
	prefetch(rxd_store_slot(index->store, slot * index->block_pages));
	rcu_read_unlock();
}

/**
 * rxc_index_find - is a block in the cache?
 * @index: the index
 * @block: block number
 *
 * Takes no lock: the answer may be out of date when it arrives.
 *
 * Return: the slot that holds the valid block, or -1.
 */
long rxc_index_find(struct rxc_index *index, u64 block)
{
	unsigned long set = set_of(index, block);
	const struct rxc_hints *hints = &index->hints[set];
	const u64 hint = EACH_HINT(hint_of(block));
	unsigned int word = home_of(index, block);
	unsigned long slot;
	unsigned int i;
	u64 matches;
	u64 tag;

	for (i = 0; i < HINT_WORDS; i++, word = (word + 1) % HINT_WORDS) {
		matches = match_hints(READ_ONCE(hints->word[word]), hint);
		for (; matches; matches &= matches - 1) {
			slot = first_slot(index, set) + next_match(matches, word);
			/* Pairs with set_state(). */
			tag = smp_load_acquire(&index->tags[slot]);
			if (is_valid(tag, block))
				return slot;
		}
	}
	return -1;
}

/**
 * rxc_index_block_in - which block is in a slot?
 * @index: the index
 * @slot: the slot
 * @block: set to the block
 *
 * Return: whether there is a valid one; the answer may be out of date when it
 * arrives.
 */
bool rxc_index_block_in(struct rxc_index *index, unsigned long slot, u64 *block)
{
	u64 tag = READ_ONCE(index->tags[slot]);

	*block = rxc_tag_block(tag);
	return rxc_tag_state(tag) == RXC_VALID;
}

/**
 * rxc_index_touch - tell the policy that a block was used
 * @index: the index
 * @slot: where it was found
 */
void rxc_index_touch(struct rxc_index *index, unsigned long slot)
{
	u64 old = READ_ONCE(index->tags[slot]);
	u64 new;

	if (rxc_tag_state(old) != RXC_VALID)
		return;
	new = (old & ~RXC_TAG_POLICY) | (u64)rxc_policy_touch(old) << RXC_TAG_POLICY_SHIFT;
	/* If another was faster, its note is as good as ours. */
	if (new != old)
		cmpxchg_relaxed(&index->tags[slot], old, new);
}

/**
 * rxc_index_hit_page - a page of a block that rxc_index_find() found
 * @index: the index
 * @slot: what it returned
 * @block: block number
 * @i: which page of the block
 *
 * Call under rcu_read_lock(); until rcu_read_unlock() the page keeps the block's
 * data, or newer data of the same block.
 *
 * A page pointer that is the same before and after the tag was seen valid did
 * not change in between, because a page never enters a slot twice within a
 * grace period: so it is the page of the block that the tag names.
 *
 * Return: the page, or NULL if the block is no longer there.
 */
struct page *rxc_index_hit_page(struct rxc_index *index, unsigned long slot, u64 block,
				unsigned int i)
{
	struct page __rcu **place;
	struct page *page;
	u64 tag;

	place = rxd_store_slot(index->store, slot * index->block_pages + i);
	if (unlikely(!place))
		return NULL;
	page = rcu_dereference(*place);
	/* Pairs with take_slot() and empty_slot(). */
	smp_rmb();
	/* Pairs with set_state(). */
	tag = smp_load_acquire(&index->tags[slot]);
	if (!is_valid(tag, block) || rcu_access_pointer(*place) != page)
		return NULL;
	return page;
}

/**
 * rxc_index_own_page - a page of a slot that is the caller's
 * @index: the index
 * @slot: the slot, which the caller began to fill or to write
 * @i: which page of the block
 *
 * Return: the page, which stays until the fill or the write ends.
 */
struct page *rxc_index_own_page(struct rxc_index *index, unsigned long slot, unsigned int i)
{
	struct page *page;

	rcu_read_lock();
	page = rxd_store_lookup(index->store, slot * index->block_pages + i);
	rcu_read_unlock();
	return page;
}

/* The way of a set that holds the block in any state but EMPTY, or -1. */
static int find_way(struct rxc_index *index, unsigned long set, u64 block)
{
	const u64 *tags = &index->tags[first_slot(index, set)];
	const u64 hint = EACH_HINT(hint_of(block));
	unsigned int word = home_of(index, block);
	unsigned int way, i;
	u64 matches;
	u64 tag;

	assert_locked(index, set);
	for (i = 0; i < HINT_WORDS; i++, word = (word + 1) % HINT_WORDS) {
		matches = match_hints(index->hints[set].word[word], hint);
		for (; matches; matches &= matches - 1) {
			way = next_match(matches, word);
			tag = READ_ONCE(tags[way]);
			if (rxc_tag_state(tag) != RXC_EMPTY && rxc_tag_block(tag) == block)
				return way;
		}
	}
	return -1;
}

/* An empty way for a block, at its home if there is one. */
static int find_empty(const struct rxc_index *index, const u64 *tags, u64 block)
{
	unsigned int way = home_of(index, block) * HINTS_IN_WORD;
	unsigned int i;

	for (i = 0; i < index->ways; i++, way++) {
		if (way == index->ways)
			way = 0;
		if (rxc_tag_state(READ_ONCE(tags[way])) == RXC_EMPTY)
			return way;
	}
	return -1;
}

static void remove_pages(struct rxc_index *index, unsigned long slot, unsigned int nr)
{
	unsigned int i;

	/* A page that is there has its leaf: this allocates nothing and succeeds. */
	for (i = 0; i < nr; i++)
		rxd_store_exchange(index->store, slot * index->block_pages + i, NULL,
				   RXD_GFP_NOWAIT);
}

static int install_pages(struct rxc_index *index, unsigned long slot, struct list_head *pages)
{
	struct page *page;
	unsigned int i;
	int ret;

	for (i = 0; i < index->block_pages; i++) {
		page = list_first_entry(pages, struct page, lru);
		list_del(&page->lru);
		ret = rxd_store_exchange(index->store, slot * index->block_pages + i, page,
					 RXD_GFP_NOWAIT);
		if (ret) {
			list_add(&page->lru, pages);
			remove_pages(index, slot, i);
			return ret;
		}
	}
	return 0;
}

static void empty_slot(struct rxc_index *index, unsigned long slot)
{
	assert_locked(index, slot / index->ways);
	set_state(&index->tags[slot], RXC_EMPTY);
	/* No page may go while its tag is seen valid: pairs with rxc_index_hit_page(). */
	smp_wmb();
	remove_pages(index, slot, index->block_pages);
	this_cpu_dec(index->stats->used);
}

/*
 * Give the slot other pages. Each takes the place of one that is there, so
 * nothing can be short.
 */
static int replace_pages(struct rxc_index *index, unsigned long slot, struct list_head *pages)
{
	int ret;

	assert_locked(index, slot / index->ways);
	/* The tag changes before the pages do: pairs with rxc_index_hit_page(). */
	smp_wmb();
	ret = install_pages(index, slot, pages);
	WARN_ON_ONCE(ret);
	return ret;
}

/*
 * Give a slot of the set to a block. The pages of @pages go into it; on failure
 * those that are left stay on the list.
 */
static enum rxc_fate take_slot(struct rxc_index *index, unsigned long set, u64 block,
			       enum rxc_state state, struct list_head *pages,
			       unsigned long *slot)
{
	unsigned long first = first_slot(index, set);
	u64 *tags = &index->tags[first];
	unsigned long bits;
	int way;

	assert_locked(index, set);
	way = find_empty(index, tags, block);
	if (way >= 0) {
		*slot = first + way;
		if (!rxd_store_has_room(index->store, index->block_pages) ||
		    install_pages(index, *slot, pages))
			return RXC_FATE_SHORT;
		bits = rxc_policy_insert(index->policy, set, tags, block, true);
		set_hint(&index->hints[set], way, block);
		WRITE_ONCE(tags[way], make_tag(block, state, bits));
		this_cpu_inc(index->stats->used);
		return RXC_FATE_TRACKED;
	}

	bits = rxc_policy_insert(index->policy, set, tags, block, false);
	way = rxc_policy_victim(index->policy, set, tags);
	if (way < 0)
		return RXC_FATE_SHORT;
	*slot = first + way;
	set_hint(&index->hints[set], way, block);
	WRITE_ONCE(tags[way], make_tag(block, state, bits));
	rxc_stat_inc(index->stats, RXC_EVICTIONS);
	if (replace_pages(index, *slot, pages)) {
		empty_slot(index, *slot);
		return RXC_FATE_SHORT;
	}
	return RXC_FATE_TRACKED;
}

static bool has_valid(const struct rxc_index *index, unsigned long set)
{
	const u64 *tags = &index->tags[first_slot(index, set)];
	unsigned int way;

	for (way = 0; way < index->ways; way++)
		if (rxc_tag_state(READ_ONCE(tags[way])) == RXC_VALID)
			return true;
	return false;
}

static bool evict_from(struct rxc_index *index, unsigned long set)
{
	struct rxc_bucket *bucket = bucket_of(index, set);
	unsigned long first = first_slot(index, set);
	unsigned long flags;
	int way;

	spin_lock_irqsave(&bucket->lock, flags);
	way = rxc_policy_victim(index->policy, set, &index->tags[first]);
	if (way >= 0) {
		empty_slot(index, first + way);
		rxc_stat_inc(index->stats, RXC_EVICTIONS);
	}
	spin_unlock_irqrestore(&bucket->lock, flags);
	return way >= 0;
}

static bool has_no_room(const struct rxc_index *index)
{
	return time_before(jiffies, READ_ONCE(index->no_room_until));
}

/* A block became valid: another round of the hand is worth it. */
static void look_again(struct rxc_index *index)
{
	WRITE_ONCE(index->round, atomic_long_read(&index->hand));
	WRITE_ONCE(index->no_room_until, jiffies);
}

/**
 * rxc_index_make_room - evict a block because memory is short
 * @index: the index
 *
 * The sets give up a block in turn, so that no set keeps what it had first. The
 * memory is free a grace period later, the store's limit leaves room at once. After
 * a round that found nothing, nobody looks for a while, unless a block becomes valid.
 *
 * Return: whether there was a block to evict.
 */
bool rxc_index_make_room(struct rxc_index *index)
{
	unsigned long steps = min_t(unsigned long, index->nr_sets, MAX_HAND_STEPS);
	unsigned long hand = 0, set;

	if (has_no_room(index))
		return false;
	while (steps--) {
		hand = atomic_long_inc_return(&index->hand);
		set = hand % index->nr_sets;
		if (has_valid(index, set) && evict_from(index, set)) {
			WRITE_ONCE(index->round, hand);
			return true;
		}
	}
	if (hand - READ_ONCE(index->round) >= index->nr_sets)
		WRITE_ONCE(index->no_room_until, jiffies + NO_ROOM_TIME);
	return false;
}

static bool has_pages_for_block(const struct rxc_index *index, const struct list_head *pages)
{
	const struct list_head *page;
	unsigned int nr = 0;

	list_for_each(page, pages)
		if (++nr == index->block_pages)
			return true;
	return false;
}

/*
 * Is it worth to ask once more for a slot? If the store's limit left no room, and
 * does now; but an attempt that got half-way may have used up pages.
 */
static bool made_room(struct rxc_index *index, const struct list_head *pages)
{
	return !rxd_store_has_room(index->store, index->block_pages) &&
	       has_pages_for_block(index, pages) && rxc_index_make_room(index);
}

static bool is_in_range(const struct rxc_range *range, u64 block)
{
	return block - range->first < range->nr;
}

static struct rxc_shard *shard_of(struct rxc_index *index, u64 block)
{
	u32 hash = hash_64(block >> index->region_shift, 32);

	return &index->shards[reciprocal_scale(hash, index->nr_shards)];
}

static bool is_in_region(const struct rxc_index *index, const struct rxc_range *range)
{
	return range->first + range->nr <= rxc_index_region_end(index, range->first);
}

/* Where a range is listed. */
static struct rxc_shard *shard_of_range(struct rxc_index *index, const struct rxc_range *range)
{
	return is_in_region(index, range) ? shard_of(index, range->first) : &index->wide;
}

static bool is_listed(struct rxc_shard *shard, u64 block)
{
	const struct rxc_range *range;
	bool found = false;

	if (likely(list_empty(&shard->ranges))) {
		/* Pairs with rxc_index_end_range(): the origin has what was written. */
		smp_acquire__after_ctrl_dep();
		return false;
	}
	spin_lock(&shard->lock);
	list_for_each_entry(range, &shard->ranges, list) {
		found = is_in_range(range, block);
		if (found)
			break;
	}
	spin_unlock(&shard->lock);
	return found;
}

/*
 * May a block that is not in the cache enter it? Who announces a range takes the
 * bucket's lock after it has listed the range: see rxc_index_begin_range().
 */
static bool may_enter(struct rxc_index *index, u64 block)
{
	assert_locked(index, set_of(index, block));
	return !is_listed(shard_of(index, block), block) && !is_listed(&index->wide, block);
}

static enum rxc_fate try_fill(struct rxc_index *index, u64 block, struct list_head *pages,
			      unsigned long *slot)
{
	unsigned long set = set_of(index, block);
	struct rxc_bucket *bucket = bucket_of(index, set);
	enum rxc_fate fate;
	unsigned long flags;

	spin_lock_irqsave(&bucket->lock, flags);
	if (find_way(index, set, block) >= 0 || !may_enter(index, block))
		fate = RXC_FATE_UNTRACKED;
	else if (list_empty(pages))
		fate = RXC_FATE_NEED_PAGES;
	else
		fate = take_slot(index, set, block, RXC_FILL, pages, slot);
	spin_unlock_irqrestore(&bucket->lock, flags);
	return fate;
}

/**
 * rxc_index_begin_fill - ask for a slot for a block that is not in the cache
 * @index: the index
 * @block: block number
 * @pages: pages for it and perhaps others, linked through lru, or an empty list
 * @slot: set to the slot if the fate is RXC_FATE_TRACKED
 *
 * Return: RXC_FATE_TRACKED: read the origin into the pages of the slot, then call
 * rxc_index_end_fill(); RXC_FATE_NEED_PAGES; RXC_FATE_UNTRACKED: the block is
 * there by now, or busy: read it around the cache; RXC_FATE_SHORT: so do, and it
 * makes no sense to ask for the next.
 */
enum rxc_fate rxc_index_begin_fill(struct rxc_index *index, u64 block,
				   struct list_head *pages, unsigned long *slot)
{
	enum rxc_fate fate = try_fill(index, block, pages, slot);

	if (unlikely(fate == RXC_FATE_SHORT) && made_room(index, pages))
		fate = try_fill(index, block, pages, slot);
	return fate;
}

/**
 * rxc_index_can_fill - would rxc_index_begin_fill() give a slot?
 * @index: the index
 * @block: block number
 *
 * Return: true if it might; the answer may be out of date when it arrives.
 */
bool rxc_index_can_fill(struct rxc_index *index, u64 block)
{
	unsigned long slot;
	LIST_HEAD(none);

	return try_fill(index, block, &none, &slot) == RXC_FATE_NEED_PAGES;
}

/**
 * rxc_index_is_filling - may a read wait for the fill of a block?
 * @index: the index
 * @block: block number
 *
 * Return: true if the block is being filled and no write of it has been announced
 * since rxc_index_begin_fill(): every write that has completed by now is in what
 * the fill reads.
 */
bool rxc_index_is_filling(struct rxc_index *index, u64 block)
{
	unsigned long set = set_of(index, block);
	struct rxc_bucket *bucket = bucket_of(index, set);
	unsigned long flags;
	u64 tag = RXC_EMPTY;
	int way;

	spin_lock_irqsave(&bucket->lock, flags);
	way = find_way(index, set, block);
	if (way >= 0)
		tag = READ_ONCE(index->tags[first_slot(index, set) + way]);
	spin_unlock_irqrestore(&bucket->lock, flags);
	return rxc_tag_state(tag) == RXC_FILL && !(tag & RXC_TAG_DOOMED);
}

/* Return: whether the block is in the cache now. */
static bool end_io(struct rxc_index *index, u64 block, bool ok)
{
	unsigned long set = set_of(index, block);
	struct rxc_bucket *bucket = bucket_of(index, set);
	u64 *tags = &index->tags[first_slot(index, set)];
	unsigned long flags;
	int way;

	spin_lock_irqsave(&bucket->lock, flags);
	way = find_way(index, set, block);
	if (WARN_ON_ONCE(way < 0)) {
		ok = false;
	} else if (ok && !(READ_ONCE(tags[way]) & RXC_TAG_DOOMED)) {
		set_state(&tags[way], RXC_VALID);
		if (unlikely(has_no_room(index)))
			look_again(index);
	} else {
		ok = false;
		empty_slot(index, first_slot(index, set) + way);
	}
	spin_unlock_irqrestore(&bucket->lock, flags);
	return ok;
}

/**
 * rxc_index_end_fill - the pages of a slot are filled, or will not be
 * @index: the index
 * @block: block number, for which rxc_index_begin_fill() gave a slot
 * @ok: they hold what the origin held
 *
 * May be called in atomic context. The caller has no right to the pages any more.
 */
void rxc_index_end_fill(struct rxc_index *index, u64 block, bool ok)
{
	if (end_io(index, block, ok))
		rxc_stat_inc(index->stats, RXC_FILLS);
}

/* May a write have the slot of its block, @way, or a new one if it has none? */
static bool can_write(struct rxc_index *index, const u64 *tags, int way, u64 block,
		      bool whole)
{
	if (way >= 0)
		return rxc_tag_state(READ_ONCE(tags[way])) == RXC_VALID;
	return whole && may_enter(index, block);
}

/**
 * rxc_index_can_write - would rxc_index_begin_write() give a slot?
 * @index: the index
 * @block: block number
 * @whole: the write covers the whole block
 *
 * Return: true if it might; the answer may be out of date when it arrives.
 */
bool rxc_index_can_write(struct rxc_index *index, u64 block, bool whole)
{
	unsigned long set = set_of(index, block);
	struct rxc_bucket *bucket = bucket_of(index, set);
	u64 *tags = &index->tags[first_slot(index, set)];
	unsigned long flags;
	bool can;

	spin_lock_irqsave(&bucket->lock, flags);
	can = can_write(index, tags, find_way(index, set, block), block, whole);
	spin_unlock_irqrestore(&bucket->lock, flags);
	return can;
}

static enum rxc_fate try_write(struct rxc_index *index, u64 block, bool whole,
			       struct list_head *pages, unsigned long *slot)
{
	unsigned long set = set_of(index, block);
	struct rxc_bucket *bucket = bucket_of(index, set);
	u64 *tags = &index->tags[first_slot(index, set)];
	enum rxc_fate fate = RXC_FATE_UNTRACKED;
	unsigned long flags;
	int way;

	spin_lock_irqsave(&bucket->lock, flags);
	way = find_way(index, set, block);
	if (!can_write(index, tags, way, block, whole))
		goto out_unlock;

	if (way >= 0) {
		*slot = first_slot(index, set) + way;
		set_state(&tags[way], RXC_WRITE);
		rxc_stat_inc(index->stats, RXC_WRITE_HITS);
		fate = RXC_FATE_TRACKED;
		if (whole && !list_empty(pages))
			replace_pages(index, *slot, pages);
	} else if (list_empty(pages)) {
		fate = RXC_FATE_NEED_PAGES;
	} else {
		fate = take_slot(index, set, block, RXC_WRITE, pages, slot);
		if (fate == RXC_FATE_TRACKED)
			rxc_stat_inc(index->stats, RXC_WRITE_MISSES);
	}
out_unlock:
	spin_unlock_irqrestore(&bucket->lock, flags);
	return fate;
}

/**
 * rxc_index_begin_write - ask for the slot of a block that is to be written
 * @index: the index
 * @block: block number
 * @whole: the write covers the whole block
 * @pages: pages for it and perhaps others, linked through lru, or an empty list
 * @slot: set to the slot if the fate is RXC_FATE_TRACKED
 *
 * A whole block that is in the cache gets the pages of @pages, too, if there are
 * any.
 *
 * Return: RXC_FATE_TRACKED: copy the data into the pages of the slot, write the
 * origin from them, then call rxc_index_end_write(); RXC_FATE_NEED_PAGES;
 * RXC_FATE_UNTRACKED or RXC_FATE_SHORT: call rxc_index_begin_range() and go
 * round the cache.
 */
enum rxc_fate rxc_index_begin_write(struct rxc_index *index, u64 block, bool whole,
				    struct list_head *pages, unsigned long *slot)
{
	enum rxc_fate fate = try_write(index, block, whole, pages, slot);

	if (unlikely(fate == RXC_FATE_SHORT) && made_room(index, pages))
		fate = try_write(index, block, whole, pages, slot);
	return fate;
}

/**
 * rxc_index_end_write - the origin has answered a write from a slot
 * @index: the index
 * @block: block number, for which rxc_index_begin_write() gave a slot
 * @ok: the origin holds the data
 *
 * May be called in atomic context. The caller has no right to the pages any more.
 */
void rxc_index_end_write(struct rxc_index *index, u64 block, bool ok)
{
	if (!end_io(index, block, ok))
		rxc_stat_inc(index->stats, RXC_INVALIDATIONS);
}

/* Return: whether pages were freed, which may take a while. */
static bool drop_slot(struct rxc_index *index, unsigned long slot)
{
	assert_locked(index, slot / index->ways);
	switch (rxc_tag_state(READ_ONCE(index->tags[slot]))) {
	case RXC_VALID:
		empty_slot(index, slot);
		rxc_stat_inc(index->stats, RXC_INVALIDATIONS);
		return true;
	case RXC_FILL:
	case RXC_WRITE:
		doom(&index->tags[slot]);
		break;
	case RXC_EMPTY:
		break;
	}
	return false;
}

static void drop_block(struct rxc_index *index, u64 block)
{
	unsigned long set = set_of(index, block);
	struct rxc_bucket *bucket = bucket_of(index, set);
	unsigned long flags;
	int way;

	spin_lock_irqsave(&bucket->lock, flags);
	way = find_way(index, set, block);
	if (way >= 0)
		drop_slot(index, first_slot(index, set) + way);
	spin_unlock_irqrestore(&bucket->lock, flags);
}

static void drop_in_set(struct rxc_index *index, unsigned long set,
			const struct rxc_range *range)
{
	struct rxc_bucket *bucket = bucket_of(index, set);
	unsigned long slot, flags;

	spin_lock_irqsave(&bucket->lock, flags);
	for (slot = first_slot(index, set); slot < first_slot(index, set + 1); slot++) {
		if (!is_in_range(range, rxc_tag_block(READ_ONCE(index->tags[slot]))) ||
		    !drop_slot(index, slot))
			continue;
		/* A block may have many pages: do not keep interrupts out for several. */
		spin_unlock_irqrestore(&bucket->lock, flags);
		spin_lock_irqsave(&bucket->lock, flags);
	}
	spin_unlock_irqrestore(&bucket->lock, flags);
}

/**
 * rxc_index_drop - take a range of blocks out of the cache
 * @index: the index
 * @first: first block
 * @nr: number of blocks
 *
 * Blocks that are being filled or written go when that ends. May sleep.
 */
void rxc_index_drop(struct rxc_index *index, u64 first, u64 nr)
{
	const struct rxc_range range = { .first = first, .nr = nr };
	unsigned long set;
	u64 block;

	if (nr <= index->nr_sets) {
		for (block = first; block < first + nr; block++) {
			drop_block(index, block);
			cond_resched();
		}
		return;
	}
	for (set = 0; set < index->nr_sets; set++) {
		drop_in_set(index, set, &range);
		cond_resched();
	}
}

/**
 * rxc_index_region_end - how far a range from a block on may go and stay in a region
 * @index: the index
 * @block: block number
 *
 * Return: the block after the last of the region.
 */
u64 rxc_index_region_end(const struct rxc_index *index, u64 block)
{
	return ((block >> index->region_shift) + 1) << index->region_shift;
}

/**
 * rxc_index_begin_range - announce a write that goes round the cache
 * @index: the index
 * @range: what is written, which the index uses until rxc_index_end_range()
 *
 * The range leaves the cache, and no block of it enters the cache until
 * rxc_index_end_range(). There may be others over the same blocks. May sleep, but
 * not if the range ends with rxc_index_region_end() or before.
 *
 * Who has the lock of a block before us leaves a tag, which we doom; who has it
 * after us sees the range:
 *
 *	write round the cache		fill, or write that wants a slot
 *
 *	list the range
 *					lock the bucket
 *					see the range, or leave a tag
 *					unlock
 *	lock the bucket
 *	drop or doom what is there
 *	unlock
 *					lock the bucket
 *					see the range
 *					unlock
 *	write the origin
 *	take the range off the list
 */
void rxc_index_begin_range(struct rxc_index *index, struct rxc_range *range)
{
	struct rxc_shard *shard = shard_of_range(index, range);
	unsigned long flags;
	u64 block;

	spin_lock_irqsave(&shard->lock, flags);
	list_add_tail(&range->list, &shard->ranges);
	spin_unlock_irqrestore(&shard->lock, flags);

	if (shard == &index->wide) {
		rxc_index_drop(index, range->first, range->nr);
		return;
	}
	for (block = range->first; block < range->first + range->nr; block++)
		drop_block(index, block);
}

/**
 * rxc_index_end_range - the origin has answered what rxc_index_begin_range() announced
 * @index: the index
 * @range: the range
 *
 * May be called in atomic context.
 */
void rxc_index_end_range(struct rxc_index *index, struct rxc_range *range)
{
	struct rxc_shard *shard = shard_of_range(index, range);
	unsigned long flags;

	spin_lock_irqsave(&shard->lock, flags);
	/*
	 * Who sees the range gone reads what the origin has got, which may be memory:
	 * pairs with is_listed().
	 */
	smp_mb__after_spinlock();
	list_del(&range->list);
	spin_unlock_irqrestore(&shard->lock, flags);
}
