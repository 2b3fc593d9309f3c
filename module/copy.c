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
#include "store-internal.h"

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
	struct page *page, *next;
	unsigned int n = 1;
	void *data = NULL;

	max = min_t(unsigned int, max, RXD_PAGES_PER_LEAF - first);
	page = leaf ? rcu_dereference(leaf->page[first]) : NULL;
	if (likely(page)) {
		data = page_address(page);
		for (; n < max; n++) {
			next = rcu_access_pointer(leaf->page[first + n]);
			if (!next || page_address(next) != data + n * PAGE_SIZE)
				break;
		}
		if (n > 1) {
			/* Access to the later pages does not depend on their own pointers. */
			smp_rmb();
		}
	} else if (leaf) {
		while (n < max && !rcu_access_pointer(leaf->page[first + n]))
			n++;
	} else {
		n = max;
	}
	*nr = n;
	return data;
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
 * Write to existing pages.
 *
 * Return: number of bytes written; 0 for a hole at @pos, with its length in pages in @nr.
 */
static unsigned int overwrite(struct rxd_store *store, u64 pos, const void *src,
			      unsigned int len, unsigned int *nr)
{
	unsigned int part = 0;
	void *data;

	rcu_read_lock();
	data = find_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), nr);
	if (likely(data)) {
		part = bytes_of_run(pos, len, *nr);
		rxd_copy(data + offset_in_page(pos), src, part);
	}
	rcu_read_unlock();
	return part;
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
	unsigned int entered, wanted;
	struct rxd_leaf *leaf;

	if (!rxd_store_has_room(store, 1))
		return 0;
	if (write->taken == write->nr) {
		wanted = hole_size(store, pgno, pages_spanned(pos, max(len, write->left)));
		rxd_write_alloc(write, store, pgno, wanted);
	}

	nr = rxd_store_charge(store, min(nr, write->nr - write->taken));
	if (!nr)
		return 0;
	leaf = rxd_leaf_get(store, pgno, nr, write->gfp);
	if (!leaf) {
		rxd_store_uncharge(store, nr);
		return 0;
	}
	len = bytes_of_run(pos, len, nr);
	fill_pages(write, nr, offset_in_page(pos), src, len);
	entered = insert_pages(leaf, pgno, write, nr, offset_in_page(pos), src ? len : 0);
	write->taken += nr;
	rxd_leaf_put(store, leaf, pgno, nr - entered);
	rxd_store_uncharge(store, nr - entered);
	return len;
}

/* Like write_hole(), but wait for memory if the caller may sleep. */
static unsigned int write_hole_patiently(struct rxd_store *store, u64 pos, const void *src,
					 unsigned int len, unsigned int nr,
					 struct rxd_write *write)
{
	unsigned int done;
	long freed;

	for (;;) {
		freed = rxd_freed_pages();
		done = write_hole(store, pos, src, len, nr, write);
		if (done || !gfpflags_allow_blocking(write->gfp) ||
		    !rxd_store_wait_for_memory(store, freed, write))
			break;
	}
	if (done)
		rxd_store_found_memory(store);
	return done;
}

static bool all_zeroes(u64 pos, const void *src, unsigned int len)
{
	if (offset_in_page(pos) || len != PAGE_SIZE)
		return false;
	/* If the owner changes the buffer meanwhile, the disk may hold either content. */
	return !data_race(memchr_inv(src, 0, PAGE_SIZE));
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
	unsigned int nr, part, done;

	while (len) {
		part = len;
		if (unlikely(store->options.detect_zeroes)) {
			part = min_t(unsigned int, len, PAGE_SIZE - offset_in_page(pos));
			if (all_zeroes(pos, src, part)) {
				rxd_store_free_run(store, pos >> PAGE_SHIFT, 1);
				goto next;
			}
		}
		done = overwrite(store, pos, src, part, &nr);
		if (unlikely(!done))
			done = write_hole_patiently(store, pos, src, part, nr, write);
		/* A racing writer may have filled this hole. */
		if (unlikely(!done))
			done = overwrite(store, pos, src, part, &nr);
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
 *
 * Pages are neither allocated nor freed.
 */
void rxd_store_zero(struct rxd_store *store, u64 pos, unsigned int len)
{
	unsigned int nr, part;
	void *data;

	while (len) {
		rcu_read_lock();
		data = find_run(store, pos >> PAGE_SHIFT, pages_spanned(pos, len), &nr);
		part = bytes_of_run(pos, len, nr);
		if (data)
			rxd_copy_zeroes(data + offset_in_page(pos), part);
		rcu_read_unlock();

		pos += part;
		len -= part;
	}
}

/**
 * rxd_store_fill - add pages of zeros to all holes of a range
 * @store: the store
 * @first: first page
 * @nr: number of pages; the range lies within the capacity
 * @gfp: RXD_GFP
 *
 * Return: 0, or -ENOSPC, after which some pages may have been added.
 */
int rxd_store_fill(struct rxd_store *store, unsigned long first, unsigned long nr, gfp_t gfp)
{
	struct rxd_write write;
	unsigned int run, done;
	int ret = 0;
	bool hole;

	rxd_write_begin(&write, 0, gfp);
	while (nr) {
		rcu_read_lock();
		hole = !find_run(store, first, min_t(unsigned long, nr, RXD_PAGES_PER_LEAF), &run);
		rcu_read_unlock();
		if (hole) {
			write.left = run << PAGE_SHIFT;
			done = write_hole_patiently(store, (u64)first << PAGE_SHIFT, NULL,
						    write.left, run, &write);
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
	rxd_write_end(&write);
	return ret;
}
