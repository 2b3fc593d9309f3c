// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hold the writes to a store while its pages are marked as shared, or while its record of changes
 * is replaced. A freeze of the queue would hold reads as well, and for as long as the longest bio
 * takes.
 *
 * A store has a struct rxd_hold if its disk was cloned lately while it was open, or has a record of
 * changes.
 */
#include <linux/ktime.h>
#include <linux/slab.h>

#include "compat.h"
#include "hold.h"
#include "record.h"

/**
 * rxd_hold_alloc - allocate what holds the writes to a store
 * @changes: the number of changes of the disk, or NULL if it is not known yet
 *
 * Return: what becomes store->hold while there is no I/O to the store, or NULL. It is freed with
 * the store.
 */
struct rxd_hold *rxd_hold_alloc(atomic64_t *changes)
{
	struct rxd_hold *hold;

	hold = kzalloc_obj(*hold, GFP_KERNEL);
	if (!hold)
		return NULL;
	if (percpu_init_rwsem(&hold->sem)) {
		kfree(hold);
		return NULL;
	}
	hold->changes = changes;
	return hold;
}

/**
 * rxd_hold_free - free what held the writes to a store
 * @hold: what rxd_hold_alloc() has returned; NULL is allowed
 */
void rxd_hold_free(struct rxd_hold *hold)
{
	if (!hold)
		return;
	percpu_free_rwsem(&hold->sem);
	rxd_record_free(hold->record);
	kfree(hold);
}

/**
 * rxd_hold_wait - begin a step of a write, and wait while writes are held
 * @hold: what holds the writes
 * @pos: as for rxd_hold_enter()
 * @len: as for rxd_hold_enter()
 * @gfp: as for rxd_hold_enter()
 *
 * Return: as for rxd_hold_enter().
 */
bool rxd_hold_wait(struct rxd_hold *hold, u64 pos, unsigned int len, gfp_t gfp)
{
	if (gfpflags_allow_blocking(gfp))
		percpu_down_read(&hold->sem);
	else if (!percpu_down_read_trylock(&hold->sem))
		return false;
	/* The number may have been reported since the write began. */
	rxd_note_change(hold->changes);
	if (hold->record)
		rxd_record_note(hold->record, pos, len);
	return true;
}

/**
 * rxd_hold_prepare - wait for the grace period that holding writes takes for the first time
 * @hold: what holds the writes, which continue meanwhile
 *
 * For about another grace period, rxd_store_hold() needs to wait for none.
 */
void rxd_hold_prepare(struct rxd_hold *hold)
{
	percpu_down_write(&hold->sem);
	percpu_up_write(&hold->sem);
}

/**
 * rxd_store_hold - wait for the steps of writes that are under way, and begin no more
 * @store: a store with a struct rxd_hold
 *
 * May sleep. The caller allocates no memory until rxd_store_unhold().
 *
 * Return: for rxd_store_unhold().
 */
u64 rxd_store_hold(struct rxd_store *store)
{
	u64 start;

	rxd_hold_prepare(store->hold);
	start = ktime_get_ns();
	percpu_down_write(&store->hold->sem);
	return start;
}

/**
 * rxd_store_unhold - let the writes to a store continue
 * @store: the store
 * @start: what rxd_store_hold() has returned
 *
 * Return: how long writes were held, in ns.
 */
u64 rxd_store_unhold(struct rxd_store *store, u64 start)
{
	percpu_up_write(&store->hold->sem);
	return ktime_get_ns() - start;
}
