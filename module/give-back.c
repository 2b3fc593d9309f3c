// SPDX-License-Identifier: GPL-2.0-only
/*
 * Caches give back memory that they were lent: early, or when reclaim or the OOM killer asks.
 *
 * Reclaim is told only of pages that are free already: pages that wait for a grace period are no
 * progress to it, and then the OOM killer acts.
 *
 * Reclaim may run in a task that holds any lock. So sleeping locks are only tried.
 */
#include <linux/atomic.h>
#include <linux/cpuset.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/oom.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/shrinker.h>
#include <linux/sizes.h>
#include <linux/swap.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "lend.h"
#include "store-internal.h"

/* So many pages are given back at once, and at least: each time costs a grace period. */
#define BATCH_PAGES	(4UL << (20 - PAGE_SHIFT))
#define LEAST_PAGES	(1UL << (20 - PAGE_SHIFT))
/*
 * A first pass of reclaim scans twice a 4096th of what the shrinker reports. If it reports so many
 * times the memory, the pass asks for an eighth of the memory, unless little is lent.
 */
#define URGENT_TIMES	256
/* A task that waits for an allocation gets no more as long as this part, or so much, is free. */
#define TASK_PART	32
#define TASK_PAGES	(64 * LEAST_PAGES)
/* While others have page cache, of which a pass takes a part, caches give this part of the part. */
#define MILD_PART	1024
/* The OOM notifier gives back this part of what is lent. */
#define OOM_PART	8
#define OOM_LEAST	(16 * LEAST_PAGES)
#define OOM_MOST	(256 * LEAST_PAGES)
/* If locks are held, it tries again so often, with a pause before; or longer, while blocks move. */
#define OOM_TRIES	100
#define OOM_TRIES_MOVES	(150 * OOM_TRIES)
#define OOM_PAUSE	(HZ / 50)
/* For so long in a row, it reports memory that is free, but that nobody has given. */
#define OOM_SPARE_TIME	(10 * HZ)
/*
 * Programs may take so many pages in a jiffy (1 GiB/s). So free memory is looked at before half of
 * it can be gone, but at these intervals at least and at most.
 */
#define EARLY_RATE	DIV_ROUND_UP(SZ_1G >> PAGE_SHIFT, HZ)
#define EARLY_LEAST	DIV_ROUND_UP(HZ, 50)
#define EARLY_MOST	HZ
/* So much is given back early at once; and not more than this part of the headroom. */
#define EARLY_PAGES	(16 * LEAST_PAGES)
#define EARLY_PART	16
/* How often the use of all caches is compared. */
#define LOOK_INTERVAL	(5 * HZ)
#define WORTH_SCALE	SZ_1M

static DECLARE_RWSEM(borrowers_lock); /* the list, and the worth of its entries */
static LIST_HEAD(borrowers);

static struct shrinker *lend_shrinker;
static struct workqueue_struct *early_wq;

/* Tasks that are giving back, and what they have given since the OOM notifier was called. */
static atomic_t givers;
static atomic_long_t given_pages;

/* Caches whose blocks move to a larger index. They can give nothing until this ends. */
static atomic_t moving_caches;

/* How memory of a node is given back early. */
static struct early {
	bool is_giving;
	unsigned long pause; /* in jiffies, after nothing could be given */
} early_on_node[MAX_NUMNODES];

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

static long give_back(unsigned long nr, int node)
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
	found = rxd_store_free_taken(&pages);
	return !found && is_busy ? -EBUSY : found;
}

/**
 * rxd_note_givers - count tasks that are giving back, or that end what gave
 * @nr: 1; or -1 when the pages are free, or were counted by rxd_note_retired()
 */
void rxd_note_givers(int nr)
{
	/* Who sees no giver sees what was given: pairs with give_for_oom(). */
	smp_mb__before_atomic();
	atomic_add(nr, &givers);
}
EXPORT_SYMBOL_NS_GPL(rxd_note_givers, RXD_NS);

/**
 * rxd_give_back - have caches give back memory that they were lent
 * @nr: number of pages
 * @node: the node that needs them, or NUMA_NO_NODE
 *
 * May sleep for a grace period, and may be called by reclaim.
 *
 * Return: number of pages that are free now, or -EBUSY if there are none because locks are held. It
 * may be higher than @nr; or lower if there are not so many. A block counts whole if its first page
 * is on the node.
 */
long rxd_give_back(unsigned long nr, int node)
{
	long given;

	rxd_note_givers(1);
	given = give_back(nr, node);
	if (given > 0)
		atomic_long_add(given, &given_pages);
	rxd_note_givers(-1);
	return given;
}

/**
 * rxd_note_moves - count caches whose blocks move, and cannot be given back meanwhile
 * @nr: 1; or -1 at the end
 *
 * Between the two, the caller may only allocate memory with __GFP_NORETRY: the OOM notifier waits.
 */
void rxd_note_moves(int nr)
{
	atomic_add(nr, &moving_caches);
}

/* What to report if memory is urgently needed. */
static unsigned long urgent_count(unsigned long lent, unsigned long node_pages)
{
	return min(lent << DEF_PRIORITY, URGENT_TIMES * node_pages);
}

static unsigned long enough_for_task(unsigned long node_pages)
{
	return min(node_pages / TASK_PART, TASK_PAGES);
}

static unsigned long count_for_reclaim(struct shrinker *s, struct shrink_control *sc)
{
	unsigned long nr = rxd_lent_on(sc->nid);

	if (!nr)
		return SHRINK_EMPTY;
	/* Not reclaim, but drop_caches. */
	if (!current->reclaim_state)
		return nr;
	rxd_lend_watch(sc->nid);
	if (rxd_lend_idle_cache(sc->nid))
		return DIV_ROUND_UP(nr, MILD_PART);
	return urgent_count(nr, rxd_lend_node_pages(sc->nid));
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
	long enough = rxd_lend_enough(nid), spare = rxd_lend_spare(nid, WMARK_HIGH);

	if (current_is_kswapd())
		return spare < enough ? nr : 0;
	if (rxd_lend_spare(nid, WMARK_MIN) <
	    rxd_lend_boost(nid) + (long)enough_for_task(rxd_lend_node_pages(nid)))
		return nr;
	if (spare >= enough + 2 * (long)lend_shrinker->batch ||
	    rxd_reclaimed() >= SWAP_CLUSTER_MAX)
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

/* Return: number of pages that others and this task have given since the last call. */
static unsigned long give_for_oom(bool *is_busy)
{
	long nr = give_to_task(clamp(rxd_lent_pages() / OOM_PART, OOM_LEAST, OOM_MOST));

	*is_busy = nr == -EBUSY || atomic_read_acquire(&givers);
	return atomic_long_xchg(&given_pages, 0);
}

/* Since when, and when last, free memory was reported that nobody has given. */
static unsigned long spare_since, spare_last;

/*
 * Has a node that the task may use memory again? The allocation may want other memory, so the
 * answer is yes for some time only. The caller holds the lock of the OOM killer.
 */
static bool has_spare(void)
{
	unsigned int node;

	for (node = 0; node < nr_node_ids; node++)
		if (node_state(node, N_MEMORY) && node_isset(node, cpuset_current_mems_allowed) &&
		    rxd_lend_spare(node, WMARK_MIN) > rxd_lend_boost(node))
			break;
	if (node >= nr_node_ids)
		return false;
	if (time_after(jiffies, spare_last + OOM_SPARE_TIME))
		spare_since = jiffies;
	if (time_after(jiffies, spare_since + OOM_SPARE_TIME))
		return false;
	spare_last = jiffies;
	return true;
}

/*
 * Wait as long as others are giving, or have freed much.
 *
 * Return: number of pages that were given; or 1 if a node of the task has memory in any case; or 0.
 */
static unsigned long wait_for_others(bool is_busy)
{
	unsigned int i, tries = 0;
	unsigned long nr = 0;

	for (i = 0; i < OOM_TRIES_MOVES && tries < OOM_TRIES; i++) {
		if (nr || !(is_busy || rxd_lend_frees_much()) || fatal_signal_pending(current))
			break;
		schedule_timeout_uninterruptible(OOM_PAUSE);
		if (!atomic_read(&moving_caches))
			tries++;
		nr = give_for_oom(&is_busy) ?: has_spare();
	}
	/* A task is killed now. */
	if (!nr)
		spare_last = jiffies - OOM_SPARE_TIME - 1;
	return nr;
}

/*
 * Reclaim gives up while the LRU lists and the free memory together do not reach the watermarks,
 * even if shrinkers have freed pages. If the memory does not suffice, this is called again.
 *
 * The allocation has failed before others gave back what they have given meanwhile. So that counts
 * once, and what they are giving is waited for. So are pages that a large discard or the end of a
 * cache has freed, until their grace period is over.
 */
static int give_before_oom(struct notifier_block *block, unsigned long action, void *data)
{
	unsigned long nr, *freed = data;
	bool is_busy;

	nr = give_for_oom(&is_busy);
	/* kswapd must not wait, and comes again. */
	if (current_is_kswapd())
		nr = nr ?: is_busy && rxd_lent_pages();
	else
		nr = nr ?: wait_for_others(is_busy);
	*freed += nr;
	return NOTIFY_OK;
}

static struct notifier_block oom_block = { .notifier_call = give_before_oom };

/*
 * Between the mark at which this begins to give and the one at which it ends, no single page makes
 * the difference. What waits to be freed must leave room for blocks that replace others, see
 * rxd_lend_may_replace().
 *
 * Return: after how many jiffies to look again.
 */
static unsigned long give_early_on(int nid)
{
	long spare = rxd_lend_spare(nid, WMARK_HIGH), idle = rxd_lend_idle_cache(nid);
	long part = rxd_lend_headroom(nid) / EARLY_PART, enough = rxd_lend_enough(nid);
	unsigned long nr = max_t(long, enough + part - spare, LEAST_PAGES);
	struct early *early = &early_on_node[nid];

	if (spare < enough)
		early->is_giving = true;
	else if (spare >= enough + part)
		early->is_giving = false;
	if (!early->is_giving || idle) {
		early->pause = 0;
		return clamp_t(unsigned long, (spare / 2 + idle) / EARLY_RATE, EARLY_LEAST,
			       EARLY_MOST);
	}
	if (rxd_give_back(min(nr, clamp_t(unsigned long, part, LEAST_PAGES, EARLY_PAGES)), nid) > 0)
		early->pause = 0;
	else
		early->pause = clamp_t(unsigned long, 2 * early->pause, EARLY_LEAST, EARLY_MOST);
	return early->pause;
}

/*
 * Reclaim looks at the lists first, so a program that takes memory would be swapped out in part
 * while lent memory is left. Therefore memory is given back before reclaim begins. Nothing tells
 * when free memory becomes less, so this looks at it.
 */
static void give_early(struct work_struct *work)
{
	unsigned long delay = EARLY_MOST;
	unsigned int node;

	for (node = 0; node < nr_node_ids; node++)
		if (rxd_lent_on(node) && node_state(node, N_MEMORY))
			delay = min(delay, give_early_on(node));
	if (rxd_lent_pages())
		queue_delayed_work(early_wq, to_delayed_work(work), delay);
}

static DECLARE_DELAYED_WORK(early_work, give_early);

/**
 * rxd_give_early - look whether memory must be given back, as long as some is lent
 *
 * May be called with interrupts disabled.
 */
void rxd_give_early(void)
{
	queue_delayed_work(early_wq, &early_work, EARLY_LEAST);
}

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
 * rxd_give_back_init - register the shrinker and the OOM notifier
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_give_back_init(void)
{
	int ret;

	early_wq = alloc_workqueue("rxd-lend", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 1);
	if (!early_wq)
		return -ENOMEM;
	lend_shrinker = rxd_shrinker_alloc(SHRINKER_NUMA_AWARE, "rxd");
	if (!lend_shrinker) {
		destroy_workqueue(early_wq);
		return -ENOMEM;
	}
	lend_shrinker->count_objects = count_for_reclaim;
	lend_shrinker->scan_objects = give_to_reclaim;
	lend_shrinker->seeks = DEFAULT_SEEKS;
	lend_shrinker->batch = min(BATCH_PAGES, totalram_pages() / 128);
	ret = rxd_shrinker_register(lend_shrinker, "rxd");
	if (!ret)
		ret = register_oom_notifier(&oom_block);
	if (ret) {
		rxd_shrinker_free(lend_shrinker);
		destroy_workqueue(early_wq);
	}
	return ret;
}

/**
 * rxd_give_back_exit - undo rxd_give_back_init(), after all borrowers have ended
 */
void rxd_give_back_exit(void)
{
	unregister_oom_notifier(&oom_block);
	rxd_shrinker_free(lend_shrinker);
	cancel_delayed_work_sync(&compare_work);
	cancel_delayed_work_sync(&early_work);
	destroy_workqueue(early_wq);
}
