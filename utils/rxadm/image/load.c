// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading an image into a RAM disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "copy/copy.h"
#include "copy/file.h"
#include "copy/stream.h"
#include "image/disk.h"
#include "image/load.h"
#include "image/names.h"
#include "kernel/attributes.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "lib/file.h"
#include "lib/size.h"
#include "lib/system.h"

#define CHUNKS		4

/* An image that is being read, and the disk that it is written to. */
struct job {
	struct copy_job copy;
	struct progress progress;
	const struct load_args *args;
	struct image image;
	int image_fd;
	struct stat opened;	/* the image, when it was opened */
	void *block;		/* the next block of the image */
	void *scratch;		/* decompressed data */
	uint64_t data_start;	/* plain disk image: data to read before the next hole */
	uint64_t data_end;
	const char *path;	/* of the disk */
	int fd;			/* the disk, or -1: only check the image */
	uint64_t reached;	/* of the disk */
	char *read_error;
	char *write_error;
	enum exit_code code;
};

static enum copy_step image_wrong(struct job *job, char **error, char *reason)
{
	*error = format_text("image '%s': %s", job->args->file, reason);
	job->code = EXIT_PARAMETERS;
	free(reason);
	return COPY_FAILED;
}

/* Read a part of the image, up to its end. A stream is read in sequence. */
static enum copy_step read_up_to(struct job *job, void *data, size_t length, uint64_t offset,
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
static enum copy_step read_part(struct job *job, void *data, size_t length, uint64_t offset)
{
	size_t done;
	enum copy_step step = read_up_to(job, data, length, offset, &done);

	if (step == COPY_MORE && done < length)
		return image_wrong(job, &job->read_error,
				   format_text("is truncated at byte %llu",
					       (unsigned long long)offset + done));
	return step;
}

static enum copy_step end_image(struct job *job)
{
	enum copy_step step;
	size_t more;

	step = read_up_to(job, job->block, IMAGE_BLOCK, job->image.position, &more);
	if (step != COPY_MORE)
		return step;
	if (more)
		return image_wrong(job, &job->read_error,
				   format_text("is wrong at byte %llu: data follows its end block",
					       (unsigned long long)job->image.position));
	return COPY_END;
}

static enum copy_step read_image(void *context, struct copy_chunk *chunk)
{
	struct job *job = context;
	struct image_frame *frame = chunk->note;
	enum copy_step step;
	char *error;

	error = image_get_block(&job->image, job->block, frame);
	if (error)
		return image_wrong(job, &job->read_error, error);
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
static void find_data(struct job *job)
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
	struct job *job = context;
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
			       image_wrong(job, &job->read_error,
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

static enum copy_step disk_failed(struct job *job, int err, uint64_t at)
{
	job->write_error = format_text("device '%s': cannot be written at byte %llu: %s%s",
				       job->path, (unsigned long long)at, strerror(err),
				       err == ENOSPC ? "; the memory may be short" : "");
	job->code = err == ENOSPC ? EXIT_MEMORY : exit_code_of(err);
	return COPY_FAILED;
}

static void count_skipped(struct job *job, uint64_t end)
{
	copy_count(&job->copy.counts.read_skipped, end - job->reached);
	copy_count(&job->copy.counts.write_skipped, end - job->reached);
	job->reached = end;
}

static enum copy_step write_disk(void *context, const struct copy_chunk *chunk)
{
	const struct image_frame *frame = chunk->note;
	const struct image_extent *extent;
	struct job *job = context;
	const void *data = chunk->data;
	char *error;
	uint32_t i;
	int err;

	error = job->args->raw ? NULL :
		image_get_data(frame, chunk->data, job->scratch, &data);
	if (error)
		return image_wrong(job, &job->write_error, error);
	for (i = 0; i < frame->count; i++) {
		extent = &frame->extents[i];
		err = job->fd < 0 ? 0 : file_write(job->fd, data, extent->length, extent->start);
		if (err)
			return disk_failed(job, err, extent->start);
		count_skipped(job, extent->start);
		copy_count(&job->copy.counts.copied, extent->length);
		job->reached += extent->length;
		data = (const char *)data + extent->length;
	}
	return COPY_MORE;
}

static enum copy_step sync_disk(void *context)
{
	struct job *job = context;

	count_skipped(job, job->image.header.size);
	if (job->fd >= 0 && fsync(job->fd))
		return disk_failed(job, errno, 0);
	return COPY_END;
}

/* Read the header and the block after it. Called again after the verification. */
static enum exit_code read_header(struct job *job)
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
	else
		error = image_get_header(&job->image, job->block);
	if (error) {
		report(EXIT_PARAMETERS, "image '%s': %s", job->args->file, error);
		free(error);
		return EXIT_PARAMETERS;
	}
	if (read_part(job, job->block, IMAGE_BLOCK, IMAGE_BLOCK) == COPY_MORE)
		return EXIT_OK;
	return report(job->code, "%s", job->read_error);
}

/* Read the image to its end, and write it to the disk if there is one. */
static enum exit_code run_job(struct job *job, const char *what)
{
	job->copy = (struct copy_job){
		.read = job->args->raw ? read_raw : read_image,
		.write = write_disk,
		.finish = sync_disk,
		.context = job,
		.room = IMAGE_FRAME_MAX + IMAGE_BLOCK,
		.note_size = sizeof(struct image_frame),
		.chunks = CHUNKS,
		.progress = &job->progress,
	};
	job->progress = (struct progress){
		.mode = job->args->progress,
		.what = what,
		.total = job->image.header.size,
	};
	/* The verification prints no progress records, only the loading does. */
	if (job->fd < 0 && job->progress.mode == PROGRESS_JSON)
		job->progress.mode = PROGRESS_NONE;
	job->reached = 0;

	switch (copy_run(&job->copy)) {
	case COPY_NO_MEMORY:
		return report(EXIT_MEMORY, "too little memory for the buffers");
	case COPY_INTERRUPTED:
		return report(EXIT_DEVICE, "interrupted; nothing was loaded");
	case COPY_ERROR:
		return report(job->code, "%s",
			      job->read_error ? job->read_error : job->write_error);
	default:
		return EXIT_OK;
	}
}

static enum exit_code load_new(struct job *job, int control, char **path)
{
	const struct image_header *header = &job->image.header;
	const struct load_args *args = job->args;
	char size[SIZE_TEXT_MAX], uuid[UUID_STR_LEN];
	struct create_request request = {
		.size_text = size_format(header->size, size),
		.has_index = args->has_index,
		.index = args->index,
		.node_text = args->node_text,
		.node = args->node_text ? args->node : RXD_NODE_LOCAL,
		.uuid_text = args->uuid_text ? args->uuid_text : uuid,
		.name = args->name,
		.flags = args->overcommit ? RXD_CREATE_OVERCOMMIT : 0,
	};
	struct device dev = { .what = "device" };
	struct rxd_create arg;
	struct rxd_query query;
	struct disk_guard guard;
	enum exit_code ret;
	int err;

	uuid_unparse_lower(header->uuid, uuid);
	memcpy(request.uuid, args->uuid_text ? args->uuid : header->uuid, sizeof(request.uuid));
	disk_request(header, &request);
	ret = args->name ? ramdisk_name_check(args->name) : EXIT_OK;
	if (ret)
		return ret;
	arg = ramdisk_create_argument(&request);
	err = disk_guard_create(&guard, control, &arg);
	if (err)
		return ramdisk_create_error(control, err, &request);
	dev.path = format_text("/dev/rxd%d", arg.index);
	job->path = dev.path;
	ret = ramdisk_create_wait(control, arg.index, dev.path);
	if (!ret && args->name)
		ret = ramdisk_rename(dev.path + strlen("/dev/"), args->name, false);
	if (!ret)
		ret = control_query(control, arg.index, 0, &query) ?
		      report(EXIT_DEVICE, "device '%s': is gone", dev.path) : EXIT_OK;
	if (!ret) {
		dev.number = makedev(query.major, query.minor);
		ret = disk_claim(control, &dev, arg.index, O_RDWR, &query, &job->fd, NULL);
	}
	if (!ret) {
		ret = run_job(job, "load");
		if (!ret && !args->raw)
			ret = disk_images_set(dev.number, header->id);
		if (!ret)
			disk_unfinished_end(query.uuid); /* apply looks when it is closed */
		close(job->fd);
	}
	if (ret) {
		disk_guard_undo(&guard);
		device_release(&dev);
		return ret;
	}
	/* Block signals: once the disk is kept, its path must be printed. */
	signals_block();
	disk_guard_keep(&guard);
	*path = dev.path;
	return EXIT_OK;
}

/* Check the whole image before the disk is changed. */
static enum exit_code verify(struct job *job)
{
	int fd = job->fd;
	enum exit_code ret;

	/* A stream can be read only once, and a plain disk image has no checksums. */
	if (job->args->stream || job->args->raw)
		return EXIT_OK;
	job->fd = -1;
	ret = run_job(job, "verify");
	job->fd = fd;
	return ret ? ret : read_header(job);
}

/* Load the image into an empty disk. Empty the disk again on failure. */
static enum exit_code fill(struct job *job, dev_t disk, uint64_t size)
{
	struct disk_guard guard;
	enum exit_code ret;
	char *images;
	int err;

	/* Forget images of the old data. The guard removes the record if it empties the disk. */
	ret = disk_images_forget(disk);
	if (ret)
		return ret;
	images = disk_images_path(disk);
	err = disk_guard_empty(&guard, job->fd, size, images);
	if (err) {
		free(images);
		return report(exit_code_of(err), "cannot start a process: %s", strerror(err));
	}
	ret = run_job(job, "load");
	if (!ret && !job->args->raw)
		ret = disk_images_set(disk, job->image.header.id);
	if (ret)
		disk_guard_undo(&guard);
	else
		disk_guard_keep(&guard);
	free(images);
	return ret;
}

static enum exit_code load_into(struct job *job, int control)
{
	struct rxd_query query;
	enum exit_code ret;
	struct device dev;
	int index;

	ret = device_find_rxd("device", job->args->into, &dev, &index);
	if (ret)
		return ret;
	job->path = dev.path;
	ret = disk_claim(control, &dev, index, O_RDWR, &query, &job->fd, NULL);
	if (ret) {
		device_release(&dev);
		return ret;
	}
	ret = disk_check_fit(&dev, &query, &job->image.header);
	if (!ret)
		ret = disk_check_empty(&dev, job->fd, query.size, job->scratch);
	if (!ret)
		ret = verify(job);
	if (!ret)
		ret = fill(job, dev.number, query.size);
	if (!ret)
		disk_unfinished_end(query.uuid);
	close(job->fd);
	device_release(&dev);
	return ret;
}

static enum exit_code open_image(struct job *job)
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
	if (job->args->raw && image_disk_size(path))
		report(EXIT_OK,
		       "note: image '%s': has the format rxd; leave out --format raw to load the disk that it holds",
		       path);
	if (!job->args->raw || (job->opened.st_size && !(job->opened.st_size % IMAGE_PAGE)))
		return EXIT_OK;
	return report(EXIT_PARAMETERS,
		      "image '%s': has %lld bytes; it must be a multiple of %u, and not empty",
		      path, (long long)job->opened.st_size, IMAGE_PAGE);
}

static enum exit_code load_image(struct job *job, char **path)
{
	enum exit_code ret;
	int control;

	ret = open_image(job);
	if (!ret && !job->args->raw)
		ret = read_header(job);
	if (!ret && !job->args->into && !module_is_loaded("rxd"))
		ret = module_load("rxd");
	if (!ret)
		ret = control_open(&control);
	if (ret)
		return ret;
	ret = job->args->into ? load_into(job, control) : load_new(job, control, path);
	close(control);
	return ret;
}

/**
 * image_load - create a RAM disk from an image, or load the image into an empty one
 * @args: the image and its destination
 * @path: out: allocated path of the new disk, with the user's signals blocked; NULL if no
 *	disk was created
 *
 * Takes no lock, like image_save().
 */
enum exit_code image_load(struct load_args *args, char **path)
{
	struct job job = { .args = args, .image_fd = -1, .fd = -1 };
	enum exit_code ret;

	*path = NULL;
	args->signal = 0;
	job.block = aligned_alloc(COPY_ALIGN, IMAGE_BLOCK);
	job.scratch = aligned_alloc(COPY_ALIGN, IMAGE_FRAME_MAX);
	if (job.block && job.scratch)
		ret = load_image(&job, path);
	else
		ret = report(EXIT_MEMORY, "too little memory for the buffers");
	args->signal = job.copy.signal;
	if (job.image_fd > STDIN_FILENO)
		close(job.image_fd);
	free(job.read_error);
	free(job.write_error);
	free(job.scratch);
	free(job.block);
	return ret;
}
