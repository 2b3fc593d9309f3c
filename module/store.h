/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_STORE_H
#define RXD_STORE_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/stddef.h>
#include <linux/types.h>

struct backing_dev_info;
struct page;

/*
 * What a write may ask of the page allocator: it may reclaim clean pages, but
 * neither start I/O, nor wake the OOM killer, nor use up the emergency reserves.
 */
#define RXD_GFP		(GFP_NOIO | __GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN)
#define RXD_GFP_NOWAIT	(GFP_NOWAIT | __GFP_NOMEMALLOC | __GFP_NOWARN)

/* Pieces of contiguous memory by size, as powers of two of pages. */
#define RXD_ORDER_64K	get_order(SZ_64K)
#define RXD_ORDER_2M	get_order(SZ_2M)

/**
 * struct rxd_store_options - how a store keeps its data
 * @order: the largest piece of contiguous memory that a long write asks for: 0,
 *	RXD_ORDER_64K or RXD_ORDER_2M
 * @node: the NUMA node to prefer, RXD_NODE_LOCAL or RXD_NODE_INTERLEAVE
 * @detect_zeroes: free a page in place of writing zeros all over it
 */
struct rxd_store_options {
	unsigned int order;
	int node;
	bool detect_zeroes;
};

/**
 * struct rxd_store_stats - what a store holds, in pages
 * @used: pages that hold data now
 * @max_used: the largest @used there has been
 * @limit: the most that @used may become
 * @used_64k: pages of @used that came in pieces of 64 KiB or more
 * @used_2m: pages of @used that came in pieces of 2 MiB
 * @index_bytes: memory that keeps track of the pages, in bytes
 */
struct rxd_store_stats {
	unsigned long used;
	unsigned long max_used;
	unsigned long limit;
	unsigned long used_64k;
	unsigned long used_2m;
	unsigned long index_bytes;
};

#define RXD_PAGES_PER_LEAF	(PAGE_SIZE / sizeof(struct page *))

struct rxd_leaf {
	struct page __rcu *page[RXD_PAGES_PER_LEAF];
};

/* The size of the piece of memory that a page came in, kept in its private word. */
enum rxd_piece {
	RXD_PIECE_PAGE,
	RXD_PIECE_64K,
	RXD_PIECE_2M,
	RXD_NR_PIECES
};

/**
 * struct rxd_store - a sparse array of pages
 * @dir: the leaves; replaced as a whole when the store grows
 * @nr_pages: capacity
 * @limit: the most pages that may hold data
 * @options: how the data is kept
 * @bdi: whose dirty pages no write to the store waits for, or NULL
 * @short_since: when writes began to wait for others' pages to be written, or 0
 * @leaf_lock: serialises those who add or remove a leaf with those who replace @dir
 * @next_dir: what will replace @dir, while it is being copied
 * @dir_leaves: leaves that @dir has room for
 * @short_last: when a write last waited for others' pages
 * @doomed: in the list of stores to be freed
 * @used: pages that hold data
 * @max_used: the largest @used there has been
 * @used_by_piece: pages that hold data by the piece they came in; those of
 *	RXD_PIECE_PAGE are not counted
 * @leaves: leaves there are
 *
 * All I/O reads the first cache line, and none writes to it.
 */
struct rxd_store {
	struct rxd_leaf __rcu * __rcu *dir;
	unsigned long nr_pages;
	unsigned long limit;
	struct rxd_store_options options;
	struct backing_dev_info *bdi;
	unsigned long short_since;
	/* adding and removing leaves, replacing @dir */
	spinlock_t leaf_lock ____cacheline_aligned_in_smp;
	struct rxd_leaf __rcu **next_dir;
	unsigned long dir_leaves;
	unsigned long short_last;
	struct list_head doomed;
	atomic_long_t used ____cacheline_aligned_in_smp;
	atomic_long_t max_used;
	atomic_long_t used_by_piece[RXD_NR_PIECES];
	atomic_long_t leaves;
};

static_assert(offsetofend(struct rxd_store, short_since) <= SMP_CACHE_BYTES);

/* How many single pages a long write allocates at once. */
#define RXD_BATCH_PAGES	32

/**
 * struct rxd_batch - pages that a write has ready for the holes it meets
 * @nr: how many there were
 * @taken: how many of them are used up
 * @piece: what they came in; but for single pages they are contiguous
 * @deadline: until when the write waits for memory, in jiffies, or 0 if it has not yet
 * @page: the pages, or the first if they are contiguous
 */
struct rxd_batch {
	unsigned int nr;
	unsigned int taken;
	unsigned int piece;
	unsigned long deadline;
	struct page *page[RXD_BATCH_PAGES];
};

static inline void rxd_batch_init(struct rxd_batch *batch)
{
	batch->nr = 0;
	batch->taken = 0;
	batch->piece = 0;
	batch->deadline = 0;
}

void rxd_batch_free(struct rxd_batch *batch);

bool rxd_memory_allows(size_t size);

int rxd_store_init(void);
void rxd_store_exit(void);

struct rxd_store *rxd_store_create(unsigned long nr_pages,
				   const struct rxd_store_options *options);
void rxd_store_destroy(struct rxd_store *store);
void rxd_store_drain(void);

unsigned long rxd_store_nr_pages(const struct rxd_store *store);
bool rxd_store_has_room(const struct rxd_store *store, unsigned long nr);
void rxd_store_set_limit(struct rxd_store *store, unsigned long limit);
void rxd_store_set_bdi(struct rxd_store *store, struct backing_dev_info *bdi);
void rxd_store_get_stats(const struct rxd_store *store, struct rxd_store_stats *stats);

int rxd_store_grow(struct rxd_store *store, unsigned long nr_pages);
void rxd_store_trim(struct rxd_store *store);
void rxd_store_shrink(struct rxd_store *store, unsigned long nr_pages);
void rxd_store_clear(struct rxd_store *store);
unsigned long rxd_store_next_data(struct rxd_store *store, unsigned long first);
unsigned long rxd_store_next_hole(struct rxd_store *store, unsigned long first);

void rxd_store_read(struct rxd_store *store, u64 pos, void *dst, unsigned int len);
int rxd_store_write_part(struct rxd_store *store, u64 pos, const void *src,
			 unsigned int len, unsigned int more, struct rxd_batch *batch,
			 gfp_t gfp);
void rxd_store_zero(struct rxd_store *store, u64 pos, unsigned int len);
bool rxd_store_can_fill(const struct rxd_store *store, unsigned long nr);
int rxd_store_fill(struct rxd_store *store, unsigned long first, unsigned long nr, gfp_t gfp);
unsigned long rxd_store_free_range(struct rxd_store *store, unsigned long first,
				   unsigned long nr);

/**
 * rxd_store_write - rxd_store_write_part() of all there is to write
 * @store: the store
 * @pos: first byte
 * @src: where to copy from
 * @len: bytes; the range lies within the capacity
 * @gfp: RXD_GFP, or RXD_GFP_NOWAIT if the caller must not sleep
 *
 * Return: 0 or -ENOSPC.
 */
static inline int rxd_store_write(struct rxd_store *store, u64 pos, const void *src,
				  unsigned int len, gfp_t gfp)
{
	struct rxd_batch batch;
	int ret;

	rxd_batch_init(&batch);
	ret = rxd_store_write_part(store, pos, src, len, 0, &batch, gfp);
	rxd_batch_free(&batch);
	return ret;
}

/**
 * rxd_store_leaf - the leaf of a page
 * @store: the store
 * @pgno: page number, below the capacity
 *
 * Call under rcu_read_lock().
 *
 * Return: the leaf, or NULL if nothing was written to what it would describe.
 */
static inline struct rxd_leaf *rxd_store_leaf(const struct rxd_store *store, unsigned long pgno)
{
	struct rxd_leaf __rcu **dir = rcu_dereference(store->dir);

	return rcu_dereference(dir[pgno / RXD_PAGES_PER_LEAF]);
}

/**
 * rxd_store_slot - where the pointer to a page lies
 * @store: the store
 * @pgno: page number, below the capacity
 *
 * Call under rcu_read_lock(); until rcu_read_unlock() the pointer may be read. It is NULL
 * where nothing was written.
 *
 * Return: the place of the pointer, or NULL if the page has no leaf.
 */
static inline struct page __rcu **rxd_store_slot(const struct rxd_store *store,
						 unsigned long pgno)
{
	struct rxd_leaf *leaf = rxd_store_leaf(store, pgno);

	return likely(leaf) ? &leaf->page[pgno % RXD_PAGES_PER_LEAF] : NULL;
}

/**
 * rxd_store_lookup - find a page
 * @store: the store
 * @pgno: page number, below the capacity
 *
 * Call under rcu_read_lock(); the page stays until rcu_read_unlock().
 *
 * Return: the page, or NULL where nothing was written.
 */
static inline struct page *rxd_store_lookup(const struct rxd_store *store, unsigned long pgno)
{
	struct page __rcu **slot = rxd_store_slot(store, pgno);

	return likely(slot) ? rcu_dereference(*slot) : NULL;
}

struct page *rxd_store_alloc_page(struct rxd_store *store, unsigned long pgno, gfp_t gfp);
struct page *rxd_store_alloc_run(struct rxd_store *store, unsigned long pgno,
				 unsigned int *nr, gfp_t gfp);
void rxd_store_free_page(struct page *page);
int rxd_store_exchange(struct rxd_store *store, unsigned long pgno, struct page *page,
		       gfp_t gfp);

#endif /* RXD_STORE_H */
