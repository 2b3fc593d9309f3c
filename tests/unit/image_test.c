// SPDX-License-Identifier: GPL-2.0-only
/*
 * Images in memory: what is written is read, and nothing else is accepted.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/text.h"
#include "image/format.h"
#include "image/frame.h"
#include "tap.h"

#define DISK	(64ULL << 20)

struct buffer {
	unsigned char *data;
	size_t size;
};

static const struct image_header header = {
	.id = 0x1122334455667788,
	.size = DISK,
	.mem_limit = 8 << 20,
	.logical_block_size = 4096,
	.folio_size = 65536,
	.disk_flags = IMAGE_DISK_DETECT_ZEROES,
	.uuid = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
};

static void *add(struct buffer *buffer, size_t size)
{
	buffer->data = resize_array(buffer->data, buffer->size + size, 1);
	buffer->size += size;
	return buffer->data + buffer->size - size;
}

/* The data of a page identifies its place. */
static void fill(unsigned char *data, uint64_t start)
{
	uint64_t i;

	for (i = 0; i < IMAGE_PAGE; i += sizeof(start)) {
		memcpy(data + i, &start, sizeof(start));
		start++;
	}
}

static void add_frame(struct image *image, struct buffer *buffer, struct image_frame *frame,
		      int level)
{
	unsigned char *data = malloc(IMAGE_FRAME_MAX), *payload = malloc(IMAGE_FRAME_MAX);
	unsigned char block[IMAGE_BLOCK];
	uint64_t at;
	uint32_t i;

	frame->data = 0;
	frame->sums = false;
	for (i = 0; i < frame->count; i++) {
		for (at = 0; at < frame->extents[i].length; at += IMAGE_PAGE) {
			fill(data + frame->data, frame->extents[i].start + at);
			frame->data += IMAGE_PAGE;
		}
	}
	frame->encoding = level ? IMAGE_ZSTD : IMAGE_RAW;
	if (level)
		frame->stored = image_compress(level, data, frame->data, payload, IMAGE_FRAME_MAX);
	else
		frame->stored = frame->data;
	if (!level)
		memcpy(payload, data, frame->data);
	image_put_frame(image, frame, payload, block);
	memcpy(add(buffer, IMAGE_BLOCK), block, IMAGE_BLOCK);
	memcpy(add(buffer, image_payload(frame)), payload, image_payload(frame));
	free(payload);
	free(data);
}

/* Three frames: two extents; as many as there can be; the last page, compressed. */
static struct buffer make(void)
{
	struct image image = { .header = header };
	struct buffer buffer = { 0 };
	struct image_frame frame;
	uint32_t i;

	image_put_header(&image, add(&buffer, IMAGE_BLOCK));

	frame.count = 2;
	frame.extents[0] = (struct image_extent){ 0, IMAGE_PAGE };
	frame.extents[1] = (struct image_extent){ 16384, 2 * IMAGE_PAGE };
	add_frame(&image, &buffer, &frame, 0);

	frame.count = IMAGE_EXTENTS_MAX;
	for (i = 0; i < frame.count; i++)
		frame.extents[i] = (struct image_extent){ (1 << 20) + i * 8192, IMAGE_PAGE };
	add_frame(&image, &buffer, &frame, 3);

	frame.count = 1;
	frame.extents[0] = (struct image_extent){ DISK - IMAGE_PAGE, IMAGE_PAGE };
	add_frame(&image, &buffer, &frame, 1);
	image_put_end(&image, add(&buffer, IMAGE_BLOCK));
	return buffer;
}

/* Does the data of a frame identify its place? */
static bool is_right(const struct image_frame *frame, const unsigned char *data)
{
	unsigned char page[IMAGE_PAGE];
	uint64_t at;
	uint32_t i;

	for (i = 0; i < frame->count; i++) {
		for (at = 0; at < frame->extents[i].length; at += IMAGE_PAGE) {
			fill(page, frame->extents[i].start + at);
			if (memcmp(page, data, IMAGE_PAGE))
				return false;
			data += IMAGE_PAGE;
		}
	}
	return true;
}

/* Read an image as rxadm load does. Return: NULL, or the fault. */
static char *read_all(const struct buffer *buffer, struct image *image, bool *right)
{
	unsigned char *scratch = malloc(IMAGE_FRAME_MAX);
	struct image_frame frame;
	const void *data;
	uint64_t position;
	char *error = NULL;

	*right = true;
	if (buffer->size < IMAGE_BLOCK)
		error = copy_text("truncated");
	if (!error)
		error = image_get_header(image, buffer->data);
	while (!error && !image->ended) {
		position = image->position;
		if (buffer->size - position < IMAGE_BLOCK) {
			error = copy_text("truncated");
			break;
		}
		error = image_get_block(image, buffer->data + position, &frame);
		if (error || image->ended)
			break;
		if (buffer->size - position - IMAGE_BLOCK < image_payload(&frame)) {
			error = copy_text("truncated");
			break;
		}
		error = image_get_data(&frame, buffer->data + position + IMAGE_BLOCK, scratch,
				       &data);
		if (!error && !is_right(&frame, data))
			*right = false;
	}
	free(scratch);
	return error;
}

static void expect(const struct buffer *buffer, const char *wanted, const char *name)
{
	struct image image;
	bool right;
	char *error = read_all(buffer, &image, &right);

	tap_ok(error && strstr(error, wanted), "%s: %s", name, error ? error : "was accepted");
	free(error);
}

static void seal(unsigned char *block)
{
	uint64_t checksum = XXH3_64bits(block, IMAGE_BLOCK - sizeof(checksum));

	memcpy(block + IMAGE_BLOCK - sizeof(checksum), &checksum, sizeof(checksum));
}

/* Change one number of one block, and correct the checksum of the block. */
static void expect_value(size_t at, size_t width, uint64_t value, const char *wanted,
			 const char *name)
{
	struct buffer buffer = make();

	memcpy(buffer.data + at, &value, width);
	seal(buffer.data + at / IMAGE_BLOCK * IMAGE_BLOCK);
	expect(&buffer, wanted, name);
	free(buffer.data);
}

static void test_round_trip(void)
{
	struct buffer buffer = make();
	struct image image;
	bool right;
	char *error = read_all(&buffer, &image, &right);

	tap_ok(!error && right, "what is written is read: %s", error ? error : "");
	tap_ok(!memcmp(&image.header, &header, sizeof(header)), "the header is the same");
	tap_ok(image.frames == 3 && image.position == buffer.size, "the end is where it should be");
	tap_ok(image.data == (3 + IMAGE_EXTENTS_MAX + 1) * IMAGE_PAGE, "all data is counted");
	free(error);
	free(buffer.data);
}

/* A change of any byte of an image is detected. */
static void test_each_byte(void)
{
	struct buffer buffer = make();
	size_t accepted = 0, i;
	struct image image;
	char *error;
	bool right;

	for (i = 0; i < buffer.size; i += i < 4 * IMAGE_BLOCK ? 1 : 61) {
		buffer.data[i] ^= 1 << i % 8;
		error = read_all(&buffer, &image, &right);
		accepted += !error;
		free(error);
		buffer.data[i] ^= 1 << i % 8;
	}
	tap_ok(!accepted, "no byte may differ: %zu may", accepted);
	for (i = 0, accepted = 0; i < buffer.size; i += 509) {
		struct buffer cut = { malloc(i + 1), i };

		memcpy(cut.data, buffer.data, i);
		error = read_all(&cut, &image, &right);
		accepted += !error;
		free(error);
		free(cut.data);
	}
	tap_ok(!accepted, "no byte may be missing: %zu may", accepted);
	free(buffer.data);
}

static void test_incompressible(void)
{
	unsigned char *data = malloc(IMAGE_PAGE), *out = malloc(IMAGE_PAGE);
	uint64_t word = 88172645463325252;
	unsigned int i;

	for (i = 0; i < IMAGE_PAGE; i++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		data[i] = word >> 32;
	}
	tap_ok(!image_compress(3, data, IMAGE_PAGE, out, IMAGE_PAGE), "noise stays as it is");
	free(out);
	free(data);
}

/* Every other page is zeros, which would need one extent more than the maximum. */
static void test_zeros(void)
{
	const uint32_t pages = 2 * IMAGE_EXTENTS_MAX + 1;
	unsigned char *data = calloc(pages, IMAGE_PAGE);
	struct image_frame frame = { .count = 2 };
	uint64_t zeros, next;
	uint32_t i;

	for (i = 0; i < pages; i += 2)
		fill(data + i * IMAGE_PAGE, i * IMAGE_PAGE + 1048576);
	frame.extents[0] = (struct image_extent){ 1048576, 3 * IMAGE_PAGE };
	frame.extents[1] = (struct image_extent){ 1048576 + 3 * IMAGE_PAGE,
						  (pages - 3) * IMAGE_PAGE };
	zeros = image_leave_out_zeros(&frame, (char *)data, &next);
	tap_ok(frame.count == IMAGE_EXTENTS_MAX && frame.data == IMAGE_EXTENTS_MAX * IMAGE_PAGE &&
	       zeros == frame.data, "zeros are left out");
	tap_ok(next == 1048576 + (pages - 1) * IMAGE_PAGE, "what is too much is for the next frame");
	tap_ok(is_right(&frame, data), "the data moves together");

	memset(data, 0, pages * IMAGE_PAGE);
	zeros = image_leave_out_zeros(&frame, (char *)data, &next);
	tap_ok(!frame.count && !frame.data && zeros == IMAGE_EXTENTS_MAX * IMAGE_PAGE,
	       "a frame of zeros is empty");
	free(data);
}

static void test_values(void)
{
	const size_t frame = IMAGE_BLOCK, second = 5 * IMAGE_BLOCK;

	expect_value(8, 4, 2, "version 2", "a newer version");
	expect_value(8, 4, 0, "version 0", "no version");
	expect_value(12, 4, 4, "flags", "an unknown flag");
	expect_value(24, 8, 0, "size", "a disk without size");
	expect_value(24, 8, DISK + 512, "size", "a size that is no multiple of 4096");
	expect_value(24, 8, 1ULL << 49, "size", "a size beyond all");
	expect_value(24, 8, DISK / 2, "beyond the end of the disk", "a smaller disk");
	expect_value(32, 8, 1, "memory limit", "an odd memory limit");
	expect_value(40, 4, 1024, "logical block size", "a logical block size of 1024");
	expect_value(44, 4, 8192, "folio size", "a folio size of 8192");
	expect_value(100, 1, 1, "reserved", "a reserved byte of the header");

	expect_value(frame + 8, 8, 1, "another image", "a frame of another image");
	expect_value(frame + 16, 8, 1, "out of order", "a frame too early");
	expect_value(frame + 24, 8, 1, "checksum of the data", "another checksum of the data");
	expect_value(frame + 32, 4, 2, "encoding", "an unknown encoding");
	expect_value(frame + 32, 4, IMAGE_ZSTD, "lengths", "raw data that is said to be zstd");
	expect_value(frame + 36, 4, 0, "number of its extents", "a frame without extents");
	expect_value(frame + 36, 4, 253, "number of its extents", "too many extents");
	expect_value(frame + 36, 4, 1, "reserved", "an extent more than is counted");
	expect_value(frame + 36, 4, 3, "empty", "an extent less than is counted");
	expect_value(frame + 40, 4, IMAGE_PAGE, "lengths", "too little data");
	expect_value(frame + 40, 8, (2ULL << 32 | 2) * IMAGE_PAGE, "not as long",
		     "extents longer than the data");
	expect_value(frame + 44, 4, 0xffffffff, "lengths", "too much stored");
	expect_value(frame + 48, 8, 512, "multiple", "an extent at an odd place");
	expect_value(frame + 56, 8, 4 * IMAGE_PAGE + 1, "multiple", "an extent of odd length");
	expect_value(frame + 56, 8, 0, "empty", "an empty extent");
	expect_value(frame + 56, 8, 5 * IMAGE_PAGE, "before the end", "extents that overlap");
	expect_value(frame + 72, 8, ~0ULL << 12, "beyond the end", "an extent of great length");
	expect_value(frame + 64, 8, ~0ULL << 12, "beyond the end", "an extent far away");
	expect_value(frame + 72, 8, 32 << 20, "too long", "an extent longer than a frame may be");
	expect_value(frame + 4080, 1, 1, "reserved", "a reserved byte of a frame");
	expect_value(second + 32, 4, IMAGE_RAW, "lengths", "zstd that is said to be raw");
	expect_value(second + 44, 4, 0, "lengths", "nothing stored");
}

static void test_end(void)
{
	static const struct {
		size_t at;
		const char *wanted;
	} cases[] = {
		{ 8, "another image" }, { 16, "counts" }, { 24, "counts" },
		{ 32, "its length" }, { 40, "its checksum" }, { 48, "reserved" },
	};
	struct buffer buffer = make();
	unsigned char *end = buffer.data + buffer.size - IMAGE_BLOCK;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		end[cases[i].at] ^= 1;
		seal(end);
		expect(&buffer, cases[i].wanted, "a wrong end");
		end[cases[i].at] ^= 1;
	}
	free(buffer.data);
}

/* Payloads with a correct checksum and invalid content. */
static void test_payloads(void)
{
	unsigned char *data = calloc(2, IMAGE_PAGE), *payload = calloc(1, IMAGE_PAGE);
	unsigned char *scratch = malloc(IMAGE_FRAME_MAX);
	struct image_frame frame = { .encoding = IMAGE_ZSTD, .data = 2 * IMAGE_PAGE };
	const void *found;
	char *error;

	frame.stored = 100;
	frame.checksum = XXH3_64bits(payload, IMAGE_PAGE);
	error = image_get_data(&frame, payload, scratch, &found);
	tap_ok(error, "what is not zstd: %s", error ? error : "was accepted");
	free(error);

	frame.stored = image_compress(3, data, IMAGE_PAGE, payload, IMAGE_PAGE);
	frame.checksum = XXH3_64bits(payload, IMAGE_PAGE);
	error = image_get_data(&frame, payload, scratch, &found);
	tap_ok(error && strstr(error, "bytes, not"), "zstd of less: %s", error ? error : "was accepted");
	free(error);

	frame.data = IMAGE_PAGE;
	frame.stored = image_compress(3, data, 2 * IMAGE_PAGE, payload, IMAGE_PAGE);
	frame.checksum = XXH3_64bits(payload, IMAGE_PAGE);
	error = image_get_data(&frame, payload, scratch, &found);
	tap_ok(error, "zstd of more: %s", error ? error : "was accepted");
	free(error);
	free(scratch);
	free(payload);
	free(data);
}

int main(void)
{
	struct buffer foreign = { calloc(2, IMAGE_BLOCK), 2 * IMAGE_BLOCK };

	test_round_trip();
	test_each_byte();
	test_incompressible();
	test_zeros();
	test_values();
	test_end();
	test_payloads();
	expect(&foreign, "is not an image", "zeros");
	free(foreign.data);
	return tap_end();
}
