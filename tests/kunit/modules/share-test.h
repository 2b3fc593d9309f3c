/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stores that share pages, for the suites of share.c and share-marks.c.
 */
#ifndef RXD_SHARE_TEST_H
#define RXD_SHARE_TEST_H

#include "store-test.h"

/* Pages of the stores: two leaves, and a part of a third. */
#define NR_PAGES	(2 * PER_LEAF + 8)

/* Pages around the border of two leaves, which most cases use. */
#define BORDER		(PER_LEAF - 4)
#define NR_BORDER	8

static inline struct rxd_store *share(struct kunit *test, struct rxd_store *from)
{
	struct rxd_store *to = make_store(test, rxd_store_nr_pages(from));

	rxd_store_share(from, to);
	return to;
}

/* A store with pages 0 to 7 (0x10) and 8 pages around a border (0x20). */
static inline struct rxd_store *make_golden(struct kunit *test)
{
	struct rxd_store *store = make_store(test, NR_PAGES);

	fill(test, store, 0, 8, 0x10);
	fill(test, store, BORDER, NR_BORDER, 0x20);
	return store;
}

static inline bool pages_are(struct rxd_store *store, unsigned long first, unsigned long nr,
			     u8 byte)
{
	for (; nr; nr--)
		if (!page_is(store, first++, byte))
			return false;
	return true;
}

static inline bool is_golden(struct rxd_store *store)
{
	return pages_are(store, 0, 8, 0x10) && pages_are(store, BORDER, NR_BORDER, 0x20) &&
	       first_hole(store, 0) == 8 &&
	       first_data(store, 8) == BORDER &&
	       first_hole(store, BORDER) == BORDER + NR_BORDER &&
	       first_data(store, BORDER + NR_BORDER) == NR_PAGES;
}

static inline long pages_taken(void)
{
	rxd_store_drain();
	return atomic_long_read(&test_pages);
}

/* All memory of the case comes back, and none is still awaited. */
static inline void expect_nothing_left(struct kunit *test, struct rxd_store **stores,
				       unsigned int nr)
{
	while (nr)
		kunit_release_action(test, destroy_test_store, stores[--nr]);
	KUNIT_EXPECT_EQ(test, pages_taken(), 0);
	KUNIT_EXPECT_EQ(test, test_freed(), test_awaited());
	KUNIT_EXPECT_FALSE(test, test_is_changing());
}

#endif /* RXD_SHARE_TEST_H */
