/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_LOG_READ_H
#define IMAGE_LOG_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "copy/copy.h"
#include "image/log_format.h"

/* The segments of an image, from one of them back to the first one that matters. */
struct log_walk {
	int fd;
	uint64_t log;
	struct log_segment segment;
	struct image frames;
	void *block;
	char *error;
	enum exit_code code;
};

/* From the heads of a file, or the header. */
struct image_start {
	bool log;		/* it has version 2 */
	struct image image;	/* version 1: the state of reading */
	struct log_head head;	/* version 2 */
	bool damaged;		/* version 2: the other head is not valid */
	size_t length;		/* bytes that were read; 0: the file is empty */
};

int image_read_start(int fd, struct image_start *start, char **error);

void log_walk_begin(struct log_walk *walk, int fd, uint64_t log);
void log_walk_end(struct log_walk *walk);
bool log_walk_to(struct log_walk *walk, uint64_t position);
bool log_walk_back(struct log_walk *walk);
enum copy_step log_walk_frame(struct log_walk *walk, struct image_frame *frame);
bool log_walk_read(struct log_walk *walk, void *data, size_t length, uint64_t offset);

/**
 * struct log_reader - what a generation has, or what it has changed
 * @walk: the segments; out: error and code
 * @generation: which generation
 * @stop: changes since the generation with this number; 0: all data
 * @holes: deliver holes, too
 * @copy: return early when it was stopped, if not NULL
 * @header: out: the disk
 * @whole: out: the end of a whole disk was reached
 */
struct log_reader {
	struct log_walk walk;
	const struct log_generation *generation;
	uint64_t stop;
	bool holes;
	struct copy_job *copy;
	struct image_header header;
	bool whole;

	uint8_t *known;			/* a bit for each page that was delivered */
	bool pending;			/* @frame has more */
	bool stopped;			/* @stop was reached */
	bool loaded;			/* its checksums, or its data */
	struct image_frame frame;
	void *payload;			/* as it is stored, or the checksums */
	void *scratch;			/* decompressed */
	const void *data;		/* of the frame, if it was compressed */
};

bool log_reader_open(struct log_reader *reader, int fd, const struct log_head *head,
		     const struct log_generation *generation);
bool log_reader_rewind(struct log_reader *reader);
enum copy_step log_read(void *context, struct image_frame *frame, void *data);
void log_reader_close(struct log_reader *reader);

#endif /* IMAGE_LOG_READ_H */
