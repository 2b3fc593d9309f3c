// SPDX-License-Identifier: GPL-2.0-only
/*
 * The store, on a machine whose free memory the test sets, and what reclaim calls.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/vmstat.h>

#include "lend-test.h"

#include "../module/store.c"
#include "../module/charge.c"
#include "../module/alloc.c"
#include "../module/copy.c"
#include "../module/share.c"
#include "../module/share-marks.c"
#include "../module/hold.c"
#include "../module/record.c"
#include "../module/expendable.c"

/* Less than the headroom. */
#define FREE_IF_FULL	(SZ_2M / PAGE_SIZE)

struct test_machine test_machine;

static unsigned long test_zone_state(struct zone *zone, enum zone_stat_item item)
{
	unsigned long high = zone->_watermark[WMARK_HIGH], nr = zone_page_state(zone, item);

	if (item == NR_ZONE_INACTIVE_FILE)
		return READ_ONCE(test_machine.page_cache);
	if (item == NR_ZONE_ACTIVE_FILE || item == NR_ZONE_WRITE_PENDING)
		return 0;
	if (item != NR_FREE_PAGES)
		return nr;
	/* Reclaim begins when memory is missing. */
	if (current->reclaim_state) {
		nr = READ_ONCE(test_machine.spare);
		return nr ? high + nr : 0;
	}
	return READ_ONCE(test_machine.is_full) ? high + FREE_IF_FULL : nr;
}

static long test_node_state(const struct pglist_data *node, enum node_stat_item item)
{
	return item == NR_VMSCAN_WRITE ? READ_ONCE(test_machine.moved) : 0;
}

static unsigned long test_jiffies(void)
{
	return jiffies + READ_ONCE(test_machine.later);
}

/* Nothing is given back early. */
static bool test_queue(struct workqueue_struct *wq, struct delayed_work *work, unsigned long delay)
{
	return true;
}

#define queue_delayed_work	test_queue
#define zone_page_state(zone, item)	test_zone_state(zone, item)
#define rxd_node_state			test_node_state
#define jiffies				test_jiffies()
#include "../module/lend.c"
#include "../module/give-back.c"
#undef jiffies
#undef queue_delayed_work

/* A pass of reclaim, and the state of its task before. */
struct pass {
	struct reclaim_state state, *outer;
	unsigned int flags;
};

/* As reclaim begins: lockdep then knows which locks are taken. */
static void begin_pass(struct pass *pass)
{
	pass->state = (struct reclaim_state) {};
	pass->outer = current->reclaim_state;
	fs_reclaim_acquire(GFP_KERNEL);
	pass->flags = memalloc_noreclaim_save();
	current->reclaim_state = &pass->state;
}

static void end_pass(struct pass *pass, unsigned long *reclaimed)
{
	current->reclaim_state = pass->outer;
	memalloc_noreclaim_restore(pass->flags);
	fs_reclaim_release(GFP_KERNEL);
	if (reclaimed)
		*reclaimed = pass->state.reclaimed;
}

/* As reclaim calls a shrinker. */
static unsigned long call(unsigned long (*fn)(struct shrinker *s, struct shrink_control *sc),
			  unsigned long nr)
{
	struct shrink_control sc = { .gfp_mask = GFP_KERNEL, .nr_to_scan = nr, .nr_scanned = nr };

	return fn(lend_shrinker, &sc);
}

unsigned long test_count(void)
{
	struct pass pass;
	unsigned long nr;

	begin_pass(&pass);
	nr = call(lend_shrinker->count_objects, 0);
	end_pass(&pass, NULL);
	return nr;
}

unsigned long test_scan(unsigned long nr, unsigned long *reclaimed)
{
	struct pass pass;

	begin_pass(&pass);
	nr = call(lend_shrinker->scan_objects, nr);
	end_pass(&pass, reclaimed);
	return nr;
}

/* Scan @nr pages in batches, all of which belong to one pass. */
unsigned long test_pass(unsigned long nr, bool is_kswapd, unsigned long *reclaimed)
{
	unsigned long given, sum = 0, batch = lend_shrinker->batch;
	struct pass pass;

	begin_pass(&pass);
	if (is_kswapd)
		current->flags |= PF_KSWAPD;
	for (; nr >= batch; nr -= batch) {
		given = call(lend_shrinker->scan_objects, batch);
		if (given == SHRINK_STOP)
			break;
		sum += given;
	}
	if (is_kswapd)
		current->flags &= ~PF_KSWAPD;
	end_pass(&pass, reclaimed);
	return sum;
}

/* For how much free memory this machine gives back what it lent. */
unsigned long test_enough(void)
{
	return rxd_lend_enough(0);
}

long test_give_mark(long headroom, long boost)
{
	return give_mark(headroom, boost);
}

long test_grow_mark(long headroom, long boost)
{
	return grow_mark(headroom, boost);
}

unsigned long test_enough_for_task(unsigned long node_pages)
{
	return enough_for_task(node_pages);
}

unsigned long test_urgent_count(unsigned long lent, unsigned long node_pages)
{
	return urgent_count(lent, node_pages);
}

long test_watch_pages(unsigned int nr_cpus, unsigned long node_pages)
{
	return watch_pages(nr_cpus, node_pages);
}

void test_early(void)
{
	give_early(&early_work.work);
}

/* What was given back before the test counts for no OOM killer. */
void test_forget_gifts(void)
{
	atomic_long_set(&given_pages, 0);
}

unsigned long test_oom(void)
{
	unsigned long freed = 0;

	give_before_oom(&oom_block, 0, &freed);
	return freed;
}

void test_compare(void)
{
	mod_delayed_work(system_dfl_wq, &compare_work, 0);
	flush_delayed_work(&compare_work);
}

long test_reclaimable(void)
{
	return global_node_page_state(NR_KERNEL_MISC_RECLAIMABLE);
}

/* Change what drivers call reclaimable. */
void test_add_reclaimable(long nr)
{
	mod_node_page_state(NODE_DATA(0), NR_KERNEL_MISC_RECLAIMABLE, nr);
}

long test_usable(void)
{
	return usable_memory();
}
