// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy one source to one destination.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checksum.h"
#include "share.h"
#include "summary.h"
#include "target.h"
#include "transfer.h"

#define BLOCK_MIN	512	/* data is checked for zeros in blocks of MIN to MAX */
#define BLOCK_MAX	4096
#define CHUNKS		4
#define ROOM		(1 << 20)
#define ROOM_CACHED	(256 << 10)	/* stays in the CPU cache from read to write */
#define ROOM_UNSEEN	(8 << 20)	/* one copy_file_range(), while signals wait */
#define ROOM_PAGE	(4 << 20)	/* largest st_blksize that is used for the buffers */

static const unsigned char zeros[64 * 1024] __attribute__((aligned(COPY_ALIGN)));

/* Information from the reader for the writer about a chunk. */
struct note {
	bool hole;			/* it was not read */
	bool copied;			/* by the kernel: there is nothing to write */
	unsigned char zero[];		/* blocks that hold zeros only, one byte each */
};

struct job {
	struct copy_job copy;
	struct progress progress;
	const struct options *options;
	struct source source;
	struct target target;
	struct checksum checksum;
	uint64_t block;			/* size of the blocks that are checked for zeros */
	uint64_t cursor;		/* of the reader */
	uint64_t written;		/* where the last write ended */
	int read_err;
	uint64_t read_at;
	bool shrunk;
	bool changed;
	bool unseen;			/* copy_file_range() copies; the data is not checked */
	int write_err;
	uint64_t write_at;
};

static enum copy_step read_failed(struct job *job, int err)
{
	job->read_err = err;
	job->read_at = job->cursor;
	return COPY_FAILED;
}

static void scan(struct job *job, const struct copy_chunk *chunk)
{
	struct note *note = chunk->note;
	uint64_t begin = copy_time(&job->copy);
	uint64_t at, length, found = 0;

	for (at = 0; at < chunk->length; at += job->block) {
		length = chunk->length - at < job->block ? chunk->length - at : job->block;
		note->zero[at / job->block] = copy_is_zero((char *)chunk->data + at, length);
		if (note->zero[at / job->block])
			found += length;
	}
	copy_count(&job->copy.counts.zeroes, found);
	job->copy.times.scan += copy_time(&job->copy) - begin;
}

/*
 * Copy the beginning of a chunk with copy_file_range(): the data is copied once, or not at all.
 * Return: false on failure. The caller then reads and writes, and meets any error again.
 */
static bool copy_unseen(struct job *job, struct copy_chunk *chunk)
{
	size_t length = chunk->length < ROOM_UNSEEN ? chunk->length : ROOM_UNSEEN;
	off_t from = chunk->offset, to = chunk->offset;
	ssize_t ret = -1;

	if (job->unseen)
		ret = copy_file_range(job->source.fd, &from, job->target.fd, &to, length, 0);
	job->unseen = ret > 0;
	if (job->unseen)
		chunk->length = ret;
	return job->unseen;
}

static enum copy_step read_data(struct job *job, struct copy_chunk *chunk)
{
	size_t done;
	int err;

	if (chunk->length > job->copy.room)
		chunk->length = job->copy.room;
	err = file_read(job->source.fd, chunk->data, chunk->length, chunk->offset, &done);
	if (!err && done < chunk->length)
		job->shrunk = true;
	if (err || job->shrunk)
		return read_failed(job, err);
	if (job->options->sparse != SPARSE_NEVER)
		scan(job, chunk);
	return COPY_MORE;
}

static enum copy_step read_source(void *context, struct copy_chunk *chunk)
{
	struct job *job = context;
	struct note *note = chunk->note;
	enum copy_step step = COPY_MORE;
	uint64_t start, end;
	int err;

	if (job->cursor >= job->source.size) {
		job->shrunk = source_shrank(&job->source);
		job->changed = source_was_written(&job->source);
		return job->shrunk || job->changed ? COPY_FAILED : COPY_END;
	}
	err = source_next(&job->source, job->cursor, &start, &end);
	if (err)
		return read_failed(job, err);

	chunk->offset = job->cursor;
	*note = (struct note){ .hole = start > job->cursor };
	if (note->hole) {
		chunk->length = start - job->cursor;
		copy_count(&job->copy.counts.read_skipped, chunk->length);
	} else {
		chunk->length = end - start;
		note->copied = copy_unseen(job, chunk);
		if (!note->copied)
			step = read_data(job, chunk);
	}
	job->cursor += chunk->length;
	return step;
}

static enum copy_step have_written(struct job *job, uint64_t length, uint64_t offset)
{
	copy_count(&job->copy.counts.copied, length);
	job->written = offset + length;
	return COPY_MORE;
}

static enum copy_step write_piece(struct job *job, const void *data, uint64_t length,
				  uint64_t offset)
{
	int err;

	if (offset > job->written)
		target_leave(&job->target, job->written, offset - job->written);
	err = file_write(job->target.fd, data, length, offset);
	if (!err)
		return have_written(job, length, offset);
	job->write_err = err;
	job->write_at = offset;
	return COPY_FAILED;
}

/* Write zeros, if possible as a hole or a discard. */
static enum copy_step write_zeros(struct job *job, uint64_t length, uint64_t offset)
{
	bool skip = job->options->sparse != SPARSE_NEVER;
	enum copy_step step = COPY_MORE;
	uint64_t part;

	while (step == COPY_MORE && length) {
		if (copy_stopped(&job->copy))
			return COPY_END;
		part = skip ? target_skip(&job->target, offset, length) : 0;
		skip = part;
		copy_count(&job->copy.counts.write_skipped, part);
		if (!part) {
			part = length < sizeof(zeros) ? length : sizeof(zeros);
			step = write_piece(job, zeros, part, offset);
		}
		offset += part;
		length -= part;
	}
	return step;
}

/* Write a chunk as runs of zero blocks and runs of other blocks. */
static enum copy_step write_runs(struct job *job, const struct copy_chunk *chunk)
{
	const struct note *note = chunk->note;
	enum copy_step step = COPY_MORE;
	uint64_t at, end, block;
	bool zero;

	for (at = 0; step == COPY_MORE && at < chunk->length; at = end) {
		zero = note->zero[at / job->block];
		for (block = at / job->block, end = at; end < chunk->length; block++) {
			if (note->zero[block] != zero)
				break;
			end += job->block;
		}
		if (end > chunk->length)
			end = chunk->length;
		if (zero)
			step = write_zeros(job, end - at, chunk->offset + at);
		else
			step = write_piece(job, (char *)chunk->data + at, end - at,
					   chunk->offset + at);
	}
	return step;
}

static void add(struct job *job, const void *data, uint64_t length)
{
	uint64_t begin;

	if (!job->checksum.handle)
		return;
	begin = copy_time(&job->copy);
	checksum_add(&job->checksum, data, length);
	job->copy.times.checksum += copy_time(&job->copy) - begin;
}

static void add_zeros(struct job *job, uint64_t length)
{
	uint64_t part;

	while (job->checksum.handle && length && !copy_stopped(&job->copy)) {
		part = length < sizeof(zeros) ? length : sizeof(zeros);
		add(job, zeros, part);
		length -= part;
	}
}

static enum copy_step write_target(void *context, const struct copy_chunk *chunk)
{
	const struct note *note = chunk->note;
	struct job *job = context;

	if (note->hole) {
		add_zeros(job, chunk->length);
		return write_zeros(job, chunk->length, chunk->offset);
	}
	if (note->copied)
		return have_written(job, chunk->length, chunk->offset);
	add(job, chunk->data, chunk->length);
	if (job->options->sparse == SPARSE_NEVER)
		return write_piece(job, chunk->data, chunk->length, chunk->offset);
	return write_runs(job, chunk);
}

static enum copy_step finish(void *context)
{
	struct job *job = context;

	job->write_err = target_finish(&job->target, job->source.size, job->written);
	job->write_at = job->source.size;
	return job->write_err ? COPY_FAILED : COPY_END;
}

static bool explain(const struct job *job)
{
	if (job->write_err)
		return complain("destination '%s': cannot be written at byte %llu: %s",
				job->target.path, (unsigned long long)job->write_at,
				strerror(job->write_err));
	if (job->shrunk)
		return complain("source '%s': became shorter than %llu bytes while it was copied",
				job->source.path, (unsigned long long)job->source.size);
	if (job->changed)
		return complain("source '%s': was written to while it was copied",
				job->source.path);
	return complain("source '%s': cannot be read at byte %llu: %s", job->source.path,
			(unsigned long long)job->read_at, strerror(job->read_err));
}

/* Check for a copy from file to file that need not look at the data. */
static bool is_plain(const struct job *job)
{
	const struct options *options = job->options;

	return options->sparse != SPARSE_ALWAYS && !options->checksum && !job->target.is_device &&
	       options->smart == SMART_HOLES && S_ISREG(job->source.st.st_mode);
}

/* Share the data instead of copying it, if options and file system allow that. */
static bool share(struct job *job)
{
	const struct options *options = job->options;

	if (!is_plain(job) || !job->source.size)
		return false;
	/* The holes would be shared, too. */
	if (options->sparse == SPARSE_NEVER && job->source.has_holes)
		return false;
	if (!share_data(&job->target, &job->source, &job->write_err))
		return false;
	progress_begin(&job->progress, &job->copy.counts);
	job->copy.counts.copied = job->source.size;
	progress_end(&job->progress, &job->copy.counts, true);
	job->copy.signal = copy_signals_take(&options->signals);
	return true;
}

/*
 * With -s never, copy_file_range() must get no holes. st_blocks does not show all of them: a
 * range that was allocated but never written is a hole, too. So ask SEEK_HOLE.
 */
static void choose_unseen(struct job *job)
{
	struct source *source = &job->source;

	job->unseen = is_plain(job) && job->options->sparse == SPARSE_NEVER;
	if (job->unseen)
		source->has_holes = lseek(source->fd, 0, SEEK_HOLE) != (off_t)source->size;
}

/* Let the copy appear at its destination, and remember that. */
static bool commit(struct job *job)
{
	const struct options *options = job->options;
	const struct target *target = &job->target;
	const struct stat st = target->is_device ? target->old : target->output.st;

	if (!target_commit(&job->target, &job->source, options->mask))
		return false;
	return copied_add(options->copied, &st, job->source.path) || complain("out of memory");
}

static bool copy(struct job *job)
{
	bool shared = share(job), done = false;

	switch (job->write_err ? COPY_ERROR : shared ? COPY_DONE : copy_run(&job->copy)) {
	case COPY_DONE:
		done = commit(job);
		break;
	case COPY_ERROR:
		explain(job);
		break;
	case COPY_INTERRUPTED:
		complain("'%s': interrupted", job->target.path);
		break;
	case COPY_NO_MEMORY:
		complain("too little memory for the buffers");
		return false;
	}
	if (!done && job->target.is_device)
		complain("destination '%s': contains only a part of '%s'", job->target.path,
			 job->source.path);
	return done;
}

/* One thread suffices, unless a checksum takes CPU time or a sync would delay signals. */
static bool is_light(const struct job *job)
{
	return !job->options->checksum && !job->options->sync && !job->target.is_device;
}

static void choose_room(struct job *job)
{
	/* Block devices are read and written with O_DIRECT, in large requests. */
	bool cached = is_light(job) && S_ISREG(job->source.st.st_mode);
	size_t room = cached ? ROOM_CACHED : ROOM, page = job->target.page;

	if (page > room && page <= ROOM_PAGE)
		room = page;
	if (job->options->buffer)
		room = job->options->buffer;
	/* A small file needs no large buffers. */
	if (room > job->source.size)
		room = (job->source.size / COPY_ALIGN + 1) * COPY_ALIGN;
	job->copy.room = room;
	job->copy.light = is_light(job);
}

/* Two names may lead to one destination, which gets one copy only. */
static bool is_new(const struct job *job)
{
	const struct target *target = &job->target;
	const char *before = NULL;

	if (target->replaces)
		before = copied_from(job->options->copied, &target->old);
	return !before || complain("destination '%s': '%s' was just copied there", target->path,
				   before);
}

static bool run(struct job *job, const char *to, int folder)
{
	uint64_t size = job->source.size;
	bool done;

	if (!target_open(&job->target, to, folder, job->options->sync, &job->source))
		return false;
	if (!is_new(job)) {
		target_discard(&job->target);
		return false;
	}
	job->block = target_block(&job->target, BLOCK_MIN, BLOCK_MAX);
	choose_room(job);
	choose_unseen(job);
	job->copy.note_size = sizeof(struct note) + job->copy.room / job->block;
	job->progress.total = size;
	done = copy(job);
	if (done && job->options->verbose)
		summary_print(job->source.path, job->target.path, &job->copy, size,
			      job->checksum.handle);
	if (done)
		checksum_print(&job->checksum, to);
	target_discard(&job->target);
	return done;
}

/**
 * transfer - copy one file or block device, or print an error
 * @options: the options
 * @from: the source
 * @to: the destination, a file or block device
 * @folder: the folder that has the last name of @to, from target_folder(); or -1
 * @signal: out: the signal that interrupted it, or 0
 */
bool transfer(const struct options *options, const char *from, const char *to, int folder,
	      int *signal)
{
	struct job job = {
		.copy = {
			.read = read_source,
			.write = write_target,
			.finish = finish,
			.context = &job,
			.chunks = CHUNKS,
			.signals = &options->signals,
			.progress = &job.progress,
			.timed = options->verbose,
		},
		.progress = { .mode = options->progress, .what = from },
		.options = options,
	};
	bool done = false;

	*signal = 0;
	if (!checksum_begin(&job.checksum, options->checksum))
		return false;
	if (source_open(&job.source, from, options->smart)) {
		done = run(&job, to, folder);
		source_close(&job.source);
	}
	checksum_free(&job.checksum);
	*signal = job.copy.signal;
	return done;
}
