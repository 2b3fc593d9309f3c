// SPDX-License-Identifier: GPL-2.0-only
/*
 * Images of RAM disks: whatever the file holds, what is accepted lies on the disk, in
 * order, and is as long as it says.
 *
 * An input is a byte of flags, and then changes to a whole image: block, offset (two
 * bytes), length, bytes.
 */
#include <xxhash.h>

#include "fuzz.h"
#include "image/format.h"
#include "image/frame.h"

#define DISK		(64ULL << 20)
#define BLOCKS		8

/* Flags of an input. */
#define REPAIR		1	/* make the checksums right */
#define BLANK		2	/* begin with zeros, not with an image */
#define CUT		4	/* the next two bytes are its length */

static uint8_t scratch[IMAGE_FRAME_MAX];

/* Correct a checksum, so that the parser reaches the data that it covers. */
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

/* Read it as rxadm load does. Return: the fault, or NULL. */
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

/* A header, a frame of three raw pages, one of two compressed pages, the end. */
static void make(uint8_t *file)
{
	static const char text[2 * IMAGE_PAGE] = "compressed";
	struct image image = {
		.header = {
			.id = 1,
			.size = DISK,
			.logical_block_size = 512,
			.folio_size = 4096,
		},
	};
	struct image_frame raw = {
		.data = 3 * IMAGE_PAGE,
		.stored = 3 * IMAGE_PAGE,
		.count = 2,
		.extents = { { 0, IMAGE_PAGE }, { 16384, 2 * IMAGE_PAGE } },
	};
	struct image_frame zstd = {
		.encoding = IMAGE_ZSTD,
		.data = 2 * IMAGE_PAGE,
		.count = 1,
		.extents = { { DISK / 2, 2 * IMAGE_PAGE } },
	};

	memset(file, 'x', BLOCKS * IMAGE_BLOCK);
	image_put_header(&image, file);
	image_put_frame(&image, &raw, file + 2 * IMAGE_BLOCK, file + IMAGE_BLOCK);
	zstd.stored = image_compress(3, text, sizeof(text), file + 6 * IMAGE_BLOCK, IMAGE_BLOCK);
	image_put_frame(&image, &zstd, file + 6 * IMAGE_BLOCK, file + 5 * IMAGE_BLOCK);
	image_put_end(&image, file + 7 * IMAGE_BLOCK);
	must(image.position == BLOCKS * IMAGE_BLOCK);
}

static void change(uint8_t *file, const uint8_t *data, size_t size)
{
	size_t at, length;

	while (size > 4) {
		at = data[0] % BLOCKS * IMAGE_BLOCK + (data[1] | data[2] << 8) % IMAGE_BLOCK;
		length = data[3];
		data += 4;
		size -= 4;
		if (length > size)
			length = size;
		if (length > BLOCKS * IMAGE_BLOCK - at)
			length = BLOCKS * IMAGE_BLOCK - at;
		memcpy(file + at, data, length);
		data += length;
		size -= length;
	}
}

int fuzz_input(const uint8_t *data, size_t size)
{
	size_t length = BLOCKS * IMAGE_BLOCK;
	uint8_t *whole, *file;
	uint8_t flags;
	char *error;

	if (!size)
		return 0;
	flags = *data++;
	size--;
	if (flags & CUT && size >= 2) {
		length = (data[0] | data[1] << 8) % (length + 1);
		data += 2;
		size -= 2;
	}
	whole = calloc(BLOCKS, IMAGE_BLOCK);
	must(whole);
	if (!(flags & BLANK))
		make(whole);
	change(whole, data, size);

	/* Copy it to memory of exactly its length. */
	file = malloc(length ? length : 1);
	must(file);
	memcpy(file, whole, length);
	error = read_all(file, length, flags & REPAIR);
	must(!error || *error);
	must(error || length >= 2 * IMAGE_BLOCK);
	free(error);
	free(file);
	free(whole);
	return 0;
}
