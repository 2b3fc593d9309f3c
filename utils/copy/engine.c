// SPDX-License-Identifier: GPL-2.0-only
/*
 * One thread reads, one thread writes, and the caller's thread waits for signals and shows
 * the progress. The number of chunks limits the memory. A copy from memory to memory is
 * slower with threads, since each chunk moves from one CPU's cache to another's. So the
 * caller's thread does the work alone until reads or writes block too often.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "copy.h"
#include "queue.h"

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL

/* Start threads after ALONE_WAITS waits, if that is one or more per ALONE_SHARE chunks. */
#define ALONE_WAITS	8
#define ALONE_SHARE	8
#define ALONE_FIRST	2

/* Least interval at which a working thread checks for signals. */
#define LOOK_EVERY	NSEC_PER_MSEC

static_assert(COPY_CHUNKS_MAX <= QUEUE_MAX, "a queue has room for all chunks");

struct engine {
	struct copy_job *job;
	struct queue free;
	struct queue full;
	struct copy_chunk chunks[COPY_CHUNKS_MAX];
	bool failed[2];		/* the reader, the writer */
	int done;		/* eventfd: the writer has ended */
	const struct copy_signals *signals;
	uint64_t next;		/* when to show the progress next */
	uint64_t next_look;	/* when run_alone() checks for signals next */
};

/**
 * copy_is_zero - check whether data is all zeros
 * @data: the data
 * @length: its size in bytes
 */
bool copy_is_zero(const void *data, size_t length)
{
	static const char zeros[64];
	size_t head = length < sizeof(zeros) ? length : sizeof(zeros);

	/* The first bytes are zeros, and each later byte equals the one 64 before it. */
	return !memcmp(data, zeros, head) &&
	       !memcmp(data, (const char *)data + head, length - head);
}

static void stop(struct engine *engine)
{
	__atomic_store_n(&engine->job->stop, 1, __ATOMIC_RELAXED);
	queue_abort(&engine->free);
	queue_abort(&engine->full);
}

static void fail(struct engine *engine, unsigned int thread)
{
	engine->failed[thread] = true;
	stop(engine);
}

static enum copy_step timed_write(struct copy_job *job, const struct copy_chunk *chunk)
{
	uint64_t checksum = job->times.checksum;
	uint64_t begin = copy_time(job);
	enum copy_step step = job->write(job->context, chunk);

	job->times.write += copy_time(job) - begin - (job->times.checksum - checksum);
	return step;
}

static enum copy_step timed_finish(struct copy_job *job)
{
	uint64_t begin = copy_time(job);
	enum copy_step step = job->finish(job->context);

	job->times.write += copy_time(job) - begin;
	return step;
}

static enum copy_step timed_read(struct copy_job *job, struct copy_chunk *chunk)
{
	uint64_t scan = job->times.scan;
	uint64_t begin = copy_time(job);
	enum copy_step step;

	step = job->read(job->context, chunk);
	job->times.read += copy_time(job) - begin - (job->times.scan - scan);
	return step;
}

static void *reader(void *arg)
{
	struct engine *engine = arg;
	struct copy_chunk *chunk;
	enum copy_step step = COPY_MORE;

	while (step == COPY_MORE && (chunk = queue_get(&engine->free))) {
		step = timed_read(engine->job, chunk);
		if (step == COPY_MORE && !queue_put(&engine->full, chunk))
			break;
	}
	if (step == COPY_FAILED)
		fail(engine, 0);
	queue_close(&engine->full);
	return NULL;
}

static void *writer(void *arg)
{
	struct engine *engine = arg;
	struct copy_job *job = engine->job;
	enum copy_step step = COPY_MORE;
	struct copy_chunk *chunk;

	while (step == COPY_MORE && (chunk = queue_get(&engine->full))) {
		step = timed_write(job, chunk);
		if (step == COPY_MORE)
			queue_put(&engine->free, chunk);
	}
	if (step == COPY_MORE && job->finish && !copy_stopped(job))
		step = timed_finish(job);
	if (step == COPY_FAILED)
		fail(engine, 1);
	eventfd_write(engine->done, 1);
	return NULL;
}

static bool get_chunk(struct engine *engine, struct copy_chunk *chunk)
{
	chunk->data = aligned_alloc(COPY_ALIGN, engine->job->room);
	chunk->note = calloc(1, engine->job->note_size + 1);
	return chunk->data && chunk->note;
}

static void put_chunks(struct engine *engine)
{
	unsigned int i;

	for (i = 0; i < engine->job->chunks; i++) {
		free(engine->chunks[i].data);
		free(engine->chunks[i].note);
		engine->chunks[i] = (struct copy_chunk){ 0 };
	}
}

static bool get_chunks(struct engine *engine)
{
	struct copy_job *job = engine->job;
	unsigned int i;

	for (i = 0; i < job->chunks; i++) {
		if (!get_chunk(engine, &engine->chunks[i]))
			return false;
		queue_put(&engine->free, &engine->chunks[i]);
	}
	return true;
}

/* Show the progress if it is due, and take signals. Return: the current time. */
static uint64_t look(struct engine *engine)
{
	struct copy_job *job = engine->job;
	uint64_t now = copy_clock_coarse();
	int signal;

	if (now >= engine->next) {
		progress_show(job->progress, &job->counts);
		engine->next += NSEC_PER_SEC * (1 + (now - engine->next) / NSEC_PER_SEC);
	}
	signal = copy_signals_take(engine->signals);
	if (signal && !job->signal) {
		job->signal = signal;
		stop(engine);
	}
	return now;
}

/**
 * copy_stopped - check whether a callback should return early
 * @job: its job
 */
bool copy_stopped(struct copy_job *job)
{
	if (job->alone && copy_clock_coarse() >= job->alone->next_look)
		job->alone->next_look = look(job->alone) + LOOK_EVERY;
	return __atomic_load_n(&job->stop, __ATOMIC_RELAXED);
}

static void watch(struct engine *engine)
{
	struct pollfd fds[] = {
		{ .fd = engine->done, .events = POLLIN },
		{ .fd = engine->signals->fd, .events = POLLIN },
	};
	uint64_t now;

	while (!fds[0].revents) {
		now = look(engine);
		poll(fds, 2, (engine->next - now) / NSEC_PER_MSEC + 1);
	}
}

/* Count how often this thread has blocked: its voluntary context switches. */
static long waits(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw;
}

static enum copy_step copy_chunk(struct engine *engine, struct copy_chunk *chunk)
{
	enum copy_step step = timed_read(engine->job, chunk);

	if (step == COPY_FAILED)
		fail(engine, 0);
	if (step != COPY_MORE)
		return step;
	step = timed_write(engine->job, chunk);
	if (step == COPY_FAILED)
		fail(engine, 1);
	/* A writer that returns COPY_END was stopped: do not let the caller finish the copy. */
	return step == COPY_MORE ? COPY_MORE : COPY_FAILED;
}

/* Copy in this thread. Return: COPY_MORE if threads should continue. */
static enum copy_step run_alone(struct engine *engine)
{
	struct copy_chunk *chunk = &engine->chunks[0];
	struct copy_job *job = engine->job;
	enum copy_step step = COPY_MORE;
	long chunks = 0, before = 0, waited = 0;

	if (!get_chunk(engine, chunk)) {
		put_chunks(engine);
		return COPY_MORE;
	}
	job->alone = engine;
	while (step == COPY_MORE && !copy_stopped(job) &&
	       (waited < ALONE_WAITS || waited * ALONE_SHARE < chunks)) {
		step = copy_chunk(engine, chunk);
		if (step != COPY_MORE)
			break;
		chunks++;
		/* Most files have only one chunk: save them the system call. */
		if (chunks == ALONE_FIRST)
			before = waits();
		else if (chunks > ALONE_FIRST)
			waited = waits() - before;
	}
	if (step == COPY_END && job->finish && !copy_stopped(job) &&
	    timed_finish(job) == COPY_FAILED)
		fail(engine, 1);
	put_chunks(engine);
	if (copy_stopped(job))
		step = COPY_END;
	job->alone = NULL;
	return step;
}

static bool run_threads(struct engine *engine)
{
	pthread_t threads[2];

	engine->done = eventfd(0, EFD_CLOEXEC);
	if (engine->done < 0 || !get_chunks(engine))
		return false;
	engine->free.put = 0;
	/* A signal that came before the copy interrupts it before the first read. */
	look(engine);
	if (copy_stopped(engine->job))
		return true;
	if (pthread_create(&threads[1], NULL, writer, engine))
		return false;
	if (pthread_create(&threads[0], NULL, reader, engine)) {
		stop(engine);
		pthread_join(threads[1], NULL);
		return false;
	}
	watch(engine);
	pthread_join(threads[1], NULL);
	pthread_join(threads[0], NULL);
	return true;
}

static bool run(struct engine *engine)
{
	if (engine->job->light && run_alone(engine) != COPY_MORE)
		return true;
	return run_threads(engine);
}

static enum copy_result result_of(const struct engine *engine)
{
	if (engine->failed[0] || engine->failed[1])
		return COPY_ERROR;
	/* Signals that look() has not taken by the end do not interrupt the copy. */
	return engine->job->stop ? COPY_INTERRUPTED : COPY_DONE;
}

/**
 * copy_run - copy until the end, an error or a signal
 * @job: what to copy
 *
 * The signals that copy_signals_hold() blocks interrupt the copy. The caller then cleans up
 * and calls copy_interrupt().
 */
enum copy_result copy_run(struct copy_job *job)
{
	struct copy_signals own;
	struct engine engine = { .job = job, .done = -1, .signals = job->signals };
	enum copy_result result = COPY_NO_MEMORY;
	struct queue *free_chunks = &engine.free, *full = &engine.full;
	uint64_t begin = copy_time(job);

	job->counts = (struct copy_counts){ 0 };
	job->times = (struct copy_times){ 0 };
	job->signal = 0;
	job->stop = 0;
	job->alone = NULL;
	engine.next = copy_clock_coarse() + NSEC_PER_SEC;
	queue_init(free_chunks, job->timed);
	queue_init(full, job->timed);
	if (!engine.signals && !copy_signals_hold(&own))
		engine.signals = &own;
	if (engine.signals) {
		progress_begin(job->progress, &job->counts);
		if (run(&engine))
			result = result_of(&engine);
		progress_end(job->progress, &job->counts, result == COPY_DONE);
	}

	job->times.get_free = free_chunks->get;
	job->times.put_free = free_chunks->put;
	job->times.get_full = full->get;
	job->times.put_full = full->put;
	job->times.elapsed = copy_time(job) - begin;
	put_chunks(&engine);
	queue_destroy(full);
	queue_destroy(free_chunks);
	/* Discard further signals, such as a second Ctrl-C. */
	while (job->signal && copy_signals_take(engine.signals))
		;
	if (engine.signals == &own)
		copy_signals_release(&own);
	if (engine.done >= 0)
		close(engine.done);
	return result;
}
