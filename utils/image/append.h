/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_APPEND_H
#define IMAGE_APPEND_H

#include <stdint.h>

#include "copy/copy.h"
#include "image/log_format.h"

/**
 * struct append - a segment that is being written
 * @fd: the image
 * @level: compression level of zstd; 0: do not compress
 * @next: makes the next frame: its extents, data, and as the encoding, IMAGE_RAW or IMAGE_HOLE
 * @context: argument of @next
 * @segment: header, first, previous, whole and generation are set; out: all
 * @whole: whether the segment is whole, known when there are no more frames; NULL: it is set
 * @copy: out: the state of the copy; signals is set
 * @progress: how to show the progress
 * @written: out: bytes
 * @err: out: errno of a failed write, or 0 if @next has failed
 */
struct append {
	int fd;
	int level;
	enum copy_step (*next)(void *context, struct image_frame *frame, void *data);
	void *context;
	struct log_segment segment;
	const bool *whole;
	struct copy_job copy;
	struct progress progress;
	uint64_t written;
	int err;

	struct image frames;
	void *scratch;
	bool done;
};

enum copy_result append_segment(struct append *append);
int append_head(int fd, const struct log_head *head);

#endif /* IMAGE_APPEND_H */
