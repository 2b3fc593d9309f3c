// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page store, on a machine whose free memory and NUMA nodes the test sets.
 */
#include <linux/backing-dev.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "../module/compat.h"
#include "store-test.h"

/* No test lends memory. */
#include "../module/lend.c"
#include "../module/give-back.c"

struct test_memory test_memory;
atomic_long_t test_pages;

static struct page *count_pages_out(struct page *page, unsigned int order)
{
	if (page)
		atomic_long_add(1L << order, &test_pages);
	return page;
}

static void test_free_page(struct page *page)
{
	void (*at_free)(struct page *page) = READ_ONCE(test_memory.at_free);

	if (at_free)
		at_free(page);
	atomic_long_dec(&test_pages);
	__free_page(page);
}

static long test_mem_available(void)
{
	return READ_ONCE(test_memory.is_short) ? -(long)totalram_pages() : si_mem_available();
}

static int test_nr_nodes(enum node_states state)
{
	return test_memory.nr_nodes;
}

static int test_next_node(int node, const nodemask_t *nodes)
{
	return (node + 1) % test_memory.nr_nodes;
}

/* Return: number of the @nr pages that the test grants. */
static unsigned long grant(unsigned long nr)
{
	if (test_memory.nr_refusals) {
		test_memory.nr_refusals--;
		if (test_memory.at_refusal)
			test_memory.at_refusal();
		return 0;
	}
	if (test_memory.pages_left == ULONG_MAX)
		return nr;
	nr = min(nr, test_memory.pages_left);
	test_memory.pages_left -= nr;
	return nr;
}

/* A store must not zero anything else. */
static struct page *test_alloc_leaf(int node, gfp_t gfp)
{
	unsigned int one_in = test_memory.fail_leaf_one_in;

	WRITE_ONCE(test_memory.leaf_node, node);
	WRITE_ONCE(test_memory.leaf_gfp, gfp);
	if (test_memory.no_leaf || (one_in && !get_random_u32_below(one_in)))
		return NULL;
	if (test_memory.at_leaf)
		test_memory.at_leaf();
	return count_pages_out(alloc_pages_node(NUMA_NO_NODE, gfp, 0), 0);
}

static unsigned long test_zone_state(enum zone_stat_item item)
{
	return item == NR_ZONE_WRITE_PENDING ? READ_ONCE(test_memory.nr_dirty) : 0;
}

/* No test has a populated ZONE_MOVABLE. */
static unsigned long test_movable_state(const struct zone *zone, enum zone_stat_item item)
{
	return item == NR_ZONE_WRITE_PENDING ? READ_ONCE(test_memory.nr_dirty_movable) : 0;
}

static unsigned long test_node_state_pages(enum node_stat_item item)
{
	if (item == NR_SLAB_RECLAIMABLE_B && test_memory.at_slab)
		test_memory.at_slab();
	return item == NR_SLAB_RECLAIMABLE_B ? READ_ONCE(test_memory.nr_slab) : 0;
}

static struct page *test_alloc_pages(int node, gfp_t gfp, unsigned int order)
{
	unsigned long i, nr = 1UL << order;
	struct page *page;

	WARN_ON_ONCE(gfp & RXD_GFP_MARKS);
	if (gfp & __GFP_ZERO)
		return test_alloc_leaf(node, gfp);
	WRITE_ONCE(test_memory.node, node);
	if (order) {
		WRITE_ONCE(test_memory.gfp, gfp);
		if (test_memory.fail_one_in && !get_random_u32_below(test_memory.fail_one_in))
			return NULL;
	}
	if (order > test_memory.max_order || nr > test_memory.pages_left || !grant(nr))
		return NULL;
	if (test_memory.at_grant)
		test_memory.at_grant();
	page = count_pages_out(alloc_pages_node(NUMA_NO_NODE, gfp, order), order);
	if (!page)
		return NULL;
	memset(page_address(page), STALE, nr << PAGE_SHIFT);
	/* Some kernels initialise only the first page of a piece. */
	for (i = 1; i < nr; i++)
		set_page_private(page + i, STALE);
	if (order >= ORDER_64K)
		WRITE_ONCE(test_memory.nr_64k, READ_ONCE(test_memory.nr_64k) + nr);
	if (order >= ORDER_2M)
		WRITE_ONCE(test_memory.nr_2m, READ_ONCE(test_memory.nr_2m) + nr);
	return page;
}

static unsigned long test_alloc_bulk(gfp_t gfp, int node, unsigned long nr,
				     struct page **pages)
{
	unsigned long i;

	WARN_ON_ONCE(gfp & RXD_GFP_MARKS);
	WRITE_ONCE(test_memory.node, node);
	WRITE_ONCE(test_memory.nr_bulk, READ_ONCE(test_memory.nr_bulk) + 1);
	nr = grant(nr);
	if (nr)
		nr = rxd_alloc_pages_bulk(gfp, NUMA_NO_NODE, nr, pages);
	for (i = 0; i < nr; i++)
		memset(page_address(pages[i]), STALE, PAGE_SIZE);
	atomic_long_add(nr, &test_pages);
	return nr;
}

static void test_barrier(void)
{
	WRITE_ONCE(test_memory.nr_barriers, READ_ONCE(test_memory.nr_barriers) + 1);
	rcu_barrier();
}

static void test_resched(void)
{
	typeof(test_memory.at_resched) at_resched = READ_ONCE(test_memory.at_resched);

	if (at_resched)
		at_resched();
	cond_resched();
}

#undef cond_resched
#define cond_resched()		test_resched()
#define si_mem_available()	test_mem_available()
#define global_zone_page_state(item) test_zone_state(item)
#define zone_page_state(zone, item) test_movable_state(zone, item)
#define global_node_page_state_pages(item) test_node_state_pages(item)
#undef __free_page
#define __free_page(page)	test_free_page(page)
#undef alloc_pages_node
#define alloc_pages_node	test_alloc_pages
#undef rxd_alloc_pages_bulk
#define rxd_alloc_pages_bulk	test_alloc_bulk
#define num_node_state(state)	test_nr_nodes(state)
#undef next_node_in
#define next_node_in(node, mask) test_next_node(node, &(mask))
#define rcu_barrier()		test_barrier()

#include "../module/store.c"
/* The clock by which a write waits for memory. */
#define jiffies			(jiffies + READ_ONCE(test_memory.late))
#include "../module/charge.c"
#include "../module/alloc.c"
#include "../module/copy.c"
#undef jiffies

/* Called when the leaves of a store were changed, and what they shared may not have been left. */
static void test_unlock(spinlock_t *lock, unsigned long flags)
{
	typeof(test_memory.at_unlock) at_unlock = READ_ONCE(test_memory.at_unlock);

	spin_unlock_irqrestore(lock, flags);
	if (at_unlock)
		at_unlock();
}

#define spin_unlock_irqrestore(lock, flags) test_unlock(lock, flags)
#include "../module/share.c"
#undef spin_unlock_irqrestore
#include "../module/hold.c"
#include "../module/record.c"
#include "../module/expendable.c"

void test_move_stock(struct rxd_store *store)
{
	int cpu = raw_smp_processor_id(), other = cpumask_any_but(cpu_online_mask, cpu);

	if (other < nr_cpu_ids)
		atomic_add(atomic_xchg(per_cpu_ptr(store->stock, cpu), 0),
			   per_cpu_ptr(store->stock, other));
}

unsigned int test_largest_stock(const struct rxd_store *store)
{
	int cpu, most = 0;

	for_each_possible_cpu(cpu)
		most = max(most, atomic_read(per_cpu_ptr(store->stock, cpu)));
	return most;
}

void test_note_replaced(long nr)
{
	atomic_long_add(nr, &replaced_pages);
	if (nr > 0)
		rxd_note_retired(nr);
	else
		rxd_note_freed(-nr);
}

static void test_grace_period(void)
{
	typeof(test_memory.at_grace) at_grace = READ_ONCE(test_memory.at_grace);

	if (at_grace)
		at_grace();
	synchronize_rcu();
}

/* Called after a pointer has been read, and before its mark is changed. */
static void *test_plain(void *ptr)
{
	typeof(test_memory.at_mark) at_mark = READ_ONCE(test_memory.at_mark);

	ptr = rxd_plain(ptr);
	if (at_mark)
		at_mark(ptr);
	return ptr;
}

#define synchronize_rcu()	test_grace_period()
#undef rxd_plain
#define rxd_plain(ptr)		test_plain(ptr)
#include "../module/share-marks.c"

void test_begin_lift(void)
{
	mod_delayed_work(lift_wq, &lift_work, 0);
}

void test_lift(void)
{
	test_begin_lift();
	flush_delayed_work(&lift_work);
}

void test_delay_lifts(void)
{
	test_lift();
	WRITE_ONCE(lift_delay, 3600 * HZ);
}

bool test_lift_is_queued(void)
{
	return delayed_work_pending(&lift_work);
}
