// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading an image to be loaded, of each format.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "copy/file.h"
#include "copy/stream.h"
#include "image/frame.h"
#include "image/generations.h"
#include "image/load_job.h"
#include "image/log_file.h"
#include "image/names.h"

#define NO_GENERATIONS	"has no generations, because it was saved without --update"

enum copy_step load_wrong(struct load_job *job, char **error, char *reason)
{
	*error = format_text("image '%s': %s", job->args->file, reason);
	job->code = EXIT_PARAMETERS;
	free(reason);
	return COPY_FAILED;
}

/* Read a part of the image, up to its end. A stream is read in sequence. */
static enum copy_step read_up_to(struct load_job *job, void *data, size_t length, uint64_t offset,
				 size_t *done)
{
	int err;

	if (job->args->stream)
		err = stream_read(&job->copy, job->image_fd, data, length, done);
	else
		err = file_read(job->image_fd, data, length, offset, done);
	if (!err)
		return COPY_MORE;
	if (err == ECANCELED)
		return COPY_END;
	job->read_error = format_text("image '%s': cannot be read at byte %llu: %s",
				      job->args->file, (unsigned long long)offset + *done,
				      strerror(err));
	job->code = exit_code_of(err);
	return COPY_FAILED;
}

/* Read a part of the image; fail if the image ends within it. */
static enum copy_step read_part(struct load_job *job, void *data, size_t length, uint64_t offset)
{
	size_t done;
	enum copy_step step = read_up_to(job, data, length, offset, &done);

	if (step == COPY_MORE && done < length)
		return load_wrong(job, &job->read_error,
				   format_text("is truncated at byte %llu",
					       (unsigned long long)offset + done));
	return step;
}

static enum copy_step end_image(struct load_job *job)
{
	enum copy_step step;
	size_t more;

	step = read_up_to(job, job->block, IMAGE_BLOCK, job->image.position, &more);
	if (step != COPY_MORE)
		return step;
	if (more)
		return load_wrong(job, &job->read_error,
				   format_text("is wrong at byte %llu: data follows its end block",
					       (unsigned long long)job->image.position));
	return COPY_END;
}

static enum copy_step read_image(void *context, struct copy_chunk *chunk)
{
	struct load_job *job = context;
	struct image_frame *frame = chunk->note;
	enum copy_step step;
	char *error;

	error = image_get_block(&job->image, job->block, frame);
	if (error)
		return load_wrong(job, &job->read_error, error);
	if (job->image.ended)
		return end_image(job);

	/* Read the payload together with the block that follows it. */
	chunk->length = image_payload(frame);
	chunk->offset = frame->position + IMAGE_BLOCK;
	step = read_part(job, chunk->data, chunk->length + IMAGE_BLOCK, chunk->offset);
	if (step == COPY_MORE)
		memcpy(job->block, (char *)chunk->data + chunk->length, IMAGE_BLOCK);
	return step;
}

/* Find the next range that is not a hole, in whole pages. */
static void find_data(struct load_job *job)
{
	file_next_data(job->image_fd, job->data_end, job->image.header.size, &job->data_start,
		       &job->data_end);
	job->data_start -= job->data_start % IMAGE_PAGE;
	job->data_end += -job->data_end % IMAGE_PAGE;
}

/* Read the data of a plain disk image, without holes and zeros. */
static enum copy_step read_raw(void *context, struct copy_chunk *chunk)
{
	struct image_frame *frame = chunk->note;
	struct load_job *job = context;
	enum copy_step step;
	uint64_t length;

	frame->count = 0;
	while (!frame->count) {
		if (job->data_end <= job->data_start)
			find_data(job);
		if (copy_stopped(&job->copy))
			return COPY_END;
		if (job->data_start == job->image.header.size)
			return file_was_written(job->image_fd, &job->opened) ?
			       load_wrong(job, &job->read_error,
					  copy_text("another process wrote to it meanwhile")) :
			       COPY_END;
		length = job->data_end - job->data_start;
		if (length > IMAGE_FRAME_MAX)
			length = IMAGE_FRAME_MAX;
		frame->count = 1;
		frame->extents[0] = (struct image_extent){ job->data_start, length };
		step = read_part(job, chunk->data, length, job->data_start);
		if (step != COPY_MORE)
			return step;
		copy_count(&job->copy.counts.zeroes,
			   image_leave_out_zeros(frame, chunk->data, &job->data_start));
	}
	return COPY_MORE;
}

/* Read data of the generation of an image of version 2. */
static enum copy_step read_log(void *context, struct copy_chunk *chunk)
{
	struct load_job *job = context;
	enum copy_step step = log_read(&job->reader, chunk->note, chunk->data);

	if (step != COPY_FAILED)
		return step;
	load_wrong(job, &job->read_error, job->reader.walk.error);
	job->reader.walk.error = NULL;
	job->code = job->reader.walk.code;
	return step;
}

enum copy_step load_read(void *context, struct copy_chunk *chunk)
{
	struct load_job *job = context;

	if (job->log)
		return read_log(context, chunk);
	return job->args->raw ? read_raw(context, chunk) : read_image(context, chunk);
}

static enum exit_code header_wrong(struct load_job *job, char *error)
{
	report(EXIT_PARAMETERS, "image '%s': %s", job->args->file, error);
	free(error);
	return EXIT_PARAMETERS;
}

/* Find the generation in an image of version 2. */
static enum exit_code begin_log(struct load_job *job)
{
	const uint64_t number = job->args->generation;
	const struct log_generation *generation;
	char *list;

	generation = number ? generation_find(&job->head, number) : log_newest(&job->head);
	if (!generation) {
		list = generations_list(&job->head);
		report(EXIT_PARAMETERS, "image '%s': has no generation %llu; it has %s",
		       job->args->file, (unsigned long long)number, list);
		free(list);
		return EXIT_PARAMETERS;
	}
	log_reader_close(&job->reader);
	if (!log_reader_open(&job->reader, job->image_fd, &job->head, generation))
		return report(job->reader.walk.code, "image '%s': %s", job->args->file,
			      job->reader.walk.error);
	job->reader.copy = &job->copy;
	job->image.header = job->reader.header;
	job->image.header.id = job->head.header.id;
	return EXIT_OK;
}

static void read_heads(struct load_job *job)
{
	struct image_start start;
	char *error;
	int err;

	err = image_read_start(job->image_fd, &start, &error);
	job->log = !err && !error && start.log;
	if (job->log)
		job->head = start.head;
	job->damaged = job->log && start.damaged;
	free(error);
}

/* Read the heads of an image of version 2, unless it has another version, which never changes. */
static enum exit_code look_for_log(struct load_job *job)
{
	enum exit_code ret;

	read_heads(job);
	if (!job->log)
		return EXIT_OK;
	ret = log_lock(job->image_fd, job->args->file, true);
	if (ret)
		return ret;
	read_heads(job);
	return job->log ? begin_log(job) : EXIT_OK;
}

/* Read the header of an image of version 1, and the block after it. */
static enum exit_code begin_stream(struct load_job *job)
{
	char *error = NULL;
	size_t done;

	memset(job->block, 0, IMAGE_BLOCK);
	if (read_up_to(job, job->block, IMAGE_BLOCK, 0, &done) != COPY_MORE)
		return report(job->code, "%s", job->read_error);
	if (!done)
		error = copy_text("is empty");
	else if (done < IMAGE_BLOCK && image_is_known(job->block))
		error = format_text("is truncated: it ends at byte %zu, within its header", done);
	else if (!log_is_head(job->block))
		error = image_get_header(&job->image, job->block);
	else if (job->args->stream)
		error = copy_text("was saved with --update; load it from a file, not from stdin");
	else
		error = copy_text("is damaged: neither of its heads is valid");
	if (error)
		return header_wrong(job, error);
	if (job->args->generation)
		return header_wrong(job, copy_text(NO_GENERATIONS));
	if (read_part(job, job->block, IMAGE_BLOCK, IMAGE_BLOCK) == COPY_MORE)
		return EXIT_OK;
	return report(job->code, "%s", job->read_error);
}

/**
 * load_begin - prepare to read the data of an image; called again after the verification
 * @job: the image is open; out: its header
 */
enum exit_code load_begin(struct load_job *job)
{
	enum exit_code ret;

	if (!job->args->stream) {
		ret = look_for_log(job);
		if (ret || job->log)
			return ret;
	}
	return begin_stream(job);
}

enum exit_code load_open(struct load_job *job)
{
	const char *path = job->args->file;
	int err;

	if (job->args->stream) {
		job->image_fd = STDIN_FILENO;
		return EXIT_OK;
	}
	/* Opening a pipe must not wait for a writer. */
	err = file_open(path, O_RDONLY | O_NONBLOCK, true, &job->image_fd);
	if (!err && fstat(job->image_fd, &job->opened))
		err = errno;
	if (err)
		return report(exit_code_of(err), "image '%s': %s", path, strerror(err));
	if (!S_ISREG(job->opened.st_mode))
		return report(EXIT_PARAMETERS, "image '%s': is not a regular file", path);
	job->image.header.size = job->opened.st_size;
	/* The disk that was saved may have held an image, so this is no error. */
	if (job->args->raw && image_peek(path).size)
		report(EXIT_OK,
		       "note: image '%s': has the format rxd; leave out --format raw to load the disk that it holds",
		       path);
	if (!job->args->raw || (job->opened.st_size && !(job->opened.st_size % IMAGE_PAGE)))
		return EXIT_OK;
	return report(EXIT_PARAMETERS,
		      "image '%s': has %lld bytes; it must be a multiple of %u, and not empty",
		      path, (long long)job->opened.st_size, IMAGE_PAGE);
}

/**
 * image_generations - read which generations an image has
 * @file: the image
 * @head: out: its generations
 */
enum exit_code image_generations(const char *file, struct log_head *head)
{
	const struct load_args args = { .file = file };
	struct load_job job = { .args = &args, .image_fd = -1, .fd = -1 };
	enum exit_code ret = load_open(&job);

	if (!ret)
		ret = look_for_log(&job);
	if (!ret && !job.log) {
		job.block = aligned_alloc(COPY_ALIGN, IMAGE_BLOCK);
		ret = job.block ? begin_stream(&job) :
				  report(EXIT_MEMORY, "too little memory for the buffers");
		if (!ret)
			ret = header_wrong(&job, copy_text(NO_GENERATIONS));
		free(job.read_error);
		free(job.block);
	}
	if (!ret && job.damaged)
		log_tell_damage(job.image_fd, file, &job.head);
	*head = job.head;
	log_reader_close(&job.reader);
	if (job.image_fd >= 0)
		close(job.image_fd);
	return ret;
}
