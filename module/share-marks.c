// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find leaves and pages that are not shared any more, and remove their marks, so that they are
 * changed in place.
 *
 * A work item walks the stores that may have marks, twice, with a grace period between. The
 * first pass gives the mark RXD_ALONE to each marked leaf and page that has no other owner. The
 * second pass removes the marks where it finds RXD_ALONE. The grace period lets readers of earlier
 * owners finish, and writers of earlier owners that copy a page.
 *
 * Both passes hold leaf_lock, which rxd_store_share() and rxd_leaf_unshare() need to share or
 * copy a leaf of this store. The owner of a leaf with no other owner is the only store that can
 * share it again, and then the pointer to the leaf loses RXD_ALONE:
 *
 *	lift of store A				clone of store A
 *
 *	leaf 1: no other owner, RXD_ALONE
 *						leaf 1: one more owner, only RXD_SHARED
 *						copies leaf 1, replaces a page, is removed
 *	grace period				a reader may still copy the page
 *	leaf 1: no RXD_ALONE, next leaf
 *
 * RXD_ALONE of the pages of leaf 1 may be wrong then. It stays without effect, because the
 * next walk sets or clears it for all pages of the leaf before it looks at the leaf for the second
 * time. Copies of leaves never have it.
 *
 * Another store changes the count of a page only while it owns a leaf that contains the page, so
 * never from 0. Both columns hold the leaf_lock of their own store:
 *
 *	lift of store A				rxd_leaf_unshare() in store B
 *
 *	page 1 of leaf 1: count is 1
 *						copies leaf 2: count is 2
 *	keeps the mark
 *						gives up both leaves: count is 0, asks for a walk
 *
 * A write, a discard or zeroing exchanges the pointer to a page without leaf_lock. Marks are
 * therefore changed by a compare-and-exchange. If a writer loses that race while it copies a
 * page, it writes to the page itself, or copies again if the page is still marked:
 *
 *	lift of store A				writer in store A
 *
 *						finds page 1, marked; copies it
 *	removes the mark of page 1
 *						cannot exchange page 1, writes to it
 */
#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "store-internal.h"

/* Pages that are visited at a time with interrupts off. */
#define PAGES_PER_VISIT		64

/* When a walk begins after a count has fallen to 0: at least, and in lengths of the last walk. */
#define LIFT_DELAY		HZ
#define LIFT_PAUSE		10

/* Visit pages of a leaf. Return: true if the rest of the leaf is to be visited. */
typedef bool visit_fn(struct rxd_store *store, unsigned long i, struct rxd_leaf *marked,
		      unsigned int first);

static void lift(struct work_struct *work);

static struct workqueue_struct *lift_wq;
static DECLARE_DELAYED_WORK(lift_work, lift);
static unsigned long lift_delay = LIFT_DELAY;
static bool lift_wanted __read_mostly;

/* Stores that may have marks, and the one that is being walked. */
static DEFINE_SPINLOCK(sharers_lock);
static LIST_HEAD(sharers);
static struct rxd_store *walked_store;
static DECLARE_WAIT_QUEUE_HEAD(walked_wait);

#define rxd_is_alone(ptr)	((unsigned long)(ptr) & RXD_ALONE)
#define rxd_alone(ptr)		((typeof(ptr))((unsigned long)(ptr) | RXD_MARKS))

/**
 * rxd_note_alone - ask for a walk, because a leaf or a page has only one owner now
 */
void rxd_note_alone(void)
{
	/* Pairs with lift(). The count has changed by a full barrier. */
	if (READ_ONCE(lift_wanted))
		return;
	WRITE_ONCE(lift_wanted, true);
	queue_delayed_work(lift_wq, &lift_work, READ_ONCE(lift_delay));
}

/**
 * rxd_lift_now - walk without delay, and wait for it
 *
 * Returns when no mark is left on what had no other owner before the call.
 */
void rxd_lift_now(void)
{
	WRITE_ONCE(lift_wanted, true);
	/* A walk that is under way may have passed what has lost its other owner since then. */
	mod_delayed_work(lift_wq, &lift_work, 0);
	flush_delayed_work(&lift_work);
}

/**
 * rxd_lift_add - walk a store from now on
 * @store: the store, in which marks have been set
 */
void rxd_lift_add(struct rxd_store *store)
{
	spin_lock(&sharers_lock);
	WRITE_ONCE(store->has_marks, true);
	if (list_empty(&store->sharer))
		list_add_tail(&store->sharer, &sharers);
	spin_unlock(&sharers_lock);
}

/**
 * rxd_lift_remove - walk a store no more
 * @store: the store, which is about to be freed
 *
 * Does not sleep. See rxd_lift_wait().
 */
void rxd_lift_remove(struct rxd_store *store)
{
	spin_lock(&sharers_lock);
	list_del_init(&store->sharer);
	spin_unlock(&sharers_lock);
}

/**
 * rxd_lift_wait - wait until a store is not being walked
 * @store: the store, after rxd_lift_remove()
 */
void rxd_lift_wait(struct rxd_store *store)
{
	/* Pairs with end_walk(). */
	wait_event(walked_wait, smp_load_acquire(&walked_store) != store);
}

static void change_mark(struct page __rcu **slot, struct page *old, struct page *new)
{
	if (new != old)
		cmpxchg(slot, RCU_INITIALIZER(old), RCU_INITIALIZER(new));
}

/* The first pass: mark with RXD_ALONE what has no other owner, and nothing else. */
static bool find_alone(struct rxd_store *store, unsigned long i, struct rxd_leaf *marked,
		       unsigned int first)
{
	struct rxd_leaf *leaf = rxd_plain(marked);
	bool shared = rxd_is_shared(marked);
	struct page *old, *page;
	unsigned int n;

	if (shared && !first) {
		/* See the counts of pages in leaves that the earlier owners have copied. */
		if (atomic_long_read_acquire(rxd_leaf_state(leaf)) >= RXD_LEAF_OWNER)
			return false;
		rxd_set_leaf(store, i, rxd_alone(leaf));
	} else if (shared && !rxd_is_alone(marked)) {
		return false;
	}
	for (n = first; n < first + PAGES_PER_VISIT; n++) {
		old = rcu_access_pointer(leaf->page[n]);
		page = rxd_plain(old);
		/* A page without a mark in a marked leaf may be in copies of the leaf, too. */
		if (!page || !(shared || rxd_is_shared(old)))
			continue;
		change_mark(&leaf->page[n], old, atomic_long_read(rxd_page_others(page)) ?
			    rxd_shared(page) : rxd_alone(page));
	}
	return true;
}

/* The second pass: remove the marks of what has RXD_ALONE. */
static bool remove_marks(struct rxd_store *store, unsigned long i, struct rxd_leaf *marked,
			 unsigned int first)
{
	struct rxd_leaf *leaf = rxd_plain(marked);
	struct page *old;
	unsigned int n;

	if (rxd_is_shared(marked) && !rxd_is_alone(marked)) {
		WRITE_ONCE(store->has_marks, true);
		return false;
	}
	for (n = first; n < first + PAGES_PER_VISIT; n++) {
		old = rcu_access_pointer(leaf->page[n]);
		if (rxd_is_alone(old))
			change_mark(&leaf->page[n], old, rxd_plain(old));
		else if (rxd_is_shared(old))
			WRITE_ONCE(store->has_marks, true);
	}
	if (leaf != marked && n == RXD_PAGES_PER_LEAF)
		rxd_set_leaf(store, i, leaf);
	return true;
}

static bool visit_pages(struct rxd_store *store, unsigned long i, unsigned int first,
			visit_fn *visit)
{
	struct rxd_leaf *leaf = NULL;
	bool more = false;

	spin_lock_irq(&store->leaf_lock);
	rcu_read_lock();
	if (i < store->dir_leaves)
		leaf = rxd_leaf_locked(store, i);
	if (leaf)
		more = visit(store, i, leaf, first);
	rcu_read_unlock();
	spin_unlock_irq(&store->leaf_lock);
	return more;
}

static void walk(struct rxd_store *store, visit_fn *visit)
{
	unsigned int first;
	unsigned long i;

	/* A store that leaves the list is about to be freed. */
	for (i = 0; i < READ_ONCE(store->dir_leaves) && !list_empty(&store->sharer); i++) {
		for (first = 0; first < RXD_PAGES_PER_LEAF; first += PAGES_PER_VISIT)
			if (!visit_pages(store, i, first, visit))
				break;
		cond_resched();
	}
}

static struct rxd_store *begin_walk(unsigned int pass)
{
	struct rxd_store *store;

	spin_lock(&sharers_lock);
	store = list_first_entry_or_null(&sharers, struct rxd_store, sharer);
	if (store && store->pass == pass)
		store = NULL;
	if (store) {
		store->pass = pass;
		WRITE_ONCE(store->has_marks, false);
		list_move_tail(&store->sharer, &sharers);
	}
	WRITE_ONCE(walked_store, store);
	spin_unlock(&sharers_lock);
	return store;
}

static void end_walk(struct rxd_store *store, bool forget)
{
	spin_lock(&sharers_lock);
	if (forget && !store->has_marks)
		list_del_init(&store->sharer);
	/* From now on, the store may be freed: pairs with rxd_lift_wait(). */
	smp_store_release(&walked_store, NULL);
	spin_unlock(&sharers_lock);
	wake_up_all(&walked_wait);
}

static void walk_all(visit_fn *visit)
{
	static unsigned int pass;
	struct rxd_store *store;

	pass++;
	while ((store = begin_walk(pass))) {
		walk(store, visit);
		end_walk(store, visit == remove_marks);
	}
}

static void lift(struct work_struct *work)
{
	unsigned long begin = jiffies;

	WRITE_ONCE(lift_wanted, false);
	/* See the counts that fell before: pairs with rxd_note_alone(). */
	smp_mb();
	walk_all(find_alone);
	synchronize_rcu();
	walk_all(remove_marks);
	/* Take a tenth of the time of one CPU at most. */
	WRITE_ONCE(lift_delay, max_t(unsigned long, LIFT_DELAY, LIFT_PAUSE * (jiffies - begin)));
}

/**
 * rxd_lift_init - prepare for walks
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_lift_init(void)
{
	/* Writes to reserved memory wait for it, also those of reclaim. */
	lift_wq = alloc_workqueue("rxd_lift", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return lift_wq ? 0 : -ENOMEM;
}

/**
 * rxd_lift_exit - undo rxd_lift_init(), after all stores were freed
 */
void rxd_lift_exit(void)
{
	cancel_delayed_work_sync(&lift_work);
	destroy_workqueue(lift_wq);
}
