/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_CHANGES_H
#define IMAGE_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copy/copy.h"
#include "image/format.h"

/* A range of the disk that is to be written to an image. */
struct change {
	struct image_extent extent;
	bool hole;
};

/**
 * struct changes - frames of the ranges of a disk that have changed, or of all its data
 * @find: finds the next range, from @from on; COPY_END: there is none
 * @read: reads a part of the disk
 * @context: argument of the functions
 * @holes: what is all zeros, or was discarded, belongs into the frames
 * @copy: return early when it was stopped, if not NULL
 */
struct changes {
	enum copy_step (*find)(void *context, uint64_t from, struct change *change);
	enum copy_step (*read)(void *context, const struct image_extent *extent, void *data);
	void *context;
	bool holes;
	struct copy_job *copy;

	uint64_t cursor;		/* everything before it is in frames, or in @gaps */
	struct image_extent *gaps;	/* holes that are in no frame yet */
	size_t nr_gaps;
	size_t room;
};

enum copy_step changes_next(void *context, struct image_frame *frame, void *data);
void changes_end(struct changes *changes);

#endif /* IMAGE_CHANGES_H */
