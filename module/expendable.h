/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_EXPENDABLE_H
#define RXD_EXPENDABLE_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct rxd_store;

/**
 * struct rxd_expendable - a store whose pages are given up if memory is short
 * @store: the store
 * @work: removes its pages, and calls rxd_expendable_gave_up()
 * @list: entry in the list of all of them, or empty
 */
struct rxd_expendable {
	struct rxd_store *store;
	struct work_struct work;
	struct list_head list;
};

void rxd_expendable_init(struct rxd_expendable *expendable, work_func_t give_up);
void rxd_expendable_add(struct rxd_expendable *expendable, struct rxd_store *store);
bool rxd_expendable_keep(struct rxd_expendable *expendable);
void rxd_expendable_remove(struct rxd_expendable *expendable);
void rxd_expendable_gave_up(void);

#endif /* RXD_EXPENDABLE_H */
