/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between the parts of the page store: the index of pages (store.c), their
 * allocation (alloc.c), and copies (copy.c).
 */
#ifndef RXD_STORE_INTERNAL_H
#define RXD_STORE_INTERNAL_H

#include <linux/math.h>
#include <linux/types.h>

#include "store.h"

static inline unsigned long rxd_nr_leaves(unsigned long nr_pages)
{
	return DIV_ROUND_UP(nr_pages, RXD_PAGES_PER_LEAF);
}

/* store.c */

struct rxd_leaf *rxd_leaf_get(struct rxd_store *store, unsigned long pgno, unsigned int nr,
			      gfp_t gfp);
void rxd_leaf_put(struct rxd_store *store, struct rxd_leaf *leaf, unsigned long pgno,
		  unsigned int nr);
unsigned int rxd_store_free_run(struct rxd_store *store, unsigned long first,
				unsigned int nr);

/* alloc.c: the limit */

unsigned int rxd_store_charge(struct rxd_store *store, unsigned int nr);
void rxd_store_uncharge(struct rxd_store *store, unsigned long nr);
void rxd_store_discharge(struct rxd_store *store, unsigned long nr);
void rxd_store_note_max_used(struct rxd_store *store, long used);

/* alloc.c: memory */

struct rxd_leaf *rxd_leaf_alloc(const struct rxd_store *store, unsigned long pgno, gfp_t gfp);
void rxd_write_alloc(struct rxd_write *write, const struct rxd_store *store,
		     unsigned long pgno, unsigned int nr);

static inline struct page *rxd_write_page(const struct rxd_write *write, unsigned int i)
{
	return write->contiguous ? write->page[0] + i : write->page[i];
}

/* alloc.c: memory that is being freed, and tasks that wait for it */

void rxd_note_retired(unsigned long nr);
void rxd_note_freed(unsigned long nr);
void rxd_retire_pages(struct page *first, unsigned int nr);
long rxd_freed_pages(void);
bool rxd_store_wait_for_memory(struct rxd_store *store, long freed, struct rxd_write *write);
void rxd_store_found_memory(struct rxd_store *store);

#endif /* RXD_STORE_INTERNAL_H */
