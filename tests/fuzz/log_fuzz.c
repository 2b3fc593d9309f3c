// SPDX-License-Identifier: GPL-2.0-only
/*
 * Images that can be updated: whatever the file holds, what is read lies on the disk, and what is
 * punched out lies in the file.
 *
 * An input is a byte of flags, and then changes to a whole image: block, offset (two bytes),
 * length, bytes.
 */
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "fuzz.h"
#include "image/append.h"
#include "image/changes.h"
#include "image/generations.h"
#include "image/log_read.h"

#define DISK		(1ULL << 20)
#define BLOCKS		40

/* Flags of an input. */
#define REPAIR		1	/* make the checksums right */
#define CLEAN		2	/* punch out what is not needed */

static uint8_t whole[BLOCKS * IMAGE_BLOCK];
static uint8_t data[IMAGE_FRAME_MAX] __attribute__((aligned(COPY_ALIGN)));
static int file = -1;

/* Of each generation, one run of pages after the other, and a hole. */
static enum copy_step next(void *context, struct image_frame *frame, void *out)
{
	uint32_t *count = context;

	frame->count = 1;
	frame->data = 2 * IMAGE_PAGE;
	frame->encoding = IMAGE_RAW;
	frame->extents[0] = (struct image_extent){ *count * IMAGE_PAGE, frame->data };
	memset(out, *count, frame->data);
	if (*count % 4 == 3) {
		frame->encoding = IMAGE_HOLE;
		frame->data = 0;
	}
	return *count % 4 == 0 && *count ? (*count)++, COPY_END : ((*count)++, COPY_MORE);
}

static void make(void)
{
	struct image_header header = {
		.id = 1, .size = DISK, .logical_block_size = 512, .folio_size = 4096,
	};
	struct log_head head = { 0 };
	struct append append;
	uint32_t count = 0, i;

	file = memfd_create("log", 0);
	must(file >= 0);
	for (i = 1; i < 4; i++) {
		append = (struct append){
			.fd = file, .level = i % 2, .next = next, .context = &count,
			.progress.mode = PROGRESS_NONE,
		};
		append.segment.generation.number = i;
		if (i == 1) {
			must(!generations_begin(&head, &header, &append.segment));
		} else {
			append.segment.header = header;
			append.segment.header.id = head.log;
			append.segment.first = head.end;
			append.segment.previous = log_newest(&head)->position;
		}
		must(append_segment(&append) == COPY_DONE);
		must(!generations_add(&head, &append.segment, 2, append.written));
		must(!append_head(file, &head));
	}
	must(head.end <= sizeof(whole));
	must(pread(file, whole, sizeof(whole), 0) > 0);
}

static void change(const uint8_t *input, size_t size)
{
	size_t at, length;

	while (size > 4) {
		at = input[0] % BLOCKS * IMAGE_BLOCK + (input[1] | input[2] << 8) % IMAGE_BLOCK;
		length = input[3];
		input += 4;
		size -= 4;
		if (length > size)
			length = size;
		if (length > sizeof(whole) - at)
			length = sizeof(whole) - at;
		must(pwrite(file, input, length, at) == (ssize_t)length);
		input += length;
		size -= length;
	}
}

static void repair(void)
{
	uint8_t block[IMAGE_BLOCK];
	uint64_t checksum;
	uint32_t i;

	/* A disk of 2^48 bytes is allowed, and takes long: set the upper bytes of the size to 0. */
	for (i = 0; i < BLOCKS; i++) {
		must(pread(file, block, IMAGE_BLOCK, i * IMAGE_BLOCK) == IMAGE_BLOCK);
		if (memcmp(block, "RXD", 3))
			continue;
		if (memcmp(block, "RXDFRAME", 8))
			memset(block + 28, 0, 4);
		checksum = XXH3_64bits(block, IMAGE_BLOCK - 8);
		memcpy(block + IMAGE_BLOCK - 8, &checksum, 8);
		must(pwrite(file, block, IMAGE_BLOCK, i * IMAGE_BLOCK) == IMAGE_BLOCK);
	}
}

static void read_one(const struct log_head *head, const struct log_generation *generation)
{
	struct image_frame frame;
	struct log_reader reader;
	enum copy_step step;
	uint32_t i;

	if (log_reader_open(&reader, file, head, generation)) {
		reader.holes = generation->number % 2;
		while ((step = log_read(&reader, &frame, data)) == COPY_MORE) {
			must(frame.count && frame.count <= IMAGE_EXTENTS_MAX);
			must(frame.data <= IMAGE_FRAME_MAX);
			for (i = 0; i < frame.count; i++)
				must(frame.extents[i].length <= reader.header.size &&
				     frame.extents[i].start <=
				     reader.header.size - frame.extents[i].length);
		}
		must(step == COPY_END || *reader.walk.error);
	}
	log_reader_close(&reader);
}

int fuzz_input(const uint8_t *input, size_t size)
{
	struct image_start start;
	uint64_t taken;
	char *error;
	uint32_t i;

	if (!size)
		return 0;
	if (file < 0)
		make();
	must(!ftruncate(file, 0));
	must(pwrite(file, whole, sizeof(whole), 0) == sizeof(whole));
	change(input + 1, size - 1);
	if (*input & REPAIR)
		repair();
	must(!image_read_start(file, &start, &error));
	for (i = 0; !error && start.log && i < start.head.count; i++)
		read_one(&start.head, &start.head.generations[i]);
	if (*input & CLEAN && !error && start.log)
		generations_clean(file, &start.head, NULL, &taken, &error);
	free(error);
	return 0;
}
