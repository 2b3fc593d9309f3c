// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what lends memory to caches, on a machine with two nodes. The caches are a store
 * and a function that takes pages out of it.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/numa.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/shrinker.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <uapi/linux/rxd.h>

#include "../module/lend.h"
#include "../module/store.h"
#include "../module/store-internal.h"
#include "borrow-test.h"
#include "crew.h"

#define CAPACITY	12000
/* Pages that are counted, or given back, at once. */
#define BATCH		((long)(SZ_1M / PAGE_SIZE))
/* A task that reclaims gets few more if so many are free on its node. */
#define ENOUGH_FOR_TASK	((long)MACHINE_PAGES / NR_NODES / 32)
/* Programs are expected to take so many pages in a jiffy. */
#define RATE		((long)DIV_ROUND_UP(SZ_1G / PAGE_SIZE, HZ))
/* After how many jiffies memory is looked at again, at least. */
#define LEAST		DIV_ROUND_UP(HZ, 50)

struct cache {
	struct rxd_borrower borrower;
	spinlock_t lock; /* serialises changes of pages */
	bool is_busy, is_deaf;
	u64 uses;
	/* What give() was asked for. */
	unsigned int nr_asked;
	long asked;
	int nid;
};

static struct cache *cache_of(const struct rxd_borrower *borrower)
{
	return container_of(borrower, struct cache, borrower);
}

static bool is_on(const struct rxd_store *store, unsigned long pgno, int nid)
{
	struct page *page;
	bool is;

	rcu_read_lock();
	page = rxd_store_lookup(store, pgno);
	is = page && (nid == NUMA_NO_NODE || test_nid(page) == nid);
	rcu_read_unlock();
	return is;
}

static long give(struct rxd_borrower *borrower, unsigned long nr, int nid, struct list_head *pages)
{
	struct cache *c = cache_of(borrower);
	unsigned long pgno;
	long found = 0;

	c->nr_asked++;
	c->asked = nr;
	c->nid = nid;
	if (c->is_busy)
		return -EBUSY;
	if (c->is_deaf)
		return 0;
	spin_lock(&c->lock);
	nr = min(nr, rxd_store_lent(borrower->store));
	for (pgno = 0; pgno < CAPACITY && found < nr; pgno++) {
		if (!is_on(borrower->store, pgno, nid))
			continue;
		list_add(&rxd_store_take(borrower->store, pgno)->lru, pages);
		found++;
	}
	spin_unlock(&c->lock);
	return found;
}

static u64 count_uses(const struct rxd_borrower *borrower)
{
	return cache_of(borrower)->uses;
}

static void destroy(void *arg)
{
	struct cache *c = arg;

	rxd_borrow_end(&c->borrower);
	rxd_store_set_lending(c->borrower.store, ULONG_MAX);
	rxd_store_destroy(c->borrower.store);
}

static struct cache *make(struct kunit *test, int node)
{
	struct rxd_store_options options = { .node = node };
	struct cache *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	spin_lock_init(&c->lock);
	c->borrower = (struct rxd_borrower) {
		.give = give,
		.count_uses = count_uses,
		.list = LIST_HEAD_INIT(c->borrower.list),
		.store = rxd_store_create(CAPACITY, &options),
	};
	KUNIT_ASSERT_NOT_NULL(test, c->borrower.store);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy, c), 0);
	return c;
}

/* Replace pages by such of a node. */
static void fill(struct kunit *test, struct cache *c, int node, unsigned long first,
		 unsigned long nr)
{
	struct page *page;
	int ret;

	for (; nr; nr--, first++) {
		page = test_page(node);
		KUNIT_ASSERT_NOT_NULL(test, page);
		spin_lock(&c->lock);
		ret = rxd_store_exchange(c->borrower.store, first, page, RXD_GFP_NOWAIT);
		spin_unlock(&c->lock);
		KUNIT_ASSERT_EQ(test, ret, 0);
	}
}

/* A cache that was lent all its pages, so many of each node. */
static struct cache *make_lent(struct kunit *test, unsigned long on_0, unsigned long on_1)
{
	struct cache *c = make(test, RXD_NODE_LOCAL);

	fill(test, c, 0, 0, on_0);
	fill(test, c, 1, on_0, on_1);
	rxd_store_set_lending(c->borrower.store, 0);
	rxd_borrow_begin(&c->borrower);
	return c;
}

static long pages_on(const struct cache *c, int node)
{
	unsigned long pgno;
	long nr = 0;

	for (pgno = 0; pgno < CAPACITY; pgno++)
		nr += is_on(c->borrower.store, pgno, node);
	return nr;
}

/* Pretend that a cache has more pages of node 0. */
static void pretend(struct cache *c, long nr)
{
	struct rxd_store *store = c->borrower.store;

	rxd_store_set_lending(store, ULONG_MAX);
	atomic_long_add(nr, &store->used);
	atomic_long_add(nr, &store->on_node[0].used);
	rxd_store_set_lending(store, 0);
}

static void expect_lent(struct kunit *test, long on_0, long on_1)
{
	KUNIT_EXPECT_EQ(test, test_lent_on(0), on_0);
	KUNIT_EXPECT_EQ(test, test_lent_on(1), on_1);
	KUNIT_EXPECT_EQ(test, atomic_long_read(test_stat(0, NR_KERNEL_MISC_RECLAIMABLE)), on_0);
	KUNIT_EXPECT_EQ(test, atomic_long_read(test_stat(1, NR_KERNEL_MISC_RECLAIMABLE)), on_1);
}

static void each_node_has_its_part(struct kunit *test)
{
	struct cache *c = make(test, RXD_NODE_LOCAL);
	struct rxd_store *store = c->borrower.store;

	fill(test, c, 0, 0, 3000);
	fill(test, c, 1, 3000, 1000);
	expect_lent(test, 0, 0);
	/* No matter on which node this runs, and where the last page is. */
	rxd_store_set_lending(store, 2000);
	expect_lent(test, 1500, 500);
	test_machine.local = 1;
	rxd_store_set_lending(store, 1000);
	expect_lent(test, 2250, 750);

	/* Pages move to the other node, and none is used in addition. */
	fill(test, c, 1, 0, 1000);
	KUNIT_EXPECT_LE(test, abs(test_lent_on(1) - 1500), BATCH);
	KUNIT_EXPECT_EQ(test, test_lent_on(0) + test_lent_on(1), 3000);
	rxd_store_set_lending(store, 0);
	expect_lent(test, 2000, 2000);
	rxd_store_clear(store);
	expect_lent(test, 0, 0);
}

static void count_follows_in_batches(struct kunit *test)
{
	struct cache *c = make(test, RXD_NODE_LOCAL);
	struct rxd_store *store = c->borrower.store;
	unsigned long pgno;

	rxd_store_set_lending(store, 1000);
	for (pgno = 0; pgno < 4000; pgno += 100) {
		fill(test, c, pgno / 100 % 2, pgno, 100);
		KUNIT_EXPECT_LE(test, abs(test_lent_on(0) + test_lent_on(1) -
					  (long)rxd_store_lent(store)), 2 * BATCH);
	}
	for (pgno = 0; pgno < 4000; pgno++)
		rxd_store_exchange(store, pgno, NULL, RXD_GFP_NOWAIT);
	KUNIT_EXPECT_LE(test, test_lent_on(0) + test_lent_on(1), 2 * BATCH);
	rxd_store_set_lending(store, ULONG_MAX);
	expect_lent(test, 0, 0);
}

static void node_gets_its_own_pages(struct kunit *test)
{
	struct cache *c = make_lent(test, 3000, 1000);
	unsigned long reclaimed, nr;

	rxd_store_set_lending(c->borrower.store, 400);
	test_set_spare(1, WMARK_MIN, 0);
	KUNIT_EXPECT_EQ(test, test_scan(1, 1, &reclaimed), BATCH);
	KUNIT_EXPECT_EQ(test, reclaimed, BATCH);
	KUNIT_EXPECT_EQ(test, c->nid, 1);
	KUNIT_EXPECT_EQ(test, test_machine.nr_graces, 1);
	while ((nr = test_scan(1, 1024, NULL)) != SHRINK_STOP)
		KUNIT_ASSERT_LE(test, nr, 1024);
	KUNIT_EXPECT_LE(test, pages_on(c, 1), 1);
	KUNIT_EXPECT_EQ(test, pages_on(c, 0), 3000);

	/* The other node has its pages still, except those that are not lent. */
	test_set_spare(0, WMARK_MIN, 0);
	while (test_scan(0, 1024, NULL) != SHRINK_STOP)
		;
	KUNIT_EXPECT_EQ(test, rxd_store_used(c->borrower.store), 400);
}

/* A page that fell back to the other node must not have its reclaim ask for all there is. */
static void little_is_asked_for_where_little_is_lent(struct kunit *test)
{
	struct cache *c = make_lent(test, 1000, 10);

	KUNIT_EXPECT_EQ(test, test_count(1), 10 << DEF_PRIORITY);
	pretend(c, 1 << 20);
	KUNIT_EXPECT_EQ(test, test_count(0), 256 * MACHINE_PAGES / NR_NODES);
	pretend(c, -(1 << 20));
	rxd_store_set_lending(c->borrower.store, ULONG_MAX);
	KUNIT_EXPECT_EQ(test, test_count(0), SHRINK_EMPTY);
}

/* The free memory of a node beyond the high watermark for which others give back what they have. */
static long enough_on_node(void)
{
	return test_headroom() / NR_NODES / 4 * 3;
}

static void expect_given(struct kunit *test, unsigned long nr)
{
	KUNIT_EXPECT_EQ(test, test_scan(0, 1, NULL), nr ?: SHRINK_STOP);
}

static void reclaim_gets_what_is_missing(struct kunit *test)
{
	struct cache *c = make_lent(test, 20 * BATCH, 0);
	long enough = enough_on_node();

	test_set_spare(0, WMARK_MIN, ENOUGH_FOR_TASK - 1);
	expect_given(test, BATCH);
	/* From here on, it gets what ends its work. */
	test_set_spare(0, WMARK_MIN, ENOUGH_FOR_TASK);
	expect_given(test, SWAP_CLUSTER_MAX);
	test_set_spare(0, WMARK_HIGH, enough + 8 * BATCH - 1);
	expect_given(test, SWAP_CLUSTER_MAX);
	test_set_spare(0, WMARK_HIGH, enough + 8 * BATCH);
	expect_given(test, 0);

	test_machine.is_kswapd = true;
	test_set_spare(0, WMARK_HIGH, enough - 1);
	expect_given(test, BATCH);
	test_set_spare(0, WMARK_HIGH, enough);
	expect_given(test, 0);
	/* Below boosted watermarks, single pages are missing, too. */
	test_zone(0, ZONE_NORMAL)->watermark_boost = enough;
	expect_given(test, 0);
	KUNIT_EXPECT_GT(test, test_early(), 0);
	test_zone(0, ZONE_NORMAL)->watermark_boost++;
	expect_given(test, BATCH);
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	test_machine.is_kswapd = false;
	test_set_spare(0, WMARK_MIN, ENOUGH_FOR_TASK + enough);
	expect_given(test, BATCH);
	test_set_spare(0, WMARK_MIN, ENOUGH_FOR_TASK + enough + 1);
	expect_given(test, 0);
	test_zone(0, ZONE_NORMAL)->watermark_boost = 0;
	test_machine.is_kswapd = true;
	test_set_spare(0, WMARK_HIGH, enough);
	atomic_long_inc(&test_zone(0, ZONE_NORMAL)->vm_stat[NR_FREE_CMA_PAGES]);
	expect_given(test, BATCH);
	atomic_long_dec(&test_zone(0, ZONE_NORMAL)->vm_stat[NR_FREE_CMA_PAGES]);
	expect_given(test, 0);
	test_set_spare(0, WMARK_HIGH, 0);
	test_zone(0, ZONE_MOVABLE)->present_pages = MACHINE_PAGES / 4;
	atomic_long_set(&test_zone(0, ZONE_MOVABLE)->vm_stat[NR_FREE_PAGES], MACHINE_PAGES / 4);
	expect_given(test, BATCH);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 9);
}

/* Reclaim of large pieces begins with much memory free. Not so that of drop_caches. */
static void nothing_is_given_without_need(struct kunit *test)
{
	struct cache *c = make_lent(test, 2 * BATCH, 0);

	test_set_spare(0, WMARK_HIGH, enough_on_node() + 8 * BATCH);
	expect_given(test, 0);
	test_machine.is_kswapd = true;
	expect_given(test, 0);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 0);
	KUNIT_EXPECT_EQ(test, test_machine.nr_graces, 0);
	KUNIT_EXPECT_EQ(test, test_drop(0, 1), BATCH);
}

static bool is_urgent_on(int node)
{
	return test_count(node) > 1000;
}

/* Before reclaim begins. It begins and ends at different marks. */
static void memory_is_given_back_early(struct kunit *test)
{
	const long enough = enough_on_node(), part = test_headroom() / NR_NODES / 16;
	struct cache *c = make_lent(test, 28 * BATCH, 4 * BATCH);

	KUNIT_ASSERT_EQ(test, part, 8 * BATCH);
	/* It looks again before half of what is free can be gone. */
	test_set_spare(0, WMARK_HIGH, enough);
	KUNIT_EXPECT_EQ(test, test_early(), enough / 2 / RATE);
	test_set_spare(0, WMARK_HIGH, 2 * enough);
	KUNIT_EXPECT_EQ(test, test_early(), enough / RATE);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 0);

	test_set_spare(0, WMARK_HIGH, enough - 1);
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	KUNIT_EXPECT_EQ(test, c->nid, 0);
	expect_lent(test, 20 * BATCH, 4 * BATCH);
	test_set_spare(0, WMARK_HIGH, enough + part - 2 * BATCH);
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	expect_lent(test, 18 * BATCH, 4 * BATCH);
	test_set_spare(0, WMARK_HIGH, enough + part - 1);
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	expect_lent(test, 17 * BATCH, 4 * BATCH);
	test_set_spare(0, WMARK_HIGH, enough + part);
	KUNIT_EXPECT_EQ(test, test_early(), (enough + part) / 2 / RATE);
	test_set_spare(0, WMARK_HIGH, enough);
	KUNIT_EXPECT_EQ(test, test_early(), enough / 2 / RATE);
	expect_lent(test, 17 * BATCH, 4 * BATCH);
	/* Reclaim that begins meanwhile has not to wait for more than this. */
	test_set_spare(0, WMARK_HIGH, 0);
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	expect_lent(test, 9 * BATCH, 4 * BATCH);

	test_set_spare(1, WMARK_HIGH, enough - 1);
	c->nr_asked = 0;
	test_set_spare(0, WMARK_HIGH, enough + part);
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 1);
	expect_lent(test, 9 * BATCH, 0);
	/* Nothing of the node is lent any more. */
	KUNIT_EXPECT_EQ(test, test_early(), (enough + part) / 2 / RATE);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 1);
}

/* If nothing can be given, trying it all the time costs more than it brings. */
static void early_giving_pauses(struct kunit *test)
{
	struct cache *c = make_lent(test, 20 * BATCH, 0);
	unsigned long delay;
	unsigned int round;

	test_set_spare(0, WMARK_HIGH, 0);
	for (round = 0; round < 2; round++) {
		c->is_busy = !round;
		c->is_deaf = round;
		for (delay = LEAST; delay < HZ; delay *= 2)
			KUNIT_EXPECT_EQ(test, test_early(), delay);
		KUNIT_EXPECT_EQ(test, test_early(), HZ);
		KUNIT_EXPECT_EQ(test, test_early(), HZ);
		c->is_busy = false;
		c->is_deaf = false;
		KUNIT_EXPECT_EQ(test, test_early(), 0);
	}
	c->is_busy = true;
	KUNIT_EXPECT_EQ(test, test_early(), LEAST);
}

/* While there is page cache that reclaim can take as well. */
static void page_cache_is_taken_first(struct kunit *test)
{
	atomic_long_t *cache = test_zone_stat(0, ZONE_NORMAL, NR_ZONE_INACTIVE_FILE);
	struct cache *c = make_lent(test, 20 * BATCH, 0);

	test_set_spare(0, WMARK_HIGH, 0);
	atomic_long_set(cache, test_headroom() / NR_NODES / 2 + 5 * RATE);
	KUNIT_EXPECT_EQ(test, test_early(), 5);
	/* Nobody reclaims for want of free memory: a control group has moved them. */
	atomic_long_add(1000000, test_stat(0, NR_VMSCAN_WRITE));
	KUNIT_EXPECT_EQ(test, test_early(), 5);
	test_machine.late += HZ + HZ / 2;
	atomic_long_add(1000000, test_stat(0, NR_VMSCAN_WRITE));
	KUNIT_EXPECT_EQ(test, test_early(), 5);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 0);

	KUNIT_EXPECT_FALSE(test, is_urgent_on(0));
	KUNIT_EXPECT_EQ(test, test_early(), 5);
	atomic_long_add(1000, test_stat(0, NR_VMSCAN_WRITE));
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	expect_lent(test, 12 * BATCH, 0);
	/* Reclaim has ended. */
	test_machine.late += 2 * HZ + 1;
	KUNIT_EXPECT_EQ(test, test_early(), 5);
	expect_lent(test, 12 * BATCH, 0);
}

/* Each allocation may take what was lent, and not each may take movable memory. */
static void movable_page_cache_is_none(struct kunit *test)
{
	struct cache *c = make_lent(test, 20 * BATCH, 0);

	test_zone(0, ZONE_MOVABLE)->present_pages = MACHINE_PAGES;
	atomic_long_set(test_zone_stat(0, ZONE_MOVABLE, NR_ZONE_INACTIVE_FILE), MACHINE_PAGES / 2);
	atomic_long_set(test_zone_stat(0, ZONE_MOVABLE, NR_ZONE_ACTIVE_FILE), MACHINE_PAGES / 2);
	KUNIT_EXPECT_TRUE(test, is_urgent_on(0));
	test_set_spare(0, WMARK_HIGH, 0);
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 1);
	atomic_long_set(test_zone_stat(0, ZONE_NORMAL, NR_ZONE_ACTIVE_FILE), MACHINE_PAGES / 8);
	KUNIT_EXPECT_FALSE(test, is_urgent_on(0));
	KUNIT_EXPECT_GT(test, test_early(), 0);
	/* What is dirty cannot be taken at once. In movable memory, it does not count. */
	atomic_long_set(test_zone_stat(0, ZONE_MOVABLE, NR_ZONE_WRITE_PENDING), MACHINE_PAGES / 2);
	KUNIT_EXPECT_FALSE(test, is_urgent_on(0));
	atomic_long_set(test_zone_stat(0, ZONE_NORMAL, NR_ZONE_WRITE_PENDING), MACHINE_PAGES / 9);
	KUNIT_EXPECT_TRUE(test, is_urgent_on(0));
}

/* The work goes on as long as anything is lent. Other caches cost no timer. */
static void early_giving_begins_with_lending(struct kunit *test)
{
	struct cache *c = make(test, RXD_NODE_LOCAL), *other = make(test, RXD_NODE_LOCAL);

	rxd_borrow_begin(&c->borrower);
	fill(test, c, 0, 0, 3 * BATCH);
	KUNIT_EXPECT_EQ(test, test_delay(), ULONG_MAX);
	KUNIT_EXPECT_EQ(test, test_early(), ULONG_MAX);
	rxd_store_set_lending(c->borrower.store, 0);
	KUNIT_EXPECT_EQ(test, test_delay(), LEAST);
	KUNIT_EXPECT_NE(test, test_early(), ULONG_MAX);
	/* It is queued already. */
	rxd_store_set_lending(other->borrower.store, 0);
	fill(test, other, 1, 0, 3 * BATCH);
	KUNIT_EXPECT_EQ(test, test_delay(), ULONG_MAX);
	rxd_store_set_lending(c->borrower.store, ULONG_MAX);
	KUNIT_EXPECT_NE(test, test_early(), ULONG_MAX);
	rxd_store_clear(other->borrower.store);
	KUNIT_EXPECT_EQ(test, test_early(), ULONG_MAX);
	/* By a fill. */
	fill(test, other, 1, 0, 3 * BATCH);
	KUNIT_EXPECT_EQ(test, test_delay(), LEAST);
}

/* Only atomic allocations get the reserve for them. */
static void reserve_is_not_free(struct kunit *test)
{
	struct cache *c = make_lent(test, 20 * BATCH, 0);
	long reserve = 2 * enough_on_node() + 8 * BATCH;

	test_zone(0, ZONE_NORMAL)->nr_reserved_highatomic = reserve;
	test_set_spare(0, WMARK_HIGH, reserve);
	KUNIT_EXPECT_FALSE(test, rxd_lend_allows(c->borrower.store, 1));
	KUNIT_EXPECT_EQ(test, test_early(), 0);
	expect_given(test, BATCH);
	test_machine.is_kswapd = true;
	expect_given(test, BATCH);
	test_set_spare(0, WMARK_LOW, reserve);
	KUNIT_EXPECT_NULL(test, rxd_store_alloc_page(c->borrower.store, 0, RXD_GFP_LENT));
}

static void page_cache_in_use_is_spared(struct kunit *test)
{
	static const enum node_stat_item items[] = {
		WORKINGSET_ACTIVATE_FILE, WORKINGSET_RESTORE_FILE, WORKINGSET_REFAULT_ANON,
		NR_VMSCAN_WRITE,
	};
	unsigned int i;

	make_lent(test, 1000, 1000);
	for (i = 0; i < NR_NODES; i++) {
		atomic_long_set(test_zone_stat(i, ZONE_NORMAL, NR_ZONE_INACTIVE_FILE),
				MACHINE_PAGES / NR_NODES / 8);
		/* Those that have moved before the first look do not count. */
		atomic_long_set(test_stat(i, NR_VMSCAN_WRITE), 10000);
		KUNIT_EXPECT_EQ(test, test_count(i) >> 11, 0);
	}
	test_machine.late += 2 * HZ;
	for (i = 0; i < ARRAY_SIZE(items); i++) {
		KUNIT_EXPECT_FALSE(test, is_urgent_on(0));
		atomic_long_add(128, test_stat(0, items[i]));
		KUNIT_EXPECT_FALSE(test, is_urgent_on(0));
		atomic_long_inc(test_stat(0, items[i]));
		KUNIT_EXPECT_TRUE(test, is_urgent_on(0));
		KUNIT_EXPECT_FALSE(test, is_urgent_on(1));
		/* For some time, also if nothing moves any more. */
		test_machine.late += HZ + HZ / 2;
		KUNIT_EXPECT_TRUE(test, is_urgent_on(0));
		KUNIT_EXPECT_TRUE(test, is_urgent_on(0));
		test_machine.late += 2 * HZ;
	}
	KUNIT_EXPECT_FALSE(test, is_urgent_on(0));
}

/* Each 20 ms, as this is also looked at. */
static void paces_of_movement(struct kunit *test)
{
	unsigned int i;

	make_lent(test, 1000, 0);
	atomic_long_set(test_zone_stat(0, ZONE_NORMAL, NR_ZONE_INACTIVE_FILE),
			MACHINE_PAGES / NR_NODES / 8);
	for (i = 0; i < 200; i++) {
		KUNIT_ASSERT_FALSE(test, is_urgent_on(0));
		atomic_long_add(2, test_stat(0, NR_VMSCAN_WRITE));
		test_machine.late += HZ / 50;
	}
	for (i = 0; i < 200; i++) {
		if (i > 100)
			KUNIT_ASSERT_TRUE(test, is_urgent_on(0));
		else
			is_urgent_on(0);
		atomic_long_add(4, test_stat(0, NR_VMSCAN_WRITE));
		test_machine.late += HZ / 50;
	}
}

static void oom_gets_some(struct kunit *test)
{
	static const struct {
		long lent, asked; /* in MiB */
	} cases[] = { { 20, 16 }, { 128, 16 }, { 800, 100 }, { 2048, 256 }, { 1 << 20, 256 } };
	struct cache *c = make_lent(test, 0, 0);
	unsigned int i;

	c->is_deaf = true;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		pretend(c, cases[i].lent * BATCH);
		c->nr_asked = 0;
		KUNIT_EXPECT_EQ(test, test_oom(), 0);
		KUNIT_EXPECT_EQ(test, c->nr_asked, 1);
		KUNIT_EXPECT_EQ(test, c->asked, cases[i].asked * BATCH);
		KUNIT_EXPECT_EQ(test, c->nid, NUMA_NO_NODE);
		pretend(c, -cases[i].lent * BATCH);
	}
}

/* The headroom is there, but reclaim may find nothing in one pass. */
static void write_without_a_page_gets_some(struct kunit *test)
{
	struct rxd_store *store = make(test, RXD_NODE_LOCAL)->borrower.store;
	struct cache *c = make_lent(test, 3 * BATCH, 0);
	struct rxd_write write;

	while (rxd_retired_pages())
		rcu_barrier();
	rxd_write_begin(&write, 0, RXD_GFP);
	KUNIT_EXPECT_TRUE(test, rxd_store_wait_for_memory(store, rxd_wait_token(), &write));
	rxd_write_end(&write);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 1);
	KUNIT_EXPECT_EQ(test, c->asked, BATCH);
	KUNIT_EXPECT_EQ(test, c->nid, NUMA_NO_NODE);
	expect_lent(test, 2 * BATCH, 0);
}

/* No node has memory that the OOM notifier would find. */
static void use_all_memory(void)
{
	int node;

	for (node = 0; node < NR_NODES; node++)
		test_set_spare(node, WMARK_MIN, 0);
}

static void oom_waits_for_locks_only(struct kunit *test)
{
	struct cache *c = make_lent(test, 100, 0);

	c->is_busy = true;
	use_all_memory();
	KUNIT_EXPECT_EQ(test, test_scan(0, 1, NULL), SHRINK_STOP);
	c->nr_asked = 0;
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
	KUNIT_EXPECT_GT(test, c->nr_asked, 10);
	c->is_busy = false;
	KUNIT_EXPECT_EQ(test, test_oom(), 100);
	c->nr_asked = 0;
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 0);
}

/* What others have given since an allocation has failed counts once. */
static void oom_counts_gifts_of_others(struct kunit *test)
{
	make_lent(test, BATCH, 0);
	test_set_spare(0, WMARK_MIN, 0);
	KUNIT_EXPECT_EQ(test, test_scan(0, 1, NULL), BATCH);
	KUNIT_EXPECT_EQ(test, test_oom(), BATCH);
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
}

struct call {
	struct completion done;
	unsigned long given;
};

static int call_scan(void *arg)
{
	struct call *call = arg;

	call->given = test_scan(0, 1, NULL);
	kthread_complete_and_exit(&call->done, 0);
}

static int call_oom(void *arg)
{
	struct call *call = arg;

	call->given = test_oom();
	kthread_complete_and_exit(&call->done, 0);
}

static struct task_struct *prepare(struct call *call, int (*fn)(void *arg))
{
	init_completion(&call->done);
	return kthread_create(fn, call, "borrow_kunit");
}

/* Nothing is lent any more, but the last pages wait for their grace period. */
static void oom_waits_for_gifts_of_others(struct kunit *test)
{
	struct task_struct *scanner, *killer;
	static struct call scan, oom;
	bool is_early = false;
	unsigned int i;

	make_lent(test, BATCH, 0);
	use_all_memory();
	scanner = prepare(&scan, call_scan);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, scanner);
	killer = prepare(&oom, call_oom);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, killer);
	rcu_read_lock();
	wake_up_process(scanner);
	for (i = 0; i < 1000 && test_lent_on(0); i++)
		mdelay(1);
	wake_up_process(killer);
	for (i = 0; i < 100; i++) {
		mdelay(1);
		is_early |= completion_done(&oom.done);
	}
	rcu_read_unlock();
	wait_for_completion(&scan.done);
	wait_for_completion(&oom.done);
	KUNIT_EXPECT_FALSE(test, is_early);
	KUNIT_EXPECT_EQ(test, scan.given, BATCH);
	KUNIT_EXPECT_EQ(test, oom.given, BATCH);
}

/* Blocks that move to a larger index cannot be given, for longer than locks are held. */
static void oom_waits_for_moves(struct kunit *test)
{
	struct cache *c = make_lent(test, 100, 0);
	struct task_struct *killer;
	struct rxd_moves moves;
	static struct call oom;

	use_all_memory();
	killer = prepare(&oom, call_oom);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, killer);
	c->is_busy = true;
	rxd_note_moves(1);
	wake_up_process(killer);
	msleep(6000);
	KUNIT_EXPECT_FALSE(test, completion_done(&oom.done));
	c->is_busy = false;
	rxd_note_moves(-1);
	wait_for_completion(&oom.done);
	KUNIT_EXPECT_EQ(test, oom.given, 100);

	/* Blocks that were lost meanwhile, or another program, have freed memory. */
	fill(test, c, 0, 0, 100);
	rxd_lend_count(c->borrower.store);
	c->is_busy = true;
	rxd_note_moves(1);
	test_set_spare(0, WMARK_MIN, 1);
	KUNIT_EXPECT_EQ(test, test_oom(), 1);
	c->is_busy = false;
	rxd_note_moves(-1);

	/* Those of a store count as long as its pages have no numbers. */
	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, c->borrower.store), 0);
	KUNIT_EXPECT_EQ(test, test_moving_caches(), 1);
	rxd_store_end_moves(&moves);
	KUNIT_EXPECT_EQ(test, test_moving_caches(), 0);
}

/* A cache that lends nothing has nothing to give afterwards. */
static void moves_without_lending(struct kunit *test)
{
	struct rxd_store *store = make_lent(test, 10, 0)->borrower.store;
	const unsigned long own[] = { ULONG_MAX, 10 };
	struct rxd_moves moves;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(own); i++) {
		rxd_store_set_lending(store, own[i]);
		KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, store), 0);
		KUNIT_EXPECT_EQ(test, test_moving_caches(), 0);
		KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 0, 0, 10));
		rxd_store_end_moves(&moves);
		KUNIT_EXPECT_EQ(test, test_moving_caches(), 0);
	}
}

/* A discard has freed much, most of which waits for a grace period. */
static void oom_waits_for_retired_pages(struct kunit *test)
{
	struct cache *c = make_lent(test, 100, 0);
	long nr = test_headroom() / 8 + 1;
	struct task_struct *killer;
	static struct call oom;

	killer = prepare(&oom, call_oom);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, killer);
	/* No page of an earlier case may become free meanwhile. */
	rxd_store_drain();
	use_all_memory();
	test_note_retired(nr);
	c->is_deaf = true;
	c->nr_asked = 0;
	wake_up_process(killer);
	while (READ_ONCE(c->nr_asked) < 3 && !completion_done(&oom.done))
		msleep(20);
	KUNIT_EXPECT_FALSE(test, completion_done(&oom.done));
	test_set_spare(1, WMARK_MIN, 1);
	wait_for_completion(&oom.done);
	KUNIT_EXPECT_EQ(test, oom.given, 1);

	/* Nothing becomes free on a node of the task. */
	node_clear(1, test_machine.allowed);
	c->nr_asked = 0;
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
	KUNIT_EXPECT_GT(test, c->nr_asked, 10);

	/* Blocks that replace others keep so much waiting all the time. */
	test_note_retired(-1);
	c->nr_asked = 0;
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 1);
	test_note_retired(1 - nr);
}

/* The allocation may need other memory than that which is free. */
static void free_memory_is_no_progress_for_long(struct kunit *test)
{
	long nr = test_headroom() / 8 + 1;
	unsigned int i;

	rxd_store_drain();
	test_note_retired(nr);
	KUNIT_EXPECT_EQ(test, test_oom(), 1);
	for (i = 0; i < 1000 && test_oom(); i++)
		test_machine.late += HZ / 4;
	KUNIT_EXPECT_GT(test, i, 10);
	KUNIT_EXPECT_LT(test, i, 1000);
	/* A task was killed. */
	KUNIT_EXPECT_EQ(test, test_oom(), 1);
	test_note_retired(-nr);
}

/* kswapd goes on with other nodes and zones, and comes again. */
static void oom_of_kswapd_waits_not(struct kunit *test)
{
	struct cache *c = make_lent(test, 100, 0);

	use_all_memory();
	test_machine.is_kswapd = true;
	c->is_busy = true;
	c->nr_asked = 0;
	KUNIT_EXPECT_EQ(test, test_oom(), 1);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 1);
	c->is_busy = false;
	KUNIT_EXPECT_EQ(test, test_oom(), 100);
	rxd_note_givers(1);
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
	rxd_note_givers(-1);
}

/* Nothing is lent any more, and nothing is on its way yet. */
static void oom_waits_for_the_end_of_a_cache(struct kunit *test)
{
	struct task_struct *killer;
	static struct call oom;

	killer = prepare(&oom, call_oom);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, killer);
	use_all_memory();
	rxd_note_givers(1);
	wake_up_process(killer);
	msleep(200);
	KUNIT_EXPECT_FALSE(test, completion_done(&oom.done));
	test_set_spare(0, WMARK_MIN, 1);
	rxd_note_givers(-1);
	wait_for_completion(&oom.done);
	KUNIT_EXPECT_EQ(test, oom.given, 1);
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
}

/* Pages that have not moved are lent no more. */
static void unmoved_pages_are_not_lent(struct kunit *test)
{
	struct cache *c = make_lent(test, 3 * BATCH + 7, 2 * BATCH + 9);
	struct rxd_moves moves;

	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, c->borrower.store), 0);
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 0, 1024, 256));
	rxd_store_end_moves(&moves);
	KUNIT_EXPECT_EQ(test, rxd_store_used(c->borrower.store), 256);
	expect_lent(test, pages_on(c, 0), pages_on(c, 1));
	KUNIT_EXPECT_EQ(test, test_lent_on(0) + test_lent_on(1), 256);
}

static void oom_of_a_cpuset_gets_its_nodes(struct kunit *test)
{
	struct cache *c = make_lent(test, 300, 200);

	node_clear(0, test_machine.allowed);
	KUNIT_EXPECT_EQ(test, test_oom(), 200);
	KUNIT_EXPECT_EQ(test, pages_on(c, 0), 300);
	c->nr_asked = 0;
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
	KUNIT_EXPECT_EQ(test, c->nr_asked, 0);
	node_set(0, test_machine.allowed);
	KUNIT_EXPECT_EQ(test, test_oom(), 300);
}

static void grows_where_it_allocates(struct kunit *test)
{
	struct rxd_store *bound = make(test, 1)->borrower.store;
	struct rxd_store *local = make(test, RXD_NODE_LOCAL)->borrower.store;
	struct rxd_store *spread = make(test, RXD_NODE_INTERLEAVE)->borrower.store;
	long keep = test_headroom() / NR_NODES;

	test_set_spare(0, WMARK_HIGH, keep + 500);
	test_set_spare(1, WMARK_HIGH, keep + 99);
	KUNIT_EXPECT_TRUE(test, rxd_lend_allows(local, 500));
	KUNIT_EXPECT_FALSE(test, rxd_lend_allows(local, 501));
	/* Others would be given it at once. */
	test_zone(0, ZONE_NORMAL)->watermark_boost = keep - keep / 4;
	KUNIT_EXPECT_TRUE(test, rxd_lend_allows(local, 500));
	test_zone(0, ZONE_NORMAL)->watermark_boost++;
	KUNIT_EXPECT_FALSE(test, rxd_lend_allows(local, 500));
	test_zone(0, ZONE_NORMAL)->watermark_boost = 0;
	KUNIT_EXPECT_FALSE(test, rxd_lend_allows(bound, 100));
	KUNIT_EXPECT_TRUE(test, rxd_lend_allows(bound, 99));
	KUNIT_EXPECT_FALSE(test, rxd_lend_allows(spread, 199));
	KUNIT_EXPECT_TRUE(test, rxd_lend_allows(spread, 198));
	test_machine.local = 1;
	KUNIT_EXPECT_FALSE(test, rxd_lend_allows(local, 100));
	test_set_spare(1, WMARK_HIGH, keep + 100);
	KUNIT_EXPECT_TRUE(test, rxd_lend_allows(local, 100));
}

static void lent_pages_are_of_the_node(struct kunit *test)
{
	struct rxd_store *bound = make(test, 1)->borrower.store;
	struct page *page;

	page = rxd_store_alloc_page(bound, 0, RXD_GFP_LENT);
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, test_nid(page), 1);
	rxd_store_free_page(page);
	test_set_spare(1, WMARK_LOW, 1);
	page = rxd_store_alloc_page(bound, 0, RXD_GFP_LENT);
	KUNIT_ASSERT_NOT_NULL(test, page);
	rxd_store_free_page(page);
	test_set_spare(1, WMARK_LOW, 0);
	KUNIT_EXPECT_NULL(test, rxd_store_alloc_page(bound, 0, RXD_GFP_LENT));
	KUNIT_EXPECT_NULL(test, rxd_leaf_alloc(bound, 0, RXD_GFP_LENT));
	/* The memory of its own it gets as any store does. */
	page = rxd_store_alloc_page(bound, 0, RXD_GFP);
	KUNIT_ASSERT_NOT_NULL(test, page);
	rxd_store_free_page(page);
}

/* A node with nothing but movable memory has its pages on another one, and the leaves, too. */
static void movable_nodes_lend_from_others(struct kunit *test)
{
	struct rxd_store *bound = make(test, 1)->borrower.store;
	struct rxd_leaf *leaf;
	struct page *page;

	test_set_movable(1);
	page = rxd_store_alloc_page(bound, 0, RXD_GFP_LENT);
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, test_nid(page), 0);
	rxd_store_free_page(page);
	leaf = rxd_leaf_alloc(bound, 0, RXD_GFP_LENT);
	KUNIT_ASSERT_NOT_NULL(test, leaf);
	KUNIT_EXPECT_EQ(test, test_nid(virt_to_page(leaf)), 0);
	rxd_store_free_page(virt_to_page(leaf));
	test_set_spare(0, WMARK_LOW, 0);
	KUNIT_EXPECT_NULL(test, rxd_leaf_alloc(bound, 0, RXD_GFP_LENT));
}

static void little_is_replaced_at_a_time(struct kunit *test)
{
	long most = test_headroom() / 8;

	rxd_store_drain();
	KUNIT_EXPECT_TRUE(test, rxd_lend_may_replace());
	test_note_retired(most);
	KUNIT_EXPECT_TRUE(test, rxd_lend_may_replace());
	test_note_retired(1);
	KUNIT_EXPECT_FALSE(test, rxd_lend_may_replace());
	test_note_retired(-most - 1);
	KUNIT_EXPECT_TRUE(test, rxd_lend_may_replace());
	test_set_spare(0, WMARK_LOW, 0);
	KUNIT_EXPECT_TRUE(test, rxd_lend_may_replace());
	test_set_spare(1, WMARK_LOW, 0);
	KUNIT_EXPECT_FALSE(test, rxd_lend_may_replace());
}

static void worth_is_inherited(struct kunit *test)
{
	struct cache *busy = make_lent(test, 100, 0), *idle = make_lent(test, 100, 0);
	struct cache *new = make(test, RXD_NODE_LOCAL), *next = make(test, RXD_NODE_LOCAL);
	u64 worth;

	busy->uses = 4000;
	test_compare();
	worth = busy->borrower.worth;
	KUNIT_EXPECT_GT(test, worth, 0);
	KUNIT_EXPECT_EQ(test, idle->borrower.worth, 0);
	/* A cache without a history gives neither first nor last. */
	rxd_borrow_begin(&new->borrower);
	KUNIT_EXPECT_EQ(test, new->borrower.worth, worth / 2);
	rxd_borrow_end(&new->borrower);

	new->uses = 4000;
	rxd_borrow_replace(&busy->borrower, &new->borrower);
	KUNIT_EXPECT_TRUE(test, list_empty(&busy->borrower.list));
	KUNIT_EXPECT_EQ(test, new->borrower.worth, worth);
	KUNIT_EXPECT_EQ(test, new->borrower.uses, 4000);
	/* If it was taken off the list before. */
	rxd_borrow_end(&new->borrower);
	rxd_borrow_replace(&new->borrower, &next->borrower);
	KUNIT_EXPECT_EQ(test, next->borrower.worth, worth);
	KUNIT_EXPECT_FALSE(test, list_empty(&next->borrower.list));
	test_set_spare(0, WMARK_MIN, 0);
	KUNIT_EXPECT_EQ(test, test_scan(0, 1, NULL), 100);
	KUNIT_EXPECT_EQ(test, rxd_store_used(idle->borrower.store), 0);
}

static struct cache *raced;

static int race_fill(void *arg)
{
	struct rxd_store *store = raced->borrower.store;
	int node = (long)arg;
	struct page *page;
	bool refused;

	while (!kthread_should_stop()) {
		page = get_random_u32_below(4) ? test_page(node) : NULL;
		spin_lock(&raced->lock);
		refused = rxd_store_exchange(store, get_random_u32_below(CAPACITY), page,
					     RXD_GFP_NOWAIT);
		spin_unlock(&raced->lock);
		if (refused && page)
			rxd_store_free_page(page);
		cond_resched();
	}
	return 0;
}

static int race_reclaim(void *arg)
{
	while (!kthread_should_stop()) {
		usleep_range(1000, 5000);
		test_count((long)arg);
		test_scan((long)arg, get_random_u32_below(1024), NULL);
		if (!get_random_u32_below(16))
			test_oom();
	}
	return 0;
}

static int race_lending(void *arg)
{
	while (!kthread_should_stop()) {
		usleep_range(1000, 5000);
		rxd_store_set_lending(raced->borrower.store, get_random_u32_below(4) ?
				      get_random_u32_below(CAPACITY) : ULONG_MAX);
	}
	return 0;
}

static int race_early(void *arg)
{
	while (!kthread_should_stop()) {
		usleep_range(100, 2000);
		test_early();
	}
	return 0;
}

static void race_for_the_counts(struct kunit *test)
{
	struct crew crew = {};
	unsigned int i;

	raced = make_lent(test, 0, 0);
	test_set_spare(0, WMARK_MIN, 0);
	test_set_spare(1, WMARK_MIN, 0);
	crew_add(test, &crew, race_fill, (void *)0L);
	crew_add(test, &crew, race_fill, (void *)1L);
	crew_add(test, &crew, race_reclaim, (void *)0L);
	crew_add(test, &crew, race_reclaim, (void *)1L);
	crew_add(test, &crew, race_early, NULL);
	crew_add(test, &crew, race_lending, NULL);
	/* On a slow machine, the memory is seldom asked for. */
	for (i = 0; i < 300 && READ_ONCE(raced->nr_asked) <= 10; i++)
		msleep(100);
	crew_run(&crew, 3000);
	rxd_store_set_lending(raced->borrower.store, ULONG_MAX);
	expect_lent(test, 0, 0);
	rxd_store_set_lending(raced->borrower.store, 0);
	expect_lent(test, pages_on(raced, 0), pages_on(raced, 1));
	KUNIT_EXPECT_GT(test, raced->nr_asked, 10);
}

static int borrow_init(struct kunit *test)
{
	test_begin();
	return 0;
}

static void borrow_exit(struct kunit *test)
{
	test_end();
}

static int borrow_suite_init(struct kunit_suite *suite)
{
	return rxd_store_init();
}

static void borrow_suite_exit(struct kunit_suite *suite)
{
	rxd_store_exit();
}

static struct kunit_case borrow_cases[] = {
	KUNIT_CASE(each_node_has_its_part),
	KUNIT_CASE(count_follows_in_batches),
	KUNIT_CASE(node_gets_its_own_pages),
	KUNIT_CASE(little_is_asked_for_where_little_is_lent),
	KUNIT_CASE(reclaim_gets_what_is_missing),
	KUNIT_CASE(nothing_is_given_without_need),
	KUNIT_CASE(memory_is_given_back_early),
	KUNIT_CASE(early_giving_pauses),
	KUNIT_CASE(page_cache_is_taken_first),
	KUNIT_CASE(movable_page_cache_is_none),
	KUNIT_CASE(early_giving_begins_with_lending),
	KUNIT_CASE(reserve_is_not_free),
	KUNIT_CASE(page_cache_in_use_is_spared),
	KUNIT_CASE(paces_of_movement),
	KUNIT_CASE(write_without_a_page_gets_some),
	KUNIT_CASE(oom_gets_some),
	KUNIT_CASE_SLOW(oom_waits_for_locks_only),
	KUNIT_CASE(oom_counts_gifts_of_others),
	KUNIT_CASE(oom_waits_for_gifts_of_others),
	KUNIT_CASE_SLOW(oom_waits_for_moves),
	KUNIT_CASE(moves_without_lending),
	KUNIT_CASE_SLOW(oom_waits_for_retired_pages),
	KUNIT_CASE(free_memory_is_no_progress_for_long),
	KUNIT_CASE(oom_of_kswapd_waits_not),
	KUNIT_CASE(oom_waits_for_the_end_of_a_cache),
	KUNIT_CASE(unmoved_pages_are_not_lent),
	KUNIT_CASE(oom_of_a_cpuset_gets_its_nodes),
	KUNIT_CASE(grows_where_it_allocates),
	KUNIT_CASE(lent_pages_are_of_the_node),
	KUNIT_CASE(movable_nodes_lend_from_others),
	KUNIT_CASE(little_is_replaced_at_a_time),
	KUNIT_CASE(worth_is_inherited),
	KUNIT_CASE_SLOW(race_for_the_counts),
	{}
};

static struct kunit_suite borrow_suite = {
	.name = "rxd_lend",
	.init = borrow_init,
	.exit = borrow_exit,
	.suite_init = borrow_suite_init,
	.suite_exit = borrow_suite_exit,
	.test_cases = borrow_cases,
};

kunit_test_suite(borrow_suite);

MODULE_DESCRIPTION("KUnit tests of what lends memory to caches");
MODULE_LICENSE("GPL");
