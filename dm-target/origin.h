/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_ORIGIN_H
#define RXC_ORIGIN_H

#include <linux/bio.h>
#include <linux/cache.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "args.h"
#include "index.h"
#include "sequence.h"

/* Lists that the fills under way are spread over. */
#define RXC_FILLS_BITS	6

/**
 * struct rxc_fills - some of the fills that are under way
 * @lock: guards the list and the readers of its fills; a bucket's is taken under it
 * @list: of struct rxc_io
 */
struct rxc_fills {
	spinlock_t lock; /* the list, and the readers of its fills */
	struct list_head list;
} ____cacheline_aligned_in_smp;

/**
 * struct rxcache - a cache in front of a disk
 * @ti: the target
 * @index: which block lies where in @store
 * @stats: counters
 * @nr_blocks: whole cache blocks of the target; what follows is not cached
 * @seq_cutoff: sequential I/O beyond this many bytes goes round the cache; 0: none
 * @block_shift: log2 of the sectors of a cache block
 * @mode: what is cached; may change at any time
 * @store: the pages of @cache
 * @origin: the disk
 * @cache: the RAM disk
 * @bios: bios that fill the cache's pages from the origin
 * @wq: where reads that missed are finished
 * @nr_prefetches: prefetches under way
 * @busy_at: when a prefetch last saw other I/O go to the origin, in jiffies
 * @suspended: no prefetch may start, and none go on
 * @started: the target has been resumed once
 * @sequence: where sequential I/O has come to
 * @stats_base: what @stats had counted when it was last reset
 * @stats_lock: guards @stats_base
 * @index_lock: held by who replaces @index while the target is suspended, and by
 *	who may use it then
 * @list: in the list of all caches
 * @fills: fills under way, by where they begin
 *
 * A hit needs the first cache line and the index.
 */
struct rxcache {
	struct dm_target *ti;
	struct rxc_index *index;
	struct rxc_stats __percpu *stats;
	u64 nr_blocks;
	u64 seq_cutoff;
	unsigned int block_shift;
	enum rxc_mode mode;
	struct rxd_store *store;
	struct dm_dev *origin;
	struct dm_dev *cache;
	struct bio_set bios;
	struct workqueue_struct *wq;
	atomic_t nr_prefetches;
	unsigned long busy_at;
	bool suspended;
	bool started;
	struct rxc_sequence sequence;
	struct rxc_stats stats_base;
	struct mutex stats_lock; /* stats_base */
	struct rw_semaphore index_lock;
	struct list_head list;
	struct rxc_fills fills[1 << RXC_FILLS_BITS];
};

/* Pages that a write has room for without an allocation. */
#define RXC_FEW_BVECS	4

/**
 * enum rxc_track - what is to be told to the index when a remapped bio ends
 * @RXC_TRACK_NONE: nothing
 * @RXC_TRACK_SLOTS: a write of blocks from their slots
 * @RXC_TRACK_RANGE: a write that goes round the cache
 */
enum rxc_track {
	RXC_TRACK_NONE,
	RXC_TRACK_SLOTS,
	RXC_TRACK_RANGE,
};

/**
 * struct rxc_bio - what the target keeps for each bio it maps
 * @track: what to do when the bio ends
 * @range: the blocks it writes
 * @bvecs: their pages, if it writes from slots
 * @few_bvecs: room for them if they are few
 */
struct rxc_bio {
	enum rxc_track track;
	struct rxc_range range;
	struct bio_vec *bvecs;
	struct bio_vec few_bvecs[RXC_FEW_BVECS];
};

int rxc_origin_init(struct rxcache *c, const char *name);
void rxc_origin_exit(struct rxcache *c);

int rxc_remap(struct rxcache *c, struct bio *bio);
int rxc_read(struct rxcache *c, struct bio *bio);
int rxc_write(struct rxcache *c, struct bio *bio);
int rxc_write_range(struct rxcache *c, struct bio *bio);
void rxc_bio_ended(struct rxcache *c, struct bio *bio, blk_status_t status);
int rxc_prefetch(struct rxcache *c, struct rxc_range *range, u64 *nr_left_out);

#endif /* RXC_ORIGIN_H */
