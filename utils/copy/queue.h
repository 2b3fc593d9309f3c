/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_QUEUE_H
#define COPY_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define QUEUE_MAX	16

struct copy_chunk;

/* Chunks that one thread hands over to the other. */
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct copy_chunk *ring[QUEUE_MAX];
	unsigned int first;
	unsigned int count;
	bool closed;	/* no more chunks come */
	bool aborted;	/* both ends fail at once */
	bool timed;
	uint64_t get;	/* nanoseconds spent in queue_get(), if timed */
	uint64_t put;	/* and in queue_put() */
};

void queue_init(struct queue *queue, bool timed);
void queue_destroy(struct queue *queue);
bool queue_put(struct queue *queue, struct copy_chunk *chunk);
struct copy_chunk *queue_get(struct queue *queue);
void queue_close(struct queue *queue);
void queue_abort(struct queue *queue);

#endif /* COPY_QUEUE_H */
