// SPDX-License-Identifier: GPL-2.0-only
/*
 * One thread reads, one writes, and the caller's waits for signals and shows the
 * progress. Memory is bounded by the number of chunks.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "queue.h"

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL

struct engine {
	struct copy_job *job;
	struct queue free;
	struct queue full;
	struct copy_chunk chunks[COPY_CHUNKS_MAX];
	bool failed[2];		/* the reader, the writer */
	int done;		/* eventfd: the writer's end */
	int signals;		/* signalfd */
	sigset_t mask;		/* the caller's */
};

uint64_t copy_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/**
 * copy_is_zero - whether there are zeros only
 * @data: what to look at
 * @length: bytes of it
 */
bool copy_is_zero(const void *data, size_t length)
{
	static const char zeros[64];
	size_t head = length < sizeof(zeros) ? length : sizeof(zeros);

	/* Zeros at the beginning, and each byte is as the one 64 before it. */
	return !memcmp(data, zeros, head) &&
	       !memcmp(data, (const char *)data + head, length - head);
}

/**
 * copy_stopped - whether a callback should give up
 * @job: its job
 */
bool copy_stopped(struct copy_job *job)
{
	return __atomic_load_n(&job->stop, __ATOMIC_RELAXED);
}

/**
 * copy_interrupt - die of the signal that interrupted a copy, now that all is undone
 * @signal: its number
 */
void copy_interrupt(int signal)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(signal);
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

static enum copy_step timed_read(struct copy_job *job, struct copy_chunk *chunk)
{
	uint64_t scan = job->times.scan;
	uint64_t begin = copy_clock();
	enum copy_step step;

	step = job->read(job->context, chunk);
	job->times.read += copy_clock() - begin - (job->times.scan - scan);
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
	uint64_t begin;

	while (step == COPY_MORE && (chunk = queue_get(&engine->full))) {
		begin = copy_clock();
		step = job->write(job->context, chunk);
		job->times.write += copy_clock() - begin;
		if (step == COPY_MORE)
			queue_put(&engine->free, chunk);
	}
	if (step == COPY_MORE && job->finish && !copy_stopped(job)) {
		begin = copy_clock();
		step = job->finish(job->context);
		job->times.write += copy_clock() - begin;
	}
	if (step == COPY_FAILED)
		fail(engine, 1);
	eventfd_write(engine->done, 1);
	return NULL;
}

static bool get_chunks(struct engine *engine)
{
	struct copy_job *job = engine->job;
	struct copy_chunk *chunk;
	unsigned int i;

	for (i = 0; i < job->chunks; i++) {
		chunk = &engine->chunks[i];
		chunk->data = aligned_alloc(COPY_ALIGN, job->room);
		chunk->note = calloc(1, job->note_size + 1);
		if (!chunk->data || !chunk->note)
			return false;
		queue_put(&engine->free, chunk);
	}
	return true;
}

static void put_chunks(struct engine *engine)
{
	unsigned int i;

	for (i = 0; i < engine->job->chunks; i++) {
		free(engine->chunks[i].data);
		free(engine->chunks[i].note);
	}
}

/* Signals that would end the process come by a descriptor; what is blocked stays so. */
static bool catch_signals(struct engine *engine)
{
	static const int fatal[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE };
	struct sigaction action;
	sigset_t set;
	unsigned int i;

	sigprocmask(SIG_SETMASK, NULL, &engine->mask);
	sigemptyset(&set);
	for (i = 0; i < sizeof(fatal) / sizeof(*fatal); i++)
		if (!sigismember(&engine->mask, fatal[i]) && !sigaction(fatal[i], NULL, &action) &&
		    action.sa_handler == SIG_DFL)
			sigaddset(&set, fatal[i]);
	engine->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return engine->signals >= 0;
}

static int take_signal(struct engine *engine)
{
	struct signalfd_siginfo info;

	if (read(engine->signals, &info, sizeof(info)) != sizeof(info))
		return 0;
	return info.ssi_signo;
}

static void watch(struct engine *engine)
{
	struct pollfd fds[] = {
		{ .fd = engine->done, .events = POLLIN },
		{ .fd = engine->signals, .events = POLLIN },
	};
	struct copy_job *job = engine->job;
	uint64_t next = copy_clock() + NSEC_PER_SEC;
	uint64_t now;
	int signal;

	for (;;) {
		now = copy_clock();
		if (now >= next) {
			progress_show(job->progress, &job->counts);
			next += NSEC_PER_SEC * (1 + (now - next) / NSEC_PER_SEC);
		}
		poll(fds, 2, (next - now) / NSEC_PER_MSEC + 1);
		if (fds[0].revents)
			return;
		signal = fds[1].revents ? take_signal(engine) : 0;
		if (signal && !job->signal) {
			job->signal = signal;
			stop(engine);
		}
	}
}

static bool start(struct engine *engine)
{
	pthread_t threads[2];

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

static enum copy_result result_of(const struct engine *engine)
{
	if (engine->failed[0] || engine->failed[1])
		return COPY_ERROR;
	/* What came after the last write was too late. */
	return engine->job->stop ? COPY_INTERRUPTED : COPY_DONE;
}

/**
 * copy_run - copy until the end, an error or a signal
 * @job: what to copy
 *
 * SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGPIPE interrupt it unless they were
 * blocked or ignored before; the caller undoes what it did, and then calls
 * copy_interrupt().
 */
enum copy_result copy_run(struct copy_job *job)
{
	struct engine engine = { .job = job, .signals = -1 };
	enum copy_result result = COPY_NO_MEMORY;
	struct queue *free_chunks = &engine.free, *full = &engine.full;
	uint64_t begin = copy_clock();

	job->counts = (struct copy_counts){ 0 };
	job->times = (struct copy_times){ 0 };
	job->signal = 0;
	job->stop = 0;
	queue_init(free_chunks);
	queue_init(full);
	engine.done = eventfd(0, EFD_CLOEXEC);
	if (catch_signals(&engine) && engine.done >= 0 && get_chunks(&engine)) {
		progress_begin(job->progress);
		free_chunks->put = 0;
		if (start(&engine))
			result = result_of(&engine);
		progress_end(job->progress, &job->counts, result == COPY_DONE);
	}

	job->times.get_free = free_chunks->get;
	job->times.put_free = free_chunks->put;
	job->times.get_full = full->get;
	job->times.put_full = full->put;
	job->times.elapsed = copy_clock() - begin;
	put_chunks(&engine);
	queue_destroy(full);
	queue_destroy(free_chunks);
	/* A second Ctrl-C is the first one's. */
	while (job->signal && engine.signals >= 0 && take_signal(&engine))
		;
	if (engine.signals >= 0)
		close(engine.signals);
	if (engine.done >= 0)
		close(engine.done);
	sigprocmask(SIG_SETMASK, &engine.mask, NULL);
	return result;
}
