// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of a RAM disk: from which NUMA node it comes, in which sizes, and when it is free
 * again; how much stays free for the rest of the machine, and when a write waits for memory.
 *
 * A piece of several pages is split at once, so each of its pages is found and freed
 * separately.
 */
#include <linux/backing-dev.h>
#include <linux/cache.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/wait.h>
#include <uapi/linux/rxd.h>

#include "compat.h"
#include "store-internal.h"

/* Pages that a CPU may allocate before it checks the free memory again. */
#define MEMORY_CHECK_INTERVAL	64

/* So much of the headroom must not be dirty, or half of the headroom if that is less. */
#define CLEAN_HEADROOM		(64UL << (20 - PAGE_SHIFT))

/*
 * How long a step of a write waits for memory at most, and all steps together, because other I/O
 * may be held until the write has ended. How long one wait for writeback takes.
 */
#define MEMORY_WAIT		(10 * HZ)
#define MEMORY_WAIT_ALL		(120 * HZ)
#define MEMORY_WAIT_STEP	(HZ / 20)

/* Single pages of a CPU that wait for the next grace period at most: 256 KiB. */
#define RETIRED_BATCH		max(SZ_256K >> PAGE_SHIFT, 1)

/* Pages that caches give back to a write that finds no memory. */
#define GIVE_PAGES		(SZ_1M >> PAGE_SHIFT)

/* If no write waited for writeback for so long, those that do so next wait together anew. */
#define MEMORY_WAIT_GAP		HZ

/* How long a write to reserved memory waits, in addition, until it does not share it any more. */
#define RESERVED_WAIT		(60 * HZ)

static DEFINE_PER_CPU(unsigned int, store_allocations);

/* Pages and leaves that are not free, and other owners of them: the sums of all CPUs count. */
static DEFINE_PER_CPU(long, pages_held);
static DEFINE_PER_CPU(long, owners_held);

/*
 * Pages and leaves of all stores since the module was loaded: how many were queued for
 * freeing, and how many of these are free. Both change once for many pages. Tasks that need memory
 * sleep on freed_wait.
 */
static atomic_long_t retired_pages;
/* First writes read this. */
static atomic_long_t freed_pages ____cacheline_aligned_in_smp;
static DECLARE_WAIT_QUEUE_HEAD(freed_wait);

/*
 * Changes of owners: how many have begun, and how many of these have ended. A write whose
 * allocation failed may then replace its page, although no page is free. Tasks that wait for free
 * pages must not count these changes, so they have counts of their own.
 */
static atomic_long_t changes_begun ____cacheline_aligned_in_smp;
static atomic_long_t changes_ended;

/* How many of the pages that are queued for freeing were replaced by a write. */
static atomic_long_t replaced_pages ____cacheline_aligned_in_smp;

/**
 * struct retired_batch - single pages that wait for a grace period
 * @lock: protects all members; the callback reads @sent without it, because only the callback
 *	changes @sent while it is not NULL
 * @rcu: the callback that frees @sent
 * @sent: the first of the pages whose grace period has begun; NULL if there are none
 * @queued: the first of the pages that have left a store since then, and are not counted yet
 * @nr: number of pages from @queued on
 *
 * Each page links to the next by its private word. One callback frees many pages: RCU throttles
 * large numbers of callbacks.
 */
struct retired_batch {
	spinlock_t lock; /* all members */
	struct rcu_head rcu;
	struct page *sent;
	struct page *queued;
	unsigned int nr;
};

static DEFINE_PER_CPU(struct retired_batch, retired_batches) = {
	.lock = __SPIN_LOCK_UNLOCKED(retired_batches.lock),
};

/**
 * rxd_note_retired - count pages that are going to be freed after a grace period
 * @nr: number of pages; rxd_note_freed() counts each of them once it is free
 */
void rxd_note_retired(unsigned long nr)
{
	atomic_long_add(nr, &retired_pages);
}

/**
 * rxd_wake_waiters - let the tasks that wait for memory look again
 *
 * What they look at has changed.
 */
void rxd_wake_waiters(void)
{
	/* wq_has_sleeper() is a full barrier: pairs with that of wait_event(). */
	if (wq_has_sleeper(&freed_wait))
		wake_up_all(&freed_wait);
}

/**
 * rxd_note_freed - count pages that are free, and wake tasks that wait for memory
 * @nr: number of pages
 */
void rxd_note_freed(unsigned long nr)
{
	/* A task that sees the count can allocate the pages: pairs with rxd_retired_pages(). */
	smp_mb__before_atomic();
	atomic_long_add(nr, &freed_pages);
	rxd_wake_waiters();
}

/**
 * rxd_begin_change - let writes that find no memory wait for a change of owners
 *
 * Does not wait for anything, and nor must the caller until rxd_end_change().
 */
void rxd_begin_change(void)
{
	atomic_long_inc(&changes_begun);
	/* Who sees the change sees the count: pairs with rxd_store_wait_for_memory(). */
	smp_mb__after_atomic();
}

/**
 * rxd_end_change - let the writes that wait for a change of owners try again
 */
void rxd_end_change(void)
{
	/* Who sees the count sees the change: pairs with rxd_wait_token() and is_changing(). */
	smp_mb__before_atomic();
	atomic_long_inc(&changes_ended);
	rxd_wake_waiters();
}

static bool is_changing(void)
{
	/* Pairs with rxd_end_change(). */
	long ended = atomic_long_read_acquire(&changes_ended);

	return atomic_long_read(&changes_begun) != ended;
}

/* Return: number of pages that were freed so far. */
static long freed_so_far(void)
{
	/* Pairs with rxd_note_freed(). */
	return atomic_long_read_acquire(&freed_pages);
}

/**
 * rxd_wait_token - note a moment, to learn later whether a write should try again
 *
 * Return: a number that changes when pages are free, or when a change of owners has ended; to be
 * passed to rxd_store_wait_for_memory().
 */
long rxd_wait_token(void)
{
	/* What the caller tries next finds what was changed before: pairs with rxd_end_change(). */
	return freed_so_far() + atomic_long_read_acquire(&changes_ended);
}

/**
 * rxd_retired_pages - get the number of pages that are being freed
 *
 * Return: number of pages, without up to RETIRED_BATCH of each CPU that wait behind others. It is 0
 * only if there are none of these, either.
 */
long rxd_retired_pages(void)
{
	long freed = freed_so_far();

	return atomic_long_read(&retired_pages) - freed;
}

/* Is anything under way that a write can wait for, or did it end since rxd_wait_token()? */
static bool is_under_way(long token)
{
	return rxd_retired_pages() || is_changing() || rxd_wait_token() != token;
}

/* Return: number of pages. */
static long free_chain(struct page *page)
{
	struct page *next;
	long nr = 0;

	for (; page; page = next, nr++) {
		next = (struct page *)page_private(page);
		rxd_store_free_page(page);
	}
	return nr;
}

static void free_pages_rcu(struct rcu_head *head)
{
	rxd_note_freed(free_chain(container_of(head, struct page, rcu_head)));
}

/**
 * rxd_free_later - free pages that were counted by rxd_note_retired(), after a grace period
 * @first: the first page; each page links to the next by its private word; NULL is allowed
 *
 * RCU throttles large numbers of callbacks. With a callback for each page, the memory
 * would be free only long after a discard.
 */
void rxd_free_later(struct page *first)
{
	if (first)
		call_rcu_hurry(&first->rcu_head, free_pages_rcu);
}

static void free_batch_rcu(struct rcu_head *head);

/* Return: the first of the pages that are queued, which are counted from now on, or NULL. */
static struct page *take_queued(struct retired_batch *batch)
{
	struct page *first = batch->queued;

	lockdep_assert_held(&batch->lock);
	if (first)
		rxd_note_retired(batch->nr);
	batch->queued = NULL;
	batch->nr = 0;
	return first;
}

/* Begin the grace period of the pages that are queued. */
static void send_batch(struct retired_batch *batch)
{
	batch->sent = take_queued(batch);
	if (batch->sent)
		call_rcu_hurry(&batch->rcu, free_batch_rcu);
}

static void free_batch_rcu(struct rcu_head *head)
{
	struct retired_batch *batch = container_of(head, struct retired_batch, rcu);
	unsigned long flags;
	long nr;

	nr = free_chain(batch->sent);
	/* Count the next pages first, so that a write which is short of memory waits for them. */
	spin_lock_irqsave(&batch->lock, flags);
	send_batch(batch);
	spin_unlock_irqrestore(&batch->lock, flags);
	rxd_note_freed(nr);
}

/**
 * rxd_retire_page - free a page that has left a store, after a grace period
 * @page: the page
 *
 * Pages that leave while the grace period of an earlier one lasts wait for the next one, together.
 * Their number is bounded, because they use memory for longer.
 */
void rxd_retire_page(struct page *page)
{
	struct retired_batch *batch = raw_cpu_ptr(&retired_batches);
	unsigned long flags;

	spin_lock_irqsave(&batch->lock, flags);
	set_page_private(page, (unsigned long)batch->queued);
	batch->queued = page;
	batch->nr++;
	if (!batch->sent)
		send_batch(batch);
	else if (batch->nr == RETIRED_BATCH)
		rxd_free_later(take_queued(batch));
	spin_unlock_irqrestore(&batch->lock, flags);
}

/**
 * rxd_retire_pages - free pages that have left a store, after a grace period
 * @first: the first page, as for rxd_free_later()
 * @nr: number of pages
 */
void rxd_retire_pages(struct page *first, unsigned int nr)
{
	if (!first)
		return;
	if (nr == 1) {
		rxd_retire_page(first);
		return;
	}
	rxd_note_retired(nr);
	rxd_free_later(first);
}

/**
 * rxd_headroom - get the memory that is left to others
 *
 * A RAM disk must not take the memory that the rest of the machine needs. Leave an
 * eighth, but at least 32 MiB and at most 2 GiB. This is enough for the dirty pages that
 * a file system keeps when its disk is full.
 *
 * Return: number of pages.
 */
unsigned long rxd_headroom(void)
{
	return clamp(totalram_pages() / 8, 32UL << (20 - PAGE_SHIFT), 2UL << (30 - PAGE_SHIFT));
}

/**
 * rxd_may_replace - may a write take a page from the headroom to replace one that is then free?
 *
 * The page is free only after a grace period. Writers that are faster wait for the pages that they
 * have replaced before, so that they do not use up the headroom. The old leaf that a copy replaces
 * is not one of these pages: a page of the leaf is then replaced, too.
 *
 * Return: true if few replaced pages are waiting to be freed.
 */
bool rxd_may_replace(void)
{
	return atomic_long_read(&replaced_pages) < (long)rxd_headroom() / 8;
}

/*
 * The pages that unmovable allocations can get, including by reclaim. si_mem_available()
 * also counts pages that only movable allocations can get. Page cache in CMA areas stays
 * counted: no counter tells it from the rest of its zone.
 */
static long usable_memory(void)
{
	long nr = si_mem_available() - (long)global_zone_page_state(NR_FREE_CMA_PAGES);
	long of_others = global_node_page_state(NR_KERNEL_MISC_RECLAIMABLE) - rxd_lent_pages();
	struct zone *zone;
	int node;

	/* What other drivers call reclaimable they need not give to a GFP_NOIO allocation. */
	nr -= max(of_others, 0L);
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

/* si_mem_available() does not count free pages on the per-CPU lists. */
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

/*
 * How many of the usable pages must be written to a device before they can be reclaimed? Swapped
 * pages that are being written are not usable, but count, too.
 */
static long dirty_pages(void)
{
	long nr = global_zone_page_state(NR_ZONE_WRITE_PENDING);
	int node;

	for_each_online_node(node)
		nr -= zone_page_state(&NODE_DATA(node)->node_zones[ZONE_MOVABLE],
				      NR_ZONE_WRITE_PENDING);
	return nr;
}

/*
 * An estimate without those of the store's own device, because only writes to it clean them. They
 * are assumed to be in ZONE_MOVABLE as often as all dirty pages are.
 */
static long dirty_pages_of_others(const struct rxd_store *store)
{
	long all = global_zone_page_state(NR_ZONE_WRITE_PENDING), nr = dirty_pages(), own = 0;
	struct bdi_writeback *wb;

	if (store->bdi) {
		rcu_read_lock();
		list_for_each_entry_rcu(wb, &store->bdi->wb_list, bdi_node)
			own += wb_stat(wb, WB_RECLAIMABLE) + wb_stat(wb, WB_WRITEBACK);
		rcu_read_unlock();
	}
	return all > own ? mult_frac(all - own, nr, all) : 0;
}

/*
 * Do the per-CPU lists have @wanted pages? While memory is low, each allocation asks, and the
 * lists of many CPUs take long to sum: a sum serves for a jiffy if it is large enough. It is
 * never the reason for a refusal, because pages may have been freed since.
 */
static bool cpu_lists_have(long wanted)
{
	static unsigned long summed_at;
	static long last_sum;
	unsigned long now = jiffies;
	long sum;

	if (wanted <= 0)
		return true;
	/* The lists hardly have more than this. */
	if (wanted > (long)totalram_pages() / 8)
		return false;
	/* Pairs with the release below. */
	if (smp_load_acquire(&summed_at) == now && READ_ONCE(last_sum) >= wanted)
		return true;
	sum = pages_on_cpu_lists();
	WRITE_ONCE(last_sum, sum);
	/* Pairs with the acquire above: the sum is at least as new. */
	smp_store_release(&summed_at, now);
	return sum >= wanted;
}

/*
 * How many pages are missing from the headroom, if @dirty pages cannot be reclaimed soon? A part of
 * the headroom must not be dirty: other programs would wait for the disks that the pages belong to,
 * and the OOM killer acts if these disks are too slow for it.
 */
static long missing_pages(long dirty)
{
	long headroom = rxd_headroom();

	return max(headroom, min_t(long, headroom / 2, CLEAN_HEADROOM) + dirty) - usable_memory();
}

/* Can @nr pages be allocated without touching the headroom, once dirty pages have been written? */
static bool memory_is_there(unsigned long nr)
{
	return cpu_lists_have((long)nr + missing_pages(0));
}

/* Count the pages that are queued behind others, and have them freed after a grace period. */
static void send_all_queued(void)
{
	struct retired_batch *batch;
	unsigned long flags;
	int cpu;

	for_each_possible_cpu(cpu) {
		batch = per_cpu_ptr(&retired_batches, cpu);
		spin_lock_irqsave(&batch->lock, flags);
		rxd_free_later(take_queued(batch));
		spin_unlock_irqrestore(&batch->lock, flags);
	}
}

/*
 * Wait until @nr pages can be allocated, until the pages that are queued for freeing now
 * are free, or until the task is killed. Caches free pages all the time, so do not wait
 * for pages that are queued later.
 *
 * Return: 0; -EINTR if the task is killed while it waits; @shortage if the pages are not there.
 */
static int wait_for_pages(unsigned long nr, int shortage)
{
	long last;

	send_all_queued();
	last = atomic_long_read(&retired_pages);
	if (wait_event_killable(freed_wait, memory_is_there(nr) || freed_so_far() - last >= 0))
		return -EINTR;
	return memory_is_there(nr) ? 0 : shortage;
}

/**
 * rxd_prepare_table - wait for the memory that a table will take
 * @size: size of the table in bytes
 *
 * As with data pages, tables of up to MEMORY_CHECK_INTERVAL pages are not checked. May
 * sleep while memory is being freed.
 *
 * Return: 0; -ENOMEM if too little would be left for the rest of the machine; -EINTR if the task is
 * killed.
 */
int rxd_prepare_table(size_t size)
{
	unsigned long nr = size >> PAGE_SHIFT;

	return nr <= MEMORY_CHECK_INTERVAL ? 0 : wait_for_pages(nr, -ENOMEM);
}
EXPORT_SYMBOL_NS_GPL(rxd_prepare_table, RXD_NS);

/**
 * rxd_store_set_bdi - set the device whose data a store holds
 * @store: the store
 * @bdi: the device; must exist as long as the store is written
 *
 * A write that waits for memory does not wait for dirty pages of this device, because
 * only such writes clean them.
 */
void rxd_store_set_bdi(struct rxd_store *store, struct backing_dev_info *bdi)
{
	store->bdi = bdi;
}

/*
 * Count pages that are about to be allocated. Check the free memory once in
 * MEMORY_CHECK_INTERVAL pages, and each time while it is low.
 *
 * Return: 0, or -ENOMEM if only the headroom is left, or too little of it would be clean, and @gfp
 * does not allow to use that.
 */
static int count_allocation(const struct rxd_store *store, unsigned int nr, gfp_t gfp)
{
	static bool low __read_mostly;
	bool now;

	if (this_cpu_add_return(store_allocations, nr) % MEMORY_CHECK_INTERVAL >= nr &&
	    !READ_ONCE(low))
		return 0;

	now = missing_pages(dirty_pages()) > 0;
	/* All CPUs read this, so write it only if it changes. */
	if (READ_ONCE(low) != now)
		WRITE_ONCE(low, now);
	if (!now || gfp & RXD_GFP_REPLACE)
		return 0;
	if (gfp & RXD_GFP_WRITEBACK)
		return memory_is_there(0) ? 0 : -ENOMEM;
	return cpu_lists_have(missing_pages(dirty_pages_of_others(store))) ? 0 : -ENOMEM;
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

/* No other node helps out with memory that is lent, which must not be movable. */
static int node_to_ask(const struct rxd_store *store, unsigned long pgno, gfp_t gfp)
{
	int node = node_of(store, pgno);

	return gfp & __GFP_THISNODE ? rxd_lend_node(node) : node;
}

/* The order to try next if no piece of this order is free. */
static unsigned int smaller_order(unsigned int order)
{
	if (order <= RXD_ORDER_64K)
		return order / 2;
	return max_t(unsigned int, order / 2, RXD_ORDER_64K);
}

/*
 * Smaller pieces serve as well, so do not reclaim or compact memory for a large one, and
 * do not take it from another node.
 */
static struct page *alloc_piece(const struct rxd_store *store, unsigned long pgno,
				unsigned int order, gfp_t gfp)
{
	int node = node_to_ask(store, pgno, gfp);
	struct page *page;
	unsigned int i;

	gfp &= ~RXD_GFP_MARKS;
	if (order)
		gfp = (gfp & ~__GFP_RECLAIM) | __GFP_THISNODE;
	page = alloc_pages_node(node, gfp, order);
	if (!page)
		return NULL;
	this_cpu_add(pages_held, 1L << order);
	if (!order)
		return page;
	split_page(page, order);
	/* A page counts its owners there, and only the first word of a piece is set. */
	for (i = 1; i < 1U << order; i++)
		set_page_private(page + i, 0);
	return page;
}

/* May pages be allocated? Those that are lent have rules of their own. */
static bool may_allocate(const struct rxd_store *store, unsigned long pgno, unsigned int nr,
			 gfp_t gfp)
{
	if (gfp & __GFP_THISNODE)
		return rxd_lend_has(node_to_ask(store, pgno, gfp), nr);
	return !count_allocation(store, nr, gfp);
}

/**
 * rxd_store_alloc_run - allocate contiguous pages for data
 * @store: the store
 * @pgno: approximate number of the first page in the store; selects the NUMA node
 * @nr: in: number of pages wanted, greater than 0; out: number of pages allocated
 * @gfp: RXD_GFP, RXD_GFP_NOWAIT or RXD_GFP_LENT
 *
 * Each of the pages enters a store and is freed separately. They are not zeroed: fill
 * them before they enter a store.
 *
 * Return: the first page, or NULL if memory is short.
 */
struct page *rxd_store_alloc_run(struct rxd_store *store, unsigned long pgno,
				 unsigned int *nr, gfp_t gfp)
{
	unsigned int order = min_t(unsigned int, ilog2(*nr), RXD_ORDER_2M);
	struct page *page;

	if (!may_allocate(store, pgno, 1U << order, gfp))
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
 * rxd_store_alloc_page - allocate a page for data
 * @store: the store
 * @pgno: approximate number of the page in the store; selects the NUMA node
 * @gfp: RXD_GFP, RXD_GFP_NOWAIT or RXD_GFP_LENT
 *
 * The page is not zeroed: fill it before it enters a store.
 *
 * Return: the page, or NULL if memory is short.
 */
struct page *rxd_store_alloc_page(struct rxd_store *store, unsigned long pgno, gfp_t gfp)
{
	unsigned int nr = 1;

	return rxd_store_alloc_run(store, pgno, &nr, gfp);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_alloc_page, RXD_NS);

/**
 * rxd_store_free_page - free a page at once
 * @page: the page, which never entered a store, or whose grace period is over
 */
void rxd_store_free_page(struct page *page)
{
	set_page_private(page, 0);
	this_cpu_dec(pages_held);
	__free_page(page);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_free_page, RXD_NS);

static void free_replaced_rcu(struct rcu_head *head)
{
	/* First, because free_pages_rcu() wakes tasks that call rxd_may_replace(). */
	atomic_long_dec(&replaced_pages);
	free_pages_rcu(head);
}

/**
 * rxd_retire_replaced - free a page that a write has replaced, after a grace period
 * @page: the page
 */
void rxd_retire_replaced(struct page *page)
{
	set_page_private(page, 0);
	atomic_long_inc(&replaced_pages);
	rxd_note_retired(1);
	call_rcu_hurry(&page->rcu_head, free_replaced_rcu);
}

/**
 * rxd_note_owners - count other owners of leaves and pages
 * @nr: how many have come, or, if negative, have left
 */
void rxd_note_owners(long nr)
{
	this_cpu_add(owners_held, nr);
}

/**
 * rxd_expect_nothing_left - warn about leaks, after all stores were destroyed and drained
 *
 * kmemleak does not know pages.
 */
void rxd_expect_nothing_left(void)
{
	long pages = 0, owners = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		pages += per_cpu(pages_held, cpu);
		owners += per_cpu(owners_held, cpu);
	}
	WARN_ONCE(is_changing(), "a change of owners has not ended\n");
	WARN_ONCE(pages || owners || rxd_retired_pages(),
		  "%ld pages, %ld owners and %ld retired pages are left\n", pages, owners,
		  rxd_retired_pages());
}

/**
 * rxd_leaf_alloc - allocate a leaf
 * @store: the store
 * @pgno: number of a page of the leaf; selects the NUMA node
 * @gfp: RXD_GFP, RXD_GFP_NOWAIT or RXD_GFP_LENT
 *
 * Return: the leaf, without pages, or NULL if memory is short.
 */
struct rxd_leaf *rxd_leaf_alloc(const struct rxd_store *store, unsigned long pgno, gfp_t gfp)
{
	struct page *page;

	if (!may_allocate(store, pgno, 1, gfp))
		return NULL;
	page = alloc_pages_node(node_to_ask(store, pgno, gfp), (gfp & ~RXD_GFP_MARKS) | __GFP_ZERO,
				0);
	if (!page)
		return NULL;
	this_cpu_inc(pages_held);
	return page_address(page);
}

/**
 * rxd_write_free_rest - free the pages that a write has allocated and not used
 * @write: the write
 */
void rxd_write_free_rest(struct rxd_write *write)
{
	for (; write->taken < write->nr; write->taken++)
		rxd_store_free_page(rxd_write_page(write, write->taken));
}

/**
 * rxd_write_alloc - allocate pages for a hole
 * @write: the write, which has used all its pages; it gets none if memory is short
 * @store: the store
 * @pgno: first page of the hole
 * @nr: maximum number of pages, greater than 0
 *
 * Large pieces are allocated for aligned ranges only, so that the pieces of several writes
 * fit together.
 */
void rxd_write_alloc(struct rxd_write *write, const struct rxd_store *store,
		     unsigned long pgno, unsigned int nr)
{
	unsigned int pages_64k = 1U << RXD_ORDER_64K;
	unsigned int order = store->options.order;

	write->nr = 0;
	write->taken = 0;
	write->contiguous = false;
	if (order) {
		order = min_t(unsigned int, order, ilog2(nr));
		if (pgno)
			order = min_t(unsigned int, order, __ffs(pgno));
		nr = min_t(unsigned int, nr, pages_64k - pgno % pages_64k);
	}
	nr = min_t(unsigned int, nr, RXD_BATCH_PAGES);
	if (count_allocation(store, max(nr, 1U << order), write->gfp))
		return;

	/* Less than 64 KiB is allocated as single pages. */
	for (; order && order >= RXD_ORDER_64K; order = smaller_order(order)) {
		write->page[0] = alloc_piece(store, pgno, order, write->gfp);
		if (write->page[0]) {
			write->nr = 1U << order;
			write->contiguous = true;
			return;
		}
	}

	if (nr == 1) {
		write->page[0] = alloc_piece(store, pgno, 0, write->gfp);
		write->nr = !!write->page[0];
		return;
	}
	memset(write->page, 0, nr * sizeof(write->page[0]));
	write->nr = rxd_alloc_pages_bulk(write->gfp & ~RXD_GFP_MARKS, node_of(store, pgno), nr,
					 write->page);
	this_cpu_add(pages_held, write->nr);
}

/*
 * Wait for writeback to other devices, or for kswapd. All writers share one period of
 * MEMORY_WAIT, because the dirty pages may belong to a device stacked on this disk, and then
 * become clean only by writes to this disk. A new period begins after a writer has found memory,
 * or MEMORY_WAIT_GAP after the last wait.
 */
static bool wait_for_writeback(struct rxd_store *store)
{
	/* Pairs with the release below: a new period is not taken for the old one. */
	unsigned long last = smp_load_acquire(&store->short_last);
	unsigned long since = READ_ONCE(store->short_since), now = jiffies ?: 1;

	if (!since || time_after(now, last + MEMORY_WAIT_GAP)) {
		since = now;
		WRITE_ONCE(store->short_since, since);
	}
	if (time_after(now, since + MEMORY_WAIT))
		return false;
	/* Pairs with the acquire above. */
	smp_store_release(&store->short_last, now);
	set_current_state(TASK_UNINTERRUPTIBLE);
	io_schedule_timeout(MEMORY_WAIT_STEP);
	return true;
}

/*
 * A write in place to reserved memory needs no other memory. Give up the stores that share it,
 * remove the marks, and prevent new ones until the caller has tried again. A clone that is being
 * made may still share the memory. The caller then finds no memory, and calls this again.
 */
static bool take_back(struct rxd_store *store, const struct rxd_write *write)
{
	unsigned long now = jiffies;

	if (time_after(now, write->since + MEMORY_WAIT + RESERVED_WAIT))
		return false;
	WRITE_ONCE(store->unshared_until, (now + RESERVED_WAIT) ?: 1);
	if (rxd_give_up_others(store))
		wait_event_timeout(freed_wait, !rxd_is_giving_up(), MEMORY_WAIT_STEP);
	rxd_lift_now();
	/* The pages that were given up may still be in their grace period. */
	if (time_before_eq(jiffies, now))
		schedule_timeout_uninterruptible(1);
	WRITE_ONCE(store->unshared_until, (jiffies + HZ) ?: 1);
	return true;
}

/**
 * rxd_store_wait_for_memory - wait for pages that will soon be free, or can be replaced
 * @store: the store
 * @token: what rxd_wait_token() returned before the allocation failed
 * @write: the write that waits; each step that succeeds adds its time to @waited
 *
 * Return: true if the caller should try again; false if there is nothing to wait for, or
 * if the write has waited for long enough.
 */
bool rxd_store_wait_for_memory(struct rxd_store *store, long token, struct rxd_write *write)
{
	bool may_take_back = store->options.reserved && write->shared;
	long left, headroom = rxd_headroom(), dirty;
	unsigned long waited, now = jiffies ?: 1;
	bool may_wait;

	if (!write->since)
		write->since = now;
	waited = now - write->since;
	if (READ_ONCE(store->lost) || write->waited + waited > MEMORY_WAIT_ALL)
		return false;
	left = min_t(long, MEMORY_WAIT, MEMORY_WAIT_ALL - write->waited) - waited;
	/* Other memory that is being freed may go to others: wait for it only for a second. */
	if (may_take_back && left < MEMORY_WAIT - HZ)
		return take_back(store, write);
	if (left <= 0)
		return false;
	if (is_under_way(token)) {
		/* It may go to others, too, or take long. */
		if (left > MEMORY_WAIT / 2)
			left -= MEMORY_WAIT / 2;
		else
			rxd_give_up_others(store);
		wait_event_timeout(freed_wait, rxd_wait_token() != token || READ_ONCE(store->lost),
				   may_take_back ? HZ : left);
		return true;
	}
	dirty = dirty_pages_of_others(store);
	/* The headroom is there, so no page was free, and reclaim has found none. */
	if (cpu_lists_have(missing_pages(dirty)) && rxd_give_back(GIVE_PAGES, NUMA_NO_NODE) > 0)
		return true;
	/* Reclaim must not wait: if a swap-out to this disk fails, it can free other pages. */
	may_wait = !(current->flags & PF_MEMALLOC) && memory_is_there(0);
	/* Page cache of other devices is being written. Other stores need not be given up yet. */
	if (may_wait && dirty > headroom / 16 && left > MEMORY_WAIT / 2 &&
	    wait_for_writeback(store))
		return true;
	if (may_take_back)
		return take_back(store, write);
	if (rxd_give_up_others(store)) {
		/* Stores of other families may take longer. */
		wait_event_timeout(freed_wait, rxd_wait_token() != token || !rxd_is_giving_up() ||
				   READ_ONCE(store->lost), left);
		return true;
	}
	/* kswapd also reclaims slab caches, which an allocation without __GFP_FS cannot do. */
	dirty += global_node_page_state_pages(NR_SLAB_RECLAIMABLE_B);
	if (may_wait && dirty > headroom / 16 && wait_for_writeback(store))
		return true;
	/*
	 * A store that was given up, or could have been, may have been cleared since the first
	 * look, or a page had an owner more for a moment. Pairs with rxd_leave_family() and
	 * rxd_begin_change().
	 */
	smp_rmb();
	return is_under_way(token);
}

/**
 * rxd_write_end_wait - end the waits of a step, which has got its memory
 * @write: the write, which has waited
 */
void rxd_write_end_wait(struct rxd_write *write)
{
	write->waited += jiffies - write->since;
	write->since = 0;
}

/**
 * rxd_store_prepare_fill - wait for the memory that rxd_store_fill() will need
 * @store: the store, or NULL if it is yet to be created, without a limit below @nr
 * @nr: number of pages, all of them holes
 *
 * May sleep while memory is being freed.
 *
 * Return: 0; -ENOSPC if the limit or the available memory is too low; -EINTR if the task is killed.
 */
int rxd_store_prepare_fill(struct rxd_store *store, unsigned long nr)
{
	if (store && !rxd_store_has_room(store, nr) && !rxd_store_return_stocks(store, nr))
		return -ENOSPC;
	return wait_for_pages(nr + rxd_nr_leaves(nr), -ENOSPC);
}
