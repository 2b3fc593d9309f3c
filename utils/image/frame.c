// SPDX-License-Identifier: GPL-2.0-only
/*
 * Build and check the frames of images, with their payloads. Nothing here does I/O. Input is
 * not trusted.
 */
#include <endian.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/error.h"
#include "base/text.h"
#include "image/block.h"
#include "image/frame.h"

#define FRAME_MAGIC	"RXDFRAME"

struct frame_block {
	char magic[BLOCK_MAGIC];
	uint64_t id;
	uint64_t number;
	uint64_t payload_checksum;
	uint32_t encoding;
	uint32_t count;
	uint32_t data;
	uint32_t stored;
	struct image_extent extents[IMAGE_EXTENTS_MAX];
	uint8_t reserved[8];
	uint64_t checksum;
};

_Static_assert(sizeof(struct frame_block) == IMAGE_BLOCK, "frame");

/**
 * image_compress - compress data, if that makes it shorter
 * @level: compression level of zstd
 * @data: the data
 * @size: its size in bytes, not 0
 * @payload: out: the compressed data
 * @room: size of @payload in bytes
 *
 * Return: compressed size; 0 if it would not be less than @size.
 */
size_t image_compress(int level, const void *data, size_t size, void *payload, size_t room)
{
	size_t stored = ZSTD_compress(payload, room < size ? room : size - 1, data, size, level);

	return ZSTD_isError(stored) ? 0 : stored;
}

/**
 * image_add_extent - add a range of the disk to a frame
 * @frame: the frame; its data grows by @length
 * @start: offset of the range on the disk
 * @length: its length
 *
 * Return: false if the frame can have no more extents.
 */
bool image_add_extent(struct image_frame *frame, uint64_t start, uint64_t length)
{
	struct image_extent *last = frame->count ? &frame->extents[frame->count - 1] : NULL;

	if (last && last->start + last->length == start) {
		last->length += length;
	} else {
		if (frame->count == IMAGE_EXTENTS_MAX)
			return false;
		frame->extents[frame->count++] = (struct image_extent){ start, length };
	}
	frame->data += length;
	return true;
}

/**
 * image_leave_out_zeros - remove the pages of a frame that hold only zeros
 * @frame: in: count and extents; out: data, too
 * @data: the data of the extents; the remaining pages are moved together
 * @next: out: offset on the disk up to which pages were processed: less than the end of
 *	the last extent if the frame would get too many extents
 *
 * Return: number of bytes removed.
 */
uint64_t image_leave_out_zeros(struct image_frame *frame, char *data, uint64_t *next)
{
	const struct image_frame all = *frame;
	const char *page = data;
	uint64_t zeros = 0;
	uint64_t end;
	uint32_t i;

	frame->count = 0;
	frame->data = 0;
	for (i = 0; i < all.count; i++) {
		*next = all.extents[i].start;
		end = *next + all.extents[i].length;
		for (; *next < end; *next += IMAGE_PAGE, page += IMAGE_PAGE) {
			char *place = data + frame->data;

			if (block_is_clear(page, IMAGE_PAGE)) {
				zeros += IMAGE_PAGE;
				continue;
			}
			if (!image_add_extent(frame, *next, IMAGE_PAGE))
				return zeros;
			if (place != page)
				memcpy(place, page, IMAGE_PAGE);
		}
	}
	return zeros;
}

/**
 * image_fill_frame - store data as the payload of a frame
 * @image: the state of writing
 * @frame: count, extents and data are set; out: encoding, stored and sums
 * @level: compression level of zstd; 0: do not compress
 * @data: the data, which may be in its place in @payload already, if it is not compressed
 * @payload: out: room for a block and IMAGE_FRAME_MAX bytes
 */
void image_fill_frame(struct image *image, struct image_frame *frame, int level, const void *data,
		      void *payload)
{
	char *place = (char *)payload + (image->log ? IMAGE_BLOCK : 0);

	frame->sums = false;
	frame->encoding = IMAGE_ZSTD;
	frame->stored = level ? image_compress(level, data, frame->data, payload,
					       IMAGE_FRAME_MAX) : 0;
	if (frame->stored)
		return;
	frame->sums = image->log;
	frame->encoding = IMAGE_RAW;
	frame->stored = frame->data;
	if (data != place)
		memcpy(place, data, frame->data);
}

static uint32_t page_sum(const void *page)
{
	return htole32((uint32_t)XXH3_64bits(page, IMAGE_PAGE));
}

static void put_sums(const struct image_frame *frame, void *payload)
{
	uint32_t *sums = payload;
	uint32_t i;

	memset(sums, 0, IMAGE_BLOCK);
	for (i = 0; i < frame->data / IMAGE_PAGE; i++)
		sums[i] = page_sum((char *)payload + IMAGE_BLOCK + i * IMAGE_PAGE);
}

/**
 * image_put_frame - build the block of a frame
 * @image: the state of writing
 * @frame: encoding, data, stored, sums, count and extents are set
 * @payload: the stored data, in a buffer of image_payload() bytes, after a block if the frame
 *	has sums; it is padded with zeros
 * @block: out
 */
void image_put_frame(struct image *image, struct image_frame *frame, void *payload, void *block)
{
	struct frame_block *out = block;
	size_t padded = image_payload(frame);
	uint32_t i;

	if (frame->sums)
		put_sums(frame, payload);
	else
		memset((char *)payload + frame->stored, 0, padded - frame->stored);
	frame->number = image->frames;
	frame->position = image->position;
	frame->checksum = XXH3_64bits(payload, frame->sums ? IMAGE_BLOCK : padded);
	*out = (struct frame_block){
		.id = htole64(image->header.id),
		.number = htole64(frame->number),
		.payload_checksum = htole64(frame->checksum),
		.encoding = htole32(frame->encoding),
		.count = htole32(frame->count),
		.data = htole32(frame->data),
		.stored = htole32(frame->stored),
	};
	for (i = 0; i < frame->count; i++) {
		out->extents[i].start = htole64(frame->extents[i].start);
		out->extents[i].length = htole64(frame->extents[i].length);
	}
	block_seal(block, FRAME_MAGIC);

	image->frames++;
	image->data += frame->data;
	image->position += IMAGE_BLOCK + padded;
	image->digest = block_digest(image->digest, block);
}

static const char *extents_error(const struct image *image, const struct image_frame *frame)
{
	uint64_t reached = image->reached;
	const struct image_extent *extent;
	uint64_t data = 0;
	uint32_t i;

	for (i = 0; i < frame->count; i++) {
		extent = &frame->extents[i];
		if (!extent->length || extent->start % IMAGE_PAGE || extent->length % IMAGE_PAGE)
			return "an extent is empty, or not a multiple of 4096";
		if (!image->log && extent->start < reached)
			return "an extent begins before the end of the one before it";
		if (extent->start >= image->header.size ||
		    extent->length > image->header.size - extent->start)
			return "an extent lies beyond the end of the disk";
		reached = extent->start + extent->length;
		data += frame->encoding == IMAGE_HOLE ? 0 : extent->length;
		if (data > IMAGE_FRAME_MAX)
			return "its extents are too long";
	}
	return data == frame->data ? NULL : "its extents are not as long as its data";
}

static const char *frame_error(const struct image *image, const struct frame_block *in,
			       const struct image_frame *frame)
{
	if (le64toh(in->id) != image->header.id)
		return "it belongs to another image";
	if (frame->number != image->frames)
		return "its number is out of order";
	if (!frame->count || frame->count > IMAGE_EXTENTS_MAX)
		return "the number of its extents is not allowed";
	if (frame->encoding > (image->log ? IMAGE_HOLE : IMAGE_ZSTD))
		return "its encoding is unknown";
	if (frame->encoding == IMAGE_ZSTD ? !frame->stored || frame->stored >= frame->data :
	    frame->stored != frame->data)
		return "its lengths do not agree";
	if (!block_is_clear(in->extents + frame->count,
			    (IMAGE_EXTENTS_MAX - frame->count) * sizeof(*in->extents)) ||
	    !block_is_clear(in->reserved, sizeof(in->reserved)))
		return "reserved bytes are not zero";
	return NULL;
}

bool image_is_frame(const void *block)
{
	return block_has_magic(block, FRAME_MAGIC);
}

/**
 * image_get_frame - read the block of a frame
 * @image: the state of reading
 * @block: the block, which is intact
 * @frame: out
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *image_get_frame(struct image *image, const void *block, struct image_frame *frame)
{
	const struct frame_block *in = block;
	const char *error;
	uint32_t i;

	frame->number = le64toh(in->number);
	frame->position = image->position;
	frame->checksum = le64toh(in->payload_checksum);
	frame->encoding = le32toh(in->encoding);
	frame->data = le32toh(in->data);
	frame->stored = le32toh(in->stored);
	frame->count = le32toh(in->count);
	frame->sums = image->log && frame->encoding == IMAGE_RAW;
	error = frame_error(image, in, frame);
	if (!error) {
		for (i = 0; i < frame->count; i++) {
			frame->extents[i].start = le64toh(in->extents[i].start);
			frame->extents[i].length = le64toh(in->extents[i].length);
		}
		error = extents_error(image, frame);
	}
	if (error)
		return format_text("is wrong at byte %llu, frame %llu: %s",
				   (unsigned long long)image->position,
				   (unsigned long long)image->frames, error);

	image->frames++;
	image->data += frame->data;
	image->reached = frame->extents[frame->count - 1].start +
			 frame->extents[frame->count - 1].length;
	image->position += IMAGE_BLOCK + image_payload(frame);
	image->digest = block_digest(image->digest, block);
	return NULL;
}

static char *damaged(uint64_t position)
{
	return format_text("is damaged: the checksum of the data at byte %llu is wrong",
			   (unsigned long long)position);
}

/**
 * image_get_data - check a frame's payload, and decompress it
 * @frame: the frame
 * @payload: image_payload() bytes that follow its block
 * @scratch: room for IMAGE_FRAME_MAX bytes
 * @data: out: the data of its extents, in @payload or @scratch
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *image_get_data(const struct image_frame *frame, const void *payload, void *scratch,
		     const void **data)
{
	unsigned long long position = frame->position + IMAGE_BLOCK;
	size_t size;

	*data = payload;
	if (XXH3_64bits(payload, image_payload(frame)) != frame->checksum)
		return damaged(position);
	if (frame->encoding == IMAGE_RAW)
		return NULL;
	*data = scratch;
	size = ZSTD_decompress(scratch, frame->data, payload, frame->stored);
	if (ZSTD_isError(size))
		return format_text("is wrong at byte %llu, frame %llu: %s", position,
				   (unsigned long long)frame->number, ZSTD_getErrorName(size));
	if (size != frame->data)
		return format_text("is wrong at byte %llu, frame %llu: it has %zu bytes, not %u",
				   position, (unsigned long long)frame->number, size, frame->data);
	return NULL;
}

/**
 * image_check_sums - check the checksums of a frame's pages
 * @frame: the frame, which has them
 * @sums: the block that follows its own
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *image_check_sums(const struct image_frame *frame, const void *sums)
{
	return XXH3_64bits(sums, IMAGE_BLOCK) == frame->checksum ? NULL :
	       damaged(frame->position + IMAGE_BLOCK);
}

/**
 * image_check_page - check a page of a frame
 * @frame: the frame, which has checksums of its pages
 * @sums: result of image_check_sums()
 * @page: which page of its data
 * @data: the page
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *image_check_page(const struct image_frame *frame, const void *sums, uint32_t page,
		       const void *data)
{
	return ((const uint32_t *)sums)[page] == page_sum(data) ? NULL :
	       damaged(frame->position + 2 * IMAGE_BLOCK + (uint64_t)page * IMAGE_PAGE);
}
