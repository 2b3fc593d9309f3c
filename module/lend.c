// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lending: caches take memory that nobody needs, and give it back when others need it.
 *
 * Pages that a store has beyond a number are lent. They count as miscellaneous reclaimable memory,
 * which is a part of MemAvailable. This file counts them, and tells what a node can lend and what
 * it needs. See give-back.c for the way back.
 */
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/topology.h>
#include <linux/vmstat.h>
#include <uapi/linux/rxd.h>

#include "compat.h"
#include "lend.h"
#include "store-internal.h"

/*
 * Page cache is in use if more than this part of the pages of a node, or so many for each CPU, move
 * within so many jiffies.
 */
#define WATCH_SHIFT	12
#define WATCH_PAGES	SWAP_CLUSTER_MAX
#define WATCH_CPUS	4U /* at least */
#define WATCH_TIME	HZ

static DEFINE_SPINLOCK(lend_lock); /* what follows, and what all stores count for each node */
static long lent_on_node[MAX_NUMNODES];
static long lent_pages;

static DEFINE_SPINLOCK(watch_lock); /* changes of the watches */

/* How many pages of a node were swapped out, or were needed again, when the watch began. */
static struct watch {
	unsigned long since; /* in jiffies; 0: there was none */
	long moved;
	bool many; /* in the watch before */
} watches[MAX_NUMNODES];

static void count_on_node(int node, long nr)
{
	bool was_lent = lent_pages > 0;

	lockdep_assert_held(&lend_lock);
	if (!nr)
		return;
	WRITE_ONCE(lent_pages, lent_pages + nr);
	if (!was_lent && lent_pages > 0)
		rxd_give_early();
	WRITE_ONCE(lent_on_node[node], lent_on_node[node] + nr);
	mod_node_page_state(NODE_DATA(node), NR_KERNEL_MISC_RECLAIMABLE, nr);
}

/**
 * rxd_lend_count - count the lent pages of a store as reclaimable
 * @store: the store
 *
 * Each node has the same part of what is lent as of all pages.
 */
void rxd_lend_count(struct rxd_store *store)
{
	unsigned long lent, part, total = 0, flags;
	struct rxd_store_node *on;
	unsigned int node;

	spin_lock_irqsave(&lend_lock, flags);
	lent = rxd_store_lent(store);
	for (node = 0; node < nr_node_ids; node++) {
		on = &store->on_node[node];
		/* A page may leave before it is counted. */
		WRITE_ONCE(on->seen, max(atomic_long_read(&on->used), 0L));
		total += on->seen;
	}
	for (node = 0; node < nr_node_ids; node++) {
		on = &store->on_node[node];
		part = on->seen ? mul_u64_u64_div_u64(lent, on->seen, total) : 0;
		lent -= part;
		total -= on->seen;
		count_on_node(node, part - on->lent);
		WRITE_ONCE(on->lent, part);
	}
	spin_unlock_irqrestore(&lend_lock, flags);
}

/**
 * rxd_lend_count_on - as rxd_lend_count(), after pages have entered or left
 * @store: the store
 * @node: the node of the pages
 *
 * If all memory is on one node, others are not looked at: the caller may hold the lock of a bucket.
 */
void rxd_lend_count_on(struct rxd_store *store, int node)
{
	struct rxd_store_node *on = &store->on_node[node];
	unsigned long lent, flags;

	if (num_node_state(N_MEMORY) > 1) {
		rxd_lend_count(store);
		return;
	}
	spin_lock_irqsave(&lend_lock, flags);
	lent = rxd_store_lent(store);
	WRITE_ONCE(on->seen, max(atomic_long_read(&on->used), 0L));
	count_on_node(node, lent - on->lent);
	WRITE_ONCE(on->lent, lent);
	spin_unlock_irqrestore(&lend_lock, flags);
}

/**
 * rxd_store_set_lending - set how many pages are the store's own
 * @store: the store
 * @from: number of pages; those beyond it are lent; ULONG_MAX: none is
 */
void rxd_store_set_lending(struct rxd_store *store, unsigned long from)
{
	if (READ_ONCE(store->lent_from) == from)
		return;
	WRITE_ONCE(store->lent_from, from);
	rxd_lend_count(store);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_set_lending, RXD_NS);

/**
 * rxd_store_lent - get the number of lent pages
 * @store: the store
 *
 * Return: number of pages.
 */
unsigned long rxd_store_lent(const struct rxd_store *store)
{
	unsigned long used = atomic_long_read(&store->used), from = READ_ONCE(store->lent_from);

	return used > from ? used - from : 0;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_lent, RXD_NS);

/**
 * rxd_lent_pages - get the number of pages that all stores were lent
 *
 * Return: number of pages; it may differ by a MiB for each store and node.
 */
unsigned long rxd_lent_pages(void)
{
	return max(READ_ONCE(lent_pages), 0L);
}

/**
 * rxd_lent_on - get the number of pages that a node lends
 * @nid: the node
 *
 * Return: number of pages, as exact as that of rxd_lent_pages().
 */
unsigned long rxd_lent_on(int nid)
{
	return max(READ_ONCE(lent_on_node[nid]), 0L);
}

/**
 * rxd_lend_spare - get the free memory of a node beyond a watermark
 * @nid: the node
 * @mark: the watermark
 *
 * What zones keep for allocations that need them is not spare, nor is their reserve for atomic
 * ones, even if it is used. Single pages count: reclaim for larger pieces need not free more.
 *
 * Return: number of pages.
 */
long rxd_lend_spare(int nid, enum zone_watermarks mark)
{
	long spare = 0, keep;
	struct zone *zone;
	int i, j;

	for (i = 0; i < ZONE_MOVABLE; i++) {
		zone = &NODE_DATA(nid)->node_zones[i];
		if (!populated_zone(zone))
			continue;
		for (keep = 0, j = 0; j < MAX_NR_ZONES; j++)
			keep = max(keep, zone->lowmem_reserve[j]);
		keep += zone->_watermark[mark] + zone_page_state(zone, NR_FREE_CMA_PAGES) +
			READ_ONCE(zone->nr_reserved_highatomic);
		spare += max(0L, (long)zone_page_state(zone, NR_FREE_PAGES) - keep);
	}
	return spare;
}

/**
 * rxd_lend_boost - get by how much the watermarks of a node are raised for some time
 * @nid: the node
 *
 * So reclaim makes larger pieces. Single pages are not allocated below boosted watermarks either.
 *
 * Return: number of pages.
 */
long rxd_lend_boost(int nid)
{
	long boost = 0;
	int i;

	for (i = 0; i < ZONE_MOVABLE; i++)
		boost += READ_ONCE(NODE_DATA(nid)->node_zones[i].watermark_boost);
	return boost;
}

/**
 * rxd_lend_node_pages - get the size of a node
 * @nid: the node
 *
 * Return: number of pages.
 */
unsigned long rxd_lend_node_pages(int nid)
{
	unsigned long nr = 0;
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++)
		nr += zone_managed_pages(&NODE_DATA(nid)->node_zones[i]);
	return nr;
}

/**
 * rxd_lend_headroom - get the part of the headroom that a node must have
 * @nid: the node
 *
 * Return: number of pages.
 */
long rxd_lend_headroom(int nid)
{
	return mult_frac(rxd_headroom(), rxd_lend_node_pages(nid), totalram_pages());
}

/*
 * How much must be free beyond the high watermark: caches give back below the first mark, and grow
 * above the second one. Between them is room for what is given back at once, and what is replaced.
 */
static long give_mark(long headroom, long boost)
{
	return max(headroom / 4 * 3, boost);
}

static long grow_mark(long headroom, long boost)
{
	return max(headroom, boost + headroom / 4);
}

/**
 * rxd_lend_enough - get how much of a node must be free so that caches need not give back any
 * @nid: the node
 *
 * Return: number of pages beyond the high watermark.
 */
long rxd_lend_enough(int nid)
{
	return give_mark(rxd_lend_headroom(nid), rxd_lend_boost(nid));
}

/**
 * rxd_lend_node - find the node that lends memory
 * @node: the preferred node of the memory, or NUMA_NO_NODE
 *
 * Return: the node, which has memory that need not be movable.
 */
int rxd_lend_node(int node)
{
	if (node == NUMA_NO_NODE)
		node = numa_mem_id();
	if (!node_state(node, N_NORMAL_MEMORY))
		node = next_node_in(node, node_states[N_NORMAL_MEMORY]);
	return node;
}

/**
 * rxd_lend_has - check whether a node has memory to lend
 * @node: the node
 * @nr: number of pages
 *
 * kswapd keeps the free memory between the low and the high watermark where others have filled it
 * with page cache. There, lent memory is still taken in place of other lent memory. The headroom is
 * for rxd_lend_allows() to keep.
 *
 * Return: true if it has.
 */
bool rxd_lend_has(int node, unsigned long nr)
{
	return rxd_lend_spare(node, WMARK_LOW) >= (long)nr;
}

static bool may_grow_on(int nid, unsigned long nr)
{
	long mark = grow_mark(rxd_lend_headroom(nid), rxd_lend_boost(nid));

	return rxd_lend_spare(nid, WMARK_HIGH) >= mark + (long)nr;
}

/**
 * rxd_lend_allows - check whether a cache may be lent more memory
 * @store: its store
 * @nr: number of pages
 *
 * Only free memory is lent, beyond the watermarks and the headroom. Memory that could be reclaimed
 * does not count: it belongs to others, or was lent before. Each node that the store allocates
 * from must have its part of the pages.
 *
 * Return: true if it may.
 */
bool rxd_lend_allows(const struct rxd_store *store, unsigned long nr)
{
	unsigned int node;

	if (store->options.node != RXD_NODE_INTERLEAVE)
		return may_grow_on(rxd_lend_node(store->options.node), nr);
	nr = DIV_ROUND_UP(nr, num_node_state(N_NORMAL_MEMORY));
	for (node = 0; node < nr_node_ids; node++)
		if (node_state(node, N_NORMAL_MEMORY) && !may_grow_on(node, nr))
			return false;
	return true;
}
EXPORT_SYMBOL_NS_GPL(rxd_lend_allows, RXD_NS);

/**
 * rxd_lend_frees_much - is much memory waiting to be freed?
 *
 * Return: true if there is more than blocks that replace others may keep waiting all the time.
 */
bool rxd_lend_frees_much(void)
{
	return rxd_retired_pages() > (long)rxd_headroom() / 8;
}

/**
 * rxd_lend_may_replace - may lent memory be taken in place of other lent memory?
 *
 * The other memory is free only after a grace period. Misses that are faster must not use up the
 * memory that is free. All disks wait for the same grace periods, so the pages of all of them
 * count. After a large discard, the answer is no until most of its pages are free.
 *
 * Return: true if little memory is waiting to be freed, and some is free on a node. Whether it is
 * the node of the block is seen when a page is allocated.
 */
bool rxd_lend_may_replace(void)
{
	unsigned int node;

	if (rxd_lend_frees_much())
		return false;
	for (node = 0; node < nr_node_ids; node++)
		if (node_state(node, N_NORMAL_MEMORY) && rxd_lend_has(node, 1))
			return true;
	return false;
}
EXPORT_SYMBOL_NS_GPL(rxd_lend_may_replace, RXD_NS);

/* Each CPU counts some pages by itself before all see them, so few pages may be noise. */
static long watch_pages(unsigned int nr_cpus, unsigned long node_pages)
{
	return max(max(nr_cpus, WATCH_CPUS) * WATCH_PAGES, node_pages >> WATCH_SHIFT);
}

/* Page cache that is in use comes back, or keeps reclaim busy until it swaps. */
static long moved_on(int nid)
{
	const struct pglist_data *node = NODE_DATA(nid);

	return rxd_node_state(node, WORKINGSET_ACTIVATE_FILE) +
	       rxd_node_state(node, WORKINGSET_RESTORE_FILE) +
	       rxd_node_state(node, WORKINGSET_REFAULT_ANON) +
	       rxd_node_state(node, NR_VMSCAN_WRITE);
}

static bool is_much(int nid, long moved)
{
	return moved > watch_pages(num_online_cpus(), rxd_lend_node_pages(nid));
}

static void renew(struct watch *watch, int nid)
{
	unsigned long now = jiffies ?: 1, age = now - watch->since;
	bool is_recent = watch->since && age <= 2 * WATCH_TIME;
	long moved = moved_on(nid);

	lockdep_assert_held(&watch_lock);
	if (watch->since && age <= WATCH_TIME)
		return;
	/* Nobody has looked for some time: what has moved in minutes is not much. */
	WRITE_ONCE(watch->many, is_recent && is_much(nid, moved - watch->moved));
	WRITE_ONCE(watch->moved, moved);
	WRITE_ONCE(watch->since, now);
}

/**
 * rxd_lend_watch - watch what moves on a node, because memory is reclaimed
 * @nid: the node
 *
 * A control group that reclaims under its own limit moves pages, too. So only reclaim for want of
 * free memory may call this. It takes some time, because several tasks may reclaim.
 */
void rxd_lend_watch(int nid)
{
	if (spin_trylock(&watch_lock)) {
		renew(&watches[nid], nid);
		spin_unlock(&watch_lock);
	}
}

static bool is_moving(int nid)
{
	const struct watch *watch = &watches[nid];
	unsigned long since = READ_ONCE(watch->since);

	if (!since || jiffies - since > 2 * WATCH_TIME)
		return false;
	return READ_ONCE(watch->many) || is_much(nid, moved_on(nid) - READ_ONCE(watch->moved));
}

/**
 * rxd_lend_idle_cache - get how much page cache reclaim can take before it has to take lent memory
 * @nid: the node
 *
 * It must be clean and not in use, and in zones from which all allocations may take memory. Some of
 * it stays for what programs run from.
 *
 * Return: number of pages.
 */
long rxd_lend_idle_cache(int nid)
{
	long clean = 0;
	struct zone *zone;
	int i;

	if (is_moving(nid))
		return 0;
	for (i = 0; i < ZONE_MOVABLE; i++) {
		zone = &NODE_DATA(nid)->node_zones[i];
		if (!populated_zone(zone))
			continue;
		clean += zone_page_state(zone, NR_ZONE_ACTIVE_FILE) +
			 zone_page_state(zone, NR_ZONE_INACTIVE_FILE);
		clean -= zone_page_state(zone, NR_ZONE_WRITE_PENDING);
	}
	return max(clean - rxd_lend_headroom(nid) / 2, 0L);
}
