// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the page store of a RAM disk: the record of changes, and its way to a clone and
 * back.
 */
#include <linux/bitmap.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "../module/hold.h"
#include "../module/record.h"
#include "crew.h"
#include "share-test.h"

static const u8 state_a[16] = { 0xa }, state_b[16] = { 0xb }, state_c[16] = { 0xc };

static atomic64_t changes;

static void free_record(void *record)
{
	rxd_record_free(record);
}

/* A record that no store gets. */
static struct rxd_record *make_record(struct kunit *test, unsigned long nr_pages)
{
	struct rxd_record *record = rxd_record_alloc(nr_pages, state_a);

	KUNIT_ASSERT_NOT_NULL(test, record);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_record, record), 0);
	return record;
}

static void arm(struct kunit *test, struct rxd_store *store)
{
	store->hold = rxd_hold_alloc(&changes);
	KUNIT_ASSERT_NOT_NULL(test, store->hold);
}

static void begin(struct kunit *test, struct rxd_store *store, const u8 *state)
{
	struct rxd_record *record = rxd_record_alloc(rxd_store_nr_pages(store), state);

	KUNIT_ASSERT_NOT_NULL(test, record);
	rxd_record_free(rxd_store_replace_record(store, record));
}

static struct rxd_store *make_tracked(struct kunit *test)
{
	struct rxd_store *store = make_golden(test);

	arm(test, store);
	begin(test, store, state_a);
	return store;
}

/* Clone a store and its record, which becomes that of @state. */
static struct rxd_store *lend(struct kunit *test, struct rxd_store *store, const u8 *state,
			      struct rxd_loan *loan)
{
	struct rxd_record *record = rxd_record_alloc(rxd_store_nr_pages(store), state);
	struct rxd_store *clone = make_store(test, rxd_store_nr_pages(store));
	u64 start;

	KUNIT_ASSERT_NOT_NULL(test, record);
	arm(test, clone);
	start = rxd_store_hold(store);
	rxd_store_share(store, clone);
	rxd_store_lend_record(store, clone, record, loan);
	rxd_store_unhold(store, start);
	return clone;
}

static void give_back(struct kunit *test, struct rxd_store *store, struct rxd_store *clone,
		      const struct rxd_loan *loan)
{
	rxd_store_return_record(store, loan, rxd_store_swap_record(clone, NULL));
	kunit_release_action(test, destroy_test_store, clone);
}

static bool is_of(struct rxd_store *store, const u8 *state)
{
	struct rxd_record *record = rxd_store_record(store);

	return record && !memcmp(&record->state, state, sizeof(record->state));
}

static bool has(struct rxd_store *store, unsigned long pgno)
{
	return rxd_record_next(rxd_store_record(store), pgno, ULONG_MAX, true) == pgno;
}

static unsigned long nr_changed(struct rxd_store *store)
{
	struct rxd_record *record = rxd_store_record(store);

	return bitmap_weight(record->bits, record->nr_pages);
}

/* Exactly the pages from @first on were changed. */
static bool changed_are(struct rxd_store *store, unsigned long first, unsigned long nr)
{
	struct rxd_record *record = rxd_store_record(store);

	return rxd_record_next(record, 0, ULONG_MAX, true) == first &&
	       rxd_record_next(record, first, ULONG_MAX, false) == first + nr &&
	       nr_changed(store) == nr;
}

#define NR_BITS		(3 * BITS_PER_LONG + 7)

static void notes_any_range(struct kunit *test)
{
	struct rxd_record *record = make_record(test, NR_BITS);
	DECLARE_BITMAP(expected, NR_BITS);
	unsigned int first, end;

	for (first = 0; first < NR_BITS; first++) {
		for (end = first + 1; end <= NR_BITS; end++) {
			bitmap_zero(record->bits, NR_BITS);
			bitmap_zero(expected, NR_BITS);
			bitmap_set(expected, first, end - first);
			rxd_record_note(record, pos_of(first), (end - first) << PAGE_SHIFT);
			if (!bitmap_equal(record->bits, expected, NR_BITS))
				KUNIT_FAIL(test, "pages %u to %u", first, end);
		}
	}
}

static void notes_parts_of_pages(struct kunit *test)
{
	struct rxd_record *record = make_record(test, NR_BITS);

	rxd_record_note(record, pos_of(5) + 512, 512);
	rxd_record_note(record, pos_of(BITS_PER_LONG) - 512, 1024);
	rxd_record_note(record, pos_of(NR_BITS) - 512, 512);
	KUNIT_EXPECT_EQ(test, bitmap_weight(record->bits, NR_BITS), 4);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, ULONG_MAX, true), 5);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 5, ULONG_MAX, false), 6);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 6, ULONG_MAX, true), BITS_PER_LONG - 1);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, BITS_PER_LONG, ULONG_MAX, false),
			BITS_PER_LONG + 1);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, BITS_PER_LONG + 1, ULONG_MAX, true),
			NR_BITS - 1);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, NR_BITS - 1, ULONG_MAX, false), NR_BITS);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, NR_BITS, ULONG_MAX, true), NR_BITS);
}

/* A disk that grows has pages that the record does not have. KASAN sees an access to them. */
static void ignores_pages_beyond(struct kunit *test)
{
	struct rxd_record *record = make_record(test, BITS_PER_LONG);

	rxd_record_note(record, pos_of(BITS_PER_LONG), PAGE_SIZE);
	rxd_record_note(record, 1ULL << 47, SZ_2M);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, ULONG_MAX, true), BITS_PER_LONG);
	rxd_record_note(record, pos_of(BITS_PER_LONG - 1), SZ_2M);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, ULONG_MAX, true), BITS_PER_LONG - 1);
}

static void finds_across_steps(struct kunit *test)
{
	const unsigned long nr = (3UL << 20) + 5;
	struct rxd_record *record = make_record(test, nr);

	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, ULONG_MAX, true), nr);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, ULONG_MAX, false), 0);
	rxd_record_note(record, pos_of(nr - 1), 1);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, ULONG_MAX, true), nr - 1);
	bitmap_fill(record->bits, nr);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, ULONG_MAX, false), nr);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 1UL << 20, ULONG_MAX, true), 1UL << 20);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, nr - 1, false), nr - 1);
	KUNIT_EXPECT_EQ(test, rxd_record_next(record, 0, nr + 1, false), nr);
}

static void allocation_fails(struct kunit *test)
{
	struct rxd_record *record;
	unsigned int nth, nr = 0;

	for (nth = 1; nth < FAULT_MAX; nth++) {
		fault_begin(nth);
		record = rxd_record_alloc(NR_PAGES, state_a);
		if (!fault_end())
			break;
		/* The allocator may find the memory elsewhere. */
		nr += !record;
		rxd_record_free(record);
	}
	KUNIT_EXPECT_GT(test, nr, 0);
	KUNIT_ASSERT_NOT_NULL(test, record);
	rxd_record_free(record);

	/* More than the machine has. */
	KUNIT_EXPECT_NULL(test, rxd_record_alloc(RXD_SIZE_MAX >> PAGE_SHIFT, state_a));
	KUNIT_EXPECT_EQ(test, rxd_record_prepare(RXD_SIZE_MAX >> PAGE_SHIFT), -ENOMEM);
	test_memory.is_short = true;
	KUNIT_EXPECT_NULL(test, rxd_record_alloc(1UL << 24, state_a));
	test_memory.is_short = false;
	rxd_record_free(NULL);
}

/* What changes data is in the record, also if the pages are shared, and nothing else is. */
static const bool kinds[] = { false, true };

static void kind_name(const bool *shared, char *desc)
{
	strscpy(desc, *shared ? "of shared pages" : "of own pages", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_name);

static void each_step_is_noted(struct kunit *test)
{
	const struct rxd_store_options options = { .node = RXD_NODE_LOCAL, .detect_zeroes = true };
	struct rxd_store *store = make_store_of(test, NR_PAGES, &options), *clone = NULL;
	u8 *zeroes = make_buf(test, 0), *buf = make_buf(test, 0x33);

	fill(test, store, 0, 8, 0x10);
	fill(test, store, BORDER, NR_BORDER, 0x20);
	arm(test, store);
	begin(test, store, state_a);
	if (*(const bool *)test->param_value) {
		clone = share(test, store);
		KUNIT_EXPECT_EQ(test, nr_changed(store), 0);
	}
	KUNIT_EXPECT_EQ(test, rxd_store_write(store, pos_of(3) + 512, buf, 512, RXD_GFP), 0);
	KUNIT_EXPECT_TRUE(test, changed_are(store, 3, 1));
	begin(test, store, state_a);
	KUNIT_EXPECT_EQ(test, write_page(store, 20, buf), 0);
	KUNIT_EXPECT_TRUE(test, changed_are(store, 20, 1));
	begin(test, store, state_a);
	KUNIT_EXPECT_EQ(test, write_page(store, 5, zeroes), 0);
	KUNIT_EXPECT_TRUE(test, changed_are(store, 5, 1));
	KUNIT_EXPECT_FALSE(test, page_is_there(store, 5));
	begin(test, store, state_a);
	KUNIT_EXPECT_EQ(test, zero_range(store, pos_of(6) + 512, PAGE_SIZE), 0);
	KUNIT_EXPECT_TRUE(test, changed_are(store, 6, 2));
	begin(test, store, state_a);
	KUNIT_EXPECT_EQ(test, rxd_store_unshare_ends(store, BORDER + 1, 6, RXD_GFP), 0);
	KUNIT_EXPECT_EQ(test, nr_changed(store), 0);
	KUNIT_EXPECT_EQ(test, rxd_store_free_range(store, BORDER + 1, 6), 6);
	KUNIT_EXPECT_TRUE(test, changed_are(store, BORDER + 1, 6));
	begin(test, store, state_a);
	rxd_store_free_range(store, 0, NR_PAGES);
	KUNIT_EXPECT_TRUE(test, changed_are(store, 0, NR_PAGES));
	begin(test, store, state_a);
	KUNIT_EXPECT_EQ(test, fill_range(store, 30, 1), 0);
	KUNIT_EXPECT_TRUE(test, changed_are(store, 30, 1));
	if (clone) {
		KUNIT_EXPECT_TRUE(test, is_golden(clone));
		kunit_release_action(test, destroy_test_store, clone);
	}
	expect_nothing_left(test, &store, 1);
}

static void what_is_refused_is_not_noted(struct kunit *test)
{
	struct rxd_store *store = make_tracked(test);
	u8 *buf = make_buf(test, 0x33);
	u64 start = rxd_store_hold(store);

	KUNIT_EXPECT_EQ(test, rxd_store_write(store, pos_of(5), buf, PAGE_SIZE, RXD_GFP_NOWAIT),
			-ENOSPC);
	KUNIT_EXPECT_EQ(test, nr_changed(store), 0);
	rxd_store_unhold(store, start);
	/* It may or may not be noted, but it must be possible to try again. */
	test_memory.pages_left = 0;
	KUNIT_EXPECT_EQ(test, write_page(store, 20, buf), -ENOSPC);
	test_memory.pages_left = ULONG_MAX;
	KUNIT_EXPECT_EQ(test, write_page(store, 20, buf), 0);
	KUNIT_EXPECT_TRUE(test, changed_are(store, 20, 1));
	expect_nothing_left(test, &store, 1);
}

static void memory_is_counted(struct kunit *test)
{
	struct rxd_store *store = make_golden(test);
	struct rxd_store_stats before, now;

	arm(test, store);
	rxd_store_get_stats(store, &before);
	begin(test, store, state_a);
	rxd_store_get_stats(store, &now);
	KUNIT_EXPECT_GE(test, now.index_bytes, before.index_bytes + NR_PAGES / 8);
	rxd_record_free(rxd_store_replace_record(store, NULL));
	rxd_store_get_stats(store, &now);
	KUNIT_EXPECT_EQ(test, now.index_bytes, before.index_bytes);
	expect_nothing_left(test, &store, 1);
}

static void goes_and_comes_back(struct kunit *test)
{
	struct rxd_store *store = make_tracked(test), *clone;
	struct rxd_loan loan = {};

	fill(test, store, 1, 2, 0x33);
	clone = lend(test, store, state_b, &loan);
	KUNIT_EXPECT_TRUE(test, is_of(clone, state_a));
	KUNIT_EXPECT_TRUE(test, changed_are(clone, 1, 2));
	KUNIT_EXPECT_TRUE(test, is_of(store, state_b));
	KUNIT_EXPECT_EQ(test, nr_changed(store), 0);
	fill(test, store, 2, 2, 0x44);
	KUNIT_EXPECT_TRUE(test, changed_are(clone, 1, 2));
	KUNIT_EXPECT_TRUE(test, changed_are(store, 2, 2));
	give_back(test, store, clone, &loan);
	KUNIT_EXPECT_TRUE(test, is_of(store, state_a));
	KUNIT_EXPECT_TRUE(test, changed_are(store, 1, 3));
	fill(test, store, 4, 1, 0x55);
	KUNIT_EXPECT_TRUE(test, changed_are(store, 1, 4));
	expect_nothing_left(test, &store, 1);
}

static void nothing_to_lend(struct kunit *test)
{
	struct rxd_store *store = make_golden(test), *clone;
	struct rxd_loan loan = {};

	arm(test, store);
	clone = lend(test, store, state_b, &loan);
	KUNIT_EXPECT_NULL(test, rxd_store_record(clone));
	KUNIT_EXPECT_TRUE(test, is_of(store, state_b));
	KUNIT_EXPECT_EQ(test, loan.taken, 0);
	KUNIT_EXPECT_NE(test, loan.left, 0);
	fill(test, store, 1, 1, 0x33);
	give_back(test, store, clone, &loan);
	KUNIT_EXPECT_NULL(test, rxd_store_record(store));
	expect_nothing_left(test, &store, 1);
}

/* Clones that go in the order in which they came, and in the reverse order. */
static void nested_loans(struct kunit *test)
{
	struct rxd_store *store = make_tracked(test), *first, *second;
	struct rxd_loan loans[2] = {};

	first = lend(test, store, state_b, &loans[0]);
	fill(test, store, 1, 1, 0x33);
	second = lend(test, store, state_c, &loans[1]);
	fill(test, store, 2, 1, 0x33);
	give_back(test, store, second, &loans[1]);
	KUNIT_EXPECT_TRUE(test, is_of(store, state_b));
	KUNIT_EXPECT_TRUE(test, changed_are(store, 1, 2));
	give_back(test, store, first, &loans[0]);
	KUNIT_EXPECT_TRUE(test, is_of(store, state_a));
	KUNIT_EXPECT_TRUE(test, changed_are(store, 1, 2));

	/* The record of the first state has no way back, but that of the second one has. */
	first = lend(test, store, state_b, &loans[0]);
	fill(test, store, 1, 1, 0x44);
	second = lend(test, store, state_c, &loans[1]);
	fill(test, store, 2, 1, 0x44);
	give_back(test, store, first, &loans[0]);
	KUNIT_EXPECT_TRUE(test, is_of(store, state_c));
	KUNIT_EXPECT_TRUE(test, changed_are(store, 2, 1));
	give_back(test, store, second, &loans[1]);
	KUNIT_EXPECT_TRUE(test, is_of(store, state_b));
	KUNIT_EXPECT_TRUE(test, changed_are(store, 1, 2));
	expect_nothing_left(test, &store, 1);
}

/* Another record of the same name is another record. */
static void other_record_meanwhile(struct kunit *test)
{
	struct rxd_store *store = make_tracked(test), *clone;
	struct rxd_loan loan = {};

	clone = lend(test, store, state_b, &loan);
	begin(test, store, state_b);
	fill(test, store, 3, 1, 0x33);
	give_back(test, store, clone, &loan);
	KUNIT_EXPECT_TRUE(test, is_of(store, state_b));
	KUNIT_EXPECT_TRUE(test, changed_are(store, 3, 1));

	begin(test, store, state_a);
	clone = lend(test, store, state_b, &loan);
	begin(test, clone, state_a);
	give_back(test, store, clone, &loan);
	KUNIT_EXPECT_NULL(test, rxd_store_record(store));

	begin(test, store, state_a);
	clone = lend(test, store, state_b, &loan);
	rxd_record_free(rxd_store_replace_record(store, NULL));
	give_back(test, store, clone, &loan);
	KUNIT_EXPECT_NULL(test, rxd_store_record(store));
	expect_nothing_left(test, &store, 1);
}

/*
 * Writers beside records that go, and come back or not: each page in which two clones differ is in
 * the record that the later one has got.
 */
#define RACE_MSECS	3000
#define NR_WRITERS	3
#define MIN_ROUNDS	6

struct track_race {
	struct rxd_store *store;
	atomic_t next;
	atomic_t writes;
	atomic_t errors;
};

static int track_writer(void *arg)
{
	struct track_race *race = arg;
	unsigned int me = atomic_inc_return(&race->next);
	unsigned long pgno;
	u64 words[64];

	memset(words, 0, sizeof(words));
	while (!kthread_should_stop()) {
		pgno = BORDER + get_random_u32_below(NR_BORDER);
		words[0] = (u64)atomic_inc_return(&race->writes) << 8 | me;
		if (!get_random_u32_below(8)) {
			if (!rxd_store_unshare_ends(race->store, pgno, 1, RXD_GFP))
				rxd_store_free_range(race->store, pgno, 1);
		} else if (!get_random_u32_below(8)) {
			if (zero_range(race->store, pos_of(pgno), 512))
				atomic_inc(&race->errors);
		} else if (rxd_store_write(race->store, pos_of(pgno) + me * 512, words,
					   sizeof(words), RXD_GFP)) {
			atomic_inc(&race->errors);
		}
		cond_resched();
	}
	return 0;
}

static bool differs(struct rxd_store *a, struct rxd_store *b, unsigned long pgno)
{
	u64 words[2][64];
	unsigned int i;

	for (i = 0; i < PAGE_SIZE; i += sizeof(words[0])) {
		rxd_store_read(a, pos_of(pgno) + i, words[0], sizeof(words[0]));
		rxd_store_read(b, pos_of(pgno) + i, words[1], sizeof(words[1]));
		if (memcmp(words[0], words[1], sizeof(words[0])))
			return true;
	}
	return false;
}

static void race_of_records(struct kunit *test)
{
	unsigned long end = jiffies + msecs_to_jiffies(RACE_MSECS), pgno;
	unsigned int rounds = 0, missing = 0, found = 0, i;
	struct rxd_store *last = NULL, *clone;
	struct rxd_loan loan = {};
	struct track_race race = {};
	struct crew crew = {};

	race.store = make_golden(test);
	arm(test, race.store);
	for (i = 0; i < NR_WRITERS; i++)
		crew_add(test, &crew, track_writer, &race);
	while (crew.nr && (time_before(jiffies, end) || rounds < MIN_ROUNDS)) {
		clone = lend(test, race.store, state_a, &loan);
		for (pgno = BORDER; last && pgno < BORDER + NR_BORDER; pgno++) {
			found += has(clone, pgno);
			missing += differs(last, clone, pgno) && !has(clone, pgno);
		}
		if (last && rounds++ % 3 == 0) {
			give_back(test, race.store, clone, &loan);
			continue;
		}
		if (last)
			kunit_release_action(test, destroy_test_store, last);
		last = clone;
		usleep_range(1000, 2000);
	}
	crew_run(&crew, 0);

	KUNIT_EXPECT_EQ(test, missing, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	KUNIT_EXPECT_GT(test, found, 0);
	expect_nothing_left(test, (struct rxd_store *[]){ race.store, last }, last ? 2 : 1);
}

static struct kunit_case rxd_record_cases[] = {
	KUNIT_CASE(notes_any_range),
	KUNIT_CASE(notes_parts_of_pages),
	KUNIT_CASE(ignores_pages_beyond),
	KUNIT_CASE(finds_across_steps),
	KUNIT_CASE(allocation_fails),
	KUNIT_CASE_PARAM(each_step_is_noted, kind_gen_params),
	KUNIT_CASE(what_is_refused_is_not_noted),
	KUNIT_CASE(memory_is_counted),
	KUNIT_CASE(goes_and_comes_back),
	KUNIT_CASE(nothing_to_lend),
	KUNIT_CASE(nested_loans),
	KUNIT_CASE(other_record_meanwhile),
	KUNIT_CASE_SLOW(race_of_records),
	{}
};

static struct kunit_suite rxd_record_suite = {
	.name = "rxd_record",
	.suite_init = init_store_suite,
	.suite_exit = exit_store_suite,
	.init = init_test_memory,
	.test_cases = rxd_record_cases,
};

kunit_test_suite(rxd_record_suite);

MODULE_DESCRIPTION("KUnit tests of the record of changes of a RAM disk");
MODULE_LICENSE("GPL");
