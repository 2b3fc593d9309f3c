// SPDX-License-Identifier: GPL-2.0-only
#include "store.c"
#include "store-test.h"

/* What whoever waits for memory to come back waits for, and how much has come. */
long test_awaited(void)
{
	return atomic_long_read(&retired_pages);
}

long test_freed(void)
{
	return atomic_long_read(&freed_pages);
}
