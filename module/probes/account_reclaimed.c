// SPDX-License-Identifier: GPL-2.0-only
/* 583c27a1675d ("mm: vmscan: add a helper to account reclaimed pages") */
#include <linux/swap.h>

void probe(void);
void probe(void)
{
	mm_account_reclaimed_pages(1);
}
