/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_STORE_H
#define RXD_STORE_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/stddef.h>
#include <linux/types.h>

struct backing_dev_info;
struct page;
struct rxd_hold;

/*
 * Flags for allocations of pages and leaves. They may reclaim clean pages, but neither start
 * I/O, nor wake the OOM killer, nor use the emergency reserves.
 */
#define RXD_GFP		(GFP_NOIO | __GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN)
#define RXD_GFP_NOWAIT	(GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NOWARN)

/* In addition: the page replaces one that is going to be free, so take it from the headroom. */
#define RXD_GFP_REPLACE	__GFP_HIGH

/* In addition: the write may be one that makes pages of the page cache clean. */
#define RXD_GFP_WRITEBACK	__GFP_WRITE

/* What the page allocator does not get. */
#define RXD_GFP_MARKS	(RXD_GFP_REPLACE | RXD_GFP_WRITEBACK)

/*
 * For pages that are lent: nothing is reclaimed for them, kswapd is not woken, and no other node
 * helps out. The headroom was checked by rxd_lend_allows().
 */
#define RXD_GFP_LENT	((RXD_GFP_NOWAIT & ~__GFP_RECLAIM) | __GFP_THISNODE)

/* Orders of contiguous pieces of memory. */
#define RXD_ORDER_64K	get_order(SZ_64K)
#define RXD_ORDER_2M	get_order(SZ_2M)

/**
 * struct rxd_store_options - how a store allocates pages
 * @order: the largest order that a long write allocates: 0, RXD_ORDER_64K or RXD_ORDER_2M
 * @node: the preferred NUMA node, RXD_NODE_LOCAL or RXD_NODE_INTERLEAVE
 * @detect_zeroes: free a page instead of filling it with zeros
 * @reserved: all pages exist, and a write to them must not fail because memory is short
 */
struct rxd_store_options {
	unsigned int order;
	int node;
	bool detect_zeroes;
	bool reserved;
};

/**
 * struct rxd_store_stats - counters of a store
 * @used: number of pages that hold data
 * @max_used: the maximum of @used so far
 * @limit: the limit of @used that rxd_store_set_limit() has set
 * @index_bytes: memory of the index and of the record of changes, in bytes
 */
struct rxd_store_stats {
	unsigned long used;
	unsigned long max_used;
	unsigned long limit;
	unsigned long index_bytes;
};

#define RXD_PAGES_PER_LEAF	(PAGE_SIZE / sizeof(struct page *))

struct rxd_leaf {
	struct page __rcu *page[RXD_PAGES_PER_LEAF];
};

/*
 * RXD_SHARED in a pointer to a leaf or to a page says that other stores may use this leaf or page.
 * It is never changed through such a pointer: a write replaces it by a copy. See share.c.
 * RXD_ALONE, always with RXD_SHARED, says that no other store owns it any more. See
 * share-marks.c.
 */
#define RXD_SHARED	1UL
#define RXD_ALONE	2UL
#define RXD_MARKS	(RXD_SHARED | RXD_ALONE)

#define rxd_is_shared(ptr)	((unsigned long)(ptr) & RXD_SHARED)
#define rxd_shared(ptr)		((typeof(ptr))((unsigned long)(ptr) | RXD_SHARED))
#define rxd_plain(ptr)		((typeof(ptr))((unsigned long)(ptr) & ~RXD_MARKS))

/**
 * struct rxd_store_node - the pages of a cache on a node
 * @used: number of pages, of which rxd_store_exchange() and rxd_store_take() keep count
 * @seen: @used when it was last looked at, see lend.c
 * @lent: number of lent pages that are counted as reclaimable
 */
struct rxd_store_node {
	atomic_long_t used;
	long seen;
	long lent;
} ____cacheline_aligned_in_smp;

/**
 * struct rxd_store - a sparse array of pages
 * @dir: the directory, an array of leaves
 * @nr_pages: capacity in pages
 * @options: how pages are allocated
 * @bdi: the device whose dirty pages a write does not wait for, or NULL
 * @short_since: when writes began to wait for writeback, in jiffies, or 0
 * @hold: what holds writes, or NULL; changed while there is no I/O
 * @stock: pages that each processor has charged in advance, see charge.c
 * @leaf_lock: serialises adding and removing leaves, and replacing @dir
 * @next_dir: the new directory while @dir is being replaced
 * @dir_leaves: number of leaves that @dir has room for
 * @record_bytes: memory of the record of changes, in bytes
 * @mem_limit: the limit that the user of the disk has set
 * @cap: the limit that the cache which owns the disk has set
 * @short_last: when a write last waited for writeback, in jiffies
 * @family: the same number for all stores that may share pages, or 0
 * @lost: the store is being given up, see expendable.c
 * @borrows: it may have pages of a reserved store
 * @unshared_until: until when nothing begins to share a reserved store, in jiffies, or 0
 * @doomed: entry in the list of stores to be freed
 * @sharer: entry in the list of stores that may have marks
 * @pass: the last pass of share-marks.c over this store
 * @has_marks: the last pass has left a mark, or marks were set since it began
 * @limit: maximum of @used: the lower one of @mem_limit and @cap. Caches change it while they fill
 * @used: number of pages that hold data, that writes in flight have charged, or that are in stock
 * @lent_from: pages beyond this number are lent, see lend.c; ULONG_MAX: none is
 * @max_used: the largest number of pages that was recorded: when pages left or counters were read
 * @on_node: the pages on each node
 * @charge_lock: serialises changing @limit and @max_used, all changes of @stock but taking from it,
 *	and charges near the limit, until the pages have entered
 * @has_stock: a processor may have a stock
 * @leaves: number of leaves
 *
 * All I/O reads the first cache line. Only writes that are short of memory write to it.
 */
struct rxd_store {
	struct rxd_leaf __rcu * __rcu *dir;
	unsigned long nr_pages;
	struct rxd_store_options options;
	struct backing_dev_info *bdi;
	unsigned long short_since;
	struct rxd_hold *hold;
	atomic_t __percpu *stock;
	/* adding and removing leaves, replacing @dir */
	spinlock_t leaf_lock ____cacheline_aligned_in_smp;
	struct rxd_leaf __rcu **next_dir;
	unsigned long dir_leaves;
	unsigned long record_bytes;
	unsigned long mem_limit;
	unsigned long cap;
	unsigned long short_last;
	unsigned long family;
	bool lost;
	bool borrows;
	unsigned long unshared_until;
	struct list_head doomed;
	struct list_head sharer;
	unsigned int pass;
	bool has_marks;
	atomic_long_t used ____cacheline_aligned_in_smp;
	unsigned long limit;
	unsigned long lent_from;
	unsigned long max_used;
	struct rxd_store_node *on_node;
	/* changing @limit, @max_used, and @stock but for taking from it; charges near @limit */
	spinlock_t charge_lock ____cacheline_aligned_in_smp;
	bool has_stock;
	atomic_long_t leaves;
};

static_assert(offsetofend(struct rxd_store, stock) <= SMP_CACHE_BYTES);

/**
 * struct rxd_moves - the pages of a store that have not got their new numbers yet
 * @store: the store
 * @dir: the directory of these pages
 * @nr_leaves: number of leaves that @dir has room for
 * @reclaim_at: when leaves may be allocated by reclaim again, in jiffies
 * @lends: the store has pages that are lent, which nobody can be given meanwhile
 */
struct rxd_moves {
	struct rxd_store *store;
	struct rxd_leaf __rcu **dir;
	unsigned long nr_leaves;
	unsigned long reclaim_at;
	bool lends;
};

/* Single pages that a long write allocates at a time. */
#define RXD_BATCH_PAGES	32

/**
 * struct rxd_write - a write or write-zeroes request of one or more parts, and pages for its holes
 * @left: bytes still to be written, of all parts
 * @gfp: RXD_GFP, or RXD_GFP_NOWAIT if the writer must not sleep
 * @since: when this step began to wait for memory, in jiffies; 0 before its first wait
 * @waited: how long the steps before it took that had to wait, in jiffies
 * @limited: the last allocation failed because of the limit of the store
 * @shared: the last step met a page that is shared
 * @fills: pages of zeros are added where there are none, and no data changes
 * @replaces: the page that could not be allocated would have replaced one that is then free
 * @contiguous: the pages are one contiguous piece
 * @nr: number of pages in the last allocation
 * @taken: number of these pages that are used
 * @page: the pages, or only the first if they are contiguous
 */
struct rxd_write {
	unsigned int left;
	gfp_t gfp;
	unsigned long since;
	unsigned long waited;
	bool limited;
	bool shared;
	bool fills;
	bool replaces;
	bool contiguous;
	unsigned int nr;
	unsigned int taken;
	struct page *page[RXD_BATCH_PAGES];
};

/**
 * rxd_write_begin - begin a write
 * @write: the write; rxd_write_end() ends it
 * @len: bytes of all parts together
 * @gfp: RXD_GFP, or RXD_GFP_NOWAIT if the caller must not sleep; with RXD_GFP_WRITEBACK unless a
 *       program demands the memory
 */
static inline void rxd_write_begin(struct rxd_write *write, unsigned int len, gfp_t gfp)
{
	write->left = len;
	write->gfp = gfp;
	write->since = 0;
	write->waited = 0;
	write->limited = false;
	write->shared = false;
	write->fills = false;
	write->replaces = false;
	write->nr = 0;
	write->taken = 0;
}

void rxd_write_free_rest(struct rxd_write *write);

/**
 * rxd_write_end - end a write
 * @write: the write
 */
static inline void rxd_write_end(struct rxd_write *write)
{
	if (unlikely(write->taken < write->nr))
		rxd_write_free_rest(write);
}

int rxd_prepare_table(size_t size);

int rxd_store_init(void);
void rxd_store_exit(void);

int rxd_store_prepare(unsigned long nr_pages);
struct rxd_store *rxd_store_create(unsigned long nr_pages,
				   const struct rxd_store_options *options);
void rxd_store_destroy(struct rxd_store *store);
void rxd_store_drain(void);

unsigned long rxd_store_nr_pages(const struct rxd_store *store);

/**
 * rxd_store_used - get the number of pages that hold data or are charged in advance
 * @store: the store
 *
 * Return: number of pages; the store of a cache has none in advance.
 */
static inline unsigned long rxd_store_used(const struct rxd_store *store)
{
	return atomic_long_read(&store->used);
}

/**
 * rxd_store_would_borrow - check whether the memory of further pages is lent
 * @store: the store
 * @nr: number of pages
 *
 * Return: true if it is that of the last of them.
 */
static inline bool rxd_store_would_borrow(const struct rxd_store *store, unsigned long nr)
{
	unsigned long from = READ_ONCE(store->lent_from);

	return from != ULONG_MAX && rxd_store_used(store) + nr > from;
}

/**
 * rxd_store_has_room - check whether more pages are within the limit
 * @store: the store
 * @nr: number of pages
 *
 * This is a hint: another task may use the room before the caller does. What processors have in
 * stock counts as used, see rxd_store_may_charge(); a cache has none.
 *
 * Return: true if @nr more pages may hold data now.
 */
static inline bool rxd_store_has_room(const struct rxd_store *store, unsigned long nr)
{
	return atomic_long_read(&store->used) + nr <= READ_ONCE(store->limit);
}

void rxd_store_set_limit(struct rxd_store *store, unsigned long limit);
void rxd_store_set_cap(struct rxd_store *store, unsigned long cap);
unsigned long rxd_store_excess(const struct rxd_store *store);
void rxd_store_set_bdi(struct rxd_store *store, struct backing_dev_info *bdi);
void rxd_store_get_stats(struct rxd_store *store, struct rxd_store_stats *stats);

int rxd_store_prepare_grow(const struct rxd_store *store, unsigned long nr_pages);
int rxd_store_grow(struct rxd_store *store, unsigned long nr_pages);
void rxd_store_trim(struct rxd_store *store);
int rxd_store_prepare_shrink(struct rxd_store *store, unsigned long nr_pages);
void rxd_store_shrink(struct rxd_store *store, unsigned long nr_pages);
void rxd_store_clear(struct rxd_store *store);
int rxd_store_begin_moves(struct rxd_moves *moves, struct rxd_store *store);
bool rxd_store_move(struct rxd_moves *moves, unsigned long from, unsigned long to,
		    unsigned int nr);
void rxd_store_leave(struct rxd_moves *moves, unsigned long first, unsigned int nr);
void rxd_store_end_moves(struct rxd_moves *moves);
unsigned long rxd_store_find_data(struct rxd_store *store, unsigned long first, unsigned long end);
unsigned long rxd_store_find_hole(struct rxd_store *store, unsigned long first, unsigned long end);

void rxd_store_read(struct rxd_store *store, u64 pos, void *dst, unsigned int len);
int rxd_store_write_part(struct rxd_store *store, u64 pos, const void *src,
			 unsigned int len, struct rxd_write *write);
int rxd_store_zero(struct rxd_store *store, u64 pos, unsigned int len, struct rxd_write *write);
int rxd_store_prepare_fill(struct rxd_store *store, unsigned long nr);
int rxd_store_fill(struct rxd_store *store, unsigned long first, unsigned long nr,
		   struct rxd_write *write);
unsigned long rxd_store_free_range(struct rxd_store *store, unsigned long first,
				   unsigned long nr);

void rxd_store_share(struct rxd_store *from, struct rxd_store *to);
int rxd_store_unshare_ends(struct rxd_store *store, unsigned long first, unsigned long nr,
			   gfp_t gfp);
int rxd_store_unshare_ends_wait(struct rxd_store *store, unsigned long first, unsigned long nr,
				struct rxd_write *write);
unsigned long rxd_store_count_shared(const struct rxd_store *store, unsigned long *first,
				     unsigned long end);

/**
 * rxd_store_must_be_expendable - may a store that shares its pages only be expendable?
 * @store: the store with the pages
 *
 * Writes to reserved memory take it back from all other stores.
 *
 * Return: true if the pages are those of a reserved store.
 */
static inline bool rxd_store_must_be_expendable(const struct rxd_store *store)
{
	return store->options.reserved || READ_ONCE(store->borrows);
}

/**
 * rxd_store_is_taken_back - are writes waiting until nothing shares the pages of a store?
 * @store: the store
 *
 * Return: true if no other store may begin to share its pages.
 */
static inline bool rxd_store_is_taken_back(const struct rxd_store *store)
{
	unsigned long until = READ_ONCE(store->unshared_until);

	return until && time_before(jiffies, until);
}

/**
 * rxd_store_write - copy a write of one part to a store
 * @store: the store
 * @pos: position in bytes
 * @src: the data
 * @len: number of bytes; the range lies within the capacity
 * @gfp: RXD_GFP, or RXD_GFP_NOWAIT if the caller must not sleep
 *
 * Return: 0 or -ENOSPC.
 */
static inline int rxd_store_write(struct rxd_store *store, u64 pos, const void *src,
				  unsigned int len, gfp_t gfp)
{
	struct rxd_write write;
	int ret;

	rxd_write_begin(&write, len, gfp);
	ret = rxd_store_write_part(store, pos, src, len, &write);
	rxd_write_end(&write);
	return ret;
}

/**
 * rxd_store_marked_leaf - find the leaf of a page, and whether it is shared
 * @store: the store
 * @pgno: page number, below the capacity
 *
 * Call under rcu_read_lock().
 *
 * Return: the leaf, with the mark RXD_SHARED if it is shared, or NULL if there is none.
 */
static inline struct rxd_leaf *rxd_store_marked_leaf(const struct rxd_store *store,
						     unsigned long pgno)
{
	struct rxd_leaf __rcu **dir = rcu_dereference(store->dir);

	return rcu_dereference(dir[pgno / RXD_PAGES_PER_LEAF]);
}

/**
 * rxd_store_leaf - find the leaf of a page
 * @store: the store
 * @pgno: page number, below the capacity
 *
 * Call under rcu_read_lock().
 *
 * Return: the leaf, or NULL if there is none.
 */
static inline struct rxd_leaf *rxd_store_leaf(const struct rxd_store *store, unsigned long pgno)
{
	return rxd_plain(rxd_store_marked_leaf(store, pgno));
}

/**
 * rxd_store_slot - find the pointer to a page
 * @store: the store
 * @pgno: page number, below the capacity
 *
 * Call under rcu_read_lock(), and only for a store that shares nothing, such as that of a cache.
 * The pointer may be read until rcu_read_unlock(). It is NULL for a hole.
 *
 * Return: address of the pointer, or NULL if the page has no leaf.
 */
static inline struct page __rcu **rxd_store_slot(const struct rxd_store *store,
						 unsigned long pgno)
{
	struct rxd_leaf *leaf = rxd_store_marked_leaf(store, pgno);

	return likely(leaf) ? &leaf->page[pgno % RXD_PAGES_PER_LEAF] : NULL;
}

/**
 * rxd_store_lookup - find a page
 * @store: the store
 * @pgno: page number, below the capacity
 *
 * Call under rcu_read_lock(). The page exists until rcu_read_unlock().
 *
 * Return: the page, or NULL for a hole.
 */
static inline struct page *rxd_store_lookup(const struct rxd_store *store, unsigned long pgno)
{
	struct rxd_leaf *leaf = rxd_store_leaf(store, pgno);

	if (unlikely(!leaf))
		return NULL;
	return rxd_plain(rcu_dereference(leaf->page[pgno % RXD_PAGES_PER_LEAF]));
}

struct page *rxd_store_alloc_page(struct rxd_store *store, unsigned long pgno, gfp_t gfp);
struct page *rxd_store_alloc_run(struct rxd_store *store, unsigned long pgno,
				 unsigned int *nr, gfp_t gfp);
void rxd_store_free_page(struct page *page);
int rxd_store_exchange(struct rxd_store *store, unsigned long pgno, struct page *page,
		       gfp_t gfp);
struct page *rxd_store_take(struct rxd_store *store, unsigned long pgno);
unsigned long rxd_store_free_taken(struct list_head *pages);

#endif /* RXD_STORE_H */
