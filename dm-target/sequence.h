/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_SEQUENCE_H
#define RXC_SEQUENCE_H

#include <linux/cache.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/* Sequential readers and writers of one region that can be told apart, at least. */
#define RXC_STREAMS		16
/* log2 of the number of shards. */
#define RXC_SHARDS_BITS		5
/* log2 of the sectors of a region: 16 MiB. */
#define RXC_REGION_SHIFT	15

/**
 * struct rxc_stream - a sequential stream
 * @start: start of its newest bio
 * @next: end of this bio
 * @length: length of the stream so far, in sectors
 * @used: rxc_shard.clock when a bio last continued the stream
 */
struct rxc_stream {
	sector_t start;
	sector_t next;
	u64 length;
	u64 used;
};

/**
 * struct rxc_shard - the newest streams in some of the regions
 * @lock: protects the streams
 * @clock: incremented for each bio
 * @stream: the streams; is_known() reads them without the lock
 */
struct rxc_shard {
	spinlock_t lock; /* the streams */
	u64 clock;
	struct rxc_stream stream[RXC_STREAMS];
} ____cacheline_aligned_in_smp;

/**
 * struct rxc_run - the latest run of sequential hits on a processor
 * @start: first sector
 * @next: the sector after the last one; equal to @start if there is no run
 */
struct rxc_run {
	sector_t start;
	sector_t next;
};

/**
 * struct rxc_sequence - records of sequential I/O
 * @shards: streams, by the region of the last sector that they have reached
 * @runs: hits that are not a stream yet
 */
struct rxc_sequence {
	struct rxc_shard *shards;
	struct rxc_run __percpu *runs;
};

int rxc_sequence_init(struct rxc_sequence *seq);
void rxc_sequence_exit(struct rxc_sequence *seq);
u64 rxc_sequence_note(struct rxc_sequence *seq, sector_t sector, unsigned int nr);
void rxc_sequence_hit(struct rxc_sequence *seq, sector_t sector, unsigned int nr, u64 cutoff);

#endif /* RXC_SEQUENCE_H */
