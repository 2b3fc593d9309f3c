// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the index of a cache, which maps blocks to slots.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/hash.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/rcupdate.h>
#include <uapi/linux/rxd.h>

#include "../dm-target/index-internal.h"
#include "../module/store.h"
#include "crew.h"
#include "fault.h"
#include "index-test.h"

#define HAMMER_ROUNDS	8
#define HAMMER_MSECS	500

struct cache {
	struct rxd_store *store;
	struct rxc_index *index;
	struct rxc_stats __percpu *stats;
	unsigned int block_pages;
};

KUNIT_DEFINE_ACTION_WRAPPER(destroy_store, rxd_store_destroy, struct rxd_store *);
KUNIT_DEFINE_ACTION_WRAPPER(destroy_index, rxc_index_destroy, struct rxc_index *);
KUNIT_DEFINE_ACTION_WRAPPER(free_stats, free_percpu, struct rxc_stats __percpu *);

static struct cache *make_store(struct kunit *test, unsigned long nr_pages)
{
	static const struct rxd_store_options plain = { .node = RXD_NODE_LOCAL };
	struct cache *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->store = rxd_store_create(nr_pages, &plain);
	KUNIT_ASSERT_NOT_NULL(test, c->store);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_store, c->store), 0);
	c->stats = alloc_percpu(struct rxc_stats);
	KUNIT_ASSERT_NOT_NULL(test, (void __force *)c->stats);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_stats,
							(void __force *)c->stats), 0);
	return c;
}

static struct cache *make_small_cache(struct kunit *test, unsigned long nr_slots,
				      unsigned int block_pages)
{
	struct cache *c = make_store(test, nr_slots * block_pages);

	c->block_pages = block_pages;
	c->index = rxc_index_create(c->store, block_pages, c->stats);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c->index);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_index, c->index), 0);
	return c;
}

static struct cache *make_cache(struct kunit *test, unsigned long nr_sets,
				unsigned int block_pages)
{
	return make_small_cache(test, nr_sets * RXC_WAYS, block_pages);
}

static u64 stat(const struct cache *c, enum rxc_stat which)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu_ptr(c->stats, cpu)->count[which];
	return sum;
}

static s64 used(const struct cache *c)
{
	s64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu_ptr(c->stats, cpu)->used;
	return sum;
}

static unsigned long pages_used(const struct cache *c)
{
	struct rxd_store_stats stats;

	rxd_store_get_stats(c->store, &stats);
	return stats.used;
}

static void get_pages(struct kunit *test, struct cache *c, struct list_head *pages)
{
	struct page *page;
	unsigned int i;

	for (i = 0; i < c->block_pages; i++) {
		page = rxd_store_alloc_page(c->store, 0, RXD_GFP);
		KUNIT_ASSERT_NOT_NULL(test, page);
		list_add(&page->lru, pages);
	}
}

/* Return: number of pages that were freed. */
static unsigned int put_pages(struct list_head *pages)
{
	struct page *page, *next;
	unsigned int nr = 0;

	list_for_each_entry_safe(page, next, pages, lru) {
		rxd_store_free_page(page);
		nr++;
	}
	INIT_LIST_HEAD(pages);
	return nr;
}

static enum rxc_fate begin_fill(struct kunit *test, struct cache *c, u64 block,
				unsigned long *slot)
{
	enum rxc_fate fate;
	LIST_HEAD(pages);

	get_pages(test, c, &pages);
	fate = rxc_index_begin_fill(c->index, block, &pages, slot);
	put_pages(&pages);
	return fate;
}

static enum rxc_fate begin_write(struct kunit *test, struct cache *c, u64 block, bool whole,
				 unsigned long *slot)
{
	enum rxc_fate fate;
	LIST_HEAD(pages);

	get_pages(test, c, &pages);
	fate = rxc_index_begin_write(c->index, block, whole, &pages, slot);
	put_pages(&pages);
	return fate;
}

static bool may_fill(struct cache *c, u64 block)
{
	unsigned long slot;
	LIST_HEAD(pages);

	return rxc_index_begin_fill(c->index, block, &pages, &slot) == RXC_FATE_NEED_PAGES;
}

static void set_data(struct cache *c, unsigned long slot, u8 byte)
{
	unsigned int i;

	for (i = 0; i < c->block_pages; i++)
		memset(page_address(rxc_index_own_page(c->index, slot, i)), byte, PAGE_SIZE);
}

static unsigned long fill(struct kunit *test, struct cache *c, u64 block, u8 byte)
{
	unsigned long slot = 0;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, block, &slot), RXC_FATE_TRACKED);
	set_data(c, slot, byte);
	rxc_index_end_fill(c->index, block, true);
	return slot;
}

/* The first page of a block, as hits find it. Call under rcu_read_lock(). */
static struct page *look_up(struct cache *c, u64 block)
{
	struct rxc_walk walk;
	unsigned long slot;

	rxc_index_begin_walk(c->index, block, block + 1, &walk);
	return rxc_index_hit(c->index, &walk, block, 0, &slot);
}

/* Read a block as hits do, which tells the policy. Return: true if it is cached. */
static bool hit(struct cache *c, u64 block)
{
	struct page *page;

	rcu_read_lock();
	page = look_up(c, block);
	rcu_read_unlock();
	return page;
}

static bool holds(struct cache *c, u64 block)
{
	return rxc_index_find(c->index, block) >= 0;
}

static unsigned int count_held(struct cache *c, u64 first, u64 nr)
{
	unsigned int held = 0;
	u64 block;

	for (block = first; block < first + nr; block++)
		held += holds(c, block);
	return held;
}

static bool block_is(struct cache *c, u64 block, u8 byte)
{
	long slot = rxc_index_find(c->index, block);
	struct page *page;
	unsigned int i;
	bool is = slot >= 0;

	for (i = 0; i < c->block_pages && is; i++) {
		rcu_read_lock();
		page = rxc_index_hit_page(c->index, slot, block, i);
		is = page && !memchr_inv(page_address(page), byte, PAGE_SIZE);
		rcu_read_unlock();
	}
	return is;
}

/* Creation */

static void create_is_empty(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 1);

	KUNIT_EXPECT_EQ(test, rxc_index_nr_slots(c->index), 4 * RXC_WAYS);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 1000), 0);
	KUNIT_EXPECT_EQ(test, used(c), 0);
}

static void create_counts_whole_blocks(struct kunit *test)
{
	struct cache *c = make_store(test, 3 * RXC_WAYS * 2 + 1);

	c->index = rxc_index_create(c->store, 2, c->stats);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, c->index);
	KUNIT_EXPECT_EQ(test, rxc_index_nr_slots(c->index), 3 * RXC_WAYS);
	rxc_index_destroy(c->index);
}

static void create_wastes_few_slots(struct kunit *test)
{
	unsigned long nr, waste;
	struct cache *c;

	for (nr = RXC_SLOTS_MIN; nr < 5 * RXC_WAYS; nr++) {
		c = make_small_cache(test, nr, 1);
		KUNIT_ASSERT_LE(test, rxc_index_nr_slots(c->index), nr);
		waste = nr - rxc_index_nr_slots(c->index);
		KUNIT_ASSERT_LT(test, waste, DIV_ROUND_UP(nr, RXC_WAYS));
	}
}

static void create_smaller_than_a_cache(struct kunit *test)
{
	struct cache *c = make_store(test, 2 * RXC_SLOTS_MIN - 1);

	KUNIT_EXPECT_EQ(test, PTR_ERR(rxc_index_create(c->store, 2, c->stats)), -ENOSPC);
}

static void outgrown(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 2);
	unsigned long nr_pages = rxd_store_nr_pages(c->store);

	KUNIT_EXPECT_FALSE(test, rxc_index_is_outgrown(c->index));
	KUNIT_ASSERT_EQ(test, rxd_store_grow(c->store, nr_pages + 1), 0);
	KUNIT_EXPECT_FALSE(test, rxc_index_is_outgrown(c->index));
	KUNIT_ASSERT_EQ(test, rxd_store_grow(c->store, nr_pages + 2 * RXC_WAYS), 0);
	KUNIT_EXPECT_TRUE(test, rxc_index_is_outgrown(c->index));
}

static void create_needs_little_memory(struct kunit *test)
{
	struct cache *c = make_cache(test, SZ_16M / PAGE_SIZE / RXC_WAYS, 1);

	KUNIT_EXPECT_LE(test, rxc_index_metadata_bytes(c->index),
			16 * rxc_index_nr_slots(c->index));
}

static void create_fails_at_each_allocation(struct kunit *test)
{
	struct cache *c = make_store(test, RXC_WAYS);
	unsigned int nth, nr_errors = 0;
	struct rxc_index *index;
	bool failed;

	for (nth = 1; nth < FAULT_MAX; nth++) {
		fault_begin(nth);
		index = rxc_index_create(c->store, 1, c->stats);
		failed = fault_end();
		if (!IS_ERR(index))
			rxc_index_destroy(index);
		if (!failed)
			break;
		if (IS_ERR(index)) {
			KUNIT_EXPECT_EQ(test, PTR_ERR(index), -ENOMEM);
			nr_errors++;
		}
	}
	KUNIT_EXPECT_FALSE(test, IS_ERR(index));
	KUNIT_EXPECT_GT(test, nr_errors, 0);
	KUNIT_EXPECT_LT(test, nth, FAULT_MAX);
}

/* Fills */

static void fill_asks_for_pages(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;
	LIST_HEAD(pages);

	KUNIT_EXPECT_EQ(test, rxc_index_begin_fill(c->index, 7, &pages, &slot),
			RXC_FATE_NEED_PAGES);
	KUNIT_EXPECT_EQ(test, used(c), 0);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
}

static void fill_shows_when_it_ends(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 7, &slot), RXC_FATE_TRACKED);
	set_data(c, slot, 0x11);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	rcu_read_lock();
	KUNIT_EXPECT_NULL(test, rxc_index_hit_page(c->index, slot, 7, 0));
	rcu_read_unlock();

	rxc_index_end_fill(c->index, 7, true);
	KUNIT_EXPECT_EQ(test, rxc_index_find(c->index, 7), slot);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x11));
	KUNIT_EXPECT_EQ(test, used(c), 1);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_FILLS), 1);
}

static void fill_takes_its_pages(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 4);
	unsigned long slot;
	LIST_HEAD(pages);

	get_pages(test, c, &pages);
	KUNIT_EXPECT_EQ(test, rxc_index_begin_fill(c->index, 7, &pages, &slot),
			RXC_FATE_TRACKED);
	KUNIT_EXPECT_TRUE(test, list_empty(&pages));
	KUNIT_EXPECT_EQ(test, pages_used(c), 4);
	put_pages(&pages);
	rxc_index_end_fill(c->index, 7, false);
}

static void fill_that_fails_leaves_nothing(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 4);
	unsigned long slot;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 7, &slot), RXC_FATE_TRACKED);
	rxc_index_end_fill(c->index, 7, false);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	KUNIT_EXPECT_EQ(test, used(c), 0);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_FILLS), 0);
	KUNIT_EXPECT_TRUE(test, may_fill(c, 7));
}

static void fill_under_way_refuses_another(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot, other;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 7, &slot), RXC_FATE_TRACKED);
	KUNIT_EXPECT_EQ(test, begin_fill(test, c, 7, &other), RXC_FATE_UNTRACKED);
	rxc_index_end_fill(c->index, 7, true);
	KUNIT_EXPECT_TRUE(test, holds(c, 7));
	KUNIT_EXPECT_EQ(test, used(c), 1);
}

static void fill_of_what_is_there(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;

	fill(test, c, 7, 0x11);
	KUNIT_EXPECT_EQ(test, begin_fill(test, c, 7, &slot), RXC_FATE_UNTRACKED);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x11));
}

static void fill_blocks_of_many_pages(struct kunit *test)
{
	struct cache *c = make_cache(test, 2, 8);
	unsigned int i;

	for (i = 0; i < 8; i++)
		fill(test, c, i, i + 1);
	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_TRUE(test, block_is(c, i, i + 1));
	KUNIT_EXPECT_EQ(test, pages_used(c), 64);
}

static void fill_tells_large_numbers_apart(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);

	fill(test, c, 7, 0x11);
	fill(test, c, 7 + (1ULL << 32), 0x22);
	fill(test, c, RXC_BLOCK_MAX, 0x33);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x11));
	KUNIT_EXPECT_TRUE(test, block_is(c, 7 + (1ULL << 32), 0x22));
	KUNIT_EXPECT_TRUE(test, block_is(c, RXC_BLOCK_MAX, 0x33));
	KUNIT_EXPECT_FALSE(test, holds(c, 7 + (1ULL << 33)));
}

static void fill_of_block_zero(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);

	/* An empty tag names block 0. */
	KUNIT_EXPECT_FALSE(test, holds(c, 0));
	KUNIT_EXPECT_TRUE(test, may_fill(c, 0));
	fill(test, c, 0, 0x11);
	KUNIT_EXPECT_TRUE(test, block_is(c, 0, 0x11));
}

static void fill_uses_each_slot(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 1);
	u64 block;

	for (block = 0; block < 2000; block++)
		fill(test, c, block, block);
	KUNIT_EXPECT_EQ(test, used(c), rxc_index_nr_slots(c->index));
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 2000), rxc_index_nr_slots(c->index));
	KUNIT_EXPECT_EQ(test, stat(c, RXC_EVICTIONS), 2000 - rxc_index_nr_slots(c->index));
}

/* A block uses an empty slot of its home, eight ways of the set, as long as there is one. */
static void fill_takes_a_slot_at_home(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long homes = 0;
	unsigned long alone;
	u64 block, other;

	for (block = 0; block < 200; block++) {
		alone = fill(test, c, block, block);
		homes |= BIT(alone / 8);
		rxc_index_drop(c->index, 0, RXC_BLOCK_MAX);
		for (other = 1; other < 8; other++)
			fill(test, c, block + other * 1000, other);
		KUNIT_EXPECT_EQ(test, fill(test, c, block, block) / 8, alone / 8);
		rxc_index_drop(c->index, 0, RXC_BLOCK_MAX);
	}
	KUNIT_EXPECT_EQ(test, homes, GENMASK(7, 0));
}

static void fill_without_memory_for_leaf(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 4);
	enum rxc_fate fate;
	unsigned long slot;
	LIST_HEAD(pages);

	get_pages(test, c, &pages);
	fault_begin(1);
	fate = rxc_index_begin_fill(c->index, 7, &pages, &slot);
	KUNIT_EXPECT_TRUE(test, fault_end());
	KUNIT_EXPECT_EQ(test, fate, RXC_FATE_SHORT);
	KUNIT_EXPECT_EQ(test, put_pages(&pages), 4);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
	KUNIT_EXPECT_EQ(test, used(c), 0);
	KUNIT_EXPECT_TRUE(test, may_fill(c, 7));
}

/* Memory limit of the RAM disk */

static void limit_makes_blocks_go(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 2);
	u64 block;

	rxd_store_set_limit(c->store, 6);
	for (block = 0; block < 5; block++)
		fill(test, c, block, 0x11);
	KUNIT_EXPECT_EQ(test, pages_used(c), 6);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 5), 3);
	KUNIT_EXPECT_TRUE(test, holds(c, 4));
	KUNIT_EXPECT_EQ(test, used(c), 3);
}

static void limit_for_part_of_a_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 4);
	unsigned long slot;

	rxd_store_set_limit(c->store, 3);
	KUNIT_EXPECT_EQ(test, begin_fill(test, c, 7, &slot), RXC_FATE_SHORT);
	KUNIT_EXPECT_EQ(test, begin_write(test, c, 7, true, &slot), RXC_FATE_SHORT);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
	KUNIT_EXPECT_EQ(test, used(c), 0);
}

/* A search for a block to evict continues in other sets, until it has tried all of them. */
static void limit_is_shared_by_the_sets(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 2);
	unsigned int held, i;
	u64 block;

	rxd_store_set_limit(c->store, 2 * RXC_WAYS);
	/* These distances put many blocks in few sets. */
	for (block = 0; block < 1000; block++) {
		fill(test, c, block * RXC_WAYS, 0x11);
		KUNIT_EXPECT_TRUE(test, holds(c, block * RXC_WAYS));
	}
	KUNIT_EXPECT_EQ(test, used(c), RXC_WAYS);
	KUNIT_EXPECT_EQ(test, pages_used(c), 2 * RXC_WAYS);

	/* The sets are searched in turn, and the policy may keep one or two of the old blocks. */
	for (i = 0; i < 16 * RXC_WAYS; i++)
		fill(test, c, (1ULL << 20) + i, 0x22);
	held = 0;
	for (block = 0; block < 1000; block++)
		held += holds(c, block * RXC_WAYS);
	KUNIT_EXPECT_LT(test, held, 8);
	KUNIT_EXPECT_EQ(test, used(c), RXC_WAYS);
}

static void limit_with_all_busy(struct kunit *test)
{
	struct cache *c = make_cache(test, 2, 1);
	unsigned long slot;

	rxd_store_set_limit(c->store, 2);
	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 1, &slot), RXC_FATE_TRACKED);
	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 2, &slot), RXC_FATE_TRACKED);
	KUNIT_EXPECT_EQ(test, begin_fill(test, c, 3, &slot), RXC_FATE_SHORT);
	KUNIT_EXPECT_FALSE(test, rxc_index_make_room(c->index));
	rxc_index_end_fill(c->index, 1, true);
	KUNIT_EXPECT_EQ(test, begin_fill(test, c, 3, &slot), RXC_FATE_TRACKED);
	KUNIT_EXPECT_FALSE(test, holds(c, 1));
	rxc_index_end_fill(c->index, 2, true);
	rxc_index_end_fill(c->index, 3, true);
	KUNIT_EXPECT_EQ(test, count_held(c, 2, 2), 2);
}

/* Each thread fills two blocks at a time with pages from one list. */
#define GREEDY_PAGES	64
#define GREEDY_BLOCKS	256

struct greedy {
	struct cache *c;
	atomic_t fills, parts;
};

/* Return: false if the list holds a part of a block. */
static bool greedy_fill(struct greedy *g, u64 block, struct list_head *pages)
{
	unsigned long slot;

	if (rxc_index_begin_fill(g->c->index, block, pages, &slot) == RXC_FATE_TRACKED) {
		rxc_index_end_fill(g->c->index, block, true);
		atomic_inc(&g->fills);
	}
	return list_count_nodes(pages) % GREEDY_PAGES == 0;
}

static int greedy_thread(void *arg)
{
	struct greedy *g = arg;
	struct page *page;
	LIST_HEAD(pages);
	unsigned int i;
	u64 block;

	while (!kthread_should_stop()) {
		for (i = 0; i < 2 * GREEDY_PAGES; i++) {
			page = rxd_store_alloc_page(g->c->store, 0, RXD_GFP);
			if (page)
				list_add(&page->lru, &pages);
		}
		block = get_random_u32_below(GREEDY_BLOCKS);
		if (i == list_count_nodes(&pages) &&
		    (!greedy_fill(g, block, &pages) || !greedy_fill(g, block + 1, &pages)))
			atomic_inc(&g->parts);
		put_pages(&pages);
		cond_resched();
	}
	return 0;
}

/*
 * Threads contend for the last pages within the limit, so that blocks get a part of their pages.
 * A list must never hold a part of a block: the next block would take pages that do not exist.
 */
static void limit_under_contention(struct kunit *test)
{
	struct greedy *g = kunit_kzalloc(test, sizeof(*g), GFP_KERNEL);
	struct crew crew = {};
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, g);
	g->c = make_cache(test, 4, GREEDY_PAGES);
	rxd_store_set_limit(g->c->store, 8 * GREEDY_PAGES);
	for (i = 0; i < 4; i++)
		crew_add(test, &crew, greedy_thread, g);
	crew_run(&crew, 4 * HAMMER_MSECS);
	KUNIT_EXPECT_EQ(test, atomic_read(&g->parts), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&g->fills), 20);
	KUNIT_EXPECT_LE(test, pages_used(g->c), 8 * GREEDY_PAGES);
}

/* The size of the cache: a limit of the index */

/* Evict blocks beyond the limit, as the target does. Return: number of blocks. */
static unsigned long trim(struct cache *c, unsigned long most)
{
	unsigned long nr = 0;

	while (nr < most && rxd_store_excess(c->store) && rxc_index_make_room(c->index)) {
		nr++;
		cond_resched();
	}
	return nr;
}

static unsigned long trim_all(struct cache *c)
{
	return trim(c, ULONG_MAX);
}

static void use(struct cache *c, u64 first, u64 nr, unsigned int times)
{
	u64 block;

	for (; times; times--)
		for (block = first; block < first + nr; block++)
			hit(c, block);
}

static void size_is_never_exceeded(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 2);
	u64 block;

	rxc_index_set_limit(c->index, 100);
	for (block = 0; block < 2000; block++) {
		fill(test, c, block * 7, 0x11);
		KUNIT_ASSERT_TRUE(test, holds(c, block * 7));
		KUNIT_ASSERT_LE(test, pages_used(c), 200);
	}
	KUNIT_EXPECT_EQ(test, used(c), 100);
	KUNIT_EXPECT_FALSE(test, rxd_store_excess(c->store));
}

static void size_and_mem_limit(struct kunit *test)
{
	struct cache *c = make_cache(test, 2, 1);
	struct rxd_store_stats stats;
	u64 block;

	rxd_store_set_limit(c->store, 40);
	rxc_index_set_limit(c->index, 20);
	for (block = 0; block < 100; block++)
		fill(test, c, block, 0x11);
	KUNIT_EXPECT_EQ(test, used(c), 20);
	rxc_index_set_limit(c->index, 100);
	for (block = 100; block < 200; block++)
		fill(test, c, block, 0x11);
	KUNIT_EXPECT_EQ(test, used(c), 40);
	rxd_store_get_stats(c->store, &stats);
	KUNIT_EXPECT_EQ(test, stats.limit, 40);
}

static u64 next_block(struct rnd_state *rnd, u64 nr)
{
	return prandom_u32_state(rnd) % nr;
}

/* Count the blocks of each set. */
static void count_in_sets(struct cache *c, u64 nr_blocks, unsigned int *nr, unsigned int nr_sets)
{
	u64 block;
	long slot;

	memset(nr, 0, nr_sets * sizeof(*nr));
	for (block = 0; block < nr_blocks; block++) {
		slot = rxc_index_find(c->index, block);
		if (slot >= 0)
			nr[slot / RXC_WAYS]++;
	}
}

/* If other limits or a shortage keep all sets below their part of the size, none is drained. */
static void size_drains_no_set(struct kunit *test)
{
	struct cache *c = make_cache(test, 64, 1);
	struct rnd_state rnd;
	unsigned int nr[64], i;

	prandom_seed_state(&rnd, 1);
	rxc_index_set_limit(c->index, 64 * 32);
	rxd_store_set_limit(c->store, 64 * 16);
	for (i = 0; i < 20000; i++) {
		u64 block = next_block(&rnd, 16384);

		if (!holds(c, block))
			fill(test, c, block, 0x11);
	}
	count_in_sets(c, 16384, nr, 64);
	for (i = 0; i < 64; i++) {
		KUNIT_EXPECT_GE(test, nr[i], 10);
		KUNIT_EXPECT_LE(test, nr[i], 22);
	}
	rxd_store_set_limit(c->store, ULONG_MAX);
	for (i = 0; i < 64 * 8; i++)
		KUNIT_EXPECT_TRUE(test, rxc_index_make_room(c->index));
	count_in_sets(c, 16384, nr, 64);
	for (i = 0; i < 64; i++) {
		KUNIT_EXPECT_GE(test, nr[i], 6);
		KUNIT_EXPECT_LE(test, nr[i], 10);
	}
}

static void size_evicts_no_more_than_it_must(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 4);
	u64 block;

	for (block = 0; block < 300; block++)
		fill(test, c, block, 0x11);
	rxc_index_set_limit(c->index, 300);
	KUNIT_EXPECT_EQ(test, trim_all(c), 0);
	rxc_index_set_limit(c->index, 201);
	KUNIT_EXPECT_EQ(test, pages_used(c), 300 * 4);
	KUNIT_EXPECT_EQ(test, rxd_store_excess(c->store), 99 * 4);
	KUNIT_EXPECT_EQ(test, trim_all(c), 99);
	KUNIT_EXPECT_EQ(test, used(c), 201);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 300), 201);
	KUNIT_EXPECT_EQ(test, pages_used(c), 201 * 4);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_EVICTIONS), 99);
}

static void size_rises_again(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 1);
	unsigned long nr_slots = rxc_index_nr_slots(c->index);
	u64 block;

	for (block = 0; block < nr_slots; block++)
		fill(test, c, block, 0x11);
	rxc_index_set_limit(c->index, 16);
	trim_all(c);
	KUNIT_EXPECT_EQ(test, used(c), 16);
	rxc_index_set_limit(c->index, nr_slots);
	for (block = 0; block < nr_slots; block++)
		if (!holds(c, block))
			fill(test, c, block, 0x22);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, nr_slots), nr_slots);
}

/* All sets end with the same number of blocks, even if some have had more than others. */
static void size_falls_in_all_sets(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 1);
	unsigned int held[8] = {}, left[8], set;
	u64 block;
	long slot;

	/* 60 blocks in each of the first sets, and 20 in the others. */
	for (block = 0; held[7] < 20 || held[0] < 60; block++) {
		set = block % 8;
		if (held[set] == (set < 4 ? 60 : 20))
			continue;
		slot = fill(test, c, block, 0x11);
		held[slot / RXC_WAYS]++;
	}
	rxc_index_set_limit(c->index, 120);
	trim_all(c);
	KUNIT_EXPECT_EQ(test, used(c), 120);
	count_in_sets(c, block, left, 8);
	for (set = 0; set < 8; set++)
		KUNIT_EXPECT_LE(test, abs((int)left[set] - 15), 1);
}

/* Limits that move before they are reached leave no set with less than others. */
static void size_moves_evenly(struct kunit *test)
{
	struct cache *c = make_cache(test, 64, 1);
	unsigned int nr[64], i;
	u64 block;

	for (block = 0; block < 64 * 32; block++)
		fill(test, c, block, 0x11);
	for (i = 0; i < 40; i++) {
		rxc_index_set_limit(c->index, 64 * 4);
		KUNIT_EXPECT_EQ(test, trim(c, 32), 32);
		rxc_index_set_limit(c->index, 64 * 64);
	}
	count_in_sets(c, block, nr, 64);
	for (i = 0; i < 64; i++) {
		KUNIT_EXPECT_GE(test, nr[i], 9);
		KUNIT_EXPECT_LE(test, nr[i], 15);
	}
}

/* The policy decides: blocks that are used stay, and those that were never used go. */
static void size_spares_what_is_used(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 1);
	unsigned long nr_slots = rxc_index_nr_slots(c->index);
	u64 block;

	for (block = 0; block < nr_slots; block++)
		fill(test, c, block, 0x11);
	use(c, 0, nr_slots / 4, 3);
	rxc_index_set_limit(c->index, nr_slots * 3 / 8);
	trim_all(c);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, nr_slots / 4), nr_slots / 4);
	KUNIT_EXPECT_EQ(test, used(c), nr_slots * 3 / 8);
}

/* Below the limit, the policy works as in a cache that has no more slots. */
static void size_resists_a_scan(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 1);
	u64 block;

	rxc_index_set_limit(c->index, 64);
	for (block = 0; block < 40; block++)
		fill(test, c, block, 0x11);
	use(c, 0, 40, 3);
	for (block = 1000; block < 3000; block++)
		fill(test, c, block, 0x22);
	KUNIT_EXPECT_GE(test, count_held(c, 0, 40), 36);
	KUNIT_EXPECT_EQ(test, used(c), 64);
}

static void size_with_all_busy(struct kunit *test)
{
	struct cache *c = make_cache(test, 2, 1);
	unsigned long slot;
	u64 block;

	for (block = 0; block < 40; block++)
		KUNIT_ASSERT_EQ(test, begin_fill(test, c, block, &slot), RXC_FATE_TRACKED);
	rxc_index_set_limit(c->index, 20);
	KUNIT_EXPECT_EQ(test, trim_all(c), 0);
	KUNIT_EXPECT_EQ(test, begin_fill(test, c, 100, &slot), RXC_FATE_SHORT);
	for (block = 0; block < 40; block++)
		rxc_index_end_fill(c->index, block, true);
	KUNIT_EXPECT_EQ(test, trim_all(c), 20);
}

/* A block in use does not keep another one beyond the limit. */
static void size_with_one_busy(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 1);
	unsigned long slot;
	u64 block;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 100, &slot), RXC_FATE_TRACKED);
	for (block = 0; block < 20; block++)
		fill(test, c, block, 0x11);
	rxc_index_set_limit(c->index, 20);
	KUNIT_EXPECT_EQ(test, trim_all(c), 1);
	KUNIT_EXPECT_EQ(test, used(c), 20);
	KUNIT_EXPECT_FALSE(test, rxd_store_excess(c->store));
	rxc_index_end_fill(c->index, 100, true);
}

static void size_falls_in_parts(struct kunit *test)
{
	struct cache *c = make_cache(test, 2, 256);
	u64 block;

	for (block = 0; block < 40; block++)
		fill(test, c, block, 0x11);
	rxc_index_set_limit(c->index, 16);
	KUNIT_EXPECT_EQ(test, trim(c, 7), 7);
	KUNIT_EXPECT_EQ(test, used(c), 33);
	rxc_index_set_limit(c->index, 30);
	KUNIT_EXPECT_EQ(test, trim(c, 7), 3);
	KUNIT_EXPECT_EQ(test, trim(c, 7), 0);
	KUNIT_EXPECT_EQ(test, pages_used(c), 30 * 256);
}

/* Blocks beyond the limit are on their way out: a miss evicts none in addition, for nothing. */
static void miss_beside_a_trim(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 1);
	unsigned long slot;
	u64 block;

	for (block = 0; block < 300; block++)
		fill(test, c, block, 0x11);
	rxc_index_set_limit(c->index, 298);
	/* Sets have more than their part, or less. */
	for (block = 1000; block < 1064; block++)
		if (begin_fill(test, c, block, &slot) == RXC_FATE_TRACKED)
			rxc_index_end_fill(c->index, block, true);
	KUNIT_EXPECT_EQ(test, used(c), 300);
	KUNIT_EXPECT_EQ(test, trim_all(c), 2);
	for (block = 1000; block < 1064; block++)
		if (!holds(c, block))
			fill(test, c, block, 0x11);
	KUNIT_EXPECT_EQ(test, used(c), 298);
}

/* The node of a page, as the index sees it. */
int test_nid(const struct page *page)
{
	return page_to_pfn(page) % 2;
}

static unsigned int count_on_node(struct cache *c, u64 nr_blocks, int nid)
{
	unsigned int nr = 0;
	u64 block;
	long slot;

	for (block = 0; block < nr_blocks; block++) {
		slot = rxc_index_find(c->index, block);
		nr += slot >= 0 && test_nid(rxc_index_own_page(c->index, slot, 0)) == nid;
	}
	return nr;
}

/* Of the other node, no block leaves; of this one, all do in the end. */
static void take_out_of_a_node(struct kunit *test)
{
	struct cache *c = make_cache(test, 32, 1);
	unsigned int limited, of_node, others, nr;
	const u64 nr_blocks = 32 * 40;
	struct rxc_victims victims = {};
	struct page *page;
	LIST_HEAD(pages);
	u64 block;

	for (limited = 0; limited < 2; limited++) {
		for (block = 0; block < nr_blocks; block++)
			if (!holds(c, block))
				fill(test, c, block, 0x11);
		use(c, 0, nr_blocks / 2, 3);
		if (limited)
			rxc_index_set_limit(c->index, nr_blocks);
		of_node = count_on_node(c, nr_blocks, 1);
		others = count_on_node(c, nr_blocks, 0);
		KUNIT_ASSERT_GT(test, of_node, 100);
		KUNIT_ASSERT_GT(test, others, 100);
		for (nr = 0; rxc_index_take_out(c->index, 1, &victims, &pages); nr++)
			;
		KUNIT_EXPECT_EQ(test, nr, of_node);
		KUNIT_EXPECT_EQ(test, count_on_node(c, nr_blocks, 1), 0);
		KUNIT_EXPECT_EQ(test, count_on_node(c, nr_blocks, 0), others);
		list_for_each_entry(page, &pages, lru)
			KUNIT_ASSERT_EQ(test, test_nid(page), 1);
		KUNIT_EXPECT_EQ(test, rxd_store_free_taken(&pages), nr);
		/* A search in vain of one node does not keep others from finding a block. */
		KUNIT_EXPECT_TRUE(test, rxc_index_make_room(c->index));
		KUNIT_EXPECT_TRUE(test, rxc_index_take_out(c->index, NUMA_NO_NODE, &victims,
							   &pages));
		KUNIT_EXPECT_EQ(test, rxd_store_free_taken(&pages), 1);
	}
}

/* Several blocks of a set leave one after the other, but no set loses more than others. */
static void take_out_is_even(struct kunit *test)
{
	struct cache *c = make_cache(test, 64, 1);
	struct rxc_victims victims = {};
	unsigned int nr[64], i, more = 0;
	LIST_HEAD(pages);
	u64 block;

	for (block = 0; block < 64 * 40; block++)
		fill(test, c, block, 0x11);
	rxc_index_set_limit(c->index, 64 * 40);
	for (i = 0; i < 64 * 20; i++) {
		more += victims.left > 0;
		KUNIT_ASSERT_TRUE(test, rxc_index_take_out(c->index, NUMA_NO_NODE, &victims,
							   &pages));
	}
	KUNIT_EXPECT_EQ(test, rxd_store_free_taken(&pages), 64 * 20);
	KUNIT_EXPECT_GT(test, more, 64 * 10);
	count_in_sets(c, block, nr, 64);
	for (i = 0; i < 64; i++) {
		KUNIT_EXPECT_GE(test, nr[i], 14);
		KUNIT_EXPECT_LE(test, nr[i], 26);
	}
	/* A set with few blocks loses one at a time. */
	for (i = 0; i < 64 * 12; i++)
		KUNIT_ASSERT_TRUE(test, rxc_index_take_out(c->index, NUMA_NO_NODE, &victims,
							   &pages));
	KUNIT_EXPECT_EQ(test, victims.left, 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_taken(&pages), 64 * 12);
	count_in_sets(c, block, nr, 64);
	for (i = 0; i < 64; i++)
		KUNIT_EXPECT_GE(test, nr[i], 4);
}

static void make_room_frees_a_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 64, 4);
	u64 block;

	KUNIT_EXPECT_FALSE(test, rxc_index_make_room(c->index));
	for (block = 0; block < 3; block++)
		fill(test, c, block, 0x11);
	for (block = 0; block < 3; block++) {
		KUNIT_EXPECT_TRUE(test, rxc_index_make_room(c->index));
		KUNIT_EXPECT_EQ(test, pages_used(c), 4 * (2 - block));
	}
	KUNIT_EXPECT_FALSE(test, rxc_index_make_room(c->index));
	KUNIT_EXPECT_EQ(test, used(c), 0);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_EVICTIONS), 3);
}

#define LOOKS	4

/* Return: the time that a search of all sets takes, in ns. */
static u64 look_everywhere(struct kunit *test, struct cache *c)
{
	u64 start = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < LOOKS; i++)
		KUNIT_EXPECT_FALSE(test, rxc_index_make_room(c->index));
	return ktime_get_ns() - start;
}

/* When memory is short, one search that finds nothing to evict is enough for all tasks. */
static void make_room_rests_after_a_round(struct kunit *test)
{
	struct cache *c = make_cache(test, LOOKS * 1024, 1);
	u64 search = look_everywhere(test, c), rest = U64_MAX;
	unsigned int i;

	for (i = 0; i < 5; i++)
		rest = min(rest, look_everywhere(test, c));
	KUNIT_EXPECT_LT(test, rest, search / 10);

	/* A block that becomes valid, in any set, ends the pause of the search. */
	fill(test, c, 7, 0x11);
	for (i = 0; i < LOOKS && !rxc_index_make_room(c->index); i++)
		;
	KUNIT_EXPECT_LT(test, i, LOOKS);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
}

/* A block that became valid while a search ended is there for reclaim, if not yet for misses. */
static void take_out_does_not_rest(struct kunit *test)
{
	struct cache *c = make_cache(test, 64, 1);
	struct rxc_victims victims = {};
	unsigned long now = jiffies;
	LIST_HEAD(pages);

	fill(test, c, 7, 0x11);
	WRITE_ONCE(c->index->no_room_until, now + 60 * HZ);
	KUNIT_EXPECT_FALSE(test, rxc_index_make_room(c->index));
	KUNIT_EXPECT_TRUE(test, rxc_index_take_out(c->index, NUMA_NO_NODE, &victims, &pages));
	KUNIT_EXPECT_EQ(test, rxd_store_free_taken(&pages), 1);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	/* Nor does a search by reclaim make misses rest. */
	WRITE_ONCE(c->index->no_room_until, now);
	KUNIT_EXPECT_FALSE(test, rxc_index_take_out(c->index, NUMA_NO_NODE, &victims, &pages));
	KUNIT_EXPECT_EQ(test, c->index->no_room_until, now);
}

/* A large cache with one block, in a set that the second search reaches. */
static struct cache *make_scarce(struct kunit *test, u64 *block)
{
	struct cache *c = make_cache(test, LOOKS * 1024, 1);
	unsigned long set;

	for (*block = 0; *block < 100000; *block += 100) {
		set = fill(test, c, *block, 0x11) / RXC_WAYS;
		if (set > 1100 && set < 2000)
			break;
		rxc_index_drop(c->index, *block, 1);
	}
	KUNIT_ASSERT_TRUE(test, holds(c, *block));
	return c;
}

/* One search does not reach all sets of a large cache: the next continues from there. */
static void make_room_goes_on(struct kunit *test)
{
	u64 block;
	struct cache *c = make_scarce(test, &block);

	KUNIT_EXPECT_FALSE(test, rxc_index_make_room(c->index));
	KUNIT_EXPECT_TRUE(test, rxc_index_make_room(c->index));
	KUNIT_EXPECT_FALSE(test, holds(c, block));
}

/* Another task finds a block while a search in vain is about to end. */
static void make_room_is_overtaken(struct kunit *test)
{
	u64 block;
	struct cache *c = make_scarce(test, &block);

	WRITE_ONCE(c->index->round, 1024 + 1);
	KUNIT_EXPECT_FALSE(test, rxc_index_make_room(c->index));
	KUNIT_EXPECT_TRUE(test, rxc_index_make_room(c->index));
	KUNIT_EXPECT_FALSE(test, holds(c, block));
}

/* A node that has no block is searched, but those of other nodes may leave. */
static void make_room_of_another_node(struct kunit *test)
{
	struct rxc_victims victims = {};
	struct cache *c;
	unsigned int i;
	LIST_HEAD(pages);
	u64 block;
	int nid;

	c = make_scarce(test, &block);
	nid = test_nid(rxc_index_own_page(c->index, rxc_index_find(c->index, block), 0));
	for (i = 0; i < LOOKS; i++)
		KUNIT_EXPECT_FALSE(test, rxc_index_take_out(c->index, !nid, &victims, &pages));
	KUNIT_EXPECT_FALSE(test, rxc_index_make_room(c->index));
	KUNIT_EXPECT_TRUE(test, rxc_index_make_room(c->index));
	KUNIT_EXPECT_FALSE(test, holds(c, block));
}

static void hit_page_of_another_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot = fill(test, c, 7, 0x11);

	rcu_read_lock();
	KUNIT_EXPECT_NULL(test, rxc_index_hit_page(c->index, slot, 8, 0));
	KUNIT_EXPECT_NOT_NULL(test, rxc_index_hit_page(c->index, slot, 7, 0));
	rcu_read_unlock();
}

static void hit_page_outlives_eviction(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot = fill(test, c, 0, 0x11), other;
	struct list_head pages[RXC_WAYS];
	struct page *page;
	u64 block;

	for (block = 0; block < RXC_WAYS; block++) {
		INIT_LIST_HEAD(&pages[block]);
		get_pages(test, c, &pages[block]);
	}

	rcu_read_lock();
	page = rxc_index_hit_page(c->index, slot, 0, 0);
	for (block = 0; block < RXC_WAYS; block++) {
		KUNIT_EXPECT_EQ(test, rxc_index_begin_fill(c->index, 100 + block, &pages[block],
							   &other), RXC_FATE_TRACKED);
		set_data(c, other, 0x22);
		rxc_index_end_fill(c->index, 100 + block, true);
	}
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), 0x11, PAGE_SIZE));
	KUNIT_EXPECT_NULL(test, rxc_index_hit_page(c->index, slot, 0, 0));
	rcu_read_unlock();

	KUNIT_EXPECT_FALSE(test, holds(c, 0));
	KUNIT_EXPECT_TRUE(test, block_is(c, 100 + RXC_WAYS - 1, 0x22));
}

static void hits_keep_the_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned int i;

	fill(test, c, RXC_BLOCK_MAX, 0x11);
	for (i = 0; i < 2000; i++)
		KUNIT_ASSERT_TRUE(test, hit(c, RXC_BLOCK_MAX));
	KUNIT_EXPECT_TRUE(test, block_is(c, RXC_BLOCK_MAX, 0x11));
}

static void hit_of_busy_slot(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 7, &slot), RXC_FATE_TRACKED);
	KUNIT_EXPECT_FALSE(test, hit(c, 7));
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	rxc_index_end_fill(c->index, 7, true);
	KUNIT_EXPECT_TRUE(test, hit(c, 7));
}

/* Walks */

/* Does the place of the block hold a guess by its own hint? */
static bool is_guessed(struct cache *c, const struct rxc_walk *walk, u64 block)
{
	const struct rxc_place *place = &walk->places[block % RXC_LOOK_AHEAD];
	u64 guess;

	if (place->slot < 0 || place->slot / c->index->ways != set_of(c->index, block))
		return false;
	return rxc_index_block_in(c->index, place->slot, &guess) &&
	       hint_of(hash_of(guess)) == hint_of(hash_of(block));
}

/* Walk along blocks whose data is their number. Return: how many are cached, but not at home. */
static unsigned int walk_along(struct kunit *test, struct cache *c, u64 first, u64 end)
{
	unsigned int away = 0;
	struct rxc_walk walk;
	unsigned long slot;
	struct page *page;
	u64 block;

	rcu_read_lock();
	rxc_index_begin_walk(c->index, first, end, &walk);
	for (block = first; block < end; block++) {
		if (holds(c, block) && block >= first + RXC_GUESS_AHEAD)
			KUNIT_EXPECT_TRUE(test, is_guessed(c, &walk, block));
		page = rxc_index_hit(c->index, &walk, block, c->block_pages - 1, &slot);
		KUNIT_EXPECT_EQ(test, !!page, holds(c, block));
		if (!page)
			continue;
		KUNIT_EXPECT_EQ(test, slot, rxc_index_find(c->index, block));
		KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), (u8)block, PAGE_SIZE));
		away += slot % c->index->ways / HINTS_IN_WORD !=
			home_of(c->index, hash_of(block));
	}
	rcu_read_unlock();
	return away;
}

static void walk_finds_each_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 2);
	u64 block, first, nr;

	for (block = 0; block < 200; block++)
		fill(test, c, block, block);
	for (first = 0; first < RXC_LOOK_AHEAD; first++)
		for (nr = 0; nr < 3 * RXC_LOOK_AHEAD; nr++)
			walk_along(test, c, first, first + nr);
	walk_along(test, c, 0, 200);
	walk_along(test, c, 190, 210);
}

static void walk_finds_blocks_away_from_home(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	u64 block;

	for (block = 0; block < 1000; block++)
		fill(test, c, block, block);
	/* The newest blocks got the slots of others, which are in their homes by chance only. */
	KUNIT_EXPECT_GT(test, walk_along(test, c, 0, 1000), RXC_WAYS / 8);
}

/* The first block after @block that begins its search like it. All blocks are in one set. */
static u64 twin_of(struct cache *c, u64 block)
{
	u32 hash = hash_of(block), other;

	do {
		other = hash_of(++block);
	} while (hint_of(other) != hint_of(hash) ||
		 home_of(c->index, other) != home_of(c->index, hash));
	return block;
}

static void walk_with_the_hint_of_another_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	u64 twin = twin_of(c, 7);

	fill(test, c, 7, 7);
	fill(test, c, twin, (u8)twin);
	walk_along(test, c, 5, 9);
	walk_along(test, c, twin - 2, twin + 2);
	rxc_index_drop(c->index, twin, 1);
	KUNIT_EXPECT_TRUE(test, hit(c, 7));
	KUNIT_EXPECT_FALSE(test, hit(c, twin));
}

static void walk_before_the_block_moves(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long before = fill(test, c, 7, 0x11), after, slot;
	u64 twin = twin_of(c, 7);
	struct rxc_walk walk;
	struct page *page;

	rcu_read_lock();
	rxc_index_begin_walk(c->index, 7 - RXC_GUESS_AHEAD, 8, &walk);
	rxc_index_walk(c->index, &walk, 7 - RXC_GUESS_AHEAD);
	KUNIT_EXPECT_TRUE(test, is_guessed(c, &walk, 7));
	rcu_read_unlock();
	rxc_index_drop(c->index, 7, 1);
	KUNIT_ASSERT_EQ(test, fill(test, c, twin, 0x22), before);
	after = fill(test, c, 7, 0x33);
	KUNIT_ASSERT_NE(test, after, before);

	rcu_read_lock();
	page = rxc_index_hit(c->index, &walk, 7, 0, &slot);
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, slot, after);
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), 0x33, PAGE_SIZE));
	rcu_read_unlock();
}

/* Eviction */

static void evict_one_for_one(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 2);
	u64 block;

	for (block = 0; block <= RXC_WAYS; block++)
		fill(test, c, block, 0x11);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_EVICTIONS), 1);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, RXC_WAYS + 1), RXC_WAYS);
	KUNIT_EXPECT_TRUE(test, holds(c, RXC_WAYS));
	KUNIT_EXPECT_EQ(test, used(c), RXC_WAYS);
	KUNIT_EXPECT_EQ(test, pages_used(c), 2 * RXC_WAYS);
}

static void evict_spares_what_is_used(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned int i;
	u64 block;

	for (block = 0; block < RXC_WAYS; block++)
		fill(test, c, block, 0x11);
	for (i = 0; i < 1000; i++) {
		/* Blocks have to be used twice to move to the main queue. */
		for (block = 0; block < RXC_WAYS; block++)
			hit(c, block / 2);
		fill(test, c, 1000 + i, 0x22);
		KUNIT_ASSERT_EQ(test, count_held(c, 0, RXC_WAYS / 2), RXC_WAYS / 2);
	}
}

/* A slot that was given to another block must be found for this block only. */
static void evict_changes_what_is_found(struct kunit *test)
{
	struct cache *c = make_small_cache(test, RXC_SLOTS_MIN + 3, 1);
	u64 block, found;

	for (block = 0; block < 3000; block++) {
		fill(test, c, block, block);
		KUNIT_ASSERT_TRUE(test, block_is(c, block, block));
	}
	for (found = 0, block = 0; block < 3000; block++)
		if (holds(c, block)) {
			KUNIT_EXPECT_TRUE(test, block_is(c, block, block));
			found++;
		}
	KUNIT_EXPECT_EQ(test, found, rxc_index_nr_slots(c->index));
}

static void evict_spares_busy_slots(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;
	u64 block;

	fill(test, c, 0, 0x11);
	for (block = 1; block < RXC_WAYS; block++)
		KUNIT_ASSERT_EQ(test, begin_fill(test, c, block, &slot), RXC_FATE_TRACKED);
	fill(test, c, 100, 0x22);
	KUNIT_EXPECT_FALSE(test, holds(c, 0));
	for (block = 1; block < RXC_WAYS; block++)
		rxc_index_end_fill(c->index, block, true);
	KUNIT_EXPECT_EQ(test, count_held(c, 1, RXC_WAYS - 1), RXC_WAYS - 1);
	KUNIT_EXPECT_TRUE(test, holds(c, 100));
}

static void set_full_of_busy_slots(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 2);
	unsigned long slot;
	LIST_HEAD(pages);
	u64 block;

	for (block = 0; block < RXC_WAYS; block++)
		KUNIT_ASSERT_EQ(test, begin_fill(test, c, block, &slot), RXC_FATE_TRACKED);

	get_pages(test, c, &pages);
	KUNIT_EXPECT_EQ(test, rxc_index_begin_fill(c->index, 100, &pages, &slot),
			RXC_FATE_SHORT);
	KUNIT_EXPECT_EQ(test, rxc_index_begin_write(c->index, 100, true, &pages, &slot),
			RXC_FATE_SHORT);
	KUNIT_EXPECT_EQ(test, put_pages(&pages), 2);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_EVICTIONS), 0);

	for (block = 0; block < RXC_WAYS; block++)
		rxc_index_end_fill(c->index, block, true);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, RXC_WAYS), RXC_WAYS);
	fill(test, c, 100, 0x22);
}

/* Writes */

static void write_hit(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot = fill(test, c, 7, 0x11), again;
	LIST_HEAD(pages);

	KUNIT_EXPECT_TRUE(test, rxc_index_can_write(c->index, 7, false));
	KUNIT_ASSERT_EQ(test, rxc_index_begin_write(c->index, 7, false, &pages, &again),
			RXC_FATE_TRACKED);
	KUNIT_EXPECT_EQ(test, again, slot);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	set_data(c, slot, 0x22);
	rxc_index_end_write(c->index, 7, true);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x22));
	KUNIT_EXPECT_EQ(test, stat(c, RXC_WRITE_HITS), 1);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_WRITE_MISSES), 0);
	KUNIT_EXPECT_EQ(test, used(c), 1);
}

/* A write of a whole block may bring new pages. Readers of the old pages keep them. */
static void write_hit_with_pages(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 4);
	unsigned long slot = fill(test, c, 7, 0x11), again;
	struct page *old, *fresh;
	LIST_HEAD(pages);

	get_pages(test, c, &pages);
	fresh = list_first_entry(&pages, struct page, lru);
	rcu_read_lock();
	old = rxc_index_hit_page(c->index, slot, 7, 0);
	KUNIT_EXPECT_EQ(test, rxc_index_begin_write(c->index, 7, true, &pages, &again),
			RXC_FATE_TRACKED);
	KUNIT_EXPECT_EQ(test, again, slot);
	KUNIT_EXPECT_TRUE(test, list_empty(&pages));
	KUNIT_EXPECT_PTR_EQ(test, rxc_index_own_page(c->index, slot, 0), fresh);
	KUNIT_EXPECT_PTR_NE(test, old, fresh);
	set_data(c, slot, 0x22);
	rxc_index_end_write(c->index, 7, true);
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(old), 0x11, PAGE_SIZE));
	rcu_read_unlock();
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x22));
	KUNIT_EXPECT_EQ(test, pages_used(c), 4);
	KUNIT_EXPECT_EQ(test, used(c), 1);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_WRITE_HITS), 1);
}

static void write_hit_of_part_keeps_its_pages(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 4);
	unsigned long slot = fill(test, c, 7, 0x11), again;
	LIST_HEAD(pages);

	get_pages(test, c, &pages);
	KUNIT_EXPECT_EQ(test, rxc_index_begin_write(c->index, 7, false, &pages, &again),
			RXC_FATE_TRACKED);
	KUNIT_EXPECT_EQ(test, again, slot);
	rxc_index_end_write(c->index, 7, true);
	KUNIT_EXPECT_EQ(test, put_pages(&pages), 4);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x11));
}

static void write_miss_of_whole_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;
	LIST_HEAD(pages);

	KUNIT_EXPECT_TRUE(test, rxc_index_can_write(c->index, 7, true));
	KUNIT_EXPECT_EQ(test, rxc_index_begin_write(c->index, 7, true, &pages, &slot),
			RXC_FATE_NEED_PAGES);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_WRITE_MISSES), 0);
	KUNIT_ASSERT_EQ(test, begin_write(test, c, 7, true, &slot), RXC_FATE_TRACKED);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	set_data(c, slot, 0x22);
	rxc_index_end_write(c->index, 7, true);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x22));
	KUNIT_EXPECT_EQ(test, stat(c, RXC_WRITE_MISSES), 1);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_FILLS), 0);
}

static void write_miss_of_part(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;

	KUNIT_EXPECT_FALSE(test, rxc_index_can_write(c->index, 7, false));
	KUNIT_EXPECT_EQ(test, begin_write(test, c, 7, false, &slot), RXC_FATE_UNTRACKED);
	KUNIT_EXPECT_EQ(test, used(c), 0);
}

static void write_that_fails_drops_the_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 2);
	unsigned long slot;

	fill(test, c, 7, 0x11);
	KUNIT_ASSERT_EQ(test, begin_write(test, c, 7, false, &slot), RXC_FATE_TRACKED);
	rxc_index_end_write(c->index, 7, false);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	KUNIT_EXPECT_EQ(test, used(c), 0);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_INVALIDATIONS), 1);
}

static void write_dooms_a_fill(struct kunit *test)
{
	struct rxc_range range = { .first = 7, .nr = 1 };
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot, other;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 7, &slot), RXC_FATE_TRACKED);
	KUNIT_EXPECT_FALSE(test, rxc_index_can_write(c->index, 7, true));
	KUNIT_EXPECT_EQ(test, begin_write(test, c, 7, true, &other), RXC_FATE_UNTRACKED);
	rxc_index_begin_range(c->index, &range);
	rxc_index_end_range(c->index, &range);
	rxc_index_end_fill(c->index, 7, true);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	KUNIT_EXPECT_EQ(test, stat(c, RXC_FILLS), 0);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
}

static void write_dooms_a_write(struct kunit *test)
{
	struct rxc_range range = { .first = 7, .nr = 1 };
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot, other;

	KUNIT_ASSERT_EQ(test, begin_write(test, c, 7, true, &slot), RXC_FATE_TRACKED);
	KUNIT_EXPECT_EQ(test, begin_write(test, c, 7, true, &other), RXC_FATE_UNTRACKED);
	rxc_index_begin_range(c->index, &range);
	rxc_index_end_write(c->index, 7, true);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	rxc_index_end_range(c->index, &range);
	KUNIT_EXPECT_FALSE(test, holds(c, 7));
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
}

static void doom_ends_with_its_block(struct kunit *test)
{
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 7, &slot), RXC_FATE_TRACKED);
	rxc_index_drop(c->index, 7, 1);
	rxc_index_end_fill(c->index, 7, true);
	fill(test, c, 7, 0x22);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x22));
}

/* Writes that bypass the cache */

static void region_ends(struct kunit *test)
{
	struct cache *small = make_cache(test, 1, 1);
	struct cache *odd = make_cache(test, 1, 3);
	struct cache *large = make_cache(test, 1, SZ_1M / PAGE_SIZE);
	const u64 region = SZ_4M / PAGE_SIZE;

	KUNIT_EXPECT_EQ(test, rxc_index_region_end(small->index, 0), region);
	KUNIT_EXPECT_EQ(test, rxc_index_region_end(small->index, region - 1), region);
	KUNIT_EXPECT_EQ(test, rxc_index_region_end(small->index, region), 2 * region);
	KUNIT_EXPECT_EQ(test, rxc_index_region_end(odd->index, 0), region / 4);
	KUNIT_EXPECT_EQ(test, rxc_index_region_end(large->index, 6), 8);
	KUNIT_EXPECT_GT(test, rxc_index_region_end(small->index, RXC_BLOCK_MAX), RXC_BLOCK_MAX);
}

static void range_drops_its_blocks_only(struct kunit *test)
{
	struct rxc_range range = { .first = 4, .nr = 8 };
	struct cache *c = make_cache(test, 32, 1);
	u64 block;

	for (block = 0; block < 16; block++)
		fill(test, c, block, block + 1);
	rxc_index_begin_range(c->index, &range);
	KUNIT_EXPECT_EQ(test, count_held(c, 4, 8), 0);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 4), 4);
	KUNIT_EXPECT_EQ(test, count_held(c, 12, 4), 4);
	KUNIT_EXPECT_EQ(test, pages_used(c), 8);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_INVALIDATIONS), 8);
	KUNIT_EXPECT_TRUE(test, block_is(c, 3, 4));
	KUNIT_EXPECT_TRUE(test, rxc_index_can_write(c->index, 3, false));
	rxc_index_end_range(c->index, &range);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 16), 8);
	KUNIT_EXPECT_EQ(test, used(c), 8);
}

/* All blocks share one bucket. All but the last three share a region. */
static void range_keeps_out_its_blocks_only(struct kunit *test)
{
	static const u64 others[] = { 0, 6, 9, 1000, 1024, 1031, RXC_BLOCK_MAX };
	struct rxc_range range = { .first = 7, .nr = 2 };
	struct cache *c = make_cache(test, 1, 1);
	unsigned long slot;
	unsigned int i;
	u64 block;

	rxc_index_begin_range(c->index, &range);
	for (block = 7; block < 9; block++) {
		KUNIT_EXPECT_EQ(test, begin_fill(test, c, block, &slot), RXC_FATE_UNTRACKED);
		KUNIT_EXPECT_FALSE(test, rxc_index_can_fill(c->index, block));
		KUNIT_EXPECT_EQ(test, begin_write(test, c, block, true, &slot),
				RXC_FATE_UNTRACKED);
		KUNIT_EXPECT_FALSE(test, rxc_index_can_write(c->index, block, true));
	}
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		KUNIT_EXPECT_TRUE(test, rxc_index_can_fill(c->index, others[i]));
		KUNIT_EXPECT_TRUE(test, rxc_index_can_write(c->index, others[i], true));
		fill(test, c, others[i], i + 1);
		KUNIT_EXPECT_TRUE(test, block_is(c, others[i], i + 1));
	}
	rxc_index_end_range(c->index, &range);
	KUNIT_EXPECT_TRUE(test, rxc_index_can_fill(c->index, 7));
	KUNIT_EXPECT_TRUE(test, rxc_index_can_write(c->index, 7, true));
	fill(test, c, 7, 0x77);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x77));
}

static void ranges_over_the_same_block(struct kunit *test)
{
	struct rxc_range a = { .first = 7, .nr = 1 }, b = a, wide = { .first = 0, .nr = 1 << 20 };
	struct cache *c = make_cache(test, 1, 1);

	rxc_index_begin_range(c->index, &a);
	rxc_index_begin_range(c->index, &wide);
	rxc_index_begin_range(c->index, &b);
	rxc_index_end_range(c->index, &a);
	KUNIT_EXPECT_FALSE(test, may_fill(c, 7));
	rxc_index_end_range(c->index, &b);
	KUNIT_EXPECT_FALSE(test, may_fill(c, 7));
	rxc_index_end_range(c->index, &wide);
	KUNIT_EXPECT_TRUE(test, may_fill(c, 7));
}

static void range_in_two_regions(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 1);
	const u64 end = rxc_index_region_end(c->index, 0);
	struct rxc_range range = { .first = end - 2, .nr = 4 };
	struct rxc_range last = { .first = end - 1, .nr = 1 };
	u64 block;

	for (block = end - 3; block < end + 3; block++)
		fill(test, c, block, 0x11);
	rxc_index_begin_range(c->index, &range);
	KUNIT_EXPECT_EQ(test, count_held(c, end - 3, 6), 2);
	for (block = end - 2; block < end + 2; block++)
		KUNIT_EXPECT_FALSE(test, may_fill(c, block));
	KUNIT_EXPECT_TRUE(test, may_fill(c, end - 4));
	KUNIT_EXPECT_TRUE(test, may_fill(c, end + 4));
	rxc_index_end_range(c->index, &range);

	rxc_index_begin_range(c->index, &last);
	KUNIT_EXPECT_FALSE(test, may_fill(c, end - 1));
	KUNIT_EXPECT_TRUE(test, may_fill(c, end));
	rxc_index_end_range(c->index, &last);
	KUNIT_EXPECT_TRUE(test, may_fill(c, end - 1));
}

static void range_longer_than_the_cache(struct kunit *test)
{
	struct rxc_range range = { .first = 4, .nr = 2 };
	struct rxc_range other = { .first = 5, .nr = RXC_BLOCK_MAX - 5 };
	struct cache *c = make_cache(test, 4, 1);

	rxc_index_begin_range(c->index, &range);
	rxc_index_begin_range(c->index, &other);
	KUNIT_EXPECT_FALSE(test, may_fill(c, 4));
	KUNIT_EXPECT_FALSE(test, may_fill(c, 6));
	rxc_index_end_range(c->index, &range);
	KUNIT_EXPECT_TRUE(test, may_fill(c, 4));
	KUNIT_EXPECT_TRUE(test, rxc_index_can_write(c->index, 4, true));
	KUNIT_EXPECT_FALSE(test, may_fill(c, 5));
	KUNIT_EXPECT_FALSE(test, rxc_index_can_write(c->index, RXC_BLOCK_MAX - 1, true));
	rxc_index_end_range(c->index, &other);
	KUNIT_EXPECT_TRUE(test, may_fill(c, 5));
}

/* A bio may be mapped, and may end, in atomic context. */
static void range_in_atomic_context(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 1);
	struct rxc_range range = { .nr = rxc_index_region_end(c->index, 0) };
	unsigned long flags;
	u64 block;

	for (block = 0; block < 16; block++)
		fill(test, c, block, 0x11);
	local_irq_save(flags);
	rxc_index_begin_range(c->index, &range);
	rxc_index_end_range(c->index, &range);
	local_irq_restore(flags);
	KUNIT_EXPECT_EQ(test, used(c), 0);
}

static void range_dooms_what_is_busy(struct kunit *test)
{
	struct rxc_range range = { .first = 1, .nr = 2 };
	struct cache *c = make_cache(test, 4, 1);
	unsigned long slot;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 1, &slot), RXC_FATE_TRACKED);
	KUNIT_ASSERT_EQ(test, begin_write(test, c, 2, true, &slot), RXC_FATE_TRACKED);
	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 3, &slot), RXC_FATE_TRACKED);
	rxc_index_begin_range(c->index, &range);
	rxc_index_end_range(c->index, &range);
	rxc_index_end_fill(c->index, 1, true);
	rxc_index_end_write(c->index, 2, true);
	rxc_index_end_fill(c->index, 3, true);
	KUNIT_EXPECT_FALSE(test, holds(c, 1));
	KUNIT_EXPECT_FALSE(test, holds(c, 2));
	KUNIT_EXPECT_TRUE(test, holds(c, 3));
}

static void drop_range(struct kunit *test)
{
	const unsigned int nr_sets = *(const unsigned int *)test->param_value;
	struct cache *c = make_cache(test, nr_sets, 1);
	u64 block;

	for (block = 0; block < 12; block++)
		fill(test, c, block, block + 1);
	rxc_index_drop(c->index, 3, 6);
	KUNIT_EXPECT_EQ(test, count_held(c, 3, 6), 0);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 3), 3);
	KUNIT_EXPECT_EQ(test, count_held(c, 9, 3), 3);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_INVALIDATIONS), 6);
	KUNIT_EXPECT_EQ(test, pages_used(c), 6);
}

/* Caches with fewer sets than blocks in the test, and with more. */
static const unsigned int set_counts[] = { 1, 64 };

static void sets_name(const unsigned int *nr_sets, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "sets: %u", *nr_sets);
}

KUNIT_ARRAY_PARAM(set_count, set_counts, sets_name);

static void drop_all(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 1);
	u64 block;

	for (block = 0; block < 200; block++)
		fill(test, c, block, 0x11);
	rxc_index_drop(c->index, 0, RXC_BLOCK_MAX);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 200), 0);
	KUNIT_EXPECT_EQ(test, used(c), 0);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
}

static void drop_nothing(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 1);

	fill(test, c, 7, 0x11);
	rxc_index_drop(c->index, 7, 0);
	KUNIT_EXPECT_TRUE(test, holds(c, 7));
}

static void drop_dooms_what_is_busy(struct kunit *test)
{
	struct cache *c = make_cache(test, 8, 1);
	unsigned long slot;

	KUNIT_ASSERT_EQ(test, begin_fill(test, c, 1, &slot), RXC_FATE_TRACKED);
	KUNIT_ASSERT_EQ(test, begin_write(test, c, 2, true, &slot), RXC_FATE_TRACKED);
	rxc_index_drop(c->index, 0, RXC_BLOCK_MAX);
	rxc_index_end_fill(c->index, 1, true);
	rxc_index_end_write(c->index, 2, true);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 8), 0);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
}

/*
 * The hammer: threads use the index as the target does. The origin is an array with
 * one version number for each half of a block. Each word of a page contains the
 * block and the version. One thread at a time writes a half. The blocks are on both
 * sides of a region's end.
 */

#define HAMMER_BLOCKS	40
#define HAMMER_FIRST	(SZ_4M / PAGE_SIZE - HAMMER_BLOCKS / 2)
#define HALVES		2
#define HAMMER_HALVES	(HAMMER_BLOCKS * HALVES)
#define HALF_WORDS	(PAGE_SIZE / sizeof(u64) / HALVES)

struct half {
	unsigned long busy;
	u32 started;		/* newest version of a write that has started */
	u32 done;		/* newest version of a write that has completed */
	u32 origin;		/* version on the origin */
};

struct hammer {
	struct kunit *test;
	struct cache *c;
	struct half half[HAMMER_HALVES];
	atomic_t fills, hits, tracked, untracked, ranges, drops, trims, takes;
	atomic_t foreign, stale, early;
	unsigned long limit;
};

static u64 block_of(unsigned int half)
{
	return HAMMER_FIRST + half / HALVES;
}

static u64 word_of(u64 block, u32 version)
{
	return (block + 1) << 32 | version;
}

static void put_half(struct hammer *h, unsigned long slot, unsigned int half, u32 version)
{
	u64 *word = page_address(rxc_index_own_page(h->c->index, slot, 0));

	memset64(word + half % HALVES * HALF_WORDS, word_of(block_of(half), version), HALF_WORDS);
}

static void linger(void)
{
	if (!get_random_u32_below(8))
		usleep_range(20, 200);
}

/* Add a page. No reader may see its content before it is filled. */
static bool hammer_add_page(struct hammer *h, struct list_head *pages)
{
	struct page *page = rxd_store_alloc_page(h->c->store, 0, RXD_GFP);

	if (!page)
		return false;
	memset(page_address(page), 0xff, PAGE_SIZE);
	list_add(&page->lru, pages);
	return true;
}

/* As in the target, allocate on request, or in advance to replace the pages of a hit. */
static enum rxc_fate hammer_begin(struct hammer *h, u64 block, bool write, bool whole,
				  unsigned long *slot)
{
	enum rxc_fate fate;
	LIST_HEAD(pages);

	if (whole && get_random_u32_below(2))
		hammer_add_page(h, &pages);
	for (;;) {
		fate = write ? rxc_index_begin_write(h->c->index, block, whole, &pages, slot) :
			       rxc_index_begin_fill(h->c->index, block, &pages, slot);
		if (fate != RXC_FATE_NEED_PAGES)
			break;
		if (!hammer_add_page(h, &pages))
			return RXC_FATE_UNTRACKED;
	}
	put_pages(&pages);
	return fate;
}

static int hammer_fill(void *arg)
{
	struct hammer *h = arg;
	unsigned int half, i;
	unsigned long slot;
	u64 block;

	while (!kthread_should_stop()) {
		half = get_random_u32_below(HAMMER_BLOCKS) * HALVES;
		block = block_of(half);
		if (hammer_begin(h, block, false, false, &slot) == RXC_FATE_TRACKED) {
			for (i = half; i < half + HALVES; i++) {
				linger();
				put_half(h, slot, i, READ_ONCE(h->half[i].origin));
			}
			linger();
			rxc_index_end_fill(h->c->index, block, get_random_u32_below(16));
			atomic_inc(&h->fills);
		}
		cond_resched();
	}
	return 0;
}

static bool lock_halves(struct hammer *h, unsigned int first, unsigned int end)
{
	unsigned int i;

	for (i = first; i < end; i++) {
		if (!test_and_set_bit_lock(0, &h->half[i].busy))
			continue;
		while (i-- > first)
			clear_bit_unlock(0, &h->half[i].busy);
		return false;
	}
	return true;
}

static void unlock_halves(struct hammer *h, unsigned int first, unsigned int end)
{
	while (first < end)
		clear_bit_unlock(0, &h->half[first++].busy);
}

static void start_halves(struct hammer *h, unsigned int first, unsigned int end)
{
	for (; first < end; first++)
		WRITE_ONCE(h->half[first].started, h->half[first].started + 1);
}

static void finish_halves(struct hammer *h, unsigned int first, unsigned int end)
{
	for (; first < end; first++) {
		/* Pairs with the acquire in hammer_read(). */
		smp_store_release(&h->half[first].done, h->half[first].started);
	}
}

/* Return: true if the write succeeds. A write that fails may have changed the origin. */
static bool write_origin(struct hammer *h, unsigned int first, unsigned int end)
{
	bool ok = get_random_u32_below(16);

	linger();
	for (; first < end; first++)
		if (ok || get_random_u32_below(2))
			WRITE_ONCE(h->half[first].origin, h->half[first].started);
	linger();
	return ok;
}

static bool write_round(struct hammer *h, u64 block, u64 nr, unsigned int first,
			unsigned int end)
{
	struct rxc_range range = { .first = block, .nr = nr };
	bool ok;

	rxc_index_begin_range(h->c->index, &range);
	ok = write_origin(h, first, end);
	rxc_index_end_range(h->c->index, &range);
	return ok;
}

static int hammer_write(void *arg)
{
	unsigned int half, first, end, i;
	struct hammer *h = arg;
	unsigned long slot;
	u64 block;
	bool ok;

	while (!kthread_should_stop()) {
		cond_resched();
		half = get_random_u32_below(HAMMER_BLOCKS) * HALVES;
		block = block_of(half);
		first = half + get_random_u32_below(HALVES);
		end = get_random_u32_below(2) ? half + HALVES : first + 1;
		if (!lock_halves(h, first, end))
			continue;
		start_halves(h, first, end);
		if (hammer_begin(h, block, true, end - first == HALVES, &slot) ==
		    RXC_FATE_TRACKED) {
			for (i = first; i < end; i++)
				put_half(h, slot, i, h->half[i].started);
			ok = write_origin(h, first, end);
			rxc_index_end_write(h->c->index, block, ok);
			atomic_inc(&h->tracked);
		} else {
			ok = write_round(h, block, 1, first, end);
			atomic_inc(&h->untracked);
		}
		if (ok)
			finish_halves(h, first, end);
		unlock_halves(h, first, end);
	}
	return 0;
}

static void drop_some(struct hammer *h)
{
	u64 block = block_of(get_random_u32_below(HAMMER_HALVES));

	rxc_index_drop(h->c->index, block, HAMMER_FIRST + HAMMER_BLOCKS - block);
	atomic_inc(&h->drops);
}

/* Write several blocks, or parts of them, past the cache. The announced range may be longer. */
static int hammer_range(void *arg)
{
	struct hammer *h = arg;
	unsigned int first, end;
	u64 block, nr;

	while (!kthread_should_stop()) {
		usleep_range(50, 500);
		if (!get_random_u32_below(8))
			drop_some(h);
		first = get_random_u32_below(HAMMER_HALVES);
		end = min_t(unsigned int, first + get_random_u32_inclusive(1, 12), HAMMER_HALVES);
		if (!lock_halves(h, first, end))
			continue;
		start_halves(h, first, end);
		block = block_of(first);
		nr = block_of(end - 1) + 1 - block;
		if (!get_random_u32_below(8))
			nr += 1 << get_random_u32_below(20);
		if (write_round(h, block, nr, first, end))
			finish_halves(h, first, end);
		unlock_halves(h, first, end);
		atomic_inc(&h->ranges);
	}
	return 0;
}

static void check_half(struct hammer *h, u64 block, u32 done, u32 started, const u64 *word)
{
	unsigned int i;
	u32 version;

	for (i = 0; i < HALF_WORDS; i++) {
		version = READ_ONCE(word[i]);
		if (READ_ONCE(word[i]) >> 32 != block + 1)
			atomic_inc(&h->foreign);
		else if ((s32)(version - done) < 0)
			atomic_inc(&h->stale);
	}
	version = READ_ONCE(word[0]);
	if ((s32)(version - started) > 0)
		atomic_inc(&h->early);
}

static int hammer_read(void *arg)
{
	struct hammer *h = arg;
	struct page *page;
	unsigned int half;
	u32 done;
	u64 *copy;
	u64 block;

	copy = kmalloc(PAGE_SIZE, GFP_KERNEL);
	while (!kthread_should_stop()) {
		cond_resched();
		half = get_random_u32_below(HAMMER_HALVES);
		block = block_of(half);
		/* A read must see all writes that completed before this point. */
		done = smp_load_acquire(&h->half[half].done);
		if (!copy)
			continue;
		rcu_read_lock();
		page = look_up(h->c, block);
		if (page)
			memcpy(copy, page_address(page) + half % HALVES * HALF_WORDS * sizeof(u64),
			       HALF_WORDS * sizeof(u64));
		rcu_read_unlock();
		if (!page)
			continue;
		check_half(h, block, done, READ_ONCE(h->half[half].started), copy);
		atomic_inc(&h->hits);
	}
	kfree(copy);
	return 0;
}

static int hammer_resize(void *arg)
{
	struct hammer *h = arg;
	unsigned long min = rxc_index_min_limit(h->c->index);
	unsigned long max = rxc_index_nr_slots(h->c->index);

	while (!kthread_should_stop()) {
		usleep_range(50, 1000);
		h->limit = get_random_u32_inclusive(min, max);
		rxc_index_set_limit(h->c->index, h->limit);
		atomic_add(trim(h->c, ULONG_MAX), &h->trims);
	}
	return 0;
}

/* As a shrinker does. */
static int hammer_take(void *arg)
{
	struct hammer *h = arg;
	struct rxc_victims victims = {};
	unsigned int nr;
	LIST_HEAD(pages);

	while (!kthread_should_stop()) {
		usleep_range(200, 2000);
		for (nr = get_random_u32_inclusive(1, 4); nr; nr--)
			rxc_index_take_out(h->c->index, (int)get_random_u32_below(3) - 1, &victims,
					   &pages);
		atomic_add(rxd_store_free_taken(&pages), &h->takes);
	}
	return 0;
}

/* Return: number of cached halves that differ from the origin. */
static unsigned int count_wrong(struct hammer *h, unsigned int *held)
{
	unsigned int half, wrong = 0;
	struct page *page;
	long slot;
	u64 *word;

	*held = 0;
	for (half = 0; half < HAMMER_HALVES; half++) {
		slot = rxc_index_find(h->c->index, block_of(half));
		if (slot < 0)
			continue;
		*held += half % HALVES == 0;
		rcu_read_lock();
		page = rxc_index_hit_page(h->c->index, slot, block_of(half), 0);
		if (page) {
			word = (u64 *)page_address(page) + half % HALVES * HALF_WORDS;
			wrong += word[0] != word_of(block_of(half), h->half[half].origin) ||
				 word[HALF_WORDS - 1] != word[0];
		}
		wrong += !page;
		rcu_read_unlock();
	}
	return wrong;
}

/* Return: number of blocks in the cache, all of which must equal the origin. */
static unsigned int hammer_round(struct kunit *test, struct hammer *h)
{
	struct crew crew = {};
	unsigned int held;

	crew_add(test, &crew, hammer_fill, h);
	crew_add(test, &crew, hammer_fill, h);
	crew_add(test, &crew, hammer_write, h);
	crew_add(test, &crew, hammer_write, h);
	crew_add(test, &crew, hammer_range, h);
	crew_add(test, &crew, hammer_range, h);
	crew_add(test, &crew, hammer_read, h);
	crew_add(test, &crew, hammer_read, h);
	crew_add(test, &crew, hammer_resize, h);
	crew_add(test, &crew, hammer_take, h);
	crew_run(&crew, HAMMER_MSECS);
	/* The last search may have met busy blocks only, and then a pause began. */
	msleep(100);
	trim_all(h->c);

	KUNIT_EXPECT_EQ(test, rxd_store_excess(h->c->store), 0);
	KUNIT_EXPECT_EQ(test, count_wrong(h, &held), 0);
	KUNIT_EXPECT_LE(test, held, h->limit);
	KUNIT_EXPECT_EQ(test, used(h->c), held);
	KUNIT_EXPECT_EQ(test, pages_used(h->c), held);
	return held;
}

/*
 * Few blocks stay in a cache of one set, and there may be none when a round ends.
 * Several rounds leave some to compare with the origin.
 */
static void hammer(struct kunit *test)
{
	const unsigned int nr_slots = *(const unsigned int *)test->param_value;
	struct hammer *h = kunit_kzalloc(test, sizeof(*h), GFP_KERNEL);
	unsigned int round, held = 0;

	KUNIT_ASSERT_NOT_NULL(test, h);
	h->c = make_small_cache(test, nr_slots, 1);
	for (round = 0; round < HAMMER_ROUNDS; round++)
		held += hammer_round(test, h);

	KUNIT_EXPECT_EQ(test, atomic_read(&h->foreign), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&h->stale), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&h->early), 0);
	KUNIT_EXPECT_GT(test, held, 0);

	kunit_info(test,
		   "%d fills, %d hits, %d tracked and %d untracked writes, %d ranges, %d drops, %d trims",
		   atomic_read(&h->fills), atomic_read(&h->hits), atomic_read(&h->tracked),
		   atomic_read(&h->untracked), atomic_read(&h->ranges), atomic_read(&h->drops),
		   atomic_read(&h->trims));
	KUNIT_EXPECT_GT(test, atomic_read(&h->fills), 20);
	KUNIT_EXPECT_GT(test, atomic_read(&h->hits), 20);
	KUNIT_EXPECT_GT(test, atomic_read(&h->tracked), 20);
	KUNIT_EXPECT_GT(test, atomic_read(&h->untracked), 20);
	KUNIT_EXPECT_GT(test, atomic_read(&h->ranges), 20);
	KUNIT_EXPECT_GT(test, atomic_read(&h->drops), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&h->trims), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&h->takes), 0);
}

/* More blocks than slots, with homes of less than eight ways, and fewer blocks than slots. */
static const unsigned int hammer_slot_counts[] = { RXC_SLOTS_MIN + 3, 4 * RXC_WAYS };

static void slots_name(const unsigned int *nr_slots, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "slots: %u", *nr_slots);
}

KUNIT_ARRAY_PARAM(hammer_slots, hammer_slot_counts, slots_name);

/* A larger index takes over */

static struct rxc_index *make_larger(struct kunit *test, struct cache *c, unsigned long nr_slots)
{
	struct rxc_index *larger;

	KUNIT_ASSERT_EQ(test, rxd_store_grow(c->store, nr_slots * c->block_pages), 0);
	larger = rxc_index_create(c->store, c->block_pages, c->stats);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, larger);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_index, larger), 0);
	return larger;
}

static int take_over(struct cache *c, struct rxc_index *larger)
{
	struct rxd_moves moves;
	int ret;

	ret = rxd_store_begin_moves(&moves, c->store);
	if (ret)
		return ret;
	rxc_index_take_over(larger, c->index, &moves);
	/* The pages of blocks that have left are not kept until the end. */
	if (pages_used(c) != used(c) * c->block_pages)
		ret = -EUCLEAN;
	rxd_store_end_moves(&moves);
	c->index = larger;
	return ret;
}

static void grow_cache(struct kunit *test, struct cache *c, unsigned long nr_slots)
{
	KUNIT_ASSERT_EQ(test, take_over(c, make_larger(test, c, nr_slots)), 0);
	KUNIT_ASSERT_EQ(test, rxc_index_nr_slots(c->index), nr_slots);
}

static u8 byte_of(u64 block)
{
	return hash_64(block, 8);
}

static void expect_nothing_left(struct kunit *test, struct cache *c)
{
	int node;

	rxc_index_drop(c->index, 0, RXC_BLOCK_MAX);
	KUNIT_EXPECT_EQ(test, used(c), 0);
	KUNIT_EXPECT_EQ(test, pages_used(c), 0);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&c->store->leaves), 0);
	for (node = 0; node < nr_node_ids; node++)
		KUNIT_EXPECT_EQ(test, atomic_long_read(&c->store->on_node[node].used), 0);
}

/*
 * @from: number of slots
 * @to: number of slots afterwards
 * @block_pages: pages of a block
 * @nr: number of blocks that are filled one after the other
 * @runs: they are in runs of neighbouring blocks
 */
struct growth {
	unsigned int from;
	unsigned int to;
	unsigned int block_pages;
	unsigned int nr;
	bool runs;
};

/* Full and not, with fewer sets than neighbouring blocks are spread over, and with more. */
static const struct growth growths[] = {
	{ RXC_WAYS, RXC_WAYS * 3 / 2, 1, 3 * RXC_WAYS },
	{ RXC_WAYS, 2 * RXC_WAYS, 1, 3 * RXC_WAYS, true },
	{ RXC_SLOTS_MIN, 3 * RXC_SLOTS_MIN, 256, 3 * RXC_SLOTS_MIN },
	{ RXC_SLOTS_MIN, 100 * RXC_SLOTS_MIN, 16, 3 * RXC_SLOTS_MIN, true },
	{ 40 * RXC_WAYS, 41 * RXC_WAYS, 1, 120 * RXC_WAYS },
	{ 40 * RXC_WAYS, 44 * RXC_WAYS, 1, 120 * RXC_WAYS, true },
	{ 40 * RXC_WAYS, 44 * RXC_WAYS, 1, 120 * RXC_WAYS },
	{ 40 * RXC_WAYS, 60 * RXC_WAYS, 1, 120 * RXC_WAYS },
	{ 40 * RXC_WAYS, 60 * RXC_WAYS, 1, 120 * RXC_WAYS, true },
	{ 40 * RXC_WAYS, 80 * RXC_WAYS, 4, 120 * RXC_WAYS },
	{ 40 * RXC_WAYS, 120 * RXC_WAYS, 1, 20 * RXC_WAYS },
	{ 1100 * RXC_WAYS, 1650 * RXC_WAYS, 1, 5000, true },
	{ 1100 * RXC_WAYS, 3300 * RXC_WAYS, 1, 5000 },
};

static void growth_name(const struct growth *growth, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u to %u slots of %u pages, %u %s", growth->from,
		 growth->to, growth->block_pages, growth->nr,
		 growth->runs ? "in runs" : "at random");
}

KUNIT_ARRAY_PARAM(growth, growths, growth_name);

static u64 nth_block(const struct growth *growth, unsigned int n)
{
	u64 block = n * 0x9e3779b1ULL & GENMASK_ULL(39, 0);

	if (growth->runs)
		return (n / RXC_SPREAD * 977ULL + 5) * RXC_SPREAD + n % RXC_SPREAD;
	/* Each step has an inverse, so no two numbers are the same. */
	block ^= block >> 20;
	return block * 0xbf58476d1ce4e5b9ULL & GENMASK_ULL(39, 0);
}

static void take_over_keeps_blocks(struct kunit *test)
{
	const struct growth *growth = test->param_value;
	struct cache *c = make_small_cache(test, growth->from, growth->block_pages);
	bool *was = kunit_kzalloc(test, growth->nr * sizeof(*was), GFP_KERNEL);
	unsigned int held = 0, kept = 0, i;
	u64 evictions, block;

	KUNIT_ASSERT_NOT_NULL(test, was);
	for (i = 0; i < growth->nr; i++)
		fill(test, c, nth_block(growth, i), byte_of(nth_block(growth, i)));
	for (i = 0; i < growth->nr; i++) {
		was[i] = holds(c, nth_block(growth, i));
		held += was[i];
	}
	KUNIT_ASSERT_EQ(test, used(c), held);
	evictions = stat(c, RXC_EVICTIONS);

	grow_cache(test, c, growth->to);
	for (i = 0; i < growth->nr; i++) {
		block = nth_block(growth, i);
		if (!holds(c, block))
			continue;
		KUNIT_ASSERT_TRUE(test, was[i]);
		KUNIT_ASSERT_TRUE(test, block_is(c, block, byte_of(block)));
		kept++;
	}
	kunit_info(test, "%u of %u blocks kept", kept, held);
	KUNIT_EXPECT_GE(test, kept * 100, held * 95);
	KUNIT_EXPECT_EQ(test, used(c), kept);
	KUNIT_EXPECT_EQ(test, pages_used(c), kept * growth->block_pages);
	KUNIT_EXPECT_EQ(test, stat(c, RXC_EVICTIONS) - evictions, held - kept);

	/* The cache goes on, with all its slots. */
	for (i = 0; i < growth->nr; i++) {
		block = nth_block(growth, i);
		if (!holds(c, block))
			fill(test, c, block, byte_of(block));
		KUNIT_ASSERT_TRUE(test, block_is(c, block, byte_of(block)));
	}
	KUNIT_EXPECT_EQ(test, pages_used(c), used(c) * growth->block_pages);
	if (growth->nr > kept)
		KUNIT_EXPECT_GT(test, used(c), kept);
	expect_nothing_left(test, c);
}

/* All blocks are in one of two sets. The first ones are in the small queue. */
static void take_over_leaves_out_the_coldest(struct kunit *test)
{
	const unsigned int nr_small = RXC_WAYS / 5, nr_small_kept = 6, nr_slots = 72;
	unsigned int nr_used = 0, nr_gone = 0, way, nr;
	struct cache *c = make_cache(test, 1, 1);

	for (way = 0; way < RXC_WAYS; way++)
		fill(test, c, 2 * way, way + 1);
	for (way = nr_small; way < RXC_WAYS; way += 5, nr_used++)
		for (nr = 0; nr < 3; nr++)
			hit(c, 2 * way);
	grow_cache(test, c, nr_slots);
	KUNIT_EXPECT_EQ(test, used(c), nr_slots / 2);
	for (way = 0; way < nr_small; way++)
		KUNIT_EXPECT_EQ(test, holds(c, 2 * way), way >= nr_small - nr_small_kept);
	for (; way < RXC_WAYS; way++) {
		if ((way - nr_small) % 5 == 0) {
			KUNIT_EXPECT_TRUE(test, holds(c, 2 * way));
		} else if (nr_gone < RXC_WAYS - nr_slots / 2 - (nr_small - nr_small_kept)) {
			KUNIT_EXPECT_FALSE(test, holds(c, 2 * way));
			nr_gone++;
		} else {
			KUNIT_EXPECT_TRUE(test, block_is(c, 2 * way, way + 1));
		}
	}
	KUNIT_EXPECT_GT(test, nr_used, 5);
	expect_nothing_left(test, c);
}

/* What is used stays in use: a scan that comes later does not displace it. */
static void take_over_keeps_the_order(struct kunit *test)
{
	struct cache *c = make_cache(test, 2, 1);
	unsigned int i;
	u64 block;

	for (block = 0; block < 2 * RXC_WAYS; block++)
		fill(test, c, block, byte_of(block));
	for (block = RXC_WAYS; block < RXC_WAYS + 32; block++)
		for (i = 0; i < 3; i++)
			hit(c, block);
	grow_cache(test, c, 3 * RXC_WAYS);
	for (block = 1000; block < 1000 + 4 * RXC_WAYS; block++)
		fill(test, c, block, byte_of(block));
	KUNIT_EXPECT_EQ(test, count_held(c, RXC_WAYS, 32), 32);
	/* What was in the small queues has left. */
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 2 * (RXC_WAYS / 5)), 0);
}

static void take_over_without_memory(struct kunit *test)
{
	const unsigned int nr_blocks = 300;
	unsigned int nth, kept;
	struct rxc_index *larger;
	struct cache *c;
	bool failed;
	u64 block;
	int ret;

	for (nth = 1; nth < FAULT_MAX; nth++) {
		c = make_cache(test, 8, 1);
		for (block = 0; block < nr_blocks; block++)
			fill(test, c, block, byte_of(block));
		larger = make_larger(test, c, 16 * RXC_WAYS);
		fault_begin(nth);
		ret = take_over(c, larger);
		failed = fault_end();
		KUNIT_EXPECT_EQ(test, ret, nth == 1 ? -ENOMEM : 0);
		for (block = 0, kept = 0; block < nr_blocks; block++)
			kept += block_is(c, block, byte_of(block));
		/* One block needs the leaf that is missing, and the next one gets it. */
		KUNIT_EXPECT_GE(test, kept, ret || !failed ? nr_blocks : nr_blocks - 1);
		KUNIT_EXPECT_EQ(test, count_held(c, 0, nr_blocks), kept);
		KUNIT_EXPECT_EQ(test, used(c), kept);
		KUNIT_EXPECT_EQ(test, pages_used(c), kept);
		KUNIT_EXPECT_EQ(test, stat(c, RXC_EVICTIONS), nr_blocks - kept);
		expect_nothing_left(test, c);
		if (!failed)
			break;
	}
	KUNIT_EXPECT_GT(test, nth, 2);
	KUNIT_EXPECT_LT(test, nth, FAULT_MAX);
}

static void take_over_of_nothing(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 2);

	grow_cache(test, c, 8 * RXC_WAYS);
	KUNIT_EXPECT_EQ(test, used(c), 0);
	fill(test, c, 7, 0x77);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x77));
	expect_nothing_left(test, c);
}

/* Writes of both kinds, with blocks that were there before. */
static void take_over_before_writes(struct kunit *test)
{
	struct rxc_range range = { .first = 7, .nr = 2 };
	struct cache *c = make_cache(test, 4, 2);
	unsigned long slot;
	u64 block;

	for (block = 0; block < 20; block++)
		fill(test, c, block, byte_of(block));
	grow_cache(test, c, 6 * RXC_WAYS);
	rxc_index_begin_range(c->index, &range);
	KUNIT_EXPECT_EQ(test, count_held(c, 7, 2), 0);
	KUNIT_EXPECT_EQ(test, count_held(c, 0, 20), 18);
	KUNIT_EXPECT_FALSE(test, rxc_index_can_fill(c->index, 7));
	KUNIT_ASSERT_EQ(test, begin_write(test, c, 3, false, &slot), RXC_FATE_TRACKED);
	KUNIT_EXPECT_FALSE(test, holds(c, 3));
	set_data(c, slot, 0x33);
	rxc_index_end_write(c->index, 3, true);
	KUNIT_EXPECT_TRUE(test, block_is(c, 3, 0x33));
	KUNIT_ASSERT_EQ(test, begin_write(test, c, 4, true, &slot), RXC_FATE_TRACKED);
	rxc_index_end_write(c->index, 4, false);
	KUNIT_EXPECT_FALSE(test, holds(c, 4));
	rxc_index_end_range(c->index, &range);
	fill(test, c, 7, 0x77);
	KUNIT_EXPECT_TRUE(test, block_is(c, 7, 0x77));
	expect_nothing_left(test, c);
}

static void take_over_below_a_limit(struct kunit *test)
{
	struct cache *c = make_cache(test, 4, 1);
	const unsigned long limit = 2 * RXC_WAYS;
	u64 block;

	rxc_index_set_limit(c->index, limit);
	for (block = 0; block < 4 * limit; block++)
		fill(test, c, block, byte_of(block));
	KUNIT_ASSERT_EQ(test, pages_used(c), limit);
	grow_cache(test, c, 8 * RXC_WAYS);
	KUNIT_EXPECT_EQ(test, pages_used(c), limit);
	rxc_index_set_limit(c->index, limit);
	for (; block < 8 * limit; block++) {
		fill(test, c, block, byte_of(block));
		KUNIT_ASSERT_LE(test, pages_used(c), limit);
	}
	KUNIT_EXPECT_EQ(test, pages_used(c), limit);
	expect_nothing_left(test, c);
}

static int index_suite_init(struct kunit_suite *suite)
{
	return rxd_store_init() ?: fault_check();
}

static void index_suite_exit(struct kunit_suite *suite)
{
	rxd_store_exit();
}

static struct kunit_case index_cases[] = {
	KUNIT_CASE(create_is_empty),
	KUNIT_CASE(create_counts_whole_blocks),
	KUNIT_CASE(create_wastes_few_slots),
	KUNIT_CASE(create_smaller_than_a_cache),
	KUNIT_CASE(outgrown),
	KUNIT_CASE(create_needs_little_memory),
	KUNIT_CASE(create_fails_at_each_allocation),
	KUNIT_CASE(fill_asks_for_pages),
	KUNIT_CASE(fill_shows_when_it_ends),
	KUNIT_CASE(fill_takes_its_pages),
	KUNIT_CASE(fill_that_fails_leaves_nothing),
	KUNIT_CASE(fill_under_way_refuses_another),
	KUNIT_CASE(fill_of_what_is_there),
	KUNIT_CASE(fill_blocks_of_many_pages),
	KUNIT_CASE(fill_tells_large_numbers_apart),
	KUNIT_CASE(fill_of_block_zero),
	KUNIT_CASE(fill_uses_each_slot),
	KUNIT_CASE(fill_takes_a_slot_at_home),
	KUNIT_CASE(fill_without_memory_for_leaf),
	KUNIT_CASE(limit_makes_blocks_go),
	KUNIT_CASE(limit_for_part_of_a_block),
	KUNIT_CASE(limit_is_shared_by_the_sets),
	KUNIT_CASE(limit_with_all_busy),
	KUNIT_CASE_SLOW(limit_under_contention),
	KUNIT_CASE(size_is_never_exceeded),
	KUNIT_CASE(size_and_mem_limit),
	KUNIT_CASE(size_drains_no_set),
	KUNIT_CASE(size_evicts_no_more_than_it_must),
	KUNIT_CASE(size_rises_again),
	KUNIT_CASE(size_falls_in_all_sets),
	KUNIT_CASE(size_moves_evenly),
	KUNIT_CASE(size_spares_what_is_used),
	KUNIT_CASE(size_resists_a_scan),
	KUNIT_CASE(size_with_all_busy),
	KUNIT_CASE(size_with_one_busy),
	KUNIT_CASE(size_falls_in_parts),
	KUNIT_CASE(miss_beside_a_trim),
	KUNIT_CASE(take_out_of_a_node),
	KUNIT_CASE(take_out_is_even),
	KUNIT_CASE(make_room_frees_a_block),
	KUNIT_CASE(make_room_rests_after_a_round),
	KUNIT_CASE(take_out_does_not_rest),
	KUNIT_CASE(make_room_goes_on),
	KUNIT_CASE(make_room_is_overtaken),
	KUNIT_CASE(make_room_of_another_node),
	KUNIT_CASE(hit_page_of_another_block),
	KUNIT_CASE(hit_page_outlives_eviction),
	KUNIT_CASE(hits_keep_the_block),
	KUNIT_CASE(hit_of_busy_slot),
	KUNIT_CASE(walk_finds_each_block),
	KUNIT_CASE(walk_finds_blocks_away_from_home),
	KUNIT_CASE(walk_with_the_hint_of_another_block),
	KUNIT_CASE(walk_before_the_block_moves),
	KUNIT_CASE(evict_one_for_one),
	KUNIT_CASE(evict_spares_what_is_used),
	KUNIT_CASE(evict_changes_what_is_found),
	KUNIT_CASE(evict_spares_busy_slots),
	KUNIT_CASE(set_full_of_busy_slots),
	KUNIT_CASE(write_hit),
	KUNIT_CASE(write_hit_with_pages),
	KUNIT_CASE(write_hit_of_part_keeps_its_pages),
	KUNIT_CASE(write_miss_of_whole_block),
	KUNIT_CASE(write_miss_of_part),
	KUNIT_CASE(write_that_fails_drops_the_block),
	KUNIT_CASE(write_dooms_a_fill),
	KUNIT_CASE(write_dooms_a_write),
	KUNIT_CASE(doom_ends_with_its_block),
	KUNIT_CASE(region_ends),
	KUNIT_CASE(range_drops_its_blocks_only),
	KUNIT_CASE(range_keeps_out_its_blocks_only),
	KUNIT_CASE(ranges_over_the_same_block),
	KUNIT_CASE(range_in_two_regions),
	KUNIT_CASE(range_longer_than_the_cache),
	KUNIT_CASE(range_in_atomic_context),
	KUNIT_CASE(range_dooms_what_is_busy),
	KUNIT_CASE_PARAM(drop_range, set_count_gen_params),
	KUNIT_CASE(drop_all),
	KUNIT_CASE(drop_nothing),
	KUNIT_CASE(drop_dooms_what_is_busy),
	KUNIT_CASE_PARAM(take_over_keeps_blocks, growth_gen_params),
	KUNIT_CASE(take_over_leaves_out_the_coldest),
	KUNIT_CASE(take_over_keeps_the_order),
	KUNIT_CASE(take_over_without_memory),
	KUNIT_CASE(take_over_of_nothing),
	KUNIT_CASE(take_over_before_writes),
	KUNIT_CASE(take_over_below_a_limit),
	KUNIT_CASE_PARAM_ATTR(hammer, hammer_slots_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite index_suite = {
	.name = "rxcache_index",
	.suite_init = index_suite_init,
	.suite_exit = index_suite_exit,
	.test_cases = index_cases,
};

kunit_test_suite(index_suite);

MODULE_DESCRIPTION("KUnit tests of rxcache's index");
MODULE_LICENSE("GPL");
