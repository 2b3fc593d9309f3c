// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stores that are given up for others: a write that finds no memory lets go of the pages of
 * expendable clones with which its store shares pages.
 *
 * The write must not take the locks that this needs, because the I/O of a suspended cache may
 * wait for them. It marks the store as lost, and waits until a work item has removed the pages.
 */
#include <linux/atomic.h>
#include <linux/spinlock.h>

#include "expendable.h"
#include "store-internal.h"

static DEFINE_SPINLOCK(expendables_lock);
static LIST_HEAD(expendables);
static atomic_t nr_giving_up;

static struct workqueue_struct *expend_wq;

/**
 * rxd_expendable_init - initialise a store that is not expendable yet
 * @expendable: what rxd_expendable_add() and rxd_expendable_remove() are called for
 * @give_up: the function of the work item
 */
void rxd_expendable_init(struct rxd_expendable *expendable, work_func_t give_up)
{
	INIT_WORK(&expendable->work, give_up);
	INIT_LIST_HEAD(&expendable->list);
}

/**
 * rxd_expendable_add - make a store expendable
 * @expendable: the entry for the store
 * @store: the store
 */
void rxd_expendable_add(struct rxd_expendable *expendable, struct rxd_store *store)
{
	expendable->store = store;
	spin_lock(&expendables_lock);
	list_add_tail(&expendable->list, &expendables);
	spin_unlock(&expendables_lock);
}

/**
 * rxd_expendable_keep - keep the pages of a store, if it was not given up yet
 * @expendable: the entry for the store, expendable or not
 *
 * Return: false if the store was given up.
 */
bool rxd_expendable_keep(struct rxd_expendable *expendable)
{
	bool lost = false;

	spin_lock(&expendables_lock);
	if (!list_empty(&expendable->list)) {
		lost = expendable->store->lost;
		if (!lost)
			list_del_init(&expendable->list);
	}
	spin_unlock(&expendables_lock);
	return !lost;
}

/**
 * rxd_expendable_remove - end the use of an entry
 * @expendable: the entry, expendable or not; the caller has cleared its store
 *
 * Waits until the work item has ended, whose locks the caller must not hold.
 */
void rxd_expendable_remove(struct rxd_expendable *expendable)
{
	spin_lock(&expendables_lock);
	list_del_init(&expendable->list);
	spin_unlock(&expendables_lock);
	if (cancel_work_sync(&expendable->work))
		rxd_expendable_gave_up();
}

/**
 * rxd_expendable_gave_up - tell waiting writes that rxd_store_clear() has removed the pages
 */
void rxd_expendable_gave_up(void)
{
	/* rxd_store_clear() has counted its change before, so who sees 0 sees that. */
	smp_mb__before_atomic();
	atomic_dec(&nr_giving_up);
	rxd_wake_waiters();
}

/**
 * rxd_is_giving_up - are there stores whose pages are about to be freed?
 *
 * Return: true if rxd_expendable_gave_up() will be called.
 */
bool rxd_is_giving_up(void)
{
	return atomic_read(&nr_giving_up) > 0;
}

/**
 * rxd_give_up_others - give up the expendable stores that share pages with a store
 * @store: the store, which needs memory
 *
 * Does not sleep.
 *
 * Return: true if the caller should wait while rxd_is_giving_up(), and try again.
 */
bool rxd_give_up_others(struct rxd_store *store)
{
	unsigned long family = READ_ONCE(store->family);
	struct rxd_expendable *expendable;
	bool found = false;

	if (!family)
		return false;
	spin_lock(&expendables_lock);
	list_for_each_entry(expendable, &expendables, list) {
		if (expendable->store == store || expendable->store->lost ||
		    READ_ONCE(expendable->store->family) != family)
			continue;
		WRITE_ONCE(expendable->store->lost, true);
		atomic_inc(&nr_giving_up);
		queue_work(expend_wq, &expendable->work);
		found = true;
	}
	spin_unlock(&expendables_lock);
	/* The work waits for writes to its store, and they must not wait for it. */
	if (found)
		rxd_wake_waiters();
	/* The work may have ended already. */
	return found || rxd_is_giving_up();
}

/**
 * rxd_leave_family - let no write give up a store for others any more
 * @store: the store, whose pages were removed
 *
 * A write whose allocation failed before tries again. There may be no page to be freed, but those
 * of other stores can be replaced now. A write that does not find the family any more must find the
 * change, so it is counted first.
 */
void rxd_leave_family(struct rxd_store *store)
{
	rxd_begin_change();
	rxd_end_change();
	/* Pairs with rxd_store_wait_for_memory(). */
	smp_store_release(&store->family, 0);
}

/**
 * rxd_expend_init - allocate what all expendable stores share
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_expend_init(void)
{
	expend_wq = alloc_workqueue("rxd_expend", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return expend_wq ? 0 : -ENOMEM;
}

/**
 * rxd_expend_exit - undo rxd_expend_init()
 */
void rxd_expend_exit(void)
{
	destroy_workqueue(expend_wq);
}
