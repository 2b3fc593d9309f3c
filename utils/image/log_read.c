// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read the data of a generation of an image that can be updated. The segments are read from the
 * newest to the oldest. Of each page, the first version found is the valid one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "image/frame.h"
#include "image/log_read.h"

static enum copy_step failed(struct log_reader *reader, enum exit_code code, char *error)
{
	free(reader->walk.error);
	reader->walk.error = error;
	reader->walk.code = code;
	return COPY_FAILED;
}

/**
 * log_reader_open - prepare to read a generation
 * @reader: out; stop, holes and copy are to be set then
 * @fd: the image
 * @head: its head
 * @generation: one of @head
 *
 * Return: false: walk.error and walk.code say what is wrong. In any case, log_reader_close().
 */
bool log_reader_open(struct log_reader *reader, int fd, const struct log_head *head,
		     const struct log_generation *generation)
{
	struct log_walk *walk = &reader->walk;

	*reader = (struct log_reader){ .generation = generation };
	log_walk_begin(walk, fd, head->log);
	if (!log_walk_to(walk, generation->position))
		return false;
	reader->header = walk->segment.header;
	if (walk->segment.generation.number != generation->number) {
		failed(reader, EXIT_PARAMETERS,
		       format_text("is wrong at byte %llu, the segment: it is not generation %llu",
				   (unsigned long long)generation->position,
				   (unsigned long long)generation->number));
		return false;
	}
	reader->known = calloc(1, reader->header.size / IMAGE_PAGE / 8 + 1);
	reader->payload = aligned_alloc(COPY_ALIGN, IMAGE_FRAME_MAX);
	reader->scratch = aligned_alloc(COPY_ALIGN, IMAGE_FRAME_MAX);
	if (reader->known && reader->payload && reader->scratch)
		return true;
	failed(reader, EXIT_MEMORY, copy_text("cannot be read: too little memory for the buffers"));
	return false;
}

void log_reader_close(struct log_reader *reader)
{
	log_walk_end(&reader->walk);
	free(reader->known);
	free(reader->payload);
	free(reader->scratch);
	*reader = (struct log_reader){ 0 };
}

/* Begin again. Return: as log_reader_open(). */
bool log_reader_rewind(struct log_reader *reader)
{
	memset(reader->known, 0, reader->header.size / IMAGE_PAGE / 8 + 1);
	reader->pending = false;
	reader->stopped = false;
	reader->whole = false;
	return log_walk_to(&reader->walk, reader->generation->position);
}

static bool is_known(const struct log_reader *reader, uint64_t start)
{
	return reader->known[start / IMAGE_PAGE / 8] >> start / IMAGE_PAGE % 8 & 1;
}

static void set_known(struct log_reader *reader, uint64_t start, uint64_t length)
{
	uint64_t page = start / IMAGE_PAGE, end = (start + length) / IMAGE_PAGE;

	for (; page < end && page % 8; page++)
		reader->known[page / 8] |= 1 << page % 8;
	for (; end > page && end % 8; end--)
		reader->known[(end - 1) / 8] |= 1 << (end - 1) % 8;
	memset(reader->known + page / 8, 0xff, (end - page) / 8);
}

/* Go on in the next segment, if one matters. */
static enum copy_step next_segment(struct log_reader *reader)
{
	struct log_walk *walk = &reader->walk;

	if (walk->segment.whole) {
		reader->whole = true;
		return COPY_END;
	}
	if (!log_walk_back(walk))
		return COPY_FAILED;
	/* Nothing of this segment is delivered, by later calls either. */
	reader->stopped = walk->segment.generation.number <= reader->stop;
	return reader->stopped ? COPY_END : COPY_MORE;
}

static enum copy_step next_frame(struct log_reader *reader)
{
	enum copy_step step;

	for (;;) {
		if (reader->stopped || (reader->copy && copy_stopped(reader->copy)))
			return COPY_END;
		step = log_walk_frame(&reader->walk, &reader->frame);
		if (step == COPY_MORE) {
			reader->pending = true;
			reader->loaded = false;
		}
		if (step != COPY_END)
			return step;
		step = next_segment(reader);
		if (step != COPY_MORE)
			return step;
	}
}

/* Find the end of a run of pages that all are known, or all are not. */
static uint64_t find_end(const struct log_reader *reader, uint64_t from, uint64_t end, bool known)
{
	const uint64_t step = 8 * IMAGE_PAGE;

	while (from < end && is_known(reader, from) == known) {
		if (!(from % step) && end - from >= step &&
		    reader->known[from / step] == (known ? 0xff : 0))
			from += step;
		else
			from += IMAGE_PAGE;
	}
	return from;
}

/* Find the next run of pages that are not known. Return: its length, or 0. */
static uint64_t find_run(const struct log_reader *reader, const struct image_extent *extent,
			 uint64_t *at)
{
	const uint64_t end = extent->start + extent->length;

	*at = find_end(reader, *at, end, true);
	return find_end(reader, *at, end, false) - *at;
}

/* Read the checksums of a raw frame, or the data of a compressed one. */
static enum copy_step load_frame(struct log_reader *reader)
{
	const struct image_frame *frame = &reader->frame;
	const size_t length = frame->sums ? IMAGE_BLOCK : image_payload(frame);
	char *error;

	if (reader->loaded)
		return COPY_MORE;
	if (!log_walk_read(&reader->walk, reader->payload, length, frame->position + IMAGE_BLOCK))
		return COPY_FAILED;
	error = frame->sums ? image_check_sums(frame, reader->payload) :
		image_get_data(frame, reader->payload, reader->scratch, &reader->data);
	if (error)
		return failed(reader, EXIT_PARAMETERS, error);
	reader->loaded = true;
	return COPY_MORE;
}

/* Get data of the frame from @offset on. */
static enum copy_step get_data(struct log_reader *reader, uint64_t offset, uint64_t length,
			       char *data)
{
	const struct image_frame *frame = &reader->frame;
	enum copy_step step = load_frame(reader);
	char *error = NULL;
	uint64_t done;

	if (step != COPY_MORE)
		return step;
	if (!frame->sums) {
		memcpy(data, (const char *)reader->data + offset, length);
		return COPY_MORE;
	}
	if (!log_walk_read(&reader->walk, data, length,
			   frame->position + 2 * IMAGE_BLOCK + offset))
		return COPY_FAILED;
	for (done = 0; !error && done < length; done += IMAGE_PAGE)
		error = image_check_page(frame, reader->payload, (offset + done) / IMAGE_PAGE,
					 data + done);
	return error ? failed(reader, EXIT_PARAMETERS, error) : COPY_MORE;
}

/* Deliver a run, if there is room for some of it. */
static enum copy_step take_run(struct log_reader *reader, struct image_frame *out, char *data,
			       uint64_t start, uint64_t length, uint64_t offset)
{
	const bool hole = reader->frame.encoding == IMAGE_HOLE;
	enum copy_step step;

	if (hole && !reader->holes) {
		set_known(reader, start, length);
		return COPY_MORE;
	}
	if (out->count && out->encoding != (hole ? IMAGE_HOLE : IMAGE_RAW))
		return COPY_END;
	out->encoding = hole ? IMAGE_HOLE : IMAGE_RAW;
	if (!hole && length > IMAGE_FRAME_MAX - out->data)
		length = IMAGE_FRAME_MAX - out->data;
	if (!length || !image_add_extent(out, start, length))
		return COPY_END;
	if (hole) {
		out->data = 0;
		set_known(reader, start, length);
		return COPY_MORE;
	}
	step = get_data(reader, offset, length, data + out->data - length);
	if (step == COPY_MORE)
		set_known(reader, start, length);
	return step;
}

/* Deliver what the frame has of pages that are not known. Return: COPY_END: there is no room. */
static enum copy_step take_frame(struct log_reader *reader, struct image_frame *out, char *data)
{
	const struct image_frame *frame = &reader->frame;
	enum copy_step step = COPY_MORE;
	uint64_t at, length, offset = 0;
	uint32_t i;

	for (i = 0; i < frame->count; i++) {
		at = frame->extents[i].start;
		while (step == COPY_MORE) {
			length = find_run(reader, &frame->extents[i], &at);
			if (!length)
				break;
			step = take_run(reader, out, data, at, length,
					offset + at - frame->extents[i].start);
		}
		if (step != COPY_MORE)
			return step;
		offset += frame->extents[i].length;
	}
	reader->pending = false;
	return COPY_MORE;
}

/**
 * log_read - read data of the generation
 * @context: the struct log_reader
 * @frame: out: its extents; the encoding is IMAGE_RAW, or IMAGE_HOLE
 * @data: out: IMAGE_FRAME_MAX bytes, aligned to COPY_ALIGN
 *
 * Return: COPY_END: there is no more.
 */
enum copy_step log_read(void *context, struct image_frame *frame, void *data)
{
	struct log_reader *reader = context;
	enum copy_step step = COPY_MORE;

	frame->count = 0;
	frame->data = 0;
	frame->encoding = IMAGE_RAW;
	while (step == COPY_MORE) {
		step = reader->pending ? COPY_MORE : next_frame(reader);
		if (step == COPY_MORE)
			step = take_frame(reader, frame, data);
	}
	if (step == COPY_FAILED)
		return step;
	return frame->count ? COPY_MORE : COPY_END;
}
