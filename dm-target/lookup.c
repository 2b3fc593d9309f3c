// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tables of the index, and the look-up: which slot of the RAM disk holds a block of the
 * origin.
 *
 * Slots form sets of 64. Eight ways of a set, with one cache line of tags and, if a block is a
 * page, one of page pointers, are the home of a block. A block takes a way of its home while one
 * is empty, and otherwise that of the victim. A cache line of hints, one byte for each way, tells
 * which tags to compare, first those of the home.
 *
 * A look-up of consecutive blocks prefetches the hints and the home of a block at once, and later,
 * when it knows the hints, the slot to which they point if that is elsewhere.
 *
 * A hit takes no lock: it finds the tag, reads the page pointer, and reads both again. Tags
 * and hints are changed under the lock of the bucket. Without the lock, a hit may only change
 * the policy bits of a tag, by compare-and-exchange.
 */
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/prefetch.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "../module/rxd.h"
#include "index-internal.h"
#include "policy.h"

#define MAX_BUCKETS	16384

static_assert(RXC_GUESS_AHEAD < RXC_LOOK_AHEAD);

static void divide_slots(const struct rxd_store *store, unsigned int block_pages,
			 unsigned long *nr_sets, unsigned int *ways)
{
	rxc_divide_slots(rxd_store_nr_pages(store) / block_pages, nr_sets, ways);
}

static void *alloc_table(unsigned long nr, size_t size)
{
	if (check_mul_overflow(nr, size, &size))
		return NULL;
	return vmalloc_huge(size, GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN);
}

/* Return: SIZE_MAX on overflow. */
static size_t bytes_of_sets(unsigned long nr_sets, unsigned int ways)
{
	return size_add(size_add(array3_size(nr_sets, ways, sizeof(u64)),
				 array_size(nr_sets, sizeof(struct rxc_hints))),
			rxc_policy_bytes(nr_sets));
}

/**
 * rxc_index_create - create an empty index
 * @store: the store for the pages
 * @block_pages: number of pages in a cache block, at least 1
 * @stats: counters, of which the number of used blocks is or becomes 0
 *
 * Return: the index; ERR_PTR(-ENOSPC) if the store has fewer than RXC_SLOTS_MIN blocks;
 * ERR_PTR(-ENOMEM) if memory is short, or if too little would be left for others.
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
	if (rxd_prepare_table(bytes_of_sets(nr_sets, ways)))
		return ERR_PTR(-ENOMEM);

	nr_buckets = min_t(unsigned long, roundup_pow_of_two(nr_sets), MAX_BUCKETS);
	index = kvmalloc(struct_size(index, buckets, nr_buckets), GFP_KERNEL | __GFP_ZERO);
	if (!index)
		return ERR_PTR(-ENOMEM);

	index->tags = alloc_table(nr_sets, ways * sizeof(u64));
	index->hints = alloc_table(nr_sets, sizeof(struct rxc_hints));
	index->policy = rxc_policy_create(nr_sets, ways);
	if (rxc_ranges_init(&index->ranges, nr_buckets, block_pages) || !index->tags ||
	    !index->hints || !index->policy) {
		rxc_index_destroy(index);
		return ERR_PTR(-ENOMEM);
	}

	index->nr_sets = nr_sets;
	index->ways = ways;
	index->block_pages = block_pages;
	index->store = store;
	index->stats = stats;
	index->no_room_until = jiffies;
	index->limit = nr_sets * ways;
	index->policy_limit = index->limit;
	index->nr_buckets = nr_buckets;
	for (i = 0; i < nr_buckets; i++)
		spin_lock_init(&index->buckets[i].lock);
	return index;
}

/**
 * rxc_index_destroy - free an index
 * @index: the index, which has no I/O in flight; the pages stay in the store; NULL is allowed
 */
void rxc_index_destroy(struct rxc_index *index)
{
	if (!index)
		return;
	rxc_policy_destroy(index->policy);
	vfree(index->hints);
	vfree(index->tags);
	rxc_ranges_exit(&index->ranges);
	kvfree(index);
}

/**
 * rxc_index_swap_stats - exchange the counters of two indices
 * @a: an index that is not in use
 * @b: another one
 */
void rxc_index_swap_stats(struct rxc_index *a, struct rxc_index *b)
{
	swap(a->stats, b->stats);
}

/**
 * rxc_index_is_outgrown - check whether the store has grown since the index was created
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
 * rxc_index_nr_slots - get the number of blocks that the cache can hold
 * @index: the index
 *
 * Return: number of blocks.
 */
unsigned long rxc_index_nr_slots(const struct rxc_index *index)
{
	return index->nr_sets * index->ways;
}

/**
 * rxc_index_metadata_bytes - get the memory of the index
 * @index: the index
 *
 * Return: number of bytes.
 */
size_t rxc_index_metadata_bytes(const struct rxc_index *index)
{
	return bytes_of_sets(index->nr_sets, index->ways) +
	       rxc_ranges_bytes(&index->ranges) +
	       struct_size(index, buckets, index->nr_buckets);
}

static bool is_valid(u64 tag, u64 block)
{
	return (tag & (RXC_TAG_BLOCK | RXC_TAG_STATE)) == make_tag(block, RXC_VALID, 0);
}

static __always_inline struct rxc_place place_of(const struct rxc_index *index, u64 block)
{
	u32 hash = hash_of(block);

	return (struct rxc_place) {
		.set = set_of(index, block),
		.word = home_of(index, hash),
		.hint = hint_of(hash),
		.slot = -1,
	};
}

static __always_inline unsigned int next_word(unsigned int word)
{
	return (word + 1) % HINT_WORDS;
}

/* Prefetch the pointer to the first page of a slot. Call under rcu_read_lock(). */
static __always_inline void prefetch_pointer(const struct rxc_index *index, unsigned long slot)
{
	/* A prefetch of NULL does no harm. */
	prefetch(rxd_store_slot(index->store, slot * index->block_pages));
}

/* Find the first slot with the hint of a block outside of its home, and prefetch it. */
static noinline void guess_away(const struct rxc_index *index, struct rxc_place *place)
{
	const struct rxc_hints *hints = &index->hints[place->set];
	unsigned int word = place->word;
	unsigned int i;
	u64 matches;

	for (i = 1; i < HINT_WORDS; i++) {
		word = next_word(word);
		matches = match_hints(READ_ONCE(hints->word[word]), EACH_HINT(place->hint));
		if (!matches)
			continue;
		place->slot = first_slot(index, place->set) + next_match(matches, word);
		prefetch(&index->tags[place->slot]);
		prefetch_pointer(index, place->slot);
		return;
	}
}

/* Prefetch the hints of a block, and its home. */
static __always_inline void look_far(const struct rxc_index *index, struct rxc_place *place,
				     u64 block)
{
	unsigned long slot;

	*place = place_of(index, block);
	slot = first_slot(index, place->set) + place->word * HINTS_IN_WORD;
	prefetch(&index->hints[place->set]);
	prefetch(&index->tags[slot]);
	/* The pointers of larger blocks are in several lines. */
	if (index->block_pages == 1)
		prefetch_pointer(index, slot);
}

/* Find the first slot with the hint of a block, and prefetch what look_far() has not. */
static __always_inline void guess(const struct rxc_index *index, struct rxc_place *place)
{
	const struct rxc_hints *hints = &index->hints[place->set];
	u64 matches = match_hints(READ_ONCE(hints->word[place->word]), EACH_HINT(place->hint));

	if (unlikely(!matches)) {
		guess_away(index, place);
		return;
	}
	place->slot = first_slot(index, place->set) + next_match(matches, place->word);
	if (index->block_pages > 1)
		prefetch_pointer(index, place->slot);
}

static __always_inline void look_ahead(const struct rxc_index *index, struct rxc_walk *walk,
				       u64 block)
{
	if (block + RXC_LOOK_AHEAD < walk->end)
		look_far(index, &walk->places[block % RXC_LOOK_AHEAD], block + RXC_LOOK_AHEAD);
	if (block + RXC_GUESS_AHEAD < walk->end)
		guess(index, &walk->places[(block + RXC_GUESS_AHEAD) % RXC_LOOK_AHEAD]);
}

/**
 * rxc_index_begin_walk - prefetch the cache lines for the look-up of consecutive blocks
 * @index: the index
 * @first: first block
 * @end: the block after the last one
 * @walk: set up for rxc_index_hit() or rxc_index_walk(), with the same index
 *
 * Call under rcu_read_lock().
 */
void rxc_index_begin_walk(const struct rxc_index *index, u64 first, u64 end, struct rxc_walk *walk)
{
	u64 block;

	walk->end = end;
	for (block = first; block < min(end, first + RXC_LOOK_AHEAD); block++)
		look_far(index, &walk->places[block % RXC_LOOK_AHEAD], block);
}

/**
 * rxc_index_walk - prefetch what later blocks need, without looking up this one
 * @index: the index
 * @walk: what rxc_index_begin_walk() has set up
 * @block: block number; each in turn
 *
 * Call under rcu_read_lock().
 */
void rxc_index_walk(const struct rxc_index *index, struct rxc_walk *walk, u64 block)
{
	look_ahead(index, walk, block);
}

static __always_inline long find_from(const struct rxc_index *index, u64 block,
				      struct rxc_place place)
{
	const struct rxc_hints *hints = &index->hints[place.set];
	unsigned long first = first_slot(index, place.set);
	u64 hint = EACH_HINT(place.hint);
	unsigned int word = place.word;
	unsigned int i;
	u64 matches;
	long slot;

	for (i = 0; i < HINT_WORDS; i++) {
		matches = match_hints(READ_ONCE(hints->word[word]), hint);
		for (; matches; matches &= matches - 1) {
			slot = first + next_match(matches, word);
			/*
			 * No acquire: who goes on to the data reads the tag again, in
			 * page_of_hit().
			 */
			if (is_valid(READ_ONCE(index->tags[slot]), block))
				return slot;
		}
		word = next_word(word);
	}
	return -1;
}

/**
 * rxc_index_find - find the slot of a block
 * @index: the index
 * @block: block number
 *
 * Takes no lock, so the answer may be out of date on return.
 *
 * Return: the slot that holds the valid block, or -1.
 */
long rxc_index_find(struct rxc_index *index, u64 block)
{
	return find_from(index, block, place_of(index, block));
}

/**
 * rxc_index_block_in - get the number of the block in a slot
 * @index: the index
 * @slot: the slot
 * @block: set to the block number
 *
 * Takes no lock, so the answer may be out of date on return.
 *
 * Return: true if the slot holds a valid block.
 */
bool rxc_index_block_in(struct rxc_index *index, unsigned long slot, u64 *block)
{
	u64 tag = READ_ONCE(index->tags[slot]);

	*block = rxc_tag_block(tag);
	return rxc_tag_state(tag) == RXC_VALID;
}

/* Tell the policy that a block was used. @tag: the tag that the look-up has seen. */
static __always_inline void touch(struct rxc_index *index, unsigned long slot, u64 tag)
{
	u64 new;

	/* Most blocks in use have reached the maximum. */
	if (likely((tag & RXC_TAG_USES) == RXC_TAG_USES))
		return;
	new = (tag & ~RXC_TAG_POLICY) | (u64)rxc_policy_touch(tag) << RXC_TAG_POLICY_SHIFT;
	/* If a racing update wins, this one is lost: the count need not be exact. */
	cmpxchg_relaxed(&index->tags[slot], tag, new);
}

/*
 * If the page pointer is the same before and after the tag was valid, it did not change in
 * between, because a page never enters a slot twice within a grace period while there is I/O. So
 * it is the page of the block in the tag.
 */
static __always_inline struct page *page_of_hit(const struct rxc_index *index, unsigned long slot,
						u64 block, unsigned int i, u64 *tag)
{
	struct page __rcu **place;
	struct page *page;

	place = rxd_store_slot(index->store, slot * index->block_pages + i);
	if (unlikely(!place))
		return NULL;
	page = rcu_dereference(*place);
	/* Pairs with replace_pages() and vacate_slot(). */
	smp_rmb();
	/* Pairs with set_state(). */
	*tag = smp_load_acquire(&index->tags[slot]);
	if (!is_valid(*tag, block) || rcu_access_pointer(*place) != page)
		return NULL;
	return page;
}

/* There was no guess, or it was wrong, or the block has moved since then. */
static struct page *search_hit(struct rxc_index *index, u64 block, struct rxc_place place,
			       unsigned int i, unsigned long *slot, u64 *tag)
{
	long found = find_from(index, block, place);

	if (found < 0)
		return NULL;
	*slot = found;
	return page_of_hit(index, found, block, i, tag);
}

/**
 * rxc_index_hit - find the next block of a walk, get a page of it, and tell the policy
 * @index: the index
 * @walk: what rxc_index_begin_walk() has set up
 * @block: block number; each in turn, and once
 * @i: number of the page in the block
 * @slot: set to its slot, if the block was found
 *
 * Call under rcu_read_lock().
 *
 * Return: the page, as of rxc_index_hit_page(), or NULL if the block is not cached.
 */
struct page *rxc_index_hit(struct rxc_index *index, struct rxc_walk *walk, u64 block,
			   unsigned int i, unsigned long *slot)
{
	struct rxc_place place = walk->places[block % RXC_LOOK_AHEAD];
	struct page *page = NULL;
	u64 tag;

	look_ahead(index, walk, block);
	if (place.slot >= 0) {
		*slot = place.slot;
		page = page_of_hit(index, *slot, block, i, &tag);
	}
	if (!page)
		page = search_hit(index, block, place, i, slot, &tag);
	if (likely(page))
		touch(index, *slot, tag);
	return page;
}

/**
 * rxc_index_hit_page - get a page of a block that was found
 * @index: the index
 * @slot: what rxc_index_find() returned, or rxc_index_hit() has set
 * @block: block number
 * @i: number of the page in the block
 *
 * Call under rcu_read_lock(). Until rcu_read_unlock(), the page holds data of this block,
 * or newer data of the same block.
 *
 * Return: the page, or NULL if the block has left the slot.
 */
struct page *rxc_index_hit_page(struct rxc_index *index, unsigned long slot, u64 block,
				unsigned int i)
{
	u64 tag;

	return page_of_hit(index, slot, block, i, &tag);
}

/**
 * rxc_index_own_page - get a page of a slot that the caller owns
 * @index: the index
 * @slot: the slot, which the caller fills or writes
 * @i: number of the page in the block
 *
 * Return: the page, which stays until the fill or the write ends.
 */
struct page *rxc_index_own_page(struct rxc_index *index, unsigned long slot, unsigned int i)
{
	struct page __rcu **place;
	struct page *page;

	rcu_read_lock();
	place = rxd_store_slot(index->store, slot * index->block_pages + i);
	page = place ? rcu_dereference(*place) : NULL;
	rcu_read_unlock();
	return page;
}

/**
 * rxc_index_region_end - find the end of the region of a block
 * @index: the index
 * @block: block number
 *
 * Return: the block after the last one of the region.
 */
u64 rxc_index_region_end(const struct rxc_index *index, u64 block)
{
	return rxc_ranges_region_end(&index->ranges, block);
}
