// SPDX-License-Identifier: GPL-2.0-only
/*
 * A queue with room for all chunks, which can measure the time spent at both ends.
 */
#include "clock.h"
#include "queue.h"

static uint64_t time_of(const struct queue *queue)
{
	return queue->timed ? copy_clock() : 0;
}

void queue_init(struct queue *queue, bool timed)
{
	*queue = (struct queue){ .timed = timed };
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
}

void queue_destroy(struct queue *queue)
{
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
}

/**
 * queue_put - hand over a chunk
 * @queue: the queue
 * @chunk: the chunk
 *
 * Return: false if the queue was aborted.
 */
bool queue_put(struct queue *queue, struct copy_chunk *chunk)
{
	uint64_t begin = time_of(queue);
	bool aborted;

	pthread_mutex_lock(&queue->lock);
	aborted = queue->aborted;
	if (!aborted) {
		queue->ring[(queue->first + queue->count++) % QUEUE_MAX] = chunk;
		pthread_cond_signal(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	queue->put += time_of(queue) - begin;
	return !aborted;
}

/**
 * queue_get - wait for a chunk
 * @queue: the queue
 *
 * Return: the chunk, or NULL if the queue is closed and empty, or was aborted.
 */
struct copy_chunk *queue_get(struct queue *queue)
{
	struct copy_chunk *chunk = NULL;
	uint64_t begin = time_of(queue);

	pthread_mutex_lock(&queue->lock);
	while (!queue->count && !queue->closed && !queue->aborted)
		pthread_cond_wait(&queue->changed, &queue->lock);
	if (queue->count && !queue->aborted) {
		chunk = queue->ring[queue->first];
		queue->first = (queue->first + 1) % QUEUE_MAX;
		queue->count--;
	}
	pthread_mutex_unlock(&queue->lock);
	queue->get += time_of(queue) - begin;
	return chunk;
}

/* Let queue_get() return NULL once the queue is empty: no more chunks come. */
void queue_close(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->closed = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

/* Let queue_get() and queue_put() fail from now on. */
void queue_abort(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->aborted = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}
