// SPDX-License-Identifier: GPL-2.0-only
/*
 * Build and check the blocks that only images of version 2 have. Nothing here does I/O. Input
 * is not trusted.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "image/block.h"
#include "image/frame.h"
#include "image/log_format.h"

#define SEGMENT_MAGIC	"RXDSEGMT"

#define SEGMENT_WHOLE	(1U << 0)

struct generation_entry {
	uint64_t number;
	uint64_t time;
	uint64_t position;
	uint64_t data;
	uint8_t state[LOG_STATE];
};

struct head_block {
	struct block_start start;
	uint64_t sequence;
	uint64_t log;
	uint64_t end;
	uint64_t unneeded;
	uint64_t live;
	uint8_t boot[16];
	uint64_t diskseq;
	uint8_t before[LOG_STATE];
	uint32_t count;
	uint32_t pad;
	struct generation_entry generations[IMAGE_GENERATIONS_MAX];
	uint8_t reserved[864];
	uint64_t checksum;
};

struct segment_block {
	struct block_start start;
	uint64_t position;
	uint64_t first;
	uint64_t previous;
	uint32_t flags;
	uint32_t pad;
	struct generation_entry generation;
	uint64_t frames;
	uint64_t bytes;
	uint64_t digest;
	uint8_t reserved[IMAGE_BLOCK - 176];
	uint64_t checksum;
};

_Static_assert(sizeof(struct head_block) == IMAGE_BLOCK, "head");
_Static_assert(sizeof(struct segment_block) == IMAGE_BLOCK, "segment");

static struct generation_entry put_generation(const struct log_generation *generation)
{
	struct generation_entry entry = {
		.number = htole64(generation->number),
		.time = htole64(generation->time),
		.position = htole64(generation->position),
		.data = htole64(generation->data),
	};

	memcpy(entry.state, generation->state, LOG_STATE);
	return entry;
}

static struct log_generation get_generation(const struct generation_entry *entry)
{
	struct log_generation generation = {
		.number = le64toh(entry->number),
		.time = le64toh(entry->time),
		.position = le64toh(entry->position),
		.data = le64toh(entry->data),
	};

	memcpy(generation.state, entry->state, LOG_STATE);
	return generation;
}

/**
 * log_put_head - build a head, which belongs into slot @head->sequence % LOG_HEADS
 * @head: the head
 * @block: out
 */
void log_put_head(const struct log_head *head, void *block)
{
	struct head_block *out = block;
	uint32_t i;

	*out = (struct head_block){
		.sequence = htole64(head->sequence),
		.log = htole64(head->log),
		.end = htole64(head->end),
		.unneeded = htole64(head->unneeded),
		.live = htole64(head->live),
		.diskseq = htole64(head->writer.diskseq),
		.count = htole32(head->count),
	};
	block_put_start(&out->start, LOG_VERSION, &head->header);
	memcpy(out->boot, head->writer.boot, sizeof(out->boot));
	memcpy(out->before, head->before, sizeof(out->before));
	for (i = 0; i < head->count; i++)
		out->generations[i] = put_generation(&head->generations[i]);
	block_seal(block, IMAGE_MAGIC);
}

/* The segments lie in the log in the order of their numbers. */
static const char *generations_error(const struct log_head *head)
{
	uint64_t number = 0, reached = LOG_BEGIN;
	const struct log_generation *generation;
	uint32_t i;

	for (i = 0; i < head->count; i++) {
		generation = &head->generations[i];
		if (generation->number <= number)
			return "its generations are not in order";
		if (generation->position % IMAGE_BLOCK || generation->position < reached ||
		    generation->position >= head->end)
			return "the position of a generation is not allowed";
		number = generation->number;
		reached = generation->position + IMAGE_BLOCK;
	}
	return reached == head->end ? NULL : "it does not end with its newest generation";
}

static const char *head_error(const struct log_head *head, const struct head_block *in,
			      unsigned int slot)
{
	if (head->sequence % LOG_HEADS != slot)
		return "it is in the wrong place";
	if (!head->count || head->count > IMAGE_GENERATIONS_MAX)
		return "the number of its generations is not allowed";
	if (head->end % IMAGE_BLOCK || head->end > LOG_END_MAX)
		return "its end is not allowed";
	if (in->pad || !block_is_clear(in->generations + head->count,
				       (IMAGE_GENERATIONS_MAX - head->count) *
				       sizeof(*in->generations)) ||
	    !block_is_clear(in->reserved, sizeof(in->reserved)))
		return "reserved bytes are not zero";
	return NULL;
}

/**
 * log_get_head - read a head
 * @head: out
 * @block: the block
 * @slot: its place, 0 or 1
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *log_get_head(struct log_head *head, const void *block, unsigned int slot)
{
	const struct head_block *in = block;
	const char *error;
	uint32_t i;

	*head = (struct log_head){ 0 };
	if (!image_is_known(block) || !block_is_intact(block))
		return format_text("is damaged: the checksum of the head, at byte %u, is wrong",
				   slot * IMAGE_BLOCK);
	if (le32toh(in->start.version) != LOG_VERSION)
		return format_text("has version %u, not %u", le32toh(in->start.version),
				   LOG_VERSION);
	error = block_get_start(&in->start, &head->header);
	if (!error) {
		head->sequence = le64toh(in->sequence);
		head->log = le64toh(in->log);
		head->end = le64toh(in->end);
		head->unneeded = le64toh(in->unneeded);
		head->live = le64toh(in->live);
		memcpy(head->writer.boot, in->boot, sizeof(in->boot));
		head->writer.diskseq = le64toh(in->diskseq);
		memcpy(head->before, in->before, sizeof(in->before));
		head->count = le32toh(in->count);
		error = head_error(head, in, slot);
	}
	for (i = 0; !error && i < head->count; i++)
		head->generations[i] = get_generation(&in->generations[i]);
	if (!error)
		error = generations_error(head);
	return error ? format_text("is wrong at byte %u, the head: %s", slot * IMAGE_BLOCK, error) :
		       NULL;
}

/* Check whether a block says that it is a head. */
bool log_is_head(const void *block)
{
	const struct head_block *head = block;

	return image_is_known(block) && le32toh(head->start.version) == LOG_VERSION;
}

/**
 * log_choose_head - read the newest head of an image
 * @head: out
 * @blocks: the first LOG_HEADS blocks of the file
 * @damaged: out: only one of the two heads is valid
 *
 * Return: NULL, or allocated text that says why no head is valid.
 */
char *log_choose_head(struct log_head *head, const void *blocks, bool *damaged)
{
	const char *second = (const char *)blocks + IMAGE_BLOCK;
	char *error, *other_error;
	struct log_head other;

	error = log_get_head(head, blocks, 0);
	other_error = log_get_head(&other, second, 1);
	/* A new image has one head. */
	*damaged = error ? !other_error : other_error && (head->sequence != LOG_HEADS ||
							  !block_is_clear(second, IMAGE_BLOCK));
	if (!other_error && (error || other.sequence > head->sequence)) {
		free(error);
		error = NULL;
		*head = other;
	}
	free(other_error);
	return error;
}

/**
 * log_begin_segment - begin to write or to read the frames of a segment
 * @frames: out
 * @header: the disk
 * @log: identity of the log
 * @position: where the first frame is
 */
void log_begin_segment(struct image *frames, const struct image_header *header, uint64_t log,
		       uint64_t position)
{
	*frames = (struct image){ .header = *header, .log = true, .position = position };
	frames->header.id = log;
}

/**
 * log_put_segment - build the block that ends a segment
 * @segment: the segment; of its generation, the position is not needed
 * @block: out
 */
void log_put_segment(const struct log_segment *segment, void *block)
{
	struct segment_block *out = block;

	*out = (struct segment_block){
		.position = htole64(segment->position),
		.first = htole64(segment->first),
		.previous = htole64(segment->previous),
		.flags = htole32(segment->whole ? SEGMENT_WHOLE : 0),
		.generation = put_generation(&segment->generation),
		.frames = htole64(segment->frames),
		.bytes = htole64(segment->bytes),
		.digest = htole64(segment->digest),
	};
	out->generation.position = 0;
	block_put_start(&out->start, LOG_VERSION, &segment->header);
	block_seal(block, SEGMENT_MAGIC);
}

static const char *segment_error(const struct log_segment *segment,
				 const struct segment_block *in, uint64_t log, uint64_t position)
{
	if (segment->header.id != log)
		return "it belongs to another image";
	if (segment->position != position)
		return "it is in the wrong place";
	if (segment->first % IMAGE_BLOCK || segment->first < LOG_BEGIN || segment->first > position)
		return "the position of its frames is not allowed";
	/* The block of the previous segment precedes the frames. */
	if (segment->previous && (segment->previous < LOG_BEGIN ||
				  segment->previous != segment->first - IMAGE_BLOCK))
		return "the position of the segment before it is not allowed";
	if (!segment->whole && !segment->previous)
		return "it has only changes, and no segment before it";
	if (!segment->generation.number)
		return "it has no number";
	if (le32toh(in->flags) & ~SEGMENT_WHOLE || in->pad || in->generation.position ||
	    !block_is_clear(in->reserved, sizeof(in->reserved)))
		return "reserved bytes are not zero";
	return NULL;
}

/**
 * log_get_segment - read the block that ends a segment
 * @segment: out
 * @block: the block
 * @log: identity of the log
 * @position: of the block in the image
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *log_get_segment(struct log_segment *segment, const void *block, uint64_t log,
		      uint64_t position)
{
	const struct segment_block *in = block;
	const char *error;

	*segment = (struct log_segment){ 0 };
	if (!block_has_magic(block, SEGMENT_MAGIC) || !block_is_intact(block))
		return format_text("is damaged: the checksum of the segment at byte %llu is wrong",
				   (unsigned long long)position);
	error = le32toh(in->start.version) != LOG_VERSION ? "it has another version" :
		block_get_start(&in->start, &segment->header);
	if (!error) {
		segment->position = le64toh(in->position);
		segment->first = le64toh(in->first);
		segment->previous = le64toh(in->previous);
		segment->whole = le32toh(in->flags) & SEGMENT_WHOLE;
		segment->generation = get_generation(&in->generation);
		segment->frames = le64toh(in->frames);
		segment->bytes = le64toh(in->bytes);
		segment->digest = le64toh(in->digest);
		error = segment_error(segment, in, log, position);
	}
	segment->generation.position = position;
	return error ? format_text("is wrong at byte %llu, the segment: %s",
				   (unsigned long long)position, error) : NULL;
}

/**
 * log_get_frame - read the next frame of a segment, or check that there is none
 * @frames: the state of reading
 * @segment: the segment
 * @block: the block at the position of @frames
 * @frame: out, unless @frames has ended
 *
 * Return: NULL, or allocated text that says what is wrong.
 */
char *log_get_frame(struct image *frames, const struct log_segment *segment, const void *block,
		    struct image_frame *frame)
{
	uint64_t position = frames->position;

	if (position == segment->position) {
		frames->ended = true;
		return frames->frames == segment->frames && frames->data == segment->bytes &&
		       frames->digest == segment->digest ? NULL :
		       format_text("is wrong at byte %llu, the segment: its frames do not match",
				   (unsigned long long)position);
	}
	if (position > segment->position)
		return format_text("is wrong at byte %llu, the segment: its frames are too long",
				   (unsigned long long)segment->position);
	if (!image_is_frame(block) || !block_is_intact(block))
		return format_text("is damaged: the checksum of the frame at byte %llu is wrong",
				   (unsigned long long)position);
	return image_get_frame(frames, block, frame);
}
