// SPDX-License-Identifier: GPL-2.0-only
/* 6bf9b5b40af4 ("mm: alloc_pages_bulk: rename API") */
#include <linux/gfp.h>

unsigned long probe(struct page **pages);
unsigned long probe(struct page **pages)
{
	return alloc_pages_bulk_node(GFP_KERNEL, NUMA_NO_NODE, 1, pages);
}
