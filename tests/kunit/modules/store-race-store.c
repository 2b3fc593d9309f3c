// SPDX-License-Identifier: GPL-2.0-only
#include "store.c"
#include "store-test.h"

/* Pages that were queued for freeing, and pages that were freed. */
long test_awaited(void)
{
	return atomic_long_read(&retired_pages);
}

long test_freed(void)
{
	return freed_so_far();
}

bool test_is_changing(void)
{
	return is_changing();
}

bool test_is_awaited(void)
{
	/* The caller polls, so no barrier is needed. */
	return waitqueue_active(&freed_wait);
}

long test_owners(void)
{
	long nr = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		nr += per_cpu(owners_held, cpu);
	return nr;
}
