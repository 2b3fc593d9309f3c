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
	return atomic_long_read(&freed_pages);
}
