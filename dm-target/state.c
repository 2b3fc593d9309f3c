// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of slots: which block gets a slot, when it becomes valid, and when it leaves.
 *
 * A page belongs to one block as long as it exists. A slot that is given to another block
 * gets new pages. The old pages are freed after an RCU grace period, so a reader that has
 * found a page can still copy it.
 *
 * A write without a slot announces its range of blocks. No block of the range enters the
 * cache while the write is in flight, because it is unknown which data the origin is going
 * to hold.
 */
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/numa.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

#include "../module/rxd.h"
#include "index-internal.h"
#include "policy.h"

/* Sets that one call of rxc_index_make_room() searches for a block to evict. */
#define MAX_HAND_STEPS	1024
/* Below a limit, the fullest one of so many sets evicts. */
#define CHOICES		8
/* So many blocks of the fullest set leave before another set is searched, or this part of them. */
#define VICTIMS_PART	8
#define VICTIMS_MOST	4U
/* The policy learns of a new limit if that differs by this part of the last one. */
#define MIN_STEP	128
/* How long the search pauses after no set had a block to evict. */
#define NO_ROOM_TIME	(HZ / 20)

static void set_state(u64 *tag, enum rxc_state state)
{
	/* Pairs with the acquire in page_of_hit(). */
	smp_store_release(tag, (READ_ONCE(*tag) & ~(RXC_TAG_STATE | RXC_TAG_DOOMED)) | state);
}

static void doom(u64 *tag)
{
	WRITE_ONCE(*tag, READ_ONCE(*tag) | RXC_TAG_DOOMED);
}

/* Find the way of a block in any state but EMPTY. Return: -1 if there is none. */
static int find_way(struct rxc_index *index, unsigned long set, u64 block)
{
	const u64 *tags = &index->tags[first_slot(index, set)];
	const u32 hash = hash_of(block);
	const u64 hint = EACH_HINT(hint_of(hash));
	unsigned int word = home_of(index, hash);
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

static void remove_pages(struct rxc_index *index, unsigned long slot, unsigned int nr)
{
	unsigned int i;

	/* Removing pages allocates nothing and cannot fail. */
	for (i = 0; i < nr; i++)
		rxd_store_exchange(index->store, slot * index->block_pages + i, NULL,
				   RXD_GFP_NOWAIT);
}

/* Move the pages of a slot to a list. */
static void take_pages(struct rxc_index *index, unsigned long slot, struct list_head *pages)
{
	struct page *page;
	unsigned int i;

	for (i = 0; i < index->block_pages; i++) {
		page = rxd_store_take(index->store, slot * index->block_pages + i);
		if (page)
			list_add(&page->lru, pages);
	}
}

static void drop_pages(struct list_head *pages, unsigned int nr)
{
	struct page *page;

	for (; nr; nr--) {
		page = list_first_entry(pages, struct page, lru);
		list_del(&page->lru);
		rxd_store_free_page(page);
	}
}

/*
 * Move the pages of one block from the list to a slot. The list always holds the pages of
 * whole blocks: on failure, either all pages of this block stay on the list, or none.
 */
static int install_pages(struct rxc_index *index, unsigned long slot, struct list_head *pages)
{
	gfp_t gfp = rxd_store_would_borrow(index->store, index->block_pages) ? RXD_GFP_LENT :
									       RXD_GFP_NOWAIT;
	struct page *page;
	unsigned int i;
	int ret;

	for (i = 0; i < index->block_pages; i++) {
		page = list_first_entry(pages, struct page, lru);
		list_del(&page->lru);
		ret = rxd_store_exchange(index->store, slot * index->block_pages + i, page, gfp);
		if (ret) {
			list_add(&page->lru, pages);
			if (i)
				drop_pages(pages, index->block_pages - i);
			remove_pages(index, slot, i);
			return ret;
		}
	}
	return 0;
}

/* @pages: the list for the pages, or NULL: free them after a grace period. */
static void vacate_slot(struct rxc_index *index, unsigned long slot, struct list_head *pages)
{
	assert_locked(index, slot / index->ways);
	set_state(&index->tags[slot], RXC_EMPTY);
	/* The tag changes before the pages go: pairs with page_of_hit(). */
	smp_wmb();
	if (pages)
		take_pages(index, slot, pages);
	else
		remove_pages(index, slot, index->block_pages);
	this_cpu_dec(index->stats->used);
}

static void empty_slot(struct rxc_index *index, unsigned long slot)
{
	vacate_slot(index, slot, NULL);
}

/*
 * Give the slot new pages. Each replaces an existing page, so it needs no room in the limit
 * and no new leaf.
 */
static int replace_pages(struct rxc_index *index, unsigned long slot, struct list_head *pages)
{
	int ret;

	assert_locked(index, slot / index->ways);
	/* The tag changes before the pages do: pairs with page_of_hit(). */
	smp_wmb();
	ret = install_pages(index, slot, pages);
	WARN_ON_ONCE(ret);
	return ret;
}

static bool is_limited(const struct rxc_index *index)
{
	return READ_ONCE(index->limit) < rxc_index_nr_slots(index);
}

/* So many slots of a set hold blocks if all sets have the same part of the limit. */
static unsigned int fair_part(const struct rxc_index *index, unsigned long set)
{
	/* A permutation of the sets, as the factor is prime: the parts add up to the limit. */
	unsigned long dither = set * 2654435761UL % index->nr_sets;

	return max((READ_ONCE(index->limit) + dither) / index->nr_sets, 1UL);
}

static unsigned int count_valid(const struct rxc_index *index, unsigned long set)
{
	const u64 *tags = &index->tags[first_slot(index, set)];
	unsigned int way, nr = 0;

	for (way = 0; way < index->ways; way++)
		nr += rxc_tag_state(READ_ONCE(tags[way])) == RXC_VALID;
	return nr;
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

/* Is the last slot within the limit about to be used? */
static bool is_full(const struct rxc_index *index)
{
	return is_limited(index) &&
	       !rxd_store_has_room(index->store, 2UL * index->block_pages);
}

/* A set that has its part of the limit replaces a block of its own, as if it had no other slots. */
static bool has_its_part(const struct rxc_index *index, unsigned long set)
{
	const u64 *tags = &index->tags[first_slot(index, set)];
	unsigned int part = fair_part(index, set), nr = 0, way;

	for (way = 0; way < index->ways; way++)
		nr += rxc_tag_state(READ_ONCE(tags[way])) != RXC_EMPTY;
	return nr >= part && has_valid(index, set);
}

/*
 * Give a slot of the set to a block, with pages from the list @pages. On failure, the pages
 * that are left stay on the list.
 */
static enum rxc_fate take_slot(struct rxc_index *index, unsigned long set, u64 block,
			       enum rxc_state state, struct list_head *pages,
			       unsigned long *slot)
{
	unsigned long first = first_slot(index, set);
	u64 *tags = &index->tags[first];
	bool full = is_full(index);
	unsigned long bits;
	int way;

	assert_locked(index, set);
	if (list_empty(pages))
		return RXC_FATE_NEED_PAGES;
	way = find_empty(index, tags, block);
	if (way >= 0 && !(full && has_its_part(index, set))) {
		*slot = first + way;
		if (!rxd_store_has_room(index->store, index->block_pages) ||
		    install_pages(index, *slot, pages))
			return RXC_FATE_SHORT;
		bits = rxc_policy_insert(index->policy, set, tags, block, !full);
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

/* Ways of a set whose block is on a node. @nid: the node, or NUMA_NO_NODE: any */
static u64 ways_on_node(struct rxc_index *index, unsigned long set, int nid)
{
	unsigned long first = first_slot(index, set);
	struct page *page;
	unsigned int way;
	u64 ways = 0;

	assert_locked(index, set);
	if (nid == NUMA_NO_NODE)
		return RXC_ALL_WAYS;
	for (way = 0; way < index->ways; way++) {
		if (rxc_tag_state(READ_ONCE(index->tags[first + way])) != RXC_VALID)
			continue;
		/* The other pages of a block are mostly on the node of the first one. */
		page = rxc_index_own_page(index, first + way, 0);
		if (page && page_to_nid(page) == nid)
			ways |= BIT_ULL(way);
	}
	return ways;
}

static bool evict_from(struct rxc_index *index, unsigned long set, int nid,
		       struct list_head *pages)
{
	struct rxc_bucket *bucket = bucket_of(index, set);
	unsigned long first = first_slot(index, set);
	unsigned long flags;
	int way;

	spin_lock_irqsave(&bucket->lock, flags);
	way = rxc_policy_victim_among(index->policy, set, &index->tags[first],
				      ways_on_node(index, set, nid));
	if (way >= 0) {
		vacate_slot(index, first + way, pages);
		rxc_stat_inc(index->stats, RXC_EVICTIONS);
	}
	spin_unlock_irqrestore(&bucket->lock, flags);
	return way >= 0;
}

static bool has_no_room(const struct rxc_index *index)
{
	return time_before(jiffies, READ_ONCE(index->no_room_until));
}

/* A block became valid, so let rxc_index_make_room() search again. */
static void look_again(struct rxc_index *index)
{
	WRITE_ONCE(index->round, atomic_long_read(&index->hand));
	WRITE_ONCE(index->no_room_until, jiffies);
}

/*
 * Find a set with a block to evict, from @hand on. Below a limit of the index, it is the fullest
 * one of several, so that no set loses more than others. The hash spreads these over all sets, and
 * so evenly that three times as many steps as sets reach each.
 *
 * Return: the set, or -1 if there is none among the next sets, @steps of them at most. @most is set
 * to the number of its blocks if there is a limit.
 */
static long find_full_set(struct rxc_index *index, bool limited, unsigned long *hand,
			  unsigned long *steps, unsigned int *most)
{
	unsigned int choices = limited ? CHOICES : 1, nr;
	unsigned long set;
	long fullest = -1;

	*most = 0;
	for (; *steps && choices; (*steps)--) {
		*hand = atomic_long_inc_return(&index->hand);
		set = limited ? reciprocal_scale(hash_64(*hand, 32), index->nr_sets) :
				*hand % index->nr_sets;
		nr = limited ? count_valid(index, set) : has_valid(index, set);
		choices -= nr > 0;
		if (nr > *most) {
			*most = nr;
			fullest = set;
		}
	}
	return fullest;
}

/*
 * @nid: evict a block of this node; NUMA_NO_NODE: of any
 * @victims: set to the set of the block
 * @pages: the list for the pages, or NULL: free them after a grace period
 */
static bool evict_one(struct rxc_index *index, int nid, struct rxc_victims *victims,
		      struct list_head *pages)
{
	/* The fullest set may have no block of the node. So all have their turn. */
	bool limited = is_limited(index) && nid == NUMA_NO_NODE;
	unsigned long round = limited ? 3 * index->nr_sets : index->nr_sets;
	unsigned long steps = min_t(unsigned long, round, MAX_HAND_STEPS);
	unsigned long hand = 0;
	unsigned int most;
	long set, searched;
	bool evicted;

	do {
		set = find_full_set(index, limited, &hand, &steps, &most);
		evicted = set >= 0 && evict_from(index, set, nid, pages);
		/* A search of one node passes blocks of others, which a later search may evict. */
		if (evicted || (set >= 0 && nid != NUMA_NO_NODE))
			WRITE_ONCE(index->round, hand);
		if (evicted) {
			victims->set = set;
			victims->left = clamp(most / VICTIMS_PART, 1U, VICTIMS_MOST) - 1;
			return true;
		}
	} while (steps);
	/* Another task may have gone on from here, and may have found a block: then this is < 0. */
	searched = hand - READ_ONCE(index->round);
	/* Without a block of one node, there may be others. Only misses rest. */
	if (!pages && nid == NUMA_NO_NODE && searched >= (long)round)
		WRITE_ONCE(index->no_room_until, jiffies + NO_ROOM_TIME);
	return false;
}

/**
 * rxc_index_make_room - evict a block because memory is short
 * @index: the index
 *
 * The sets evict in turn, so that the content of every set changes. The limit of the store
 * has room at once; the memory is free after a grace period. If a search of all sets finds
 * nothing, the search pauses for NO_ROOM_TIME, or until a block becomes valid.
 *
 * Return: true if a block was evicted.
 */
bool rxc_index_make_room(struct rxc_index *index)
{
	struct rxc_victims victims;

	return !has_no_room(index) && evict_one(index, NUMA_NO_NODE, &victims, NULL);
}

/**
 * rxc_index_take_out - evict a block, and give its pages to the caller
 * @index: the index
 * @nid: evict a block of this node; NUMA_NO_NODE: of any
 * @victims: the set of the last block, which has the next one, too, if it was full enough
 * @pages: the list for the pages; see rxd_store_free_taken()
 *
 * May be called by reclaim, and for a task that would be killed: it searches also in the pause of
 * rxc_index_make_room(), because a block may have become valid while that search ended. The search
 * of a node is not a full one, so it may miss the last blocks.
 *
 * Return: true if a block was evicted.
 */
bool rxc_index_take_out(struct rxc_index *index, int nid, struct rxc_victims *victims,
			struct list_head *pages)
{
	if (victims->left) {
		victims->left--;
		if (evict_from(index, victims->set, nid, pages))
			return true;
	}
	return evict_one(index, nid, victims, pages);
}

/**
 * rxc_index_min_limit - get the lowest limit
 * @index: the index
 *
 * Return: number of blocks.
 */
unsigned long rxc_index_min_limit(const struct rxc_index *index)
{
	return max_t(unsigned long, DIV_ROUND_UP(rxc_index_nr_slots(index), RXC_SIZE_PARTS),
		     RXC_SLOTS_MIN);
}

/**
 * rxc_index_limit - get the limit of the number of cached blocks
 * @index: the index
 *
 * Return: number of blocks; without a limit, that of the slots.
 */
unsigned long rxc_index_limit(const struct rxc_index *index)
{
	return READ_ONCE(index->limit);
}

/**
 * rxc_index_set_limit - limit the number of cached blocks
 * @index: the index
 * @nr: number of blocks, at least rxc_index_min_limit()
 *
 * From now on, blocks enter within the limit only. The caller evicts those beyond it by
 * rxc_index_make_room(), and serialises calls.
 */
void rxc_index_set_limit(struct rxc_index *index, unsigned long nr)
{
	unsigned long nr_slots = rxc_index_nr_slots(index), last = index->policy_limit;

	nr = min(nr, nr_slots);
	WRITE_ONCE(index->limit, nr);
	/* The policy rounds its shares, which would add up over many small steps. */
	if (nr == nr_slots || abs((long)(nr - last)) > last / MIN_STEP) {
		index->policy_limit = nr;
		rxc_policy_set_capacity(index->policy, nr);
	}
	rxd_store_set_cap(index->store, nr < nr_slots ? nr * index->block_pages : ULONG_MAX);
}

/*
 * Would it help to evict a block? It does if the limit of the store is reached, unless an
 * attempt that failed half-way has used up the pages. It does not if there are blocks beyond the
 * limit of the index, which others evict: one block less would not make room.
 */
static bool needs_room(const struct rxc_index *index, const struct list_head *pages)
{
	return !rxd_store_has_room(index->store, index->block_pages) && !list_empty(pages) &&
	       !rxd_store_excess(index->store);
}

/*
 * May a block that is not cached enter the cache? A write lists its range before it takes
 * the lock of the bucket: see rxc_index_begin_range().
 */
static bool may_enter(struct rxc_index *index, u64 block)
{
	assert_locked(index, set_of(index, block));
	return !rxc_ranges_hold(&index->ranges, block);
}

/* May a fill or a write get the slot @way of its block, or a new slot if @way < 0? */
static bool may_begin(struct rxc_index *index, const u64 *tags, int way, u64 block,
		      enum rxc_state state, bool whole)
{
	if (way >= 0)
		return state == RXC_WRITE && rxc_tag_state(READ_ONCE(tags[way])) == RXC_VALID;
	return whole && may_enter(index, block);
}

static bool can_begin(struct rxc_index *index, u64 block, enum rxc_state state, bool whole)
{
	unsigned long set = set_of(index, block);
	struct rxc_bucket *bucket = bucket_of(index, set);
	u64 *tags = &index->tags[first_slot(index, set)];
	unsigned long flags;
	bool can;
	int way;

	spin_lock_irqsave(&bucket->lock, flags);
	way = find_way(index, set, block);
	can = may_begin(index, tags, way, block, state, whole);
	spin_unlock_irqrestore(&bucket->lock, flags);
	return can;
}

static enum rxc_fate try_to_begin(struct rxc_index *index, u64 block, enum rxc_state state,
				  bool whole, struct list_head *pages, unsigned long *slot)
{
	unsigned long set = set_of(index, block);
	struct rxc_bucket *bucket = bucket_of(index, set);
	u64 *tags = &index->tags[first_slot(index, set)];
	enum rxc_fate fate;
	unsigned long flags;
	int way;

	spin_lock_irqsave(&bucket->lock, flags);
	way = find_way(index, set, block);
	if (!may_begin(index, tags, way, block, state, whole)) {
		fate = RXC_FATE_UNTRACKED;
	} else if (way < 0) {
		fate = take_slot(index, set, block, state, pages, slot);
	} else {
		fate = RXC_FATE_TRACKED;
		*slot = first_slot(index, set) + way;
		set_state(&tags[way], state);
		if (whole && !list_empty(pages))
			replace_pages(index, *slot, pages);
	}
	spin_unlock_irqrestore(&bucket->lock, flags);
	if (fate == RXC_FATE_TRACKED && state == RXC_WRITE)
		rxc_stat_inc(index->stats, way < 0 ? RXC_WRITE_MISSES : RXC_WRITE_HITS);
	return fate;
}

static enum rxc_fate begin(struct rxc_index *index, u64 block, enum rxc_state state,
			   bool whole, struct list_head *pages, unsigned long *slot)
{
	enum rxc_fate fate = try_to_begin(index, block, state, whole, pages, slot);

	if (unlikely(fate == RXC_FATE_SHORT) && needs_room(index, pages) &&
	    rxc_index_make_room(index))
		fate = try_to_begin(index, block, state, whole, pages, slot);
	return fate;
}

/**
 * rxc_index_begin_fill - request a slot for a block that is not cached
 * @index: the index
 * @block: block number
 * @pages: list of pages for this block and perhaps for others, linked through lru
 * @slot: set to the slot if the fate is RXC_FATE_TRACKED
 *
 * Return:
 * * RXC_FATE_TRACKED: read the origin into the pages of the slot, and then call
 *   rxc_index_end_fill()
 * * RXC_FATE_NEED_PAGES: @pages is empty
 * * RXC_FATE_UNTRACKED: the block is cached by now, or in use: bypass the cache
 * * RXC_FATE_SHORT: bypass the cache, for the following blocks as well
 */
enum rxc_fate rxc_index_begin_fill(struct rxc_index *index, u64 block,
				   struct list_head *pages, unsigned long *slot)
{
	return begin(index, block, RXC_FILL, true, pages, slot);
}

/**
 * rxc_index_can_fill - check whether rxc_index_begin_fill() may give a slot
 * @index: the index
 * @block: block number
 *
 * Return: true if it may; the answer may be out of date on return.
 */
bool rxc_index_can_fill(struct rxc_index *index, u64 block)
{
	return can_begin(index, block, RXC_FILL, true);
}

/**
 * rxc_index_is_filling - check whether a read may wait for the fill of a block
 * @index: the index
 * @block: block number
 *
 * Return: true if the block is being filled, and no write to it was announced since
 * rxc_index_begin_fill(). The fill then reads the data of every write that has completed
 * by now.
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

/* Return: true if the block is cached now. */
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
 * rxc_index_end_fill - report the end of a fill
 * @index: the index
 * @block: block number, for which rxc_index_begin_fill() gave a slot
 * @ok: the pages hold the data of the origin
 *
 * May be called in atomic context. The caller no longer owns the slot.
 */
void rxc_index_end_fill(struct rxc_index *index, u64 block, bool ok)
{
	if (end_io(index, block, ok))
		rxc_stat_inc(index->stats, RXC_FILLS);
}

/**
 * rxc_index_can_write - check whether rxc_index_begin_write() may give a slot
 * @index: the index
 * @block: block number
 * @whole: the write covers the whole block
 *
 * Return: true if it may; the answer may be out of date on return.
 */
bool rxc_index_can_write(struct rxc_index *index, u64 block, bool whole)
{
	return can_begin(index, block, RXC_WRITE, whole);
}

/**
 * rxc_index_begin_write - request the slot of a block, or a new one, for a write
 * @index: the index
 * @block: block number
 * @whole: the write covers the whole block
 * @pages: list of pages for this block and perhaps for others, linked through lru
 * @slot: set to the slot if the fate is RXC_FATE_TRACKED
 *
 * If @whole, a cached block gets new pages, too, unless @pages is empty.
 *
 * Return:
 * * RXC_FATE_TRACKED: copy the data into the pages of the slot, write the origin from
 *   these pages, and then call rxc_index_end_write()
 * * RXC_FATE_NEED_PAGES: a new slot needs pages, and @pages is empty
 * * RXC_FATE_UNTRACKED, RXC_FATE_SHORT: call rxc_index_begin_range() and bypass the cache
 */
enum rxc_fate rxc_index_begin_write(struct rxc_index *index, u64 block, bool whole,
				    struct list_head *pages, unsigned long *slot)
{
	return begin(index, block, RXC_WRITE, whole, pages, slot);
}

/**
 * rxc_index_end_write - report the end of a write from a slot
 * @index: the index
 * @block: block number, for which rxc_index_begin_write() gave a slot
 * @ok: the origin holds the data
 *
 * May be called in atomic context. The caller no longer owns the slot.
 */
void rxc_index_end_write(struct rxc_index *index, u64 block, bool ok)
{
	if (!end_io(index, block, ok))
		rxc_stat_inc(index->stats, RXC_INVALIDATIONS);
}

/* Return: true if pages were freed, which may take a while. */
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
		if (!rxc_range_holds(range, rxc_tag_block(READ_ONCE(index->tags[slot]))) ||
		    !drop_slot(index, slot))
			continue;
		/* A block may have many pages, so enable interrupts after each block. */
		spin_unlock_irqrestore(&bucket->lock, flags);
		spin_lock_irqsave(&bucket->lock, flags);
	}
	spin_unlock_irqrestore(&bucket->lock, flags);
}

/**
 * rxc_index_drop - remove a range of blocks from the cache
 * @index: the index
 * @first: first block
 * @nr: number of blocks
 *
 * Blocks that are being filled or written leave when their I/O ends. May sleep.
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
 * rxc_index_begin_range - announce a write that bypasses the cache
 * @index: the index
 * @range: blocks of the write; in use until rxc_index_end_range()
 *
 * The range leaves the cache, and no block of it enters the cache until
 * rxc_index_end_range(). Ranges of several writes may overlap. May sleep, unless the range
 * ends at rxc_index_region_end() or before.
 *
 * If a fill locks the bucket before this function does, it leaves a tag, which is doomed
 * here. If it locks the bucket afterwards, it sees the range:
 *
 *	write that bypasses the cache	fill, or write that needs a slot
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
 *	remove the range from the list
 */
void rxc_index_begin_range(struct rxc_index *index, struct rxc_range *range)
{
	u64 block;

	rxc_ranges_add(&index->ranges, range);
	if (!rxc_range_in_region(&index->ranges, range)) {
		rxc_index_drop(index, range->first, range->nr);
		return;
	}
	for (block = range->first; block < range->first + range->nr; block++)
		drop_block(index, block);
}

/**
 * rxc_index_end_range - report the end of a write that bypassed the cache
 * @index: the index
 * @range: the range that was passed to rxc_index_begin_range()
 *
 * May be called in atomic context.
 */
void rxc_index_end_range(struct rxc_index *index, struct rxc_range *range)
{
	rxc_ranges_remove(&index->ranges, range);
}
