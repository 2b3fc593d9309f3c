// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page store of a RAM disk: single pages, limits, resizing.
 */
#include <linux/backing-dev.h>
#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/percpu_counter.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "store-test.h"

/* How much longer than a task has asked for it may sleep on a busy machine, which is emulated. */
#define LATE		(2 * HZ)

/* Creation */

static void create_is_empty(struct kunit *test)
{
	struct rxd_store *store = make_store(test, PER_LEAF + 1);
	struct rxd_store_stats stats;

	rxd_store_get_stats(store, &stats);
	KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store), PER_LEAF + 1);
	KUNIT_EXPECT_EQ(test, stats.used, 0);
	KUNIT_EXPECT_EQ(test, stats.max_used, 0);
	KUNIT_EXPECT_EQ(test, stats.limit, ULONG_MAX);
	KUNIT_EXPECT_EQ(test, first_data(store, 0), rxd_store_nr_pages(store));
}

static void create_one_page(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 1);

	fill(test, store, 0, 1, 0x5a);
	KUNIT_EXPECT_TRUE(test, page_is(store, 0, 0x5a));
}

static void create_without_memory_for_directory(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };

	KUNIT_EXPECT_NULL(test, rxd_store_create(1UL << 40, &options));
}

static void create_fails_at_each_allocation(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	struct rxd_store *store;
	unsigned int nth;
	bool failed;

	for (nth = 1; nth < FAULT_MAX; nth++) {
		fault_begin(nth);
		store = rxd_store_create(1, &options);
		failed = fault_end();
		rxd_store_destroy(store);
		if (!failed)
			break;
		if (nth <= 1)
			KUNIT_EXPECT_NULL(test, store);
	}
	KUNIT_EXPECT_NOT_NULL(test, store);
	KUNIT_EXPECT_GT(test, nth, 2);
	KUNIT_EXPECT_LT(test, nth, FAULT_MAX);
}

static void destroy_null(struct kunit *test)
{
	rxd_store_destroy(NULL);
	KUNIT_SUCCEED(test);
}

/* Reading and writing */

static void read_unwritten_is_zero(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0xff);

	rxd_store_read(store, pos_of(3) + 512, buf, 1024);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0, 1024));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + 1024, 0xff, PAGE_SIZE - 1024));
}

static void read_allocates_nothing(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	KUNIT_EXPECT_TRUE(test, page_is(store, 3, 0));
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 3));
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void write_whole_page(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	fill(test, store, 3, 1, 0x11);
	KUNIT_EXPECT_TRUE(test, page_is(store, 3, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, 2, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store, 4, 0));
	KUNIT_EXPECT_EQ(test, used(store), 1);
}

static void write_first_and_last_page(struct kunit *test)
{
	unsigned long nr_pages = 2 * PER_LEAF + 7;
	struct rxd_store *store = make_store(test, nr_pages);

	fill(test, store, 0, 1, 0x11);
	fill(test, store, nr_pages - 1, 1, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, 0, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, nr_pages - 1, 0x22));
	KUNIT_EXPECT_EQ(test, used(store), 2);
}

static void write_on_both_sides_of_a_leaf(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);

	fill(test, store, PER_LEAF - 1, 1, 0x11);
	fill(test, store, PER_LEAF, 1, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF - 1, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF, 0x22));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF - 2, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF + 1, 0));
}

static void write_sector(struct kunit *test)
{
	const unsigned int offset = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x33);

	KUNIT_ASSERT_EQ(test, rxd_store_write(store, pos_of(5) + offset, buf, 512, RXD_GFP), 0);
	rxd_store_read(store, pos_of(5), buf, PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0, offset));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + offset, 0x33, 512));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + offset + 512, 0, PAGE_SIZE - offset - 512));
}

static const unsigned int sector_offsets[] = { 0, 512, 2048, PAGE_SIZE - 512 };

static void offset_name(const unsigned int *offset, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "at %u", *offset);
}

KUNIT_ARRAY_PARAM(sector_offset, sector_offsets, offset_name);

static void write_sector_keeps_the_rest(struct kunit *test)
{
	const unsigned int offset = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x33);

	fill(test, store, 5, 1, 0x44);
	KUNIT_ASSERT_EQ(test, rxd_store_write(store, pos_of(5) + offset, buf, 512, RXD_GFP), 0);
	rxd_store_read(store, pos_of(5), buf, PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0x44, offset));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + offset, 0x33, 512));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + offset + 512, 0x44, PAGE_SIZE - offset - 512));
}

static void read_sector(struct kunit *test)
{
	const unsigned int offset = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0);
	unsigned int i;

	for (i = 0; i < PAGE_SIZE; i++)
		buf[i] = i / 512;
	KUNIT_ASSERT_EQ(test, write_page(store, 5, buf), 0);
	memset(buf, 0xff, PAGE_SIZE);
	rxd_store_read(store, pos_of(5) + offset, buf, 512);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, offset / 512, 512));
	KUNIT_EXPECT_EQ(test, buf[512], 0xff);
}

static void overwrite_takes_no_memory(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	fill(test, store, 5, 1, 0x11);
	fill(test, store, 5, 1, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, 5, 0x22));
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_EQ(test, max_used(store), 1);
}

static void write_nowait(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x11);
	int ret;

	/* DEBUG_ATOMIC_SLEEP complains if this sleeps. */
	preempt_disable();
	ret = rxd_store_write(store, pos_of(5), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
	preempt_enable();
	KUNIT_ASSERT_EQ(test, ret, 0);
	KUNIT_EXPECT_TRUE(test, page_is(store, 5, 0x11));
}

/*
 * The debugging code of the kernel allocates memory, too, and copes with failures. Fail
 * each allocation several times, until a try makes no allocation that could fail.
 */
static void write_fails_at_each_allocation(struct kunit *test)
{
	u8 *buf = make_buf(test, 0x11);
	unsigned int nth, round, nr_errors = 0;
	struct rxd_store *store;
	bool failed = true;
	int ret;

	for (nth = 1; failed && nth < FAULT_MAX; nth++) {
		failed = false;
		for (round = 0; round < 4; round++) {
			store = make_store(test, 8);
			fault_begin(nth);
			ret = write_page(store, 5, buf);
			failed |= fault_end();
			if (!ret) {
				KUNIT_EXPECT_TRUE(test, page_is(store, 5, 0x11));
				KUNIT_EXPECT_EQ(test, used(store), 1);
				continue;
			}
			nr_errors++;
			KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
			KUNIT_EXPECT_FALSE(test, page_is_there(store, 5));
			KUNIT_EXPECT_EQ(test, used(store), 0);
			KUNIT_EXPECT_EQ(test, max_used(store), 0);
			KUNIT_EXPECT_EQ(test, write_page(store, 5, buf), 0);
		}
	}
	KUNIT_EXPECT_FALSE(test, failed);
	/* One for the leaf and one for the page. */
	KUNIT_EXPECT_GE(test, nr_errors, 2);
}

static void write_without_leaf(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);
	u8 *buf = make_buf(test, 0x22);

	fill(test, store, 4, 1, 0x11);
	test_memory.no_leaf = true;
	KUNIT_EXPECT_EQ(test, write_page(store, PER_LEAF, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_TRUE(test, page_is(store, 4, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF, 0));
	test_memory.no_leaf = false;
	KUNIT_EXPECT_EQ(test, write_page(store, PER_LEAF, buf), 0);
}

static void write_without_page(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);

	fill(test, store, 4, 1, 0x11);
	test_memory.pages_left = 0;
	KUNIT_EXPECT_EQ(test, write_page(store, 5, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, write_page(store, 4, buf), 0);
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_TRUE(test, page_is(store, 4, 0x22));
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 5));
}

static void write_without_memory_keeps_what_is_there(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);
	int ret;

	fill(test, store, 4, 1, 0x11);
	fault_begin(1);
	ret = write_page(store, 5, buf);
	fault_end();
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	KUNIT_EXPECT_TRUE(test, page_is(store, 4, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, 5, 0));
}

static void zero_part(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0);

	fill(test, store, 5, 1, 0x11);
	zero_range(store, pos_of(5) + 512, 1024);
	rxd_store_read(store, pos_of(5), buf, PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0x11, 512));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + 512, 0, 1024));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + 1536, 0x11, PAGE_SIZE - 1536));
}

static void zero_unwritten_allocates_nothing(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	zero_range(store, pos_of(5), PAGE_SIZE);
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 5));
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

/* Freeing */

static void free_range_reads_zero(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	fill(test, store, 0, 8, 0x11);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, 2, 3), 3);
	KUNIT_EXPECT_TRUE(test, page_is(store, 1, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, 2, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store, 4, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store, 5, 0x11));
	KUNIT_EXPECT_EQ(test, used(store), 5);
}

static void free_range_keeps_max_used(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	fill(test, store, 0, 8, 0x11);
	rxd_store_free_range(store, 0, 8);
	fill(test, store, 0, 1, 0x11);
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_EQ(test, max_used(store), 8);
}

static void free_range_over_leaves(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 4 * PER_LEAF);

	fill(test, store, PER_LEAF - 2, 4, 0x11);
	fill(test, store, 3 * PER_LEAF - 2, 4, 0x22);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, PER_LEAF - 1, 2 * PER_LEAF), 4);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF - 2, 0x11));
	KUNIT_EXPECT_FALSE(test, page_is_there(store, PER_LEAF - 1));
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 3 * PER_LEAF - 2));
	KUNIT_EXPECT_TRUE(test, page_is(store, 3 * PER_LEAF - 1, 0x22));
	KUNIT_EXPECT_EQ(test, used(store), 4);
}

static void free_range_of_nothing(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);

	fill(test, store, 7, 1, 0x11);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, 0, 7), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, 8, 2 * PER_LEAF - 8), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, 7, 0), 0);
	KUNIT_EXPECT_EQ(test, used(store), 1);
}

static void write_after_free_shows_no_old_data(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);

	fill(test, store, 5, 1, 0x11);
	rxd_store_free_range(store, 5, 1);
	KUNIT_ASSERT_EQ(test, rxd_store_write(store, pos_of(5) + 512, buf, 512, RXD_GFP), 0);
	rxd_store_read(store, pos_of(5), buf, PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0, 512));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + 1024, 0, PAGE_SIZE - 1024));
}

static void freed_page_outlives_its_readers(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	struct page *page;

	fill(test, store, 5, 1, 0x11);
	rcu_read_lock();
	page = rxd_store_lookup(store, 5);
	/* This may sleep, but does not need to for one page. */
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 5, NULL, RXD_GFP_NOWAIT), 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), 0x11, PAGE_SIZE));
	rcu_read_unlock();
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 5));
}

/* More than one callback frees, within one grace period; and some behind a page that is waiting. */
static void drain_waits_for_all_batches(struct kunit *test)
{
	const unsigned long counts[] = { 1, 2, 3 * PER_LEAF };
	struct rxd_store *store = make_store(test, 3 * PER_LEAF);
	long pages = atomic_long_read(&test_pages), left;
	unsigned long pgno;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		fill(test, store, 0, counts[i], 0x11);
		rcu_read_lock();
		for (pgno = 0; pgno < counts[i]; pgno++)
			rxd_store_exchange(store, pgno, NULL, RXD_GFP_NOWAIT);
		left = atomic_long_read(&test_pages);
		rcu_read_unlock();
		KUNIT_EXPECT_GE(test, left, pages + (long)counts[i]);
		rxd_store_drain();
		KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), pages);
	}
}

/* The first try finds no page, and the second one follows after a grace period. */
static void write_waits_for_retired_pages(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	struct rxd_store *other = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);
	int ret = -ENOSPC, tries;

	/* In rare cases, the grace period ends before the write begins. */
	for (tries = 0; ret && tries < 8; tries++) {
		fill(test, store, 0, 1, 0x11);
		rcu_read_lock();
		rxd_store_exchange(store, 0, NULL, RXD_GFP_NOWAIT);
		rcu_read_unlock();
		test_memory.nr_refusals = 1;
		ret = write_page(other, 1, buf);
	}
	KUNIT_EXPECT_EQ(test, ret, 0);
	KUNIT_EXPECT_TRUE(test, page_is(other, 1, 0x22));

	/* The leaf of the page was freed, too: either of them ends the wait. */
	rxd_store_drain();
	/* No page is queued for freeing any more. */
	test_memory.nr_refusals = 1;
	KUNIT_EXPECT_EQ(test, write_page(other, 2, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(other), 1);
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void nowait_write_does_not_wait_for_retired_pages(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);
	int ret;

	fill(test, store, 0, 2, 0x11);
	rxd_store_free_range(store, 0, 1);
	test_memory.nr_refusals = 1;
	preempt_disable();
	ret = rxd_store_write(store, pos_of(3), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), 1);
}

/* Limit and shortage */

static void limit_stops_growth(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);

	rxd_store_set_limit(store, 2);
	fill(test, store, 0, 2, 0x11);
	KUNIT_EXPECT_EQ(test, write_page(store, 2, buf), -ENOSPC);
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 2));
	KUNIT_EXPECT_EQ(test, used(store), 2);
	KUNIT_EXPECT_EQ(test, max_used(store), 2);
}

static void limit_lets_overwrite(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	rxd_store_set_limit(store, 2);
	fill(test, store, 0, 2, 0x11);
	fill(test, store, 0, 2, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, 1, 0x22));
}

static void limit_zero_refuses_all(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);

	rxd_store_set_limit(store, 0);
	KUNIT_EXPECT_EQ(test, write_page(store, 0, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void limit_counts_what_was_freed(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);

	rxd_store_set_limit(store, 2);
	fill(test, store, 0, 2, 0x11);
	rxd_store_free_range(store, 0, 1);
	KUNIT_EXPECT_EQ(test, write_page(store, 5, buf), 0);
	KUNIT_EXPECT_EQ(test, write_page(store, 6, buf), -ENOSPC);
}

static void limit_below_used_frees_nothing(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	u8 *buf = make_buf(test, 0x22);

	fill(test, store, 0, 4, 0x11);
	rxd_store_set_limit(store, 1);
	KUNIT_EXPECT_EQ(test, used(store), 4);
	KUNIT_EXPECT_TRUE(test, page_is(store, 3, 0x11));
	KUNIT_EXPECT_EQ(test, write_page(store, 5, buf), -ENOSPC);
	rxd_store_set_limit(store, 5);
	KUNIT_EXPECT_EQ(test, write_page(store, 5, buf), 0);
}

/* A stock is taken far from this limit, and not near it. */
#define STOCK_LIMIT	(64 * (2UL + num_possible_cpus()))

static struct rxd_store *make_store_with_stock(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * STOCK_LIMIT);

	rxd_store_set_limit(store, STOCK_LIMIT);
	fill(test, store, 0, 1, 0x11);
	KUNIT_EXPECT_GT(test, rxd_store_used(store), 1);
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_EQ(test, max_used(store), 1);
	return store;
}

static void limit_includes_stocks_of_others(struct kunit *test)
{
	struct rxd_store *store = make_store_with_stock(test);
	u8 *buf = make_buf(test, 0x22);

	test_move_stock(store);
	fill(test, store, 1, STOCK_LIMIT - 1, 0x22);
	KUNIT_EXPECT_EQ(test, write_page(store, STOCK_LIMIT, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), STOCK_LIMIT);
	KUNIT_EXPECT_EQ(test, max_used(store), STOCK_LIMIT);
}

static void limit_of_a_fill_includes_stocks(struct kunit *test)
{
	struct rxd_store *store = make_store_with_stock(test);

	test_move_stock(store);
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_fill(store, STOCK_LIMIT - 1), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_fill(store, STOCK_LIMIT), -ENOSPC);
}

/* Pages that enter as those of a cache take from no stock. */
static void limit_leaves_a_part_of_a_write(struct kunit *test)
{
	struct rxd_store *store = make_store_with_stock(test);
	unsigned long pgno = 1, stock = rxd_store_used(store) - 1;
	struct page *page;

	for (; rxd_store_used(store) < STOCK_LIMIT; pgno++) {
		page = rxd_store_alloc_page(store, pgno, RXD_GFP);
		KUNIT_ASSERT_NOT_NULL(test, page);
		KUNIT_ASSERT_EQ(test, rxd_store_exchange(store, pgno, page, RXD_GFP), 0);
	}
	KUNIT_EXPECT_EQ(test, used(store), STOCK_LIMIT - stock);
	KUNIT_EXPECT_EQ(test, fill_range(store, pgno, 2 * stock), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), STOCK_LIMIT);
}

static void no_stock_near_the_limit(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	rxd_store_set_limit(store, 8);
	fill(test, store, 0, 3, 0x11);
	KUNIT_EXPECT_EQ(test, rxd_store_used(store), 3);
}

/* However much is written at once, and however often. */
static void stock_is_bounded(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 4 * PER_LEAF);
	unsigned long nr, pgno = 0;
	unsigned int most = 0;

	for (nr = 1; pgno + nr < 4 * PER_LEAF; nr = nr % 67 + 5) {
		KUNIT_EXPECT_EQ(test, fill_range(store, pgno, nr), 0);
		pgno += nr;
		most = max(most, test_largest_stock(store));
	}
	KUNIT_EXPECT_GT(test, most, 0);
	KUNIT_EXPECT_LE(test, most, 32);
}

static void limit_below_a_stock(struct kunit *test)
{
	struct rxd_store *store = make_store_with_stock(test);
	u8 *buf = make_buf(test, 0x22);

	fill(test, store, 1, 1, 0x22);
	rxd_store_set_limit(store, 2);
	KUNIT_EXPECT_EQ(test, rxd_store_used(store), 2);
	KUNIT_EXPECT_EQ(test, write_page(store, 2, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), 2);
}

static struct rxd_store *limited_store;

static void lower_limit(void)
{
	test_memory.at_grant = NULL;
	rxd_store_set_limit(limited_store, 0);
}

static void note_look_at_slab(void)
{
	test_memory.at_slab = NULL;
}

/* A write that has got a page, but no room for it, neither waits for memory nor gives up stores. */
static void lower_limit_is_no_shortage(struct kunit *test)
{
	u8 *buf = make_buf(test, 0x22);

	limited_store = make_store(test, 8);
	rxd_store_set_limit(limited_store, 8);
	test_memory.at_slab = note_look_at_slab;
	test_memory.at_grant = lower_limit;
	KUNIT_EXPECT_EQ(test, write_page(limited_store, 0, buf), -ENOSPC);
	KUNIT_EXPECT_NULL(test, test_memory.at_grant);
	KUNIT_EXPECT_NOT_NULL(test, test_memory.at_slab);
	KUNIT_EXPECT_EQ(test, used(limited_store), 0);
}

static void max_used_has_no_stock(struct kunit *test)
{
	struct rxd_store *store = make_store_with_stock(test);

	fill(test, store, 1, 4, 0x22);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, 0, 5), 5);
	KUNIT_EXPECT_EQ(test, used(store), 0);
	KUNIT_EXPECT_EQ(test, max_used(store), 5);
}

/* A cache counts on what is charged. */
static void clear_returns_stocks(struct kunit *test)
{
	struct rxd_store *store = make_store_with_stock(test);

	rxd_store_clear(store);
	KUNIT_EXPECT_EQ(test, rxd_store_used(store), 0);
}

static void short_memory_refuses_writes(struct kunit *test)
{
	unsigned long nr_pages = 4 * PER_LEAF;
	struct rxd_store *store = make_store(test, nr_pages);
	u8 *buf = make_buf(test, 0x22);
	unsigned long pgno;
	int ret = 0;

	WRITE_ONCE(test_memory.is_short, true);
	for (pgno = 0; pgno < nr_pages && !ret; pgno++)
		ret = write_page(store, pgno, buf);
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	KUNIT_EXPECT_EQ(test, write_page(store, nr_pages - 1, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), pgno - 1);

	WRITE_ONCE(test_memory.is_short, false);
	KUNIT_EXPECT_EQ(test, write_page(store, nr_pages - 1, buf), 0);
}

static void short_memory_lets_overwrite(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	unsigned int i;

	fill(test, store, 0, 1, 0x11);
	WRITE_ONCE(test_memory.is_short, true);
	for (i = 0; i < 256; i++)
		fill(test, store, 0, 1, i);
	KUNIT_EXPECT_TRUE(test, page_is(store, 0, 255));
}

/* Resizing */

static void grow_keeps_data(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3);

	fill(test, store, 0, 3, 0x11);
	KUNIT_ASSERT_EQ(test, rxd_store_grow(store, 3 * PER_LEAF + 5), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store), 3 * PER_LEAF + 5);
	KUNIT_EXPECT_TRUE(test, page_is(store, 2, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, 3, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store, 3 * PER_LEAF + 4, 0));
	KUNIT_EXPECT_EQ(test, used(store), 3);
}

static void grow_makes_room(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3);

	KUNIT_ASSERT_EQ(test, rxd_store_grow(store, 3 * PER_LEAF + 5), 0);
	fill(test, store, 3 * PER_LEAF + 4, 1, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, 3 * PER_LEAF + 4, 0x22));
}

static void grow_within_a_leaf(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3);

	fill(test, store, 2, 1, 0x11);
	KUNIT_ASSERT_EQ(test, rxd_store_grow(store, PER_LEAF), 0);
	fill(test, store, PER_LEAF - 1, 1, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, 2, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF - 1, 0x22));
}

static void grow_fails_without_memory(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3);
	int ret;

	fill(test, store, 2, 1, 0x11);
	KUNIT_EXPECT_EQ(test, rxd_store_grow(store, 1UL << 40), -ENOMEM);
	KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store), 3);

	fault_begin(1);
	ret = rxd_store_grow(store, 3 * PER_LEAF);
	KUNIT_EXPECT_TRUE(test, fault_end());
	/* The directory may come from vmalloc() instead. */
	if (ret)
		KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
	KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store), ret ? 3 : 3 * PER_LEAF);
	KUNIT_EXPECT_TRUE(test, page_is(store, 2, 0x11));
}

static void shrink_frees_what_is_beyond(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3 * PER_LEAF);

	fill(test, store, PER_LEAF + 3, 4, 0x11);
	fill(test, store, 3 * PER_LEAF - 1, 1, 0x22);
	rxd_store_shrink(store, PER_LEAF + 5);
	KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store), PER_LEAF + 5);
	KUNIT_EXPECT_EQ(test, used(store), 2);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF + 3, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF + 4, 0x11));
}

static void shrink_then_grow_reads_zero(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3 * PER_LEAF);

	fill(test, store, PER_LEAF - 1, 2 * PER_LEAF, 0x11);
	rxd_store_shrink(store, PER_LEAF);
	KUNIT_ASSERT_EQ(test, rxd_store_grow(store, 3 * PER_LEAF), 0);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF - 1, 0x11));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store, 3 * PER_LEAF - 2, 0));
	KUNIT_EXPECT_EQ(test, used(store), 1);
	fill(test, store, 3 * PER_LEAF - 1, 1, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, 3 * PER_LEAF - 1, 0x22));
}

static unsigned long index_bytes(struct rxd_store *store)
{
	struct rxd_store_stats stats;

	rxd_store_get_stats(store, &stats);
	return stats.index_bytes;
}

static void trim_shortens_the_directory(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3);
	unsigned long before = index_bytes(store);

	KUNIT_ASSERT_EQ(test, rxd_store_grow(store, 40000 * PER_LEAF), 0);
	fill(test, store, 0, 3, 0x11);
	rxd_store_shrink(store, PER_LEAF);
	rxd_store_trim(store);
	KUNIT_EXPECT_TRUE(test, page_is(store, 2, 0x11));
	rxd_store_clear(store);
	KUNIT_EXPECT_EQ(test, index_bytes(store), before);

	/* It replaces a longer one, also if only the headroom is left. */
	KUNIT_ASSERT_EQ(test, rxd_store_grow(store, 40000 * PER_LEAF), 0);
	rxd_store_shrink(store, 39999 * PER_LEAF);
	test_memory.is_short = true;
	rxd_store_trim(store);
	test_memory.is_short = false;
	KUNIT_EXPECT_EQ(test, index_bytes(store), before + 39998 * sizeof(void *));
	fill(test, store, 39998 * PER_LEAF, 1, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, 39998 * PER_LEAF, 0x22));
}

static void directory_leaves_headroom(struct kunit *test)
{
	struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	struct rxd_store *store = make_store(test, 1);

	test_memory.is_short = true;
	KUNIT_EXPECT_EQ(test, rxd_store_grow(store, 40000 * PER_LEAF), -ENOMEM);
	KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store), 1);
	KUNIT_EXPECT_NULL(test, rxd_store_create(40000 * PER_LEAF, &options));
	/* The free memory is not checked for so small a directory. */
	KUNIT_EXPECT_EQ(test, rxd_store_grow(store, 64 * PER_LEAF * PER_LEAF), 0);
}

static void shrink_to_nothing(struct kunit *test)
{
	struct rxd_store *store = make_store(test, PER_LEAF + 1);

	fill(test, store, 0, PER_LEAF + 1, 0x11);
	rxd_store_shrink(store, 0);
	KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store), 0);
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void next_data(struct kunit *test)
{
	unsigned long end = 3 * PER_LEAF + 1;
	struct rxd_store *store = make_store(test, end);

	KUNIT_EXPECT_EQ(test, first_data(store, 0), end);
	fill(test, store, PER_LEAF, 1, 0x11);
	KUNIT_EXPECT_EQ(test, first_data(store, 0), PER_LEAF);
	KUNIT_EXPECT_EQ(test, first_data(store, PER_LEAF), PER_LEAF);
	KUNIT_EXPECT_EQ(test, first_data(store, PER_LEAF + 1), end);
	fill(test, store, 3 * PER_LEAF, 1, 0x11);
	KUNIT_EXPECT_EQ(test, first_data(store, PER_LEAF + 1), 3 * PER_LEAF);
	KUNIT_EXPECT_EQ(test, first_data(store, 3 * PER_LEAF), 3 * PER_LEAF);
	KUNIT_EXPECT_EQ(test, first_data(store, end), end);
}

static void next_hole(struct kunit *test)
{
	unsigned long end = 3 * PER_LEAF + 1;
	struct rxd_store *store = make_store(test, end);

	KUNIT_EXPECT_EQ(test, first_hole(store, 0), 0);
	KUNIT_EXPECT_EQ(test, first_hole(store, end - 1), end - 1);
	fill(test, store, PER_LEAF - 1, PER_LEAF + 2, 0x11);
	KUNIT_EXPECT_EQ(test, first_hole(store, PER_LEAF - 2), PER_LEAF - 2);
	KUNIT_EXPECT_EQ(test, first_hole(store, PER_LEAF - 1), 2 * PER_LEAF + 1);
	KUNIT_EXPECT_EQ(test, first_hole(store, 2 * PER_LEAF), 2 * PER_LEAF + 1);
	fill(test, store, end - 1, 1, 0x11);
	KUNIT_EXPECT_EQ(test, first_hole(store, end - 1), end);
	KUNIT_EXPECT_EQ(test, first_hole(store, end), end);
}

/* The end of a leaf is full, and the next leaf does not exist. */
static void next_hole_at_missing_leaf(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);

	fill(test, store, PER_LEAF - 2, 2, 0x11);
	KUNIT_EXPECT_EQ(test, first_hole(store, PER_LEAF - 2), PER_LEAF);
	KUNIT_EXPECT_EQ(test, first_data(store, PER_LEAF), 2 * PER_LEAF);
}

/* The last leaf has room for more pages than the store has. */
static void next_hole_in_last_leaf(struct kunit *test)
{
	struct rxd_store *store = make_store(test, PER_LEAF + 3);

	fill(test, store, PER_LEAF, 3, 0x11);
	KUNIT_EXPECT_EQ(test, first_hole(store, PER_LEAF), PER_LEAF + 3);
	KUNIT_EXPECT_EQ(test, first_data(store, PER_LEAF + 2), PER_LEAF + 2);
}

/* Directory and leaves */

static void index_is_counted(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3 * PER_LEAF);
	unsigned long empty = index_bytes(store);

	fill(test, store, 0, 2, 0x11);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + PAGE_SIZE);
	fill(test, store, 3 * PER_LEAF - 1, 1, 0x11);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + 2 * PAGE_SIZE);
	/* The directory keeps its size. */
	rxd_store_shrink(store, 1);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, rxd_store_grow(store, 5 * PER_LEAF), 0);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + PAGE_SIZE + 2 * sizeof(void *));
	rxd_store_shrink(store, 0);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + 2 * sizeof(void *));
}

static void leaf_goes_with_its_last_page(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3 * PER_LEAF);
	unsigned long empty = index_bytes(store);

	fill(test, store, 0, 2, 0x11);
	fill(test, store, PER_LEAF, PER_LEAF, 0x22);
	rxd_store_free_range(store, 0, 1);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + 2 * PAGE_SIZE);
	rxd_store_free_range(store, 1, PER_LEAF);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF + 1, 0x22));
	rxd_store_free_range(store, 0, 3 * PER_LEAF);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty);

	fill(test, store, PER_LEAF, 1, 0x33);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF, 0x33));
	KUNIT_EXPECT_EQ(test, count_pages(store), 1);
}

static void leaf_goes_with_its_last_exchange(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, 2 * PER_LEAF, ORDER_64K);
	unsigned long empty = index_bytes(store);
	struct rxd_store_stats stats;
	struct page *page;

	/* Exchange a page of a piece for a single page, and the other way round. */
	KUNIT_ASSERT_EQ(test, fill_range(store, 0, 16), 0);
	page = rxd_store_alloc_page(store, 0, RXD_GFP);
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 3, page, RXD_GFP_NOWAIT), 0);
	rxd_store_free_range(store, 0, 3);
	rxd_store_free_range(store, 4, 12);
	rxd_store_get_stats(store, &stats);
	KUNIT_EXPECT_EQ(test, stats.used, 1);
	KUNIT_EXPECT_EQ(test, stats.index_bytes, empty + PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 3, NULL, RXD_GFP_NOWAIT), 0);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty);
	/* Removing a page that does not exist allocates nothing. */
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 3, NULL, RXD_GFP_NOWAIT), 0);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty);
}

static void failing_write_takes_nothing(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8 * PER_LEAF);
	unsigned long empty = index_bytes(store), leaf;
	u8 *buf = make_buf(test, 0x22);

	test_memory.pages_left = 0;
	for (leaf = 0; leaf < 8; leaf++)
		KUNIT_EXPECT_EQ(test, write_page(store, leaf * PER_LEAF, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty);

	test_memory.pages_left = ULONG_MAX;
	rxd_store_set_limit(store, 0);
	KUNIT_EXPECT_EQ(test, write_page(store, 0, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty);
}

/* A leaf is not allocated from the memory that is left to the rest of the machine. */
static void short_memory_refuses_leaves(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 1024 * PER_LEAF);
	unsigned int i, leaf, max = 64 * (num_online_cpus() + 1);
	unsigned long empty = index_bytes(store);
	struct page **pages;
	int ret = 0;

	pages = kunit_kcalloc(test, max, sizeof(*pages), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pages);
	for (i = 0; i < max; i++) {
		pages[i] = rxd_store_alloc_page(store, 0, RXD_GFP);
		KUNIT_ASSERT_NOT_NULL(test, pages[i]);
	}
	test_memory.is_short = true;
	for (leaf = 0; leaf < max; leaf++) {
		ret = rxd_store_exchange(store, leaf * PER_LEAF, pages[leaf], RXD_GFP_NOWAIT);
		if (ret)
			break;
	}
	KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + leaf * PAGE_SIZE);
	for (i = leaf; i < max; i++)
		rxd_store_free_page(pages[i]);
}

/* Background freeing */

static void clear_forgets_all(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, 3 * PER_LEAF + 5, ORDER_2M);
	unsigned long empty = index_bytes(store);
	struct rxd_store_stats stats;

	KUNIT_ASSERT_EQ(test, fill_range(store, 0, 3 * PER_LEAF + 5), 0);
	rxd_store_clear(store);
	rxd_store_get_stats(store, &stats);
	KUNIT_EXPECT_EQ(test, stats.used, 0);
	KUNIT_EXPECT_EQ(test, stats.max_used, 3 * PER_LEAF + 5);
	KUNIT_EXPECT_EQ(test, stats.index_bytes, empty);
	KUNIT_EXPECT_EQ(test, first_data(store, 0), 3 * PER_LEAF + 5);
	fill(test, store, PER_LEAF, 1, 0x11);
	KUNIT_EXPECT_EQ(test, count_pages(store), 1);
	rxd_store_clear(store);
	rxd_store_clear(store);
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void background_gives_all_back(struct kunit *test)
{
	long nr = 8 * PER_LEAF, before;
	struct rxd_store *store;
	unsigned int way;

	for (way = 0; way < 3; way++) {
		before = atomic_long_read(&test_pages);
		store = make_store(test, nr);
		KUNIT_ASSERT_EQ(test, fill_range(store, 0, nr), 0);
		KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), before + nr + 8);
		if (way == 0)
			rxd_store_clear(store);
		else if (way == 1)
			rxd_store_shrink(store, 0);
		else
			kunit_release_action(test, destroy_test_store, store);
		rxd_store_drain();
		KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), before);
	}
}

static struct rxd_store *leaving;

static void clear_leaving(void)
{
	rxd_store_clear(leaving);
}

static void shrink_leaving(void)
{
	rxd_store_shrink(leaving, PER_LEAF);
}

static void destroy_leaving(void)
{
	rxd_store_destroy(leaving);
}

static void (*const ways_to_leave[])(void) = { clear_leaving, shrink_leaving, destroy_leaving };

/*
 * A write that is short of memory waits for pages of a clear, a shrink or a destroyed store.
 * It also tries again if these pages were freed after its allocation had failed.
 */
static void write_waits_for_background(struct kunit *test)
{
	struct rxd_store *other = make_store(test, 64);
	u8 *buf = make_buf(test, 0x22);
	unsigned int way;

	for (way = 0; way < ARRAY_SIZE(ways_to_leave); way++) {
		leaving = make_store(test, 2 * PER_LEAF);
		fill(test, leaving, 0, PER_LEAF + 1, 0x11);
		if (ways_to_leave[way] == destroy_leaving)
			kunit_remove_action(test, destroy_test_store, leaving);
		test_memory.at_refusal = ways_to_leave[way];
		test_memory.nr_refusals = 1;
		KUNIT_EXPECT_EQ(test, write_page(other, way, buf), 0);
		KUNIT_EXPECT_EQ(test, test_memory.nr_refusals, 0);
		rxd_store_drain();
	}
}

static struct rxd_store *filled;

static void write_what_is_filled(void)
{
	const u64 word = 0x2222222222222222;

	WARN_ON(rxd_store_write(filled, 512, &word, sizeof(word), RXD_GFP));
}

/* To add pages changes no data: a write fills the hole in the moment in which memory is short. */
static void fill_beside_a_write(struct kunit *test)
{
	u64 word;

	filled = make_store(test, 4);
	test_memory.at_refusal = write_what_is_filled;
	test_memory.nr_refusals = 1;
	KUNIT_EXPECT_EQ(test, fill_range(filled, 0, 3), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_refusals, 0);
	KUNIT_EXPECT_EQ(test, used(filled), 3);
	rxd_store_read(filled, 512, &word, sizeof(word));
	KUNIT_EXPECT_EQ(test, word, 0x2222222222222222);
}

static void write_and_limit(void)
{
	test_memory.at_grant = NULL;
	write_what_is_filled();
	rxd_store_set_limit(filled, 1);
}

/* As above, and the write takes the last page within the limit. */
static void fill_beside_the_last_write(struct kunit *test)
{
	u64 word;

	filled = make_store(test, 4);
	test_memory.at_grant = write_and_limit;
	KUNIT_EXPECT_EQ(test, fill_range(filled, 0, 1), 0);
	KUNIT_EXPECT_NULL(test, test_memory.at_grant);
	KUNIT_EXPECT_EQ(test, used(filled), 1);
	rxd_store_read(filled, 512, &word, sizeof(word));
	KUNIT_EXPECT_EQ(test, word, 0x2222222222222222);
}

static void write_at_leaf(void)
{
	test_memory.at_leaf = NULL;
	write_what_is_filled();
}

/* Two writes to one page need the last page within the limit once. Both find room. */
static void write_beside_the_last_write(struct kunit *test)
{
	const u64 first = 0x1111111111111111;
	u64 word;

	filled = make_store(test, 4);
	rxd_store_set_limit(filled, 1);
	test_memory.at_leaf = write_at_leaf;
	KUNIT_EXPECT_EQ(test, rxd_store_write(filled, 0, &first, sizeof(first), RXD_GFP), 0);
	KUNIT_EXPECT_NULL(test, test_memory.at_leaf);
	KUNIT_EXPECT_EQ(test, used(filled), 1);
	KUNIT_EXPECT_EQ(test, max_used(filled), 1);
	rxd_store_read(filled, 0, &word, sizeof(word));
	KUNIT_EXPECT_EQ(test, word, first);
	rxd_store_read(filled, 512, &word, sizeof(word));
	KUNIT_EXPECT_EQ(test, word, 0x2222222222222222);
}

static DECLARE_COMPLETION(may_free);

/* Only a worker waits: it is what frees in the background. RCU calls this, too, and must not. */
static void wait_to_free(struct page *page)
{
	if (!in_task() || !(current->flags & PF_WQ_WORKER))
		return;
	/* If others wait for it, it gives up for good. */
	if (!wait_for_completion_timeout(&may_free, 60 * HZ))
		complete_all(&may_free);
}

static void nobody_waits_for_background(struct kunit *test)
{
	unsigned long before, held, left;
	unsigned int way;

	for (way = 0; way < ARRAY_SIZE(ways_to_leave); way++) {
		before = atomic_long_read(&test_pages);
		leaving = make_store(test, 2 * PER_LEAF);
		fill(test, leaving, 0, 2 * PER_LEAF, 0x11);
		held = atomic_long_read(&test_pages);
		KUNIT_EXPECT_EQ(test, held, before + 2 * (PER_LEAF + 1));
		if (ways_to_leave[way] == destroy_leaving)
			kunit_remove_action(test, destroy_test_store, leaving);
		reinit_completion(&may_free);
		WRITE_ONCE(test_memory.at_free, wait_to_free);
		ways_to_leave[way]();
		KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), held);
		complete_all(&may_free);
		rxd_store_drain();
		WRITE_ONCE(test_memory.at_free, NULL);
		left = ways_to_leave[way] == shrink_leaving ? PER_LEAF + 1 : 0;
		KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), before + left);
		if (ways_to_leave[way] != destroy_leaving)
			kunit_release_action(test, destroy_test_store, leaving);
	}
}

static void write_waits_for_writeback(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 64);
	u8 *buf = make_buf(test, 0x22);
	unsigned long begin;

	test_memory.nr_dirty = totalram_pages() / 8;
	test_memory.nr_refusals = 3;
	begin = jiffies;
	KUNIT_EXPECT_EQ(test, write_page(store, 0, buf), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_refusals, 0);
	/* It has slept twice at least. */
	KUNIT_EXPECT_GE(test, jiffies - begin, 2 * (HZ / 20));

	test_memory.nr_refusals = 1;
	KUNIT_EXPECT_EQ(test, rxd_store_write(store, pos_of(1), buf, PAGE_SIZE, RXD_GFP_NOWAIT),
			-ENOSPC);
	/* There are dirty pages to wait for, but only the headroom is left. */
	test_memory.is_short = true;
	test_memory.nr_refusals = 100;
	KUNIT_EXPECT_EQ(test, write_page(store, 2, buf), -ENOSPC);
	KUNIT_EXPECT_GT(test, test_memory.nr_refusals, 97);
}

/*
 * A device whose pages are dirty or being written, in parts, as cgroups have them; the counters
 * are 0.
 */
static struct backing_dev_info *make_bdi(struct kunit *test, struct bdi_writeback *parts,
					 unsigned int nr)
{
	struct backing_dev_info *bdi = kunit_kzalloc(test, sizeof(*bdi), GFP_KERNEL);
	unsigned int i;
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, bdi);
	INIT_LIST_HEAD(&bdi->wb_list);
	for (i = 0; i < nr; i++) {
		ret = percpu_counter_init_many(parts[i].stat, 0, GFP_KERNEL, NR_WB_STAT_ITEMS);
		KUNIT_ASSERT_EQ(test, ret, 0);
		list_add_tail(&parts[i].bdi_node, &bdi->wb_list);
	}
	return bdi;
}

/* The rest of the headroom would be dirty for other devices. */
static void dirty_memory_refuses_writes(struct kunit *test)
{
	unsigned long nr_pages = 4 * PER_LEAF;
	struct rxd_store *store = make_store(test, nr_pages);
	struct rxd_store *own = make_store(test, nr_pages);
	struct bdi_writeback *parts;
	u8 *buf = make_buf(test, 0x22);
	unsigned long pgno;
	int ret = 0;

	parts = kunit_kcalloc(test, 1, sizeof(*parts), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, parts);
	rxd_store_set_bdi(own, make_bdi(test, parts, 1));
	test_memory.nr_dirty = totalram_pages();
	percpu_counter_set(&parts->stat[WB_RECLAIMABLE], totalram_pages());
	for (pgno = 0; pgno < nr_pages && !ret; pgno++)
		ret = rxd_store_write(store, pos_of(pgno), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), pgno - 1);
	/* A store that may allocate does not make others believe that memory is no longer short. */
	for (pgno = 0; pgno < PER_LEAF; pgno++) {
		ret = write_page(own, pgno, buf);
		KUNIT_EXPECT_EQ(test, ret, 0);
		if (ret)
			break;
		ret = rxd_store_write(store, pos_of(nr_pages - 1), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
		KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
		if (!ret)
			break;
	}
	/* Data that are being written back are not dirty afterwards. */
	ret = rxd_store_write(store, pos_of(nr_pages - 1), buf, PAGE_SIZE,
			      RXD_GFP_NOWAIT | RXD_GFP_WRITEBACK);
	KUNIT_EXPECT_EQ(test, ret, 0);
	/* A table is refused only if the memory is not there at all. */
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_fill(NULL, 1), 0);
	test_memory.is_short = true;
	ret = rxd_store_write(store, pos_of(nr_pages - 2), buf, PAGE_SIZE,
			      RXD_GFP_NOWAIT | RXD_GFP_WRITEBACK);
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	percpu_counter_destroy_many(parts->stat, NR_WB_STAT_ITEMS);
}

/* Zeros may be those of a file system, but what is allocated after them is not. */
static void dirty_memory_refuses_fills(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 4 * PER_LEAF);
	struct rxd_write write;

	test_memory.nr_dirty = totalram_pages();
	rxd_write_begin(&write, 0, RXD_GFP_NOWAIT);
	KUNIT_EXPECT_EQ(test, rxd_store_zero(store, 0, PAGE_SIZE, &write), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_fill(store, 0, 4 * PER_LEAF, &write), -ENOSPC);
	rxd_write_end(&write);
}

/* Own dirty pages in ZONE_MOVABLE do not hide those of others elsewhere. */
static void dirty_movable_memory(struct kunit *test)
{
	struct rxd_store *store = make_store(test, PER_LEAF);
	struct bdi_writeback *parts;
	u8 *buf = make_buf(test, 0x22);
	unsigned long nr, pgno;
	int ret = 0;

	parts = kunit_kcalloc(test, 1, sizeof(*parts), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, parts);
	rxd_store_set_bdi(store, make_bdi(test, parts, 1));
	/* Of four dirty pages, three are movable, and two are own: one of eight is of others. */
	nr = 2 * totalram_pages();
	test_memory.nr_dirty = 4 * nr;
	test_memory.nr_dirty_movable = 3 * nr;
	percpu_counter_set(&parts->stat[WB_RECLAIMABLE], 2 * nr);
	for (pgno = 0; pgno < PER_LEAF && !ret; pgno++)
		ret = rxd_store_write(store, pos_of(pgno), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	/* All are own. */
	percpu_counter_set(&parts->stat[WB_RECLAIMABLE], 4 * nr);
	ret = rxd_store_write(store, pos_of(PER_LEAF - 1), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
	KUNIT_EXPECT_EQ(test, ret, 0);
	percpu_counter_destroy_many(parts->stat, NR_WB_STAT_ITEMS);
}

/* Only writes such as the one that waits clean dirty pages of the disk itself. */
static void write_waits_for_no_own_writeback(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 64);
	long nr = totalram_pages() / 8;
	u8 *buf = make_buf(test, 0x22);
	struct bdi_writeback *parts;
	struct percpu_counter *own;
	unsigned int i;

	parts = kunit_kcalloc(test, 2, sizeof(*parts), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, parts);
	/* The leaf exists, so a failing write frees nothing that it could wait for. */
	fill(test, store, 63, 1, 0x11);
	rxd_store_set_bdi(store, make_bdi(test, parts, 2));
	test_memory.nr_dirty = nr;
	for (i = 0; i < 4; i++) {
		own = &parts[i % 2].stat[i < 2 ? WB_RECLAIMABLE : WB_WRITEBACK];
		percpu_counter_set(own, nr);
		test_memory.nr_refusals = 3;
		KUNIT_EXPECT_EQ(test, write_page(store, i, buf), -ENOSPC);
		KUNIT_EXPECT_EQ(test, test_memory.nr_refusals, 2);
		/* Half of them are now of another device. */
		percpu_counter_set(own, nr / 2);
		test_memory.nr_refusals = 3;
		KUNIT_EXPECT_EQ(test, write_page(store, i, buf), 0);
		percpu_counter_set(own, 0);
	}
	for (i = 0; i < 2; i++)
		percpu_counter_destroy_many(parts[i].stat, NR_WB_STAT_ITEMS);
}

static void write_waits_for_kswapd(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 64);
	u8 *buf = make_buf(test, 0x22);

	test_memory.nr_slab = totalram_pages();
	test_memory.nr_refusals = 3;
	KUNIT_EXPECT_EQ(test, write_page(store, 0, buf), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_refusals, 0);
}

/* A shortage makes all writers together wait for no more than ten seconds. */
static void write_waits_not_for_ever(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 64);
	unsigned long begin = jiffies, took;
	u8 *buf = make_buf(test, 0x22);

	test_memory.nr_dirty = totalram_pages() / 8;
	test_memory.pages_left = 0;
	KUNIT_EXPECT_EQ(test, write_page(store, 0, buf), -ENOSPC);
	took = jiffies - begin;
	KUNIT_EXPECT_GE(test, took, 9 * HZ);
	KUNIT_EXPECT_LE(test, took, 10 * HZ + LATE);
	begin = jiffies;
	KUNIT_EXPECT_EQ(test, write_page(store, 1, buf), -ENOSPC);
	KUNIT_EXPECT_LE(test, jiffies - begin, HZ + LATE);
	/* Writes that fail without a wait do not prevent the wait of later ones. */
	test_memory.late = HZ / 2;
	KUNIT_EXPECT_EQ(test, write_page(store, 1, buf), -ENOSPC);
	KUNIT_EXPECT_LE(test, jiffies - begin, HZ + LATE);
	test_memory.late = 2 * HZ;
	test_memory.pages_left = ULONG_MAX;
	test_memory.nr_refusals = 2;
	KUNIT_EXPECT_EQ(test, write_page(store, 1, buf), 0);
	test_memory.nr_refusals = 2;
	KUNIT_EXPECT_EQ(test, write_page(store, 2, buf), 0);
}

/*
 * Nobody waits for the callbacks of all others: where many writes fail, each of them would take as
 * long as that.
 */
static void failing_writes_need_no_barrier(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 64), *other = make_store(test, 64);
	u8 *buf = make_buf(test, 0x22);
	unsigned int i;

	fill(test, other, 0, 64, 0x11);
	test_memory.nr_barriers = 0;
	rxd_store_drain();
	KUNIT_EXPECT_GT(test, test_memory.nr_barriers, 0);

	test_memory.nr_barriers = 0;
	test_memory.pages_left = 0;
	for (i = 0; i < 64; i++) {
		/* Half of them wait until this page is free, in vain. */
		if (i % 2)
			rxd_store_free_range(other, i, 1);
		KUNIT_EXPECT_EQ(test, write_page(store, i, buf), -ENOSPC);
		KUNIT_EXPECT_EQ(test, fill_range(store, i, 1), -ENOSPC);
	}
	test_memory.pages_left = ULONG_MAX;
	rxd_store_set_limit(store, 0);
	for (i = 0; i < 64; i++)
		KUNIT_EXPECT_EQ(test, write_page(store, i, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, test_memory.nr_barriers, 0);
}

/* A write that gets some pages, each after a wait, does not fail because all waits were long. */
static void every_step_may_wait(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 64);
	u8 *buf = make_buf(test, 0x22);
	struct rxd_write write;
	unsigned int i;

	test_memory.nr_dirty = totalram_pages() / 8;
	rxd_write_begin(&write, 3 * PAGE_SIZE, RXD_GFP);
	for (i = 0; i < 3; i++) {
		test_memory.nr_refusals = 2;
		KUNIT_EXPECT_EQ(test, rxd_store_write_part(store, pos_of(i), buf, PAGE_SIZE,
							   &write), 0);
		KUNIT_EXPECT_EQ(test, test_memory.nr_refusals, 0);
		test_memory.late += 6 * HZ;
		/* No page is left for the next step. */
		rxd_write_end(&write);
	}
}

/* I/O may be held behind a write: it waits for a limited time, however many steps it takes. */
static void all_steps_wait_not_for_ever(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 64);
	u8 *buf = make_buf(test, 0x22);
	struct rxd_write write;
	unsigned int i;
	int ret;

	test_memory.nr_dirty = totalram_pages() / 8;
	rxd_write_begin(&write, 64 * PAGE_SIZE, RXD_GFP);
	for (i = 0; i < 64; i++) {
		write.since = (jiffies - 19 * HZ / 2) ?: 1;
		test_memory.nr_refusals = 2;
		ret = rxd_store_write_part(store, pos_of(i), buf, PAGE_SIZE, &write);
		rxd_write_end(&write);
		if (ret)
			break;
	}
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	/* Twelve times 9.5 seconds are less than two minutes. */
	KUNIT_EXPECT_EQ(test, i, 12);
}

/* Time in which no write waited for writeback does not count. */
static void time_between_waits_does_not_count(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 64);
	unsigned long begin = jiffies;
	u8 *buf = make_buf(test, 0x22);

	/* The leaf exists, so a failing write frees nothing that it could wait for. */
	fill(test, store, 63, 1, 0x11);
	test_memory.nr_dirty = totalram_pages() / 8;
	store->short_since = (begin - 11 * HZ) ?: 1;
	store->short_last = begin - 9 * HZ;
	test_memory.nr_refusals = 2;
	KUNIT_EXPECT_EQ(test, write_page(store, 0, buf), 0);
	/* Others have waited until now. */
	store->short_since = (jiffies - 11 * HZ) ?: 1;
	store->short_last = jiffies;
	test_memory.nr_refusals = 2;
	KUNIT_EXPECT_EQ(test, write_page(store, 1, buf), -ENOSPC);
}

/* NUMA */

static int node_of_write(struct kunit *test, struct rxd_store *store, unsigned long pgno)
{
	fill(test, store, pgno, 1, 0x11);
	return test_memory.node;
}

static void node_of_choice(struct kunit *test)
{
	const struct rxd_store_options options = { .node = 2 };
	struct rxd_store *store = make_store_of(test, 2 * PER_LEAF, &options);

	test_memory.nr_nodes = 3;
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, 0), 2);
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, PER_LEAF), 2);
}

static void node_local(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);

	test_memory.nr_nodes = 3;
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, PER_LEAF), NUMA_NO_NODE);
}

static void node_interleave(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_INTERLEAVE };
	unsigned long pages_2m = SZ_2M >> PAGE_SHIFT;
	struct rxd_store *store = make_store_of(test, 5 * pages_2m, &options);

	KUNIT_EXPECT_EQ(test, node_of_write(test, store, 0), NUMA_NO_NODE);
	test_memory.nr_nodes = 3;
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, 1), 0);
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, pages_2m - 1), 0);
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, pages_2m), 1);
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, 2 * pages_2m), 2);
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, 3 * pages_2m), 0);
	KUNIT_EXPECT_EQ(test, node_of_write(test, store, 5 * pages_2m - 1), 1);
}

static void node_of_leaf(struct kunit *test)
{
	const struct rxd_store_options options = { .node = 2 };
	struct rxd_store *store = make_store_of(test, 2 * PER_LEAF, &options);

	test_memory.nr_nodes = 3;
	fill(test, store, PER_LEAF, 1, 0x11);
	KUNIT_EXPECT_EQ(test, test_memory.leaf_node, 2);
}

/* Exchanging pages */

static struct page *make_page(struct kunit *test, struct rxd_store *store, u8 byte)
{
	struct page *page = rxd_store_alloc_page(store, 0, RXD_GFP);

	KUNIT_ASSERT_NOT_NULL(test, page);
	memset(page_address(page), byte, PAGE_SIZE);
	return page;
}

static void exchange(struct kunit *test, struct rxd_store *store, unsigned long pgno, u8 byte)
{
	struct page *page = make_page(test, store, byte);

	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, pgno, page, RXD_GFP), 0);
}

static void exchange_into_empty(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	exchange(test, store, 5, 0x11);
	KUNIT_EXPECT_TRUE(test, page_is(store, 5, 0x11));
	KUNIT_EXPECT_EQ(test, used(store), 1);
}

static void exchange_replaces(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	fill(test, store, 5, 1, 0x11);
	exchange(test, store, 5, 0x22);
	KUNIT_EXPECT_TRUE(test, page_is(store, 5, 0x22));
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_EQ(test, max_used(store), 1);
}

static void exchange_removes(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	fill(test, store, 5, 1, 0x11);
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 5, NULL, RXD_GFP), 0);
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 5));
	KUNIT_EXPECT_EQ(test, used(store), 0);
	KUNIT_EXPECT_EQ(test, max_used(store), 1);
}

static void exchange_nothing_for_nothing(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);

	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 5, NULL, RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void exchange_at_limit(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	struct page *page = make_page(test, store, 0x22);

	rxd_store_set_limit(store, 1);
	fill(test, store, 5, 1, 0x11);
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 6, page, RXD_GFP), -ENOSPC);
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 6));
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 5, page, RXD_GFP), 0);
	KUNIT_EXPECT_TRUE(test, page_is(store, 5, 0x22));
}

static void exchange_without_memory_for_leaf(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 8);
	struct page *page = make_page(test, store, 0x22);
	int ret;

	fault_begin(1);
	ret = rxd_store_exchange(store, 6, page, RXD_GFP);
	fault_end();
	KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
	KUNIT_EXPECT_EQ(test, used(store), 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), 0x22, PAGE_SIZE));
	rxd_store_free_page(page);
}

/* Moves */

static void moves_may_overlap(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3 * PER_LEAF);
	const unsigned long far = 2 * PER_LEAF;
	unsigned long empty = index_bytes(store);
	struct rxd_moves moves;
	unsigned int i;

	for (i = 0; i < 4; i++)
		fill(test, store, i, 1, i + 1);
	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, store), 0);
	KUNIT_EXPECT_EQ(test, count_pages(store), 0);
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 0, 1, 1));
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 1, 0, 1));
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 2, far, 2));
	rxd_store_end_moves(&moves);
	KUNIT_EXPECT_TRUE(test, page_is(store, 1, 1));
	KUNIT_EXPECT_TRUE(test, page_is(store, 0, 2));
	KUNIT_EXPECT_TRUE(test, page_is(store, far, 3));
	KUNIT_EXPECT_TRUE(test, page_is(store, far + 1, 4));
	KUNIT_EXPECT_EQ(test, count_pages(store), 4);
	KUNIT_EXPECT_EQ(test, used(store), 4);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + 2 * PAGE_SIZE);
	rxd_store_free_range(store, 0, 3 * PER_LEAF);
	KUNIT_EXPECT_EQ(test, used(store), 0);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty);
}

/* The leaves of the old numbers go early, so that there is memory for the others. */
static void leaves_go_with_their_last_move(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3 * PER_LEAF);
	const unsigned long far = 2 * PER_LEAF;
	unsigned long empty = index_bytes(store);
	struct rxd_moves moves;

	fill(test, store, 0, 4, 0x11);
	fill(test, store, PER_LEAF, 1, 0x22);
	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, store), 0);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + 2 * PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 0, far, 2));
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + 3 * PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 2, far + 2, 2));
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + 2 * PAGE_SIZE);
	rxd_store_end_moves(&moves);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, count_pages(store), 4);
	KUNIT_EXPECT_TRUE(test, page_is(store, far + 3, 0x11));
}

static void unmoved_pages_go(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 3 * PER_LEAF);
	unsigned long empty = index_bytes(store);
	long pages = atomic_long_read(&test_pages);
	struct rxd_moves moves;

	fill(test, store, 0, 3, 0x11);
	fill(test, store, PER_LEAF, 2, 0x22);
	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, store), 0);
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, PER_LEAF + 1, 7, 1));
	rxd_store_end_moves(&moves);
	rxd_store_drain();
	KUNIT_EXPECT_EQ(test, count_pages(store), 1);
	KUNIT_EXPECT_TRUE(test, page_is(store, 7, 0x22));
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + PAGE_SIZE);
	/* The page and its leaf. */
	KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), pages + 2);
}

static void move_replaces(struct kunit *test)
{
	struct rxd_store *store = make_store(test, PER_LEAF);
	long pages = atomic_long_read(&test_pages);
	struct rxd_moves moves;

	fill(test, store, 0, 2, 0x11);
	fill(test, store, 2, 2, 0x22);
	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, store), 0);
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 0, 6, 2));
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 2, 6, 2));
	rxd_store_end_moves(&moves);
	rxd_store_drain();
	KUNIT_EXPECT_EQ(test, count_pages(store), 2);
	KUNIT_EXPECT_TRUE(test, page_is(store, 6, 0x22));
	KUNIT_EXPECT_TRUE(test, page_is(store, 7, 0x22));
	KUNIT_EXPECT_EQ(test, used(store), 2);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), pages + 3);
}

/* Nobody gets memory of this store until all has moved, so it must not be kept longer. */
static void pages_without_leaf_are_freed(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);
	long pages = atomic_long_read(&test_pages);
	unsigned long until = jiffies + 60 * HZ;
	struct rxd_moves moves;

	fill(test, store, 0, 6, 0x11);
	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, store), 0);
	test_memory.no_leaf = true;
	KUNIT_EXPECT_FALSE(test, rxd_store_move(&moves, 0, PER_LEAF, 2));
	KUNIT_EXPECT_TRUE(test, test_memory.leaf_gfp & __GFP_DIRECT_RECLAIM);
	/* Reclaim has just failed. */
	moves.reclaim_at = until;
	KUNIT_EXPECT_FALSE(test, rxd_store_move(&moves, 2, PER_LEAF, 1));
	KUNIT_EXPECT_FALSE(test, test_memory.leaf_gfp & __GFP_DIRECT_RECLAIM);
	KUNIT_EXPECT_EQ(test, moves.reclaim_at, until);
	rcu_barrier();
	KUNIT_EXPECT_EQ(test, used(store), 3);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), pages + 3 + 1);
	moves.reclaim_at = jiffies;
	KUNIT_EXPECT_FALSE(test, rxd_store_move(&moves, 3, PER_LEAF, 3));
	KUNIT_EXPECT_TRUE(test, test_memory.leaf_gfp & __GFP_DIRECT_RECLAIM);
	rcu_barrier();
	KUNIT_EXPECT_EQ(test, used(store), 0);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), pages);
	test_memory.no_leaf = false;
	rxd_store_end_moves(&moves);
	KUNIT_EXPECT_EQ(test, count_pages(store), 0);
}

static void move_without_leaf(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);
	unsigned long empty = index_bytes(store);
	struct rxd_moves moves;

	fill(test, store, 0, 3, 0x11);
	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, store), 0);
	test_memory.no_leaf = true;
	KUNIT_EXPECT_FALSE(test, rxd_store_move(&moves, 0, PER_LEAF, 2));
	test_memory.no_leaf = false;
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 2, PER_LEAF, 1));
	rxd_store_end_moves(&moves);
	rxd_store_drain();
	KUNIT_EXPECT_EQ(test, count_pages(store), 1);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF, 0x11));
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_EQ(test, index_bytes(store), empty + PAGE_SIZE);
}

/* While memory is low, too: the leaves replace others. */
static void move_with_low_memory(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);
	struct rxd_moves moves;

	fill(test, store, 0, 1, 0x11);
	WRITE_ONCE(test_memory.is_short, true);
	KUNIT_ASSERT_EQ(test, rxd_store_begin_moves(&moves, store), 0);
	KUNIT_EXPECT_TRUE(test, rxd_store_move(&moves, 0, PER_LEAF, 1));
	rxd_store_end_moves(&moves);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF, 0x11));
}

static void moves_without_directory(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 2 * PER_LEAF);
	struct rxd_moves moves;
	int ret;

	fill(test, store, 0, 3, 0x11);
	fault_begin(1);
	ret = rxd_store_begin_moves(&moves, store);
	fault_end();
	KUNIT_EXPECT_EQ(test, ret, -ENOMEM);
	KUNIT_EXPECT_EQ(test, count_pages(store), 3);
	KUNIT_EXPECT_TRUE(test, page_is(store, 2, 0x11));
}

static void alloc_page_without_memory(struct kunit *test)
{
	struct rxd_store *store = make_store(test, 1);
	struct page *page;

	fault_begin(1);
	page = rxd_store_alloc_page(store, 0, RXD_GFP);
	fault_end();
	KUNIT_EXPECT_NULL(test, page);
}

static struct kunit_case store_cases[] = {
	KUNIT_CASE(create_is_empty),
	KUNIT_CASE(create_one_page),
	KUNIT_CASE(create_without_memory_for_directory),
	KUNIT_CASE(create_fails_at_each_allocation),
	KUNIT_CASE(destroy_null),
	KUNIT_CASE(read_unwritten_is_zero),
	KUNIT_CASE(read_allocates_nothing),
	KUNIT_CASE(write_whole_page),
	KUNIT_CASE(write_first_and_last_page),
	KUNIT_CASE(write_on_both_sides_of_a_leaf),
	KUNIT_CASE_PARAM(write_sector, sector_offset_gen_params),
	KUNIT_CASE_PARAM(write_sector_keeps_the_rest, sector_offset_gen_params),
	KUNIT_CASE_PARAM(read_sector, sector_offset_gen_params),
	KUNIT_CASE(overwrite_takes_no_memory),
	KUNIT_CASE(write_nowait),
	KUNIT_CASE(write_fails_at_each_allocation),
	KUNIT_CASE(write_without_leaf),
	KUNIT_CASE(write_without_page),
	KUNIT_CASE(write_without_memory_keeps_what_is_there),
	KUNIT_CASE(zero_part),
	KUNIT_CASE(zero_unwritten_allocates_nothing),
	KUNIT_CASE(free_range_reads_zero),
	KUNIT_CASE(free_range_keeps_max_used),
	KUNIT_CASE(free_range_over_leaves),
	KUNIT_CASE(free_range_of_nothing),
	KUNIT_CASE(write_after_free_shows_no_old_data),
	KUNIT_CASE(freed_page_outlives_its_readers),
	KUNIT_CASE(drain_waits_for_all_batches),
	KUNIT_CASE(write_waits_for_retired_pages),
	KUNIT_CASE(nowait_write_does_not_wait_for_retired_pages),
	KUNIT_CASE(limit_stops_growth),
	KUNIT_CASE(limit_lets_overwrite),
	KUNIT_CASE(limit_zero_refuses_all),
	KUNIT_CASE(limit_counts_what_was_freed),
	KUNIT_CASE(limit_below_used_frees_nothing),
	KUNIT_CASE(limit_includes_stocks_of_others),
	KUNIT_CASE(limit_of_a_fill_includes_stocks),
	KUNIT_CASE(limit_leaves_a_part_of_a_write),
	KUNIT_CASE(no_stock_near_the_limit),
	KUNIT_CASE(stock_is_bounded),
	KUNIT_CASE(limit_below_a_stock),
	KUNIT_CASE(lower_limit_is_no_shortage),
	KUNIT_CASE(max_used_has_no_stock),
	KUNIT_CASE(clear_returns_stocks),
	KUNIT_CASE(short_memory_refuses_writes),
	KUNIT_CASE(short_memory_lets_overwrite),
	KUNIT_CASE(grow_keeps_data),
	KUNIT_CASE(grow_makes_room),
	KUNIT_CASE(grow_within_a_leaf),
	KUNIT_CASE(grow_fails_without_memory),
	KUNIT_CASE(shrink_frees_what_is_beyond),
	KUNIT_CASE(shrink_then_grow_reads_zero),
	KUNIT_CASE(trim_shortens_the_directory),
	KUNIT_CASE(directory_leaves_headroom),
	KUNIT_CASE(shrink_to_nothing),
	KUNIT_CASE(next_data),
	KUNIT_CASE(next_hole),
	KUNIT_CASE(next_hole_at_missing_leaf),
	KUNIT_CASE(next_hole_in_last_leaf),
	KUNIT_CASE(index_is_counted),
	KUNIT_CASE(leaf_goes_with_its_last_page),
	KUNIT_CASE(leaf_goes_with_its_last_exchange),
	KUNIT_CASE(failing_write_takes_nothing),
	KUNIT_CASE(short_memory_refuses_leaves),
	KUNIT_CASE(clear_forgets_all),
	KUNIT_CASE(background_gives_all_back),
	KUNIT_CASE(write_waits_for_background),
	KUNIT_CASE(fill_beside_a_write),
	KUNIT_CASE(fill_beside_the_last_write),
	KUNIT_CASE(write_beside_the_last_write),
	KUNIT_CASE(nobody_waits_for_background),
	KUNIT_CASE(write_waits_for_writeback),
	KUNIT_CASE(dirty_memory_refuses_writes),
	KUNIT_CASE(dirty_memory_refuses_fills),
	KUNIT_CASE(dirty_movable_memory),
	KUNIT_CASE(write_waits_for_no_own_writeback),
	KUNIT_CASE(write_waits_for_kswapd),
	KUNIT_CASE_SLOW(write_waits_not_for_ever),
	KUNIT_CASE(failing_writes_need_no_barrier),
	KUNIT_CASE(every_step_may_wait),
	KUNIT_CASE(all_steps_wait_not_for_ever),
	KUNIT_CASE(time_between_waits_does_not_count),
	KUNIT_CASE(node_of_choice),
	KUNIT_CASE(node_local),
	KUNIT_CASE(node_interleave),
	KUNIT_CASE(node_of_leaf),
	KUNIT_CASE(exchange_into_empty),
	KUNIT_CASE(exchange_replaces),
	KUNIT_CASE(exchange_removes),
	KUNIT_CASE(exchange_nothing_for_nothing),
	KUNIT_CASE(exchange_at_limit),
	KUNIT_CASE(exchange_without_memory_for_leaf),
	KUNIT_CASE(moves_may_overlap),
	KUNIT_CASE(leaves_go_with_their_last_move),
	KUNIT_CASE(unmoved_pages_go),
	KUNIT_CASE(move_replaces),
	KUNIT_CASE(pages_without_leaf_are_freed),
	KUNIT_CASE(move_without_leaf),
	KUNIT_CASE(move_with_low_memory),
	KUNIT_CASE(moves_without_directory),
	KUNIT_CASE(alloc_page_without_memory),
	{}
};

static struct kunit_suite store_suite = {
	.name = "rxd_store",
	.suite_init = init_store_suite,
	.suite_exit = exit_store_suite,
	.init = init_test_memory,
	.test_cases = store_cases,
};

kunit_test_suite(store_suite);

MODULE_DESCRIPTION("KUnit tests of the page store of RAM disks");
MODULE_LICENSE("GPL");
