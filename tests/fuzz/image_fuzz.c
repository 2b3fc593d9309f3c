// SPDX-License-Identifier: GPL-2.0-only
/*
 * Images of RAM disks: whatever the file holds, what is accepted lies on the disk, in
 * order, and is as long as it says. Needs image.c, error.c, libzstd and libxxhash.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "image.h"

#define must(condition)									\
	do {										\
		if (!(condition)) {							\
			dprintf(2, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			abort();							\
		}									\
	} while (0)

/* What libFuzzer calls for each input. */
int fuzz_image(const uint8_t *data, size_t size) __asm__("LLVMFuzzerTestOneInput");

static uint8_t scratch[IMAGE_FRAME_MAX];

/* Make a checksum right, so that what it covers is reached. */
static void repair(uint8_t *block, size_t at, const void *data, size_t size)
{
	uint64_t checksum = XXH3_64bits(data, size);

	memcpy(block + at, &checksum, sizeof(checksum));
}

static void seal(uint8_t *block)
{
	repair(block, IMAGE_BLOCK - 8, block, IMAGE_BLOCK - 8);
}

static void check_frame(const struct image *image, const struct image_frame *frame,
			uint64_t reached)
{
	uint64_t sum = 0;
	uint32_t i;

	must(frame->count && frame->count <= IMAGE_EXTENTS_MAX);
	must(frame->stored <= frame->data && frame->data <= IMAGE_FRAME_MAX);
	for (i = 0; i < frame->count; i++) {
		must(frame->extents[i].start >= reached);
		must(frame->extents[i].length && !(frame->extents[i].length % IMAGE_PAGE));
		reached = frame->extents[i].start + frame->extents[i].length;
		must(reached > frame->extents[i].start && reached <= image->header.size);
		sum += frame->extents[i].length;
	}
	must(sum == frame->data && reached == image->reached);
}

/* Read it as rxadm load does. Return: what is wrong, or NULL. */
static char *read_all(uint8_t *file, size_t size, int repairing)
{
	struct image_frame frame;
	uint64_t at, reached;
	struct image image;
	const void *data;
	char *error;

	if (size < IMAGE_BLOCK)
		return strdup("truncated");
	if (repairing)
		seal(file);
	error = image_get_header(&image, file);
	while (!error && !image.ended) {
		at = image.position;
		reached = image.reached;
		if (at > size || size - at < IMAGE_BLOCK)
			return strdup("truncated");
		if (repairing)
			seal(file + at);
		error = image_get_block(&image, file + at, &frame);
		if (error || image.ended)
			break;
		check_frame(&image, &frame, reached);
		at += IMAGE_BLOCK;
		if (size - at < image_payload(&frame))
			return strdup("truncated");
		if (repairing)
			frame.checksum = XXH3_64bits(file + at, image_payload(&frame));
		error = image_get_data(&frame, file + at, scratch, &data);
		if (!error && frame.data)
			must(data == scratch || data == file + at);
	}
	if (!error)
		must(image.position <= size);
	return error;
}

int fuzz_image(const uint8_t *data, size_t size)
{
	uint8_t *file = malloc(size + 1);
	int repairing;
	char *error;

	must(file);
	for (repairing = 0; repairing < 2; repairing++) {
		memcpy(file, data, size);
		error = read_all(file, size, repairing);
		must(!error || *error);
		free(error);
	}
	free(file);
	return 0;
}
