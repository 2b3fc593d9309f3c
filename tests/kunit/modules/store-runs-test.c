// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page store of a RAM disk: runs of pages, larger pieces of memory,
 * filling, and zeros that are not stored.
 */
#include <linux/blk_types.h>
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "store-test.h"

#define PAGES_64K	(SZ_64K / PAGE_SIZE)
#define PAGES_2M	(SZ_2M / PAGE_SIZE)
#define BYTES_LEAF	((u64)PER_LEAF << PAGE_SHIFT)

/* The store of most cases: some whole leaves and a part of another. */
#define NR_PAGES	(2 * PER_LEAF + 5)

static void free_buf(void *buf)
{
	kvfree(buf);
}

static u8 *make_large_buf(struct kunit *test, size_t len)
{
	u8 *buf = kvmalloc(len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_buf, buf), 0);
	return buf;
}

/* Each sector of the disk is filled with its own byte, which is neither 0 nor STALE. */
static u8 byte_at(u64 pos, unsigned int version)
{
	return 1 + ((pos >> SECTOR_SHIFT) + version) % 199;
}

static unsigned int rest_of_sector(u64 pos, unsigned int len)
{
	return min_t(unsigned int, len, SECTOR_SIZE - pos % SECTOR_SIZE);
}

static void make_pattern(u8 *buf, u64 pos, unsigned int len, unsigned int version)
{
	unsigned int part;

	for (; len; buf += part, pos += part, len -= part) {
		part = rest_of_sector(pos, len);
		memset(buf, byte_at(pos, version), part);
	}
}

static bool is_pattern(const u8 *buf, u64 pos, unsigned int len, unsigned int version)
{
	unsigned int part;

	for (; len; buf += part, pos += part, len -= part) {
		part = rest_of_sector(pos, len);
		if (memchr_inv(buf, byte_at(pos, version), part))
			return false;
	}
	return true;
}

static int write_pattern(struct kunit *test, struct rxd_store *store, u64 pos,
			 unsigned int len, unsigned int version)
{
	u8 *buf = make_large_buf(test, len);
	int ret;

	make_pattern(buf, pos, len, version);
	ret = rxd_store_write(store, pos, buf, len, RXD_GFP);
	kunit_release_action(test, free_buf, buf);
	return ret;
}

static bool reads_pattern(struct kunit *test, struct rxd_store *store, u64 pos,
			  unsigned int len, unsigned int version)
{
	u8 *buf = make_large_buf(test, len + 1);
	bool so;

	rxd_store_read(store, pos, buf, len);
	so = is_pattern(buf, pos, len, version);
	kunit_release_action(test, free_buf, buf);
	return so;
}

static bool reads_zero(struct kunit *test, struct rxd_store *store, u64 pos, unsigned int len)
{
	u8 *buf = make_large_buf(test, len + 1);
	bool so;

	rxd_store_read(store, pos, buf, len);
	so = !memchr_inv(buf, 0, len);
	kunit_release_action(test, free_buf, buf);
	return so;
}

static unsigned long pages_of(u64 pos, u64 len)
{
	return DIV_ROUND_UP(pos + len, PAGE_SIZE) - pos / PAGE_SIZE;
}

static void expect_pages(struct kunit *test, struct rxd_store *store, unsigned long nr)
{
	KUNIT_EXPECT_EQ(test, used(store), nr);
	KUNIT_EXPECT_EQ(test, count_pages(store), nr);
}

/* @in_64k and @in_2m: number of pages that the case has allocated in such pieces. */
static void expect_pieces(struct kunit *test, struct rxd_store *store, unsigned long all,
			  unsigned long in_64k, unsigned long in_2m)
{
	expect_pages(test, store, all);
	KUNIT_EXPECT_EQ(test, test_memory.nr_64k, in_64k);
	KUNIT_EXPECT_EQ(test, test_memory.nr_2m, in_2m);
}

static bool pages_are_contiguous(struct rxd_store *store, unsigned long first,
				 unsigned long nr)
{
	struct page *page;
	unsigned long i;
	bool so = true;

	rcu_read_lock();
	page = rxd_store_lookup(store, first);
	for (i = 0; i < nr; i++)
		so &= page && rxd_store_lookup(store, first + i) == page + i;
	rcu_read_unlock();
	return so;
}

/* Spans of bytes, with all sizes of pieces */

struct span {
	u64 pos;
	unsigned int len;
};

static const struct span spans[] = {
	{ 0, 512 },
	{ 0, 2 * PAGE_SIZE },
	{ 512, PAGE_SIZE },
	{ PAGE_SIZE - 512, 1024 },
	{ 3 * PAGE_SIZE + 512, 70 * PAGE_SIZE },
	{ BYTES_LEAF - 512, 1024 },
	{ BYTES_LEAF - 3 * PAGE_SIZE + 512, 6 * PAGE_SIZE },
	{ BYTES_LEAF - PAGE_SIZE, PAGE_SIZE },
	{ BYTES_LEAF, BYTES_LEAF },
	{ 512, 2 * BYTES_LEAF + 1024 },
	{ 2 * BYTES_LEAF + 5 * PAGE_SIZE - 512, 512 },
	{ BYTES_LEAF + 512, BYTES_LEAF + 5 * PAGE_SIZE - 512 },
};

static void span_name(const struct span *span, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u at %llu", span->len, span->pos);
}

KUNIT_ARRAY_PARAM(span, spans, span_name);

static const unsigned int orders[] = { 0, ORDER_64K, ORDER_2M };

static void order_name(const unsigned int *order, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "order %u", *order);
}

KUNIT_ARRAY_PARAM(order, orders, order_name);

static void with_each_order(struct kunit *test,
			    void (*fn)(struct kunit *, struct rxd_store *, const struct span *))
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(orders); i++)
		fn(test, make_large_store(test, NR_PAGES, orders[i]), test->param_value);
}

/* Check the data around a span, in its first and last page and in the pages beside it. */
static void expect_zero_around(struct kunit *test, struct rxd_store *store, u64 pos, u64 len)
{
	u64 before = min_t(u64, pos, 2 * PAGE_SIZE);
	u64 after = min_t(u64, pos_of(rxd_store_nr_pages(store)) - pos - len, 2 * PAGE_SIZE);

	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, pos - before, before));
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, pos + len, after));
}

static void write_span_of(struct kunit *test, struct rxd_store *store,
			  const struct span *r)
{
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, r->pos, r->len, 0), 0);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, r->pos, r->len, 0));
	expect_zero_around(test, store, r->pos, r->len);
	KUNIT_EXPECT_EQ(test, used(store), pages_of(r->pos, r->len));
	KUNIT_EXPECT_EQ(test, count_pages(store), pages_of(r->pos, r->len));
	KUNIT_EXPECT_EQ(test, max_used(store), pages_of(r->pos, r->len));
	KUNIT_EXPECT_EQ(test, first_data(store, 0), r->pos >> PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, first_hole(store, r->pos >> PAGE_SHIFT),
			DIV_ROUND_UP(r->pos + r->len, PAGE_SIZE));
}

static void write_span(struct kunit *test)
{
	with_each_order(test, write_span_of);
}

static void overwrite_span_of(struct kunit *test, struct rxd_store *store,
			      const struct span *r)
{
	u64 end = r->pos + r->len;

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, pos_of(NR_PAGES), 0), 0);
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, r->pos, r->len, 7), 0);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, r->pos, 0));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, r->pos, r->len, 7));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, end, pos_of(NR_PAGES) - end, 0));
	KUNIT_EXPECT_EQ(test, used(store), NR_PAGES);
}

static void overwrite_span(struct kunit *test)
{
	with_each_order(test, overwrite_span_of);
}

/* Every third page exists before the write. */
static void write_span_with_holes_of(struct kunit *test, struct rxd_store *store,
				     const struct span *r)
{
	unsigned long pgno;

	for (pgno = r->pos >> PAGE_SHIFT; pos_of(pgno) < r->pos + r->len; pgno += 3)
		fill(test, store, pgno, 1, 0x77);
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, r->pos, r->len, 0), 0);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, r->pos, r->len, 0));
	KUNIT_EXPECT_EQ(test, used(store), pages_of(r->pos, r->len));
	KUNIT_EXPECT_EQ(test, count_pages(store), pages_of(r->pos, r->len));
}

static void write_span_with_holes(struct kunit *test)
{
	with_each_order(test, write_span_with_holes_of);
}

static void zero_span_of(struct kunit *test, struct rxd_store *store,
			 const struct span *r)
{
	u64 end = r->pos + r->len;

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, pos_of(NR_PAGES), 0), 0);
	zero_range(store, r->pos, r->len);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, r->pos, 0));
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, r->pos, r->len));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, end, pos_of(NR_PAGES) - end, 0));
	KUNIT_EXPECT_EQ(test, used(store), NR_PAGES);

	rxd_store_free_range(store, 0, NR_PAGES);
	zero_range(store, r->pos, r->len);
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void zero_span(struct kunit *test)
{
	with_each_order(test, zero_span_of);
}

/* One read covers pages that exist and holes. */
static void read_over_holes(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, 0);
	unsigned int len = pos_of(NR_PAGES);
	u8 *buf = make_large_buf(test, len);
	unsigned long pgno;

	fill(test, store, 1, 2, 0x11);
	fill(test, store, PER_LEAF - 1, 1, 0x22);
	fill(test, store, 2 * PER_LEAF, 1, 0x33);
	fill(test, store, NR_PAGES - 1, 1, 0x44);
	memset(buf, 0xff, len);
	rxd_store_read(store, 0, buf, len);
	for (pgno = 0; pgno < NR_PAGES; pgno++) {
		u8 byte = pgno == 1 || pgno == 2 ? 0x11 :
			  pgno == PER_LEAF - 1 ? 0x22 :
			  pgno == 2 * PER_LEAF ? 0x33 :
			  pgno == NR_PAGES - 1 ? 0x44 : 0;

		KUNIT_EXPECT_NULL_MSG(test, memchr_inv(buf + pos_of(pgno), byte, PAGE_SIZE),
				      "page %lu", pgno);
	}
}

/* Consecutive copies of any length and alignment, up to the end of the store. */
static void copy_in_parts(struct kunit *test)
{
	static const unsigned int parts[] = {
		1, 63, 64, 512, 2048, 2112, PAGE_SIZE, PAGE_SIZE + 8, 3 * PAGE_SIZE, 100000,
	};
	unsigned int len = pos_of(NR_PAGES), pos, part, offset, i;
	struct rxd_store *store = make_large_store(test, NR_PAGES, 0);
	u8 *buf = make_large_buf(test, len + 16);
	struct rxd_write write;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		offset = i & 1 ? i : 0;
		make_pattern(buf + offset, 0, len, i);
		pos = len - min(len, 300 * parts[i]);
		rxd_write_begin(&write, len - pos, RXD_GFP);
		for (; pos < len; pos += part) {
			part = min(parts[i], len - pos);
			KUNIT_EXPECT_EQ(test, rxd_store_write_part(store, pos, buf + offset + pos,
								   part, &write), 0);
		}
		rxd_write_end(&write);
		memset(buf, 0, len + 16);
		offset = i & 2 ? i & 7 : 0;
		for (pos = len - min(len, 300 * parts[i]); pos < len; pos += part) {
			part = min(parts[i], len - pos);
			rxd_store_read(store, pos, buf + offset + pos, part);
		}
		pos = len - min(len, 300 * parts[i]);
		KUNIT_EXPECT_TRUE_MSG(test, is_pattern(buf + offset + pos, pos, len - pos, i),
				      "in parts of %u", parts[i]);
		KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, pos, len - pos, i));
	}
}

/* Pieces */

static void write_64k(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_64K);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, SZ_64K, SZ_64K, 0), 0);
	expect_pieces(test, store, PAGES_64K, PAGES_64K, 0);
	KUNIT_EXPECT_TRUE(test, pages_are_contiguous(store, PAGES_64K, PAGES_64K));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, SZ_64K, SZ_64K, 0));
}

static void write_2m(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_2M);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, SZ_2M, SZ_2M, 0), 0);
	expect_pieces(test, store, PAGES_2M, PAGES_2M, PAGES_2M);
	KUNIT_EXPECT_TRUE(test, pages_are_contiguous(store, PAGES_2M, PAGES_2M));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, SZ_2M, SZ_2M, 0));
}

/* A piece is no larger than the store asks for, nor than the write. */
static void pieces_are_bounded(struct kunit *test)
{
	struct rxd_store *small = make_large_store(test, NR_PAGES, ORDER_64K);
	struct rxd_store *large = make_large_store(test, NR_PAGES, ORDER_2M);

	KUNIT_ASSERT_EQ(test, write_pattern(test, small, 0, SZ_2M, 0), 0);
	expect_pieces(test, small, PAGES_2M, PAGES_2M, 0);
	KUNIT_ASSERT_EQ(test, write_pattern(test, large, 0, SZ_1M, 0), 0);
	expect_pieces(test, large, PAGES_2M / 2, PAGES_2M + PAGES_2M / 2, 0);
	KUNIT_EXPECT_TRUE(test, pages_are_contiguous(large, 0, PAGES_2M / 2));
}

static void plain_store_has_no_pieces(struct kunit *test)
{
	struct rxd_store *store = make_store(test, NR_PAGES);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, SZ_2M, 0), 0);
	expect_pieces(test, store, PAGES_2M, 0, 0);
	KUNIT_EXPECT_EQ(test, test_memory.gfp, 0);
}

/* Single pages are allocated before the first aligned range, and after the last. */
static void pieces_are_aligned(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_64K);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, PAGE_SIZE, 2 * SZ_64K, 0), 0);
	expect_pieces(test, store, 2 * PAGES_64K, PAGES_64K, 0);
	KUNIT_EXPECT_TRUE(test, pages_are_contiguous(store, PAGES_64K, PAGES_64K));

	/* The hole is long enough, but crosses the border. */
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 4 * SZ_64K + SZ_32K, SZ_64K, 0), 0);
	expect_pieces(test, store, 3 * PAGES_64K, PAGES_64K, 0);
}

static void large_pieces_are_aligned(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_2M);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, SZ_2M - SZ_64K, SZ_2M + SZ_64K, 0), 0);
	expect_pieces(test, store, PAGES_2M + PAGES_64K, PAGES_2M + PAGES_64K, PAGES_2M);
	KUNIT_EXPECT_TRUE(test, pages_are_contiguous(store, PAGES_2M, PAGES_2M));
}

/* A piece is allocated only for a hole of its size. */
static void pieces_go_round_pages(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_64K);

	fill(test, store, 5, 1, 0x11);
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, 2 * SZ_64K, 0), 0);
	expect_pieces(test, store, 2 * PAGES_64K, PAGES_64K, 0);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, 2 * SZ_64K, 0));
}

static void pieces_are_freed_page_by_page(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_2M);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, SZ_2M + SZ_64K, 0), 0);
	expect_pieces(test, store, PAGES_2M + PAGES_64K, PAGES_2M + PAGES_64K, PAGES_2M);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, 7, 1), 1);
	expect_pages(test, store, PAGES_2M + PAGES_64K - 1);
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, pos_of(7), PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, pos_of(8), SZ_1M, 0));

	/* A single page replaces it. */
	fill(test, store, 7, 1, 0x11);
	expect_pieces(test, store, PAGES_2M + PAGES_64K, PAGES_2M + PAGES_64K, PAGES_2M);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, 0, PAGES_2M), PAGES_2M);
	expect_pages(test, store, PAGES_64K);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, PAGES_2M, PAGES_64K), PAGES_64K);
	expect_pages(test, store, 0);
}

static void pieces_are_replaced_page_by_page(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_64K);
	struct page *page = rxd_store_alloc_page(store, 3, RXD_GFP);

	KUNIT_ASSERT_NOT_NULL(test, page);
	clear_page(page_address(page));
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, SZ_64K, 0), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 3, page, RXD_GFP), 0);
	expect_pages(test, store, PAGES_64K);
	KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 4, NULL, RXD_GFP), 0);
	expect_pages(test, store, PAGES_64K - 1);
}

static void shrink_cuts_pieces(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_2M);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, 2 * SZ_2M, 0), 0);
	rxd_store_shrink(store, PAGES_2M + 10);
	expect_pages(test, store, PAGES_2M + 10);
	rxd_store_shrink(store, 1);
	expect_pages(test, store, 1);
}

static void smaller_pieces_do(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_2M);

	test_memory.max_order = ORDER_2M - 1;
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, SZ_2M, 0), 0);
	expect_pieces(test, store, PAGES_2M, PAGES_2M, 0);

	/* From 512 KiB to 64 KiB. */
	test_memory.max_order = ORDER_64K;
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, SZ_2M, SZ_512K, 0), 0);
	expect_pieces(test, store, PAGES_2M + 8 * PAGES_64K, PAGES_2M + 8 * PAGES_64K, 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_bulk, 0);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, SZ_2M + SZ_512K, 0));
}

static void single_pages_do(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_2M);

	test_memory.max_order = 0;
	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, SZ_2M, 0), 0);
	expect_pieces(test, store, PAGES_2M, 0, 0);
	KUNIT_EXPECT_GT(test, test_memory.nr_bulk, 0);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, SZ_2M, 0));
}

static void pieces_are_not_reclaimed_for(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_64K);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, SZ_64K, 0), 0);
	KUNIT_EXPECT_EQ(test, test_memory.gfp & __GFP_RECLAIM, 0);
	KUNIT_EXPECT_NE(test, test_memory.gfp & __GFP_THISNODE, 0);
	KUNIT_EXPECT_NE(test, test_memory.gfp & __GFP_NOWARN, 0);
	KUNIT_EXPECT_NE(test, test_memory.gfp & __GFP_NOMEMALLOC, 0);
}

static void write_pieces_nowait(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, NR_PAGES, ORDER_64K);
	u8 *buf = make_large_buf(test, 3 * SZ_64K);
	int ret;

	make_pattern(buf, PAGE_SIZE, 3 * SZ_64K, 0);
	preempt_disable();
	ret = rxd_store_write(store, PAGE_SIZE, buf, 3 * SZ_64K, RXD_GFP_NOWAIT);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, ret, 0);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, PAGE_SIZE, 3 * SZ_64K, 0));
}

/* Runs of pages for a cache */

static void alloc_run(struct kunit *test)
{
	struct rxd_store *store = make_store(test, NR_PAGES);
	unsigned int nr = 2 * PAGES_64K - 1, i;
	struct page *page;

	/* The run is a power of two of pages, and no longer than requested. */
	page = rxd_store_alloc_run(store, 0, &nr, RXD_GFP);
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_EQ(test, nr, PAGES_64K);
	memset(page_address(page), 0x11, nr << PAGE_SHIFT);
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 2 * i, page + i, RXD_GFP), 0);
	expect_pieces(test, store, PAGES_64K, PAGES_64K, 0);
	for (i = 0; i < nr; i++)
		KUNIT_EXPECT_EQ(test, rxd_store_exchange(store, 2 * i, NULL, RXD_GFP), 0);
	expect_pages(test, store, 0);
}

static void alloc_run_short_of_pieces(struct kunit *test)
{
	struct rxd_store *store = make_store(test, NR_PAGES);
	unsigned int nr = 8 * PAGES_64K, i;
	struct page *page;

	test_memory.max_order = 1;
	page = rxd_store_alloc_run(store, 0, &nr, RXD_GFP);
	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, nr, 2);
	for (i = 0; i < nr; i++)
		rxd_store_free_page(page + i);
}

static void alloc_run_without_memory(struct kunit *test)
{
	struct rxd_store *store = make_store(test, NR_PAGES);
	unsigned int nr = PAGES_2M;

	test_memory.is_short = true;
	KUNIT_EXPECT_NULL(test, rxd_store_alloc_run(store, 0, &nr, RXD_GFP));
	test_memory.is_short = false;
	test_memory.pages_left = 0;
	nr = PAGES_2M;
	KUNIT_EXPECT_NULL(test, rxd_store_alloc_run(store, 0, &nr, RXD_GFP));
}

/* Shortage in the middle of a write */

/* The first @nr pages are written, and nothing after them. */
static void expect_written(struct kunit *test, struct rxd_store *store, unsigned long nr)
{
	unsigned long rest = rxd_store_nr_pages(store) - nr;

	KUNIT_EXPECT_EQ(test, used(store), nr);
	KUNIT_EXPECT_EQ(test, max_used(store), nr);
	KUNIT_EXPECT_EQ(test, count_pages(store), nr);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, pos_of(nr), 0));
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, pos_of(nr), pos_of(rest)));
}

static void limit_within_a_write(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_large_store(test, NR_PAGES, order);
	unsigned long limit;

	for (limit = 1; limit < 2 * PER_LEAF; limit = 3 * limit + 1) {
		rxd_store_set_limit(store, limit);
		KUNIT_EXPECT_EQ(test, write_pattern(test, store, 0, 2 * BYTES_LEAF, 0), -ENOSPC);
		expect_written(test, store, limit);
	}
	rxd_store_set_limit(store, 2 * PER_LEAF);
	KUNIT_EXPECT_EQ(test, write_pattern(test, store, 0, 2 * BYTES_LEAF, 0), 0);
	expect_written(test, store, 2 * PER_LEAF);
}

/* How many pages others add while a leaf is allocated for a large piece. */
#define OTHERS_PAGES	100

static struct rxd_store *shared_limit;

static void write_to_next_leaf(void)
{
	const u64 word = 0x2222222222222222;
	unsigned long i;

	test_memory.at_leaf = NULL;
	for (i = 0; i < OTHERS_PAGES; i++)
		WARN_ON(rxd_store_write(shared_limit, pos_of(PER_LEAF + i), &word, sizeof(word),
					RXD_GFP));
}

/* A write that is far from the limit when it takes memory is near it when the pages enter. */
static void limit_comes_near_in_a_write(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	unsigned long limit = PER_LEAF + OTHERS_PAGES + 8;

	shared_limit = make_large_store(test, NR_PAGES, order);
	rxd_store_set_limit(shared_limit, limit);
	test_memory.at_leaf = write_to_next_leaf;
	KUNIT_EXPECT_EQ(test, write_pattern(test, shared_limit, 0, BYTES_LEAF, 0), 0);
	KUNIT_EXPECT_NULL(test, test_memory.at_leaf);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, shared_limit, 0, BYTES_LEAF, 0));
	expect_pages(test, shared_limit, PER_LEAF + OTHERS_PAGES);
	KUNIT_EXPECT_LE(test, max_used(shared_limit), limit);
}

static void no_page_within_a_write(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_large_store(test, NR_PAGES, order);
	unsigned long nr, written = 0;

	for (nr = 1; written + nr < 2 * PER_LEAF; nr = 3 * nr + 1) {
		test_memory.pages_left = nr;
		written += nr;
		KUNIT_EXPECT_EQ(test, write_pattern(test, store, 0, 2 * BYTES_LEAF, 0), -ENOSPC);
		expect_written(test, store, written);
	}
	test_memory.pages_left = ULONG_MAX;
	KUNIT_EXPECT_EQ(test, write_pattern(test, store, 0, 2 * BYTES_LEAF, 0), 0);
	expect_written(test, store, 2 * PER_LEAF);
}

static void no_leaf_within_a_write(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_large_store(test, NR_PAGES, order);
	u8 *buf = make_large_buf(test, 2 * BYTES_LEAF);

	make_pattern(buf, 0, 2 * BYTES_LEAF, 0);
	KUNIT_ASSERT_EQ(test, rxd_store_write(store, 0, buf, BYTES_LEAF, RXD_GFP), 0);
	test_memory.no_leaf = true;
	KUNIT_EXPECT_EQ(test, rxd_store_write(store, 0, buf, 2 * BYTES_LEAF, RXD_GFP), -ENOSPC);
	expect_written(test, store, PER_LEAF);
}

/* Fail each allocation in turn: the write continues, or ends at the end of a page. */
static void write_fails_at_each_allocation(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	unsigned int len = BYTES_LEAF + 40 * PAGE_SIZE, nth;
	u8 *buf = make_large_buf(test, len);
	struct rxd_store *store;
	int ret, quiet = 0;

	make_pattern(buf, 0, len, 0);
	for (nth = 1; quiet < 3 && nth < 512; nth++) {
		store = make_large_store(test, NR_PAGES, order);
		fault_begin(nth);
		ret = rxd_store_write(store, 0, buf, len, RXD_GFP);
		quiet = fault_end() ? 0 : quiet + 1;
		KUNIT_EXPECT_TRUE(test, !ret || ret == -ENOSPC);
		expect_written(test, store, ret ? used(store) : pages_of(0, len));
		kunit_release_action(test, destroy_test_store, store);
	}
	KUNIT_EXPECT_EQ(test, quiet, 3);
}

static void short_memory_within_a_write(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_large_store(test, NR_PAGES, order);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, SZ_64K, 0), 0);
	test_memory.is_short = true;
	KUNIT_EXPECT_EQ(test, write_pattern(test, store, 0, 2 * BYTES_LEAF, 0), -ENOSPC);
	test_memory.is_short = false;
	expect_written(test, store, used(store));
	/* Each processor checks the free memory, and the write may move to another processor. */
	KUNIT_EXPECT_LT(test, used(store), 2 * PAGES_64K + num_online_cpus() * 64);
}

/* Filling */

static void fill_holes(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_large_store(test, NR_PAGES, order);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, pos_of(5), 3 * PAGE_SIZE, 0), 0);
	KUNIT_ASSERT_EQ(test, fill_range(store, 3, 2 * PER_LEAF), 0);
	KUNIT_EXPECT_EQ(test, used(store), 2 * PER_LEAF);
	KUNIT_EXPECT_EQ(test, first_data(store, 0), 3);
	KUNIT_EXPECT_EQ(test, first_hole(store, 3), 2 * PER_LEAF + 3);
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, pos_of(3), 2 * PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, pos_of(5), 3 * PAGE_SIZE, 0));
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, pos_of(8), pos_of(2 * PER_LEAF - 5)));

	KUNIT_EXPECT_EQ(test, fill_range(store, 0, NR_PAGES), 0);
	KUNIT_EXPECT_EQ(test, fill_range(store, 0, NR_PAGES), 0);
	KUNIT_EXPECT_EQ(test, used(store), NR_PAGES);
	KUNIT_EXPECT_EQ(test, first_hole(store, 0), NR_PAGES);
}

static void fill_with_pieces(struct kunit *test)
{
	struct rxd_store *store = make_large_store(test, 3 * PAGES_2M + 5, ORDER_2M);

	KUNIT_ASSERT_EQ(test, fill_range(store, 0, 3 * PAGES_2M + 5), 0);
	expect_pieces(test, store, 3 * PAGES_2M + 5, 3 * PAGES_2M, 3 * PAGES_2M);
}

static void fill_nothing(struct kunit *test)
{
	struct rxd_store *store = make_store(test, NR_PAGES);

	KUNIT_EXPECT_EQ(test, fill_range(store, 7, 0), 0);
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void fill_up_to_limit(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_large_store(test, NR_PAGES, order);

	rxd_store_set_limit(store, PER_LEAF + 3);
	KUNIT_EXPECT_EQ(test, fill_range(store, 0, NR_PAGES), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), PER_LEAF + 3);
	KUNIT_EXPECT_EQ(test, count_pages(store), PER_LEAF + 3);
	KUNIT_EXPECT_EQ(test, max_used(store), PER_LEAF + 3);
}

static void fill_without_memory(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	struct rxd_store *store = make_large_store(test, NR_PAGES, order);

	test_memory.no_leaf = true;
	KUNIT_EXPECT_EQ(test, fill_range(store, 0, NR_PAGES), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), 0);
	KUNIT_EXPECT_EQ(test, max_used(store), 0);

	test_memory.no_leaf = false;
	test_memory.pages_left = 100;
	KUNIT_EXPECT_EQ(test, fill_range(store, 0, NR_PAGES), -ENOSPC);
	KUNIT_EXPECT_EQ(test, used(store), 100);
	KUNIT_EXPECT_EQ(test, count_pages(store), 100);
	KUNIT_EXPECT_EQ(test, max_used(store), 100);
}

/* Zeros that are not stored */

static struct rxd_store *make_sparing_store(struct kunit *test)
{
	const struct rxd_store_options options = {
		.order = ORDER_64K,
		.node = RXD_NODE_LOCAL,
		.detect_zeroes = true,
	};

	return make_store_of(test, NR_PAGES, &options);
}

static int write_zeroes(struct kunit *test, struct rxd_store *store, u64 pos, unsigned int len)
{
	u8 *buf = make_large_buf(test, len);

	memset(buf, 0, len);
	return rxd_store_write(store, pos, buf, len, RXD_GFP);
}

static void zeroes_take_no_memory(struct kunit *test)
{
	struct rxd_store *store = make_sparing_store(test);

	rxd_store_set_limit(store, 0);
	KUNIT_EXPECT_EQ(test, write_zeroes(test, store, 0, 2 * BYTES_LEAF), 0);
	KUNIT_EXPECT_EQ(test, used(store), 0);
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, 0, 2 * BYTES_LEAF));
}

static void zeroes_free_pages(struct kunit *test)
{
	struct rxd_store *store = make_sparing_store(test);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, 2 * SZ_64K, 0), 0);
	KUNIT_EXPECT_EQ(test, write_zeroes(test, store, pos_of(3) + 512, 4 * PAGE_SIZE), 0);
	/* The pages at both ends are written in part. */
	KUNIT_EXPECT_EQ(test, used(store), 2 * PAGES_64K - 3);
	KUNIT_EXPECT_EQ(test, first_hole(store, 0), 4);
	KUNIT_EXPECT_EQ(test, first_data(store, 4), 7);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, pos_of(3) + 512, 0));
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, pos_of(3) + 512, 4 * PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, pos_of(7) + 512, SZ_64K, 0));
}

static void zeroes_in_part_keep_the_rest(struct kunit *test)
{
	struct rxd_store *store = make_sparing_store(test);

	KUNIT_ASSERT_EQ(test, write_pattern(test, store, 0, PAGE_SIZE, 0), 0);
	KUNIT_EXPECT_EQ(test, write_zeroes(test, store, 512, PAGE_SIZE - 512), 0);
	KUNIT_EXPECT_EQ(test, used(store), 1);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, 512, 0));
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, 512, PAGE_SIZE - 512));
}

static void zeroes_among_data(struct kunit *test)
{
	struct rxd_store *store = make_sparing_store(test);
	u8 *buf = make_large_buf(test, SZ_64K);

	make_pattern(buf, 0, SZ_64K, 0);
	memset(buf + pos_of(2), 0, 3 * PAGE_SIZE);
	/* All bytes but one are zero. */
	memset(buf + pos_of(7), 0, PAGE_SIZE);
	buf[pos_of(8) - 1] = 1;
	KUNIT_ASSERT_EQ(test, rxd_store_write(store, 0, buf, SZ_64K, RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, used(store), PAGES_64K - 3);
	KUNIT_EXPECT_EQ(test, first_hole(store, 0), 2);
	KUNIT_EXPECT_EQ(test, first_data(store, 2), 5);
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, 0, pos_of(2), 0));
	KUNIT_EXPECT_TRUE(test, reads_zero(test, store, pos_of(2), 3 * PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, reads_pattern(test, store, pos_of(5), 2 * PAGE_SIZE, 0));
}

static void zeroes_nowait(struct kunit *test)
{
	struct rxd_store *store = make_sparing_store(test);
	u8 *buf = make_buf(test, 0);
	int ret;

	fill(test, store, 3, 1, 0x11);
	/* DEBUG_ATOMIC_SLEEP complains if this sleeps. */
	preempt_disable();
	ret = rxd_store_write(store, pos_of(3), buf, PAGE_SIZE, RXD_GFP_NOWAIT);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, ret, 0);
	KUNIT_EXPECT_EQ(test, used(store), 0);
}

static void zeroes_are_stored_by_default(struct kunit *test)
{
	struct rxd_store *store = make_store(test, NR_PAGES);

	KUNIT_EXPECT_EQ(test, write_zeroes(test, store, 0, SZ_64K), 0);
	KUNIT_EXPECT_EQ(test, used(store), PAGES_64K);
}

static struct kunit_case runs_cases[] = {
	KUNIT_CASE_PARAM(write_span, span_gen_params),
	KUNIT_CASE_PARAM(overwrite_span, span_gen_params),
	KUNIT_CASE_PARAM(write_span_with_holes, span_gen_params),
	KUNIT_CASE_PARAM(zero_span, span_gen_params),
	KUNIT_CASE(read_over_holes),
	KUNIT_CASE(copy_in_parts),
	KUNIT_CASE(write_64k),
	KUNIT_CASE(write_2m),
	KUNIT_CASE(pieces_are_bounded),
	KUNIT_CASE(plain_store_has_no_pieces),
	KUNIT_CASE(pieces_are_aligned),
	KUNIT_CASE(large_pieces_are_aligned),
	KUNIT_CASE(pieces_go_round_pages),
	KUNIT_CASE(pieces_are_freed_page_by_page),
	KUNIT_CASE(pieces_are_replaced_page_by_page),
	KUNIT_CASE(shrink_cuts_pieces),
	KUNIT_CASE(smaller_pieces_do),
	KUNIT_CASE(single_pages_do),
	KUNIT_CASE(pieces_are_not_reclaimed_for),
	KUNIT_CASE(write_pieces_nowait),
	KUNIT_CASE(alloc_run),
	KUNIT_CASE(alloc_run_short_of_pieces),
	KUNIT_CASE(alloc_run_without_memory),
	KUNIT_CASE_PARAM(limit_within_a_write, order_gen_params),
	KUNIT_CASE_PARAM(limit_comes_near_in_a_write, order_gen_params),
	KUNIT_CASE_PARAM(no_page_within_a_write, order_gen_params),
	KUNIT_CASE_PARAM(no_leaf_within_a_write, order_gen_params),
	KUNIT_CASE_PARAM(write_fails_at_each_allocation, order_gen_params),
	KUNIT_CASE_PARAM(short_memory_within_a_write, order_gen_params),
	KUNIT_CASE_PARAM(fill_holes, order_gen_params),
	KUNIT_CASE(fill_with_pieces),
	KUNIT_CASE(fill_nothing),
	KUNIT_CASE_PARAM(fill_up_to_limit, order_gen_params),
	KUNIT_CASE_PARAM(fill_without_memory, order_gen_params),
	KUNIT_CASE(zeroes_take_no_memory),
	KUNIT_CASE(zeroes_free_pages),
	KUNIT_CASE(zeroes_in_part_keep_the_rest),
	KUNIT_CASE(zeroes_among_data),
	KUNIT_CASE(zeroes_nowait),
	KUNIT_CASE(zeroes_are_stored_by_default),
	{}
};

static struct kunit_suite runs_suite = {
	.name = "rxd_store_runs",
	.suite_init = init_store_suite,
	.suite_exit = exit_store_suite,
	.init = init_test_memory,
	.test_cases = runs_cases,
};

kunit_test_suite(runs_suite);

MODULE_DESCRIPTION("KUnit tests of the page store of RAM disks: many pages at once");
MODULE_LICENSE("GPL");
