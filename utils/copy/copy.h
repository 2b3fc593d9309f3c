/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_H
#define COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "progress.h"
#include "signals.h"

/* Alignment of buffers, offsets and lengths that O_DIRECT accepts on all disks. */
#define COPY_ALIGN	4096

#define COPY_CHUNKS_MAX	16

enum copy_step {
	COPY_MORE,	/* the chunk is filled, or written */
	COPY_END,	/* there is nothing more to read */
	COPY_FAILED,
};

enum copy_result {
	COPY_DONE,
	COPY_ERROR,		/* a callback failed; it keeps the reason */
	COPY_INTERRUPTED,	/* by a signal */
	COPY_NO_MEMORY,		/* for the chunks */
};

/* A buffer that the reader fills and the writer writes. */
struct copy_chunk {
	void *data;	/* aligned to COPY_ALIGN */
	void *note;	/* other information from the reader for the writer */
	uint64_t offset;
	uint64_t length;
};

/* Time that the threads spent, in nanoseconds; zeros if it is not measured. */
struct copy_times {
	uint64_t scan;		/* searching for zeros, not part of read */
	uint64_t checksum;	/* of what is written, not part of write */
	uint64_t read;
	uint64_t write;
	uint64_t get_free;	/* the reader, waiting for an empty chunk */
	uint64_t put_full;	/* the reader, handing over a full one */
	uint64_t get_full;	/* the writer, waiting for a full chunk */
	uint64_t put_free;	/* the writer, giving back an empty one */
	uint64_t elapsed;
};

/**
 * struct copy_job - a copy with a reader thread and a writer thread
 * @read: fills the next chunk
 * @write: writes a chunk; called in the order of reading
 * @finish: called in the writer's thread after the last chunk; may be NULL
 * @context: argument of the callbacks
 * @room: bytes of a chunk's data
 * @note_size: bytes of a chunk's note
 * @chunks: number of chunks, 2 to COPY_CHUNKS_MAX
 * @light: the callbacks mostly copy memory: the caller's thread does all the work until
 *	they wait too often
 * @timed: measure the times
 * @signals: blocked by the caller, which cleans up on a signal; NULL: copy_run() blocks them
 * @progress: how to show the progress
 * @counts: bytes done so far; the callbacks add to them with copy_count()
 * @times: out; the callbacks add to scan and checksum only
 * @signal: out: the signal that interrupted it, or 0
 * @stop: long callbacks return early; read with copy_stopped()
 */
struct copy_job {
	enum copy_step (*read)(void *context, struct copy_chunk *chunk);
	enum copy_step (*write)(void *context, const struct copy_chunk *chunk);
	enum copy_step (*finish)(void *context);
	void *context;
	size_t room;
	size_t note_size;
	unsigned int chunks;
	bool light;
	bool timed;
	const struct copy_signals *signals;
	struct progress *progress;
	struct copy_counts counts;
	struct copy_times times;
	int signal;
	int stop;
	struct engine *alone;	/* set while the caller's thread does all the work */
};

/* Time for struct copy_times. */
static inline uint64_t copy_time(const struct copy_job *job)
{
	return job->timed ? copy_clock() : 0;
}

enum copy_result copy_run(struct copy_job *job);
bool copy_stopped(struct copy_job *job);

bool copy_is_zero(const void *data, size_t length);

#endif /* COPY_H */
