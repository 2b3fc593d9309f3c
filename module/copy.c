// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies between buffers and the pages of a RAM disk.
 *
 * Pages that are contiguous in memory are copied in one go, however they were allocated.
 * A write adds new pages where it meets a hole.
 */
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "compat.h"
#include "copy.h"
#include "hold.h"
#include "store-internal.h"

/**
 * struct gap - where a write finds no page that it may change
 * @nr: length in pages
 * @shared: the pages exist, but are shared
 * @last: no other store has the first of the shared pages any more
 */
struct gap {
	unsigned int nr;
	bool shared;
	bool last;
};

/* How often a step of a write is tried again with memory that was reclaimed for it. */
#define RECLAIM_TRIES	4

/* Is @next the @n-th page after @page in memory? */
static __always_inline bool follows(struct page *next, struct page *page, unsigned int n)
{
	if (next != page + n)
		return false;
	/* Elsewhere, neighbours in the memory map are neighbours in memory. */
	return !IS_ENABLED(CONFIG_SPARSEMEM) || IS_ENABLED(CONFIG_SPARSEMEM_VMEMMAP) ||
	       page_to_pfn(next) == page_to_pfn(page) + n;
}

/*
 * How many pages, at most @max, are contiguous in memory, beginning with @page, which is at
 * @first? @mask: the bits of the pointers that count. Call under rcu_read_lock().
 */
static __always_inline unsigned int length_of_run(struct rxd_leaf *leaf, unsigned int first,
						  struct page *page, unsigned int max,
						  unsigned long mask)
{
	struct page *next;
	unsigned int n;

	for (n = 1; n < max; n++) {
		next = rcu_access_pointer(leaf->page[first + n]);
		if (!follows((struct page *)((unsigned long)next & mask), page, n))
			break;
	}
	if (n > 1) {
		/* Access to the later pages does not depend on their own pointers. */
		smp_rmb();
	}
	return n;
}

/*
 * Find a run of pages or a hole at @pgno: pages of one leaf, at most @max, that are
 * contiguous in memory, or that do not exist. Call under rcu_read_lock().
 *
 * Return: address of the first page, or NULL for a hole; @nr is set to the length in pages.
 */
static __always_inline void *find_run(struct rxd_store *store, unsigned long pgno,
				      unsigned int max, unsigned int *nr)
{
	unsigned int first = pgno % RXD_PAGES_PER_LEAF;
	struct rxd_leaf *leaf = rxd_store_leaf(store, pgno);
	unsigned int n = 1;
	struct page *page;

	max = min_t(unsigned int, max, RXD_PAGES_PER_LEAF - first);
	page = leaf ? rxd_plain(rcu_dereference(leaf->page[first])) : NULL;
	if (likely(page)) {
		*nr = length_of_run(leaf, first, page, max, ~RXD_MARKS);
		return page_address(page);
	}
	if (!leaf)
		n = max;
	while (n < max && !rcu_access_pointer(leaf->page[first + n]))
		n++;
	*nr = n;
	return NULL;
}

/* Like find_run(), but find only pages that are not shared, and return no length of a gap. */
static __always_inline void *find_own_run(struct rxd_store *store, unsigned long pgno,
					  unsigned int max, unsigned int *nr)
{
	unsigned int first = pgno % RXD_PAGES_PER_LEAF;
	struct rxd_leaf *leaf = rxd_store_marked_leaf(store, pgno);
	struct page *page;

	if (unlikely(!leaf || rxd_is_shared(leaf)))
		return NULL;
	page = rcu_dereference(leaf->page[first]);
	if (unlikely(!page || rxd_is_shared(page)))
		return NULL;
	max = min_t(unsigned int, max, RXD_PAGES_PER_LEAF - first);
	/* A page with a mark ends the run. */
	*nr = length_of_run(leaf, first, page, max, ~0UL);
	return page_address(page);
}

/*
 * Describe the gap at @pgno, of at most @max pages of one leaf. If a racing writer has filled
 * it, it is a hole of one page.
 */
static noinline struct gap find_gap(struct rxd_store *store, unsigned long pgno,
				    unsigned int max)
{
	unsigned int first = pgno % RXD_PAGES_PER_LEAF;
	struct gap gap = { .nr = 1 };
	struct rxd_leaf *leaf, *marked;
	bool leaf_is_shared;
	struct page *page;

	rcu_read_lock();
	marked = rxd_store_marked_leaf(store, pgno);
	leaf_is_shared = rxd_is_shared(marked);
	leaf = rxd_plain(marked);
	max = min_t(unsigned int, max, RXD_PAGES_PER_LEAF - first);
	page = leaf ? rcu_access_pointer(leaf->page[first]) : NULL;
	gap.shared = page && (leaf_is_shared || rxd_is_shared(page));
	if (gap.shared)
		gap.last = rxd_page_is_last(marked, rxd_plain(page));
	if (!leaf)
		gap.nr = max;
	for (; gap.nr < max && (gap.shared || !page); gap.nr++) {
		page = rcu_access_pointer(leaf->page[first + gap.nr]);
		if (gap.shared ? !page || !(leaf_is_shared || rxd_is_shared(page)) : !!page)
			break;
	}
	rcu_read_unlock();
	return gap;
}

static unsigned int pages_spanned(u64 pos, unsigned int len)
{
	return (offset_in_page(pos) + len + PAGE_SIZE - 1) >> PAGE_SHIFT;
}

/* How many of the @len bytes at @pos are in a run of @nr pages. */
static unsigned int bytes_of_run(u64 pos, unsigned int len, unsigned int nr)
{
	return min_t(u64, len, ((u64)nr << PAGE_SHIFT) - offset_in_page(pos));
}

/**
 * rxd_store_read - copy data from a store to a buffer
 * @store: the store
 * @pos: position in bytes
 * @dst: the buffer
 * @len: number of bytes; the range lies within the capacity
 *
 * Holes read as zeros.
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
 * Write to existing pages that are not shared.
 *
 * Return: number of bytes written; 0 for a gap at @pos, or if the caller must not wait.
 */
static unsigned int overwrite(struct rxd_store *store, u64 pos, const void *src,
			      unsigned int len, gfp_t gfp)
{
	unsigned int nr, part = 0;
	void *data;

	if (!rxd_hold_enter(store, pos, len, gfp))
		return 0;
	rcu_read_lock();
	data = find_own_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), &nr);
	if (likely(data)) {
		part = bytes_of_run(pos, len, nr);
		rxd_copy(data + offset_in_page(pos), src, part);
	}
	rcu_read_unlock();
	rxd_hold_leave(store);
	return part;
}

/*
 * Like overwrite(), in a step of a write that has begun, and for zeros if @src is NULL: a page may
 * have lost its mark, or a racing writer may have filled a hole.
 */
static noinline unsigned int overwrite_in_step(struct rxd_store *store, u64 pos, const void *src,
					       unsigned int len)
{
	unsigned int nr, part = 0;
	void *data;

	rcu_read_lock();
	data = find_own_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), &nr);
	if (data) {
		part = bytes_of_run(pos, len, nr);
		data += offset_in_page(pos);
		if (src)
			rxd_copy(data, src, part);
		else
			rxd_copy_zeroes(data, part);
	}
	rcu_read_unlock();
	return part;
}

/*
 * Pass over pages that racing writers have added to a hole that is to be filled: their data stays.
 *
 * Return: number of bytes; 0 for a hole at @pos.
 */
static noinline unsigned int pass_over(struct rxd_store *store, u64 pos, unsigned int len)
{
	unsigned int nr;
	void *data;

	rcu_read_lock();
	data = find_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), &nr);
	rcu_read_unlock();
	return data ? bytes_of_run(pos, len, nr) : 0;
}

/* Fill the next @nr pages with @len bytes of @src, unless it is NULL, and zeros elsewhere. */
static void fill_pages(const struct rxd_write *write, unsigned int nr, unsigned int offset,
		       const void *src, unsigned int len)
{
	unsigned int step = write->contiguous ? nr : 1;
	unsigned int i, part, room = step << PAGE_SHIFT;
	void *data;

	for (i = write->taken; i < write->taken + nr; i += step) {
		data = page_address(rxd_write_page(write, i));
		part = min(len, room - offset);
		/* No reader may see these pages yet: KCSAN reports one that does. */
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
 * If a racing writer has filled a hole, copy the data to its page.
 *
 * Return: number of pages that entered the store.
 */
static unsigned int insert_pages(struct rxd_leaf *leaf, unsigned long pgno,
				 const struct rxd_write *write, unsigned int nr,
				 unsigned int offset, unsigned int len)
{
	unsigned int i, part, entered = 0;
	struct page *page, *other;
	struct page __rcu **slot;

	for (i = 0; i < nr; i++) {
		part = min_t(unsigned int, len, PAGE_SIZE - offset);
		page = rxd_write_page(write, write->taken + i);
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
 * Charge @nr pages and insert them into the leaf that was got for them, near the limit.
 *
 * Return: number of pages that were charged; fewer than @nr at the limit.
 */
static noinline unsigned int insert_near_limit(struct rxd_store *store, struct rxd_leaf *leaf,
					       unsigned long pgno, const struct rxd_write *write,
					       unsigned int nr, unsigned int offset,
					       unsigned int len)
{
	unsigned int charged, entered;
	unsigned long flags;

	spin_lock_irqsave(&store->charge_lock, flags);
	/* The irqs are off for a few pages only. */
	charged = rxd_store_charge_near(store, min_t(unsigned int, nr, RXD_BATCH_PAGES));
	entered = insert_pages(leaf, pgno, write, charged, offset, len);
	rxd_store_uncharge(store, charged - entered);
	spin_unlock_irqrestore(&store->charge_lock, flags);
	rxd_leaf_put(store, leaf, pgno, nr - entered);
	return charged;
}

/*
 * Length of the hole at @pgno in pages: at most @max, within one leaf, and no more than
 * one allocation provides. It is 1 if a racing writer has filled the hole.
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
 * Write @len bytes, or zeros if @src is NULL, to a hole of @nr pages at @pos. Allocate pages
 * for the rest of the write as well.
 *
 * Return: number of bytes written; 0 if memory is short or the limit is reached.
 */
static unsigned int write_hole(struct rxd_store *store, u64 pos, const void *src,
			       unsigned int len, unsigned int nr, struct rxd_write *write)
{
	unsigned long pgno = pos >> PAGE_SHIFT;
	unsigned int offset = offset_in_page(pos), charged, entered, wanted;
	struct rxd_leaf *leaf;

	write->limited = !rxd_store_may_charge(store);
	if (write->limited)
		return 0;
	if (write->taken == write->nr) {
		wanted = pages_spanned(pos, max(len, write->left));
		if (wanted > nr)
			wanted = hole_size(store, pgno, wanted);
		rxd_write_alloc(write, store, pgno, wanted);
	}

	nr = min(nr, write->nr - write->taken);
	if (!nr)
		return 0;
	/* No more can enter at once. */
	if (nr > RXD_BATCH_PAGES && rxd_store_is_near_limit(store, nr))
		nr = RXD_BATCH_PAGES;
	leaf = rxd_leaf_get(store, pgno, nr, write->gfp);
	if (!leaf)
		return 0;
	len = bytes_of_run(pos, len, nr);
	fill_pages(write, nr, offset, src, len);
	charged = rxd_store_charge_stocked(store, nr);
	if (likely(charged)) {
		entered = insert_pages(leaf, pgno, write, charged, offset, src ? len : 0);
		/* A racing writer may have filled a part of the hole. */
		if (unlikely(entered < nr)) {
			rxd_store_uncharge(store, charged - entered);
			rxd_leaf_put(store, leaf, pgno, nr - entered);
		}
	} else {
		charged = insert_near_limit(store, leaf, pgno, write, nr, offset, src ? len : 0);
	}
	write->taken += charged;
	/* Another writer may have got the last page: memory is not short. */
	write->limited = !charged;
	return charged ? bytes_of_run(pos, len, charged) : 0;
}

/* Fill a page with @len bytes of @src, or zeros if it is NULL, and with @old elsewhere. */
static void fill_copy(void *data, const void *old, unsigned int offset, const void *src,
		      unsigned int len)
{
	unsigned int end = offset + len;

	/* No reader may see this page yet: KCSAN reports one that does. */
	rxd_check_access(data, PAGE_SIZE, KCSAN_ACCESS_WRITE);
	/*
	 * The old page may lose its mark, and then another writer changes it meanwhile. The copy is
	 * not used in this case, because the exchange of the pages fails: see share-marks.c.
	 */
	rxd_copy(data, old, offset);
	if (src)
		rxd_copy(data + offset, src, len);
	else
		memset(data + offset, 0, len);
	rxd_copy(data + end, old + end, PAGE_SIZE - end);
}

/*
 * Replace a shared page by a copy with the data. A racing writer may have done so first:
 *
 *	writer 1			writer 2
 *
 *	finds page, marked		finds page, marked
 *	copies it, with its own data	copies it, with its own data
 *	exchanges it
 *					cannot exchange it
 *					writes to the page of writer 1
 *
 * Return: false if the page has been freed meanwhile.
 */
static bool replace_page(struct rxd_store *store, unsigned long pgno, unsigned int offset,
			 const void *src, unsigned int len, struct rxd_write *write)
{
	struct page *new = rxd_write_page(write, write->taken);
	struct page __rcu **slot;
	struct page *old, *shared;
	struct rxd_leaf *leaf;

	rcu_read_lock();
	leaf = rxd_store_leaf(store, pgno);
	slot = leaf ? &leaf->page[pgno % RXD_PAGES_PER_LEAF] : NULL;
	old = slot ? rcu_dereference(*slot) : NULL;
	/* It may get or lose the mark RXD_ALONE meanwhile. */
	while (rxd_is_shared(old)) {
		shared = old;
		fill_copy(page_address(new), page_address(rxd_plain(shared)), offset, src, len);
		old = unrcu_pointer(cmpxchg(slot, RCU_INITIALIZER(shared), RCU_INITIALIZER(new)));
		if (old == shared) {
			write->taken++;
			old = rxd_plain(shared);
			if (rxd_page_leave(old))
				rxd_retire_replaced(old);
			goto out_unlock;
		}
	}
	/* Only pages that nobody shares replace a shared one. */
	if (old && src)
		rxd_copy(page_address(old) + offset, src, len);
	else if (old)
		rxd_copy_zeroes(page_address(old) + offset, len);
out_unlock:
	rcu_read_unlock();
	return old;
}

/* Like write_hole(), for the first of some shared pages. It needs memory, but no charge. */
static unsigned int write_shared(struct rxd_store *store, u64 pos, const void *src,
				 unsigned int len, const struct gap *gap, struct rxd_write *write)
{
	unsigned long pgno = pos >> PAGE_SHIFT;

	if (write->taken == write->nr)
		rxd_write_alloc(write, store, pgno, gap->nr);
	if (write->replaces)
		write->gfp |= RXD_GFP_REPLACE;
	if (write->taken == write->nr && write->replaces)
		rxd_write_alloc(write, store, pgno, 1);
	if (write->taken == write->nr || rxd_leaf_unshare(store, pgno, write->gfp))
		return 0;

	len = bytes_of_run(pos, len, 1);
	/* Zeros need no page where there is none any more. */
	if (replace_page(store, pgno, offset_in_page(pos), src, len, write) || !src)
		return len;
	write->gfp &= ~RXD_GFP_REPLACE;
	return write_hole(store, pos, src, len, 1, write);
}

/* One step of a write to a gap. Return: as write_hole(). */
static unsigned int try_gap(struct rxd_store *store, u64 pos, const void *src,
			    unsigned int len, struct rxd_write *write)
{
	gfp_t gfp = write->gfp;
	unsigned int done;
	struct gap gap;

	write->limited = false;
	if (!rxd_hold_enter(store, pos, len, gfp))
		return 0;
	/* All writes wait for a step if they are to be held: reclaim memory in between. */
	if (unlikely(store->hold))
		write->gfp = RXD_GFP_NOWAIT | (gfp & RXD_GFP_WRITEBACK);
	gap = find_gap(store, pos >> PAGE_SHIFT, pages_spanned(pos, len));
	write->shared = gap.shared;
	write->replaces = unlikely(gap.last) && rxd_may_replace();
	if (unlikely(write->fills ? gap.shared : !src && !gap.shared))
		/* Others were first: to fill changes no page, and zeros need none. */
		done = bytes_of_run(pos, len, gap.nr);
	else if (likely(!gap.shared))
		done = write_hole(store, pos, src, len, gap.nr, write);
	else
		done = write_shared(store, pos, src, len, &gap, write);
	if (unlikely(!done))
		done = write->fills ? pass_over(store, pos, len) :
				      overwrite_in_step(store, pos, src, len);
	write->gfp = gfp;
	rxd_hold_leave(store);
	return done;
}

/*
 * Reclaim memory for the next step of a write: for a page, or, if the write has one, for a leaf,
 * which takes the page that is freed last.
 *
 * Return: true if the caller should try again.
 */
static bool reclaim(struct rxd_store *store, unsigned long pgno, struct rxd_write *write)
{
	gfp_t gfp = write->gfp;
	struct page *page;

	if (write->replaces)
		write->gfp |= RXD_GFP_REPLACE;
	if (write->taken == write->nr) {
		rxd_write_alloc(write, store, pgno, 1);
		page = write->nr ? write->page[0] : NULL;
	} else {
		page = rxd_store_alloc_page(store, pgno, write->gfp);
		if (page)
			rxd_store_free_page(page);
	}
	write->gfp = gfp;
	return page;
}

/* Write to a gap, and wait for memory if the caller may sleep. Return: as write_hole(). */
static unsigned int write_gap(struct rxd_store *store, u64 pos, const void *src,
			      unsigned int len, struct rxd_write *write)
{
	unsigned int done, tries = 0;
	long token;

	for (;;) {
		token = rxd_wait_token();
		done = try_gap(store, pos, src, len, write);
		if (done || write->limited)
			break;
		if (!gfpflags_allow_blocking(write->gfp))
			break;
		if (store->hold && tries++ < RECLAIM_TRIES &&
		    reclaim(store, pos >> PAGE_SHIFT, write))
			continue;
		if (!rxd_store_wait_for_memory(store, token, write))
			break;
	}
	if (!done)
		return 0;
	/* Others may still be short of memory that is not dirty. */
	if (write->since || !(write->gfp & RXD_GFP_WRITEBACK))
		rxd_store_found_memory(store);
	if (write->since)
		rxd_write_end_wait(write);
	return done;
}

static bool all_zeroes(u64 pos, const void *src, unsigned int len)
{
	if (offset_in_page(pos) || len != PAGE_SIZE)
		return false;
	/* If the owner changes the buffer meanwhile, the disk may hold either content. */
	return !data_race(memchr_inv(src, 0, PAGE_SIZE));
}

/* Return: false if the page is in a shared leaf, and memory is short; or if writes are held. */
static bool free_page_at(struct rxd_store *store, u64 pos, gfp_t gfp)
{
	unsigned long pgno = pos >> PAGE_SHIFT;
	bool ret;

	if (!rxd_hold_enter(store, pos, PAGE_SIZE, gfp))
		return false;
	ret = !rxd_leaf_unshare_part(store, pgno, 1, store->hold ? RXD_GFP_NOWAIT : gfp);
	if (ret)
		rxd_store_free_run(store, pgno, 1);
	rxd_hold_leave(store);
	return ret;
}

/**
 * rxd_store_write_part - copy a part of a write to a store, and allocate pages for holes
 * @store: the store
 * @pos: position in bytes
 * @src: the data
 * @len: number of bytes; the range lies within the capacity
 * @write: the write that rxd_write_begin() began; its later parts lie within the capacity,
 *	too, because pages are allocated for them as well
 *
 * Return: 0, or -ENOSPC if memory is short or the limit is reached. In this case some of
 * the pages may have been written.
 */
int rxd_store_write_part(struct rxd_store *store, u64 pos, const void *src,
			 unsigned int len, struct rxd_write *write)
{
	unsigned int part, done;

	while (len) {
		part = len;
		if (unlikely(store->options.detect_zeroes)) {
			part = min_t(unsigned int, len, PAGE_SIZE - offset_in_page(pos));
			if (all_zeroes(pos, src, part) && free_page_at(store, pos, write->gfp))
				goto next;
		}
		done = overwrite(store, pos, src, part, write->gfp);
		if (unlikely(!done))
			done = write_gap(store, pos, src, part, write);
		if (unlikely(!done))
			return -ENOSPC;
		part = done;
next:
		write->left -= part;
		pos += part;
		src += part;
		len -= part;
	}
	return 0;
}

/**
 * rxd_store_zero - zero the existing pages of a range
 * @store: the store
 * @pos: position in bytes
 * @len: number of bytes; the range lies within the capacity
 * @write: the write that rxd_write_begin() began, of which this is a part
 *
 * Pages are neither added nor removed. Shared pages are replaced.
 *
 * Return: 0, or -ENOSPC if memory is short.
 */
int rxd_store_zero(struct rxd_store *store, u64 pos, unsigned int len, struct rxd_write *write)
{
	gfp_t gfp = write->gfp;
	unsigned int nr, part;
	void *data, *own;
	int ret = 0;

	/* The zeros may be those of a file system, which would lose data. */
	write->gfp |= RXD_GFP_WRITEBACK;
	write->left = 0;
	while (len && !ret) {
		rxd_hold_enter(store, pos, len, write->gfp);
		rcu_read_lock();
		data = find_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), &nr);
		own = data ? find_own_run(store, pos >> PAGE_SHIFT, nr, &nr) : NULL;
		part = bytes_of_run(pos, len, nr);
		if (own)
			rxd_copy_zeroes(own + offset_in_page(pos), part);
		rcu_read_unlock();
		rxd_hold_leave(store);

		if (data && !own) {
			/* A racing writer may replace the page, too: look again. */
			if (!write_gap(store, pos, NULL, part, write))
				ret = -ENOSPC;
			continue;
		}
		pos += part;
		len -= part;
	}
	write->gfp = gfp;
	return ret;
}

/**
 * rxd_store_fill - add pages of zeros to all holes of a range
 * @store: the store
 * @first: first page
 * @nr: number of pages; the range lies within the capacity
 * @write: the write that rxd_write_begin() began, of which this is a part
 *
 * Return: 0, or -ENOSPC, after which some pages may have been added.
 */
int rxd_store_fill(struct rxd_store *store, unsigned long first, unsigned long nr,
		   struct rxd_write *write)
{
	unsigned int run, done;
	int ret = 0;
	bool hole;

	write->fills = true;
	while (nr) {
		rcu_read_lock();
		hole = !find_run(store, first, min_t(unsigned long, nr, RXD_PAGES_PER_LEAF), &run);
		rcu_read_unlock();
		if (hole) {
			write->left = run << PAGE_SHIFT;
			done = write_gap(store, (u64)first << PAGE_SHIFT, NULL, write->left, write);
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
	write->fills = false;
	return ret;
}
