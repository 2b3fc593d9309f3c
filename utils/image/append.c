// SPDX-License-Identifier: GPL-2.0-only
/*
 * Append a segment to an image, and write a head that has it. Each is synced before the next
 * step, so the image is whole at every moment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy/file.h"
#include "image/append.h"
#include "image/frame.h"

#define CHUNKS	4

static enum copy_step put_segment(struct append *append, struct copy_chunk *chunk)
{
	struct log_segment *segment = &append->segment;
	struct image_frame *frame = chunk->note;

	frame->data = 0;
	segment->position = append->frames.position;
	segment->generation.position = segment->position;
	segment->frames = append->frames.frames;
	segment->bytes = append->frames.data;
	segment->digest = append->frames.digest;
	if (append->whole)
		segment->whole = *append->whole;
	log_put_segment(segment, chunk->data);
	chunk->offset = segment->position;
	chunk->length = IMAGE_BLOCK;
	append->done = true;
	return COPY_MORE;
}

/* A chunk has the block of a frame, perhaps one of checksums, and the payload. */
static enum copy_step read_frame(void *context, struct copy_chunk *chunk)
{
	struct append *append = context;
	char *payload = (char *)chunk->data + IMAGE_BLOCK;
	void *data = append->level ? append->scratch : payload + IMAGE_BLOCK;
	struct image_frame *frame = chunk->note;
	enum copy_step step;

	if (append->done)
		return COPY_END;
	step = append->next(append->context, frame, data);
	if (copy_stopped(&append->copy))
		return COPY_END;
	if (step == COPY_END)
		return put_segment(append, chunk);
	if (step == COPY_FAILED)
		return step;
	chunk->offset = append->frames.position;
	if (frame->encoding == IMAGE_HOLE) {
		frame->stored = 0;
		frame->sums = false;
	} else {
		image_fill_frame(&append->frames, frame, append->level, data, payload);
	}
	chunk->length = IMAGE_BLOCK + image_payload(frame);
	image_put_frame(&append->frames, frame, payload, chunk->data);
	return COPY_MORE;
}

static enum copy_step write_chunk(void *context, const struct copy_chunk *chunk)
{
	const struct image_frame *frame = chunk->note;
	struct append *append = context;

	append->err = file_write(append->fd, chunk->data, chunk->length, chunk->offset);
	if (append->err)
		return COPY_FAILED;
	append->written += chunk->length;
	copy_count(&append->copy.counts.copied, frame->data);
	return COPY_MORE;
}

static enum copy_step finish(void *context)
{
	struct append *append = context;
	struct copy_counts *counts = &append->copy.counts;
	uint64_t rest = 0;

	if (counts->copied < append->progress.total)
		rest = append->progress.total - counts->copied;
	copy_count(&counts->read_skipped, rest);
	copy_count(&counts->write_skipped, rest);
	append->err = fdatasync(append->fd) ? errno : 0;
	return append->err ? COPY_FAILED : COPY_END;
}

/**
 * append_segment - write a segment and sync it
 * @append: the segment
 *
 * No head has it yet.
 */
enum copy_result append_segment(struct append *append)
{
	const struct copy_signals *signals = append->copy.signals;
	struct log_segment *segment = &append->segment;
	enum copy_result ret = COPY_NO_MEMORY;

	append->copy = (struct copy_job){
		.read = read_frame,
		.write = write_chunk,
		.finish = finish,
		.context = append,
		.room = 2 * IMAGE_BLOCK + IMAGE_FRAME_MAX,
		.note_size = sizeof(struct image_frame),
		.chunks = CHUNKS,
		.signals = signals,
		.progress = &append->progress,
	};
	append->progress.total = segment->header.size;
	log_begin_segment(&append->frames, &segment->header, segment->header.id, segment->first);
	append->scratch = append->level ? aligned_alloc(COPY_ALIGN, IMAGE_FRAME_MAX) : NULL;
	if (!append->level || append->scratch)
		ret = copy_run(&append->copy);
	free(append->scratch);
	return ret;
}

/**
 * append_head - write a head in place of the older one, and sync it
 * @fd: the image
 * @head: the head
 *
 * Return: 0 or an errno; after an error, the image may have the new head or the old one.
 */
int append_head(int fd, const struct log_head *head)
{
	void *block = aligned_alloc(COPY_ALIGN, IMAGE_BLOCK);
	int err;

	if (!block)
		return ENOMEM;
	log_put_head(head, block);
	err = file_write(fd, block, IMAGE_BLOCK, head->sequence % LOG_HEADS * IMAGE_BLOCK);
	if (!err && fdatasync(fd))
		err = errno;
	free(block);
	return err;
}
