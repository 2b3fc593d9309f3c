/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_LEND_H
#define RXD_LEND_H

#include <linux/list.h>
#include <linux/types.h>

#include "store.h"

/**
 * struct rxd_borrower - a cache that takes memory which nobody needs, and gives it back
 * @store: its store
 * @give: moves lent pages of a node, or of any with NUMA_NO_NODE, out of the store to a list; takes
 *	sleeping locks only if they are free; returns the number of pages, which is at most a block
 *	more than was asked for, or -EBUSY if a lock is held
 * @count_uses: returns the number of pages that were read so far
 * @list: entry in the list of all borrowers
 * @uses: the answer of @count_uses at the last look
 * @worth: uses for each page lately; the borrower with the lowest one gives first
 */
struct rxd_borrower {
	struct rxd_store *store;
	long (*give)(struct rxd_borrower *borrower, unsigned long nr, int nid,
		     struct list_head *pages);
	u64 (*count_uses)(const struct rxd_borrower *borrower);
	struct list_head list;
	u64 uses;
	u64 worth;
};

void rxd_borrow_begin(struct rxd_borrower *borrower);
void rxd_borrow_replace(struct rxd_borrower *old, struct rxd_borrower *new);
void rxd_borrow_end(struct rxd_borrower *borrower);
void rxd_note_givers(int nr);

void rxd_store_set_lending(struct rxd_store *store, unsigned long from);
unsigned long rxd_store_lent(const struct rxd_store *store);
bool rxd_lend_allows(const struct rxd_store *store, unsigned long nr);
bool rxd_lend_may_replace(void);

#endif /* RXD_LEND_H */
