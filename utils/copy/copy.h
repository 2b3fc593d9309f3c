/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_H
#define COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "progress.h"
#include "signals.h"

/* What O_DIRECT wants of buffers, offsets and lengths on all disks there are. */
#define COPY_ALIGN	4096

#define COPY_CHUNKS_MAX	16

enum copy_step {
	COPY_MORE,	/* the chunk is filled, or written */
	COPY_END,	/* there is nothing more to read */
	COPY_FAILED,
};

enum copy_result {
	COPY_DONE,
	COPY_ERROR,		/* one of the callbacks failed, and knows why */
	COPY_INTERRUPTED,	/* by a signal */
	COPY_NO_MEMORY,		/* for the chunks */
};

/* What goes from the reader to the writer. */
struct copy_chunk {
	void *data;	/* aligned to COPY_ALIGN */
	void *note;	/* what else the reader tells the writer */
	uint64_t offset;
	uint64_t length;
};

/* Nanoseconds that the threads spent. */
struct copy_times {
	uint64_t scan;		/* on looking for zeros, not part of read */
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
 * struct copy_job - one copy: a thread that reads, a thread that writes
 * @read: fills a chunk, one after the other
 * @write: takes a chunk, in the order of reading
 * @finish: called in the writer's thread after the last chunk; may be NULL
 * @context: for them
 * @room: bytes of a chunk's data
 * @note_size: bytes of a chunk's note
 * @chunks: how many there are, 2 to COPY_CHUNKS_MAX
 * @light: the callbacks do little but move memory: while none waits, the caller's thread
 *	does it all
 * @signals: held by the caller, who has something to undo before or after; or NULL
 * @progress: what shows the progress
 * @counts: what the callbacks have done so far, by copy_count()
 * @times: out; the callbacks add to scan and checksum only
 * @signal: out: the signal that interrupted it, or 0
 * @stop: the callbacks give up where they would go on for long; copy_stopped()
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
	const struct copy_signals *signals;
	struct progress *progress;
	struct copy_counts counts;
	struct copy_times times;
	int signal;
	int stop;
	struct engine *alone;	/* no thread runs */
};

enum copy_result copy_run(struct copy_job *job);
bool copy_stopped(struct copy_job *job);

bool copy_is_zero(const void *data, size_t length);

#endif /* COPY_H */
