// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page store of a RAM disk: stores that share pages.
 */
#include <linux/blk_types.h>
#include <linux/completion.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "../module/expendable.h"
#include "../module/hold.h"
#include "../module/store-internal.h"
#include "crew.h"
#include "share-test.h"

static void shares_all_and_takes_nothing(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone;
	long before = pages_taken();

	clone = share(test, golden);
	KUNIT_EXPECT_TRUE(test, is_golden(clone));
	KUNIT_EXPECT_TRUE(test, is_golden(golden));
	KUNIT_EXPECT_EQ(test, used(clone), used(golden));
	KUNIT_EXPECT_EQ(test, pages_taken(), before);
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

static void share_of_empty(struct kunit *test)
{
	struct rxd_store *empty = make_store(test, NR_PAGES), *clone = share(test, empty);

	KUNIT_EXPECT_EQ(test, first_data(clone, 0), NR_PAGES);
	fill(test, clone, 5, 1, 0x11);
	KUNIT_EXPECT_FALSE(test, page_is_there(empty, 5));
	expect_nothing_left(test, (struct rxd_store *[]){ empty, clone }, 2);
}

static unsigned long count_shared(struct rxd_store *store, unsigned long first, unsigned long end)
{
	unsigned long at = first, nr = rxd_store_count_shared(store, &at, end);

	return at == end ? nr : ULONG_MAX;
}

static void shared_pages_are_counted(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone, *third;
	unsigned long all = 8 + NR_BORDER;

	KUNIT_EXPECT_EQ(test, count_shared(golden, 0, NR_PAGES), 0);
	clone = share(test, golden);
	KUNIT_EXPECT_EQ(test, count_shared(golden, 0, NR_PAGES), all);
	KUNIT_EXPECT_EQ(test, count_shared(clone, 0, NR_PAGES), all);
	KUNIT_EXPECT_EQ(test, count_shared(clone, BORDER + 2, BORDER + 6), 4);
	KUNIT_EXPECT_EQ(test, count_shared(clone, 0, 2 * NR_PAGES), all);
	KUNIT_EXPECT_EQ(test, count_shared(clone, NR_PAGES, 2 * NR_PAGES), 0);

	/* A page of its own, one in a hole, and a leaf that the other one has alone then. */
	fill(test, clone, 3, 1, 0x33);
	fill(test, clone, 20, 1, 0x33);
	KUNIT_EXPECT_EQ(test, count_shared(golden, 0, NR_PAGES), all - 1);
	KUNIT_EXPECT_EQ(test, count_shared(clone, 0, NR_PAGES), all - 1);
	rxd_store_free_range(golden, PER_LEAF, PER_LEAF);
	KUNIT_EXPECT_EQ(test, count_shared(golden, 0, NR_PAGES), all - 1 - NR_BORDER / 2);
	KUNIT_EXPECT_EQ(test, count_shared(clone, 0, NR_PAGES), all - 1 - NR_BORDER / 2);

	third = share(test, clone);
	KUNIT_EXPECT_EQ(test, count_shared(clone, 0, NR_PAGES), used(clone));
	KUNIT_EXPECT_EQ(test, count_shared(third, 0, NR_PAGES), used(third));
	kunit_release_action(test, destroy_test_store, golden);
	kunit_release_action(test, destroy_test_store, third);
	KUNIT_EXPECT_EQ(test, count_shared(clone, 0, NR_PAGES), 0);
	expect_nothing_left(test, &clone, 1);
}

/* The first parameter says whether the clone or its source is changed. */
static const bool sides[] = { false, true };

static void side_name(const bool *side, char *desc)
{
	strscpy(desc, *side ? "in the source" : "in the clone", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(side, sides, side_name);

struct pair {
	struct rxd_store *changed;
	struct rxd_store *other;
};

static struct pair make_pair(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	struct pair pair = { .changed = clone, .other = golden };

	if (*(const bool *)test->param_value)
		swap(pair.changed, pair.other);
	return pair;
}

static void end_pair(struct kunit *test, struct pair *pair)
{
	KUNIT_EXPECT_TRUE(test, is_golden(pair->other));
	KUNIT_EXPECT_EQ(test, used(pair->other), 8 + NR_BORDER);
	KUNIT_EXPECT_EQ(test, used(pair->changed), count_pages(pair->changed));
	expect_nothing_left(test, (struct rxd_store *[]){ pair->changed, pair->other }, 2);
}

static void write_whole_pages(struct kunit *test)
{
	struct pair pair = make_pair(test);
	long before = pages_taken();

	fill(test, pair.changed, BORDER + 1, 6, 0x33);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, BORDER, 1, 0x20));
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, BORDER + 1, 6, 0x33));
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, BORDER + 7, 1, 0x20));
	KUNIT_EXPECT_EQ(test, used(pair.changed), 8 + NR_BORDER);
	/* Six pages, and copies of two leaves. */
	KUNIT_EXPECT_EQ(test, pages_taken(), before + 8);
	end_pair(test, &pair);
}

static void write_sectors(struct kunit *test)
{
	struct pair pair = make_pair(test);
	u8 *buf = make_buf(test, 0x33);

	KUNIT_EXPECT_EQ(test, rxd_store_write(pair.changed, pos_of(3) + 1024, buf, 512,
					      RXD_GFP), 0);
	rxd_store_read(pair.changed, pos_of(3), buf, PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0x10, 1024));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + 1024, 0x33, 512));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + 1536, 0x10, PAGE_SIZE - 1536));
	end_pair(test, &pair);
}

/* A long write over shared pages, holes, and pages that are not shared any more. */
static void write_long(struct kunit *test)
{
	const unsigned int len = 24 << PAGE_SHIFT;
	struct pair pair = make_pair(test);
	u8 *buf = kunit_kmalloc(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	memset(buf, 0x44, len);
	fill(test, pair.changed, BORDER + 5, 1, 0x33);
	KUNIT_EXPECT_EQ(test, rxd_store_write(pair.changed, pos_of(BORDER - 8) + 512, buf,
					      len - 1024, RXD_GFP), 0);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, BORDER - 7, 22, 0x44));
	KUNIT_EXPECT_EQ(test, used(pair.changed), 8 + 24);
	end_pair(test, &pair);
}

static void write_hole_of_shared_leaf(struct kunit *test)
{
	struct pair pair = make_pair(test);

	fill(test, pair.changed, 20, 3, 0x33);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, 20, 3, 0x33));
	KUNIT_EXPECT_EQ(test, used(pair.changed), 8 + NR_BORDER + 3);
	end_pair(test, &pair);
}

static void zero_pages(struct kunit *test)
{
	struct pair pair = make_pair(test);
	u8 *buf = make_buf(test, 0xff);

	KUNIT_EXPECT_EQ(test, zero_range(pair.changed, pos_of(6) + 512, 4 << PAGE_SHIFT), 0);
	rxd_store_read(pair.changed, pos_of(6), buf, PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0x10, 512));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + 512, 0, PAGE_SIZE - 512));
	KUNIT_EXPECT_TRUE(test, page_is(pair.changed, 7, 0));
	/* Holes stay holes. */
	KUNIT_EXPECT_EQ(test, used(pair.changed), 8 + NR_BORDER);
	end_pair(test, &pair);
}

static void free_part_of_leaf(struct kunit *test)
{
	struct pair pair = make_pair(test);

	KUNIT_EXPECT_EQ(test, rxd_store_free_range(pair.changed, 2, 3), 0);
	KUNIT_EXPECT_TRUE(test, is_golden(pair.changed));
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, 2, 3, RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(pair.changed, 2, 3), 3);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, 2, 3, 0));
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, 5, 3, 0x10));
	end_pair(test, &pair);
}

/* The free memory is checked once in a number of allocations. */
static void notice_shortage(struct rxd_store *store)
{
	struct page *page;

	while ((page = rxd_store_alloc_page(store, 0, RXD_GFP)))
		rxd_store_free_page(page);
}

/* Only the headroom is left. */
static void make_short(struct rxd_store *store)
{
	test_memory.is_short = true;
	notice_shortage(store);
}

/* The copy of a leaf that a discard needs may take clean memory. */
static void free_beside_dirty_memory(struct kunit *test)
{
	struct pair pair = make_pair(test);
	u8 *buf = make_buf(test, 0);

	pair.changed->options.detect_zeroes = true;
	test_memory.nr_dirty = totalram_pages();
	notice_shortage(pair.changed);
	KUNIT_EXPECT_EQ(test, rxd_store_write(pair.changed, pos_of(1), buf, PAGE_SIZE,
					      RXD_GFP_NOWAIT), 0);
	KUNIT_EXPECT_FALSE(test, page_is_there(pair.changed, 1));
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, PER_LEAF, 2, RXD_GFP_NOWAIT), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(pair.changed, PER_LEAF, 2), 2);
	test_memory.nr_dirty = 0;
	end_pair(test, &pair);

	/* It leaves the headroom. */
	pair = make_pair(test);
	make_short(pair.changed);
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, PER_LEAF, 2, RXD_GFP), -ENOMEM);
	test_memory.is_short = false;
	end_pair(test, &pair);
}

static void free_whole_leaf_needs_no_memory(struct kunit *test)
{
	struct pair pair = make_pair(test);

	test_memory.no_leaf = true;
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, 0, PER_LEAF, RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(pair.changed, 0, PER_LEAF), 8 + NR_BORDER / 2);
	KUNIT_EXPECT_EQ(test, first_data(pair.changed, 0), PER_LEAF);
	test_memory.no_leaf = false;
	end_pair(test, &pair);
}

static void free_hole_needs_no_memory(struct kunit *test)
{
	struct pair pair = make_pair(test);
	long before = pages_taken();

	test_memory.no_leaf = true;
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, 8, BORDER - 8, RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(pair.changed, 8, BORDER - 8), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, BORDER + NR_BORDER, PER_LEAF,
						     RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_shrink(pair.changed, BORDER + NR_BORDER), 0);
	/* Data at one end, and a hole at the other one. */
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, 8, PER_LEAF - 7, RXD_GFP),
			-ENOMEM);
	test_memory.no_leaf = false;
	KUNIT_EXPECT_EQ(test, pages_taken(), before);
	KUNIT_EXPECT_TRUE(test, is_golden(pair.changed));
	end_pair(test, &pair);
}

static void free_last_page_of_copied_leaf(struct kunit *test)
{
	struct pair pair = make_pair(test);

	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, PER_LEAF, 5, RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(pair.changed, PER_LEAF, 5), NR_BORDER / 2);
	fill(test, pair.changed, PER_LEAF, 1, 0x55);
	KUNIT_EXPECT_TRUE(test, page_is(pair.changed, PER_LEAF, 0x55));
	end_pair(test, &pair);
}

static void clear_one(struct kunit *test)
{
	struct pair pair = make_pair(test);

	rxd_store_clear(pair.changed);
	KUNIT_EXPECT_EQ(test, used(pair.changed), 0);
	KUNIT_EXPECT_EQ(test, first_data(pair.changed, 0), NR_PAGES);
	end_pair(test, &pair);
}

static void clear_and_share_again(struct kunit *test)
{
	struct pair pair = make_pair(test);
	unsigned int i;

	for (i = 0; i < 3; i++) {
		fill(test, pair.changed, 4, 8, 0x66);
		rxd_store_clear(pair.changed);
		rxd_store_share(pair.other, pair.changed);
		KUNIT_EXPECT_TRUE(test, is_golden(pair.changed));
	}
	end_pair(test, &pair);
}

static void shrink_and_grow_reads_zero(struct kunit *test)
{
	struct pair pair = make_pair(test);

	KUNIT_EXPECT_EQ(test, rxd_store_prepare_shrink(pair.changed, 4), 0);
	rxd_store_shrink(pair.changed, 4);
	KUNIT_EXPECT_EQ(test, used(pair.changed), 4);
	KUNIT_EXPECT_EQ(test, rxd_store_grow(pair.changed, NR_PAGES), 0);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, 0, 4, 0x10));
	KUNIT_EXPECT_EQ(test, first_data(pair.changed, 4), NR_PAGES);
	end_pair(test, &pair);
}

static void shrink_without_memory(struct kunit *test)
{
	struct pair pair = make_pair(test);

	test_memory.no_leaf = true;
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_shrink(pair.changed, 4), -ENOMEM);
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_shrink(pair.changed, PER_LEAF), 0);
	test_memory.no_leaf = false;
	KUNIT_EXPECT_TRUE(test, is_golden(pair.changed));
	end_pair(test, &pair);
}

static void grow_keeps_what_is_shared(struct kunit *test)
{
	struct pair pair = make_pair(test);

	KUNIT_EXPECT_EQ(test, rxd_store_grow(pair.changed, 40 * PER_LEAF), 0);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, 0, 8, 0x10));
	fill(test, pair.changed, 0, 8, 0x77);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, BORDER, NR_BORDER, 0x20));
	end_pair(test, &pair);
}

/* Writes that replace shared pages are no growth. */
static void limit_counts_no_replacement(struct kunit *test)
{
	struct pair pair = make_pair(test);
	u8 *buf = make_buf(test, 0x33);

	rxd_store_set_limit(pair.changed, 8 + NR_BORDER);
	KUNIT_EXPECT_EQ(test, write_page(pair.changed, 5, buf), 0);
	KUNIT_EXPECT_EQ(test, write_page(pair.changed, 20, buf), -ENOSPC);
	KUNIT_EXPECT_FALSE(test, page_is_there(pair.changed, 20));
	rxd_store_set_limit(pair.changed, 1);
	KUNIT_EXPECT_EQ(test, write_page(pair.changed, 6, buf), 0);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, 5, 2, 0x33));
	end_pair(test, &pair);
}

static void write_without_memory_changes_nothing(struct kunit *test)
{
	struct pair pair = make_pair(test);
	u8 *buf = make_buf(test, 0x33);
	long before = pages_taken();

	test_memory.pages_left = 0;
	KUNIT_EXPECT_EQ(test, write_page(pair.changed, 5, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, zero_range(pair.changed, pos_of(5), 512), -ENOSPC);
	test_memory.pages_left = ULONG_MAX;
	test_memory.no_leaf = true;
	KUNIT_EXPECT_EQ(test, write_page(pair.changed, 5, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, write_page(pair.changed, 20, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(pair.changed, 5, 1, RXD_GFP), -ENOMEM);
	test_memory.no_leaf = false;
	KUNIT_EXPECT_TRUE(test, is_golden(pair.changed));
	KUNIT_EXPECT_EQ(test, used(pair.changed), 8 + NR_BORDER);
	KUNIT_EXPECT_EQ(test, pages_taken(), before);
	end_pair(test, &pair);
}

static void write_fails_at_each_allocation(struct kunit *test)
{
	struct pair pair = make_pair(test);
	u8 *buf = make_buf(test, 0x33);
	unsigned int nth;
	bool failed;
	int ret;

	for (nth = 1; nth < FAULT_MAX; nth++) {
		fault_begin(nth);
		ret = rxd_store_write(pair.changed, pos_of(5), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
		failed = fault_end();
		if (!failed)
			break;
		KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
		KUNIT_EXPECT_TRUE(test, is_golden(pair.changed));
	}
	KUNIT_EXPECT_EQ(test, ret, 0);
	KUNIT_EXPECT_EQ(test, nth, 3);
	KUNIT_EXPECT_TRUE(test, page_is(pair.changed, 5, 0x33));
	end_pair(test, &pair);
}

static void detect_zeroes(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL, .detect_zeroes = true };
	struct rxd_store *golden = make_golden(test);
	struct rxd_store *clone = make_store_of(test, NR_PAGES, &options);
	u8 *buf = make_buf(test, 0);

	rxd_store_share(golden, clone);
	KUNIT_EXPECT_EQ(test, write_page(clone, 5, buf), 0);
	KUNIT_EXPECT_FALSE(test, page_is_there(clone, 5));
	KUNIT_EXPECT_TRUE(test, is_golden(golden));

	/* Without memory for a leaf, neither a page can be freed nor one be replaced. */
	test_memory.no_leaf = true;
	KUNIT_EXPECT_EQ(test, write_page(clone, BORDER + 7, buf), -ENOSPC);
	/* Zeros in a hole change nothing. */
	KUNIT_EXPECT_EQ(test, write_page(clone, BORDER + 8, buf), 0);
	test_memory.no_leaf = false;
	KUNIT_EXPECT_TRUE(test, page_is(clone, BORDER + 7, 0x20));
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

/* Pages that were shared once are replaced when they are written next, and freed. */
static void write_after_the_other_has_gone(struct kunit *test)
{
	struct pair pair = make_pair(test);

	fill(test, pair.changed, 0, 2, 0x33);
	kunit_release_action(test, destroy_test_store, pair.other);
	/* 16 pages and two copied leaves, of which one is still that of the other store. */
	KUNIT_EXPECT_EQ(test, pages_taken(), 8 + NR_BORDER + 2);
	fill(test, pair.changed, 0, 8, 0x44);
	fill(test, pair.changed, BORDER, NR_BORDER, 0x55);
	KUNIT_EXPECT_EQ(test, pages_taken(), 8 + NR_BORDER + 2);
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, 0, 8, 0x44));
	KUNIT_EXPECT_TRUE(test, pages_are(pair.changed, BORDER, NR_BORDER, 0x55));
	expect_nothing_left(test, &pair.changed, 1);
}

static void pieces_come_back(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_64K), *clone;
	u8 *buf = kunit_kzalloc(test, SZ_64K, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, rxd_store_write(store, 0, buf, SZ_64K, RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_64k, 16);
	clone = share(test, store);
	fill(test, clone, 3, 2, 0x33);
	expect_nothing_left(test, (struct rxd_store *[]){ store, clone }, 2);
}

/*
 * While one store is being freed, a write replaces a page in the other one, whose readers may
 * still use it: it must not be freed before a grace period has passed since then.
 */
static struct {
	struct rxd_store *other;
	struct page *page;
	unsigned long grace;
	unsigned int nr;
	bool replaced;
	bool early;
} late_reader;

static void at_free_with_reader(struct page *page)
{
	static const u8 data[64];

	if (!late_reader.replaced) {
		late_reader.replaced = true;
		if (rxd_store_write(late_reader.other, pos_of(1), data, sizeof(data),
				    RXD_GFP_NOWAIT))
			late_reader.early = true;
		late_reader.grace = get_state_synchronize_rcu();
	} else if (page == late_reader.page) {
		late_reader.nr++;
		if (!poll_state_synchronize_rcu(late_reader.grace))
			late_reader.early = true;
	}
}

static void page_outlives_readers_of_other_store(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);

	/* Both get leaves of their own, with page 0 of their own, and page 1 shared. */
	fill(test, golden, 0, 1, 0x33);
	fill(test, clone, 0, 1, 0x44);
	rxd_store_drain();

	memset(&late_reader, 0, sizeof(late_reader));
	late_reader.other = golden;
	rcu_read_lock();
	late_reader.page = rxd_store_lookup(golden, 1);
	rcu_read_unlock();
	test_memory.at_free = at_free_with_reader;
	kunit_release_action(test, destroy_test_store, clone);
	test_memory.at_free = NULL;

	KUNIT_EXPECT_TRUE(test, late_reader.replaced);
	KUNIT_EXPECT_EQ(test, late_reader.nr, 1);
	KUNIT_EXPECT_FALSE(test, late_reader.early);
	expect_nothing_left(test, &golden, 1);
}

/* A wait for memory also waits until pages that were shared are free. */
static const bool ends[] = { false, true };

static void last_owner_name(const bool *clear, char *desc)
{
	strscpy(desc, *clear ? "cleared" : "destroyed", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(last_owner, ends, last_owner_name);

static void memory_of_last_owner_is_awaited(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);

	/* From now on, one leaf is shared, and another one is a copy with shared pages. */
	fill(test, clone, 0, 1, 0x33);
	kunit_release_action(test, destroy_test_store, golden);

	test_memory.is_short = true;
	if (*(const bool *)test->param_value) {
		rxd_store_clear(clone);
	} else {
		kunit_remove_action(test, destroy_test_store, clone);
		rxd_store_destroy(clone);
	}
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_fill(NULL, 1), -ENOSPC);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), 0);
	KUNIT_EXPECT_EQ(test, pages_taken(), 0);
	KUNIT_EXPECT_EQ(test, test_freed(), test_awaited());
}

/* Clones of clones, each changed, that go in all orders. */
#define FAMILY	4

static const unsigned int orders_of_end[] = { 0123, 0132, 0213, 0231, 0312, 0321, 01230, 03210 };

static void end_name(const unsigned int *order, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "order %o", *order);
}

KUNIT_ARRAY_PARAM(end, orders_of_end, end_name);

static void family_ends_in_any_order(struct kunit *test)
{
	unsigned int order = *(const unsigned int *)test->param_value, i, j, left;
	struct rxd_store *store[FAMILY];
	bool gone[FAMILY] = {};

	store[0] = make_golden(test);
	for (i = 1; i < FAMILY; i++) {
		store[i] = share(test, store[i - 1]);
		fill(test, store[i], 0, i, 0x40 + i);
		if (i == 2)
			fill(test, store[0], BORDER, 2, 0x70);
	}
	for (left = FAMILY; left; order >>= 3) {
		j = order & 7;
		while (gone[j])
			j = (j + 1) % FAMILY;
		kunit_release_action(test, destroy_test_store, store[j]);
		gone[j] = true;
		left--;
		for (i = 0; i < FAMILY; i++) {
			if (gone[i])
				continue;
			KUNIT_EXPECT_TRUE(test, pages_are(store[i], 0, i, 0x40 + i));
			KUNIT_EXPECT_TRUE(test, page_is(store[i], 7, 0x10));
			KUNIT_EXPECT_TRUE(test, page_is(store[i], BORDER, i ? 0x20 : 0x70));
			KUNIT_EXPECT_EQ(test, used(store[i]), 8 + NR_BORDER);
		}
	}
	KUNIT_EXPECT_EQ(test, pages_taken(), 0);
	KUNIT_EXPECT_EQ(test, test_freed(), test_awaited());
}

/*
 * Races. Each store has a byte of its own in the upper half of each word; the lower half is
 * the number of the page. So a word of another store, of another page or of freed memory is
 * recognised. Words of the golden store (0) may be anywhere.
 */
#define RACE_MSECS	1500
/* A slow machine races for longer. */
#define MIN_ROUNDS	11
#define NR_RACERS	2

struct share_race {
	struct rxd_store *golden;
	struct rxd_store *clone[NR_RACERS];
	atomic_t next;
	atomic_t writes;
	atomic_t reads;
	atomic_t frees;
	atomic_t clones;
	atomic_t errors;
};

static u64 word_of(unsigned int store, unsigned long pgno)
{
	return (u64)store << 32 | (pgno + 1);
}

static void write_words(struct share_race *race, unsigned int store, unsigned long pgno,
			unsigned int sector)
{
	struct rxd_store *to = store ? race->clone[store - 1] : race->golden;
	u64 buf[64];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(buf); i++)
		buf[i] = word_of(store, pgno);
	if (rxd_store_write(to, pos_of(pgno) + sector * 512, buf, sizeof(buf), RXD_GFP))
		atomic_inc(&race->errors);
}

static unsigned long any_page(void)
{
	return BORDER + get_random_u32_below(NR_BORDER);
}

static int share_writer(void *arg)
{
	struct share_race *race = arg;
	unsigned int me = 1 + atomic_inc_return(&race->next) % NR_RACERS;

	while (!kthread_should_stop()) {
		write_words(race, me, any_page(), get_random_u32_below(8));
		atomic_inc(&race->writes);
		cond_resched();
	}
	return 0;
}

static void check_words(struct share_race *race, struct rxd_store *store, unsigned int nr,
			unsigned long pgno, bool hole_allowed)
{
	unsigned int i;
	u64 buf[64];

	rxd_store_read(store, pos_of(pgno) + get_random_u32_below(8) * 512, buf, sizeof(buf));
	for (i = 0; i < ARRAY_SIZE(buf); i++)
		if (buf[i] != word_of(0, pgno) && buf[i] != word_of(nr, pgno) &&
		    !(hole_allowed && !buf[i]))
			atomic_inc(&race->errors);
}

static int share_reader(void *arg)
{
	struct share_race *race = arg;
	unsigned long at;
	unsigned int nr;

	while (!kthread_should_stop()) {
		check_words(race, race->golden, 0, any_page(), false);
		nr = get_random_u32_below(NR_RACERS);
		check_words(race, race->clone[nr], nr + 1, any_page(), true);
		/* The end of the thread counts as a signal, which ends the walk. */
		at = 0;
		if (rxd_store_count_shared(race->clone[nr], &at, NR_PAGES) > NR_BORDER)
			atomic_inc(&race->errors);
		atomic_inc(&race->reads);
		cond_resched();
	}
	return 0;
}

static int share_freer(void *arg)
{
	struct share_race *race = arg;
	struct rxd_store *store;
	unsigned long first;

	while (!kthread_should_stop()) {
		store = race->clone[get_random_u32_below(NR_RACERS)];
		first = any_page();
		if (!rxd_store_unshare_ends(store, first, 2, RXD_GFP))
			rxd_store_free_range(store, first, 2);
		atomic_inc(&race->frees);
		cond_resched();
	}
	return 0;
}

/* Clones of the golden store come and go while others read it. */
static int share_cloner(void *arg)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	struct share_race *race = arg;
	struct rxd_store *store;
	unsigned int i;
	u64 word = 0;

	while (!kthread_should_stop()) {
		store = rxd_store_create(NR_PAGES, &options);
		if (!store)
			continue;
		rxd_store_share(race->golden, store);
		for (i = 0; i < 4; i++)
			if (rxd_store_write(store, pos_of(any_page()), &word, sizeof(word),
					    RXD_GFP))
				atomic_inc(&race->errors);
		check_words(race, store, 0, BORDER, true);
		rxd_store_destroy(store);
		atomic_inc(&race->clones);
		cond_resched();
	}
	return 0;
}

static void race_of_clones(struct kunit *test)
{
	struct rxd_store *stores[3];
	struct share_race race = {};
	struct crew crew = {};
	unsigned long pgno;
	unsigned int i;

	race.golden = make_store(test, NR_PAGES);
	for (pgno = BORDER; pgno < BORDER + NR_BORDER; pgno++)
		for (i = 0; i < 8; i++)
			write_words(&race, 0, pgno, i);
	for (i = 0; i < NR_RACERS; i++)
		race.clone[i] = share(test, race.golden);

	for (i = 0; i < 2 * NR_RACERS; i++)
		crew_add(test, &crew, share_writer, &race);
	crew_add(test, &crew, share_reader, &race);
	crew_add(test, &crew, share_reader, &race);
	crew_add(test, &crew, share_freer, &race);
	crew_add(test, &crew, share_cloner, &race);
	crew_run(&crew, RACE_MSECS);

	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.reads), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.frees), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.clones), 0);
	KUNIT_EXPECT_EQ(test, used(race.golden), NR_BORDER);
	for (i = 0; i < NR_RACERS; i++)
		KUNIT_EXPECT_EQ(test, used(race.clone[i]), count_pages(race.clone[i]));
	stores[0] = race.clone[0];
	stores[1] = race.golden;
	stores[2] = race.clone[1];
	expect_nothing_left(test, stores, 3);
}

/*
 * Two writers of different halves of the sectors of one clone: nothing that one has written may
 * be lost when the other replaces the shared page. The clone is made again and again, so that
 * each page is shared when the writers meet.
 */
struct half_race {
	struct rxd_store *golden;
	struct rxd_store *clone;
	atomic_t next;
	atomic_t round;
	atomic_t done;
	atomic_t errors;
};

static int half_writer(void *arg)
{
	struct half_race *race = arg;
	unsigned int me = atomic_inc_return(&race->next) & 1, seen = 0, i, pgno;
	u64 out[32], in[32];

	while (!kthread_should_stop()) {
		if (atomic_read(&race->round) == seen) {
			cpu_relax();
			cond_resched();
			continue;
		}
		seen = atomic_read_acquire(&race->round);
		for (pgno = BORDER; pgno < BORDER + NR_BORDER; pgno++) {
			for (i = 0; i < ARRAY_SIZE(out); i++)
				out[i] = (u64)seen << 8 | me;
			if (rxd_store_write(race->clone, pos_of(pgno) + me * 256, out, sizeof(out),
					    RXD_GFP))
				atomic_inc(&race->errors);
		}
		for (pgno = BORDER; pgno < BORDER + NR_BORDER; pgno++) {
			rxd_store_read(race->clone, pos_of(pgno) + me * 256, in, sizeof(in));
			if (memcmp(in, out, sizeof(in)))
				atomic_inc(&race->errors);
		}
		atomic_inc(&race->done);
	}
	return 0;
}

static void race_for_one_page(struct kunit *test)
{
	unsigned long end = jiffies + msecs_to_jiffies(RACE_MSECS);
	struct half_race race = {};
	struct crew crew = {};
	int rounds = 0;

	race.golden = make_golden(test);
	race.clone = share(test, race.golden);
	crew_add(test, &crew, half_writer, &race);
	crew_add(test, &crew, half_writer, &race);
	while (crew.nr == 2 && (time_before(jiffies, end) || rounds < MIN_ROUNDS)) {
		atomic_set_release(&race.round, ++rounds);
		while (atomic_read(&race.done) < 2 * rounds)
			cond_resched();
		rxd_store_clear(race.clone);
		rxd_store_share(race.golden, race.clone);
	}
	crew_run(&crew, 0);

	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_TRUE(test, is_golden(race.golden));
	KUNIT_EXPECT_TRUE(test, is_golden(race.clone));
	expect_nothing_left(test, (struct rxd_store *[]){ race.golden, race.clone }, 2);
}

/*
 * Zero and write different bytes of the same shared pages at the same time. Either of the two may
 * replace the page. The bytes of both must be in the new one.
 */
#define NR_ZERO_RACE	256

static int zero_or_write(void *arg)
{
	struct half_race *race = arg;
	bool zero = atomic_inc_return(&race->next) & 1;
	unsigned int seen = 0, i, pgno;
	u64 buf[32], want;
	int ret;

	while (!kthread_should_stop()) {
		if (atomic_read(&race->round) == seen) {
			cpu_relax();
			cond_resched();
			continue;
		}
		seen = atomic_read_acquire(&race->round);
		want = zero ? 0 : seen;
		for (pgno = 0; pgno < NR_ZERO_RACE; pgno++) {
			for (i = 0; i < ARRAY_SIZE(buf); i++)
				buf[i] = want;
			ret = zero ? zero_range(race->clone, pos_of(pgno) + 256, 256) :
				     rxd_store_write(race->clone, pos_of(pgno), buf, 256, RXD_GFP);
			if (ret)
				atomic_inc(&race->errors);
		}
		for (pgno = 0; pgno < NR_ZERO_RACE; pgno++) {
			rxd_store_read(race->clone, pos_of(pgno) + zero * 256, buf, 256);
			for (i = 0; i < ARRAY_SIZE(buf) && buf[i] == want; i++)
				;
			if (i < ARRAY_SIZE(buf))
				atomic_inc(&race->errors);
		}
		atomic_inc(&race->done);
	}
	return 0;
}

static void race_of_zeroes(struct kunit *test)
{
	unsigned long end = jiffies + msecs_to_jiffies(2 * RACE_MSECS);
	struct half_race race = {};
	struct crew crew = {};
	int rounds = 0;

	race.golden = make_store(test, NR_PAGES);
	fill(test, race.golden, 0, NR_ZERO_RACE, 0x10);
	race.clone = share(test, race.golden);
	crew_add(test, &crew, zero_or_write, &race);
	crew_add(test, &crew, zero_or_write, &race);
	while (crew.nr == 2 && (time_before(jiffies, end) || rounds < MIN_ROUNDS)) {
		atomic_set_release(&race.round, ++rounds);
		while (atomic_read(&race.done) < 2 * rounds)
			cond_resched();
		rxd_store_clear(race.clone);
		rxd_store_share(race.golden, race.clone);
	}
	crew_run(&crew, 0);

	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_TRUE(test, pages_are(race.golden, 0, NR_ZERO_RACE, 0x10));
	expect_nothing_left(test, (struct rxd_store *[]){ race.golden, race.clone }, 2);
}

/* Stores whose writes can be held. */
static atomic64_t held_changes;

static struct rxd_store *arm(struct kunit *test, struct rxd_store *store)
{
	atomic64_set(&held_changes, 0);
	store->hold = rxd_hold_alloc(&held_changes);
	KUNIT_ASSERT_NOT_NULL(test, store->hold);
	return store;
}

static u64 reported(void)
{
	return (u64)atomic64_fetch_or(RXD_CHANGES_REPORTED, &held_changes) >> 1;
}

static void hold_allocation_fails(struct kunit *test)
{
	unsigned int nth;
	struct rxd_hold *hold;
	bool failed;

	for (nth = 1; nth < FAULT_MAX; nth++) {
		fault_begin(nth);
		hold = rxd_hold_alloc(&held_changes);
		failed = fault_end();
		if (!failed)
			break;
		/* The allocator of percpu memory may fail in the background only. */
		rxd_hold_free(hold);
	}
	KUNIT_EXPECT_GT(test, nth, 1);
	KUNIT_ASSERT_NOT_NULL(test, hold);
	rxd_hold_free(hold);
}

static void held_store_is_read_only(struct kunit *test)
{
	struct rxd_store *golden = arm(test, make_golden(test));
	u8 *buf = make_buf(test, 0x33);
	u64 start;

	start = rxd_store_hold(golden);
	KUNIT_EXPECT_TRUE(test, is_golden(golden));
	KUNIT_EXPECT_EQ(test, rxd_store_write(golden, pos_of(5), buf, PAGE_SIZE, RXD_GFP_NOWAIT),
			-ENOSPC);
	KUNIT_EXPECT_EQ(test, rxd_store_write(golden, pos_of(20), buf, PAGE_SIZE, RXD_GFP_NOWAIT),
			-ENOSPC);
	KUNIT_EXPECT_TRUE(test, is_golden(golden));
	KUNIT_EXPECT_GT(test, rxd_store_unhold(golden, start), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_write(golden, pos_of(5), buf, PAGE_SIZE, RXD_GFP_NOWAIT),
			0);
	KUNIT_EXPECT_EQ(test, rxd_store_write(golden, pos_of(20), buf, PAGE_SIZE, RXD_GFP_NOWAIT),
			0);
	KUNIT_EXPECT_TRUE(test, page_is(golden, 5, 0x33));
	KUNIT_EXPECT_TRUE(test, page_is(golden, 20, 0x33));
	expect_nothing_left(test, &golden, 1);
}

struct held_reads {
	struct rxd_store *store;
	atomic_t reads;
	atomic_t errors;
};

static int held_reader(void *arg)
{
	struct held_reads *held = arg;

	while (!kthread_should_stop()) {
		if (!is_golden(held->store))
			atomic_inc(&held->errors);
		atomic_inc(&held->reads);
		cond_resched();
	}
	return 0;
}

/* Return: whether the reader reads the store so many times within a minute. */
static bool is_read(struct held_reads *held, int times)
{
	unsigned long end = jiffies + 60 * HZ;
	int last = atomic_read(&held->reads) + times;

	while (atomic_read(&held->reads) < last && time_before(jiffies, end))
		msleep(20);
	return atomic_read(&held->reads) >= last;
}

/* Others read on while writes are held, before and after the pages are shared. */
static void held_store_is_read_by_others(struct kunit *test)
{
	struct held_reads held = { .store = arm(test, make_golden(test)) };
	struct rxd_store *clone = make_store(test, NR_PAGES);
	struct crew crew = {};
	u64 start;

	crew_add(test, &crew, held_reader, &held);
	start = rxd_store_hold(held.store);
	KUNIT_EXPECT_TRUE(test, is_read(&held, 10));
	rxd_store_share(held.store, clone);
	KUNIT_EXPECT_TRUE(test, is_read(&held, 10));
	rxd_store_unhold(held.store, start);
	crew_run(&crew, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&held.errors), 0);
	KUNIT_EXPECT_TRUE(test, is_golden(clone));
	expect_nothing_left(test, (struct rxd_store *[]){ held.store, clone }, 2);
}

/* The number that is reported while writes are held is that of the data. */
static void held_changes_are_counted(struct kunit *test)
{
	struct rxd_store *golden = arm(test, make_golden(test));
	u64 start, before;

	fill(test, golden, 1, 1, 0x33);
	start = rxd_store_hold(golden);
	before = reported();
	rxd_store_unhold(golden, start);
	KUNIT_EXPECT_EQ(test, reported(), before);
	fill(test, golden, 2, 1, 0x33);
	KUNIT_EXPECT_EQ(test, reported(), before + 1);
	rxd_store_free_range(golden, 1, 1);
	KUNIT_EXPECT_EQ(test, reported(), before + 2);
	KUNIT_EXPECT_EQ(test, zero_range(golden, pos_of(2), 512), 0);
	KUNIT_EXPECT_EQ(test, reported(), before + 3);
	expect_nothing_left(test, &golden, 1);
}

/* Memory that can be had by reclaim only is reclaimed between two steps. */
static void held_store_finds_memory_again(struct kunit *test)
{
	struct rxd_store *golden = arm(test, make_golden(test)), *clone = share(test, golden);
	u8 *buf = make_buf(test, 0x33);

	test_memory.nr_refusals = 1;
	KUNIT_EXPECT_EQ(test, write_page(golden, 5, buf), 0);
	test_memory.nr_refusals = 1;
	KUNIT_EXPECT_EQ(test, write_page(golden, 20, buf), 0);
	test_memory.nr_refusals = 1;
	KUNIT_EXPECT_EQ(test, zero_range(golden, pos_of(6), 512), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_refusals, 0);
	KUNIT_EXPECT_TRUE(test, page_is(golden, 5, 0x33));
	test_memory.pages_left = 0;
	KUNIT_EXPECT_EQ(test, write_page(golden, 7, buf), -ENOSPC);
	test_memory.pages_left = ULONG_MAX;
	KUNIT_EXPECT_TRUE(test, is_golden(clone));
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

/*
 * Each writer writes a number to one leaf and then to another one, and goes on to the next number.
 * In a clone, the second number is never newer than the first. Another task frees pages and fills
 * them again.
 */
struct held_race {
	struct rxd_store *store;
	atomic_t next;
	atomic_t writes;
	atomic_t frees;
	atomic_t errors;
};

static int held_writer(void *arg)
{
	struct held_race *race = arg;
	unsigned long page = atomic_inc_return(&race->next) * 2;
	u64 number = 0;

	while (!kthread_should_stop()) {
		number++;
		if (rxd_store_write(race->store, pos_of(page), &number, 8, RXD_GFP) ||
		    rxd_store_write(race->store, pos_of(2 * PER_LEAF + page), &number, 8, RXD_GFP))
			atomic_inc(&race->errors);
		atomic_inc(&race->writes);
		cond_resched();
	}
	return 0;
}

static int held_freer(void *arg)
{
	struct held_race *race = arg;
	unsigned long first;

	while (!kthread_should_stop()) {
		first = any_page();
		if (get_random_u32_below(2))
			rxd_store_write(race->store, pos_of(first), &first, 8, RXD_GFP);
		else if (!rxd_store_unshare_ends(race->store, first, 2, RXD_GFP))
			rxd_store_free_range(race->store, first, 2);
		atomic_inc(&race->frees);
		cond_resched();
	}
	return 0;
}

static u64 number_at(struct rxd_store *store, unsigned long pgno)
{
	u64 number;

	rxd_store_read(store, pos_of(pgno), &number, 8);
	return number;
}

static void race_of_held_writers(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	unsigned long end = jiffies + msecs_to_jiffies(2 * RACE_MSECS), i;
	struct held_race race = {};
	struct rxd_store *clone;
	struct crew crew = {};
	unsigned int nr = 0;
	u64 start, one, two;

	race.store = arm(test, make_store(test, NR_PAGES));
	crew_add(test, &crew, held_writer, &race);
	crew_add(test, &crew, held_writer, &race);
	crew_add(test, &crew, held_freer, &race);
	while (crew.nr == 3 && (time_before(jiffies, end) || nr < MIN_ROUNDS)) {
		clone = rxd_store_create(NR_PAGES, &options);
		if (!clone)
			continue;
		start = rxd_store_hold(race.store);
		rxd_store_share(race.store, clone);
		rxd_store_unhold(race.store, start);
		if (used(clone) != count_pages(clone))
			atomic_inc(&race.errors);
		for (i = 2; i <= 4; i += 2) {
			one = number_at(clone, i);
			two = number_at(clone, 2 * PER_LEAF + i);
			if (one != two && one != two + 1)
				atomic_inc(&race.errors);
			if (number_at(clone, i) != one)
				atomic_inc(&race.errors);
		}
		rxd_store_destroy(clone);
		nr++;
	}
	crew_run(&crew, 0);

	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 10);
	KUNIT_EXPECT_GT(test, atomic_read(&race.frees), 10);
	KUNIT_EXPECT_EQ(test, used(race.store), count_pages(race.store));
	for (i = 2; i <= 4; i += 2)
		KUNIT_EXPECT_EQ(test, number_at(race.store, i),
				number_at(race.store, 2 * PER_LEAF + i));
	expect_nothing_left(test, &race.store, 1);
}

/* An expendable store, as a disk has it, with a lock that serialises clearing. */
static DEFINE_MUTEX(clear_lock);

static void give_up(struct work_struct *work)
{
	struct rxd_expendable *expendable = container_of(work, struct rxd_expendable, work);

	mutex_lock(&clear_lock);
	rxd_store_clear(expendable->store);
	mutex_unlock(&clear_lock);
	rxd_expendable_gave_up();
}

static struct rxd_expendable *make_expendable(struct kunit *test)
{
	struct rxd_expendable *expendable;

	expendable = kunit_kzalloc(test, sizeof(*expendable), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, expendable);
	rxd_expendable_init(expendable, give_up);
	return expendable;
}

static void page_is_free(struct page *page)
{
	test_memory.pages_left = ULONG_MAX;
}

/* There is no memory but that of the changes of the clone. */
static void expendable_is_given_up(struct kunit *test)
{
	struct rxd_store *golden = arm(test, make_golden(test)), *clone = share(test, golden);
	struct rxd_store *other = share(test, golden), *unrelated = make_golden(test);
	struct rxd_store *third = share(test, unrelated);
	struct rxd_expendable *spare = make_expendable(test), *far = make_expendable(test);
	u8 *buf = make_buf(test, 0x33);

	fill(test, clone, 5, 1, 0x44);
	rxd_expendable_add(spare, clone);
	rxd_expendable_add(far, third);
	rxd_store_drain();

	/* A task that must not wait does not give up anything. */
	test_memory.pages_left = 0;
	test_memory.at_free = page_is_free;
	KUNIT_EXPECT_EQ(test, rxd_store_write(golden, pos_of(6), buf, PAGE_SIZE, RXD_GFP_NOWAIT),
			-ENOSPC);
	KUNIT_EXPECT_FALSE(test, clone->lost);
	KUNIT_EXPECT_EQ(test, write_page(golden, 6, buf), 0);
	KUNIT_EXPECT_TRUE(test, clone->lost);
	KUNIT_EXPECT_EQ(test, used(clone), 0);
	KUNIT_EXPECT_TRUE(test, page_is(golden, 6, 0x33));
	KUNIT_EXPECT_TRUE(test, is_golden(other));

	/* The one that is lost is not given up again, and one that shares nothing is kept. */
	KUNIT_EXPECT_FALSE(test, third->lost);
	KUNIT_EXPECT_TRUE(test, rxd_expendable_keep(far));
	test_memory.at_free = NULL;
	test_memory.pages_left = 0;
	KUNIT_EXPECT_EQ(test, write_page(golden, 7, buf), -ENOSPC);
	KUNIT_EXPECT_EQ(test, write_page(clone, 7, buf), -ENOSPC);
	test_memory.pages_left = ULONG_MAX;
	KUNIT_EXPECT_FALSE(test, rxd_expendable_keep(spare));
	KUNIT_EXPECT_FALSE(test, third->lost);
	KUNIT_EXPECT_TRUE(test, is_golden(third));
	rxd_expendable_remove(spare);
	rxd_expendable_remove(far);
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone, other, unrelated, third },
			    5);
}

static struct rxd_expendable *removed_late;

static void remove_late(void)
{
	test_memory.at_slab = NULL;
	mutex_lock(&clear_lock);
	rxd_store_clear(removed_late->store);
	mutex_unlock(&clear_lock);
	rxd_expendable_remove(removed_late);
}

/* A write sees what was removed after it looked for memory that is being freed. */
static void removal_is_seen_late(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	u8 *buf = make_buf(test, 0x33);

	removed_late = make_expendable(test);
	rxd_expendable_add(removed_late, clone);
	/* Another write has given it up. */
	clone->lost = true;
	rxd_store_drain();
	make_short(golden);
	test_memory.at_slab = remove_late;
	KUNIT_EXPECT_EQ(test, write_page(golden, 5, buf), 0);
	KUNIT_EXPECT_NULL(test, test_memory.at_slab);
	test_memory.is_short = false;
	KUNIT_EXPECT_TRUE(test, page_is(golden, 5, 0x33));
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

static void clear_late(void)
{
	test_memory.at_refusal = NULL;
	mutex_lock(&clear_lock);
	rxd_store_clear(removed_late->store);
	mutex_unlock(&clear_lock);
}

/* A store is cleared between the failure of an allocation and the search for stores to give up. */
static void clear_is_seen_late(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	u8 *buf = make_buf(test, 0x33);

	removed_late = make_expendable(test);
	rxd_expendable_add(removed_late, clone);
	rxd_store_drain();
	test_memory.nr_refusals = 1;
	test_memory.at_refusal = clear_late;
	KUNIT_EXPECT_EQ(test, write_page(golden, 5, buf), 0);
	KUNIT_EXPECT_NULL(test, test_memory.at_refusal);
	KUNIT_EXPECT_TRUE(test, page_is(golden, 5, 0x33));
	rxd_expendable_remove(removed_late);
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

static struct {
	struct rxd_store *store;
	struct rxd_store *clone;
	struct rxd_store *other;
} filled;

static void free_and_limit(void)
{
	test_memory.at_slab = NULL;
	rxd_store_free_range(filled.clone, 5, 1);
	rxd_store_set_limit(filled.clone, 0);
	rxd_store_clear(filled.other);
}

/* The page whose part is to be zeroed is freed while the copy of it waits for memory. */
static void zero_beside_a_discard(struct kunit *test)
{
	struct rxd_write write;
	unsigned long before;

	filled.store = make_golden(test);
	filled.clone = share(test, filled.store);
	fill(test, filled.clone, 0, 1, 0x33);
	filled.other = make_golden(test);
	before = used(filled.clone);
	rxd_store_drain();
	test_memory.at_slab = free_and_limit;
	test_memory.nr_refusals = 1;
	rxd_write_begin(&write, 512, RXD_GFP);
	KUNIT_EXPECT_EQ(test, rxd_store_zero(filled.clone, pos_of(5), 512, &write), 0);
	rxd_write_end(&write);
	KUNIT_EXPECT_NULL(test, test_memory.at_slab);
	KUNIT_EXPECT_TRUE(test, page_is(filled.clone, 5, 0));
	KUNIT_EXPECT_TRUE(test, is_golden(filled.store));
	KUNIT_EXPECT_EQ(test, used(filled.clone), before - 1);
	expect_nothing_left(test,
			    (struct rxd_store *[]){ filled.store, filled.clone, filled.other }, 3);
}

static void write_and_share(void)
{
	const u64 word = 0x2222222222222222;

	test_memory.at_slab = NULL;
	WARN_ON(rxd_store_write(filled.store, 512, &word, sizeof(word), RXD_GFP));
	rxd_store_share(filled.store, filled.clone);
	/* The fill waits for this memory, and tries again. */
	rxd_store_clear(filled.other);
}

/* The hole that a fill has found is filled and shared while the fill waits for memory. */
static void fill_beside_a_clone(struct kunit *test)
{
	u64 word;

	filled.store = make_store(test, NR_PAGES);
	filled.clone = make_store(test, NR_PAGES);
	filled.other = make_golden(test);
	rxd_store_drain();
	test_memory.at_slab = write_and_share;
	test_memory.nr_refusals = 1;
	KUNIT_EXPECT_EQ(test, fill_range(filled.store, 0, 3), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_refusals, 0);
	KUNIT_EXPECT_NULL(test, test_memory.at_slab);
	KUNIT_EXPECT_EQ(test, used(filled.store), 3);
	rxd_store_read(filled.store, 512, &word, sizeof(word));
	KUNIT_EXPECT_EQ(test, word, 0x2222222222222222);
	rxd_store_read(filled.clone, 512, &word, sizeof(word));
	KUNIT_EXPECT_EQ(test, word, 0x2222222222222222);
	expect_nothing_left(test, (struct rxd_store *[]){ filled.store, filled.clone }, 2);
}

/* A write that meets another one between the copy of a leaf and the end of the old one. */
static struct {
	struct kunit *test;
	struct crew crew;
	struct rxd_store *golden;
	struct rxd_store *clone;
	const u8 *buf;
	struct completion ended;
	int ret;
} second;

static int second_writer(void *arg)
{
	second.ret = write_page(second.golden, 6, second.buf);
	complete(&second.ended);
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

/* Return: true once the thread waits for memory; false if it has ended. */
static bool waits_for_memory(void)
{
	while (!test_is_awaited()) {
		if (completion_done(&second.ended))
			return false;
		msleep(20);
	}
	return true;
}

/* No other store has the pages any more, but each of them is in two leaves. */
static void write_during_copy(void)
{
	test_memory.at_unlock = NULL;
	rxd_store_clear(second.clone);
	rxd_store_drain();
	make_short(second.golden);
	crew_add(second.test, &second.crew, second_writer, NULL);
	/* It must not give up, and cannot succeed. */
	KUNIT_EXPECT_TRUE(second.test, waits_for_memory());
}

/* A write waits while another one copies the leaf, because it can replace its page then. */
static void copy_of_leaf_is_awaited(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);

	second = (typeof(second)){ .test = test, .golden = golden, .clone = clone };
	second.buf = make_buf(test, 0x33);
	init_completion(&second.ended);
	test_delay_lifts();
	test_memory.at_unlock = write_during_copy;
	KUNIT_EXPECT_EQ(test, write_page(golden, 5, second.buf), 0);
	KUNIT_EXPECT_NULL(test, test_memory.at_unlock);
	crew_run(&second.crew, 0);
	test_memory.is_short = false;
	KUNIT_EXPECT_EQ(test, second.ret, 0);
	KUNIT_EXPECT_TRUE(test, pages_are(golden, 5, 2, 0x33));
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

static int table_waiter(void *arg)
{
	second.ret = rxd_store_prepare_fill(NULL, 1);
	complete(&second.ended);
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

/* Pages are being freed, and a task that waits for them goes on waiting when leaves are copied. */
static void copy_does_not_end_other_waits(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	struct crew crew = {};

	second = (typeof(second)){};
	init_completion(&second.ended);
	test_delay_lifts();
	make_short(golden);
	/* More than the old leaf, and less than its pages. */
	rxd_note_retired(4);
	crew_add(test, &crew, table_waiter, NULL);
	KUNIT_EXPECT_TRUE(test, waits_for_memory());
	KUNIT_EXPECT_EQ(test, rxd_leaf_unshare(golden, 5, RXD_GFP | RXD_GFP_REPLACE), 0);
	KUNIT_EXPECT_TRUE(test, waits_for_memory());
	/* The clone is the last one with the old leaf, and both go on using the pages. */
	KUNIT_EXPECT_EQ(test, rxd_leaf_unshare(clone, 5, RXD_GFP | RXD_GFP_REPLACE), 0);
	KUNIT_EXPECT_TRUE(test, waits_for_memory());
	WRITE_ONCE(test_memory.is_short, false);
	rxd_note_freed(4);
	crew_run(&crew, 0);
	KUNIT_EXPECT_EQ(test, second.ret, 0);
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

/* Other memory is being freed for longer than a write waits, and may go to others. */
static void others_memory_is_not_relied_on(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	struct rxd_expendable *spare = make_expendable(test);
	u8 *buf = make_buf(test, 0x33);

	rxd_expendable_add(spare, clone);
	rxd_store_drain();
	make_short(golden);
	rxd_note_retired(1);
	KUNIT_EXPECT_EQ(test, write_page(golden, 5, buf), 0);
	KUNIT_EXPECT_TRUE(test, clone->lost);
	rxd_note_freed(1);
	test_memory.is_short = false;
	KUNIT_EXPECT_TRUE(test, page_is(golden, 5, 0x33));
	rxd_expendable_remove(spare);
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

static DECLARE_COMPLETION(may_give_up);

static void give_up_late(struct work_struct *work)
{
	wait_for_completion(&may_give_up);
	give_up(work);
}

/* A store of another family is being given up for longer than a write waits. */
static void other_family_is_not_awaited(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	struct rxd_store *unrelated = make_golden(test), *third = share(test, unrelated);
	struct rxd_expendable *spare = make_expendable(test), *far = make_expendable(test);
	u8 *buf = make_buf(test, 0x33);
	unsigned long start;

	rxd_expendable_init(far, give_up_late);
	rxd_expendable_add(spare, clone);
	rxd_expendable_add(far, third);
	rxd_store_drain();
	reinit_completion(&may_give_up);
	KUNIT_EXPECT_TRUE(test, rxd_give_up_others(unrelated));
	make_short(golden);
	start = jiffies;
	KUNIT_EXPECT_EQ(test, write_page(golden, 5, buf), 0);
	KUNIT_EXPECT_TRUE(test, time_before(jiffies, start + 10 * HZ));
	KUNIT_EXPECT_TRUE(test, rxd_is_giving_up());
	complete(&may_give_up);
	test_memory.is_short = false;
	KUNIT_EXPECT_TRUE(test, page_is(golden, 5, 0x33));
	rxd_expendable_remove(spare);
	rxd_expendable_remove(far);
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone, unrelated, third }, 4);
}

static struct rxd_store *make_reserved(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL, .reserved = true };
	struct rxd_store *store = make_store_of(test, NR_PAGES, &options);

	KUNIT_ASSERT_EQ(test, fill_range(store, 0, NR_PAGES), 0);
	fill(test, store, 0, 8, 0x10);
	fill(test, store, BORDER, NR_BORDER, 0x20);
	return store;
}

static void no_memory(bool none)
{
	test_memory.pages_left = none ? 0 : ULONG_MAX;
	test_memory.no_leaf = none;
}

/* There is no memory, and none comes back: the write goes to the pages themselves. */
static void reserved_is_taken_back(struct kunit *test)
{
	struct rxd_store *reserved = arm(test, make_reserved(test)), *clone, *third;
	struct rxd_expendable *spare = make_expendable(test), *next = make_expendable(test);
	u8 *buf = make_buf(test, 0x33);
	long before = pages_taken();

	/* After a walk of large stores, the next one is far away. */
	test_delay_lifts();
	KUNIT_EXPECT_TRUE(test, rxd_store_must_be_expendable(reserved));
	clone = share(test, reserved);
	third = share(test, clone);
	KUNIT_EXPECT_TRUE(test, rxd_store_must_be_expendable(third));
	rxd_expendable_add(spare, clone);
	rxd_expendable_add(next, third);
	/* While there is memory, the clones stay. */
	fill(test, reserved, 5, 1, 0x44);
	KUNIT_EXPECT_FALSE(test, clone->lost || third->lost);

	no_memory(true);
	KUNIT_EXPECT_EQ(test, rxd_store_write(reserved, 0, buf, PAGE_SIZE, RXD_GFP_NOWAIT),
			-ENOSPC);
	KUNIT_EXPECT_TRUE(test, page_is(reserved, 0, 0x10));
	KUNIT_EXPECT_EQ(test, write_page(reserved, BORDER + 1, buf), 0);
	KUNIT_EXPECT_TRUE(test, clone->lost && third->lost);
	KUNIT_EXPECT_EQ(test, zero_range(reserved, pos_of(BORDER + 2), PAGE_SIZE), 0);
	fill(test, reserved, 0, 4, 0x33);
	no_memory(false);

	KUNIT_EXPECT_TRUE(test, pages_are(reserved, 0, 4, 0x33));
	KUNIT_EXPECT_TRUE(test, pages_are(reserved, 4, 1, 0x10));
	KUNIT_EXPECT_TRUE(test, pages_are(reserved, 5, 1, 0x44));
	KUNIT_EXPECT_TRUE(test, pages_are(reserved, BORDER, 1, 0x20));
	KUNIT_EXPECT_TRUE(test, pages_are(reserved, BORDER + 1, 1, 0x33));
	KUNIT_EXPECT_TRUE(test, pages_are(reserved, BORDER + 2, 1, 0));
	KUNIT_EXPECT_TRUE(test, pages_are(reserved, BORDER + 3, 1, 0x20));
	KUNIT_EXPECT_EQ(test, used(reserved), NR_PAGES);
	/* What was cleared borrows nothing. */
	KUNIT_EXPECT_FALSE(test, rxd_store_must_be_expendable(clone));
	KUNIT_EXPECT_EQ(test, pages_taken(), before);
	rxd_expendable_remove(spare);
	rxd_expendable_remove(next);
	expect_nothing_left(test, (struct rxd_store *[]){ reserved, clone, third }, 3);
}

/* Without an expendable clone, the write fails in the end, rather than waiting for ever. */
static void reserved_does_not_wait_for_ever(struct kunit *test)
{
	struct rxd_store *reserved = make_reserved(test), *clone = share(test, reserved);
	struct rxd_write write;
	u8 *buf = make_buf(test, 0x33);

	no_memory(true);
	rxd_write_begin(&write, PAGE_SIZE, RXD_GFP);
	/* It has waited for nearly all of the time. */
	write.since = jiffies - 69 * HZ;
	KUNIT_EXPECT_EQ(test, rxd_store_write_part(reserved, 0, buf, PAGE_SIZE, &write), -ENOSPC);
	rxd_write_end(&write);
	no_memory(false);
	KUNIT_EXPECT_TRUE(test, page_is(reserved, 0, 0x10));
	KUNIT_EXPECT_TRUE(test, page_is(clone, 0, 0x10));
	expect_nothing_left(test, (struct rxd_store *[]){ reserved, clone }, 2);
}

/* What a replacement of leaves waits counts for the request that it is a step of. */
static void unshare_counts_its_waits(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	struct rxd_write write;

	rxd_write_begin(&write, 0, RXD_GFP);
	write.since = (jiffies - 9 * HZ) ?: 1;
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends_wait(clone, 2, 3, &write), 0);
	rxd_write_end(&write);
	KUNIT_EXPECT_EQ(test, write.since, 0);
	KUNIT_EXPECT_GE(test, write.waited, 9 * HZ);
	KUNIT_EXPECT_LE(test, write.waited, 20 * HZ);
	KUNIT_EXPECT_TRUE(test, is_golden(clone));
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

/* Without a change in the clone, giving it up frees no page, but those written next are freed. */
static void headroom_serves_for_replacements(struct kunit *test)
{
	struct rxd_store *golden = arm(test, make_golden(test)), *clone = share(test, golden);
	struct rxd_store *other = share(test, golden);
	struct rxd_expendable *spare = make_expendable(test);
	u8 *buf = make_buf(test, 0x33);
	unsigned long pgno;
	long before;

	make_short(golden);
	KUNIT_EXPECT_EQ(test, write_page(golden, 5, buf), -ENOSPC);
	rxd_expendable_add(spare, clone);
	/* The other clone keeps the page. */
	KUNIT_EXPECT_EQ(test, write_page(golden, 5, buf), -ENOSPC);
	KUNIT_EXPECT_TRUE(test, clone->lost);
	KUNIT_EXPECT_TRUE(test, is_golden(golden));
	KUNIT_EXPECT_TRUE(test, is_golden(other));

	kunit_release_action(test, destroy_test_store, other);
	before = pages_taken();
	for (pgno = 0; pgno < 8; pgno++)
		KUNIT_EXPECT_EQ(test, write_page(golden, pgno, buf), 0);
	KUNIT_EXPECT_EQ(test, write_page(golden, 8, buf), -ENOSPC);
	test_memory.is_short = false;
	KUNIT_EXPECT_EQ(test, pages_taken(), before);
	KUNIT_EXPECT_TRUE(test, pages_are(golden, 0, 8, 0x33));
	rxd_expendable_remove(spare);
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

/* So many replaced pages may wait to be freed: an eighth of the headroom. */
static unsigned long most_replaced(void)
{
	return clamp(totalram_pages() / 8, SZ_32M >> PAGE_SHIFT, SZ_2G >> PAGE_SHIFT) / 8;
}

/* No page that was replaced is free before the end of the RCU section. */
static void replacements_are_bounded(struct kunit *test)
{
	unsigned long most = most_replaced(), pgno = 0;
	struct rxd_store *golden, *clone;
	u8 *buf = make_buf(test, 0x33);

	/* No pages of earlier cases may be counted. */
	rxd_store_drain();
	test_delay_lifts();
	golden = make_store(test, 2 * most);
	fill(test, golden, 0, 2 * most, 0x10);
	clone = share(test, golden);
	kunit_release_action(test, destroy_test_store, clone);
	make_short(golden);
	rcu_read_lock();
	while (pgno < 2 * most && !rxd_store_write(golden, pos_of(pgno), buf, PAGE_SIZE,
						   RXD_GFP_NOWAIT))
		pgno++;
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, pgno, most);
	for (; pgno < 2 * most; pgno++)
		KUNIT_ASSERT_EQ(test, write_page(golden, pgno, buf), 0);
	test_memory.is_short = false;
	expect_nothing_left(test, &golden, 1);
}

static void free_replaced(struct work_struct *work)
{
	test_note_replaced(-(long)most_replaced());
}

static DECLARE_DELAYED_WORK(free_replaced_work, free_replaced);

/* A write that may sleep waits for pages that were replaced. No write waits for other pages. */
static void replacement_waits_for_others(struct kunit *test)
{
	u8 *buf = make_buf(test, 0x33);
	struct rxd_store *golden;
	long most = most_replaced();
	unsigned long begin;
	int ret;

	rxd_store_drain();
	test_delay_lifts();
	golden = make_golden(test);
	kunit_release_action(test, destroy_test_store, share(test, golden));
	make_short(golden);
	rxd_note_retired(2 * most);
	ret = rxd_store_write(golden, pos_of(0), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
	rxd_note_freed(2 * most);
	KUNIT_EXPECT_EQ(test, ret, 0);

	test_note_replaced(most);
	ret = rxd_store_write(golden, pos_of(1), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	begin = jiffies;
	schedule_delayed_work(&free_replaced_work, HZ / 4);
	KUNIT_EXPECT_EQ(test, write_page(golden, 1, buf), 0);
	KUNIT_EXPECT_GE(test, jiffies - begin, HZ / 4);
	flush_delayed_work(&free_replaced_work);
	test_memory.is_short = false;
	expect_nothing_left(test, &golden, 1);
}

/* Writers of a store that is short of memory, and clones that are given up and removed. */
static int scarce_writer(void *arg)
{
	struct held_race *race = arg;
	unsigned long first;

	while (!kthread_should_stop()) {
		first = any_page();
		if (rxd_store_write(race->store, pos_of(first), &first, 8, RXD_GFP))
			atomic_inc(&race->errors);
		atomic_inc(&race->writes);
		cond_resched();
	}
	return 0;
}

static const bool kinds[] = { false, true };

static void kind_name(const bool *reserved, char *desc)
{
	strscpy(desc, *reserved ? "of reserved memory" : "of a store", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_name);

static void race_of_given_up(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	bool reserved = *(const bool *)test->param_value;
	unsigned long end = jiffies + msecs_to_jiffies(RACE_MSECS), patience;
	unsigned int nr = 0, nr_lost = 0;
	struct rxd_expendable *spare = make_expendable(test);
	struct held_race race = {};
	struct rxd_store *clone;
	struct crew crew = {};
	u64 start;

	race.store = arm(test, reserved ? make_reserved(test) : make_store(test, NR_PAGES));
	fill(test, race.store, BORDER, NR_BORDER, 0x10);
	if (reserved)
		no_memory(true);
	else
		make_short(race.store);
	crew_add(test, &crew, scarce_writer, &race);
	crew_add(test, &crew, scarce_writer, &race);
	while (crew.nr == 2 && (time_before(jiffies, end) || nr < MIN_ROUNDS)) {
		clone = rxd_store_create(NR_PAGES, &options);
		if (!clone)
			continue;
		patience = jiffies + msecs_to_jiffies(RACE_MSECS);
		rxd_expendable_init(spare, give_up);
		rxd_expendable_add(spare, clone);
		start = rxd_store_hold(race.store);
		rxd_store_share(race.store, clone);
		rxd_store_unhold(race.store, start);
		if (nr++ % 4)
			while (!READ_ONCE(clone->lost) && time_before(jiffies, patience))
				cond_resched();
		mutex_lock(&clear_lock);
		rxd_store_clear(clone);
		mutex_unlock(&clear_lock);
		rxd_expendable_remove(spare);
		nr_lost += clone->lost;
		rxd_store_destroy(clone);
	}
	crew_run(&crew, 0);
	test_memory.is_short = false;
	no_memory(false);

	KUNIT_EXPECT_GT(test, nr_lost, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 10);
	KUNIT_EXPECT_EQ(test, used(race.store), reserved ? NR_PAGES : NR_BORDER);
	expect_nothing_left(test, &race.store, 1);
}

static struct kunit_case share_cases[] = {
	KUNIT_CASE(shares_all_and_takes_nothing),
	KUNIT_CASE(share_of_empty),
	KUNIT_CASE(shared_pages_are_counted),
	KUNIT_CASE_PARAM(write_whole_pages, side_gen_params),
	KUNIT_CASE_PARAM(write_sectors, side_gen_params),
	KUNIT_CASE_PARAM(write_long, side_gen_params),
	KUNIT_CASE_PARAM(write_hole_of_shared_leaf, side_gen_params),
	KUNIT_CASE_PARAM(zero_pages, side_gen_params),
	KUNIT_CASE_PARAM(free_part_of_leaf, side_gen_params),
	KUNIT_CASE_PARAM(free_beside_dirty_memory, side_gen_params),
	KUNIT_CASE_PARAM(free_whole_leaf_needs_no_memory, side_gen_params),
	KUNIT_CASE_PARAM(free_hole_needs_no_memory, side_gen_params),
	KUNIT_CASE_PARAM(free_last_page_of_copied_leaf, side_gen_params),
	KUNIT_CASE_PARAM(clear_one, side_gen_params),
	KUNIT_CASE_PARAM(clear_and_share_again, side_gen_params),
	KUNIT_CASE_PARAM(shrink_and_grow_reads_zero, side_gen_params),
	KUNIT_CASE_PARAM(shrink_without_memory, side_gen_params),
	KUNIT_CASE_PARAM(grow_keeps_what_is_shared, side_gen_params),
	KUNIT_CASE_PARAM(limit_counts_no_replacement, side_gen_params),
	KUNIT_CASE_PARAM(write_without_memory_changes_nothing, side_gen_params),
	KUNIT_CASE_PARAM(write_fails_at_each_allocation, side_gen_params),
	KUNIT_CASE(detect_zeroes),
	KUNIT_CASE_PARAM(write_after_the_other_has_gone, side_gen_params),
	KUNIT_CASE(pieces_come_back),
	KUNIT_CASE(page_outlives_readers_of_other_store),
	KUNIT_CASE_PARAM(memory_of_last_owner_is_awaited, last_owner_gen_params),
	KUNIT_CASE_PARAM(family_ends_in_any_order, end_gen_params),
	KUNIT_CASE_SLOW(race_of_clones),
	KUNIT_CASE_SLOW(race_for_one_page),
	KUNIT_CASE_SLOW(race_of_zeroes),
	KUNIT_CASE(hold_allocation_fails),
	KUNIT_CASE(held_store_is_read_only),
	KUNIT_CASE(held_store_is_read_by_others),
	KUNIT_CASE(held_changes_are_counted),
	KUNIT_CASE(held_store_finds_memory_again),
	KUNIT_CASE_SLOW(race_of_held_writers),
	KUNIT_CASE(expendable_is_given_up),
	KUNIT_CASE(removal_is_seen_late),
	KUNIT_CASE(clear_is_seen_late),
	KUNIT_CASE(zero_beside_a_discard),
	KUNIT_CASE(fill_beside_a_clone),
	KUNIT_CASE(copy_of_leaf_is_awaited),
	KUNIT_CASE(copy_does_not_end_other_waits),
	KUNIT_CASE_SLOW(others_memory_is_not_relied_on),
	KUNIT_CASE(other_family_is_not_awaited),
	KUNIT_CASE(reserved_is_taken_back),
	KUNIT_CASE(reserved_does_not_wait_for_ever),
	KUNIT_CASE(unshare_counts_its_waits),
	KUNIT_CASE(headroom_serves_for_replacements),
	KUNIT_CASE(replacements_are_bounded),
	KUNIT_CASE(replacement_waits_for_others),
	KUNIT_CASE_PARAM_ATTR(race_of_given_up, kind_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite share_suite = {
	.name = "rxd_share",
	.suite_init = init_store_suite,
	.suite_exit = exit_store_suite,
	.init = init_test_memory,
	.test_cases = share_cases,
};

kunit_test_suite(share_suite);

MODULE_DESCRIPTION("KUnit tests of RAM disks that share pages");
MODULE_LICENSE("GPL");
