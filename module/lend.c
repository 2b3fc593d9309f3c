// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lending: caches take memory that nobody needs, and give it back when others need it.
 *
 * Pages that a store has beyond a number are lent. They count as miscellaneous reclaimable memory,
 * which is a part of MemAvailable. Reclaim is told only of pages that are free already: pages that
 * wait for a grace period are no progress to it, and then the OOM killer acts.
 *
 * Reclaim may run in a task that holds any lock. So sleeping locks are only tried.
 */
#include <linux/atomic.h>
#include <linux/cpuset.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/oom.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/topology.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>
#include <uapi/linux/rxd.h>

#include "compat.h"
#include "lend.h"
#include "store-internal.h"

/* So many pages are given back at once, and at least: each time costs a grace period. */
#define BATCH_PAGES	(4UL << (20 - PAGE_SHIFT))
#define LEAST_PAGES	(1UL << (20 - PAGE_SHIFT))
/*
 * A pass of reclaim swaps out up to a 4096th of the memory, and scans twice that part of what the
 * shrinker reports. If it reports so many times the memory, it gives 128 times as much as may be
 * swapped out meanwhile, unless little is lent.
 */
#define URGENT_TIMES	64
/* kswapd gets no more as long as this part of the memory is free. */
#define KSWAPD_PART	32
/* A task that waits for an allocation gets no more as long as this part, or so much, is free. */
#define TASK_PART	128
#define TASK_PAGES	(64 * LEAST_PAGES)
/* While others have page cache, of which a pass takes a part, caches give this part of the part. */
#define MILD_PART	1024
/* Page cache is in use if more than so many pages for each CPU move within so many jiffies. */
#define WATCH_PAGES	SWAP_CLUSTER_MAX
#define WATCH_CPUS	4U /* at least */
#define WATCH_TIME	HZ
/* The OOM notifier gives back this part of what is lent. */
#define OOM_PART	8
#define OOM_LEAST	(16 * LEAST_PAGES)
#define OOM_MOST	(256 * LEAST_PAGES)
/* If locks are held, it tries again so often, with a pause before. */
#define OOM_TRIES	100
#define OOM_PAUSE	(HZ / 50)
/* How often the use of all caches is compared. */
#define LOOK_INTERVAL	(5 * HZ)
#define WORTH_SCALE	SZ_1M

static DEFINE_SPINLOCK(lend_lock); /* what follows, and what all stores count for each node */
static long lent_on_node[MAX_NUMNODES];
static long lent_pages;

static DECLARE_RWSEM(borrowers_lock); /* the list, and the worth of its entries */
static LIST_HEAD(borrowers);

static struct shrinker *lend_shrinker;

static DEFINE_SPINLOCK(watch_lock); /* changes of the watches */

/* How many pages of a node were swapped out, or were needed again, when the watch began. */
static struct watch {
	unsigned long since; /* in jiffies; 0: there was none */
	long moved;
	bool many; /* in the watch before */
} watches[MAX_NUMNODES];

static void count_on_node(int node, long nr)
{
	lockdep_assert_held(&lend_lock);
	if (!nr)
		return;
	WRITE_ONCE(lent_pages, lent_pages + nr);
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

/*
 * The free memory of a node beyond a watermark, and beyond what zones keep for allocations that
 * need them. Single pages count, because reclaim for larger pieces need not free more. A boost of
 * the watermarks is one for larger pieces.
 */
static long spare_on(int node, enum zone_watermarks mark)
{
	long spare = 0, keep;
	struct zone *zone;
	int i, j;

	for (i = 0; i < ZONE_MOVABLE; i++) {
		zone = &NODE_DATA(node)->node_zones[i];
		if (!populated_zone(zone))
			continue;
		for (keep = 0, j = 0; j < MAX_NR_ZONES; j++)
			keep = max(keep, zone->lowmem_reserve[j]);
		keep += zone->_watermark[mark] + zone_page_state(zone, NR_FREE_CMA_PAGES);
		spare += max(0L, (long)zone_page_state(zone, NR_FREE_PAGES) - keep);
	}
	return spare;
}

static unsigned long pages_of_node(int node)
{
	unsigned long nr = 0;
	int i;

	for (i = 0; i < MAX_NR_ZONES; i++)
		nr += zone_managed_pages(&NODE_DATA(node)->node_zones[i]);
	return nr;
}

/* The part of the headroom that a node must have. */
static long headroom_on(int node)
{
	return mult_frac(rxd_headroom(), pages_of_node(node), totalram_pages());
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
	return spare_on(node, WMARK_LOW) >= (long)nr;
}

static bool may_grow_on(int node, unsigned long nr)
{
	return spare_on(node, WMARK_HIGH) >= headroom_on(node) + (long)nr;
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

	if (rxd_retired_pages() > (long)rxd_headroom() / 8)
		return false;
	for (node = 0; node < nr_node_ids; node++)
		if (node_state(node, N_NORMAL_MEMORY) && rxd_lend_has(node, 1))
			return true;
	return false;
}
EXPORT_SYMBOL_NS_GPL(rxd_lend_may_replace, RXD_NS);

/* Of equal worth, the addresses give an order. */
static bool comes_after(const struct rxd_borrower *a, const struct rxd_borrower *b)
{
	return a->worth == b->worth ? a > b : a->worth > b->worth;
}

/* Find the borrower that gives after @last, or the first one. */
static struct rxd_borrower *next_borrower(const struct rxd_borrower *last)
{
	struct rxd_borrower *borrower, *best = NULL;

	lockdep_assert_held(&borrowers_lock);
	list_for_each_entry(borrower, &borrowers, list)
		if ((!last || comes_after(borrower, last)) &&
		    (!best || comes_after(best, borrower)))
			best = borrower;
	return best;
}

static unsigned long lent_by(const struct rxd_borrower *borrower, int node)
{
	const struct rxd_store *store = borrower->store;

	return node == NUMA_NO_NODE ? rxd_store_lent(store) : READ_ONCE(store->on_node[node].lent);
}

/**
 * rxd_give_back - have caches give back memory that they were lent
 * @nr: number of pages
 * @node: the node that needs them, or NUMA_NO_NODE
 *
 * May sleep for a grace period, and may be called by reclaim.
 *
 * Return: number of pages of this node that are free now, or -EBUSY if there are none because
 * locks are held. It may be higher than @nr; or lower if there are not so many.
 */
long rxd_give_back(unsigned long nr, int node)
{
	struct rxd_borrower *borrower = NULL;
	unsigned long found = 0, lent;
	bool is_busy = false;
	LIST_HEAD(pages);
	long given;

	if (!down_read_trylock(&borrowers_lock))
		return -EBUSY;
	while (found < nr && (borrower = next_borrower(borrower))) {
		lent = lent_by(borrower, node);
		if (!lent)
			continue;
		given = borrower->give(borrower, min(nr - found, lent), node, &pages);
		if (given < 0)
			is_busy = true;
		else
			found += given;
		/* Exactly: nobody may wait for pages that are counted, but not there. */
		rxd_lend_count(borrower->store);
	}
	up_read(&borrowers_lock);
	rxd_store_free_taken(&pages);
	return !found && is_busy ? -EBUSY : found;
}

/* Each CPU counts some pages by itself before all see them, so few pages may be noise. */
static long watch_pages(unsigned int nr_cpus)
{
	return max(nr_cpus, WATCH_CPUS) * WATCH_PAGES;
}

static void renew(struct watch *watch, long moved, long many)
{
	unsigned long now = jiffies ?: 1, age = now - watch->since;
	bool is_recent = watch->since && age <= 2 * WATCH_TIME;

	lockdep_assert_held(&watch_lock);
	if (watch->since && age <= WATCH_TIME)
		return;
	/* Without reclaim, nobody has looked: what has moved in minutes is not much. */
	WRITE_ONCE(watch->many, is_recent && moved - watch->moved > many);
	WRITE_ONCE(watch->moved, moved);
	watch->since = now;
}

/*
 * Page cache that is in use comes back, or keeps reclaim busy until it swaps. This is seen over
 * some time, because several tasks may reclaim.
 */
static bool is_moving(int nid)
{
	const struct pglist_data *node = NODE_DATA(nid);
	long moved, many = watch_pages(num_online_cpus());
	struct watch *watch = &watches[nid];

	moved = rxd_node_state(node, WORKINGSET_ACTIVATE_FILE) +
		rxd_node_state(node, WORKINGSET_RESTORE_FILE) +
		rxd_node_state(node, WORKINGSET_REFAULT_ANON) +
		rxd_node_state(node, NR_VMSCAN_WRITE);
	if (spin_trylock(&watch_lock)) {
		renew(watch, moved, many);
		spin_unlock(&watch_lock);
	}
	return READ_ONCE(watch->many) || moved - READ_ONCE(watch->moved) > many;
}

/* Clean page cache that is not in use can be reclaimed at least as well as what was lent. */
static bool is_urgent(int nid)
{
	const struct pglist_data *node = NODE_DATA(nid);
	long clean = rxd_node_state(node, NR_ACTIVE_FILE) + rxd_node_state(node, NR_INACTIVE_FILE) -
		     rxd_node_state(node, NR_FILE_DIRTY) - rxd_node_state(node, NR_WRITEBACK);

	return is_moving(nid) || clean < (long)node->node_present_pages / 16;
}

/* What to report if memory is urgently needed. */
static unsigned long urgent_count(unsigned long lent, unsigned long node_pages)
{
	return min(lent << DEF_PRIORITY, URGENT_TIMES * node_pages);
}

/* Less than the headroom, which caches that grow leave: they would take the rest at once. */
static unsigned long enough_for_kswapd(unsigned long node_pages, unsigned long headroom)
{
	return min(node_pages / KSWAPD_PART, headroom / 4 * 3);
}

static unsigned long enough_for_task(unsigned long node_pages)
{
	return min(node_pages / TASK_PART, TASK_PAGES);
}

static unsigned long count_for_reclaim(struct shrinker *s, struct shrink_control *sc)
{
	unsigned long nr = READ_ONCE(lent_on_node[sc->nid]);

	if (!nr)
		return SHRINK_EMPTY;
	/* Not reclaim, but drop_caches. */
	if (!current->reclaim_state)
		return nr;
	if (!is_urgent(sc->nid))
		return DIV_ROUND_UP(nr, MILD_PART);
	return urgent_count(nr, pages_of_node(sc->nid));
}

/*
 * A caller does not look at the watermarks again until it has scanned all that it has set out to
 * scan. An allocation waits for direct reclaim, and kswapd goes on up to the high watermark.
 *
 * Without progress, a task would scan twice as much in its next pass, even if kswapd has freed
 * memory meanwhile. So it gets as many pages as one pass must free. More memory is free only if the
 * task looks for a larger piece.
 *
 * Return: @nr; or how many pages suffice if that is less; or 0.
 */
static unsigned long missing_on(int nid, unsigned long nr)
{
	unsigned long node_pages = pages_of_node(nid);
	long enough = enough_for_kswapd(node_pages, headroom_on(nid));
	long spare = spare_on(nid, WMARK_HIGH);

	if (current_is_kswapd())
		return spare < enough ? nr : 0;
	if (spare_on(nid, WMARK_MIN) < (long)enough_for_task(node_pages))
		return nr;
	if (spare >= enough + 2 * lend_shrinker->batch || rxd_reclaimed() >= SWAP_CLUSTER_MAX)
		return 0;
	return SWAP_CLUSTER_MAX;
}

static unsigned long give_to_reclaim(struct shrinker *s, struct shrink_control *sc)
{
	unsigned long wanted = max(sc->nr_to_scan, LEAST_PAGES);
	long nr;

	if (current->reclaim_state)
		wanted = missing_on(sc->nid, wanted);
	if (!wanted)
		return SHRINK_STOP;
	nr = rxd_give_back(wanted, sc->nid);
	if (nr <= 0)
		return SHRINK_STOP;
	mm_account_reclaimed_pages(nr);
	return nr;
}

/* Give memory of nodes that the task may use. */
static long give_to_task(unsigned long nr)
{
	long given, found = 0;
	bool is_busy = false;
	unsigned int node;

	if (nodes_subset(node_states[N_MEMORY], cpuset_current_mems_allowed))
		return rxd_give_back(nr, NUMA_NO_NODE);
	for (node = 0; node < nr_node_ids && found < (long)nr; node++) {
		if (!node_isset(node, cpuset_current_mems_allowed))
			continue;
		given = rxd_give_back(nr - found, node);
		if (given < 0)
			is_busy = true;
		else
			found += given;
	}
	return !found && is_busy ? -EBUSY : found;
}

/*
 * Reclaim gives up while the LRU lists and the free memory together do not reach the watermarks,
 * even if shrinkers have freed pages. If the memory does not suffice, this is called again.
 */
static int give_before_oom(struct notifier_block *block, unsigned long action, void *data)
{
	unsigned long *freed = data;
	unsigned int i;
	long nr;

	for (i = 0; i < OOM_TRIES; i++) {
		if (i)
			schedule_timeout_uninterruptible(OOM_PAUSE);
		nr = give_to_task(clamp(rxd_lent_pages() / OOM_PART, OOM_LEAST, OOM_MOST));
		if (nr != -EBUSY)
			break;
	}
	if (nr > 0)
		*freed += nr;
	return NOTIFY_OK;
}

static struct notifier_block oom_block = { .notifier_call = give_before_oom };

/* Worth halves in an interval without use. */
static void compare(struct work_struct *work)
{
	struct rxd_borrower *borrower;
	u64 uses, used;

	/* Do not wait: reclaim, which only tries to read, would find the lock taken meanwhile. */
	if (!down_write_trylock(&borrowers_lock)) {
		schedule_delayed_work(to_delayed_work(work), 1);
		return;
	}
	list_for_each_entry(borrower, &borrowers, list) {
		uses = borrower->count_uses(borrower);
		used = max(atomic_long_read(&borrower->store->used), 1L);
		borrower->worth += div64_u64((uses - borrower->uses) * WORTH_SCALE, used);
		borrower->worth /= 2;
		borrower->uses = uses;
	}
	if (!list_empty(&borrowers))
		schedule_delayed_work(to_delayed_work(work), LOOK_INTERVAL);
	up_write(&borrowers_lock);
}

static DECLARE_DEFERRABLE_WORK(compare_work, compare);

static void begin(struct rxd_borrower *borrower)
{
	list_add_tail(&borrower->list, &borrowers);
	schedule_delayed_work(&compare_work, LOOK_INTERVAL);
}

/**
 * rxd_borrow_begin - let a cache be asked for memory that it was lent
 * @borrower: the cache; nothing changes if it may be asked already
 *
 * Until its use is known, it is worth as much as others.
 */
void rxd_borrow_begin(struct rxd_borrower *borrower)
{
	struct rxd_borrower *other;
	unsigned int nr = 0;
	u64 worth = 0;

	down_write(&borrowers_lock);
	if (list_empty(&borrower->list)) {
		list_for_each_entry(other, &borrowers, list) {
			worth += other->worth;
			nr++;
		}
		borrower->worth = nr ? div_u64(worth, nr) : 0;
		borrower->uses = borrower->count_uses(borrower);
		begin(borrower);
	}
	up_write(&borrowers_lock);
}
EXPORT_SYMBOL_NS_GPL(rxd_borrow_begin, RXD_NS);

/**
 * rxd_borrow_replace - ask a cache in place of another one, whose blocks and counters it has got
 * @old: the other cache, which may not be asked already
 * @new: the cache
 *
 * Waits while the other cache gives pages out of its store.
 */
void rxd_borrow_replace(struct rxd_borrower *old, struct rxd_borrower *new)
{
	down_write(&borrowers_lock);
	list_del_init(&old->list);
	if (list_empty(&new->list)) {
		new->worth = old->worth;
		new->uses = old->uses;
		begin(new);
	}
	up_write(&borrowers_lock);
}
EXPORT_SYMBOL_NS_GPL(rxd_borrow_replace, RXD_NS);

/**
 * rxd_borrow_end - do not ask a cache for memory any more
 * @borrower: the cache, which may not be asked already
 *
 * Waits while the cache gives pages out of its store.
 */
void rxd_borrow_end(struct rxd_borrower *borrower)
{
	down_write(&borrowers_lock);
	list_del_init(&borrower->list);
	up_write(&borrowers_lock);
}
EXPORT_SYMBOL_NS_GPL(rxd_borrow_end, RXD_NS);

/**
 * rxd_lend_init - register the shrinker and the OOM notifier
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_lend_init(void)
{
	int ret;

	lend_shrinker = rxd_shrinker_alloc(SHRINKER_NUMA_AWARE, "rxd");
	if (!lend_shrinker)
		return -ENOMEM;
	lend_shrinker->count_objects = count_for_reclaim;
	lend_shrinker->scan_objects = give_to_reclaim;
	lend_shrinker->seeks = DEFAULT_SEEKS;
	lend_shrinker->batch = min(BATCH_PAGES, totalram_pages() / TASK_PART);
	ret = rxd_shrinker_register(lend_shrinker, "rxd");
	if (!ret)
		ret = register_oom_notifier(&oom_block);
	if (ret)
		rxd_shrinker_free(lend_shrinker);
	return ret;
}

/**
 * rxd_lend_exit - undo rxd_lend_init(), after all borrowers have ended
 */
void rxd_lend_exit(void)
{
	unregister_oom_notifier(&oom_block);
	rxd_shrinker_free(lend_shrinker);
	cancel_delayed_work_sync(&compare_work);
}
