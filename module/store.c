// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages of a RAM disk: look up, insert, free, walk.
 *
 * The capacity is known, so the index is an array of leaves. A leaf is one page of page
 * pointers, so two dependent loads find a page. Leaves are allocated on demand and freed
 * with their last page. A page enters the index only after it has been filled, and is
 * freed an RCU grace period after it has left. Readers under rcu_read_lock() need no
 * reference.
 */
#include <linux/build_bug.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "hold.h"
#include "lend.h"
#include "store-internal.h"

/* While pages are freed, the struct page of a page this far ahead is prefetched. */
#define FREE_AHEAD	8

/* Leaves that are copied at a time with interrupts off when the directory is replaced. */
#define LEAVES_PER_COPY	4096

/* Leaves that are removed from the directory at a time with interrupts off. */
#define LEAVES_PER_DETACH	256

static void reap(struct work_struct *work);

static struct workqueue_struct *reap_wq;
static DECLARE_WORK(reap_work, reap);

/* Leaves that have left their store, linked through lru. */
struct leaf_lists {
	struct list_head own;		/* no other store uses them */
	struct list_head released;	/* were shared; for rxd_leaf_release() */
};

/* What reap_work frees. */
static DEFINE_SPINLOCK(doomed_lock);
static LIST_HEAD(doomed_stores);
static struct leaf_lists doomed_leaves = {
	.own		= LIST_HEAD_INIT(doomed_leaves.own),
	.released	= LIST_HEAD_INIT(doomed_leaves.released),
};

static size_t size_of_dir(unsigned long nr_pages)
{
	return size_mul(rxd_nr_leaves(nr_pages), sizeof(struct rxd_leaf *));
}

static struct rxd_leaf __rcu **alloc_dir(unsigned long nr_pages)
{
	return kvmalloc(size_of_dir(nr_pages),
			GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN);
}

/**
 * rxd_store_prepare - wait for the memory that an empty store will take
 * @nr_pages: capacity in pages
 *
 * May sleep while memory is being freed.
 *
 * Return: 0, -ENOMEM, or -EINTR if the task is killed.
 */
int rxd_store_prepare(unsigned long nr_pages)
{
	return rxd_prepare_table(size_of_dir(nr_pages));
}

/**
 * rxd_store_create - create an empty store
 * @nr_pages: capacity in pages, greater than 0
 * @options: how pages are allocated
 *
 * Return: the store, or NULL if memory is short.
 */
struct rxd_store *rxd_store_create(unsigned long nr_pages,
				   const struct rxd_store_options *options)
{
	struct rxd_leaf __rcu **dir;
	struct rxd_store *store;

	if (rxd_store_prepare(nr_pages))
		return NULL;
	store = kzalloc_obj(*store, GFP_KERNEL);
	if (!store)
		return NULL;

	dir = alloc_dir(nr_pages);
	if (!dir)
		goto out_free_store;

	store->on_node = kcalloc(nr_node_ids, sizeof(*store->on_node), GFP_KERNEL);
	store->stock = alloc_percpu_gfp(atomic_t, GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (!store->on_node || !store->stock)
		goto out_free_counters;

	rcu_assign_pointer(store->dir, dir);
	store->nr_pages = nr_pages;
	store->dir_leaves = rxd_nr_leaves(nr_pages);
	store->limit = ULONG_MAX;
	store->mem_limit = ULONG_MAX;
	store->cap = ULONG_MAX;
	store->lent_from = ULONG_MAX;
	store->options = *options;
	spin_lock_init(&store->leaf_lock);
	spin_lock_init(&store->charge_lock);
	INIT_LIST_HEAD(&store->sharer);
	return store;

out_free_counters:
	free_percpu(store->stock);
	kfree(store->on_node);
	kvfree(dir);
out_free_store:
	kfree(store);
	return NULL;
}

static unsigned long nr_to_free(struct rxd_store *store)
{
	return atomic_long_read(&store->used) + atomic_long_read(&store->leaves) + 1;
}

/**
 * rxd_store_destroy - free a store and all its pages
 * @store: the store, which has no other user; NULL is allowed
 *
 * The memory is freed in the background.
 */
void rxd_store_destroy(struct rxd_store *store)
{
	if (!store)
		return;
	rxd_lift_remove(store);
	rxd_store_return_stocks(store, 0);
	/* Writes that are short of memory wait for the memory of this store. */
	rxd_note_retired(nr_to_free(store));
	spin_lock(&doomed_lock);
	list_add_tail(&store->doomed, &doomed_stores);
	spin_unlock(&doomed_lock);
	queue_work(reap_wq, &reap_work);
}

/**
 * rxd_store_nr_pages - get the capacity of a store
 * @store: the store
 *
 * Return: number of pages.
 */
unsigned long rxd_store_nr_pages(const struct rxd_store *store)
{
	/* Pairs with rxd_store_grow(): a task that sees the capacity sees its directory. */
	return smp_load_acquire(&store->nr_pages);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_nr_pages, RXD_NS);

/**
 * rxd_store_get_stats - read the counters of a store
 * @store: the store
 * @stats: filled in
 */
void rxd_store_get_stats(struct rxd_store *store, struct rxd_store_stats *stats)
{
	stats->used = rxd_store_count_used(store, &stats->max_used);
	stats->limit = READ_ONCE(store->mem_limit);
	stats->index_bytes = sizeof(*store) + nr_node_ids * sizeof(*store->on_node) +
			     num_possible_cpus() * sizeof(*store->stock) +
			     READ_ONCE(store->dir_leaves) * sizeof(struct rxd_leaf *) +
			     atomic_long_read(&store->leaves) * sizeof(struct rxd_leaf) +
			     READ_ONCE(store->record_bytes);
}

static void copy_leaves(struct rxd_store *store, struct rxd_leaf __rcu **from,
			struct rxd_leaf __rcu **to, unsigned long nr)
{
	unsigned long i, part;

	for (i = 0; i < nr; i += part) {
		part = min_t(unsigned long, nr - i, LEAVES_PER_COPY);
		spin_lock_irq(&store->leaf_lock);
		memcpy(to + i, from + i, part * sizeof(*to));
		spin_unlock_irq(&store->leaf_lock);
		cond_resched();
	}
}

/* Replace the directory by one for @nr_pages pages. I/O to pages in both continues. */
static int replace_dir(struct rxd_store *store, unsigned long nr_pages)
{
	struct rxd_leaf __rcu **old, **new;

	new = alloc_dir(nr_pages);
	if (!new)
		return -ENOMEM;

	/* From now on, new leaves enter both directories. */
	spin_lock_irq(&store->leaf_lock);
	old = rcu_dereference_protected(store->dir, lockdep_is_held(&store->leaf_lock));
	store->next_dir = new;
	spin_unlock_irq(&store->leaf_lock);

	copy_leaves(store, old, new, rxd_nr_leaves(min(nr_pages, store->nr_pages)));

	spin_lock_irq(&store->leaf_lock);
	rcu_assign_pointer(store->dir, new);
	store->next_dir = NULL;
	WRITE_ONCE(store->dir_leaves, rxd_nr_leaves(nr_pages));
	spin_unlock_irq(&store->leaf_lock);

	synchronize_rcu();
	kvfree(old);
	return 0;
}

/**
 * rxd_store_prepare_grow - wait for the memory that rxd_store_grow() will need
 * @store: the store
 * @nr_pages: the new capacity in pages, not below the old one
 *
 * May sleep while memory is being freed. Callers serialise growing, shrinking and trimming.
 *
 * Return: 0, -ENOMEM, or -EINTR if the task is killed.
 */
int rxd_store_prepare_grow(const struct rxd_store *store, unsigned long nr_pages)
{
	return rxd_nr_leaves(nr_pages) > store->dir_leaves ? rxd_store_prepare(nr_pages) : 0;
}

/**
 * rxd_store_grow - raise the capacity
 * @store: the store; I/O may continue
 * @nr_pages: the new capacity in pages, not below the old one
 *
 * Callers serialise growing, shrinking and trimming.
 *
 * Return: 0, -ENOMEM, or -EINTR if the task is killed.
 */
int rxd_store_grow(struct rxd_store *store, unsigned long nr_pages)
{
	int ret;

	ret = rxd_store_prepare_grow(store, nr_pages);
	if (!ret && rxd_nr_leaves(nr_pages) > store->dir_leaves)
		ret = replace_dir(store, nr_pages);
	if (!ret)
		/* Pairs with rxd_store_nr_pages(). */
		smp_store_release(&store->nr_pages, nr_pages);
	return ret;
}

/**
 * rxd_store_trim - shorten the directory to the capacity
 * @store: the store; I/O may continue
 *
 * If the shorter directory cannot be allocated, the longer one stays, which does no harm. Callers
 * serialise growing, shrinking and trimming.
 */
void rxd_store_trim(struct rxd_store *store)
{
	if (!store->nr_pages || rxd_nr_leaves(store->nr_pages) == store->dir_leaves)
		return;
	/* Wait for tasks that have read the old capacity, which need the longer directory. */
	synchronize_rcu();
	replace_dir(store, store->nr_pages);
}

static void free_leaf_rcu(struct rcu_head *head)
{
	rxd_store_free_page(container_of(head, struct page, rcu_head));
	rxd_note_freed(1);
}

/**
 * rxd_free_leaf_later - free a leaf that was counted by rxd_note_retired(), after a grace period
 * @leaf: the leaf, which has left all directories
 */
void rxd_free_leaf_later(struct rxd_leaf *leaf)
{
	call_rcu_hurry(&virt_to_page(leaf)->rcu_head, free_leaf_rcu);
}

/**
 * rxd_leaf_get - get the leaf for pages that are about to enter it, not a shared one
 * @store: the store
 * @pgno: the first page
 * @nr: number of pages, all of one leaf
 * @gfp: allocation flags for a new leaf
 *
 * The leaf stays until rxd_leaf_put() has been called for all these pages: when they have
 * left it, or if they do not enter it.
 *
 * Return: the leaf, or NULL if memory is short.
 */
struct rxd_leaf *rxd_leaf_get(struct rxd_store *store, unsigned long pgno, unsigned int nr,
			      gfp_t gfp)
{
	unsigned long i = pgno / RXD_PAGES_PER_LEAF;
	struct rxd_leaf *leaf, *new;
	unsigned long flags;
	bool shared;

	for (;;) {
		rcu_read_lock();
		leaf = rxd_store_marked_leaf(store, pgno);
		shared = rxd_is_shared(leaf);
		if (leaf && !shared && !atomic_long_add_unless(rxd_leaf_state(leaf), nr, 0))
			leaf = NULL;
		rcu_read_unlock();
		if (likely(!shared))
			break;
		if (rxd_leaf_unshare(store, pgno, gfp))
			return NULL;
	}
	if (leaf)
		return leaf;

	new = rxd_leaf_alloc(store, pgno, gfp);
	if (!new)
		return NULL;
	atomic_long_set(rxd_leaf_state(new), nr);

	spin_lock_irqsave(&store->leaf_lock, flags);
	leaf = rxd_leaf_locked(store, i);
	/* A leaf whose count is 0 is being freed: replace it. */
	if (!leaf || !atomic_long_add_unless(rxd_leaf_state(leaf), nr, 0)) {
		leaf = new;
		rxd_set_leaf(store, i, new);
		atomic_long_inc(&store->leaves);
	}
	spin_unlock_irqrestore(&store->leaf_lock, flags);

	if (leaf != new)
		rxd_store_free_page(virt_to_page(new));
	return leaf;
}

/**
 * rxd_leaf_put - count pages that have left a leaf or did not enter it
 * @store: the store
 * @leaf: the leaf, which is freed with its last page
 * @pgno: number of a page of the leaf
 * @nr: number of pages
 */
void rxd_leaf_put(struct rxd_store *store, struct rxd_leaf *leaf, unsigned long pgno,
		  unsigned int nr)
{
	unsigned long i = pgno / RXD_PAGES_PER_LEAF;
	unsigned long flags;

	if (!nr || atomic_long_sub_return(nr, rxd_leaf_state(leaf)))
		return;

	spin_lock_irqsave(&store->leaf_lock, flags);
	if (rxd_leaf_locked(store, i) == leaf)
		rxd_set_leaf(store, i, NULL);
	spin_unlock_irqrestore(&store->leaf_lock, flags);

	atomic_long_dec(&store->leaves);
	rxd_note_retired(1);
	rxd_free_leaf_later(leaf);
}

static void count_exchange(struct rxd_store *store, const struct page *old,
			   const struct page *page)
{
	/* A write to a cached block: save two atomic operations. */
	if (old && page && page_to_nid(old) == page_to_nid(page))
		return;
	if (page)
		rxd_store_count(store, page, 1);
	if (old)
		rxd_store_count(store, old, -1);
}

/**
 * rxd_store_exchange - add, replace or remove a page
 * @store: the store
 * @pgno: page number, below the capacity
 * @page: the new page, which is filled, or which no reader may read yet; NULL for none
 * @gfp: allocation flags for a new leaf; RXD_GFP_NOWAIT in atomic context
 *
 * The caller serialises changes of the same page. The old page is freed after a grace
 * period.
 *
 * Return: 0; -ENOSPC if a page would be added and the limit is reached; -ENOMEM if no leaf
 * could be allocated. Nothing changes in case of an error.
 */
int rxd_store_exchange(struct rxd_store *store, unsigned long pgno, struct page *page,
		       gfp_t gfp)
{
	unsigned int i = pgno % RXD_PAGES_PER_LEAF;
	struct rxd_leaf *leaf;
	struct page *old;

	rcu_read_lock();
	leaf = rxd_store_leaf(store, pgno);
	old = leaf ? rcu_dereference(leaf->page[i]) : NULL;
	rcu_read_unlock();

	/* The leaf of an existing page stays, because the caller serialises changes. */
	if (!old) {
		if (!page)
			return 0;
		if (!rxd_store_charge(store, 1))
			return -ENOSPC;
		leaf = rxd_leaf_get(store, pgno, 1, gfp);
		if (!leaf) {
			rxd_store_uncharge(store, 1);
			return -ENOMEM;
		}
	}
	old = unrcu_pointer(xchg(&leaf->page[i], RCU_INITIALIZER(page)));
	count_exchange(store, old, page);
	if (!old)
		return 0;

	if (!page) {
		rxd_store_discharge(store, 1);
		rxd_leaf_put(store, leaf, pgno, 1);
	}
	rxd_retire_page(old);
	return 0;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_exchange, RXD_NS);

/**
 * rxd_store_take - remove a page, which the caller frees by rxd_store_free_taken()
 * @store: the store, which shares nothing
 * @pgno: page number, below the capacity
 *
 * The caller serialises changes of the same page.
 *
 * Return: the page, which readers may use for a grace period, or NULL for a hole.
 */
struct page *rxd_store_take(struct rxd_store *store, unsigned long pgno)
{
	unsigned int i = pgno % RXD_PAGES_PER_LEAF;
	struct page *page = NULL;
	struct rxd_leaf *leaf;

	rcu_read_lock();
	leaf = rxd_store_leaf(store, pgno);
	if (leaf && rcu_access_pointer(leaf->page[i]))
		page = unrcu_pointer(xchg(&leaf->page[i], NULL));
	rcu_read_unlock();
	if (!page)
		return NULL;
	rxd_store_discharge(store, 1);
	rxd_store_count(store, page, -1);
	rxd_leaf_put(store, leaf, pgno, 1);
	return page;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_take, RXD_NS);

/**
 * rxd_store_free_taken - free pages that have left their stores, after a grace period
 * @pages: the pages, linked through lru; the list is empty afterwards
 *
 * Sleeps until the pages are free. May be called by reclaim.
 *
 * Return: number of pages.
 */
unsigned long rxd_store_free_taken(struct list_head *pages)
{
	struct page *page, *next;
	unsigned long nr = 0;

	list_for_each_entry(page, pages, lru)
		nr++;
	if (!nr)
		return 0;
	rxd_note_retired(nr);
	synchronize_rcu_expedited();
	list_for_each_entry_safe(page, next, pages, lru)
		rxd_store_free_page(page);
	INIT_LIST_HEAD(pages);
	rxd_note_freed(nr);
	return nr;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_free_taken, RXD_NS);

/* Return: number of pages that were removed from the leaf. */
static unsigned int free_in_leaf(struct rxd_leaf *leaf, unsigned int first, unsigned int nr)
{
	unsigned int i, removed = 0, nr_retired = 0;
	struct page *page, *retired = NULL;

	for (i = first; i < first + nr; i++) {
		if (i + FREE_AHEAD < first + nr)
			prefetchw(rcu_access_pointer(leaf->page[i + FREE_AHEAD]));
		if (!rcu_access_pointer(leaf->page[i]))
			continue;
		page = unrcu_pointer(xchg(&leaf->page[i], NULL));
		if (!page)
			continue;
		removed++;
		if (rxd_is_shared(page)) {
			page = rxd_plain(page);
			if (!rxd_page_leave(page))
				continue;
		}
		set_page_private(page, (unsigned long)retired);
		retired = page;
		nr_retired++;
	}
	rxd_retire_pages(retired, nr_retired);
	return removed;
}

/**
 * rxd_store_free_run - remove and free pages of one leaf
 * @store: the store
 * @first: first page
 * @nr: number of pages, all of the same leaf
 *
 * Does not sleep. Pages of a shared leaf stay, unless all of the leaf is removed. See
 * rxd_store_unshare_ends().
 *
 * Return: number of pages that were removed.
 */
unsigned int rxd_store_free_run(struct rxd_store *store, unsigned long first, unsigned int nr)
{
	unsigned int removed = 0;
	struct rxd_leaf *leaf;
	bool shared;

	do {
		rcu_read_lock();
		leaf = rxd_store_marked_leaf(store, first);
		shared = rxd_is_shared(leaf);
		if (leaf && !shared) {
			removed = free_in_leaf(leaf, first % RXD_PAGES_PER_LEAF, nr);
			rxd_leaf_put(store, leaf, first, removed);
		}
		rcu_read_unlock();
		if (likely(!shared) || nr < RXD_PAGES_PER_LEAF)
			break;
		/* A racing write may have replaced the leaf by a copy: look again. */
		removed = rxd_leaf_drop_shared(store, first);
	} while (!removed);

	rxd_store_discharge(store, removed);
	return removed;
}

/**
 * rxd_store_free_range - remove and free a range of pages
 * @store: the store
 * @first: first page
 * @nr: number of pages; the range lies within the capacity
 *
 * May sleep. The range reads as zeros afterwards, if rxd_store_unshare_ends() has prepared it.
 *
 * Return: number of pages that were removed.
 */
unsigned long rxd_store_free_range(struct rxd_store *store, unsigned long first,
				   unsigned long nr)
{
	unsigned long total = 0, in_leaf;

	while (nr) {
		in_leaf = min(nr, RXD_PAGES_PER_LEAF - first % RXD_PAGES_PER_LEAF);
		rxd_hold_enter(store, (u64)first << PAGE_SHIFT, in_leaf << PAGE_SHIFT, RXD_GFP);
		total += rxd_store_free_run(store, first, in_leaf);
		rxd_hold_leave(store);
		first += in_leaf;
		nr -= in_leaf;
		cond_resched();
	}
	return total;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_free_range, RXD_NS);

static void init_leaf_lists(struct leaf_lists *lists)
{
	INIT_LIST_HEAD(&lists->own);
	INIT_LIST_HEAD(&lists->released);
}

/* Return: number of pages and leaves that are going to be freed. */
static unsigned long detach_leaf(struct rxd_store *store, unsigned long i,
				 struct leaf_lists *lists)
{
	struct rxd_leaf *leaf = rxd_leaf_locked(store, i);
	unsigned long nr;
	bool shared;

	if (!leaf)
		return 0;
	shared = rxd_is_shared(leaf);
	leaf = rxd_plain(leaf);
	rxd_set_leaf(store, i, NULL);
	atomic_long_dec(&store->leaves);
	nr = rxd_leaf_pages(leaf);
	rxd_store_discharge(store, nr);
	if (!shared)
		list_add_tail(&virt_to_page(leaf)->lru, &lists->own);
	else if (rxd_leaf_leave(leaf))
		list_add_tail(&virt_to_page(leaf)->lru, &lists->released);
	else
		return 0;
	return nr + 1;
}

/*
 * Move leaves, with their pages, from the directory to lists.
 *
 * Return: number of pages and leaves that are going to be freed.
 */
static unsigned long detach_leaves(struct rxd_store *store, unsigned long first,
				   unsigned long end, struct leaf_lists *lists)
{
	unsigned long i, part_end, nr = 0;

	for (i = first; i < end;) {
		part_end = min(i + LEAVES_PER_DETACH, end);
		spin_lock_irq(&store->leaf_lock);
		for (; i < part_end; i++)
			nr += detach_leaf(store, i, lists);
		spin_unlock_irq(&store->leaf_lock);
		cond_resched();
	}
	return nr;
}

/* Return: number of pages that were freed, or that stay in other leaves. */
static unsigned int free_data(struct rxd_leaf *leaf)
{
	struct page *page, *last = NULL;
	unsigned int i, nr = 0;

	for (i = 0; i < RXD_PAGES_PER_LEAF; i++) {
		if (i + FREE_AHEAD < RXD_PAGES_PER_LEAF)
			prefetchw(rcu_access_pointer(leaf->page[i + FREE_AHEAD]));
		page = rcu_dereference_protected(leaf->page[i], true);
		if (!page)
			continue;
		if (!rxd_is_shared(page)) {
			rxd_store_free_page(page);
			nr++;
			continue;
		}
		page = rxd_plain(page);
		if (!rxd_page_leave(page)) {
			nr++;
			continue;
		}
		/* Readers in the stores of earlier owners may still use the page. */
		set_page_private(page, (unsigned long)last);
		last = page;
	}
	rxd_free_later(last);
	return nr;
}

/* Free leaves whose grace period is over, and which are counted by rxd_note_retired(). */
static void free_leaves(struct leaf_lists *lists)
{
	struct page *page, *next;
	unsigned int nr;

	list_for_each_entry_safe(page, next, &lists->own, lru) {
		nr = free_data(page_address(page));
		rxd_store_free_page(page);
		rxd_note_freed(nr + 1);
		cond_resched();
	}
	list_for_each_entry_safe(page, next, &lists->released, lru) {
		rxd_leaf_release(page_address(page));
		cond_resched();
	}
	init_leaf_lists(lists);
}

static void free_store(struct rxd_store *store)
{
	struct leaf_lists lists;
	unsigned long nr;

	rxd_lift_wait(store);
	init_leaf_lists(&lists);
	nr = nr_to_free(store);
	nr -= detach_leaves(store, 0, rxd_nr_leaves(store->nr_pages), &lists);
	free_leaves(&lists);
	kvfree(rcu_access_pointer(store->dir));
	kfree(store->on_node);
	free_percpu(store->stock);
	rxd_hold_free(store->hold);
	kfree(store);
	/* Pages that other stores share are not freed: no task needs to wait for them. */
	rxd_note_freed(nr);
}

static void reap(struct work_struct *work)
{
	struct rxd_store *store, *next;
	struct leaf_lists lists;
	LIST_HEAD(stores);

	init_leaf_lists(&lists);
	spin_lock(&doomed_lock);
	list_splice_init(&doomed_leaves.own, &lists.own);
	list_splice_init(&doomed_leaves.released, &lists.released);
	list_splice_init(&doomed_stores, &stores);
	spin_unlock(&doomed_lock);

	/* Freezing the queue does not wait for tasks that walk the leaves without I/O. */
	synchronize_rcu();
	free_leaves(&lists);
	list_for_each_entry_safe(store, next, &stores, doomed)
		free_store(store);
}

/* Free leaves, which were counted by rxd_note_retired(), and their pages in the background. */
static void reap_leaves(struct leaf_lists *lists)
{
	if (list_empty(&lists->own) && list_empty(&lists->released))
		return;
	spin_lock(&doomed_lock);
	list_splice_tail(&lists->own, &doomed_leaves.own);
	list_splice_tail(&lists->released, &doomed_leaves.released);
	spin_unlock(&doomed_lock);
	queue_work(reap_wq, &reap_work);
}

/* Remove leaves from the directory. They and their pages are freed in the background. */
static void drop_leaves(struct rxd_store *store, unsigned long first, unsigned long end)
{
	struct leaf_lists lists;

	init_leaf_lists(&lists);
	rxd_note_retired(detach_leaves(store, first, end, &lists));
	reap_leaves(&lists);
}

/**
 * rxd_store_prepare_shrink - allocate the memory that rxd_store_shrink() will need
 * @store: the store; I/O may continue
 * @nr_pages: the new capacity in pages
 *
 * Callers serialise this with sharing.
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_store_prepare_shrink(struct rxd_store *store, unsigned long nr_pages)
{
	unsigned int part = RXD_PAGES_PER_LEAF - nr_pages % RXD_PAGES_PER_LEAF;

	/* Low memory is no reason to refuse: a shrink frees memory. */
	return rxd_leaf_unshare_part(store, nr_pages, part, RXD_GFP | RXD_GFP_REPLACE);
}

/**
 * rxd_store_shrink - lower the capacity and free the pages beyond it
 * @store: the store, after rxd_store_prepare_shrink(); the caller prevents I/O beyond the
 *	new capacity
 * @nr_pages: the new capacity in pages, not above the old one
 *
 * May sleep, but not for long, because the memory is freed in the background. The store
 * may grow again at once. The directory keeps its size until rxd_store_trim(). Callers
 * serialise growing, shrinking and clearing.
 */
void rxd_store_shrink(struct rxd_store *store, unsigned long nr_pages)
{
	unsigned long old = store->nr_pages, leaf_end;

	WRITE_ONCE(store->nr_pages, nr_pages);
	leaf_end = min(old, rxd_nr_leaves(nr_pages) * RXD_PAGES_PER_LEAF);
	rxd_store_free_range(store, nr_pages, leaf_end - nr_pages);
	drop_leaves(store, rxd_nr_leaves(nr_pages), rxd_nr_leaves(old));
}

/**
 * rxd_store_clear - remove all pages
 * @store: the store; the caller prevents all I/O
 *
 * May sleep, but not for long, because the memory is freed in the background. Callers
 * serialise growing, shrinking and clearing.
 */
void rxd_store_clear(struct rxd_store *store)
{
	unsigned int node;

	drop_leaves(store, 0, rxd_nr_leaves(store->nr_pages));
	/* A cache, which begins with an empty store, counts on what is charged. */
	rxd_store_return_stocks(store, 0);
	for (node = 0; node < nr_node_ids; node++)
		atomic_long_set(&store->on_node[node].used, 0);
	if (READ_ONCE(store->lent_from) != ULONG_MAX)
		rxd_lend_count(store);
	if (store->family)
		rxd_leave_family(store);
	WRITE_ONCE(store->borrows, false);
}

/**
 * rxd_store_begin_moves - begin to give other numbers to the pages of a cache
 * @moves: filled in
 * @store: the store, which shares nothing
 *
 * Until rxd_store_end_moves(), the store has only the pages that rxd_store_move() has moved. The
 * caller prevents all I/O, and serialises the moves with growing, shrinking and clearing.
 *
 * Return: 0; or -ENOMEM, and nothing has changed.
 */
int rxd_store_begin_moves(struct rxd_moves *moves, struct rxd_store *store)
{
	struct rxd_leaf __rcu **dir = alloc_dir(store->dir_leaves * RXD_PAGES_PER_LEAF);

	if (!dir)
		return -ENOMEM;
	moves->store = store;
	moves->nr_leaves = store->dir_leaves;
	moves->reclaim_at = jiffies;
	moves->lends = rxd_store_lent(store);
	spin_lock_irq(&store->leaf_lock);
	moves->dir = rcu_dereference_protected(store->dir, lockdep_is_held(&store->leaf_lock));
	rcu_assign_pointer(store->dir, dir);
	spin_unlock_irq(&store->leaf_lock);
	if (moves->lends)
		rxd_note_moves(1);
	return 0;
}

/* Return: a leaf of pages that have not moved, or NULL. */
static struct rxd_leaf *unmoved_leaf(const struct rxd_moves *moves, unsigned long i)
{
	return rcu_dereference_protected(moves->dir[i], true);
}

static bool has_all(const struct rxd_leaf *leaf, unsigned long first, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		if (!rcu_access_pointer(leaf->page[first + i]))
			return false;
	return true;
}

/* Pages that have left a store, linked by their private field. */
struct leavers {
	struct page *first;
	unsigned int nr;
};

static void add_leaver(struct rxd_store *store, struct page *page, struct leavers *leavers)
{
	rxd_store_count(store, page, -1);
	set_page_private(page, (unsigned long)leavers->first);
	leavers->first = page;
	leavers->nr++;
}

static void free_leavers(struct rxd_store *store, const struct leavers *leavers)
{
	rxd_store_discharge(store, leavers->nr);
	rxd_retire_pages(leavers->first, leavers->nr);
}

/* The leaf is freed with its last page. */
static void put_unmoved(struct rxd_moves *moves, struct rxd_leaf *leaf, unsigned long pgno,
			unsigned int nr)
{
	if (rxd_leaf_pages(leaf) == nr)
		RCU_INIT_POINTER(moves->dir[pgno / RXD_PAGES_PER_LEAF], NULL);
	rxd_leaf_put(moves->store, leaf, pgno, nr);
}

/**
 * rxd_store_leave - free pages of a leaf that get no new numbers
 * @moves: see rxd_store_begin_moves()
 * @first: the number that the first page had
 * @nr: number of pages, all of one leaf
 *
 * rxd_store_end_moves() frees them as well, but nobody would get their memory before.
 */
void rxd_store_leave(struct rxd_moves *moves, unsigned long first, unsigned int nr)
{
	struct rxd_leaf *leaf = unmoved_leaf(moves, first / RXD_PAGES_PER_LEAF);
	unsigned long at = first % RXD_PAGES_PER_LEAF;
	struct leavers leavers = {};
	unsigned int i;

	if (WARN_ON_ONCE(!leaf || !has_all(leaf, at, nr)))
		return;
	for (i = 0; i < nr; i++) {
		add_leaver(moves->store, rcu_dereference_protected(leaf->page[at + i], true),
			   &leavers);
		RCU_INIT_POINTER(leaf->page[at + i], NULL);
	}
	put_unmoved(moves, leaf, first, nr);
	free_leavers(moves->store, &leavers);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_leave, RXD_NS);

/**
 * rxd_store_move - give other numbers to pages of a leaf
 * @moves: see rxd_store_begin_moves()
 * @from: the number that the first page had, below the capacity at that time
 * @to: its number from now on, below the capacity
 * @nr: number of pages; both runs lie within a leaf
 *
 * Pages that were moved to the new numbers before are freed. The leaf of the new numbers may be
 * taken from the headroom, because those of the old ones are going to be free. May sleep.
 *
 * If memory is short, the pages are freed, and for a second nothing is reclaimed for leaves: each
 * time may take long, and until the end nobody gets the memory that the store was lent.
 *
 * Return: true; or false if memory is short.
 */
bool rxd_store_move(struct rxd_moves *moves, unsigned long from, unsigned long to,
		    unsigned int nr)
{
	unsigned long first = from % RXD_PAGES_PER_LEAF, at = to % RXD_PAGES_PER_LEAF;
	struct rxd_leaf *old = unmoved_leaf(moves, from / RXD_PAGES_PER_LEAF), *leaf;
	gfp_t gfp = time_before(jiffies, moves->reclaim_at) ? RXD_GFP_NOWAIT : RXD_GFP;
	struct rxd_store *store = moves->store;
	struct leavers replaced = {};
	struct page *page;
	unsigned int i;

	if (WARN_ON_ONCE(!old || !has_all(old, first, nr)))
		return false;
	leaf = rxd_leaf_get(store, to, nr, gfp | RXD_GFP_REPLACE);
	if (!leaf) {
		if (gfp & __GFP_DIRECT_RECLAIM)
			moves->reclaim_at = jiffies + HZ;
		rxd_store_leave(moves, from, nr);
		return false;
	}
	for (i = 0; i < nr; i++) {
		page = rcu_dereference_protected(leaf->page[at + i], true);
		if (page)
			add_leaver(store, page, &replaced);
		rcu_assign_pointer(leaf->page[at + i],
				   rcu_dereference_protected(old->page[first + i], true));
		RCU_INIT_POINTER(old->page[first + i], NULL);
	}
	put_unmoved(moves, old, from, nr);
	rxd_leaf_put(store, leaf, to, replaced.nr);
	free_leavers(store, &replaced);
	return true;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_move, RXD_NS);

/* Count the pages of a leaf that are going to be freed. Return: their number. */
static unsigned long count_unmoved(struct rxd_store *store, struct rxd_leaf *leaf)
{
	unsigned long nr = rxd_leaf_pages(leaf);
	struct page *page;
	unsigned int i;

	for (i = 0; nr && i < RXD_PAGES_PER_LEAF; i++) {
		page = rcu_dereference_protected(leaf->page[i], true);
		if (page)
			rxd_store_count(store, page, -1);
	}
	return nr;
}

/**
 * rxd_store_end_moves - free the pages that have not moved
 * @moves: see rxd_store_begin_moves()
 *
 * The memory is freed in the background. May sleep.
 */
void rxd_store_end_moves(struct rxd_moves *moves)
{
	unsigned long i, nr_pages = 0, nr_leaves = 0;
	struct rxd_store *store = moves->store;
	struct leaf_lists lists;
	struct rxd_leaf *leaf;

	init_leaf_lists(&lists);
	for (i = 0; i < moves->nr_leaves; i++) {
		leaf = unmoved_leaf(moves, i);
		if (leaf) {
			nr_pages += count_unmoved(store, leaf);
			nr_leaves++;
			list_add_tail(&virt_to_page(leaf)->lru, &lists.own);
		}
		cond_resched();
	}
	atomic_long_sub(nr_leaves, &store->leaves);
	rxd_store_discharge(store, nr_pages);
	/* What was counted above was too much, because the pages were used until now. */
	rxd_lend_count(store);
	rxd_note_retired(nr_pages + nr_leaves);
	reap_leaves(&lists);
	/* For tasks that walk the leaves without I/O. */
	synchronize_rcu_expedited();
	kvfree(moves->dir);
	if (moves->lends)
		rxd_note_moves(-1);
}

/**
 * rxd_store_drain - wait for memory that is being freed
 *
 * Waits for the pages, leaves and stores that were queued for freeing before the call.
 */
void rxd_store_drain(void)
{
	flush_work(&reap_work);
	rcu_barrier();
	/* Pages that were queued behind a batch are sent when that is free. */
	rcu_barrier();
}

/**
 * rxd_store_init - allocate what all stores share
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_store_init(void)
{
	int ret;

	reap_wq = alloc_workqueue("rxd", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!reap_wq)
		return -ENOMEM;
	ret = rxd_expend_init();
	if (ret)
		goto out_destroy;
	ret = rxd_lift_init();
	if (ret)
		goto out_expend_exit;
	ret = rxd_give_back_init();
	if (ret)
		goto out_lift_exit;
	return 0;

out_lift_exit:
	rxd_lift_exit();
out_expend_exit:
	rxd_expend_exit();
out_destroy:
	destroy_workqueue(reap_wq);
	return ret;
}

/**
 * rxd_store_exit - undo rxd_store_init(), after all stores were destroyed
 */
void rxd_store_exit(void)
{
	rxd_give_back_exit();
	rxd_store_drain();
	rxd_lift_exit();
	destroy_workqueue(reap_wq);
	rxd_expend_exit();
	rxd_expect_nothing_left();
}

static unsigned long next_page(struct rxd_store *store, unsigned long first, unsigned long end,
			       bool data)
{
	struct rxd_leaf *leaf;
	unsigned long nr_pages;
	bool found = false;
	unsigned int i;

	do {
		i = first % RXD_PAGES_PER_LEAF;
		rcu_read_lock();
		/* Read capacity and directory in one section: pairs with rxd_store_trim(). */
		nr_pages = rxd_store_nr_pages(store);
		leaf = first < nr_pages ? rxd_store_leaf(store, first) : NULL;
		if (leaf) {
			while (i < RXD_PAGES_PER_LEAF && !rcu_access_pointer(leaf->page[i]) == data)
				i++;
			found = i < RXD_PAGES_PER_LEAF;
		} else if (data) {
			i = RXD_PAGES_PER_LEAF;
		} else {
			found = true;
		}
		rcu_read_unlock();

		first = round_down(first, RXD_PAGES_PER_LEAF) + i;
		cond_resched();
		end = min(end, nr_pages);
	} while (first < end && !found);
	return min(first, end);
}

/**
 * rxd_store_find_data - find the next existing page of a range
 * @store: the store, which does not shrink meanwhile
 * @first: page to start from
 * @end: where to stop
 *
 * Return: number of the first existing page from @first on; or @end, or the capacity if that is
 * lower.
 */
unsigned long rxd_store_find_data(struct rxd_store *store, unsigned long first, unsigned long end)
{
	return next_page(store, first, end, true);
}

/**
 * rxd_store_find_hole - find the next hole of a range
 * @store: the store, which does not shrink meanwhile
 * @first: page to start from
 * @end: where to stop
 *
 * Return: number of the first page from @first on that does not exist; or @end, or the capacity if
 * that is lower.
 */
unsigned long rxd_store_find_hole(struct rxd_store *store, unsigned long first, unsigned long end)
{
	return next_page(store, first, end, false);
}
