/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IMAGE_FRAME_H
#define RXADM_IMAGE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/format.h"

/* Frames of images of both versions. Nothing here does I/O. */

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

#endif /* RXADM_IMAGE_FRAME_H */
