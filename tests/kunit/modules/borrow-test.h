/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A machine with two nodes that lends memory. The test says what is free on each of them, and what
 * their counters are. The parity of its number says on which node a page is.
 */
#ifndef RXD_KUNIT_BORROW_TEST_H
#define RXD_KUNIT_BORROW_TEST_H

#include <linux/atomic.h>
#include <linux/gfp.h>
#include <linux/mm_types.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/sizes.h>
#include <linux/types.h>

#define NR_NODES	2
/* Of the machine, half of them on each node. */
#define MACHINE_PAGES	(SZ_2G / PAGE_SIZE)

/**
 * struct test_machine - what lend.c and give-back.c see
 * @local: the node of the CPU
 * @is_kswapd: the task that reclaims is kswapd
 * @late: how many jiffies the clock is late
 * @allowed: the nodes of the task
 * @nr_graces: number of expedited grace periods
 */
struct test_machine {
	int local;
	bool is_kswapd;
	unsigned long late;
	nodemask_t allowed;
	unsigned int nr_graces;
};

extern struct test_machine test_machine;

void test_begin(void);
void test_end(void);
struct zone *test_zone(int node, enum zone_type type);
atomic_long_t *test_zone_stat(int node, enum zone_type type, enum zone_stat_item item);
atomic_long_t *test_stat(int node, enum node_stat_item item);
void test_set_spare(int node, enum zone_watermarks mark, long nr);
void test_set_movable(int node);
int test_nid(const struct page *page);
struct page *test_page(int node);
long test_lent_on(int node);

unsigned long test_count(int node);
unsigned long test_scan(int node, unsigned long nr, unsigned long *reclaimed);
unsigned long test_drop(int node, unsigned long nr);
unsigned long test_oom(void);
int test_moving_caches(void);
void test_compare(void);
unsigned long test_delay(void);
unsigned long test_early(void);
void test_note_retired(long nr);
unsigned long test_headroom(void);

#endif /* RXD_KUNIT_BORROW_TEST_H */
