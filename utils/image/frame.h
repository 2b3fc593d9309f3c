/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_FRAME_H
#define IMAGE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/block.h"

/* Frames of images of both versions. Nothing here does I/O. */
#define IMAGE_FRAME_MAX		(4U << 20)	/* data of a frame, compressed or not */
#define IMAGE_EXTENTS_MAX	252

/* In image_frame.encoding */
#define IMAGE_RAW	0
#define IMAGE_ZSTD	1
#define IMAGE_HOLE	2	/* version 2: the extents read as zeros; there is no payload */

/* In bytes, as in struct rxd_extent. */
struct image_extent {
	uint64_t start;
	uint64_t length;
};

/* Extents of the disk. Their data follows the frame's block, in the same order. */
struct image_frame {
	uint64_t number;
	uint64_t position;	/* of its block in the image */
	uint64_t checksum;	/* of the payload as stored, padding included; or of the sums */
	bool sums;		/* a block with a checksum of each page precedes the data */
	uint32_t encoding;
	uint32_t data;		/* bytes of all extents; 0 of holes */
	uint32_t stored;	/* bytes of the payload, without padding */
	uint32_t count;
	struct image_extent extents[IMAGE_EXTENTS_MAX];
};

/* State of writing or reading an image, or of version 2, a segment. */
struct image {
	struct image_header header;
	bool log;		/* the frames are of version 2 */
	uint64_t frames;
	uint64_t data;		/* bytes of all extents so far */
	uint64_t reached;	/* end of the last extent */
	uint64_t position;	/* offset of the next block */
	uint64_t digest;	/* over the frames so far */
	bool ended;
};

/* Size of what follows a frame's block in the image, with padding. */
static inline size_t image_payload(const struct image_frame *frame)
{
	return (frame->stored + IMAGE_BLOCK - 1) / IMAGE_BLOCK * IMAGE_BLOCK +
	       (frame->sums ? IMAGE_BLOCK : 0);
}

bool image_add_extent(struct image_frame *frame, uint64_t start, uint64_t length);
uint64_t image_leave_out_zeros(struct image_frame *frame, char *data, uint64_t *next);
size_t image_compress(int level, const void *data, size_t size, void *payload, size_t room);
void image_fill_frame(struct image *image, struct image_frame *frame, int level, const void *data,
		      void *payload);
void image_put_frame(struct image *image, struct image_frame *frame, void *payload, void *block);

bool image_is_frame(const void *block);
char *image_get_frame(struct image *image, const void *block, struct image_frame *frame);
char *image_get_data(const struct image_frame *frame, const void *payload, void *scratch,
		     const void **data);
char *image_check_sums(const struct image_frame *frame, const void *sums);
char *image_check_page(const struct image_frame *frame, const void *sums, uint32_t page,
		       const void *data);

#endif /* IMAGE_FRAME_H */
