/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_HOLD_H
#define RXD_HOLD_H

#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/gfp.h>
#include <linux/percpu-rwsem.h>
#include <linux/types.h>

#include "store.h"

struct rxd_record;

/* In the number of changes of a disk: it has been reported. The bits above are the number. */
#define RXD_CHANGES_REPORTED	1

/**
 * struct rxd_hold - what holds the writes to a store, and what counts them
 * @sem: taken for reading by each step of a write, and for writing while writes are held
 * @changes: the number of changes of the disk, see rxd_disk_changes()
 * @record: the record of changes, or NULL; replaced while writes are held
 */
struct rxd_hold {
	struct percpu_rw_semaphore sem;
	atomic64_t *changes;
	struct rxd_record *record;
};

struct rxd_hold *rxd_hold_alloc(atomic64_t *changes);
void rxd_hold_free(struct rxd_hold *hold);
bool rxd_hold_wait(struct rxd_hold *hold, u64 pos, unsigned int len, gfp_t gfp);
void rxd_hold_prepare(struct rxd_hold *hold);
u64 rxd_store_hold(struct rxd_store *store);
u64 rxd_store_unhold(struct rxd_store *store, u64 start);

/**
 * rxd_note_change - count a change of data that is about to be made
 * @changes: the number of changes of the disk
 *
 * All changes between two reports have the same number, so that most writes only read it.
 * Adding one to a number that has been reported gives the next, which has not been.
 */
static inline void rxd_note_change(atomic64_t *changes)
{
	s64 old = atomic64_read(changes);

	while (unlikely(old & RXD_CHANGES_REPORTED) &&
	       !atomic64_try_cmpxchg(changes, &old, old + RXD_CHANGES_REPORTED))
		;
}

/**
 * rxd_hold_enter - begin a step of a write
 * @store: the store
 * @pos: position in bytes
 * @len: bytes that may be changed, greater than 0
 * @gfp: RXD_GFP, or RXD_GFP_NOWAIT if the caller must not sleep
 *
 * Between rxd_hold_enter() and rxd_hold_leave(), what is marked as shared stays so, and nothing
 * else is marked. The step is short: it neither waits nor reclaims memory.
 *
 * Return: false if writes are held, and the caller must not sleep.
 */
static __always_inline bool rxd_hold_enter(const struct rxd_store *store, u64 pos, unsigned int len,
					   gfp_t gfp)
{
	return likely(!store->hold) || rxd_hold_wait(store->hold, pos, len, gfp);
}

/**
 * rxd_hold_leave - end a step of a write
 * @store: the store
 */
static __always_inline void rxd_hold_leave(const struct rxd_store *store)
{
	if (unlikely(store->hold))
		percpu_up_read(&store->hold->sem);
}

#endif /* RXD_HOLD_H */
