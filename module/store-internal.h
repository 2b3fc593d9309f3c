/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between the parts of the page store: the index of pages (store.c), what
 * several stores share (share.c, share-marks.c), the limit (charge.c), allocation (alloc.c), and
 * copies (copy.c).
 */
#ifndef RXD_STORE_INTERNAL_H
#define RXD_STORE_INTERNAL_H

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

#include "store.h"

static inline unsigned long rxd_nr_leaves(unsigned long nr_pages)
{
	return DIV_ROUND_UP(nr_pages, RXD_PAGES_PER_LEAF);
}

/*
 * The state of a leaf is in the private word of its page, which readers do not access. The
 * lower half is the number of pages in the leaf, including pages that are about to enter. A
 * state of 0 never changes again: the leaf stays empty and is freed. The upper half is the
 * number of other stores that use a shared leaf.
 */
#define RXD_LEAF_OWNER	((long)BIT(32))

static inline atomic_long_t *rxd_leaf_state(struct rxd_leaf *leaf)
{
	struct page *page = virt_to_page(leaf);

	BUILD_BUG_ON(sizeof(page->private) != sizeof(atomic_long_t));
	return (atomic_long_t *)&page->private;
}

static inline unsigned long rxd_leaf_pages(struct rxd_leaf *leaf)
{
	return atomic_long_read(rxd_leaf_state(leaf)) & (RXD_LEAF_OWNER - 1);
}

/* The number of other leaves that contain a page. */
static inline atomic_long_t *rxd_page_others(struct page *page)
{
	BUILD_BUG_ON(sizeof(page->private) != sizeof(atomic_long_t));
	return (atomic_long_t *)&page->private;
}

static inline struct rxd_leaf *rxd_leaf_locked(const struct rxd_store *store, unsigned long i)
{
	struct rxd_leaf __rcu **dir;

	dir = rcu_dereference_protected(store->dir, lockdep_is_held(&store->leaf_lock));
	return rcu_dereference_protected(dir[i], lockdep_is_held(&store->leaf_lock));
}

static inline void rxd_set_leaf(struct rxd_store *store, unsigned long i, struct rxd_leaf *leaf)
{
	struct rxd_leaf __rcu **dir;

	dir = rcu_dereference_protected(store->dir, lockdep_is_held(&store->leaf_lock));
	rcu_assign_pointer(dir[i], leaf);
	if (store->next_dir)
		rcu_assign_pointer(store->next_dir[i], leaf);
}

/* store.c */

void rxd_free_leaf_later(struct rxd_leaf *leaf);
struct rxd_leaf *rxd_leaf_get(struct rxd_store *store, unsigned long pgno, unsigned int nr,
			      gfp_t gfp);
void rxd_leaf_put(struct rxd_store *store, struct rxd_leaf *leaf, unsigned long pgno,
		  unsigned int nr);
unsigned int rxd_store_free_run(struct rxd_store *store, unsigned long first,
				unsigned int nr);

/* share.c */

int rxd_leaf_unshare(struct rxd_store *store, unsigned long pgno, gfp_t gfp);
int rxd_leaf_unshare_part(struct rxd_store *store, unsigned long first, unsigned int nr,
			  gfp_t gfp);
unsigned int rxd_leaf_drop_shared(struct rxd_store *store, unsigned long pgno);
bool rxd_leaf_leave(struct rxd_leaf *leaf);
void rxd_leaf_release(struct rxd_leaf *leaf);
bool rxd_page_leave(struct page *page);
bool rxd_page_is_last(struct rxd_leaf *leaf, struct page *page);

/* expendable.c */

int rxd_expend_init(void);
void rxd_expend_exit(void);
bool rxd_is_giving_up(void);
bool rxd_give_up_others(struct rxd_store *store);
void rxd_leave_family(struct rxd_store *store);

/* share-marks.c */

int rxd_lift_init(void);
void rxd_lift_exit(void);
void rxd_lift_add(struct rxd_store *store);
void rxd_lift_remove(struct rxd_store *store);
void rxd_lift_wait(struct rxd_store *store);
void rxd_note_alone(void);
void rxd_lift_now(void);

/* give-back.c */

int rxd_give_back_init(void);
void rxd_give_back_exit(void);
void rxd_give_early(void);
long rxd_give_back(unsigned long nr, int node);
void rxd_note_moves(int nr);

/* lend.c */

void rxd_lend_count(struct rxd_store *store);
void rxd_lend_count_on(struct rxd_store *store, int node);
unsigned long rxd_lent_pages(void);
unsigned long rxd_lent_on(int nid);
long rxd_lend_spare(int nid, enum zone_watermarks mark);
long rxd_lend_boost(int nid);
unsigned long rxd_lend_node_pages(int nid);
long rxd_lend_headroom(int nid);
bool rxd_lend_frees_much(void);
long rxd_lend_enough(int nid);
void rxd_lend_watch(int nid);
long rxd_lend_idle_cache(int nid);
int rxd_lend_node(int node);
bool rxd_lend_has(int node, unsigned long nr);

/* Lent pages are counted as reclaimable in batches. */
#define RXD_COUNT_BATCH	(1L << (20 - PAGE_SHIFT))

/**
 * rxd_store_count - count a page that has entered or left the store of a cache
 * @store: the store
 * @page: the page
 * @nr: 1, or -1 if it has left
 */
static inline void rxd_store_count(struct rxd_store *store, const struct page *page, long nr)
{
	int node = page_to_nid(page);
	struct rxd_store_node *on = &store->on_node[node];
	long used = atomic_long_add_return(nr, &on->used);

	if (unlikely(READ_ONCE(store->lent_from) != ULONG_MAX &&
		     abs(used - READ_ONCE(on->seen)) >= RXD_COUNT_BATCH))
		rxd_lend_count_on(store, node);
}

static inline long rxd_node_state(const struct pglist_data *node, enum node_stat_item item)
{
	return atomic_long_read(&node->vm_stat[item]);
}

/* charge.c */

/* Pages that a processor charges in advance at most. */
#define RXD_STOCK	32

unsigned int rxd_store_charge(struct rxd_store *store, unsigned int nr);
unsigned int rxd_store_charge_stocked(struct rxd_store *store, unsigned int nr);
unsigned int rxd_store_charge_near(struct rxd_store *store, unsigned int nr);
bool rxd_store_is_near_limit(const struct rxd_store *store, unsigned int nr);
void rxd_store_uncharge(struct rxd_store *store, unsigned long nr);
void rxd_store_discharge(struct rxd_store *store, unsigned long nr);
bool rxd_store_return_stocks(struct rxd_store *store, unsigned long nr);
unsigned long rxd_store_count_used(struct rxd_store *store, unsigned long *max_used);

/**
 * rxd_store_may_charge - check whether a page is within the limit
 * @store: the store
 *
 * This is a hint, as rxd_store_has_room().
 *
 * Return: true if one more page may hold data now.
 */
static inline bool rxd_store_may_charge(struct rxd_store *store)
{
	return atomic_read(raw_cpu_ptr(store->stock)) > 0 || rxd_store_has_room(store, 1) ||
	       rxd_store_return_stocks(store, 1);
}

/* alloc.c: memory */

unsigned long rxd_headroom(void);
struct rxd_leaf *rxd_leaf_alloc(const struct rxd_store *store, unsigned long pgno, gfp_t gfp);
void rxd_write_alloc(struct rxd_write *write, const struct rxd_store *store,
		     unsigned long pgno, unsigned int nr);

static inline struct page *rxd_write_page(const struct rxd_write *write, unsigned int i)
{
	return write->contiguous ? write->page[0] + i : write->page[i];
}

/* alloc.c: memory that is being freed, and tasks that wait for it */

void rxd_note_retired(unsigned long nr);
void rxd_note_freed(unsigned long nr);
void rxd_wake_waiters(void);
void rxd_free_later(struct page *first);
void rxd_retire_pages(struct page *first, unsigned int nr);
void rxd_retire_page(struct page *page);
void rxd_retire_replaced(struct page *page);
void rxd_note_owners(long nr);
void rxd_expect_nothing_left(void);
void rxd_begin_change(void);
void rxd_end_change(void);
long rxd_wait_token(void);
long rxd_retired_pages(void);
bool rxd_may_replace(void);
bool rxd_store_wait_for_memory(struct rxd_store *store, long token, struct rxd_write *write);
void rxd_write_end_wait(struct rxd_write *write);

/**
 * rxd_store_found_memory - end the period in which writes wait for writeback
 * @store: the store, for which a write has found memory
 */
static inline void rxd_store_found_memory(struct rxd_store *store)
{
	if (unlikely(READ_ONCE(store->short_since)))
		WRITE_ONCE(store->short_since, 0);
}

#endif /* RXD_STORE_INTERNAL_H */
