// SPDX-License-Identifier: GPL-2.0-only
/*
 * The limit, on a machine on which the test says whether pages may replace others. Whoever gives a
 * block lets the test do what another task might do after the block is claimed.
 */
#include "../dm-target/index.h"
#include "../module/lend.h"
#include "lend-test.h"

struct test_limit test_limit;

static bool test_may_replace(void)
{
	return !READ_ONCE(test_limit.is_waiting);
}

static bool test_take_out(struct rxc_index *index, int nid, struct rxc_victims *victims,
			  struct list_head *pages)
{
	typeof(test_limit.at_claim) at_claim = READ_ONCE(test_limit.at_claim);

	if (at_claim)
		at_claim();
	return rxc_index_take_out(index, nid, victims, pages);
}

#define rxd_lend_may_replace	test_may_replace
#define rxc_index_take_out	test_take_out
#include "../dm-target/limit.c"
