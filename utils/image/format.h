/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_FORMAT_H
#define IMAGE_FORMAT_H

#include <stdbool.h>

#include "image/frame.h"

/*
 * Images of RAM disks, as Documentation/image.rst describes them. Those of version 1 have a
 * header, frames and an end, each beginning with a block. log_format.h has what only images
 * of version 2 have. Nothing here does I/O.
 */
#define IMAGE_VERSION		1
#define IMAGE_GENERATIONS_MAX	64

void image_put_header(struct image *image, void *block);
void image_put_end(struct image *image, void *block);

bool image_is_known(const void *block);
char *image_get_header(struct image *image, const void *block);
char *image_get_block(struct image *image, const void *block, struct image_frame *frame);

#endif /* IMAGE_FORMAT_H */
