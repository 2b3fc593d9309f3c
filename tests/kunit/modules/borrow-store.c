// SPDX-License-Identifier: GPL-2.0-only
/*
 * The store and what lends memory to caches, on a machine with two nodes.
 */
#include <linux/cpuset.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include "../module/compat.h"
#include "borrow-test.h"

struct test_machine test_machine;

static struct pglist_data test_nodes[NR_NODES];
static nodemask_t test_states[NR_NODE_STATES];

int test_nid(const struct page *page)
{
	return page_to_pfn(page) % NR_NODES;
}

/* Pages that were allocated while one of the other node was wanted. */
static DEFINE_SPINLOCK(pool_lock);
static struct list_head pool[NR_NODES] = { LIST_HEAD_INIT(pool[0]), LIST_HEAD_INIT(pool[1]) };

static struct page *pool_get(int node)
{
	struct page *page;
	unsigned long flags;

	spin_lock_irqsave(&pool_lock, flags);
	page = list_first_entry_or_null(&pool[node], struct page, lru);
	if (page)
		list_del(&page->lru);
	spin_unlock_irqrestore(&pool_lock, flags);
	return page;
}

static void pool_put(struct page *page)
{
	unsigned long flags;

	spin_lock_irqsave(&pool_lock, flags);
	list_add(&page->lru, &pool[test_nid(page)]);
	spin_unlock_irqrestore(&pool_lock, flags);
}

static struct page *page_of_node(int node, gfp_t gfp)
{
	struct page *page = pool_get(node);

	while (!page || test_nid(page) != node) {
		if (page)
			pool_put(page);
		page = alloc_page(gfp);
		if (!page)
			return NULL;
	}
	if (gfp & __GFP_ZERO)
		clear_page(page_address(page));
	return page;
}

void test_end(void)
{
	struct page *page;
	int node;

	for (node = 0; node < NR_NODES; node++)
		while ((page = pool_get(node)))
			__free_page(page);
}

static struct page *test_alloc_pages(int node, gfp_t gfp, unsigned int order)
{
	if (order)
		return NULL;
	return page_of_node(node == NUMA_NO_NODE ? test_machine.local : node,
			    gfp & ~__GFP_THISNODE);
}

static int test_nr_nodes(enum node_states state)
{
	return NR_NODES;
}

static int test_next_node(int node, const nodemask_t *nodes)
{
	return (node + 1) % NR_NODES;
}

static void test_grace_period(void)
{
	test_machine.nr_graces++;
	synchronize_rcu_expedited();
}

#undef MAX_NUMNODES
#define MAX_NUMNODES		NR_NODES
#undef nr_node_ids
#define nr_node_ids		((unsigned int)NR_NODES)
#define node_states		test_states
#define node_state(node, state)	node_isset(node, test_states[state])
#define num_node_state(state)	test_nr_nodes(state)
#undef next_node_in
#define next_node_in(node, mask) test_next_node(node, &(mask))
#define NODE_DATA(node)		(&test_nodes[node])
#undef numa_mem_id
#define numa_mem_id()		(test_machine.local)
#undef cpuset_current_mems_allowed
#define cpuset_current_mems_allowed (test_machine.allowed)
#define page_to_nid(page)	test_nid(page)
#define mod_node_page_state(node, item, nr) atomic_long_add(nr, &(node)->vm_stat[item])
#define totalram_pages()	MACHINE_PAGES
#define current_is_kswapd()	(test_machine.is_kswapd)
#define synchronize_rcu_expedited() test_grace_period()
#undef alloc_pages_node
#define alloc_pages_node	test_alloc_pages

#include "../module/store.c"
#include "../module/charge.c"
#include "../module/alloc.c"
#include "../module/copy.c"
#include "../module/share.c"
#include "../module/share-marks.c"
#include "../module/hold.c"
#include "../module/record.c"
#include "../module/expendable.c"

/* Memory is given back early only if the test calls for it. */
static struct {
	struct workqueue_struct *wq;
	struct delayed_work *work;
	unsigned long delay;
} queued;

static bool test_queue(struct workqueue_struct *wq, struct delayed_work *work, unsigned long delay)
{
	queued.wq = wq;
	queued.work = work;
	queued.delay = delay;
	return true;
}

#define queue_delayed_work	test_queue
/* The clock of what has moved lately. */
#define jiffies			(jiffies + READ_ONCE(test_machine.late))
#include "../module/lend.c"
#include "../module/give-back.c"
#undef jiffies
#undef queue_delayed_work

struct zone *test_zone(int node, enum zone_type type)
{
	return &test_nodes[node].node_zones[type];
}

atomic_long_t *test_zone_stat(int node, enum zone_type type, enum zone_stat_item item)
{
	return &test_zone(node, type)->vm_stat[item];
}

atomic_long_t *test_stat(int node, enum node_stat_item item)
{
	return &test_nodes[node].vm_stat[item];
}

/* Leave so many pages free beyond a watermark, and beyond what the zone keeps. */
void test_set_spare(int node, enum zone_watermarks mark, long nr)
{
	struct zone *zone = test_zone(node, ZONE_NORMAL);

	atomic_long_set(&zone->vm_stat[NR_FREE_PAGES],
			zone->_watermark[mark] + zone->lowmem_reserve[ZONE_MOVABLE] + nr);
}

void test_set_movable(int node)
{
	node_clear(node, test_states[N_NORMAL_MEMORY]);
}

void test_begin(void)
{
	struct zone *zone;
	int node, i;

	/* Nothing is lent now, and counts nothing. */
	test_machine = (struct test_machine) {};
	atomic_long_set(&given_pages, 0);
	for (node = 0; node < NR_NODES; node++) {
		watches[node] = (struct watch) {};
		early_on_node[node] = (struct early) {};
		node_set(node, test_machine.allowed);
		node_set(node, test_states[N_MEMORY]);
		node_set(node, test_states[N_NORMAL_MEMORY]);
		test_nodes[node].node_present_pages = MACHINE_PAGES / NR_NODES;
		for (i = 0; i < NR_VM_NODE_STAT_ITEMS; i++)
			atomic_long_set(test_stat(node, i), 0);
		zone = test_zone(node, ZONE_NORMAL);
		zone->present_pages = MACHINE_PAGES / NR_NODES;
		atomic_long_set(&zone->managed_pages, MACHINE_PAGES / NR_NODES);
		zone->watermark_boost = 0;
		zone->nr_reserved_highatomic = 0;
		zone->_watermark[WMARK_MIN] = 1000;
		zone->_watermark[WMARK_LOW] = 1250;
		zone->_watermark[WMARK_HIGH] = 1500;
		zone->lowmem_reserve[ZONE_MOVABLE] = 100;
		for (i = 0; i < NR_VM_ZONE_STAT_ITEMS; i++)
			atomic_long_set(&zone->vm_stat[i], 0);
		for (i = 0; i < NR_VM_ZONE_STAT_ITEMS; i++)
			atomic_long_set(&test_zone(node, ZONE_MOVABLE)->vm_stat[i], 0);
		test_zone(node, ZONE_MOVABLE)->present_pages = 0;
		test_set_spare(node, WMARK_HIGH, MACHINE_PAGES / 4);
	}
}

struct page *test_page(int node)
{
	struct page *page = page_of_node(node, GFP_KERNEL);

	if (page)
		this_cpu_inc(pages_held);
	return page;
}

long test_lent_on(int node)
{
	return READ_ONCE(lent_on_node[node]);
}

/* As reclaim calls a shrinker: lockdep then knows which locks it takes. */
static unsigned long call(unsigned long (*fn)(struct shrinker *s, struct shrink_control *sc),
			  int node, unsigned long nr, struct reclaim_state *state)
{
	struct shrink_control sc = { .gfp_mask = GFP_KERNEL, .nid = node, .nr_to_scan = nr };
	struct reclaim_state *outer = current->reclaim_state;
	unsigned int flags;
	unsigned long ret;

	fs_reclaim_acquire(GFP_KERNEL);
	flags = memalloc_noreclaim_save();
	current->reclaim_state = state;
	ret = fn(lend_shrinker, &sc);
	current->reclaim_state = outer;
	memalloc_noreclaim_restore(flags);
	fs_reclaim_release(GFP_KERNEL);
	return ret;
}

unsigned long test_count(int node)
{
	struct reclaim_state state = {};

	return call(lend_shrinker->count_objects, node, 0, &state);
}

unsigned long test_scan(int node, unsigned long nr, unsigned long *reclaimed)
{
	struct reclaim_state state = {};
	unsigned long ret = call(lend_shrinker->scan_objects, node, nr, &state);

	if (reclaimed)
		*reclaimed = state.reclaimed;
	return ret;
}

/* As drop_caches does. */
unsigned long test_drop(int node, unsigned long nr)
{
	return call(lend_shrinker->scan_objects, node, nr, NULL);
}

unsigned long test_oom(void)
{
	unsigned long freed = 0;

	give_before_oom(&oom_block, 0, &freed);
	return freed;
}

int test_moving_caches(void)
{
	return atomic_read(&moving_caches);
}

void test_compare(void)
{
	mod_delayed_work(system_dfl_wq, &compare_work, 0);
	flush_delayed_work(&compare_work);
}

/* Return: after how many jiffies memory is looked at since the last call, ULONG_MAX: not at all. */
unsigned long test_delay(void)
{
	unsigned long delay = ULONG_MAX;

	if (queued.wq == early_wq && queued.work == &early_work)
		delay = queued.delay;
	queued.wq = NULL;
	return delay;
}

/* Return: as test_delay(), after it has looked. */
unsigned long test_early(void)
{
	queued.wq = NULL;
	give_early(&early_work.work);
	return test_delay();
}

void test_note_retired(long nr)
{
	if (nr > 0)
		rxd_note_retired(nr);
	else
		rxd_note_freed(-nr);
}

unsigned long test_headroom(void)
{
	return rxd_headroom();
}
