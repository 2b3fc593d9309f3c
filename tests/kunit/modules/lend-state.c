// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of slots, which tells the test of pages beyond the minimum that may wake kswapd.
 */
#include "../module/rxd.h"
#include "lend-test.h"

static int test_exchange(struct rxd_store *store, unsigned long pgno, struct page *page, gfp_t gfp)
{
	if (page && gfp & __GFP_RECLAIM && rxd_store_used(store) > READ_ONCE(store->lent_from))
		atomic_inc(&test_limit.nr_wakes);
	return rxd_store_exchange(store, pgno, page, gfp);
}

#define rxd_store_exchange	test_exchange
#include "../dm-target/state.c"
