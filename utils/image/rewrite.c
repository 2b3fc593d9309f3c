// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write the generations of an image to a new file, without what none of them needs: the oldest
 * one whole, then the differences.
 */
#include <errno.h>
#include <string.h>

#include "image/append.h"
#include "image/compact.h"
#include "image/generations.h"
#include "image/log_read.h"

/* Write the next generation. */
static enum copy_result write_one(struct rewrite *rewrite, struct log_head *head,
				  const struct log_generation *generation)
{
	struct append append = {
		.fd = rewrite->to,
		.level = rewrite->level,
		.next = log_read,
		.copy.signals = rewrite->signals,
		.progress = { .mode = rewrite->mode, .what = "rewrite" },
	};
	struct log_segment *segment = &append.segment;
	struct log_reader reader;
	enum copy_result ret = COPY_ERROR;

	if (log_reader_open(&reader, rewrite->from, &rewrite->head, generation)) {
		append.context = &reader;
		append.whole = &reader.whole;
		segment->generation = *generation;
		if (!head->count) {
			rewrite->err = generations_begin(head, &reader.header, segment);
		} else {
			segment->header = reader.header;
			segment->header.id = head->log;
			segment->first = head->end;
			segment->previous = log_newest(head)->position;
			reader.stop = log_newest(head)->number;
			reader.holes = true;
		}
		reader.copy = &append.copy;
		ret = rewrite->err ? COPY_ERROR : append_segment(&append);
		rewrite->signal = append.copy.signal;
		rewrite->written += append.written;
		if (append.err)
			rewrite->err = append.err;
		if (ret == COPY_DONE)
			rewrite->err = generations_add(head, segment, IMAGE_GENERATIONS_MAX,
						       append.written);
	}
	if (reader.walk.error) {
		rewrite->error = reader.walk.error;
		reader.walk.error = NULL;
	}
	log_reader_close(&reader);
	return rewrite->err || rewrite->error ? COPY_ERROR : ret;
}

/**
 * rewrite_image - write the generations of an image to a new file, and sync it
 * @rewrite: how
 */
enum copy_result rewrite_image(struct rewrite *rewrite)
{
	const struct log_head *old = &rewrite->head;
	enum copy_result ret = COPY_DONE;
	struct log_head head = { 0 };
	uint32_t i;

	for (i = 0; ret == COPY_DONE && i < old->count; i++)
		ret = write_one(rewrite, &head, &old->generations[i]);
	if (ret != COPY_DONE)
		return ret;
	/* It is the same state of the same disk. */
	head.header = old->header;
	head.writer = old->writer;
	memcpy(head.before, old->before, LOG_STATE);
	/* The newest one goes to the first slot. */
	head.sequence = LOG_HEADS;
	rewrite->err = append_head(rewrite->to, &head);
	if (rewrite->err)
		return COPY_ERROR;
	rewrite->head = head;
	return COPY_DONE;
}
