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
 * struct test_machine - what lend.c and give-back.c see
 * @is_full: no page is free beyond the headroom
 * @spare: number of pages that are free beyond the high watermark while reclaim runs; 0: none is
 *	free
 * @page_cache: number of pages of clean page cache
 * @moved: number of pages that were swapped out
 * @later: the clock is ahead by so many jiffies
 */
struct test_machine {
	bool is_full;
	unsigned long spare;
	unsigned long page_cache;
	unsigned long moved;
	unsigned long later;
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
unsigned long test_pass(unsigned long nr, bool is_kswapd, unsigned long *reclaimed);
unsigned long test_enough(void);
long test_give_mark(long headroom, long boost);
long test_grow_mark(long headroom, long boost);
unsigned long test_enough_for_task(unsigned long node_pages);
unsigned long test_urgent_count(unsigned long lent, unsigned long node_pages);
long test_watch_pages(unsigned int nr_cpus, unsigned long node_pages);
void test_early(void);
void test_forget_gifts(void);
unsigned long test_oom(void);
void test_compare(void);
long test_reclaimable(void);
void test_add_reclaimable(long nr);
long test_usable(void);

#endif /* RXD_KUNIT_LEND_TEST_H */
