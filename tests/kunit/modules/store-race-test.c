// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page store of a RAM disk: several threads at the same time.
 */
#include <linux/blk_types.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/rwsem.h>
#include <linux/slab.h>

#include "crew.h"
#include "store-test.h"

#define RACE_MSECS	1000

/* Minimum number of times that a store grows, however long a grace period takes. */
#define GROWS_MIN	3

/* Races: each word of a page contains the number of the page that it was written to. */

#define RACE_PAGES	8

struct race {
	struct rxd_store *store;
	atomic_t writes;
	atomic_t reads;
	atomic_t frees;
	atomic_t errors;
};

static void race_setup(struct kunit *test, struct race *race, unsigned long nr_pages)
{
	memset(race, 0, sizeof(*race));
	race->store = make_store(test, nr_pages);
}

static int race_writer(void *arg)
{
	struct race *race = arg;
	unsigned long pgno;
	unsigned int i;
	u64 buf[64];

	while (!kthread_should_stop()) {
		pgno = get_random_u32_below(RACE_PAGES);
		for (i = 0; i < ARRAY_SIZE(buf); i++)
			buf[i] = pgno + 1;
		if (rxd_store_write(race->store, pos_of(pgno) + get_random_u32_below(8) * 512,
				    buf, sizeof(buf), RXD_GFP))
			atomic_inc(&race->errors);
		atomic_inc(&race->writes);
		cond_resched();
	}
	return 0;
}

static int race_freer(void *arg)
{
	struct race *race = arg;
	unsigned long first;

	while (!kthread_should_stop()) {
		first = get_random_u32_below(RACE_PAGES);
		rxd_store_free_range(race->store, first, RACE_PAGES - first);
		atomic_inc(&race->frees);
		cond_resched();
	}
	return 0;
}

static int race_reader(void *arg)
{
	struct race *race = arg;
	unsigned long pgno;
	unsigned int i;
	u64 buf[64];

	while (!kthread_should_stop()) {
		pgno = get_random_u32_below(RACE_PAGES);
		rxd_store_read(race->store, pos_of(pgno) + get_random_u32_below(8) * 512,
			       buf, sizeof(buf));
		for (i = 0; i < ARRAY_SIZE(buf); i++)
			if (buf[i] && buf[i] != pgno + 1)
				atomic_inc(&race->errors);
		atomic_inc(&race->reads);
		cond_resched();
	}
	return 0;
}

static void race_write_free_read(struct kunit *test)
{
	struct crew crew = {};
	struct race race;

	race_setup(test, &race, RACE_PAGES);
	crew_add(test, &crew, race_writer, &race);
	crew_add(test, &crew, race_writer, &race);
	crew_add(test, &crew, race_freer, &race);
	crew_add(test, &crew, race_reader, &race);
	crew_run(&crew, RACE_MSECS);

	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.reads), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.frees), 0);
	KUNIT_EXPECT_EQ(test, used(race.store), count_pages(race.store));
	rxd_store_free_range(race.store, 0, RACE_PAGES);
	KUNIT_EXPECT_EQ(test, used(race.store), 0);
}

static int race_exchanger(void *arg)
{
	struct race *race = arg;
	unsigned long pgno;
	struct page *page;
	unsigned int i;
	u64 *data;

	while (!kthread_should_stop()) {
		pgno = get_random_u32_below(RACE_PAGES);
		page = rxd_store_alloc_page(race->store, 0, RXD_GFP);
		if (!page)
			continue;
		data = page_address(page);
		for (i = 0; i < PAGE_SIZE / sizeof(*data); i++)
			data[i] = pgno + 1;
		if (rxd_store_exchange(race->store, pgno, page, RXD_GFP)) {
			rxd_store_free_page(page);
			atomic_inc(&race->errors);
		}
		atomic_inc(&race->writes);
		cond_resched();
	}
	return 0;
}

static void race_exchange_read(struct kunit *test)
{
	struct crew crew = {};
	struct race race;

	race_setup(test, &race, RACE_PAGES);
	crew_add(test, &crew, race_exchanger, &race);
	crew_add(test, &crew, race_reader, &race);
	crew_add(test, &crew, race_reader, &race);
	crew_run(&crew, RACE_MSECS);

	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.reads), 0);
	KUNIT_EXPECT_EQ(test, used(race.store), count_pages(race.store));
}

struct halves {
	struct rxd_store *store;
	unsigned long nr_pages;
	unsigned int offset;
	atomic_t *go;
	atomic_t *errors;
};

/* Two threads write each page at the same time, and neither finds it in the store. */
static int write_half(void *arg)
{
	struct halves *half = arg;
	unsigned long pgno;
	u8 buf[512];

	memset(buf, 0x11, sizeof(buf));
	for (pgno = 0; pgno < half->nr_pages && !kthread_should_stop(); pgno++) {
		atomic_inc(half->go);
		while (atomic_read(half->go) < 2 * (pgno + 1) && !kthread_should_stop())
			cond_resched();
		if (rxd_store_write(half->store, pos_of(pgno) + half->offset, buf, sizeof(buf),
				    RXD_GFP))
			atomic_inc(half->errors);
	}
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

static void race_first_write_loses_nothing(struct kunit *test)
{
	unsigned long nr_pages = 4 * PER_LEAF, pgno, met, lost = 0;
	struct rxd_store *store = make_store(test, nr_pages);
	u8 *buf = make_buf(test, 0);
	atomic_t go = ATOMIC_INIT(0), errors = ATOMIC_INIT(0);
	struct halves low = { store, nr_pages, 0, &go, &errors };
	struct halves high = { store, nr_pages, PAGE_SIZE - 512, &go, &errors };
	struct crew crew = {};

	crew_add(test, &crew, write_half, &low);
	crew_add(test, &crew, write_half, &high);
	crew_run(&crew, RACE_MSECS);

	met = atomic_read(&go) / 2;
	KUNIT_EXPECT_GT(test, met, 1);
	for (pgno = 0; pgno + 1 < met; pgno++) {
		rxd_store_read(store, pos_of(pgno), buf, PAGE_SIZE);
		lost += buf[0] != 0x11 || buf[PAGE_SIZE - 1] != 0x11;
		lost += !!memchr_inv(buf + 512, 0, PAGE_SIZE - 1024);
	}
	KUNIT_EXPECT_EQ(test, lost, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&errors), 0);
	KUNIT_EXPECT_EQ(test, used(store), count_pages(store));
}

#define LIMIT_PAGES	64
#define LIMIT		5

static int limit_writer(void *arg)
{
	struct race *race = arg;
	unsigned long pgno;
	u8 byte = 0;
	int ret;

	while (!kthread_should_stop()) {
		pgno = get_random_u32_below(LIMIT_PAGES);
		ret = rxd_store_write(race->store, pos_of(pgno), &byte, 1, RXD_GFP);
		if (ret && ret != -ENOSPC)
			atomic_inc(&race->errors);
		if (!ret)
			atomic_inc(&race->writes);
		if (!get_random_u32_below(16))
			atomic_add(rxd_store_free_range(race->store, pgno, 1), &race->frees);
		cond_resched();
	}
	return 0;
}

static void race_at_limit(struct kunit *test)
{
	struct crew crew = {};
	struct race race;

	race_setup(test, &race, LIMIT_PAGES);
	rxd_store_set_limit(race.store, LIMIT);
	crew_add(test, &crew, limit_writer, &race);
	crew_add(test, &crew, limit_writer, &race);
	crew_add(test, &crew, limit_writer, &race);
	crew_run(&crew, RACE_MSECS);

	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.frees), 0);
	KUNIT_EXPECT_EQ(test, used(race.store), count_pages(race.store));
	KUNIT_EXPECT_LE(test, used(race.store), LIMIT);
	KUNIT_EXPECT_LE(test, max_used(race.store), LIMIT);
}

/* Read back each write at once. No other thread writes there, and no thread frees the page. */
static int grow_writer(void *arg)
{
	struct race *race = arg;
	unsigned int offset = atomic_inc_return(&race->frees) * 64;
	unsigned long pgno, i = 0;
	u64 pos, out, in;

	while (!kthread_should_stop()) {
		pgno = get_random_long() % rxd_store_nr_pages(race->store);
		pos = pos_of(pgno) + offset;
		out = ++i << 32 | pgno;
		cond_resched();
		if (rxd_store_write(race->store, pos, &out, sizeof(out), RXD_GFP))
			continue;
		rxd_store_read(race->store, pos, &in, sizeof(in));
		if (in != out)
			atomic_inc(&race->errors);
		atomic_inc(&race->writes);
	}
	return 0;
}

static void race_write_grow(struct kunit *test)
{
	unsigned long nr_pages = PER_LEAF, grown = 0;
	unsigned long end = jiffies + msecs_to_jiffies(RACE_MSECS);
	struct crew crew = {};
	struct race race;

	race_setup(test, &race, nr_pages);
	crew_add(test, &crew, grow_writer, &race);
	while (grown < GROWS_MIN || time_before(jiffies, end)) {
		KUNIT_EXPECT_EQ(test, rxd_store_grow(race.store, nr_pages + PER_LEAF), 0);
		nr_pages = rxd_store_nr_pages(race.store);
		grown++;
	}
	crew_run(&crew, 0);

	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_EQ(test, used(race.store), count_pages(race.store));
}

/*
 * Long runs: each word of the disk has a value of its own, or is 0. Reads and writes
 * begin and end anywhere in pages and leaves.
 */

#define RUN_PAGES	(2 * PER_LEAF + 41)
#define RUN_BYTES	((unsigned int)(RUN_PAGES << PAGE_SHIFT))
/* Maximum length of a read or write, except for every eighth write. */
#define RUN_PART	((unsigned int)(40 << PAGE_SHIFT))

struct run_race {
	struct rxd_store *store;
	u64 *image;
	atomic_t writes;
	atomic_t reads;
	atomic_t frees;
	atomic_t fills;
	atomic_t walks;
	atomic_t nospc;
	atomic_t errors;
};

static void free_buf(void *buf)
{
	kvfree(buf);
}

static void *make_large_buf(struct kunit *test, size_t len)
{
	void *buf = kvzalloc(len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_buf, buf), 0);
	return buf;
}

static void run_setup(struct kunit *test, struct run_race *race,
		      const struct rxd_store_options *options)
{
	unsigned int i;

	memset(race, 0, sizeof(*race));
	race->store = make_store_of(test, RUN_PAGES, options);
	race->image = make_large_buf(test, RUN_BYTES);
	for (i = 0; i < RUN_BYTES / sizeof(u64); i++)
		race->image[i] = i + 1;
}

/* Choose a random part of the disk, in whole sectors. */
static unsigned int random_part(unsigned int max, unsigned int *pos)
{
	*pos = round_down(get_random_u32_below(RUN_BYTES), SECTOR_SIZE);
	return min(RUN_BYTES - *pos,
		   round_up(1 + get_random_u32_below(max), (unsigned int)SECTOR_SIZE));
}

/* Copy in two parts, as for a bio with two buffers. */
static int write_in_parts(struct run_race *race, unsigned int pos, unsigned int len)
{
	unsigned int first = round_down(get_random_u32_below(len), SECTOR_SIZE);
	const void *image = race->image;
	struct rxd_write write;
	int ret;

	rxd_write_begin(&write, len, RXD_GFP);
	ret = rxd_store_write_part(race->store, pos, image + pos, first, &write);
	if (!ret)
		ret = rxd_store_write_part(race->store, pos + first, image + pos + first,
					   len - first, &write);
	rxd_write_end(&write);
	return ret;
}

static int run_writer(void *arg)
{
	struct run_race *race = arg;
	unsigned int pos, len;
	int ret;

	while (!kthread_should_stop()) {
		len = random_part(get_random_u32_below(8) ? RUN_PART : RUN_BYTES, &pos);
		ret = write_in_parts(race, pos, len);
		if (ret == -ENOSPC)
			atomic_inc(&race->nospc);
		else if (ret)
			atomic_inc(&race->errors);
		atomic_inc(&race->writes);
		cond_resched();
	}
	return 0;
}

static int run_reader(void *arg)
{
	struct run_race *race = arg;
	unsigned int pos, len, i;
	u64 *buf, *want;

	buf = kvmalloc(RUN_PART + SECTOR_SIZE, GFP_KERNEL);
	while (!kthread_should_stop()) {
		if (!buf) {
			atomic_inc(&race->errors);
			msleep(20);
			continue;
		}
		len = random_part(RUN_PART, &pos);
		want = (void *)race->image + pos;
		rxd_store_read(race->store, pos, buf, len);
		for (i = 0; i < len / sizeof(*buf); i++)
			if (buf[i] && buf[i] != want[i])
				atomic_inc(&race->errors);
		atomic_inc(&race->reads);
		cond_resched();
	}
	kvfree(buf);
	return 0;
}

/* Free much less often than zero and fill, so that the store is about half full. */
static int run_freer(void *arg)
{
	struct run_race *race = arg;
	unsigned int pos, len;
	unsigned long first, nr;

	while (!kthread_should_stop()) {
		len = random_part(get_random_u32_below(8) ? RUN_PART : RUN_BYTES, &pos);
		first = pos >> PAGE_SHIFT;
		nr = DIV_ROUND_UP(pos + len, PAGE_SIZE) - first;
		switch (get_random_u32_below(4)) {
		case 0:
			zero_range(race->store, pos, len);
			break;
		case 1:
			if (!fill_range(race->store, first, nr))
				atomic_inc(&race->fills);
			break;
		default:
			rxd_store_free_range(race->store, first, nr);
			atomic_inc(&race->frees);
			break;
		}
		cond_resched();
	}
	return 0;
}

static int run_walker(void *arg)
{
	struct run_race *race = arg;
	unsigned long first = 0, data, hole;

	while (!kthread_should_stop()) {
		data = first_data(race->store, first);
		hole = first_hole(race->store, data);
		if (data < first || hole < data || hole > RUN_PAGES)
			atomic_inc(&race->errors);
		first = hole < RUN_PAGES ? hole : 0;
		atomic_inc(&race->walks);
		cond_resched();
	}
	return 0;
}

static void run_crew(struct kunit *test, struct run_race *race, unsigned int msecs)
{
	struct crew crew = {};

	crew_add(test, &crew, run_writer, race);
	crew_add(test, &crew, run_writer, race);
	crew_add(test, &crew, run_reader, race);
	crew_add(test, &crew, run_reader, race);
	crew_add(test, &crew, run_freer, race);
	crew_add(test, &crew, run_walker, race);
	crew_run(&crew, msecs);

	KUNIT_EXPECT_EQ(test, atomic_read(&race->errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race->writes), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race->reads), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race->frees), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race->walks), 0);
}

/* The counters match the pages in the store, and are 0 after all pages are freed. */
static void expect_exact(struct kunit *test, struct rxd_store *store)
{
	unsigned long nr_pages = rxd_store_nr_pages(store), nr = count_pages(store);
	struct rxd_store_stats stats;

	rxd_store_get_stats(store, &stats);
	KUNIT_EXPECT_EQ(test, stats.used, nr);
	KUNIT_EXPECT_LE(test, stats.used, stats.max_used);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, 0, nr_pages), nr);
	rxd_store_get_stats(store, &stats);
	KUNIT_EXPECT_EQ(test, stats.used, 0);
	KUNIT_EXPECT_EQ(test, first_data(store, 0), nr_pages);
}

static void expect_no_leaf(struct kunit *test, struct rxd_store *store, unsigned long empty)
{
	struct rxd_store_stats stats;

	rxd_store_shrink(store, 0);
	rxd_store_get_stats(store, &stats);
	KUNIT_EXPECT_EQ(test, stats.index_bytes, empty);
}

static const unsigned int orders[] = { 0, ORDER_64K, ORDER_2M };

static void order_name(const unsigned int *order, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "order %u", *order);
}

KUNIT_ARRAY_PARAM(order, orders, order_name);

static void race_runs(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	const struct rxd_store_options options = { .order = order, .node = RXD_NODE_LOCAL };
	struct rxd_store_stats stats;
	struct run_race race;

	run_setup(test, &race, &options);
	rxd_store_get_stats(race.store, &stats);
	/* Pieces of all sizes, and single pages that replace them. */
	test_memory.fail_one_in = 4;
	run_crew(test, &race, 2 * RACE_MSECS);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.nospc), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.fills), 0);
	expect_exact(test, race.store);
	expect_no_leaf(test, race.store, stats.index_bytes);
}

/* Batches reach the limit in the middle, and compete for the last pages. */
static void race_runs_at_limit(struct kunit *test)
{
	const unsigned int order = *(const unsigned int *)test->param_value;
	const struct rxd_store_options options = { .order = order, .node = RXD_NODE_LOCAL };
	unsigned long limit = PER_LEAF / 2 + 7;
	struct run_race race;

	run_setup(test, &race, &options);
	rxd_store_set_limit(race.store, limit);
	run_crew(test, &race, RACE_MSECS);
	KUNIT_EXPECT_GT(test, atomic_read(&race.nospc), 0);
	KUNIT_EXPECT_LE(test, used(race.store), limit);
	KUNIT_EXPECT_LE(test, max_used(race.store), limit);
	/* No charge is lost: exactly the limit fits. */
	fill_range(race.store, 0, RUN_PAGES);
	KUNIT_EXPECT_EQ(test, used(race.store), limit);
	expect_exact(test, race.store);
}

/* The image has pages of zeros, which are not stored: each word is correct or 0. */
static void race_detect_zeroes(struct kunit *test)
{
	const struct rxd_store_options options = {
		.node = RXD_NODE_LOCAL,
		.detect_zeroes = true,
	};
	struct run_race race;
	unsigned long pgno;

	run_setup(test, &race, &options);
	for (pgno = 0; pgno < RUN_PAGES; pgno += 3)
		memset((void *)race.image + pos_of(pgno), 0, PAGE_SIZE);
	run_crew(test, &race, RACE_MSECS);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.nospc), 0);
	expect_exact(test, race.store);
}

/*
 * Two writers write different halves of every sector-sized slot of the same pages, and
 * no thread frees. The last write must be found, whichever writer added the page.
 */
static int own_words_writer(void *arg)
{
	struct run_race *race = arg;
	unsigned int me = atomic_inc_return(&race->fills) & 1, pos;
	u64 round = 0;

	while (!kthread_should_stop()) {
		u64 out[32], in[32];
		unsigned int i;

		pos = round_down(get_random_u32_below(RUN_BYTES), SECTOR_SIZE) + me * 256;
		for (i = 0; i < ARRAY_SIZE(out); i++)
			out[i] = ++round << 1 | me;
		if (rxd_store_write(race->store, pos, out, sizeof(out), RXD_GFP))
			atomic_inc(&race->nospc);
		rxd_store_read(race->store, pos, in, sizeof(in));
		if (memcmp(in, out, sizeof(in)))
			atomic_inc(&race->errors);
		atomic_inc(&race->writes);
		cond_resched();
	}
	return 0;
}

static void race_own_words(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	struct run_race race;
	struct crew crew = {};

	run_setup(test, &race, &options);
	crew_add(test, &crew, own_words_writer, &race);
	crew_add(test, &crew, own_words_writer, &race);
	crew_run(&crew, RACE_MSECS);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.nospc), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 0);
	expect_exact(test, race.store);
}

/*
 * In each round, all writers write to all pages, each to a sector of its own, and the limit is what
 * these pages need. So nobody finds no room, whoever adds the pages.
 */
#define LAST_PAGES	3
#define LAST_WRITERS	3
#define LAST_ROUNDS	100
#define LAST_ROUNDS_MIN	3

struct last_race {
	struct rxd_store *store;
	atomic_t writers;
	atomic_t arrived;
	atomic_t nospc;
	unsigned int round;
};

static int last_pages_writer(void *arg)
{
	struct last_race *race = arg;
	unsigned int me = atomic_inc_return(&race->writers), round, i;
	u64 out[64];

	while (!kthread_should_stop()) {
		/* Pairs with the release by the test. */
		round = smp_load_acquire(&race->round);
		for (i = 0; i < ARRAY_SIZE(out); i++)
			out[i] = (u64)round << 8 | me;
		for (i = 0; i < LAST_PAGES; i++) {
			/* Two begin with the same page. */
			if (rxd_store_write(race->store, pos_of((i + me / 2) % LAST_PAGES) +
					    me * sizeof(out), out, sizeof(out), RXD_GFP))
				atomic_inc(&race->nospc);
		}
		/* Pairs with the acquire by the test. */
		atomic_inc_return_release(&race->arrived);
		while (!kthread_should_stop() && READ_ONCE(race->round) == round)
			usleep_range(20, 50);
	}
	return 0;
}

static void let_others_write(void)
{
	usleep_range(50, 100);
}

static void race_for_the_last_pages(struct kunit *test)
{
	unsigned long end = jiffies + 60 * HZ;
	struct last_race race = {};
	struct crew crew = {};
	unsigned int i, me;
	u64 word;

	race.store = make_store(test, LAST_PAGES);
	rxd_store_set_limit(race.store, LAST_PAGES);
	test_memory.at_leaf = let_others_write;
	for (i = 0; i < LAST_WRITERS; i++)
		crew_add(test, &crew, last_pages_writer, &race);
	while (race.round < LAST_ROUNDS && time_before(jiffies, end)) {
		if (atomic_read_acquire(&race.arrived) < LAST_WRITERS) {
			usleep_range(20, 50);
			continue;
		}
		for (i = 0; i < LAST_PAGES; i++) {
			for (me = 1; me <= LAST_WRITERS; me++) {
				rxd_store_read(race.store, pos_of(i) + me * 512, &word, 8);
				KUNIT_EXPECT_EQ(test, word, (u64)race.round << 8 | me);
			}
		}
		KUNIT_EXPECT_EQ(test, used(race.store), LAST_PAGES);
		KUNIT_EXPECT_EQ(test, rxd_store_free_range(race.store, 0, LAST_PAGES), LAST_PAGES);
		atomic_set(&race.arrived, 0);
		/* Pairs with the acquire by the writers. */
		smp_store_release(&race.round, race.round + 1);
	}
	crew_run(&crew, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.nospc), 0);
	KUNIT_EXPECT_GE(test, race.round, LAST_ROUNDS_MIN);
	KUNIT_EXPECT_EQ(test, max_used(race.store), LAST_PAGES);
}

/*
 * The directory is so long that it is copied in parts. Meanwhile, leaves are added
 * both before and after the position of the copy.
 */
#define LONG_LEAVES	10000UL
#define LONG_LIMIT	6000UL

static void race_write_grow_long(struct kunit *test)
{
	unsigned long nr_pages = LONG_LEAVES * PER_LEAF, grown = 0, empty, data, nr = 0;
	unsigned long end = jiffies + msecs_to_jiffies(2 * RACE_MSECS);
	struct rxd_store_stats stats;
	struct crew crew = {};
	struct race race;

	race_setup(test, &race, nr_pages);
	rxd_store_set_limit(race.store, LONG_LIMIT);
	rxd_store_get_stats(race.store, &stats);
	empty = stats.index_bytes;
	crew_add(test, &crew, grow_writer, &race);
	crew_add(test, &crew, grow_writer, &race);
	while (grown < GROWS_MIN || time_before(jiffies, end)) {
		nr_pages += PER_LEAF;
		KUNIT_EXPECT_EQ(test, rxd_store_grow(race.store, nr_pages), 0);
		grown++;
	}
	crew_run(&crew, 0);

	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	for (data = first_data(race.store, 0); data < nr_pages;
	     data = first_data(race.store, data + 1))
		nr++;
	KUNIT_EXPECT_EQ(test, used(race.store), nr);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(race.store, 0, nr_pages), nr);
	KUNIT_EXPECT_EQ(test, used(race.store), 0);
	/* If the copy lost a leaf, it would never be freed, and still be counted. */
	expect_no_leaf(test, race.store, empty + grown * sizeof(void *));
}

/*
 * Leaves are added and freed all the time: each thread has its own pages in all leaves,
 * and frees the pages that it wrote. When other threads add and free leaves, no page may
 * get lost or reappear.
 */
#define COMING_LEAVES	6UL
#define COMING_PAGES	(COMING_LEAVES * PER_LEAF)

struct coming {
	struct rxd_store *store;
	struct rw_semaphore resize;
	atomic_t threads;
	atomic_t writes;
	atomic_t shortages;
	atomic_t errors;
};

/* Return: 0, or an error that leaves the page as it was. */
static int bring_page(struct coming *c, unsigned long pgno, u64 word, bool exchange)
{
	struct page *page;
	unsigned int i;
	int ret;

	if (!exchange)
		return rxd_store_write(c->store, pos_of(pgno) + 512, &word, sizeof(word),
				       RXD_GFP);
	page = rxd_store_alloc_page(c->store, pgno, RXD_GFP);
	if (!page)
		return -ENOMEM;
	for (i = 0; i < PAGE_SIZE / sizeof(word); i++)
		((u64 *)page_address(page))[i] = i == 512 / sizeof(word) ? word : 0;
	local_irq_disable();
	ret = rxd_store_exchange(c->store, pgno, page, RXD_GFP_NOWAIT);
	local_irq_enable();
	if (ret)
		rxd_store_free_page(page);
	return ret;
}

static void expect_word(struct coming *c, unsigned long pgno, u64 want)
{
	u64 word = ~0ULL;

	rxd_store_read(c->store, pos_of(pgno) + 512, &word, sizeof(word));
	if (word != want)
		atomic_inc(&c->errors);
}

static void take_page(struct coming *c, unsigned long pgno, bool exchange)
{
	if (exchange)
		rxd_store_exchange(c->store, pgno, NULL, RXD_GFP_NOWAIT);
	else if (rxd_store_free_range(c->store, pgno, 1) != 1)
		atomic_inc(&c->errors);
}

static int coming_thread(void *arg)
{
	struct coming *c = arg;
	unsigned int me = atomic_inc_return(&c->threads);
	unsigned long pgno, leaf;
	u64 word = 0;
	bool how;

	while (!kthread_should_stop()) {
		down_read(&c->resize);
		leaf = get_random_u32_below(rxd_store_nr_pages(c->store) / PER_LEAF);
		pgno = leaf * PER_LEAF + me;
		how = get_random_u32_below(2);
		word += 8;
		if (bring_page(c, pgno, word + me, how)) {
			atomic_inc(&c->shortages);
			if (page_is_there(c->store, pgno))
				atomic_inc(&c->errors);
		} else {
			expect_word(c, pgno, word + me);
			if (get_random_u32_below(2)) {
				if (bring_page(c, pgno, word + me + 4, !how))
					atomic_inc(&c->errors);
				expect_word(c, pgno, word + me + 4);
			}
			take_page(c, pgno, get_random_u32_below(2));
			expect_word(c, pgno, 0);
			atomic_inc(&c->writes);
		}
		up_read(&c->resize);
		cond_resched();
	}
	return 0;
}

/* Shrink and grow the store again, or clear it: pages are dropped. */
static void resize_and_clear(struct kunit *test, struct coming *c, unsigned int round)
{
	unsigned long nr_pages;

	if (round % 4 == 3) {
		/* I/O continues. */
		nr_pages = rxd_store_nr_pages(c->store);
		KUNIT_EXPECT_EQ(test, rxd_store_grow(c->store, nr_pages + PER_LEAF), 0);
		rxd_store_trim(c->store);
		return;
	}
	down_write(&c->resize);
	KUNIT_EXPECT_EQ(test, used(c->store), 0);
	fill(test, c->store, PER_LEAF - 2, 4, 0x11);
	if (round % 4 == 0) {
		rxd_store_clear(c->store);
		KUNIT_EXPECT_EQ(test, used(c->store), 0);
	} else {
		rxd_store_shrink(c->store, PER_LEAF - 1);
		KUNIT_EXPECT_EQ(test, used(c->store), 1);
		rxd_store_free_range(c->store, 0, PER_LEAF - 1);
		if (round % 4 == 1)
			rxd_store_trim(c->store);
		KUNIT_EXPECT_EQ(test, rxd_store_grow(c->store, COMING_PAGES), 0);
	}
	KUNIT_EXPECT_EQ(test, first_data(c->store, 0), rxd_store_nr_pages(c->store));
	up_write(&c->resize);
}

static int coming_walker(void *arg)
{
	struct coming *c = arg;
	unsigned long data;

	while (!kthread_should_stop()) {
		data = first_data(c->store, 0);
		first_hole(c->store, data);
		cond_resched();
	}
	return 0;
}

static void race_leaves(struct kunit *test)
{
	unsigned long end = jiffies + msecs_to_jiffies(3 * RACE_MSECS);
	struct rxd_store_stats stats;
	unsigned int i, round = 0;
	struct crew crew = {};
	struct coming c = {};

	c.store = make_store(test, COMING_PAGES);
	init_rwsem(&c.resize);
	for (i = 0; i < 4; i++)
		crew_add(test, &crew, coming_thread, &c);
	crew_add(test, &crew, coming_walker, &c);
	while (round < 8 || time_before(jiffies, end)) {
		test_memory.fail_leaf_one_in = 0;
		resize_and_clear(test, &c, round++);
		test_memory.fail_leaf_one_in = round % 3 ? 0 : 4;
		msleep(20);
	}
	crew_run(&crew, 0);

	KUNIT_EXPECT_EQ(test, atomic_read(&c.errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&c.writes), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&c.shortages), 0);
	rxd_store_get_stats(c.store, &stats);
	KUNIT_EXPECT_EQ(test, stats.used, 0);
	/* Each leaf was freed with its last page. */
	KUNIT_EXPECT_LT(test, stats.index_bytes, PAGE_SIZE);
}

/* No more pages may be counted as queued for freeing than are freed. */
static void race_awaited_comes(struct kunit *test)
{
	struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	unsigned int round, leaf;
	struct rxd_store *store;
	unsigned long over = 0;
	long total;

	for (round = 0; round < 20; round++) {
		store = rxd_store_create(64 * PER_LEAF, &options);
		KUNIT_ASSERT_NOT_NULL(test, store);
		for (leaf = 0; leaf < 64; leaf++)
			fill(test, store, leaf * PER_LEAF, 1, 0x11);
		rxd_store_destroy(store);
		total = test_awaited();
		while (test_freed() < total) {
			over += test_awaited() > total;
			cond_resched();
		}
		rxd_store_drain();
		KUNIT_EXPECT_EQ(test, test_freed(), test_awaited());
	}
	KUNIT_EXPECT_EQ(test, over, 0);
}

static struct kunit_case race_cases[] = {
	KUNIT_CASE_SLOW(race_awaited_comes),
	KUNIT_CASE_SLOW(race_write_free_read),
	KUNIT_CASE_SLOW(race_exchange_read),
	KUNIT_CASE_SLOW(race_first_write_loses_nothing),
	KUNIT_CASE_SLOW(race_at_limit),
	KUNIT_CASE_SLOW(race_write_grow),
	KUNIT_CASE_SLOW(race_write_grow_long),
	KUNIT_CASE_SLOW(race_leaves),
	KUNIT_CASE_PARAM_ATTR(race_runs, order_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(race_runs_at_limit, order_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_SLOW(race_detect_zeroes),
	KUNIT_CASE_SLOW(race_own_words),
	KUNIT_CASE_SLOW(race_for_the_last_pages),
	{}
};

static struct kunit_suite race_suite = {
	.name = "rxd_store_race",
	.suite_init = init_store_suite,
	.suite_exit = exit_store_suite,
	.init = init_test_memory,
	.test_cases = race_cases,
};

kunit_test_suite(race_suite);

MODULE_DESCRIPTION("KUnit tests of the page store of RAM disks: many at work at once");
MODULE_LICENSE("GPL");
