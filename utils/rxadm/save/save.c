// SPDX-License-Identifier: GPL-2.0-only
/*
 * Saving a RAM disk to an image.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "copy/clock.h"
#include "copy/copy.h"
#include "copy/file.h"
#include "copy/stream.h"
#include "image/frame.h"
#include "image/names.h"
#include "kernel/disk_state.h"
#include "kernel/extents.h"
#include "kernel/saves.h"
#include "save/disk_access.h"
#include "save/save.h"
#include "save/save_source.h"

#define CHUNKS		4

enum stage {
	STAGE_HEADER,
	STAGE_FRAMES,
	STAGE_DONE,
};

/* The writer uses output and written, the reader the fields after them. */
struct job {
	struct copy_job copy;
	struct progress progress;
	struct save_args *args;
	const struct save_source *source;
	const struct device *dev;
	struct output output;
	uint64_t written;		/* end of the last write */

	enum stage stage;
	struct image image;
	uint64_t cursor;		/* everything before it is in frames, or zeros */
	void *scratch;			/* data to be compressed */
	struct extents extents;		/* the list of extents */

	char *read_error;
	char *write_error;
	int err;			/* errno of the failure */
};

static const char *result_text(const struct job *job)
{
	return job->args->stream ? "the image is incomplete" : "nothing was saved";
}

static enum copy_step read_failed(struct job *job, int err, char *text)
{
	job->read_error = text;
	job->err = err;
	return COPY_FAILED;
}

/* The disk, or its clone, cannot be read. */
static enum copy_step disk_failed(struct job *job, int err, char *why)
{
	char *lost = save_source_lost(job->source);
	char *text = format_text("%s '%s': %s%s%s", job->dev->what, job->dev->path,
				 lost ? lost : why, lost ? "; " : "",
				 lost ? result_text(job) : "");

	free(lost);
	free(why);
	return read_failed(job, err, text);
}

static enum copy_step write_failed(struct job *job, int err)
{
	if (err == ECANCELED)
		return COPY_END;
	job->write_error = format_text("file '%s': %s; %s", job->args->file, strerror(err),
				       result_text(job));
	job->err = err;
	return COPY_FAILED;
}

/* Find the next allocated extent from @from on. */
static enum copy_step find_extent(struct job *job, uint64_t from, struct image_extent *found)
{
	int err = extents_find(&job->extents, from, found);

	if (err)
		return disk_failed(job, err, format_text("its list of extents cannot be read: %s",
							 strerror(err)));
	return found->length ? COPY_MORE : COPY_END;
}

static enum copy_step read_extent(struct job *job, const struct image_extent *extent, void *data)
{
	size_t done;
	int err;

	err = file_read(job->source->fd, data, extent->length, extent->start, &done);
	if (!err && done < extent->length)
		err = EIO;
	if (!err)
		return COPY_MORE;
	return disk_failed(job, err,
			   format_text("cannot be read at byte %llu: %s",
				       (unsigned long long)extent->start, strerror(err)));
}

/* Read allocated extents into @data until the frame is full, and list them in the frame. */
static enum copy_step gather(struct job *job, struct image_frame *frame, char *data)
{
	enum copy_step step = COPY_MORE;
	uint64_t from = job->cursor;
	struct image_extent *extent;

	frame->count = 0;
	frame->data = 0;
	while (step == COPY_MORE && frame->count < IMAGE_EXTENTS_MAX &&
	       frame->data < IMAGE_FRAME_MAX) {
		extent = &frame->extents[frame->count];
		step = find_extent(job, from, extent);
		if (step != COPY_MORE)
			break;
		if (extent->length > IMAGE_FRAME_MAX - frame->data)
			extent->length = IMAGE_FRAME_MAX - frame->data;
		step = read_extent(job, extent, data + frame->data);
		from = extent->start + extent->length;
		frame->data += extent->length;
		frame->count++;
	}
	return step == COPY_FAILED ? step : COPY_MORE;
}

/* Leave out zeros. If that makes too many extents, read the rest again for the next frame. */
static void leave_out_zeros(struct job *job, struct image_frame *frame, char *data)
{
	struct copy_counts *counts = &job->copy.counts;
	uint64_t zeros, next;

	zeros = image_leave_out_zeros(frame, data, &next);
	copy_count(&counts->zeroes, zeros);
	copy_count(&counts->read_skipped, next - job->cursor - zeros - frame->data);
	copy_count(&counts->write_skipped, next - job->cursor - frame->data);
	job->cursor = next;
}

/* Store a frame in a chunk; compress its data unless it is already in place. */
static void put_frame(struct job *job, struct copy_chunk *chunk, const void *data)
{
	void *payload = (char *)chunk->data + IMAGE_BLOCK;
	struct image_frame *frame = chunk->note;

	image_fill_frame(&job->image, frame, job->args->compress ? job->args->level : 0, data,
			 payload);
	chunk->length = IMAGE_BLOCK + image_payload(frame);
	image_put_frame(&job->image, frame, payload, chunk->data);
}

static enum copy_step check_unchanged(struct job *job)
{
	if (save_source_unchanged(job->source))
		return COPY_MORE;
	return read_failed(job, EBUSY,
			   format_text("%s '%s': another process wrote to it during the save; %s",
				       job->dev->what, job->dev->path, result_text(job)));
}

/* Build the end block, if any. Check a stream before: without an end block it is invalid. */
static enum copy_step read_end(struct job *job, struct copy_chunk *chunk)
{
	uint64_t rest = job->image.header.size - job->cursor;

	if (job->args->stream && check_unchanged(job) == COPY_FAILED)
		return COPY_FAILED;
	copy_count(&job->copy.counts.read_skipped, rest);
	copy_count(&job->copy.counts.write_skipped, rest);
	if (job->args->raw)
		return COPY_END;
	image_put_end(&job->image, chunk->data);
	chunk->length = IMAGE_BLOCK;
	job->stage = STAGE_DONE;
	return COPY_MORE;
}

static enum copy_step read_frame(struct job *job, struct copy_chunk *chunk)
{
	char *data = job->args->compress ? job->scratch : (char *)chunk->data + IMAGE_BLOCK;
	struct image_frame *frame = chunk->note;
	enum copy_step step;

	do {
		if (copy_stopped(&job->copy))
			return COPY_END;
		step = gather(job, frame, data);
		if (step != COPY_MORE)
			return step;
		if (!frame->count)
			return read_end(job, chunk);
		leave_out_zeros(job, frame, data);
	} while (!frame->count);
	if (!job->args->raw)
		put_frame(job, chunk, data);
	return COPY_MORE;
}

static enum copy_step read_disk(void *context, struct copy_chunk *chunk)
{
	struct job *job = context;

	chunk->offset = job->image.position;
	switch (job->stage) {
	case STAGE_HEADER:
		image_put_header(&job->image, chunk->data);
		chunk->length = IMAGE_BLOCK;
		job->stage = STAGE_FRAMES;
		return COPY_MORE;
	case STAGE_FRAMES:
		return read_frame(job, chunk);
	default:
		return COPY_END;
	}
}

/* Write the next part, which may follow a hole. Return: as stream_write(). */
static int write_part(struct job *job, const void *data, uint64_t length, uint64_t offset)
{
	uint64_t hole = offset - job->written;
	int err;

	job->written = offset + length;
	job->args->written += length;
	if (!job->args->stream)
		return length ? file_write(job->output.fd, data, length, offset) : 0;
	err = stream_write_zeros(&job->copy, STDOUT_FILENO, hole);
	return err ? err : stream_write(&job->copy, STDOUT_FILENO, data, length);
}

static enum copy_step write_image(void *context, const struct copy_chunk *chunk)
{
	const struct image_frame *frame = chunk->note;
	struct job *job = context;
	int err = write_part(job, chunk->data, chunk->length, chunk->offset);

	if (err)
		return write_failed(job, err);
	copy_count(&job->copy.counts.copied, frame->data);
	return COPY_MORE;
}

static enum copy_step write_raw(void *context, const struct copy_chunk *chunk)
{
	const char *data = (const char *)chunk->data + IMAGE_BLOCK;
	const struct image_frame *frame = chunk->note;
	struct job *job = context;
	uint32_t i;
	int err;

	for (i = 0; i < frame->count; i++) {
		err = write_part(job, data, frame->extents[i].length, frame->extents[i].start);
		if (err)
			return write_failed(job, err);
		copy_count(&job->copy.counts.copied, frame->extents[i].length);
		data += frame->extents[i].length;
	}
	return COPY_MORE;
}

static enum copy_step sync_image(void *context)
{
	struct job *job = context;
	int err = 0;

	if (job->args->raw)
		err = write_part(job, NULL, 0, job->image.header.size);
	if (err)
		return write_failed(job, err);
	/* Pipes and the like cannot be synced. */
	if (!fsync(job->args->stream ? STDOUT_FILENO : job->output.fd) ||
	    (job->args->stream && errno == EINVAL))
		return COPY_END;
	return write_failed(job, errno);
}

static enum exit_code check_own(struct job *job)
{
	const char *sequence = job->source->sequence;

	return job->args->own && (disk_images_are_old(sequence, job->source->images) ||
				  !image_may_take_name(&job->output, sequence, job->args->folder)) ?
	       image_kept_error(job->args->file) : EXIT_OK;
}

static enum exit_code commit(struct job *job)
{
	const char *sequence = job->source->sequence;
	struct save_args *args = job->args;
	struct output *output = &job->output;
	const struct stat written = output->st;
	enum exit_code ret;
	char *path = NULL;
	int err = 0;

	ret = check_own(job);
	if (ret)
		return ret;
	if (args->keep && (args->apart || !image_may_take_name(output, sequence, args->folder)))
		err = image_name_beside(output, &args->beside);
	if (!err && args->keep_old && !args->beside)
		err = image_keep_old(output, &args->beside, &args->old);
	if (err)
		return report(exit_code_of(err), "file '%s': %s",
			      args->beside ? args->beside : args->file, strerror(err));
	/* Record the id first: if rxadm is killed in between, the disk may replace the image. */
	if (!args->raw)
		ret = disk_images_add(job->source->images, job->image.header.id);
	/* Later saves would find an image that is not the disk's own. */
	if (ret && args->own)
		return ret;
	if (ret)
		report(EXIT_OK, "note: the save continues");
	err = image_commit(output, &args->beside, &path);
	/* Mark the disk as saved last: 'rxadm remove' then needs no --force. */
	if (err)
		image_drop_old(output, &args->old);
	else
		disk_saved_set(sequence, job->source->generation, path, &written);
	free(path);
	return err ? report(exit_code_of(err), "file '%s': %s",
			    args->beside ? args->beside : args->file, strerror(err)) : EXIT_OK;
}

static enum exit_code run_job(struct job *job)
{
	switch (copy_run(&job->copy)) {
	case COPY_NO_MEMORY:
		return report(EXIT_MEMORY, "too little memory for the buffers");
	case COPY_INTERRUPTED:
		return report(EXIT_DEVICE, "interrupted; %s", result_text(job));
	case COPY_ERROR:
		return report(exit_code_of(job->err), "%s",
			      job->read_error ? job->read_error : job->write_error);
	default:
		break;
	}
	if (job->args->stream)
		return EXIT_OK;
	if (check_unchanged(job) == COPY_FAILED)
		return report(EXIT_BUSY, "%s", job->read_error);
	return commit(job);
}

/* Tell what an image that replaces another will not have, as early as possible. */
static void tell_of_generations(const struct job *job)
{
	unsigned int count = job->args->keep ? 0 : image_old_generations(&job->output);
	const struct output *output = &job->output;

	/* An update is only for images of the disk. */
	if (count > 1 && (job->args->raw || !image_is_of(output->folder_fd, output->name,
							 job->source->query.uuid)))
		report(EXIT_OK, "note: file '%s': its %u generations are replaced",
		       job->args->file, count);
	else if (count > 1)
		report(EXIT_OK,
		       "note: file '%s': its %u generations are replaced by one image; %s keeps them",
		       job->args->file, count, advice("--update --keep N", "the key keep"));
}

static enum exit_code save_from(struct save_args *args, const struct save_source *source,
				const struct copy_signals *signals)
{
	const struct rxd_query *query = &source->query;
	struct job job = {
		.copy = {
			.read = read_disk,
			.write = args->raw ? write_raw : write_image,
			.finish = sync_image,
			.context = &job,
			.room = IMAGE_BLOCK + IMAGE_FRAME_MAX,
			.note_size = sizeof(struct image_frame),
			.chunks = CHUNKS,
			.signals = signals,
			.progress = &job.progress,
		},
		.progress = { .mode = args->progress, .what = "save", .total = query->size },
		.args = args,
		.source = source,
		.dev = &source->dev,
		.output = { .folder_fd = -1, .fd = -1 },
		.stage = args->raw ? STAGE_FRAMES : STAGE_HEADER,
	};
	enum exit_code ret;
	int err;

	disk_describe(query, &job.image.header);
	if (getrandom(&job.image.header.id, sizeof(job.image.header.id), 0) < 0)
		return report(EXIT_DEVICE, "cannot get a random number: %s", strerror(errno));
	err = args->stream ? 0 :
	      image_open(&job.output, args->file, args->keep ? &args->apart : NULL);
	if (err)
		return file_replace_error("file", args->file, err);
	/* Before anything is copied, if that can be. */
	ret = check_own(&job);
	if (ret)
		goto out_discard;
	if (!args->stream)
		tell_of_generations(&job);
	/* Set the size: ranges that are not written stay holes. */
	if (args->raw && !args->stream && ftruncate(job.output.fd, query->size))
		err = errno;
	extents_begin(&job.extents, source->fd, query->size, false);
	job.scratch = args->compress ? aligned_alloc(COPY_ALIGN, IMAGE_FRAME_MAX) : NULL;
	if (err)
		ret = report(exit_code_of(err), "file '%s': %s; %s", args->file, strerror(err),
			     result_text(&job));
	else if (args->compress && !job.scratch)
		ret = report(EXIT_MEMORY, "too little memory for the buffers");
	else
		ret = run_job(&job);
	args->signal = job.copy.signal;
	free(job.scratch);
	extents_end(&job.extents);
out_discard:
	output_discard(&job.output);
	disk_note(source->sequence, source->generation, &args->seen);
	free(job.read_error);
	free(job.write_error);
	return ret;
}

/* From here on, a signal must not leave a clone. */
static enum exit_code save_claimed(struct save_args *args, struct save_source *source)
{
	struct copy_signals signals;
	enum exit_code ret, end;
	int err;

	/* With keep, 'rxadm apply --stop' saves even if a loop device uses the file. */
	ret = args->stream || args->keep ? EXIT_OK : image_check_loop(args->file);
	if (ret)
		return ret;
	err = copy_signals_hold(&signals);
	if (err)
		return report(EXIT_DEVICE, "cannot block signals: %s", strerror(err));
	ret = save_source_read(source, args->no_freeze, NULL);
	if (!ret)
		ret = save_from(args, source, &signals);
	end = save_source_end(source);
	copy_signals_release(&signals);
	return ret ? ret : end;
}

/**
 * image_save - save a RAM disk to an image
 * @args: the disk and the image
 *
 * Saves of one disk to files wait for each other, so that none replaces an image by an older state.
 * Changes to other devices do not wait.
 */
enum exit_code image_save(struct save_args *args)
{
	struct save_source source;
	enum exit_code ret;
	uint64_t begin;
	int control;

	args->signal = 0;
	args->written = 0;
	args->beside = NULL;
	args->old = NULL;
	args->seen.diskseq = 0;
	ret = control_open(&control);
	if (ret)
		return ret;
	ret = save_source_claim(&source, control, args->device, !args->keep, !args->stream,
				args->own || args->keep);
	source.apart = args->apart;
	begin = copy_clock();
	if (!ret && !args->stream)
		ret = save_source_check_place(&source, args->file);
	if (!ret)
		ret = args->update ? update_save(args, &source) : save_claimed(args, &source);
	/* Without the lock, another save may be recording its cost. */
	if (source.locked && !args->signal)
		save_cost_add(source.sequence, !ret && !args->instead && !args->beside,
			      (copy_clock() - begin) / 1000000, args->written);
	save_source_release(&source);
	close(control);
	return ret;
}
