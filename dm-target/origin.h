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

#include "../module/rxd.h"

#include "advice.h"
#include "args.h"
#include "failed.h"
#include "index.h"
#include "sequence.h"

/* log2 of the number of lists of fills. */
#define RXC_FILLS_BITS	6

/**
 * struct rxc_fills - a list of fills in flight
 * @lock: protects @list and the readers of its fills; taken before the lock of a bucket
 * @list: fills, as struct rxc_io
 */
struct rxc_fills {
	spinlock_t lock; /* the list, and the readers of its fills */
	struct list_head list;
} ____cacheline_aligned_in_smp;

/**
 * struct rxcache - a cache in front of a disk
 * @ti: the target
 * @index: maps the blocks to their slots in @store
 * @stats: counters
 * @nr_blocks: number of whole cache blocks in the target; the rest is not cached
 * @seq_cutoff: sequential I/O bypasses the cache beyond this many bytes; 0: never
 * @block_shift: log2 of the sectors of a cache block
 * @mode: which I/O is cached; may change at any time
 * @sampler: takes samples for the advice
 * @store: the pages of @cache
 * @origin: the disk
 * @cache: the RAM disk
 * @bios: bios of fills
 * @wq: finishes fills, and submits those that must not block their reader
 * @nr_prefetches: number of prefetches in progress
 * @busy_at: when other I/O last went to the origin during a prefetch, in jiffies
 * @suspended: prefetches must stop, and none may start
 * @started: the target was resumed, and no table of the same device was resumed since then;
 *	false again before the target is destroyed
 * @if_same: take @cache only if it is as @seen
 * @seen: see rxd_take()
 * @size: limit of the cached data, in bytes; 0: the RAM disk has all that it can
 * @min_size: the data beyond it is lent, in bytes; 0: none is
 * @floating: the present limit if there is @min_size, in blocks
 * @leaving: number of blocks that are being evicted because of the limit
 * @last_lent: number of blocks that were lent at the last look
 * @followed_at: when @floating last followed what is used, in jiffies
 * @borrower: lets others ask for what is lent
 * @promise: what counts towards the share of memory, see promise.c
 * @promise_lock: serialises changes of @promise and @min_size by messages
 * @limit_lock: serialises changes of @size to @followed_at, and of the limit of @index
 * @trim_work: evicts blocks beyond the limit
 * @trim_grace: the grace period that the pages it has evicted last wait for
 * @sequence: sequential streams
 * @failed: blocks that could not be filled lately
 * @stats_base: value of @stats at the last reset
 * @stats_lock: protects @stats_base
 * @advise: the advice is wanted
 * @advice_lock: protects @advise, and held while @sampler is switched on or off
 * @message_lock: held for reading by messages, and for writing by a resume before @index_lock
 * @index_lock: held for writing while @index is replaced in a suspended target, and for
 *	reading by users that a suspension does not stop
 * @list: entry in the list of all caches
 * @fills: fills in flight, selected by their first block
 *
 * A hit reads only the first cache line, and @sequence if there is a cut-off.
 */
struct rxcache {
	struct dm_target *ti;
	struct rxc_index *index;
	struct rxc_stats __percpu *stats;
	u64 nr_blocks;
	u64 seq_cutoff;
	unsigned int block_shift;
	enum rxc_mode mode;
	struct rxc_sampler sampler;
	struct rxd_store *store;
	struct dm_dev *origin;
	struct dm_dev *cache;
	struct bio_set bios;
	struct workqueue_struct *wq;
	atomic_t nr_prefetches;
	unsigned long busy_at;
	bool suspended;
	bool started;
	bool if_same;
	struct rxd_seen seen;
	u64 size;
	u64 min_size;
	unsigned long floating;
	unsigned long leaving;
	unsigned long last_lent;
	unsigned long followed_at;
	struct rxd_borrower borrower;
	struct rxd_promise promise;
	struct mutex promise_lock; /* promise, and changes of min_size by messages */
	spinlock_t limit_lock; /* the sizes, and the limit of the index */
	struct delayed_work trim_work;
	unsigned long trim_grace;
	struct rxc_sequence sequence;
	struct rxc_failed failed;
	struct rxc_stats stats_base;
	struct mutex stats_lock; /* stats_base */
	bool advise;
	struct mutex advice_lock; /* advise, and switching sampler */
	struct rw_semaphore message_lock;
	struct rw_semaphore index_lock;
	struct list_head list;
	struct rxc_fills fills[1 << RXC_FILLS_BITS];
};

static_assert(offsetofend(struct rxcache, sampler) <= SMP_CACHE_BYTES);

/* Bvecs that a write has without an allocation. */
#define RXC_FEW_BVECS	4

/**
 * enum rxc_track - what the end of a remapped bio is to the index
 * @RXC_TRACK_NONE: nothing
 * @RXC_TRACK_SLOTS: the end of a write from slots
 * @RXC_TRACK_RANGE: the end of a write that bypasses the cache
 */
enum rxc_track {
	RXC_TRACK_NONE,
	RXC_TRACK_SLOTS,
	RXC_TRACK_RANGE,
};

/**
 * struct rxc_bio - per-bio data
 * @track: what to tell the index when the bio ends
 * @range: the blocks that the bio writes
 * @bvecs: the pages of these blocks, for a write from slots
 * @few_bvecs: space for @bvecs if there are few
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
