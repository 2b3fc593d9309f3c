/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_LOG_FORMAT_H
#define IMAGE_LOG_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "image/format.h"

/*
 * Images of version 2, which can be updated, as Documentation/image.rst describes them: two
 * heads and a log of segments. A segment has frames, and ends with a block. Nothing here does
 * I/O.
 */
#define LOG_VERSION	2
#define LOG_HEADS	2
#define LOG_BEGIN	((uint64_t)LOG_HEADS * IMAGE_BLOCK)	/* of the first segment */
#define LOG_END_MAX	(UINT64_C(1) << 62)
#define LOG_STATE	16

/* A state of the disk that the image has. */
struct log_generation {
	uint64_t number;		/* ascending, from 1, never used again */
	uint64_t time;			/* seconds since the epoch */
	uint64_t position;		/* of the block of its segment */
	uint64_t data;			/* bytes of data on the disk */
	uint8_t state[LOG_STATE];	/* its name in the record of changes; zeros: none */
};

/* The disk that saved an image: the record of changes is only of this disk. */
struct log_writer {
	uint8_t boot[16];
	uint64_t diskseq;
};

/**
 * struct log_head - what an image has at present
 * @header: the disk of the newest generation, and an identity that each head has of its own
 * @sequence: of the heads: the higher one is valid
 * @log: the identity of the log, repeated in its blocks
 * @end: offset after the last segment
 * @unneeded: bytes that may have become unneeded since what no generation needs was last punched
 *	out: those in which dropped generations differ from the oldest one
 * @live: bytes that were needed then, and what was appended since
 * @writer: what saved the newest generation
 * @before: the state of the one before it, which the image may no longer have
 * @count: of @generations
 * @generations: which it has, the newest last
 */
struct log_head {
	struct image_header header;
	uint64_t sequence;
	uint64_t log;
	uint64_t end;
	uint64_t unneeded;
	uint64_t live;
	struct log_writer writer;
	uint8_t before[LOG_STATE];
	uint32_t count;
	struct log_generation generations[IMAGE_GENERATIONS_MAX];
};

/**
 * struct log_segment - the frames of one generation
 * @header: the disk at that time, with the identity of the log
 * @position: of its own block
 * @first: position of its first frame, or of its own block
 * @previous: position of the block of the segment before it; 0: it is the first one
 * @whole: it has the whole disk; otherwise the changes since the previous segment
 * @generation: its number, time, state and data
 * @frames: their number
 * @bytes: of data in the frames
 * @digest: of the frames
 */
struct log_segment {
	struct image_header header;
	uint64_t position;
	uint64_t first;
	uint64_t previous;
	bool whole;
	struct log_generation generation;
	uint64_t frames;
	uint64_t bytes;
	uint64_t digest;
};

void log_put_head(const struct log_head *head, void *block);
char *log_get_head(struct log_head *head, const void *block, unsigned int slot);
bool log_is_head(const void *block);
char *log_choose_head(struct log_head *head, const void *blocks, bool *damaged);

void log_begin_segment(struct image *frames, const struct image_header *header, uint64_t log,
		       uint64_t position);
void log_put_segment(const struct log_segment *segment, void *block);
char *log_get_segment(struct log_segment *segment, const void *block, uint64_t log,
		      uint64_t position);
char *log_get_frame(struct image *frames, const struct log_segment *segment, const void *block,
		    struct image_frame *frame);

static inline const struct log_generation *log_newest(const struct log_head *head)
{
	return &head->generations[head->count - 1];
}

#endif /* IMAGE_LOG_FORMAT_H */
