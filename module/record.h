/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_RECORD_H
#define RXD_RECORD_H

#include <linux/types.h>
#include <linux/uuid.h>

struct rxd_store;

/**
 * struct rxd_record - which pages were changed since a state of a disk
 * @id: a number that no other record has had
 * @state: the name of the state
 * @nr_pages: number of pages
 * @bits: a bit for each page
 */
struct rxd_record {
	u64 id;
	uuid_t state;
	unsigned long nr_pages;
	unsigned long bits[];
};

/**
 * struct rxd_loan - a record that was moved from a store to a clone
 * @taken: the number of the record, or 0 if the store had none
 * @left: the number of the record that the store got instead; 0 means that there is no loan
 */
struct rxd_loan {
	u64 taken;
	u64 left;
};

int rxd_record_prepare(unsigned long nr_pages);
struct rxd_record *rxd_record_alloc(unsigned long nr_pages, const u8 *state);
void rxd_record_free(struct rxd_record *record);
void rxd_record_note(struct rxd_record *record, u64 pos, unsigned int len);
void rxd_record_add(struct rxd_record *record, const struct rxd_record *other);
unsigned long rxd_record_next(const struct rxd_record *record, unsigned long first,
			      unsigned long end, bool changed);
struct rxd_record *rxd_store_record(const struct rxd_store *store);
struct rxd_record *rxd_store_swap_record(struct rxd_store *store, struct rxd_record *record);
struct rxd_record *rxd_store_replace_record(struct rxd_store *store,
					    struct rxd_record *record);
void rxd_store_lend_record(struct rxd_store *store, struct rxd_store *clone,
			   struct rxd_record *record, struct rxd_loan *loan);
void rxd_store_return_record(struct rxd_store *store, const struct rxd_loan *loan,
			     struct rxd_record *record);

#endif /* RXD_RECORD_H */
