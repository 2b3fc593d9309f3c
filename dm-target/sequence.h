/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_SEQUENCE_H
#define RXC_SEQUENCE_H

#include <linux/spinlock.h>
#include <linux/types.h>

/* How many sequential readers and writers can be told apart. */
#define RXC_STREAMS	16

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
 * struct rxc_sequence - the newest streams
 * @lock: guards the streams
 * @clock: grows with each bio
 * @stream: the streams
 */
struct rxc_sequence {
	spinlock_t lock; /* the streams */
	u64 clock;
	struct rxc_stream stream[RXC_STREAMS];
};

void rxc_sequence_init(struct rxc_sequence *seq);
bool rxc_sequence_exceeds(struct rxc_sequence *seq, sector_t sector, unsigned int nr,
			  u64 cutoff);

#endif /* RXC_SEQUENCE_H */
