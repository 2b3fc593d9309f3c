// SPDX-License-Identifier: GPL-2.0-only
/*
 * The store, on a machine whose free memory the test sets, and what reclaim calls.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/vmstat.h>

#include "lend-test.h"

#include "../module/store.c"
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
	unsigned long nr = zone_page_state(zone, item);

	if (item != NR_FREE_PAGES)
		return nr;
	/* Reclaim begins when memory is missing. */
	if (current->reclaim_state)
		return READ_ONCE(test_machine.is_served) ? nr : 0;
	return READ_ONCE(test_machine.is_full) ? zone->_watermark[WMARK_HIGH] + FREE_IF_FULL : nr;
}

static long test_node_state(const struct pglist_data *node, enum node_stat_item item)
{
	return item == NR_INACTIVE_FILE ? READ_ONCE(test_machine.page_cache) : 0;
}

#define zone_page_state(zone, item)	test_zone_state(zone, item)
#define rxd_node_state			test_node_state
#include "../module/lend.c"

/* As reclaim calls a shrinker: lockdep then knows which locks it takes. */
static unsigned long call(unsigned long (*fn)(struct shrinker *s, struct shrink_control *sc),
			  unsigned long nr, unsigned long *reclaimed)
{
	struct shrink_control sc = { .gfp_mask = GFP_KERNEL, .nr_to_scan = nr };
	struct reclaim_state state = {}, *outer = current->reclaim_state;
	unsigned int flags;
	unsigned long ret;

	fs_reclaim_acquire(GFP_KERNEL);
	flags = memalloc_noreclaim_save();
	current->reclaim_state = &state;
	ret = fn(lend_shrinker, &sc);
	current->reclaim_state = outer;
	memalloc_noreclaim_restore(flags);
	fs_reclaim_release(GFP_KERNEL);
	if (reclaimed)
		*reclaimed = state.reclaimed;
	return ret;
}

unsigned long test_count(void)
{
	return call(lend_shrinker->count_objects, 0, NULL);
}

unsigned long test_scan(unsigned long nr, unsigned long *reclaimed)
{
	return call(lend_shrinker->scan_objects, nr, reclaimed);
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
