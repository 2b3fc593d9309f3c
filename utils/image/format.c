// SPDX-License-Identifier: GPL-2.0-only
/*
 * Build and check the header and the end of images of version 1. Nothing here does I/O. Input
 * is not trusted.
 */
#include <endian.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/text.h"
#include "image/block.h"
#include "image/format.h"
#include "image/frame.h"

#define END_MAGIC	"RXDIMEND"

struct header_block {
	struct block_start start;
	uint8_t reserved[IMAGE_BLOCK - 72];
	uint64_t checksum;
};

struct end_block {
	char magic[BLOCK_MAGIC];
	uint64_t id;
	uint64_t frames;
	uint64_t data;
	uint64_t length;
	uint64_t digest;
	uint8_t reserved[IMAGE_BLOCK - 56];
	uint64_t checksum;
};

_Static_assert(sizeof(struct header_block) == IMAGE_BLOCK, "header");
_Static_assert(sizeof(struct end_block) == IMAGE_BLOCK, "end");

/**
 * image_put_header - begin an image
 * @image: the image; its header is set, all other fields are zero
 * @block: out: its first block
 */
void image_put_header(struct image *image, void *block)
{
	struct header_block *out = block;

	*out = (struct header_block){ 0 };
	block_put_start(&out->start, IMAGE_VERSION, &image->header);
	block_seal(block, IMAGE_MAGIC);
	image->position = IMAGE_BLOCK;
}

/**
 * image_put_end - build the last block of an image
 * @image: the state of writing
 * @block: out: the block
 */
void image_put_end(struct image *image, void *block)
{
	struct end_block *out = block;

	image->position += IMAGE_BLOCK;
	*out = (struct end_block){
		.id = htole64(image->header.id),
		.frames = htole64(image->frames),
		.data = htole64(image->data),
		.length = htole64(image->position),
		.digest = htole64(image->digest),
	};
	block_seal(block, END_MAGIC);
	image->ended = true;
}

/**
 * image_is_known - check whether a file begins with the magic of an image
 * @block: its first MAGIC_SIZE bytes
 */
bool image_is_known(const void *block)
{
	return block_has_magic(block, IMAGE_MAGIC);
}

/**
 * image_get_header - read the first block of an image
 * @image: out: the state of reading
 * @block: the first IMAGE_BLOCK bytes
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *image_get_header(struct image *image, const void *block)
{
	const struct header_block *in = block;
	const char *error;

	*image = (struct image){ .position = IMAGE_BLOCK };
	if (!image_is_known(block))
		return copy_text("is not an image of a RAM disk: it does not begin with "
				 IMAGE_MAGIC
				 "; 'rxadm load --format raw FILE' loads a plain disk image");
	if (!block_is_intact(block))
		return copy_text("is damaged: the checksum of the header, at byte 0, is wrong");
	if (le32toh(in->start.version) != IMAGE_VERSION)
		return format_text("has version %u; this rxadm reads versions 1 and 2 only",
				   le32toh(in->start.version));
	error = block_get_start(&in->start, &image->header);
	if (!error && !block_is_clear(in->reserved, sizeof(in->reserved)))
		error = "reserved bytes are not zero";
	return error ? format_text("is wrong at byte 0: %s", error) : NULL;
}

static char *get_end(struct image *image, const struct end_block *in)
{
	uint64_t position = image->position;
	const char *error = NULL;

	image->position += IMAGE_BLOCK;
	if (le64toh(in->id) != image->header.id)
		error = "it belongs to another image";
	else if (le64toh(in->frames) != image->frames || le64toh(in->data) != image->data ||
		 le64toh(in->digest) != image->digest)
		error = "its counts or its checksum do not match the frames";
	else if (le64toh(in->length) != image->position)
		error = "its length does not match the image";
	else if (!block_is_clear(in->reserved, sizeof(in->reserved)))
		error = "reserved bytes are not zero";
	if (error)
		return format_text("is wrong at byte %llu, the end: %s",
				   (unsigned long long)position, error);
	image->ended = true;
	return NULL;
}

/**
 * image_get_block - read the block after the header, or after a frame's payload
 * @image: the state of reading
 * @block: IMAGE_BLOCK bytes of the image, from @image's position on
 * @frame: out: the frame, unless @image has ended
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *image_get_block(struct image *image, const void *block, struct image_frame *frame)
{
	bool is_end = block_has_magic(block, END_MAGIC);

	if (!is_end && !image_is_frame(block))
		return format_text("is damaged: no frame and no end block begins at byte %llu",
				   (unsigned long long)image->position);
	if (!block_is_intact(block))
		return format_text("is damaged: the checksum of the %s at byte %llu is wrong",
				   is_end ? "end" : "frame", (unsigned long long)image->position);
	return is_end ? get_end(image, block) : image_get_frame(image, block, frame);
}
