/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine that lends memory: the test says whether memory is free, and how much page cache
 * there is.
 */
#ifndef RXD_KUNIT_LEND_TEST_H
#define RXD_KUNIT_LEND_TEST_H

#include <linux/atomic.h>
#include <linux/types.h>

/**
 * struct test_machine - what lend.c sees
 * @is_full: no page is free beyond the headroom
 * @is_served: memory is free while reclaim runs
 * @page_cache: number of pages of clean page cache
 */
struct test_machine {
	bool is_full;
	bool is_served;
	unsigned long page_cache;
};

extern struct test_machine test_machine;

/**
 * struct test_limit - what limit.c and state.c see
 * @is_waiting: so many pages wait to be freed that no others may replace them
 * @at_claim: called before a claimed block is evicted, or NULL
 * @nr_wakes: pages beyond the minimum that were added in a way that may wake kswapd
 */
struct test_limit {
	bool is_waiting;
	void (*at_claim)(void);
	atomic_t nr_wakes;
};

extern struct test_limit test_limit;

unsigned long test_count(void);
unsigned long test_scan(unsigned long nr, unsigned long *reclaimed);
unsigned long test_oom(void);
void test_compare(void);
long test_reclaimable(void);

#endif /* RXD_KUNIT_LEND_TEST_H */
