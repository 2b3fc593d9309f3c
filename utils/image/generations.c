// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which generations an image has, what in its file none of them needs, and whether the file has
 * become too long.
 *
 * The data of a page in segment s that a later segment t has again is needed if the image has a
 * generation g with s <= g < t. The segments are visited from the newest to the oldest. For each
 * page, a byte counts the generations that are not older than t. If more generations are not older
 * than s, the page in s is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "image/frame.h"
#include "image/generations.h"
#include "image/log_read.h"

/*
 * When SEARCH_PERCENT of the needed data may have become unneeded since the last search, the file
 * is searched for unneeded data, which becomes holes. If more than REWRITE_PERCENT of unneeded data
 * remain, the file is rewritten. The percentages are of NEEDED_MIN, if there is less needed data.
 */
#define SEARCH_PERCENT	5
#define REWRITE_PERCENT	12
#define NEEDED_MIN	(3 << 19)

/*
 * What a rewritten file takes beside data: two blocks for the pages of a frame that has the most
 * extents, three for a generation, and the heads.
 */
#define FRAME_BYTES		(IMAGE_EXTENTS_MAX * IMAGE_PAGE)
#define FRAME_BLOCKS		2
#define GENERATION_BLOCKS	3

/* Rewrite a file that is longer. */
#define LENGTH_TIMES	16
#define LENGTH_BYTES	(UINT64_C(1) << 30)

const struct log_generation *generation_find(const struct log_head *head, uint64_t number)
{
	uint32_t i;

	for (i = 0; i < head->count; i++)
		if (head->generations[i].number == number)
			return &head->generations[i];
	return NULL;
}

/* Write when a generation was saved: the local time for users, or UTC for programs. */
void generation_time(const struct log_generation *generation, bool utc, char *text, size_t size)
{
	time_t time = generation->time;
	struct tm tm;
	bool good;

	if (utc)
		good = gmtime_r(&time, &tm) && strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
	else
		good = localtime_r(&time, &tm) && strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm);
	if (!good)
		snprintf(text, size, "-");
}

/* List the numbers of the generations, as allocated text. */
char *generations_list(const struct log_head *head)
{
	char *text = NULL;
	uint32_t i;

	for (i = 0; i < head->count; i++)
		append_text(&text, "%s%llu", i ? ", " : "",
			    (unsigned long long)head->generations[i].number);
	return text;
}

static int random_number(uint64_t *number)
{
	return getrandom(number, sizeof(*number), 0) == sizeof(*number) ? 0 : EIO;
}

/**
 * generations_begin - prepare the first segment of a new image
 * @head: out: a head without generations, whose writer and before may be set
 * @header: the disk
 * @segment: in: its generation; out: all that append_segment() needs
 *
 * Return: 0 or an errno.
 */
int generations_begin(struct log_head *head, const struct image_header *header,
		      struct log_segment *segment)
{
	/* The first head goes to the first slot, so that the file begins with its magic. */
	*head = (struct log_head){ .header = *header, .sequence = LOG_HEADS - 1, .end = LOG_BEGIN };
	segment->header = *header;
	segment->first = LOG_BEGIN;
	segment->whole = true;
	if (random_number(&head->log))
		return EIO;
	segment->header.id = head->log;
	return 0;
}

/**
 * generations_add - make the head of an image to which a segment was appended
 * @head: the head; its writer is set
 * @segment: the segment
 * @keep: number of generations to keep
 * @written: bytes that were appended
 *
 * Return: 0 or an errno.
 */
int generations_add(struct log_head *head, const struct log_segment *segment, unsigned int keep,
		    uint64_t written)
{
	uint32_t drop = head->count >= keep ? head->count - keep + 1 : 0;
	const struct log_generation *oldest;

	head->header = segment->header;
	if (random_number(&head->header.id))
		return EIO;
	if (head->count)
		memcpy(head->before, log_newest(head)->state, LOG_STATE);
	/* What only dropped generations need was replaced or discarded by those after them. */
	if (drop) {
		oldest = drop < head->count ? &head->generations[drop] : &segment->generation;
		head->unneeded += oldest->position - head->generations[0].position;
		if (head->generations[0].data > oldest->data)
			head->unneeded += head->generations[0].data - oldest->data;
	}
	head->count -= drop;
	memmove(head->generations, head->generations + drop,
		head->count * sizeof(*head->generations));
	head->generations[head->count++] = segment->generation;
	head->sequence++;
	head->end = segment->position + IMAGE_BLOCK;
	head->live += written;
	return 0;
}

static bool is_part(uint64_t bytes, uint64_t needed, unsigned int percent)
{
	return bytes > (needed < NEEDED_MIN ? NEEDED_MIN : needed) / 100 * percent;
}

/* Check whether to search the file for data that no generation needs. */
bool generations_need_cleaning(const struct log_head *head)
{
	uint64_t needed = head->live > head->unneeded ? head->live - head->unneeded : 0;

	return is_part(head->unneeded, needed, SEARCH_PERCENT);
}

#define PART_PAGES	4096

/* Pages of the disk. A disk may be much larger than its data, so most parts have no array. */
struct part {
	uint8_t *newer;		/* for each page: generations not older than its later segment */
	uint8_t newer_all;	/* without the array: of all pages */
};

/* The state of a search for what no generation needs. */
struct clean {
	struct log_walk walk;
	const struct log_head *head;
	bool (*stopped)(void);
	struct part *parts;
	uint64_t nr_parts;
	uint8_t newer_any;	/* of all pages, at least */
	uint8_t newer;		/* generations not older than the present segment */
	bool unsupported;	/* holes */
	bool no_memory;
	uint64_t live;
	uint64_t holes;		/* what was punched out of the segments, now or before */
};

static void punch(struct clean *clean, uint64_t start, uint64_t length)
{
	off_t data;

	if (!length || clean->unsupported)
		return;
	/* It may be a hole already. */
	data = lseek(clean->walk.fd, start, SEEK_DATA);
	if (data < 0 ? errno != ENXIO : (uint64_t)data < start + length)
		clean->unsupported = fallocate(clean->walk.fd,
					       FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					       start, length);
	if (!clean->unsupported)
		clean->holes += length;
}

/* Make room for the pages of a segment. */
static bool grow(struct clean *clean)
{
	uint64_t nr = clean->walk.segment.header.size / IMAGE_PAGE / PART_PAGES + 1;
	struct part *parts;

	if (nr <= clean->nr_parts)
		return true;
	parts = calloc(nr, sizeof(*parts));
	if (!parts)
		return false;
	if (clean->nr_parts)
		memcpy(parts, clean->parts, clean->nr_parts * sizeof(*parts));
	free(clean->parts);
	clean->parts = parts;
	clean->nr_parts = nr;
	return true;
}

/* Does a generation need this page of the present segment? Note that this one has it. */
static bool take_page(struct clean *clean, uint64_t start)
{
	struct part *part = &clean->parts[start / IMAGE_PAGE / PART_PAGES];
	uint64_t page = start / IMAGE_PAGE % PART_PAGES;
	uint8_t newer = part->newer ? part->newer[page] : part->newer_all;

	if (newer >= clean->newer || clean->newer_any >= clean->newer)
		return false;
	if (!part->newer) {
		part->newer = malloc(PART_PAGES);
		if (!part->newer) {
			clean->no_memory = true;
			return true;
		}
		memset(part->newer, part->newer_all, PART_PAGES);
	}
	part->newer[page] = clean->newer;
	return true;
}

/* Note what the present segment has as holes, which may be as long as the disk. */
static void take_holes(struct clean *clean, const struct image_frame *frame)
{
	const uint64_t length = PART_PAGES * IMAGE_PAGE;
	uint64_t at, end;
	struct part *part;
	uint32_t i;

	for (i = 0; i < frame->count; i++) {
		at = frame->extents[i].start;
		end = at + frame->extents[i].length;
		while (at < end) {
			part = &clean->parts[at / length];
			if (at % length || end - at < length) {
				take_page(clean, at);
				at += IMAGE_PAGE;
				continue;
			}
			free(part->newer);
			*part = (struct part){ .newer_all = clean->newer };
			at += length;
		}
	}
}

/* Go through the pages of a raw frame, and punch out those that are not needed. */
static uint64_t take_pages(struct clean *clean, const struct image_frame *frame)
{
	const bool raw = frame->encoding == IMAGE_RAW;
	uint64_t data = frame->position + 2 * IMAGE_BLOCK;
	uint64_t at, live = 0, offset = 0, dead = 0;	/* dead: where a run of such pages begins */
	uint32_t i;

	for (i = 0; i < frame->count; i++) {
		for (at = 0; at < frame->extents[i].length; at += IMAGE_PAGE) {
			if (take_page(clean, frame->extents[i].start + at)) {
				if (raw)
					punch(clean, data + dead, offset - dead);
				dead = offset + IMAGE_PAGE;
				live += IMAGE_PAGE;
			}
			offset += IMAGE_PAGE;
		}
	}
	if (raw && live)
		punch(clean, data + dead, offset - dead);
	return live;
}

static void take_frame(struct clean *clean, const struct image_frame *frame)
{
	uint64_t live;

	if (frame->encoding == IMAGE_HOLE) {
		take_holes(clean, frame);
		clean->live += IMAGE_BLOCK;
		return;
	}
	live = take_pages(clean, frame);
	if (!live)
		punch(clean, frame->position + IMAGE_BLOCK, image_payload(frame));
	else	/* what a rewritten file takes for it, at most */
		clean->live += frame->stored * live / frame->data +
			       live * FRAME_BLOCKS * IMAGE_BLOCK / FRAME_BYTES;
}

static uint8_t count_newer(const struct log_head *head, uint64_t number)
{
	uint32_t older = 0;

	while (older < head->count && head->generations[older].number < number)
		older++;
	return head->count - older;
}

/* Go through the frames of the present segment. Return: whether all is well so far. */
static bool take_segment(struct clean *clean)
{
	struct image_frame frame;
	enum copy_step step;

	clean->newer = count_newer(clean->head, clean->walk.segment.generation.number);
	if (!grow(clean))
		return false;
	do {
		if (clean->stopped && clean->stopped())
			return false;
		step = log_walk_frame(&clean->walk, &frame);
		if (step == COPY_MORE)
			take_frame(clean, &frame);
	} while (step == COPY_MORE);
	if (step == COPY_FAILED || clean->no_memory)
		return false;
	/* No page is needed from before, for the generations from this one on. */
	if (clean->walk.segment.whole)
		clean->newer_any = clean->newer;
	return true;
}

/**
 * generations_clean - punch out of an image what none of its generations needs
 * @fd: the image
 * @head: its head; both heads have these generations, and are synced; out: what is live, unless
 *	this was interrupted
 * @stopped: returns whether to stop early; may be NULL
 * @taken: out: bytes of the file that are no holes, as far as the file system supports them
 * @error: out: allocated text that says how the newest generation is damaged, or NULL
 *
 * Return: whether everything was looked at.
 */
bool generations_clean(int fd, struct log_head *head, bool (*stopped)(void), uint64_t *taken,
		       char **error)
{
	struct clean clean = { .head = head, .stopped = stopped };
	bool good, oldest = false;
	uint64_t i;

	log_walk_begin(&clean.walk, fd, head->log);
	good = log_walk_to(&clean.walk, log_newest(head)->position);
	while (good) {
		good = take_segment(&clean);
		/* Nothing needs what precedes the whole disk of the oldest generation. */
		oldest = good && clean.walk.segment.whole && clean.newer == head->count;
		if (!good || oldest)
			break;
		good = log_walk_back(&clean.walk);
	}
	if (oldest)
		punch(&clean, LOG_BEGIN, clean.walk.segment.first - LOG_BEGIN);
	/* Segments before that of a whole disk are not part of the newest generation. */
	*error = clean.newer_any ? NULL : clean.walk.error;
	if (*error)
		clean.walk.error = NULL;
	log_walk_end(&clean.walk);
	for (i = 0; i < clean.nr_parts; i++)
		free(clean.parts[i].newer);
	free(clean.parts);
	if (!good)
		return false;
	head->live = clean.live + LOG_BEGIN + head->count * GENERATION_BLOCKS * IMAGE_BLOCK;
	head->unneeded = 0;
	*taken = head->end - clean.holes;
	return true;
}

/**
 * generations_need_rewriting - check whether to rewrite a file that was cleaned
 * @head: its head
 * @taken: bytes of it that are no holes
 */
bool generations_need_rewriting(const struct log_head *head, uint64_t taken)
{
	return (taken > head->live && is_part(taken - head->live, head->live, REWRITE_PERCENT)) ||
	       head->end > head->live * LENGTH_TIMES + LENGTH_BYTES;
}
