/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IMAGE_FORMAT_H
#define RXADM_IMAGE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Images of RAM disks, as Documentation/image.rst describes them. Those of version 1 have a
 * header, frames and an end, each beginning with a block. log_format.h has what only images
 * of version 2 have. Nothing here does I/O.
 */
#define IMAGE_MAGIC		"RXDIMAGE"
#define IMAGE_VERSION		1
#define IMAGE_BLOCK		4096
#define IMAGE_PAGE		4096		/* extents are multiples of it */
#define IMAGE_FRAME_MAX		(4U << 20)	/* data of a frame, compressed or not */
#define IMAGE_EXTENTS_MAX	252
#define IMAGE_GENERATIONS_MAX	64

/* In image_header.disk_flags */
#define IMAGE_DISK_RESERVE		(1U << 0)
#define IMAGE_DISK_DETECT_ZEROES	(1U << 1)

/* In image_frame.encoding */
#define IMAGE_RAW	0
#define IMAGE_ZSTD	1
#define IMAGE_HOLE	2	/* version 2: the extents read as zeros; there is no payload */

/* Properties of the saved disk. The id is repeated in each frame. */
struct image_header {
	uint64_t id;
	uint64_t size;
	uint64_t mem_limit;
	uint32_t logical_block_size;
	uint32_t folio_size;
	uint32_t disk_flags;
	uint8_t uuid[16];
};

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

void image_put_header(struct image *image, void *block);
void image_put_end(struct image *image, void *block);

bool image_is_known(const void *block);
char *image_get_header(struct image *image, const void *block);
char *image_get_block(struct image *image, const void *block, struct image_frame *frame);

#endif /* RXADM_IMAGE_FORMAT_H */
