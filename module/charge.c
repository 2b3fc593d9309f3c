// SPDX-License-Identifier: GPL-2.0-only
/*
 * The limit of a store: how many pages may hold data, and how many do.
 *
 * Pages are charged before they enter a store. So that processors which fill the holes of one disk
 * do not all write to one counter, a processor charges up to RXD_STOCK pages in advance, and takes
 * later ones from this stock. The limit stays exact: near it, nobody takes a stock, and a write
 * fails only after all stocks were returned. Without a stock, pages are charged and enter the store
 * under a lock there. So whoever finds no room sees the page that took it:
 *
 *	writer 1			writer 2, to the same page
 *
 *	charges the last page
 *	adds the page to the store
 *					finds no room
 *					finds the page
 */
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "store-internal.h"

/*
 * While others write, the number may be too low, by what they charge meanwhile. Without the lock,
 * it may also be too high, by what they take into stock.
 *
 * Return: number of pages that hold data.
 */
static unsigned long count_used(const struct rxd_store *store)
{
	unsigned long used, stocks = 0;
	int cpu;

	if (READ_ONCE(store->has_stock)) {
		for_each_possible_cpu(cpu)
			stocks += atomic_read(per_cpu_ptr(store->stock, cpu));
	}
	/* In the other order, a page that is freed and then taken from stock would count twice. */
	smp_rmb();
	used = atomic_long_read(&store->used);
	return used - min(used, stocks);
}

/* Return: number of pages that hold data. */
static unsigned long note_max_used(struct rxd_store *store)
{
	unsigned long used = count_used(store);

	lockdep_assert_held(&store->charge_lock);
	if (used > store->max_used)
		WRITE_ONCE(store->max_used, used);
	return used;
}

/* Return: true if there were any. */
static bool return_stocks(struct rxd_store *store)
{
	unsigned long nr = 0;
	atomic_t *stock;
	int cpu;

	lockdep_assert_held(&store->charge_lock);
	if (!store->has_stock)
		return false;
	/* Before the number falls: see rxd_store_discharge(). */
	note_max_used(store);
	for_each_possible_cpu(cpu) {
		stock = per_cpu_ptr(store->stock, cpu);
		if (atomic_read(stock))
			nr += atomic_xchg(stock, 0);
	}
	WRITE_ONCE(store->has_stock, false);
	atomic_long_sub(nr, &store->used);
	return nr;
}

static void set_limits(struct rxd_store *store, unsigned long mem_limit, unsigned long cap)
{
	lockdep_assert_held(&store->charge_lock);
	WRITE_ONCE(store->mem_limit, mem_limit);
	WRITE_ONCE(store->cap, cap);
	WRITE_ONCE(store->limit, min(mem_limit, cap));
	/* They may be beyond the new limit. */
	return_stocks(store);
}

/**
 * rxd_store_set_limit - limit the memory that data may take
 * @store: the store
 * @limit: number of pages; ULONG_MAX for no limit
 *
 * A limit below the current use frees nothing; it only prevents growth.
 */
void rxd_store_set_limit(struct rxd_store *store, unsigned long limit)
{
	unsigned long flags;

	spin_lock_irqsave(&store->charge_lock, flags);
	set_limits(store, limit, store->cap);
	spin_unlock_irqrestore(&store->charge_lock, flags);
}

/**
 * rxd_store_set_cap - limit the memory that the data of a cache may take
 * @store: the store, which the cache owns
 * @cap: number of pages; ULONG_MAX for no limit
 *
 * The limit of rxd_store_set_limit() applies as well. As with that, nothing is freed.
 */
void rxd_store_set_cap(struct rxd_store *store, unsigned long cap)
{
	unsigned long flags;

	spin_lock_irqsave(&store->charge_lock, flags);
	set_limits(store, store->mem_limit, cap);
	spin_unlock_irqrestore(&store->charge_lock, flags);
}
EXPORT_SYMBOL_NS_GPL(rxd_store_set_cap, RXD_NS);

/**
 * rxd_store_excess - get the memory beyond the limit of rxd_store_set_cap()
 * @store: the store
 *
 * Return: number of pages that must be freed until the store is within this limit.
 */
unsigned long rxd_store_excess(const struct rxd_store *store)
{
	unsigned long used = atomic_long_read(&store->used), cap = READ_ONCE(store->cap);

	return used > cap ? used - cap : 0;
}
EXPORT_SYMBOL_NS_GPL(rxd_store_excess, RXD_NS);

/**
 * rxd_store_return_stocks - return the stocks of all processors
 * @store: the store
 * @nr: number of pages
 *
 * Return: true if the store has room for @nr pages now.
 */
bool rxd_store_return_stocks(struct rxd_store *store, unsigned long nr)
{
	unsigned long flags;
	bool has_room;

	spin_lock_irqsave(&store->charge_lock, flags);
	return_stocks(store);
	has_room = rxd_store_has_room(store, nr);
	spin_unlock_irqrestore(&store->charge_lock, flags);
	return has_room;
}

/**
 * rxd_store_is_near_limit - check whether the stocks of all processors may reach the limit
 * @store: the store
 * @nr: number of pages to be charged beside them
 *
 * This is a hint, unless the caller holds charge_lock.
 *
 * Return: true if so.
 */
bool rxd_store_is_near_limit(const struct rxd_store *store, unsigned int nr)
{
	unsigned long used = atomic_long_read(&store->used), limit = READ_ONCE(store->limit);

	return used >= limit || limit - used < nr + (unsigned long)RXD_STOCK * num_possible_cpus();
}

/**
 * rxd_store_charge - charge pages that will hold data, within the limit
 * @store: the store
 * @nr: number of pages
 *
 * Return: number of pages that were charged; fewer than @nr at the limit.
 */
unsigned int rxd_store_charge(struct rxd_store *store, unsigned int nr)
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

/*
 * The lock makes the limit exact: a task that finds no room has seen all stocks, and no task takes
 * a stock by a limit that is not in force any more.
 */
static noinline unsigned int charge_and_stock(struct rxd_store *store, unsigned int nr,
					      atomic_t *stock)
{
	unsigned int charged = 0;
	unsigned long flags;

	spin_lock_irqsave(&store->charge_lock, flags);
	/* Only this function adds to a stock. */
	if (!rxd_store_is_near_limit(store, nr))
		charged = rxd_store_charge(store, nr + RXD_STOCK - atomic_read(stock));
	if (charged > nr) {
		WRITE_ONCE(store->has_stock, true);
		atomic_add(charged - nr, stock);
		charged = nr;
	}
	spin_unlock_irqrestore(&store->charge_lock, flags);
	return charged;
}

/**
 * rxd_store_charge_stocked - charge pages of a disk, in most cases from the processor's stock
 * @store: the store, which is not that of a cache
 * @nr: number of pages, greater than 0
 *
 * Return: number of pages that were charged; 0 near the limit: see rxd_store_charge_near().
 */
unsigned int rxd_store_charge_stocked(struct rxd_store *store, unsigned int nr)
{
	/* It does no harm to go on with this stock on another processor. */
	atomic_t *stock = raw_cpu_ptr(store->stock);
	int left = atomic_read(stock);

	while (left >= (int)nr) {
		if (atomic_try_cmpxchg(stock, &left, left - nr))
			return nr;
	}
	if (rxd_store_is_near_limit(store, nr))
		return 0;
	return nr < RXD_STOCK ? charge_and_stock(store, nr, stock) : rxd_store_charge(store, nr);
}

/**
 * rxd_store_charge_near - charge pages of a disk near its limit
 * @store: the store; the caller holds charge_lock until the pages have entered it
 * @nr: number of pages
 *
 * Return: number of pages that were charged; fewer than @nr at the limit.
 */
unsigned int rxd_store_charge_near(struct rxd_store *store, unsigned int nr)
{
	unsigned int charged;

	lockdep_assert_held(&store->charge_lock);
	charged = rxd_store_charge(store, nr);
	if (!charged && return_stocks(store))
		charged = rxd_store_charge(store, nr);
	return charged;
}

/**
 * rxd_store_count_used - count the pages that hold data, without the stocks
 * @store: the store
 * @max_used: set to the maximum that was recorded
 *
 * The maximum is recorded here, and when pages leave the store: before the number falls.
 *
 * Return: number of pages.
 */
unsigned long rxd_store_count_used(struct rxd_store *store, unsigned long *max_used)
{
	unsigned long flags, used;

	spin_lock_irqsave(&store->charge_lock, flags);
	used = note_max_used(store);
	*max_used = store->max_used;
	spin_unlock_irqrestore(&store->charge_lock, flags);
	return used;
}

/**
 * rxd_store_uncharge - undo the charge of pages that did not enter the store
 * @store: the store
 * @nr: number of pages
 */
void rxd_store_uncharge(struct rxd_store *store, unsigned long nr)
{
	if (nr)
		atomic_long_sub(nr, &store->used);
}

/**
 * rxd_store_discharge - end the charge of pages that have left the store
 * @store: the store
 * @nr: number of pages
 */
void rxd_store_discharge(struct rxd_store *store, unsigned long nr)
{
	unsigned long flags;

	if (!nr)
		return;
	/*
	 * A task that sees the fall must see the peak. Pages that others charge just now may be
	 * missing.
	 */
	if (rxd_store_used(store) > READ_ONCE(store->max_used) &&
	    count_used(store) > READ_ONCE(store->max_used)) {
		spin_lock_irqsave(&store->charge_lock, flags);
		note_max_used(store);
		spin_unlock_irqrestore(&store->charge_lock, flags);
	}
	atomic_long_sub(nr, &store->used);
}
