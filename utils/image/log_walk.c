// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read the blocks of an image that can be updated: its heads, and its segments from the newest
 * to older ones. Input is not trusted: each step leads to a lower position.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "copy/file.h"
#include "image/log_read.h"

/**
 * image_read_start - read the header of an image, or its newest head
 * @fd: the file
 * @start: out
 * @error: out: NULL, or allocated text that says why the file is no image
 *
 * Return: 0 or an errno.
 */
int image_read_start(int fd, struct image_start *start, char **error)
{
	void *blocks = aligned_alloc(COPY_ALIGN, LOG_BEGIN);
	char *log_error = NULL;
	int err;

	*error = NULL;
	*start = (struct image_start){ 0 };
	if (!blocks)
		return ENOMEM;
	memset(blocks, 0, LOG_BEGIN);
	err = file_read(fd, blocks, LOG_BEGIN, 0, &start->length);
	if (!err)
		*error = image_get_header(&start->image, blocks);
	if (*error) {
		log_error = log_choose_head(&start->head, blocks, &start->damaged);
		start->log = !log_error;
	}
	/* If the first head is damaged, the other one tells what the file is. */
	if (*error && (start->log || log_is_head(blocks))) {
		free(*error);
		*error = log_error;
		log_error = NULL;
	}
	free(log_error);
	free(blocks);
	return err;
}

void log_walk_begin(struct log_walk *walk, int fd, uint64_t log)
{
	*walk = (struct log_walk){ .fd = fd, .log = log };
	walk->block = aligned_alloc(COPY_ALIGN, IMAGE_BLOCK);
}

void log_walk_end(struct log_walk *walk)
{
	free(walk->block);
	free(walk->error);
	walk->block = NULL;
	walk->error = NULL;
}

static bool walk_wrong(struct log_walk *walk, enum exit_code code, char *error)
{
	free(walk->error);
	walk->error = error;
	walk->code = code;
	return false;
}

/* Return: where the file ends, which is at or before a position. */
static unsigned long long end_before(int fd, uint64_t position)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size < position ?
	       (uint64_t)st.st_size : position;
}

/* Read a part of the image. Return: whether it is there. */
bool log_walk_read(struct log_walk *walk, void *data, size_t length, uint64_t offset)
{
	size_t done = 0;
	int err = data ? file_read(walk->fd, data, length, offset, &done) : ENOMEM;

	if (err)
		return walk_wrong(walk, exit_code_of(err),
				  format_text("cannot be read at byte %llu: %s",
					      (unsigned long long)offset + done, strerror(err)));
	return done == length ||
	       walk_wrong(walk, EXIT_PARAMETERS,
			  format_text("is truncated at byte %llu",
				      end_before(walk->fd, offset + done)));
}

/**
 * log_walk_to - go to a segment
 * @walk: the walk
 * @position: of the segment's block
 *
 * Return: whether it is valid. Its frames come next.
 */
bool log_walk_to(struct log_walk *walk, uint64_t position)
{
	char *error;

	if (!log_walk_read(walk, walk->block, IMAGE_BLOCK, position))
		return false;
	error = log_get_segment(&walk->segment, walk->block, walk->log, position);
	if (error)
		return walk_wrong(walk, EXIT_PARAMETERS, error);
	log_begin_segment(&walk->frames, &walk->segment.header, walk->log, walk->segment.first);
	return true;
}

/* Go to the segment before the present one, of which this one has the changes, if not whole. */
bool log_walk_back(struct log_walk *walk)
{
	const struct log_segment after = walk->segment;
	const char *error = NULL;

	if (!log_walk_to(walk, after.previous))
		return false;
	if (walk->segment.generation.number >= after.generation.number)
		error = "it does not precede the one after it";
	else if (!after.whole && walk->segment.header.size != after.header.size)
		error = "it has another size than the one after it";
	if (!error)
		return true;
	return walk_wrong(walk, EXIT_PARAMETERS,
			  format_text("is wrong at byte %llu, the segment: %s",
				      (unsigned long long)after.previous, error));
}

/**
 * log_walk_frame - read the next frame's block of the segment
 * @walk: the walk
 * @frame: out
 *
 * Return: COPY_END: there are no more frames.
 */
enum copy_step log_walk_frame(struct log_walk *walk, struct image_frame *frame)
{
	char *error;

	if (walk->frames.ended)
		return COPY_END;
	if (walk->frames.position < walk->segment.position &&
	    !log_walk_read(walk, walk->block, IMAGE_BLOCK, walk->frames.position))
		return COPY_FAILED;
	error = log_get_frame(&walk->frames, &walk->segment, walk->block, frame);
	if (error) {
		walk_wrong(walk, EXIT_PARAMETERS, error);
		return COPY_FAILED;
	}
	return walk->frames.ended ? COPY_END : COPY_MORE;
}
