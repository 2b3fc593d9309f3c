/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code that the suites of the page store share: memory that the test controls, and
 * helpers that write, read and count.
 */
#ifndef RXD_STORE_TEST_H
#define RXD_STORE_TEST_H

#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <uapi/linux/rxd.h>

#include "../module/store.h"
#include "fault.h"

#define PER_LEAF	(PAGE_SIZE / sizeof(struct page *))

/* RXD_ORDER_* as constants for initialisers. */
#define ORDER_64K	const_ilog2(SZ_64K / PAGE_SIZE)
#define ORDER_2M	const_ilog2(SZ_2M / PAGE_SIZE)

/* The content of fresh memory, by which a test recognises that it was read. */
#define STALE		0xdb

/**
 * struct test_memory - the machine's memory, as the store under test sees it
 * @is_short: no memory is available
 * @max_order: larger pieces cannot be allocated
 * @pages_left: number of pages that can be allocated, in pieces or one by one
 * @nr_refusals: number of requests to refuse first
 * @at_refusal: called when a request is refused, or NULL
 * @at_grant: called when pages are granted, or NULL
 * @at_leaf: called when a leaf is granted, or NULL
 * @at_free: called when a page or a leaf is freed, or NULL
 * @at_grace: called between the two passes that lift marks, or NULL
 * @at_resched: called where other tasks may run, or NULL
 * @at_mark: called before the mark of a leaf or page is changed, or NULL
 * @at_unlock: called when a shared leaf was replaced or removed, and has not been left yet, or NULL
 * @fail_one_in: refuse every Nth piece larger than a page; 0 for none
 * @nr_nodes: number of NUMA nodes
 * @node: node of the last request
 * @gfp: flags of the last request for a piece larger than a page
 * @nr_64k: number of pages allocated in pieces of 64 KiB or more
 * @nr_2m: number of pages allocated in pieces of 2 MiB
 * @nr_bulk: number of requests for many single pages at once
 * @leaf_node: node of the last request for a leaf
 * @leaf_gfp: flags of the last request for a leaf
 * @no_leaf: no leaf can be allocated
 * @fail_leaf_one_in: refuse every Nth leaf; 0 for none
 * @nr_dirty: pages of the page cache that are dirty or being written
 * @nr_dirty_movable: those of them in ZONE_MOVABLE
 * @nr_slab: pages of slab caches that kswapd can reclaim
 * @nr_barriers: number of calls of rcu_barrier()
 * @late: how far the clock by which a write waits is ahead, in jiffies
 */
struct test_memory {
	bool is_short;
	unsigned int max_order;
	unsigned long pages_left;
	unsigned int nr_refusals;
	void (*at_refusal)(void);
	void (*at_grant)(void);
	void (*at_leaf)(void);
	void (*at_free)(struct page *page);
	void (*at_grace)(void);
	void (*at_resched)(void);
	void (*at_mark)(const void *ptr);
	void (*at_unlock)(void);
	void (*at_slab)(void);
	unsigned int fail_one_in;
	unsigned int nr_nodes;
	int node;
	gfp_t gfp;
	unsigned long nr_64k;
	unsigned long nr_2m;
	unsigned int nr_bulk;
	int leaf_node;
	gfp_t leaf_gfp;
	bool no_leaf;
	unsigned int fail_leaf_one_in;
	unsigned long nr_dirty;
	unsigned long nr_dirty_movable;
	unsigned long nr_slab;
	unsigned int nr_barriers;
	unsigned long late;
};

extern struct test_memory test_memory;

/*
 * For races: pages of all stores that were queued for freeing, and that were freed.
 */
long test_awaited(void);
long test_freed(void);
bool test_is_changing(void);
bool test_is_awaited(void);

/* Pretend that writes have replaced pages, which wait to be freed; or, if negative, are free. */
void test_note_replaced(long nr);

/* Move what this CPU has charged in advance to another one. */
void test_move_stock(struct rxd_store *store);

/* The largest number of pages that a CPU has charged in advance. */
unsigned int test_largest_stock(const struct rxd_store *store);

/* Other owners of leaves and pages. */
long test_owners(void);

/*
 * Lift marks now: begin, or do it. A lift may also be queued for later; for an hour later, until
 * one has been done.
 */
void test_begin_lift(void);
void test_lift(void);
void test_delay_lifts(void);
bool test_lift_is_queued(void);

/* Pages and leaves in stores, and those that are being freed. */
extern atomic_long_t test_pages;

static inline void reset_test_memory(void)
{
	test_memory = (struct test_memory) {
		.max_order = MAX_PAGE_ORDER,
		.pages_left = ULONG_MAX,
		.nr_nodes = 1,
	};
}

/* Wait until pages of earlier cases are free, so that no write waits for them. */
static inline int init_test_memory(struct kunit *test)
{
	rxd_store_drain();
	reset_test_memory();
	return 0;
}

static inline int init_store_suite(struct kunit_suite *suite)
{
	return rxd_store_init() ?: fault_check();
}

static inline void exit_store_suite(struct kunit_suite *suite)
{
	rxd_store_exit();
}

static inline void destroy_test_store(void *store)
{
	rxd_store_destroy(store);
	rxd_store_drain();
}

static inline struct rxd_store *make_store_of(struct kunit *test, unsigned long nr_pages,
					      const struct rxd_store_options *options)
{
	struct rxd_store *store = rxd_store_create(nr_pages, options);

	KUNIT_ASSERT_NOT_NULL(test, store);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy_test_store, store), 0);
	return store;
}

static inline struct rxd_store *make_store(struct kunit *test, unsigned long nr_pages)
{
	const struct rxd_store_options plain = { .node = RXD_NODE_LOCAL };

	return make_store_of(test, nr_pages, &plain);
}

/* A store that asks for pieces of up to @order. */
static inline struct rxd_store *make_large_store(struct kunit *test, unsigned long nr_pages,
						 unsigned int order)
{
	const struct rxd_store_options options = { .order = order, .node = RXD_NODE_LOCAL };

	return make_store_of(test, nr_pages, &options);
}

static inline u8 *make_buf(struct kunit *test, u8 byte)
{
	u8 *buf = kunit_kmalloc(test, PAGE_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	memset(buf, byte, PAGE_SIZE);
	return buf;
}

static inline u64 pos_of(unsigned long pgno)
{
	return (u64)pgno << PAGE_SHIFT;
}

static inline int write_page(struct rxd_store *store, unsigned long pgno, const void *buf)
{
	return rxd_store_write(store, pos_of(pgno), buf, PAGE_SIZE, RXD_GFP);
}

/* A write-zeroes request of one part. */
static inline int zero_range(struct rxd_store *store, u64 pos, unsigned int len)
{
	struct rxd_write write;
	int ret;

	rxd_write_begin(&write, 0, RXD_GFP);
	ret = rxd_store_zero(store, pos, len, &write);
	rxd_write_end(&write);
	return ret;
}

static inline int fill_range(struct rxd_store *store, unsigned long first, unsigned long nr)
{
	struct rxd_write write;
	int ret;

	rxd_write_begin(&write, 0, RXD_GFP);
	ret = rxd_store_fill(store, first, nr, &write);
	rxd_write_end(&write);
	return ret;
}

static inline void fill(struct kunit *test, struct rxd_store *store, unsigned long first,
			unsigned long nr, u8 byte)
{
	u8 *buf = make_buf(test, byte);

	for (; nr; nr--)
		KUNIT_ASSERT_EQ(test, write_page(store, first++, buf), 0);
}

static inline bool page_is(struct rxd_store *store, unsigned long pgno, u8 byte)
{
	u8 buf[64];
	unsigned int i;

	for (i = 0; i < PAGE_SIZE; i += sizeof(buf)) {
		rxd_store_read(store, pos_of(pgno) + i, buf, sizeof(buf));
		if (memchr_inv(buf, byte, sizeof(buf)))
			return false;
	}
	return true;
}

static inline bool page_is_there(struct rxd_store *store, unsigned long pgno)
{
	bool there;

	rcu_read_lock();
	there = rxd_store_lookup(store, pgno);
	rcu_read_unlock();
	return there;
}

static inline unsigned long used(struct rxd_store *store)
{
	struct rxd_store_stats stats;

	rxd_store_get_stats(store, &stats);
	return stats.used;
}

static inline unsigned long max_used(struct rxd_store *store)
{
	struct rxd_store_stats stats;

	rxd_store_get_stats(store, &stats);
	return stats.max_used;
}

static inline unsigned long first_data(struct rxd_store *store, unsigned long first)
{
	return rxd_store_find_data(store, first, ULONG_MAX);
}

static inline unsigned long first_hole(struct rxd_store *store, unsigned long first)
{
	return rxd_store_find_hole(store, first, ULONG_MAX);
}

static inline unsigned long count_pages(struct rxd_store *store)
{
	unsigned long pgno, nr = 0;

	for (pgno = 0; pgno < rxd_store_nr_pages(store); pgno++)
		nr += page_is_there(store, pgno);
	return nr;
}

#endif /* RXD_STORE_TEST_H */
