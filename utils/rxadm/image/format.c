// SPDX-License-Identifier: GPL-2.0-only
/*
 * Build and check the blocks and payloads of images. Nothing here does I/O. Input is not
 * trusted.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "image/format.h"
#include "lib/error.h"

#define SIZE_MAX_DISK	(1ULL << 48)

#define HEADER_MAGIC	"RXDIMAGE"
#define FRAME_MAGIC	"RXDFRAME"
#define END_MAGIC	"RXDIMEND"
#define MAGIC_SIZE	8

/* All numbers are little-endian; reserved bytes are zero. */
struct header_block {
	char magic[MAGIC_SIZE];
	uint32_t version;
	uint32_t disk_flags;
	uint64_t id;
	uint64_t size;
	uint64_t mem_limit;
	uint32_t logical_block_size;
	uint32_t folio_size;
	uint8_t uuid[16];
	uint8_t reserved[IMAGE_BLOCK - 72];
	uint64_t checksum;
};

struct frame_block {
	char magic[MAGIC_SIZE];
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

struct end_block {
	char magic[MAGIC_SIZE];
	uint64_t id;
	uint64_t frames;
	uint64_t data;
	uint64_t length;
	uint64_t digest;
	uint8_t reserved[IMAGE_BLOCK - 56];
	uint64_t checksum;
};

_Static_assert(sizeof(struct header_block) == IMAGE_BLOCK, "header");
_Static_assert(sizeof(struct frame_block) == IMAGE_BLOCK, "frame");
_Static_assert(sizeof(struct end_block) == IMAGE_BLOCK, "end");

/* Each block ends with the checksum of its preceding bytes. */
static uint64_t block_checksum(const void *block)
{
	return XXH3_64bits(block, IMAGE_BLOCK - sizeof(uint64_t));
}

static bool is_intact(const void *block)
{
	uint64_t checksum;

	memcpy(&checksum, (const char *)block + IMAGE_BLOCK - sizeof(checksum), sizeof(checksum));
	return le64toh(checksum) == block_checksum(block);
}

static bool has_magic(const void *block, const char *magic)
{
	return !memcmp(block, magic, MAGIC_SIZE);
}

static bool is_clear(const void *data, size_t size)
{
	const char *c = data;

	return !size || (!*c && !memcmp(c, c + 1, size - 1));
}

/* Extend the digest of an image by one frame. */
static uint64_t digest_with(uint64_t digest, uint64_t checksum)
{
	checksum = htole64(checksum);
	return XXH3_64bits_withSeed(&checksum, sizeof(checksum), digest);
}

/**
 * image_put_header - begin an image
 * @image: the image; its header is set, all other fields are zero
 * @block: out: its first block
 */
void image_put_header(struct image *image, void *block)
{
	const struct image_header *header = &image->header;
	struct header_block *out = block;

	*out = (struct header_block){
		.version = htole32(IMAGE_VERSION),
		.disk_flags = htole32(header->disk_flags),
		.id = htole64(header->id),
		.size = htole64(header->size),
		.mem_limit = htole64(header->mem_limit),
		.logical_block_size = htole32(header->logical_block_size),
		.folio_size = htole32(header->folio_size),
	};
	memcpy(out->magic, HEADER_MAGIC, MAGIC_SIZE);
	memcpy(out->uuid, header->uuid, sizeof(out->uuid));
	out->checksum = htole64(block_checksum(block));
	image->position = IMAGE_BLOCK;
}

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

/* Add a page to a frame. Return: false if the frame can have no more extents. */
static bool add_page(struct image_frame *frame, uint64_t start)
{
	struct image_extent *last = &frame->extents[frame->count - 1];

	if (frame->count && last->start + last->length == start) {
		last->length += IMAGE_PAGE;
	} else {
		if (frame->count == IMAGE_EXTENTS_MAX)
			return false;
		frame->extents[frame->count++] = (struct image_extent){ start, IMAGE_PAGE };
	}
	frame->data += IMAGE_PAGE;
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

			if (is_clear(page, IMAGE_PAGE)) {
				zeros += IMAGE_PAGE;
				continue;
			}
			if (!add_page(frame, *next))
				return zeros;
			if (place != page)
				memcpy(place, page, IMAGE_PAGE);
		}
	}
	return zeros;
}

/**
 * image_put_frame - build the block of a frame
 * @image: the state of writing
 * @frame: encoding, data, stored, count and extents are set
 * @payload: the stored data, in a buffer of image_payload() bytes; it is padded with zeros
 * @block: out
 */
void image_put_frame(struct image *image, struct image_frame *frame, void *payload, void *block)
{
	struct frame_block *out = block;
	size_t padded = image_payload(frame);
	uint32_t i;

	memset((char *)payload + frame->stored, 0, padded - frame->stored);
	frame->number = image->frames;
	frame->position = image->position;
	frame->checksum = XXH3_64bits(payload, padded);
	*out = (struct frame_block){
		.id = htole64(image->header.id),
		.number = htole64(frame->number),
		.payload_checksum = htole64(frame->checksum),
		.encoding = htole32(frame->encoding),
		.count = htole32(frame->count),
		.data = htole32(frame->data),
		.stored = htole32(frame->stored),
	};
	memcpy(out->magic, FRAME_MAGIC, MAGIC_SIZE);
	for (i = 0; i < frame->count; i++) {
		out->extents[i].start = htole64(frame->extents[i].start);
		out->extents[i].length = htole64(frame->extents[i].length);
	}
	out->checksum = htole64(block_checksum(block));

	image->frames++;
	image->data += frame->data;
	image->position += IMAGE_BLOCK + padded;
	image->digest = digest_with(image->digest, le64toh(out->checksum));
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
	memcpy(out->magic, END_MAGIC, MAGIC_SIZE);
	out->checksum = htole64(block_checksum(block));
	image->ended = true;
}

static const char *header_error(const struct header_block *in, const struct image_header *header)
{
	if (!header->size || header->size % IMAGE_PAGE || header->size > SIZE_MAX_DISK)
		return "the size of the disk is not one that a RAM disk can have";
	if (header->logical_block_size != 512 && header->logical_block_size != 4096)
		return "the logical block size is neither 512 nor 4096";
	if (header->folio_size != 1 << 12 && header->folio_size != 1 << 16 &&
	    header->folio_size != 1 << 21)
		return "the folio size is not 4K, 64K or 2M";
	if (header->mem_limit % IMAGE_PAGE)
		return "the memory limit is not a multiple of 4096";
	if (header->disk_flags & ~(IMAGE_DISK_RESERVE | IMAGE_DISK_DETECT_ZEROES))
		return "it has unknown flags";
	if (!is_clear(in->reserved, sizeof(in->reserved)))
		return "reserved bytes are not zero";
	return NULL;
}

/**
 * image_is_known - check whether a file begins with the magic of an image
 * @block: its first MAGIC_SIZE bytes
 */
bool image_is_known(const void *block)
{
	return has_magic(block, HEADER_MAGIC);
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
	struct image_header *header = &image->header;
	const char *error;

	*image = (struct image){ .position = IMAGE_BLOCK };
	if (!has_magic(block, HEADER_MAGIC))
		return copy_text("is not an image of a RAM disk: it does not begin with "
				 HEADER_MAGIC
				 "; 'rxadm load --format raw FILE' loads a plain disk image");
	if (!is_intact(block))
		return copy_text("is damaged: the checksum of the header, at byte 0, is wrong");
	if (le32toh(in->version) != IMAGE_VERSION)
		return format_text("has version %u; this rxadm reads version %u only",
				   le32toh(in->version), IMAGE_VERSION);
	*header = (struct image_header){
		.id = le64toh(in->id),
		.size = le64toh(in->size),
		.mem_limit = le64toh(in->mem_limit),
		.logical_block_size = le32toh(in->logical_block_size),
		.folio_size = le32toh(in->folio_size),
		.disk_flags = le32toh(in->disk_flags),
	};
	memcpy(header->uuid, in->uuid, sizeof(header->uuid));
	error = header_error(in, header);
	return error ? format_text("is wrong at byte 0: %s", error) : NULL;
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
		if (extent->start < reached)
			return "an extent begins before the end of the one before it";
		if (extent->start >= image->header.size ||
		    extent->length > image->header.size - extent->start)
			return "an extent lies beyond the end of the disk";
		reached = extent->start + extent->length;
		data += extent->length;
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
	if (frame->encoding != IMAGE_RAW && frame->encoding != IMAGE_ZSTD)
		return "its encoding is unknown";
	if (frame->encoding == IMAGE_RAW ? frame->stored != frame->data :
	    !frame->stored || frame->stored >= frame->data)
		return "its lengths do not agree";
	if (!is_clear(in->extents + frame->count,
		      (IMAGE_EXTENTS_MAX - frame->count) * sizeof(*in->extents)) ||
	    !is_clear(in->reserved, sizeof(in->reserved)))
		return "reserved bytes are not zero";
	return NULL;
}

static char *get_frame(struct image *image, const struct frame_block *in,
		       struct image_frame *frame)
{
	const char *error;
	uint32_t i;

	frame->number = le64toh(in->number);
	frame->position = image->position;
	frame->checksum = le64toh(in->payload_checksum);
	frame->encoding = le32toh(in->encoding);
	frame->data = le32toh(in->data);
	frame->stored = le32toh(in->stored);
	frame->count = le32toh(in->count);
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
	image->digest = digest_with(image->digest, le64toh(in->checksum));
	return NULL;
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
	else if (!is_clear(in->reserved, sizeof(in->reserved)))
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
	bool is_end = has_magic(block, END_MAGIC);

	if (!is_end && !has_magic(block, FRAME_MAGIC))
		return format_text("is damaged: no frame and no end block begins at byte %llu",
				   (unsigned long long)image->position);
	if (!is_intact(block))
		return format_text("is damaged: the checksum of the %s at byte %llu is wrong",
				   is_end ? "end" : "frame", (unsigned long long)image->position);
	return is_end ? get_end(image, block) : get_frame(image, block, frame);
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
		return format_text("is damaged: the checksum of the data at byte %llu is wrong",
				   position);
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
