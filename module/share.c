// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sharing of data between stores: they share leaves, and pages of leaves that were copied.
 *
 * A mark in the pointer to a leaf or a page says that the leaf or the page may be shared. Nothing
 * is changed through such a pointer. The upper half of the state of a leaf is the number of
 * other stores that use it. The private word of a page is the number of other leaves that contain
 * it. These counts only decide who frees the leaf or the page. A mark stays for a while when the
 * last other owner has left, because readers in the store of that owner may still copy the page.
 * share-marks.c removes it.
 *
 * A write to a shared leaf first replaces the leaf by a copy, in which all pages are marked. It
 * then replaces the page:
 *
 *	store A: dir[0] -*-> leaf 1 --> pages 1 to 512        *: marked
 *	store B: dir[0] -*-> leaf 1
 *
 *	after a write to page 1 in store B:
 *
 *	store A: dir[0] -*-> leaf 1 --> pages 1 to 512
 *	store B: dir[0] ---> leaf 2 --> page 513, -*-> pages 2 to 512
 */
#include <linux/atomic.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>

#include "compat.h"
#include "store-internal.h"

static atomic_long_t nr_families;

/* Leaves that are shared at a time with interrupts off. */
#define LEAVES_PER_SHARE	256

/* Leaves that one call of rxd_store_count_shared() visits: 8 GiB of data. */
#define LEAVES_PER_COUNT	4096

/**
 * rxd_page_leave - give up a shared page that has left its leaf
 * @page: the page, without a mark
 *
 * Return: true if no other leaf contains the page. In this case, the caller frees the page after
 * a grace period, because readers in the stores of earlier owners may still use it.
 */
bool rxd_page_leave(struct page *page)
{
	long left = atomic_long_dec_if_positive(rxd_page_others(page));

	if (left < 0)
		return true;
	rxd_note_owners(-1);
	if (!left)
		rxd_note_alone();
	return false;
}

/**
 * rxd_page_is_last - is a store the last one with a shared page?
 * @leaf: the leaf with the page, marked if it may be shared
 * @page: the page, without a mark
 *
 * Call between rxd_hold_enter() and rxd_hold_leave(): meanwhile no store begins to share it.
 *
 * Return: true if the page is free a grace period after the store has replaced it.
 */
bool rxd_page_is_last(struct rxd_leaf *leaf, struct page *page)
{
	long state = atomic_long_read(rxd_leaf_state(rxd_plain(leaf)));

	if (rxd_is_shared(leaf) && state >= RXD_LEAF_OWNER)
		return false;
	return !atomic_long_read(rxd_page_others(page));
}

/**
 * rxd_leaf_leave - give up a shared leaf that has left the directory of a store
 * @leaf: the leaf, without a mark
 *
 * Return: true if no other store uses the leaf. In this case, the caller calls
 * rxd_leaf_release().
 */
bool rxd_leaf_leave(struct rxd_leaf *leaf)
{
	long state = atomic_long_fetch_sub(RXD_LEAF_OWNER, rxd_leaf_state(leaf));

	if (state < RXD_LEAF_OWNER)
		return true;
	rxd_note_owners(-1);
	if (state < 2 * RXD_LEAF_OWNER)
		rxd_note_alone();
	return false;
}

/*
 * Give up the pages of a leaf that no store uses any more.
 *
 * Return: the first of the pages that no other leaf has, for rxd_free_later(); NULL if there are
 * none. Writes their number to @nr_last.
 */
static struct page *leave_pages(struct rxd_leaf *leaf, unsigned int *nr_last)
{
	struct page *page, *last = NULL;
	unsigned int i, nr = 0;

	for (i = 0; i < RXD_PAGES_PER_LEAF; i++) {
		page = rxd_plain(rcu_dereference_protected(leaf->page[i], true));
		if (!page || !rxd_page_leave(page))
			continue;
		set_page_private(page, (unsigned long)last);
		last = page;
		nr++;
	}
	*nr_last = nr;
	return last;
}

/**
 * rxd_leaf_release - free a leaf that was shared, and give up its pages
 * @leaf: the leaf, which no store uses any more
 *
 * The caller has counted the leaf and its pages by rxd_note_retired(). Does not sleep. The
 * memory is free after a grace period.
 */
void rxd_leaf_release(struct rxd_leaf *leaf)
{
	unsigned long nr = rxd_leaf_pages(leaf);
	unsigned int nr_last;

	rxd_free_later(leave_pages(leaf, &nr_last));
	rxd_free_leaf_later(leaf);
	/* Pages that other leaves contain are not freed: no task needs to wait for them. */
	rxd_note_freed(nr - nr_last);
}

/* Give up a shared leaf that has left a directory, and free it if no other store uses it. */
static void leave_leaf(struct rxd_leaf *leaf)
{
	struct page *first;
	unsigned int nr;

	if (!rxd_leaf_leave(leaf))
		return;
	/* A write that finds the pages given up also finds that it can wait for the leaf. */
	rxd_note_retired(1);
	/* A copy of the leaf contains the pages: count only what is going to be freed. */
	first = leave_pages(leaf, &nr);
	rxd_note_retired(nr);
	rxd_free_later(first);
	rxd_free_leaf_later(leaf);
}

static void copy_leaf(struct rxd_leaf *to, struct rxd_leaf *from)
{
	unsigned int i, nr = 0;
	struct page *page;

	for (i = 0; i < RXD_PAGES_PER_LEAF; i++) {
		page = rxd_plain(rcu_dereference_protected(from->page[i], true));
		if (!page)
			continue;
		atomic_long_inc(rxd_page_others(page));
		RCU_INIT_POINTER(to->page[i], rxd_shared(page));
		nr++;
	}
	atomic_long_set(rxd_leaf_state(to), nr);
	rxd_note_owners(nr);
}

/**
 * rxd_leaf_unshare - replace a shared leaf by a copy, which shares its pages
 * @store: the store
 * @pgno: number of a page of the leaf
 * @gfp: RXD_GFP or RXD_GFP_NOWAIT
 *
 * Does nothing if the leaf does not exist or is not shared.
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_leaf_unshare(struct rxd_store *store, unsigned long pgno, gfp_t gfp)
{
	unsigned long i = pgno / RXD_PAGES_PER_LEAF;
	struct rxd_leaf *old, *new;
	unsigned long flags;

	rcu_read_lock();
	old = rxd_store_marked_leaf(store, pgno);
	rcu_read_unlock();
	if (likely(!rxd_is_shared(old)))
		return 0;

	new = rxd_leaf_alloc(store, pgno, gfp);
	if (!new)
		return -ENOMEM;

	/* Until the store leaves the old leaf, each page has an owner more: let writes wait. */
	rxd_begin_change();

	/* Under the lock, the store keeps the old leaf, so the leaf keeps its pages. */
	spin_lock_irqsave(&store->leaf_lock, flags);
	old = rxd_leaf_locked(store, i);
	if (rxd_is_shared(old)) {
		copy_leaf(new, rxd_plain(old));
		rxd_set_leaf(store, i, new);
		/* A walk may have passed this leaf already: request another one. */
		WRITE_ONCE(store->has_marks, true);
	}
	spin_unlock_irqrestore(&store->leaf_lock, flags);

	if (!rxd_is_shared(old))
		rxd_store_free_page(virt_to_page(new));
	else
		leave_leaf(rxd_plain(old));
	rxd_end_change();
	return 0;
}

/**
 * rxd_leaf_drop_shared - remove a shared leaf from the directory
 * @store: the store
 * @pgno: number of a page of the leaf
 *
 * Does nothing if the leaf is not shared. Does not sleep.
 *
 * Return: number of pages that were removed.
 */
unsigned int rxd_leaf_drop_shared(struct rxd_store *store, unsigned long pgno)
{
	unsigned long i = pgno / RXD_PAGES_PER_LEAF;
	struct rxd_leaf *leaf;
	unsigned long flags;
	unsigned int nr;

	spin_lock_irqsave(&store->leaf_lock, flags);
	leaf = rxd_leaf_locked(store, i);
	if (rxd_is_shared(leaf))
		rxd_set_leaf(store, i, NULL);
	spin_unlock_irqrestore(&store->leaf_lock, flags);
	if (!rxd_is_shared(leaf))
		return 0;

	leaf = rxd_plain(leaf);
	nr = rxd_leaf_pages(leaf);
	atomic_long_dec(&store->leaves);
	leave_leaf(leaf);
	return nr;
}

static bool has_data(struct rxd_store *store, unsigned long first, unsigned int nr)
{
	unsigned int i = first % RXD_PAGES_PER_LEAF, end = i + nr;
	struct rxd_leaf *leaf;

	rcu_read_lock();
	leaf = rxd_store_leaf(store, first);
	while (leaf && i < end && !rcu_access_pointer(leaf->page[i]))
		i++;
	rcu_read_unlock();
	return leaf && i < end;
}

/**
 * rxd_leaf_unshare_part - prepare a part of a leaf for rxd_store_free_run()
 * @store: the store
 * @first: first page of the part
 * @nr: number of pages, all of the same leaf
 * @gfp: RXD_GFP or RXD_GFP_NOWAIT
 *
 * Return: 0 or -ENOMEM.
 */
int rxd_leaf_unshare_part(struct rxd_store *store, unsigned long first, unsigned int nr,
			  gfp_t gfp)
{
	/* A whole leaf is removed without a copy, and in holes there is nothing to remove. */
	if (nr == RXD_PAGES_PER_LEAF || !has_data(store, first, nr))
		return 0;
	/* A refusal would cost more than the copy: pages stay, or are allocated for zeros. */
	return rxd_leaf_unshare(store, first, gfp | RXD_GFP_WRITEBACK);
}

/**
 * rxd_store_unshare_ends - prepare a range for rxd_store_free_range()
 * @store: the store
 * @first: first page of the range
 * @nr: number of pages, greater than 0
 * @gfp: RXD_GFP or RXD_GFP_NOWAIT
 *
 * rxd_store_free_range() does not free a part of a shared leaf. Therefore this replaces the
 * leaves at both ends by copies if the range has only a part of them.
 *
 * Return: 0, or -ENOMEM if memory is short now.
 */
int rxd_store_unshare_ends(struct rxd_store *store, unsigned long first, unsigned long nr,
			   gfp_t gfp)
{
	unsigned long end = first + nr, last = round_down(end, RXD_PAGES_PER_LEAF);
	unsigned int part;
	int ret;

	part = min(nr, RXD_PAGES_PER_LEAF - first % RXD_PAGES_PER_LEAF);
	ret = rxd_leaf_unshare_part(store, first, part, gfp);
	if (!ret && last > first && last < end)
		ret = rxd_leaf_unshare_part(store, last, end - last, gfp);
	return ret;
}

/**
 * rxd_store_unshare_ends_wait - prepare a range for rxd_store_free_range(), and wait for memory
 * @store: the store
 * @first: first page of the range
 * @nr: number of pages, greater than 0
 * @write: the write that rxd_write_begin() began, of which this is a step
 *
 * Like rxd_store_unshare_ends(), but waits as a write does, and may give up expendable stores.
 *
 * Return: 0 or -ENOSPC.
 */
int rxd_store_unshare_ends_wait(struct rxd_store *store, unsigned long first, unsigned long nr,
				struct rxd_write *write)
{
	long token;

	for (;;) {
		token = rxd_wait_token();
		if (!rxd_store_unshare_ends(store, first, nr, write->gfp))
			break;
		if (!rxd_store_wait_for_memory(store, token, write))
			return -ENOSPC;
	}
	if (write->since) {
		rxd_store_found_memory(store);
		rxd_write_end_wait(write);
	}
	return 0;
}

/* Return: number of pages that @to shares now. */
static unsigned long share_leaf(struct rxd_store *from, struct rxd_store *to, unsigned long i)
{
	struct rxd_leaf __rcu **dir = rcu_dereference_protected(to->dir, true);
	struct rxd_leaf *leaf = rxd_plain(rxd_leaf_locked(from, i));
	unsigned long nr;

	if (!leaf)
		return 0;
	nr = rxd_leaf_pages(leaf);
	atomic_long_add(RXD_LEAF_OWNER, rxd_leaf_state(leaf));
	rxd_note_owners(1);
	rxd_set_leaf(from, i, rxd_shared(leaf));
	rcu_assign_pointer(dir[i], rxd_shared(leaf));
	atomic_long_inc(&to->leaves);
	return nr;
}

/**
 * rxd_store_share - let an empty store share all pages of another one
 * @from: the store with the pages
 * @to: the empty store; its capacity is that of @from
 *
 * The caller prevents all I/O to both stores, and sees to rxd_store_must_be_expendable(). May
 * sleep. Callers serialise this with growing, shrinking, trimming and clearing.
 */
void rxd_store_share(struct rxd_store *from, struct rxd_store *to)
{
	unsigned long i, part_end, nr = 0, end = rxd_nr_leaves(from->nr_pages);

	if (!from->family)
		WRITE_ONCE(from->family, atomic_long_inc_return(&nr_families));
	WRITE_ONCE(to->family, from->family);
	if (rxd_store_must_be_expendable(from))
		WRITE_ONCE(to->borrows, true);
	for (i = 0; i < end;) {
		part_end = min(i + LEAVES_PER_SHARE, end);
		spin_lock_irq(&from->leaf_lock);
		for (; i < part_end; i++)
			nr += share_leaf(from, to, i);
		spin_unlock_irq(&from->leaf_lock);
		cond_resched();
	}
	atomic_long_add(nr, &to->used);
	rxd_lift_add(from);
	rxd_lift_add(to);
}

/* Return: number of pages of a part of a leaf that other stores share. */
static unsigned int count_in_leaf(struct rxd_leaf *marked, unsigned int first, unsigned int end)
{
	struct rxd_leaf *leaf = rxd_plain(marked);
	bool shared = rxd_is_shared(marked);
	unsigned int i, nr = 0;
	struct page *page;
	bool all;

	all = shared && atomic_long_read(rxd_leaf_state(leaf)) >= RXD_LEAF_OWNER;
	for (i = first; i < end; i++) {
		page = rcu_dereference(leaf->page[i]);
		/* A page without a mark in a marked leaf may be in copies of the leaf, too. */
		if (page && (shared || rxd_is_shared(page)))
			nr += all || atomic_long_read(rxd_page_others(rxd_plain(page))) > 0;
	}
	return nr;
}

/**
 * rxd_store_count_shared - count the pages of a range that other stores share
 * @store: the store, which may change meanwhile
 * @first: in: the first page; out: the page to continue from, or @end
 * @end: the end of the range
 *
 * Takes no lock, and visits a part of a long range only. Ends early if a signal arrives. The number
 * may be out of date at once.
 *
 * Return: number of pages between the two values of @first.
 */
unsigned long rxd_store_count_shared(const struct rxd_store *store, unsigned long *first,
				     unsigned long end)
{
	unsigned int part, leaves = 0;
	unsigned long nr = 0;
	struct rxd_leaf *leaf;
	bool is_end;

	while (*first < end && leaves++ < LEAVES_PER_COUNT && !signal_pending(current)) {
		part = min(end - *first, RXD_PAGES_PER_LEAF - *first % RXD_PAGES_PER_LEAF);
		rcu_read_lock();
		/* Read capacity and directory in one section: pairs with rxd_store_trim(). */
		is_end = *first >= rxd_store_nr_pages(store) || !READ_ONCE(store->family);
		leaf = is_end ? NULL : rxd_store_marked_leaf(store, *first);
		if (leaf)
			nr += count_in_leaf(leaf, *first % RXD_PAGES_PER_LEAF,
					    *first % RXD_PAGES_PER_LEAF + part);
		rcu_read_unlock();
		*first = is_end ? end : *first + part;
		cond_resched();
	}
	return nr;
}
