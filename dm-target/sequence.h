/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_SEQUENCE_H
#define RXC_SEQUENCE_H

#include <linux/cache.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/* How many sequential readers and writers of one region can be told apart at least. */
#define RXC_STREAMS		16
/* Lists that the regions are spread over. */
#define RXC_SHARDS_BITS		5
/* log2 of the sectors of a region: 16 MiB. */
#define RXC_REGION_SHIFT	15

/**
 * struct rxc_stream - I/O that goes on where it stopped
 * @start: where its newest bio begins
 * @next: where that bio ends
 * @length: how far it has come, in sectors
 * @used: when it went on
 */
struct rxc_stream {
	sector_t start;
	sector_t next;
	u64 length;
	u64 used;
};

/**
 * struct rxc_shard - the newest streams that go on in some regions
 * @lock: guards the streams
 * @clock: grows with each bio
 * @stream: the streams; some look at them without the lock
 */
struct rxc_shard {
	spinlock_t lock; /* the streams */
	u64 clock;
	struct rxc_stream stream[RXC_STREAMS];
} ____cacheline_aligned_in_smp;

/**
 * struct rxc_run - what a processor last read from the cache in one go
 * @start: first sector
 * @next: the sector after the last; @start if there is no run
 */
struct rxc_run {
	sector_t start;
	sector_t next;
};

/**
 * struct rxc_sequence - where sequential I/O has come to
 * @shards: a stream is where the last sector lies that it has come to
 * @runs: hits that are no stream yet
 */
struct rxc_sequence {
	struct rxc_shard *shards;
	struct rxc_run __percpu *runs;
};

int rxc_sequence_init(struct rxc_sequence *seq);
void rxc_sequence_exit(struct rxc_sequence *seq);
bool rxc_sequence_exceeds(struct rxc_sequence *seq, sector_t sector, unsigned int nr,
			  u64 cutoff);
void rxc_sequence_hit(struct rxc_sequence *seq, sector_t sector, unsigned int nr, u64 cutoff);

#endif /* RXC_SEQUENCE_H */
