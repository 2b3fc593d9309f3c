// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page store of a RAM disk: what is not shared any more is changed in place.
 */
#include <linux/blk_types.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rwsem.h>
#include <linux/slab.h>

#include "crew.h"
#include "../module/store-internal.h"
#include "share-test.h"

/* The pages of make_golden(). */
#define NR_GOLDEN	(8 + NR_BORDER)

static unsigned long golden_page(unsigned int i)
{
	return i < 8 ? i : BORDER + i - 8;
}

static struct page *page_at(struct rxd_store *store, unsigned long pgno)
{
	struct page *page;

	rcu_read_lock();
	page = rxd_store_lookup(store, pgno);
	rcu_read_unlock();
	return page;
}

/* Is a page overwritten in place, without any allocation? */
static bool is_in_place(struct rxd_store *store, unsigned long pgno, u8 byte)
{
	struct page *page = page_at(store, pgno);
	long before = atomic_long_read(&test_pages);
	bool failed, zeroed;
	u8 data[64];
	int ret;

	memset(data, byte, sizeof(data));
	fault_begin(1);
	ret = rxd_store_write(store, pos_of(pgno) + 512, data, sizeof(data), RXD_GFP_NOWAIT);
	failed = fault_end();
	if (ret || failed)
		return false;
	fault_begin(1);
	zeroed = !zero_range(store, pos_of(pgno) + 1024, 64);
	failed = fault_end();
	return zeroed && !failed && page_at(store, pgno) == page &&
	       atomic_long_read(&test_pages) == before;
}

static void expect_in_place(struct kunit *test, struct rxd_store *store)
{
	unsigned int i;

	/* No page that is being freed may change the count meanwhile. */
	rxd_store_drain();
	for (i = 0; i < NR_GOLDEN; i++)
		KUNIT_EXPECT_TRUE_MSG(test, is_in_place(store, golden_page(i), 0x99), "page %lu",
				      golden_page(i));
}

/* How the other owner of the pages goes. */
enum end { DESTROYED, CLEARED, WROTE_ALL, DISCARDED, SHRUNK, RESET };

static const enum end ends[] = { DESTROYED, CLEARED, WROTE_ALL, DISCARDED, SHRUNK, RESET };

static void end_name(const enum end *end, char *desc)
{
	static const char * const names[] = {
		"destroyed", "cleared", "wrote all", "discarded", "shrunk", "reset",
	};

	strscpy(desc, names[*end], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(end, ends, end_name);

static void leave(struct kunit *test, struct rxd_store *store, enum end end)
{
	struct rxd_store *empty;

	switch (end) {
	case DESTROYED:
		kunit_release_action(test, destroy_test_store, store);
		break;
	case CLEARED:
		rxd_store_clear(store);
		break;
	case WROTE_ALL:
		fill(test, store, 0, 8, 0x77);
		fill(test, store, BORDER, NR_BORDER, 0x77);
		break;
	case DISCARDED:
		KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(store, 0, 8, RXD_GFP), 0);
		rxd_store_free_range(store, 0, 8);
		KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(store, BORDER, NR_BORDER, RXD_GFP),
				0);
		rxd_store_free_range(store, BORDER, NR_BORDER);
		break;
	case SHRUNK:
		KUNIT_EXPECT_EQ(test, rxd_store_prepare_shrink(store, 0), 0);
		rxd_store_shrink(store, 0);
		break;
	case RESET:
		empty = make_store(test, NR_PAGES);
		rxd_store_clear(store);
		rxd_store_share(empty, store);
		break;
	}
	rxd_store_drain();
}

static void check_in_place(struct kunit *test, enum end end, bool source_goes, bool wrote_before)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	struct rxd_store *stays = source_goes ? clone : golden;
	struct rxd_store *goes = source_goes ? golden : clone;

	if (wrote_before) {
		fill(test, stays, 3, 1, 0x31);
		fill(test, goes, BORDER + 6, 1, 0x32);
	}
	KUNIT_EXPECT_FALSE(test, is_in_place(stays, 0, 0x10));
	leave(test, goes, end);
	test_lift();
	KUNIT_EXPECT_TRUE(test, pages_are(stays, 4, 4, 0x10));
	KUNIT_EXPECT_TRUE(test, pages_are(stays, BORDER, NR_BORDER, 0x20));
	expect_in_place(test, stays);
	KUNIT_EXPECT_EQ(test, used(stays), NR_GOLDEN);
	/* Both can be shared again. */
	fill(test, stays, 0, 8, 0x10);
	fill(test, stays, BORDER, NR_BORDER, 0x20);
	KUNIT_EXPECT_TRUE(test, is_golden(share(test, stays)));
	KUNIT_EXPECT_FALSE(test, is_in_place(stays, 0, 0x10));
}

static void in_place_when_the_other_has_left(struct kunit *test)
{
	enum end end = *(const enum end *)test->param_value;

	check_in_place(test, end, false, false);
	check_in_place(test, end, false, true);
	check_in_place(test, end, true, false);
	check_in_place(test, end, true, true);
}

static void lifts_by_itself(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	unsigned long end = jiffies + 20 * HZ;

	kunit_release_action(test, destroy_test_store, clone);
	KUNIT_EXPECT_TRUE(test, test_lift_is_queued());
	while (test_lift_is_queued() && time_before(jiffies, end))
		msleep(20);
	/* It may be running. */
	test_lift();
	expect_in_place(test, golden);
	KUNIT_EXPECT_FALSE(test, test_lift_is_queued());
}

/* A leaf has one owner, but its pages are in copies of the leaf, too, or the other way round. */
static void only_what_nobody_else_has(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden), *third;

	/* The clone copies the first leaf. Only the golden store owns the old one. */
	fill(test, clone, 0, 1, 0x33);
	test_lift();
	KUNIT_EXPECT_TRUE(test, is_in_place(golden, 0, 0x10));
	KUNIT_EXPECT_FALSE(test, is_in_place(golden, 1, 0x99));
	KUNIT_EXPECT_FALSE(test, is_in_place(golden, BORDER + 7, 0x99));
	KUNIT_EXPECT_TRUE(test, pages_are(clone, 1, 7, 0x10));
	KUNIT_EXPECT_TRUE(test, pages_are(clone, BORDER, NR_BORDER, 0x20));

	third = share(test, clone);
	kunit_release_action(test, destroy_test_store, golden);
	test_lift();
	KUNIT_EXPECT_FALSE(test, is_in_place(clone, 0, 0x99));
	KUNIT_EXPECT_FALSE(test, is_in_place(clone, 5, 0x99));
	KUNIT_EXPECT_TRUE(test, pages_are(third, 0, 1, 0x33));
	KUNIT_EXPECT_TRUE(test, pages_are(third, 1, 7, 0x10));
	KUNIT_EXPECT_TRUE(test, pages_are(third, BORDER, NR_BORDER, 0x20));
	kunit_release_action(test, destroy_test_store, clone);
	test_lift();
	expect_in_place(test, third);
	expect_nothing_left(test, &third, 1);
}

/* What happens between the passes. */
static struct {
	struct kunit *test;
	struct rxd_store *golden;
	struct rxd_store *clone;
	u8 data[64];
} between;

/* The first pass has found that the golden store is the only owner of its leaves. */
static void begin_between(struct kunit *test, void (*at_grace)(void), bool own_leaves)
{
	struct rxd_store *clone;

	memset(&between, 0, sizeof(between));
	between.test = test;
	between.golden = make_golden(test);
	clone = share(test, between.golden);
	if (own_leaves) {
		fill(test, between.golden, 0, 1, 0x10);
		fill(test, between.golden, BORDER + 7, 1, 0x20);
	}
	kunit_release_action(test, destroy_test_store, clone);
	test_memory.at_grace = at_grace;
	test_lift();
	test_memory.at_grace = NULL;
}

static void end_between(struct kunit *test)
{
	struct rxd_store *golden = between.golden, *clone = between.clone;

	/* Whatever is lifted next, no store may see a write to the other. */
	fill(test, golden, 5, 1, 0x55);
	if (clone) {
		KUNIT_EXPECT_TRUE(test, page_is(clone, 5, 0x10));
		fill(test, clone, 6, 1, 0x66);
		KUNIT_EXPECT_TRUE(test, page_is(golden, 6, 0x10));
	}
	test_lift();
	fill(test, golden, BORDER, NR_BORDER, 0x57);
	if (clone) {
		KUNIT_EXPECT_TRUE(test, pages_are(clone, BORDER, NR_BORDER, 0x20));
		kunit_release_action(test, destroy_test_store, clone);
	}
	test_lift();
	expect_in_place(test, golden);
	expect_nothing_left(test, &golden, 1);
}

static void at_grace_clone(void)
{
	if (!between.clone)
		between.clone = share(between.test, between.golden);
}

static void at_grace_clone_that_writes(void)
{
	at_grace_clone();
	fill(between.test, between.clone, 1, 1, 0x33);
	fill(between.test, between.clone, BORDER + 7, 1, 0x20);
}

static void at_grace_write(void)
{
	fill(between.test, between.golden, 5, 1, 0x10);
	fill(between.test, between.golden, 9, 1, 0x10);
}

static void at_grace_discard(void)
{
	struct rxd_store *golden = between.golden;

	if (!rxd_store_unshare_ends(golden, 5, 2, RXD_GFP))
		KUNIT_EXPECT_EQ(between.test, rxd_store_free_range(golden, 5, 2), 2);
	fill(between.test, golden, 5, 2, 0x10);
}

static void at_grace_clear(void)
{
	rxd_store_clear(between.golden);
	fill(between.test, between.golden, 0, 8, 0x10);
	fill(between.test, between.golden, BORDER, NR_BORDER, 0x20);
}

static void at_grace_grow(void)
{
	struct rxd_store *golden = between.golden;

	KUNIT_EXPECT_EQ(between.test, rxd_store_grow(golden, NR_PAGES + 9 * PER_LEAF), 0);
}

static void at_grace_shrink(void)
{
	struct rxd_store *golden = between.golden;

	KUNIT_EXPECT_EQ(between.test, rxd_store_prepare_shrink(golden, BORDER + 6), 0);
	rxd_store_shrink(golden, BORDER + 6);
	rxd_store_trim(golden);
	KUNIT_EXPECT_EQ(between.test, rxd_store_grow(golden, NR_PAGES), 0);
	fill(between.test, golden, BORDER + 6, 2, 0x20);
}

struct interlude {
	const char *name;
	void (*at_grace)(void);
};

static const struct interlude interludes[] = {
	{ "nothing", NULL },
	{ "clone", at_grace_clone },
	{ "clone that writes", at_grace_clone_that_writes },
	{ "write", at_grace_write },
	{ "discard", at_grace_discard },
	{ "clear", at_grace_clear },
	{ "grow", at_grace_grow },
	{ "shrink", at_grace_shrink },
};

static void interlude_name(const struct interlude *interlude, char *desc)
{
	strscpy(desc, interlude->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(interlude, interludes, interlude_name);

static void change_between_passes(struct kunit *test)
{
	const struct interlude *interlude = test->param_value;

	begin_between(test, interlude->at_grace, false);
	end_between(test);
	begin_between(test, interlude->at_grace, true);
	end_between(test);
}

static void at_grace_destroy(void)
{
	if (between.clone)
		rxd_store_destroy(between.clone);
	between.clone = NULL;
}

/* A store that the first pass has walked, and which its memory outlives. */
static void destroy_between_passes(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	struct rxd_store *golden = make_golden(test);

	between.clone = rxd_store_create(NR_PAGES, &options);
	KUNIT_ASSERT_NOT_NULL(test, between.clone);
	rxd_store_share(golden, between.clone);
	kunit_release_action(test, destroy_test_store, golden);
	test_memory.at_grace = at_grace_destroy;
	test_lift();
	test_memory.at_grace = NULL;
	KUNIT_EXPECT_NULL(test, between.clone);
	KUNIT_EXPECT_EQ(test, pages_taken(), 0);
}

/*
 * A write or a discard while the mark of the page is being changed, in the first or the second
 * pass.
 */
static struct {
	struct rxd_store *store;
	struct page *page;
	unsigned int left;
	bool discard;
	int ret;
} meanwhile;

static void at_mark_change(const void *ptr)
{
	static const u8 data[64];

	if (ptr != meanwhile.page || --meanwhile.left)
		return;
	if (meanwhile.discard)
		meanwhile.ret = rxd_store_free_run(meanwhile.store, 1, 1) - 1;
	else
		meanwhile.ret = rxd_store_write(meanwhile.store, pos_of(1), data, sizeof(data),
						RXD_GFP_NOWAIT);
}

static void check_change_of_marked(struct kunit *test, unsigned int pass, bool discard)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	u8 *buf = make_buf(test, 0);

	/* The golden store gets a leaf of its own, in which page 1 is marked. */
	fill(test, golden, 0, 1, 0x33);
	kunit_release_action(test, destroy_test_store, clone);
	meanwhile.store = golden;
	meanwhile.page = page_at(golden, 1);
	meanwhile.left = pass;
	meanwhile.discard = discard;
	meanwhile.ret = -1;
	test_memory.at_mark = at_mark_change;
	test_lift();
	test_memory.at_mark = NULL;
	rxd_store_drain();

	KUNIT_EXPECT_EQ(test, meanwhile.ret, 0);
	KUNIT_EXPECT_EQ(test, page_is_there(golden, 1), !discard);
	rxd_store_read(golden, pos_of(1), buf, PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, memchr_inv(buf, 0, 64));
	KUNIT_EXPECT_NULL(test, memchr_inv(buf + 64, discard ? 0 : 0x10, PAGE_SIZE - 64));
	KUNIT_EXPECT_EQ(test, used(golden), NR_GOLDEN - discard);
	expect_nothing_left(test, &golden, 1);
}

static void change_while_mark_changes(struct kunit *test)
{
	check_change_of_marked(test, 1, false);
	check_change_of_marked(test, 2, false);
	check_change_of_marked(test, 1, true);
	check_change_of_marked(test, 2, true);
}

static void exit_while_queued(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);

	kunit_release_action(test, destroy_test_store, clone);
	KUNIT_EXPECT_TRUE(test, test_lift_is_queued());
	kunit_release_action(test, destroy_test_store, golden);
	rxd_store_exit();
	KUNIT_EXPECT_FALSE(test, test_lift_is_queued());
	KUNIT_ASSERT_EQ(test, rxd_store_init(), 0);
}

static void exit_while_lifting(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);

	kunit_release_action(test, destroy_test_store, clone);
	test_begin_lift();
	kunit_release_action(test, destroy_test_store, golden);
	rxd_store_exit();
	KUNIT_ASSERT_EQ(test, rxd_store_init(), 0);
}

/* A reader in a store that has replaced a page, which only another store owns now. */
struct slow_reader {
	struct rxd_store *store;
	atomic_t found;
	atomic_t stop;
	bool changed;
};

static int slow_reader(void *arg)
{
	struct slow_reader *reader = arg;
	unsigned int i;
	u8 *data;

	rcu_read_lock();
	data = page_address(rxd_store_lookup(reader->store, 1));
	atomic_set_release(&reader->found, 1);
	for (i = 0; i < 1000 && !atomic_read_acquire(&reader->stop); i++)
		mdelay(1);
	reader->changed = memchr_inv(data, 0x10, PAGE_SIZE);
	rcu_read_unlock();
	while (!kthread_should_stop())
		usleep_range(500, 1000);
	return 0;
}

static void readers_of_earlier_owners_finish_first(struct kunit *test)
{
	struct rxd_store *golden = make_golden(test), *clone = share(test, golden);
	struct slow_reader reader = { .store = clone };
	struct crew crew = {};

	/* Both have leaves of their own, which share page 1. */
	fill(test, golden, 0, 1, 0x33);
	fill(test, clone, 0, 1, 0x44);
	rxd_store_drain();
	crew_add(test, &crew, slow_reader, &reader);
	while (crew.nr && !atomic_read_acquire(&reader.found))
		usleep_range(500, 1000);
	fill(test, clone, 1, 1, 0x55);
	test_begin_lift();
	msleep(100);
	fill(test, golden, 1, 1, 0x66);
	atomic_set_release(&reader.stop, 1);
	crew_run(&crew, 0);
	KUNIT_EXPECT_FALSE(test, reader.changed);
	KUNIT_EXPECT_TRUE(test, page_is(golden, 1, 0x66));
	test_lift();
	expect_nothing_left(test, (struct rxd_store *[]){ golden, clone }, 2);
}

/*
 * Races in a store that is in use: clones of it come and go, their marks are lifted, and two
 * writers have sectors of their own in each page.
 */
#define RACE_MSECS	3000

struct lift_race {
	struct rxd_store *store;
	struct rxd_store *other;
	struct rw_semaphore sem;	/* writes are held while the store is shared */
	bool discards;
	atomic_t next;
	atomic_t writes;
	atomic_t clones;
	atomic_t lifts;
	atomic_t frees;
	atomic_t errors;
};

static unsigned long any_page(void)
{
	return BORDER + get_random_u32_below(NR_BORDER);
}

/* Each word has the number of the page, or is 0. */
static bool words_are_of(const u64 *buf, unsigned int nr, unsigned long pgno)
{
	while (nr--)
		if (buf[nr] && (u32)buf[nr] != pgno)
			return false;
	return true;
}

static int lift_writer(void *arg)
{
	struct lift_race *race = arg;
	unsigned int me = atomic_inc_return(&race->next) & 1, i, nr = 0;
	u64 out[32], in[32], last[NR_BORDER] = {};
	unsigned long pgno;
	u64 pos;
	int ret;

	while (!kthread_should_stop()) {
		pgno = any_page();
		pos = pos_of(pgno) + me * sizeof(out);
		rxd_store_read(race->store, pos, in, sizeof(in));
		/* Nobody else writes here. */
		for (i = 0; i < ARRAY_SIZE(in) && !race->discards; i++)
			if (in[i] != last[pgno - BORDER])
				atomic_inc(&race->errors);
		if (!words_are_of(in, ARRAY_SIZE(in), pgno))
			atomic_inc(&race->errors);
		nr++;
		for (i = 0; i < ARRAY_SIZE(out); i++)
			out[i] = (u64)nr << 32 | pgno;
		down_read(&race->sem);
		ret = rxd_store_write(race->store, pos, out, sizeof(out), RXD_GFP);
		up_read(&race->sem);
		if (ret)
			atomic_inc(&race->errors);
		last[pgno - BORDER] = out[0];
		atomic_inc(&race->writes);
		cond_resched();
	}
	return 0;
}

/* Clones never change, and end in one way or another. */
static int lift_cloner(void *arg)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL };
	u64 *before, *after = kmalloc(2 * PAGE_SIZE, GFP_KERNEL);
	struct lift_race *race = arg;
	struct rxd_store *clone;
	unsigned long pgno;
	u64 word = 0;

	before = after + PAGE_SIZE / sizeof(*after);
	while (!kthread_should_stop()) {
		clone = after ? rxd_store_create(NR_PAGES, &options) : NULL;
		if (!clone) {
			atomic_inc(&race->errors);
			continue;
		}
		down_write(&race->sem);
		rxd_store_share(race->store, clone);
		up_write(&race->sem);
		pgno = any_page();
		rxd_store_read(clone, pos_of(pgno), before, PAGE_SIZE);
		if (!words_are_of(before, PAGE_SIZE / sizeof(u64), pgno))
			atomic_inc(&race->errors);
		if (get_random_u32_below(2))
			usleep_range(100, 2000);
		else
			cond_resched();
		if (get_random_u32_below(2) &&
		    rxd_store_write(clone, pos_of(BORDER - 1), &word, sizeof(word), RXD_GFP))
			atomic_inc(&race->errors);
		rxd_store_read(clone, pos_of(pgno), after, PAGE_SIZE);
		if (memcmp(before, after, PAGE_SIZE))
			atomic_inc(&race->errors);
		if (get_random_u32_below(2))
			rxd_store_clear(clone);
		rxd_store_destroy(clone);
		atomic_inc(&race->clones);
	}
	kfree(after);
	return 0;
}

static int lifter(void *arg)
{
	struct lift_race *race = arg;

	while (!kthread_should_stop()) {
		test_lift();
		atomic_inc(&race->lifts);
	}
	return 0;
}

/* Discards, zeroing, and resets of the other store to the first one. */
static int lift_freer(void *arg)
{
	struct lift_race *race = arg;
	struct rxd_store *store;
	unsigned long first;

	while (!kthread_should_stop()) {
		first = any_page();
		store = get_random_u32_below(2) ? race->store : race->other;
		switch (get_random_u32_below(4)) {
		case 0:
			down_read(&race->sem);
			if (!rxd_store_unshare_ends(store, first, 2, RXD_GFP))
				rxd_store_free_range(store, first, 2);
			up_read(&race->sem);
			break;
		case 1:
			down_read(&race->sem);
			rxd_store_free_range(store, PER_LEAF, PER_LEAF);
			up_read(&race->sem);
			break;
		case 2:
			down_read(&race->sem);
			if (zero_range(store, pos_of(first) + 512, 512))
				atomic_inc(&race->errors);
			up_read(&race->sem);
			break;
		case 3:
			down_write(&race->sem);
			rxd_store_clear(race->other);
			rxd_store_share(race->store, race->other);
			up_write(&race->sem);
			break;
		}
		atomic_inc(&race->frees);
		cond_resched();
	}
	return 0;
}

static void race_lift(struct kunit *test, bool discards)
{
	struct lift_race race = { .discards = discards };
	struct rxd_store *stores[2];
	struct crew crew = {};

	init_rwsem(&race.sem);
	race.store = make_store(test, NR_PAGES);
	race.other = make_store(test, NR_PAGES);
	fill(test, race.store, BORDER, NR_BORDER, 0);
	crew_add(test, &crew, lift_writer, &race);
	crew_add(test, &crew, lift_writer, &race);
	crew_add(test, &crew, lift_cloner, &race);
	crew_add(test, &crew, lifter, &race);
	if (discards)
		crew_add(test, &crew, lift_freer, &race);
	crew_run(&crew, RACE_MSECS);

	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.writes), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.clones), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race.lifts), 0);
	kunit_info(test, "%d writes, %d clones, %d lifts, %d frees\n", atomic_read(&race.writes),
		   atomic_read(&race.clones), atomic_read(&race.lifts),
		   atomic_read(&race.frees));
	rxd_store_clear(race.other);
	rxd_store_drain();
	test_lift();
	fill(test, race.store, BORDER, NR_BORDER, 0x11);
	test_lift();
	rxd_store_drain();
	KUNIT_EXPECT_TRUE(test, is_in_place(race.store, BORDER, 0x99));
	KUNIT_EXPECT_EQ(test, used(race.store), count_pages(race.store));
	stores[0] = race.store;
	stores[1] = race.other;
	expect_nothing_left(test, stores, 2);
}

static void race_of_writers_and_lifts(struct kunit *test)
{
	race_lift(test, false);
}

static void race_of_discards_and_lifts(struct kunit *test)
{
	race_lift(test, true);
}

static struct kunit_case lift_cases[] = {
	KUNIT_CASE_PARAM(in_place_when_the_other_has_left, end_gen_params),
	KUNIT_CASE(lifts_by_itself),
	KUNIT_CASE(only_what_nobody_else_has),
	KUNIT_CASE_PARAM(change_between_passes, interlude_gen_params),
	KUNIT_CASE(destroy_between_passes),
	KUNIT_CASE(change_while_mark_changes),
	KUNIT_CASE(exit_while_queued),
	KUNIT_CASE(exit_while_lifting),
	KUNIT_CASE(readers_of_earlier_owners_finish_first),
	KUNIT_CASE_SLOW(race_of_writers_and_lifts),
	KUNIT_CASE_SLOW(race_of_discards_and_lifts),
	{}
};

static struct kunit_suite lift_suite = {
	.name = "rxd_lift",
	.suite_init = init_store_suite,
	.suite_exit = exit_store_suite,
	.init = init_test_memory,
	.test_cases = lift_cases,
};

kunit_test_suite(lift_suite);

MODULE_DESCRIPTION("KUnit tests of RAM disks that share pages no more");
MODULE_LICENSE("GPL");
