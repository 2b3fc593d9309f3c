// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pages of a RAM disk: look up, insert, free, walk.
 *
 * The capacity is known, so the index is an array of leaves, a leaf one page of
 * page pointers: two dependent loads find a page. Leaves come on demand and go
 * with their last page. A page enters the index only once it is filled, and
 * is freed an RCU grace period after it left: who copies under
 * rcu_read_lock() needs no reference.
 *
 * Long writes ask for larger pieces of memory, which are split at once: each
 * page of a piece is found and freed by itself. Pages that still lie side by
 * side are copied in one go, wherever they came from.
 */
#include <linux/backing-dev.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/rxd.h>

#include "compat.h"
#include "copy.h"
#include "store.h"

/* How many pages a CPU may allocate before it looks at the free memory again. */
#define MEMORY_CHECK_INTERVAL	64

/* How many pages ahead to ask for what the kernel knows of a page that is freed. */
#define FREE_AHEAD	8

/* How many leaves are copied with interrupts off when a store grows. */
#define LEAVES_PER_COPY	4096

/* How many leaves are taken out of the directory with interrupts off. */
#define LEAVES_PER_DETACH	256

/* How long a write waits for memory, and how often it looks for what is written. */
#define MEMORY_WAIT		(10 * HZ)
#define MEMORY_WAIT_STEP	(HZ / 20)

static DEFINE_PER_CPU(unsigned int, store_allocations);

/*
 * Pages and leaves of all stores that were sent on their way back to the machine, ever,
 * and those of them that have come back; and who waits for more.
 */
static atomic_long_t retired_pages;
static atomic_long_t freed_pages;
static DECLARE_WAIT_QUEUE_HEAD(freed_wait);

static void reap(struct work_struct *work);

static struct workqueue_struct *reap_wq;
static DECLARE_WORK(reap_work, reap);

/* What reap_work is to free: leaves, linked through lru, and whole stores. */
static DEFINE_SPINLOCK(doomed_lock);
static LIST_HEAD(doomed_leaves);
static LIST_HEAD(doomed_stores);

static unsigned long nr_leaves(unsigned long nr_pages)
{
	return DIV_ROUND_UP(nr_pages, RXD_PAGES_PER_LEAF);
}

static void note_freed(unsigned long nr)
{
	/* Who sees it counted can have it: pairs with is_retired(). */
	smp_mb__before_atomic();
	atomic_long_add(nr, &freed_pages);
	if (wq_has_sleeper(&freed_wait))
		wake_up_all(&freed_wait);
}

/* Is memory on its way back? */
static bool is_retired(void)
{
	/* Pairs with note_freed(). */
	long freed = atomic_long_read_acquire(&freed_pages);

	return atomic_long_read(&retired_pages) != freed;
}

/*
 * What a leaf holds is one number: in the lower half its pages, those about to
 * enter included; above, how many of them came in pieces of 64 KiB and of 2 MiB.
 */
static unsigned long held(enum rxd_piece piece, unsigned int nr)
{
	return piece == RXD_PIECE_PAGE ? nr : nr | (unsigned long)nr << (16 + 16 * piece);
}

static unsigned int held_pages(unsigned long held)
{
	return held & U32_MAX;
}

static unsigned int held_in_pieces(unsigned long held, enum rxd_piece piece)
{
	return held >> (16 + 16 * piece) & U16_MAX;
}

/*
 * It is kept in the private word of the leaf's page, so that readers never meet
 * it. Once 0 it stays 0: the leaf is empty for good, and goes.
 */
static atomic_long_t *leaf_held(struct rxd_leaf *leaf)
{
	struct page *page = virt_to_page(leaf);

	BUILD_BUG_ON(sizeof(page->private) != sizeof(atomic_long_t));
	return (atomic_long_t *)&page->private;
}

/*
 * A thin disk must not take the memory that the rest of the machine needs to
 * stay alive: leave an eighth, but no less than 32 MiB and no more than 2 GiB.
 * That is room for the dirty pages that a file system keeps when its disk is
 * full.
 */
static unsigned long memory_headroom(void)
{
	return clamp(totalram_pages() / 8, 32UL << (20 - PAGE_SHIFT), 2UL << (30 - PAGE_SHIFT));
}

/*
 * What an allocation of ours can get in the end. si_mem_available() counts what
 * only movable pages can have, too.
 */
static long usable_memory(void)
{
	long nr = si_mem_available() - (long)global_zone_page_state(NR_FREE_CMA_PAGES);
	struct zone *zone;
	int node;

	for_each_online_node(node) {
		zone = &NODE_DATA(node)->node_zones[ZONE_MOVABLE];
		if (!populated_zone(zone))
			continue;
		nr -= zone_page_state(zone, NR_FREE_PAGES);
		nr += zone_page_state(zone, NR_FREE_CMA_PAGES);
		nr -= zone_page_state(zone, NR_ZONE_ACTIVE_FILE);
		nr -= zone_page_state(zone, NR_ZONE_INACTIVE_FILE);
	}
	return nr;
}

/* Freed pages rest on lists of the processors, where si_mem_available() looks past them. */
static long pages_on_cpu_lists(void)
{
	struct zone *zone;
	int node, cpu, i;
	long nr = 0;

	for_each_online_node(node) {
		for (i = 0; i < ZONE_MOVABLE; i++) {
			zone = &NODE_DATA(node)->node_zones[i];
			if (!populated_zone(zone))
				continue;
			for_each_online_cpu(cpu)
				nr += READ_ONCE(per_cpu_ptr(zone->per_cpu_pageset, cpu)->count);
		}
	}
	return nr;
}

/* May so many pages be taken? */
static bool memory_is_there(unsigned long nr)
{
	long spare = usable_memory() - (long)memory_headroom();

	if (spare < (long)nr)
		spare += pages_on_cpu_lists();
	return spare >= (long)nr;
}

/*
 * As memory_is_there(), but what is on its way back at the beginning is waited for, until
 * the task is killed. Caches free pages all the time: there may always be more.
 */
static bool memory_comes(unsigned long nr)
{
	long last = atomic_long_read(&retired_pages);

	wait_event_killable(freed_wait, memory_is_there(nr) ||
			    atomic_long_read(&freed_pages) - last >= 0);
	return memory_is_there(nr);
}

/**
 * rxd_memory_allows - may a table take so much memory?
 * @size: bytes
 *
 * As with pages of data, memory is looked at only where more is wanted than a processor
 * may take between two looks. May sleep, as memory that is being freed is waited for.
 *
 * Return: false if too little would be left for the rest of the machine.
 */
bool rxd_memory_allows(size_t size)
{
	unsigned long nr = size >> PAGE_SHIFT;

	return nr <= MEMORY_CHECK_INTERVAL || memory_comes(nr);
}
EXPORT_SYMBOL_NS_GPL(rxd_memory_allows, RXD_NS);

static struct rxd_leaf __rcu **alloc_dir(unsigned long nr_pages)
{
	size_t size;

	if (check_mul_overflow(nr_leaves(nr_pages), sizeof(struct rxd_leaf *), &size))
		return NULL;
	if (!rxd_memory_allows(size))
		return NULL;
	return kvmalloc(size, GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN);
}

/**
 * rxd_store_create - make an empty store
 * @nr_pages: capacity in pages, greater than 0
 * @options: how it keeps its data
 *
 * Return: the store, or NULL if there is no memory for its directory.
 */
struct rxd_store *rxd_store_create(unsigned long nr_pages,
				   const struct rxd_store_options *options)
{
	struct rxd_leaf __rcu **dir;
	struct rxd_store *store;

	store = kzalloc_obj(*store, GFP_KERNEL);
	if (!store)
		return NULL;

	dir = alloc_dir(nr_pages);
	if (!dir)
		goto out_free_store;

	rcu_assign_pointer(store->dir, dir);
	store->nr_pages = nr_pages;
	store->dir_leaves = nr_leaves(nr_pages);
	store->limit = ULONG_MAX;
	store->options = *options;
	spin_lock_init(&store->leaf_lock);
	return store;

out_free_store:
	kfree(store);
	return NULL;
}

/**
 * rxd_store_destroy - free a store with all its pages
 * @store: the store, which nobody else uses any more; NULL is allowed
 *
 * The memory is freed in the background.
 */
void rxd_store_destroy(struct rxd_store *store)
{
	if (!store)
		return;
	/* Who finds no memory waits for this store's. */
	atomic_long_add(atomic_long_read(&store->used) + atomic_long_read(&store->leaves) + 1,
			&retired_pages);
	spin_lock(&doomed_lock);
	list_add_tail(&store->doomed, &doomed_stores);
	spin_unlock(&doomed_lock);
	queue_work(reap_wq, &reap_work);
}

/**
 * rxd_store_nr_pages - the capacity of a store
 * @store: the store
 *
 * Return: pages.
 */
unsigned long rxd_store_nr_pages(const struct rxd_store *store)
{
	/* Pairs with rxd_store_grow(): who sees the capacity sees its directory. */
	return smp_load_acquire(&store->nr_pages);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_nr_pages, RXD_NS);

/**
 * rxd_store_has_room - would more pages be within the limit?
 * @store: the store
 * @nr: pages
 *
 * Others may be faster: only rxd_store_exchange() and rxd_store_write() know.
 *
 * Return: true if @nr more pages may hold data now.
 */
bool rxd_store_has_room(const struct rxd_store *store, unsigned long nr)
{
	return atomic_long_read(&store->used) + nr <= READ_ONCE(store->limit);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_has_room, RXD_NS);

/**
 * rxd_store_set_limit - bound the memory that data may take
 * @store: the store
 * @limit: pages; ULONG_MAX for no limit
 *
 * A limit below what is used already frees nothing; it only stops growth.
 */
void rxd_store_set_limit(struct rxd_store *store, unsigned long limit)
{
	WRITE_ONCE(store->limit, limit);
}

/**
 * rxd_store_set_bdi - tell a store which device it is the data of
 * @store: the store
 * @bdi: the device's; stays as long as there are writes to the store
 *
 * A write that waits for memory does not wait for the device's own dirty pages:
 * they become clean only by such writes.
 */
void rxd_store_set_bdi(struct rxd_store *store, struct backing_dev_info *bdi)
{
	store->bdi = bdi;
}

/**
 * rxd_store_get_stats - read the counters of a store
 * @store: the store
 * @stats: filled in
 */
void rxd_store_get_stats(const struct rxd_store *store, struct rxd_store_stats *stats)
{
	stats->used = atomic_long_read(&store->used);
	stats->max_used = atomic_long_read(&store->max_used);
	stats->limit = READ_ONCE(store->limit);
	stats->used_2m = atomic_long_read(&store->used_by_piece[RXD_PIECE_2M]);
	stats->used_64k = stats->used_2m +
			  atomic_long_read(&store->used_by_piece[RXD_PIECE_64K]);
	stats->index_bytes = sizeof(*store) +
			     READ_ONCE(store->dir_leaves) * sizeof(struct rxd_leaf *) +
			     atomic_long_read(&store->leaves) * sizeof(struct rxd_leaf);
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

/* Give a store a directory for so many pages; I/O to what both have room for goes on. */
static int replace_dir(struct rxd_store *store, unsigned long nr_pages)
{
	struct rxd_leaf __rcu **old, **new;

	new = alloc_dir(nr_pages);
	if (!new)
		return -ENOMEM;

	/* From now on new leaves enter both. */
	spin_lock_irq(&store->leaf_lock);
	old = rcu_dereference_protected(store->dir, lockdep_is_held(&store->leaf_lock));
	store->next_dir = new;
	spin_unlock_irq(&store->leaf_lock);

	copy_leaves(store, old, new, nr_leaves(min(nr_pages, store->nr_pages)));

	spin_lock_irq(&store->leaf_lock);
	rcu_assign_pointer(store->dir, new);
	store->next_dir = NULL;
	WRITE_ONCE(store->dir_leaves, nr_leaves(nr_pages));
	spin_unlock_irq(&store->leaf_lock);

	synchronize_rcu();
	kvfree(old);
	return 0;
}

/**
 * rxd_store_grow - raise the capacity
 * @store: the store; I/O may go on
 * @nr_pages: the new capacity in pages, not less than the old
 *
 * Callers serialise growing, shrinking and trimming.
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_store_grow(struct rxd_store *store, unsigned long nr_pages)
{
	int ret = 0;

	if (nr_leaves(nr_pages) > store->dir_leaves)
		ret = replace_dir(store, nr_pages);
	if (!ret)
		/* Pairs with rxd_store_nr_pages(). */
		smp_store_release(&store->nr_pages, nr_pages);
	return ret;
}

/**
 * rxd_store_trim - give back what the directory is longer than the capacity
 * @store: the store; I/O may go on
 *
 * One that is too long does as well: where memory is short, it stays. Callers serialise
 * growing, shrinking and trimming.
 */
void rxd_store_trim(struct rxd_store *store)
{
	if (!store->nr_pages || nr_leaves(store->nr_pages) == store->dir_leaves)
		return;
	/* Who goes by the capacity of before is still in the directory of before. */
	synchronize_rcu();
	replace_dir(store, store->nr_pages);
}

static bool memory_is_low(unsigned int nr)
{
	static bool low __read_mostly;
	bool now;

	if (this_cpu_add_return(store_allocations, nr) % MEMORY_CHECK_INTERVAL >= nr &&
	    !READ_ONCE(low))
		return false;

	now = !memory_is_there(0);
	/* All processors read it all the time. */
	if (READ_ONCE(low) != now)
		WRITE_ONCE(low, now);
	return now;
}

static int node_of(const struct rxd_store *store, unsigned long pgno)
{
	unsigned long n;
	int node;

	if (store->options.node >= 0)
		return store->options.node;
	if (store->options.node == RXD_NODE_LOCAL || num_node_state(N_MEMORY) < 2)
		return NUMA_NO_NODE;

	node = first_memory_node;
	for (n = (pgno >> RXD_ORDER_2M) % num_node_state(N_MEMORY); n; n--)
		node = next_node_in(node, node_states[N_MEMORY]);
	return node;
}

static enum rxd_piece piece_of_order(unsigned int order)
{
	if (!order || order < RXD_ORDER_64K)
		return RXD_PIECE_PAGE;
	return order < RXD_ORDER_2M ? RXD_PIECE_64K : RXD_PIECE_2M;
}

/* What to try when there is no piece of this order. */
static unsigned int smaller_order(unsigned int order)
{
	if (order <= RXD_ORDER_64K)
		return order / 2;
	return max_t(unsigned int, order / 2, RXD_ORDER_64K);
}

/*
 * Smaller pieces do: do not reclaim or compact for the sake of a large one, nor
 * take it from another node.
 */
static struct page *alloc_piece(const struct rxd_store *store, unsigned long pgno,
				unsigned int order, gfp_t gfp)
{
	enum rxd_piece piece = piece_of_order(order);
	struct page *page;
	unsigned int i;

	if (order)
		gfp = (gfp & ~__GFP_RECLAIM) | __GFP_THISNODE;
	page = alloc_pages_node(node_of(store, pgno), gfp, order);
	if (!page || !order)
		return page;

	split_page(page, order);
	for (i = 0; i < 1U << order; i++)
		set_page_private(page + i, piece);
	return page;
}

/**
 * rxd_store_alloc_run - take contiguous pages for a store's data
 * @store: the store
 * @pgno: where the first of them will go, roughly: it decides the NUMA node
 * @nr: in: how many are wanted, greater than 0; out: how many there are
 * @gfp: RXD_GFP or RXD_GFP_NOWAIT
 *
 * The pages lie side by side in memory, and each enters a store and is freed by
 * itself. They are not zeroed: fill them before they enter a store.
 *
 * Return: the first page, or NULL when memory is short.
 */
struct page *rxd_store_alloc_run(struct rxd_store *store, unsigned long pgno,
				 unsigned int *nr, gfp_t gfp)
{
	unsigned int order = min_t(unsigned int, ilog2(*nr), RXD_ORDER_2M);
	struct page *page;

	if (memory_is_low(1U << order))
		return NULL;
	for (;; order = smaller_order(order)) {
		page = alloc_piece(store, pgno, order, gfp);
		if (page || !order)
			break;
	}
	*nr = 1U << order;
	return page;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_alloc_run, RXD_NS);

/**
 * rxd_store_alloc_page - take a page for a store's data
 * @store: the store
 * @pgno: where it will go, roughly: it decides the NUMA node
 * @gfp: RXD_GFP or RXD_GFP_NOWAIT
 *
 * The page is not zeroed: fill it before it enters a store.
 *
 * Return: the page, or NULL when memory is short.
 */
struct page *rxd_store_alloc_page(struct rxd_store *store, unsigned long pgno, gfp_t gfp)
{
	unsigned int nr = 1;

	return rxd_store_alloc_run(store, pgno, &nr, gfp);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_alloc_page, RXD_NS);

/**
 * rxd_store_free_page - give back a page that never entered a store
 * @page: the page
 */
void rxd_store_free_page(struct page *page)
{
	set_page_private(page, 0);
	__free_page(page);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_free_page, RXD_NS);

static void free_pages_rcu(struct rcu_head *head)
{
	struct page *page = container_of(head, struct page, rcu_head);
	struct page *next;
	long nr = 0;

	for (; page; page = next, nr++) {
		next = (struct page *)page_private(page);
		rxd_store_free_page(page);
	}
	note_freed(nr);
}

/*
 * Free pages that left the store, linked through their private words, after a
 * grace period. RCU throttles many callbacks: with one for each page, memory
 * would come back long after a discard.
 */
static void retire_pages(struct page *first, unsigned int nr)
{
	if (!first)
		return;
	atomic_long_add(nr, &retired_pages);
	call_rcu_hurry(&first->rcu_head, free_pages_rcu);
}

/* Return: how many of @nr pages may come to hold data. */
static unsigned int charge(struct rxd_store *store, unsigned int nr)
{
	long used = atomic_long_read(&store->used);
	unsigned long limit;

	do {
		limit = READ_ONCE(store->limit);
		if ((unsigned long)used >= limit)
			return 0;
		nr = min_t(unsigned long, nr, limit - used);
	} while (!atomic_long_try_cmpxchg(&store->used, &used, used + nr));
	return nr;
}

/* Pages that were charged have come to hold data. */
static void note_max_used(struct rxd_store *store)
{
	long used = atomic_long_read(&store->used);
	long max_used = atomic_long_read(&store->max_used);

	while (used > max_used &&
	       !atomic_long_try_cmpxchg(&store->max_used, &max_used, used))
		;
}

static void uncharge(struct rxd_store *store, unsigned long nr)
{
	if (nr)
		atomic_long_sub(nr, &store->used);
}

static void count_piece(struct rxd_store *store, enum rxd_piece piece, long nr)
{
	if (piece != RXD_PIECE_PAGE && nr)
		atomic_long_add(nr, &store->used_by_piece[piece]);
}

/* The opposite of charge() and count_piece(). */
static void uncount(struct rxd_store *store, unsigned long held)
{
	uncharge(store, held_pages(held));
	count_piece(store, RXD_PIECE_64K, -(long)held_in_pieces(held, RXD_PIECE_64K));
	count_piece(store, RXD_PIECE_2M, -(long)held_in_pieces(held, RXD_PIECE_2M));
}

static struct rxd_leaf *alloc_leaf(const struct rxd_store *store, unsigned long pgno, gfp_t gfp)
{
	struct page *page;

	if (memory_is_low(1))
		return NULL;
	page = alloc_pages_node(node_of(store, pgno), gfp | __GFP_ZERO, 0);
	return page ? page_address(page) : NULL;
}

static void free_leaf_rcu(struct rcu_head *head)
{
	__free_page(container_of(head, struct page, rcu_head));
	note_freed(1);
}

static void set_leaf(struct rxd_store *store, unsigned long i, struct rxd_leaf *leaf)
{
	struct rxd_leaf __rcu **dir;

	dir = rcu_dereference_protected(store->dir, lockdep_is_held(&store->leaf_lock));
	rcu_assign_pointer(dir[i], leaf);
	if (store->next_dir)
		rcu_assign_pointer(store->next_dir[i], leaf);
}

static struct rxd_leaf *leaf_locked(struct rxd_store *store, unsigned long i)
{
	struct rxd_leaf __rcu **dir;

	dir = rcu_dereference_protected(store->dir, lockdep_is_held(&store->leaf_lock));
	return rcu_dereference_protected(dir[i], lockdep_is_held(&store->leaf_lock));
}

/*
 * The leaf for a page, held for what is about to enter it: it stays until that has
 * been taken out again, or put_leaf() was told that it did not enter.
 */
static struct rxd_leaf *get_leaf(struct rxd_store *store, unsigned long pgno,
				 unsigned long held, gfp_t gfp)
{
	unsigned long i = pgno / RXD_PAGES_PER_LEAF;
	struct rxd_leaf *leaf, *new;
	unsigned long flags;

	rcu_read_lock();
	leaf = rxd_store_leaf(store, pgno);
	if (leaf && !atomic_long_add_unless(leaf_held(leaf), held, 0))
		leaf = NULL;
	rcu_read_unlock();
	if (leaf)
		return leaf;

	new = alloc_leaf(store, pgno, gfp);
	if (!new)
		return NULL;
	atomic_long_set(leaf_held(new), held);

	spin_lock_irqsave(&store->leaf_lock, flags);
	leaf = leaf_locked(store, i);
	/* One that is on its way out has no pages, and gets none: take its place. */
	if (!leaf || !atomic_long_add_unless(leaf_held(leaf), held, 0)) {
		leaf = new;
		set_leaf(store, i, new);
		atomic_long_inc(&store->leaves);
	}
	spin_unlock_irqrestore(&store->leaf_lock, flags);

	if (leaf != new)
		rxd_store_free_page(virt_to_page(new));
	return leaf;
}

/* What was held has left the leaf, or did not enter it; with the last page it goes. */
static void put_leaf(struct rxd_store *store, struct rxd_leaf *leaf, unsigned long pgno,
		     unsigned long held)
{
	unsigned long i = pgno / RXD_PAGES_PER_LEAF;
	unsigned long flags;

	if (!held || atomic_long_sub_return(held, leaf_held(leaf)))
		return;

	spin_lock_irqsave(&store->leaf_lock, flags);
	if (leaf_locked(store, i) == leaf)
		set_leaf(store, i, NULL);
	spin_unlock_irqrestore(&store->leaf_lock, flags);

	atomic_long_dec(&store->leaves);
	atomic_long_inc(&retired_pages);
	call_rcu_hurry(&virt_to_page(leaf)->rcu_head, free_leaf_rcu);
}

/**
 * rxd_store_exchange - put another page in the place of a page, or none
 * @store: the store
 * @pgno: page number, below the capacity
 * @page: the new page, filled or not yet to be read by anyone; NULL for none
 * @gfp: for the leaf that may be needed; RXD_GFP_NOWAIT in atomic context
 *
 * The caller keeps others from changing what is in this place. The old page is freed
 * after a grace period.
 *
 * Return: 0; -ENOSPC if the place was empty and the limit is reached; -ENOMEM
 * if a leaf could not be had. On error nothing changed.
 */
int rxd_store_exchange(struct rxd_store *store, unsigned long pgno, struct page *page,
		       gfp_t gfp)
{
	unsigned long will = page ? held(page_private(page), 1) : 0, was;
	unsigned int i = pgno % RXD_PAGES_PER_LEAF;
	struct rxd_leaf *leaf;
	struct page *old;

	rcu_read_lock();
	leaf = rxd_store_leaf(store, pgno);
	old = leaf ? rcu_dereference(leaf->page[i]) : NULL;
	rcu_read_unlock();

	/* A page that is there keeps its leaf. */
	if (!old) {
		if (!page)
			return 0;
		if (!charge(store, 1))
			return -ENOSPC;
		leaf = get_leaf(store, pgno, will, gfp);
		if (!leaf) {
			uncharge(store, 1);
			return -ENOMEM;
		}
	}
	if (page)
		count_piece(store, page_private(page), 1);
	old = unrcu_pointer(xchg(&leaf->page[i], RCU_INITIALIZER(page)));
	if (!old) {
		note_max_used(store);
		return 0;
	}

	was = held(page_private(old), 1);
	count_piece(store, page_private(old), -1);
	if (!page) {
		uncharge(store, 1);
		put_leaf(store, leaf, pgno, was);
	} else if (will != was) {
		atomic_long_add(will - was, leaf_held(leaf));
	}
	set_page_private(old, 0);
	retire_pages(old, 1);
	return 0;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_exchange, RXD_NS);

/*
 * Find the pages from @pgno on, at most @max, that lie side by side in memory and
 * in one leaf. The caller is in an RCU section.
 *
 * Return: the data of the first, or NULL for a hole; in @nr how many pages it is.
 */
static __always_inline void *find_run(struct rxd_store *store, unsigned long pgno,
				      unsigned int max, unsigned int *nr)
{
	unsigned int first = pgno % RXD_PAGES_PER_LEAF;
	struct rxd_leaf *leaf = rxd_store_leaf(store, pgno);
	struct page *page, *next;
	unsigned int n = 1;
	void *data = NULL;

	max = min_t(unsigned int, max, RXD_PAGES_PER_LEAF - first);
	page = leaf ? rcu_dereference(leaf->page[first]) : NULL;
	if (likely(page)) {
		data = page_address(page);
		for (; n < max; n++) {
			next = rcu_access_pointer(leaf->page[first + n]);
			if (!next || page_address(next) != data + n * PAGE_SIZE)
				break;
		}
		if (n > 1) {
			/* The further pages are reached through the first one's pointer. */
			smp_rmb();
		}
	} else if (leaf) {
		while (n < max && !rcu_access_pointer(leaf->page[first + n]))
			n++;
	} else {
		n = max;
	}
	*nr = n;
	return data;
}

static unsigned int pages_spanned(u64 pos, unsigned int len)
{
	return (offset_in_page(pos) + len + PAGE_SIZE - 1) >> PAGE_SHIFT;
}

/* Bytes from @pos on that lie in a run of @nr pages, at most @len. */
static unsigned int bytes_of_run(u64 pos, unsigned int len, unsigned int nr)
{
	return min_t(u64, len, ((u64)nr << PAGE_SHIFT) - offset_in_page(pos));
}

/**
 * rxd_store_read - copy data out
 * @store: the store
 * @pos: first byte
 * @dst: where to copy to
 * @len: bytes; the range lies within the capacity
 *
 * What was never written reads as zeros.
 */
void rxd_store_read(struct rxd_store *store, u64 pos, void *dst, unsigned int len)
{
	unsigned int nr, part;
	void *data;

	while (len) {
		rcu_read_lock();
		data = find_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), &nr);
		part = bytes_of_run(pos, len, nr);
		if (likely(data))
			rxd_copy(dst, data + offset_in_page(pos), part);
		else
			memset(dst, 0, part);
		rcu_read_unlock();

		pos += part;
		dst += part;
		len -= part;
	}
}

/*
 * Write to pages that are there.
 *
 * Return: bytes written; 0 if there is a hole at @pos, and in @nr how many pages
 * it is.
 */
static unsigned int overwrite(struct rxd_store *store, u64 pos, const void *src,
			      unsigned int len, unsigned int *nr)
{
	unsigned int part = 0;
	void *data;

	rcu_read_lock();
	data = find_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), nr);
	if (likely(data)) {
		part = bytes_of_run(pos, len, *nr);
		rxd_copy(data + offset_in_page(pos), src, part);
	}
	rcu_read_unlock();
	return part;
}

static struct page *batch_page(const struct rxd_batch *batch, unsigned int i)
{
	return batch->piece == RXD_PIECE_PAGE ? batch->page[i] : batch->page[0] + i;
}

/**
 * rxd_batch_free - give back the pages that a write had ready and did not need
 * @batch: the batch; empty afterwards
 */
void rxd_batch_free(struct rxd_batch *batch)
{
	for (; batch->taken < batch->nr; batch->taken++)
		rxd_store_free_page(batch_page(batch, batch->taken));
}

/*
 * Fill a batch for places from @pgno on, with at most @nr pages. Large pieces go
 * only where they are aligned, so that they meet those of other writes.
 */
static void alloc_batch(struct rxd_store *store, unsigned long pgno, unsigned int nr,
			struct rxd_batch *batch, gfp_t gfp)
{
	unsigned int pages_64k = 1U << RXD_ORDER_64K;
	unsigned int order = store->options.order;

	batch->nr = 0;
	batch->taken = 0;
	batch->piece = RXD_PIECE_PAGE;
	if (order) {
		order = min_t(unsigned int, order, ilog2(nr));
		if (pgno)
			order = min_t(unsigned int, order, __ffs(pgno));
		nr = min_t(unsigned int, nr, pages_64k - pgno % pages_64k);
	}
	nr = min_t(unsigned int, nr, RXD_BATCH_PAGES);
	if (memory_is_low(max(nr, 1U << order)))
		return;

	for (; piece_of_order(order) != RXD_PIECE_PAGE; order = smaller_order(order)) {
		batch->page[0] = alloc_piece(store, pgno, order, gfp);
		if (batch->page[0]) {
			batch->nr = 1U << order;
			batch->piece = piece_of_order(order);
			return;
		}
	}

	batch->piece = RXD_PIECE_PAGE;
	if (nr == 1) {
		batch->page[0] = alloc_piece(store, pgno, 0, gfp);
		batch->nr = !!batch->page[0];
		return;
	}
	memset(batch->page, 0, nr * sizeof(batch->page[0]));
	batch->nr = rxd_alloc_pages_bulk(gfp, node_of(store, pgno), nr, batch->page);
}

/* Fill the next @nr pages: zeros where @src is NULL, and around what is written. */
static void fill_batch(const struct rxd_batch *batch, unsigned int nr, unsigned int offset,
		       const void *src, unsigned int len)
{
	unsigned int step = batch->piece == RXD_PIECE_PAGE ? 1 : nr;
	unsigned int i, part, room = step << PAGE_SHIFT;
	void *data;

	for (i = batch->taken; i < batch->taken + nr; i += step) {
		data = page_address(batch_page(batch, i));
		part = min(len, room - offset);
		/* Who sees these pages already was let in too early. */
		rxd_check_access(data, room, KCSAN_ACCESS_WRITE);
		memset(data, 0, offset);
		if (src) {
			rxd_copy(data + offset, src, part);
			src += part;
		} else {
			memset(data + offset, 0, part);
		}
		memset(data + offset + part, 0, room - offset - part);
		len -= part;
		offset = 0;
	}
}

/*
 * Others may have been faster: what was written goes to their page then.
 *
 * Return: how many pages entered the store.
 */
static unsigned int insert_batch(struct rxd_leaf *leaf, unsigned long pgno,
				 const struct rxd_batch *batch, unsigned int nr,
				 unsigned int offset, unsigned int len)
{
	unsigned int i, part, entered = 0;
	struct page *page, *other;
	struct page __rcu **slot;

	for (i = 0; i < nr; i++) {
		part = min_t(unsigned int, len, PAGE_SIZE - offset);
		page = batch_page(batch, batch->taken + i);
		slot = &leaf->page[(pgno + i) % RXD_PAGES_PER_LEAF];

		rcu_read_lock();
		other = unrcu_pointer(cmpxchg(slot, NULL, RCU_INITIALIZER(page)));
		if (other)
			rxd_copy(page_address(other) + offset, page_address(page) + offset,
				 part);
		rcu_read_unlock();

		if (other)
			rxd_store_free_page(page);
		else
			entered++;
		len -= part;
		offset = 0;
	}
	return entered;
}

/*
 * How many pages from @pgno on are not there: at most @max, to the end of the leaf, and no
 * more than a batch has.
 */
static unsigned int hole_size(struct rxd_store *store, unsigned long pgno, unsigned int max)
{
	unsigned int nr;
	void *data;

	max = min(max, max_t(unsigned int, RXD_BATCH_PAGES, 1U << store->options.order));
	rcu_read_lock();
	data = find_run(store, pgno, max, &nr);
	rcu_read_unlock();
	return data ? 1 : nr;
}

/*
 * Write @len bytes, or zeros if @src is NULL, to a hole of @nr pages at @pos, of
 * which @more bytes follow in the same write.
 *
 * Return: bytes written, 0 if there is no memory or the limit is reached.
 */
static unsigned int write_hole(struct rxd_store *store, u64 pos, const void *src,
			       unsigned int len, unsigned int nr, unsigned int more,
			       struct rxd_batch *batch, gfp_t gfp)
{
	unsigned long pgno = pos >> PAGE_SHIFT;
	struct rxd_leaf *leaf;
	unsigned int entered;

	if (!rxd_store_has_room(store, 1))
		return 0;
	if (batch->taken == batch->nr)
		alloc_batch(store, pgno,
			    hole_size(store, pgno, pages_spanned(pos, len + more)), batch, gfp);

	nr = charge(store, min(nr, batch->nr - batch->taken));
	if (!nr)
		return 0;
	leaf = get_leaf(store, pgno, held(batch->piece, nr), gfp);
	if (!leaf) {
		uncharge(store, nr);
		return 0;
	}
	len = bytes_of_run(pos, len, nr);
	fill_batch(batch, nr, offset_in_page(pos), src, len);
	/* Counted first: who frees them may be fast. */
	count_piece(store, batch->piece, nr);
	entered = insert_batch(leaf, pgno, batch, nr, offset_in_page(pos), src ? len : 0);
	batch->taken += nr;
	put_leaf(store, leaf, pgno, held(batch->piece, nr - entered));
	uncount(store, held(batch->piece, nr - entered));
	note_max_used(store);
	return len;
}

/*
 * Will others' dirty pages be memory once they are written? This disk's own are
 * not waited for, because it takes writes like the one that waits to clean them.
 */
static bool others_write_back(const struct rxd_store *store)
{
	long nr = global_node_page_state(NR_FILE_DIRTY) + global_node_page_state(NR_WRITEBACK);
	struct bdi_writeback *wb;

	if (store->bdi) {
		rcu_read_lock();
		list_for_each_entry_rcu(wb, &store->bdi->wb_list, bdi_node)
			nr -= wb_stat(wb, WB_RECLAIMABLE) + wb_stat(wb, WB_WRITEBACK);
		rcu_read_unlock();
	}
	return nr > (long)memory_headroom() / 16;
}

/*
 * Give others' pages time to be written. All writers together do so for
 * MEMORY_WAIT, until one of them finds memory or none was short for as long: what
 * is above this disk may wait for us, and its pages for it.
 */
static bool wait_for_writeback(struct rxd_store *store)
{
	unsigned long since = READ_ONCE(store->short_since), now = jiffies ?: 1;

	if (!since || time_after(now, READ_ONCE(store->short_last) + MEMORY_WAIT)) {
		since = now;
		WRITE_ONCE(store->short_since, since);
	}
	WRITE_ONCE(store->short_last, now);
	if (time_after(now, since + MEMORY_WAIT))
		return false;
	io_schedule_timeout(MEMORY_WAIT_STEP);
	return true;
}

/*
 * Wait for memory that is on its way back: freed, or others' page cache.
 *
 * Return: false if there is nothing to wait for, or no longer.
 */
static bool wait_for_memory(struct rxd_store *store, long freed, unsigned long end)
{
	long left = end - jiffies;

	if (left <= 0 || !rxd_store_has_room(store, 1))
		return false;
	if (is_retired() || atomic_long_read(&freed_pages) != freed) {
		wait_event_timeout(freed_wait, atomic_long_read(&freed_pages) != freed, left);
		return true;
	}
	/* Reclaim that swaps to this disk has other pages to free meanwhile. */
	if (current->flags & PF_MEMALLOC || !memory_is_there(0) || !others_write_back(store))
		return false;
	return wait_for_writeback(store);
}

/* As write_hole(); waits for memory if the caller may sleep. */
static unsigned int write_hole_patiently(struct rxd_store *store, u64 pos, const void *src,
					 unsigned int len, unsigned int nr, unsigned int more,
					 struct rxd_batch *batch, gfp_t gfp)
{
	unsigned int done;
	long freed;

	for (;;) {
		freed = atomic_long_read(&freed_pages);
		done = write_hole(store, pos, src, len, nr, more, batch, gfp);
		if (done || !gfpflags_allow_blocking(gfp))
			break;
		/* All parts of a write together wait no longer than one would. */
		if (!batch->deadline)
			batch->deadline = (jiffies + MEMORY_WAIT) ?: 1;
		if (!wait_for_memory(store, freed, batch->deadline))
			break;
	}

	if (done && READ_ONCE(store->short_since))
		WRITE_ONCE(store->short_since, 0);
	return done;
}

/* Return: what left the leaf. */
static unsigned long free_in_leaf(struct rxd_leaf *leaf, unsigned int first, unsigned int nr)
{
	struct page *page, *retired = NULL;
	unsigned long freed = 0;
	unsigned int i;

	for (i = first; i < first + nr; i++) {
		if (i + FREE_AHEAD < first + nr)
			prefetchw(rcu_access_pointer(leaf->page[i + FREE_AHEAD]));
		if (!rcu_access_pointer(leaf->page[i]))
			continue;
		page = unrcu_pointer(xchg(&leaf->page[i], NULL));
		if (!page)
			continue;
		freed += held(page_private(page), 1);
		set_page_private(page, (unsigned long)retired);
		retired = page;
	}
	retire_pages(retired, held_pages(freed));
	return freed;
}

/* Free pages of one leaf. Does not sleep. */
static unsigned int free_run(struct rxd_store *store, unsigned long first, unsigned int nr)
{
	unsigned long freed = 0;
	struct rxd_leaf *leaf;

	rcu_read_lock();
	leaf = rxd_store_leaf(store, first);
	if (leaf) {
		freed = free_in_leaf(leaf, first % RXD_PAGES_PER_LEAF, nr);
		put_leaf(store, leaf, first, freed);
	}
	rcu_read_unlock();

	uncount(store, freed);
	return held_pages(freed);
}

static bool all_zeroes(u64 pos, const void *src, unsigned int len)
{
	if (offset_in_page(pos) || len != PAGE_SIZE)
		return false;
	/* The owner of the buffer may change it: the disk then holds one or the other. */
	return !data_race(memchr_inv(src, 0, PAGE_SIZE));
}

/**
 * rxd_store_write_part - copy data in, allocating where nothing was written yet
 * @store: the store
 * @pos: first byte
 * @src: where to copy from
 * @len: bytes; the range lies within the capacity
 * @more: bytes that follow in the same write, also within the capacity; new pages are
 *	allocated for them, too
 * @batch: initialised; keeps the pages that the parts of a write share, until
 *	rxd_batch_free()
 * @gfp: RXD_GFP, or RXD_GFP_NOWAIT if the caller must not sleep
 *
 * Return: 0; -ENOSPC if there is no memory or the limit is reached: of a range
 * that crosses pages, some may be written then.
 */
int rxd_store_write_part(struct rxd_store *store, u64 pos, const void *src,
			 unsigned int len, unsigned int more, struct rxd_batch *batch,
			 gfp_t gfp)
{
	unsigned int nr, part, done, follows;

	while (len) {
		part = len;
		if (unlikely(store->options.detect_zeroes)) {
			part = min_t(unsigned int, len, PAGE_SIZE - offset_in_page(pos));
			if (all_zeroes(pos, src, part)) {
				free_run(store, pos >> PAGE_SHIFT, 1);
				goto next;
			}
		}
		follows = len - part + more;
		done = overwrite(store, pos, src, part, &nr);
		if (unlikely(!done))
			done = write_hole_patiently(store, pos, src, part, nr, follows, batch,
						    gfp);
		/* Whoever was faster may have taken the last page for this very place. */
		if (unlikely(!done))
			done = overwrite(store, pos, src, part, &nr);
		if (unlikely(!done))
			return -ENOSPC;
		part = done;
next:
		pos += part;
		src += part;
		len -= part;
	}
	return 0;
}

/**
 * rxd_store_zero - zero what is there
 * @store: the store
 * @pos: first byte
 * @len: bytes; the range lies within the capacity
 *
 * Allocates and frees nothing.
 */
void rxd_store_zero(struct rxd_store *store, u64 pos, unsigned int len)
{
	unsigned int nr, part;
	void *data;

	while (len) {
		rcu_read_lock();
		data = find_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), &nr);
		part = bytes_of_run(pos, len, nr);
		if (data)
			rxd_copy_zeroes(data + offset_in_page(pos), part);
		rcu_read_unlock();

		pos += part;
		len -= part;
	}
}

/**
 * rxd_store_can_fill - is it worth to try rxd_store_fill()?
 * @store: the store
 * @nr: number of pages, none of which is there yet
 *
 * May sleep: memory that is being freed is waited for, until the task is killed.
 *
 * Return: false if the limit or the memory there is now would end it half-way.
 */
bool rxd_store_can_fill(const struct rxd_store *store, unsigned long nr)
{
	return rxd_store_has_room(store, nr) && memory_comes(nr + nr_leaves(nr));
}

/**
 * rxd_store_fill - see to it that pages are there
 * @store: the store
 * @first: first page
 * @nr: number of pages; the range lies within the capacity
 * @gfp: RXD_GFP
 *
 * Where nothing was written yet, pages of zeros enter.
 *
 * Return: 0 or -ENOSPC; some pages may have entered then.
 */
int rxd_store_fill(struct rxd_store *store, unsigned long first, unsigned long nr, gfp_t gfp)
{
	unsigned int run, done;
	struct rxd_batch batch;
	int ret = 0;
	bool hole;

	rxd_batch_init(&batch);
	while (nr) {
		rcu_read_lock();
		hole = !find_run(store, first, min_t(unsigned long, nr, RXD_PAGES_PER_LEAF), &run);
		rcu_read_unlock();
		if (hole) {
			done = write_hole_patiently(store, (u64)first << PAGE_SHIFT, NULL,
						    run << PAGE_SHIFT, run, 0, &batch, gfp);
			if (!done) {
				ret = -ENOSPC;
				break;
			}
			run = done >> PAGE_SHIFT;
		}
		first += run;
		nr -= run;
		cond_resched();
	}
	rxd_batch_free(&batch);
	return ret;
}

/**
 * rxd_store_free_range - forget a range of pages and free their memory
 * @store: the store
 * @first: first page
 * @nr: number of pages; the range lies within the capacity
 *
 * May sleep. The range reads as zeros afterwards.
 *
 * Return: how many pages were freed.
 */
unsigned long rxd_store_free_range(struct rxd_store *store, unsigned long first,
				   unsigned long nr)
{
	unsigned long total = 0, in_leaf;

	while (nr) {
		in_leaf = min(nr, RXD_PAGES_PER_LEAF - first % RXD_PAGES_PER_LEAF);
		total += free_run(store, first, in_leaf);
		first += in_leaf;
		nr -= in_leaf;
		cond_resched();
	}
	return total;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_free_range, RXD_NS);

/*
 * Take leaves with all they hold out of the directory, onto a list.
 *
 * Return: how many pages they are and hold.
 */
static unsigned long detach_leaves(struct rxd_store *store, unsigned long first,
				   unsigned long end, struct list_head *leaves)
{
	unsigned long i, part_end, holds, nr = 0;
	struct rxd_leaf *leaf;

	for (i = first; i < end;) {
		part_end = min(i + LEAVES_PER_DETACH, end);
		spin_lock_irq(&store->leaf_lock);
		for (; i < part_end; i++) {
			leaf = leaf_locked(store, i);
			if (!leaf)
				continue;
			set_leaf(store, i, NULL);
			atomic_long_dec(&store->leaves);
			holds = atomic_long_read(leaf_held(leaf));
			uncount(store, holds);
			nr += held_pages(holds) + 1;
			list_add_tail(&virt_to_page(leaf)->lru, leaves);
		}
		spin_unlock_irq(&store->leaf_lock);
		cond_resched();
	}
	return nr;
}

static void free_leaves(struct list_head *leaves)
{
	struct page *page, *next, *data;
	struct rxd_leaf *leaf;
	unsigned int i, nr;

	list_for_each_entry_safe(page, next, leaves, lru) {
		leaf = page_address(page);
		for (i = 0, nr = 0; i < RXD_PAGES_PER_LEAF; i++) {
			if (i + FREE_AHEAD < RXD_PAGES_PER_LEAF)
				prefetchw(rcu_access_pointer(leaf->page[i + FREE_AHEAD]));
			data = rcu_dereference_protected(leaf->page[i], true);
			if (!data)
				continue;
			rxd_store_free_page(data);
			nr++;
		}
		rxd_store_free_page(page);
		note_freed(nr + 1);
		cond_resched();
	}
	INIT_LIST_HEAD(leaves);
}

static void free_store(struct rxd_store *store)
{
	LIST_HEAD(leaves);

	detach_leaves(store, 0, nr_leaves(store->nr_pages), &leaves);
	free_leaves(&leaves);
	kvfree(rcu_access_pointer(store->dir));
	kfree(store);
	note_freed(1);
}

static void reap(struct work_struct *work)
{
	struct rxd_store *store, *next;
	LIST_HEAD(leaves);
	LIST_HEAD(stores);

	spin_lock(&doomed_lock);
	list_splice_init(&doomed_leaves, &leaves);
	list_splice_init(&doomed_stores, &stores);
	spin_unlock(&doomed_lock);

	/* Somebody may walk the leaves who does no I/O. */
	synchronize_rcu();
	free_leaves(&leaves);
	list_for_each_entry_safe(store, next, &stores, doomed)
		free_store(store);
}

/* Put leaves out of sight; what they hold is freed in the background. */
static void drop_leaves(struct rxd_store *store, unsigned long first, unsigned long end)
{
	LIST_HEAD(leaves);

	atomic_long_add(detach_leaves(store, first, end, &leaves), &retired_pages);
	if (list_empty(&leaves))
		return;
	spin_lock(&doomed_lock);
	list_splice_tail(&leaves, &doomed_leaves);
	spin_unlock(&doomed_lock);
	queue_work(reap_wq, &reap_work);
}

/**
 * rxd_store_shrink - lower the capacity and free what lies beyond
 * @store: the store; the caller keeps I/O to what is cut off out meanwhile
 * @nr_pages: the new capacity in pages, not more than the old
 *
 * May sleep, but not for long: the memory is freed in the background. The store
 * may grow again at once. The directory keeps its size until rxd_store_trim(). Callers
 * serialise growing, shrinking and clearing.
 */
void rxd_store_shrink(struct rxd_store *store, unsigned long nr_pages)
{
	unsigned long old = store->nr_pages, leaf_end;

	WRITE_ONCE(store->nr_pages, nr_pages);
	leaf_end = min(old, nr_leaves(nr_pages) * RXD_PAGES_PER_LEAF);
	rxd_store_free_range(store, nr_pages, leaf_end - nr_pages);
	drop_leaves(store, nr_leaves(nr_pages), nr_leaves(old));
}

/**
 * rxd_store_clear - forget all data
 * @store: the store; the caller keeps all I/O out meanwhile
 *
 * May sleep, but not for long: the memory is freed in the background. Callers
 * serialise growing, shrinking and clearing.
 */
void rxd_store_clear(struct rxd_store *store)
{
	drop_leaves(store, 0, nr_leaves(store->nr_pages));
}

/**
 * rxd_store_drain - wait until all memory that was freed is back
 *
 * That of all stores, freed by any function here before this one was called.
 */
void rxd_store_drain(void)
{
	flush_work(&reap_work);
	rcu_barrier();
}

/**
 * rxd_store_init - make ready for stores
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_store_init(void)
{
	reap_wq = alloc_workqueue("rxd", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return reap_wq ? 0 : -ENOMEM;
}

/**
 * rxd_store_exit - wait for the memory of all stores, which were destroyed before
 */
void rxd_store_exit(void)
{
	rxd_store_drain();
	destroy_workqueue(reap_wq);
}

static unsigned long next_page(struct rxd_store *store, unsigned long first, bool data)
{
	struct rxd_leaf *leaf;
	unsigned long nr_pages;
	bool found = false;
	unsigned int i;

	do {
		i = first % RXD_PAGES_PER_LEAF;
		rcu_read_lock();
		/* In one section with the directory: pairs with rxd_store_trim(). */
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
	} while (first < nr_pages && !found);
	return min(first, nr_pages);
}

/**
 * rxd_store_next_data - find the next page that is there
 * @store: the store; the caller keeps it from shrinking
 * @first: where to begin
 *
 * Return: the first page from @first on that is there, or the capacity.
 */
unsigned long rxd_store_next_data(struct rxd_store *store, unsigned long first)
{
	return next_page(store, first, true);
}

/**
 * rxd_store_next_hole - find the next page that is not there
 * @store: the store; the caller keeps it from shrinking
 * @first: where to begin
 *
 * Return: the first page from @first on that is not there, or the capacity.
 */
unsigned long rxd_store_next_hole(struct rxd_store *store, unsigned long first)
{
	return next_page(store, first, false);
}
