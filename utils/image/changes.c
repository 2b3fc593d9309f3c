// SPDX-License-Identifier: GPL-2.0-only
/*
 * Collect changed ranges of a disk in frames: of data, and of holes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "image/changes.h"
#include "image/frame.h"

#define ROOM	1024

static void add_gap(struct changes *changes, uint64_t start, uint64_t end)
{
	struct image_extent *last = NULL;

	if (!changes->holes || start == end)
		return;
	if (changes->nr_gaps)
		last = &changes->gaps[changes->nr_gaps - 1];
	if (last && last->start + last->length == start) {
		last->length += end - start;
		return;
	}
	if (changes->nr_gaps == changes->room) {
		changes->room += ROOM;
		changes->gaps = resize_array(changes->gaps, changes->room, sizeof(*changes->gaps));
	}
	changes->gaps[changes->nr_gaps++] = (struct image_extent){ start, end - start };
}

/* Move gaps to a frame. */
static void take_gaps(struct changes *changes, struct image_frame *frame)
{
	frame->encoding = IMAGE_HOLE;
	frame->data = 0;
	frame->count = changes->nr_gaps < IMAGE_EXTENTS_MAX ? changes->nr_gaps : IMAGE_EXTENTS_MAX;
	memcpy(frame->extents, changes->gaps, frame->count * sizeof(*changes->gaps));
	changes->nr_gaps -= frame->count;
	memmove(changes->gaps, changes->gaps + frame->count,
		changes->nr_gaps * sizeof(*changes->gaps));
}

/* Read changed data from the cursor on, until the frame is full or there are many gaps. */
static enum copy_step gather(struct changes *changes, struct image_frame *frame, char *data,
			     uint64_t *reached)
{
	enum copy_step step = COPY_MORE;
	struct image_extent *extent;
	struct change change;

	while (frame->count < IMAGE_EXTENTS_MAX && frame->data < IMAGE_FRAME_MAX &&
	       changes->nr_gaps < IMAGE_EXTENTS_MAX) {
		if (changes->copy && copy_stopped(changes->copy))
			return COPY_END;
		step = changes->find(changes->context, *reached, &change);
		if (step != COPY_MORE)
			break;
		extent = &change.extent;
		if (change.hole) {
			add_gap(changes, extent->start, extent->start + extent->length);
			*reached = extent->start + extent->length;
			continue;
		}
		if (extent->length > IMAGE_FRAME_MAX - frame->data)
			extent->length = IMAGE_FRAME_MAX - frame->data;
		step = changes->read(changes->context, extent, data + frame->data);
		if (step != COPY_MORE)
			break;
		frame->extents[frame->count++] = *extent;
		frame->data += extent->length;
		*reached = extent->start + extent->length;
	}
	return step;
}

/* Add what a frame no longer has as gaps. */
static void note_zeros(struct changes *changes, const struct image_frame *all,
		       const struct image_frame *kept, uint64_t next)
{
	uint64_t at, end;
	uint32_t i, k = 0;

	for (i = 0; i < all->count && all->extents[i].start < next; i++) {
		at = all->extents[i].start;
		end = at + all->extents[i].length;
		if (end > next)
			end = next;
		while (at < end) {
			while (k < kept->count &&
			       kept->extents[k].start + kept->extents[k].length <= at)
				k++;
			if (k == kept->count || kept->extents[k].start >= end) {
				add_gap(changes, at, end);
				break;
			}
			if (kept->extents[k].start > at)
				add_gap(changes, at, kept->extents[k].start);
			at = kept->extents[k].start + kept->extents[k].length;
		}
	}
}

/* Leave out zeros. Extents beyond the maximum go to the next frame. */
static void leave_out_zeros(struct changes *changes, struct image_frame *frame, char *data,
			    uint64_t *reached)
{
	const struct image_frame all = *frame;
	const struct image_extent *last;
	uint64_t next;

	if (!all.count)
		return;
	last = &all.extents[all.count - 1];
	image_leave_out_zeros(frame, data, &next);
	note_zeros(changes, &all, frame, next);
	if (next < last->start + last->length)
		*reached = next;
}

/**
 * changes_next - make the next frame
 * @context: the struct changes
 * @frame: out: its extents; the encoding is IMAGE_RAW, or IMAGE_HOLE
 * @data: out: IMAGE_FRAME_MAX bytes, aligned to COPY_ALIGN
 *
 * Return: COPY_END: there are no more changes.
 */
enum copy_step changes_next(void *context, struct image_frame *frame, void *data)
{
	struct changes *changes = context;
	enum copy_step step = COPY_MORE;
	uint64_t reached;

	for (;;) {
		frame->encoding = IMAGE_RAW;
		frame->count = 0;
		frame->data = 0;
		if (changes->nr_gaps >= IMAGE_EXTENTS_MAX ||
		    (step == COPY_END && changes->nr_gaps)) {
			take_gaps(changes, frame);
			return COPY_MORE;
		}
		if (step == COPY_END)
			return step;
		reached = changes->cursor;
		step = gather(changes, frame, data, &reached);
		if (step == COPY_FAILED)
			return step;
		leave_out_zeros(changes, frame, data, &reached);
		/* The next pass looks for gaps from here on again. */
		changes->cursor = reached;
		if (frame->count)
			return COPY_MORE;
	}
}

void changes_end(struct changes *changes)
{
	free(changes->gaps);
	changes->gaps = NULL;
}
