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

#include "base/signals.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "copy/copy.h"
#include "copy/file.h"
#include "image/frame.h"
#include "image/load_job.h"
#include "image/log_file.h"
#include "kernel/attributes.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "kernel/extents.h"
#include "save/disk_access.h"
#include "save/save.h"

#define CHUNKS		4

static enum copy_step disk_failed(struct load_job *job, int err, uint64_t at)
{
	job->write_error = format_text("device '%s': cannot be written at byte %llu: %s%s",
				       job->path, (unsigned long long)at, strerror(err),
				       err == ENOSPC ? "; the memory may be short" : "");
	job->code = err == ENOSPC ? EXIT_MEMORY : exit_code_of(err);
	return COPY_FAILED;
}

static void count_skipped(struct load_job *job, uint64_t end)
{
	copy_count(&job->copy.counts.read_skipped, end - job->reached);
	copy_count(&job->copy.counts.write_skipped, end - job->reached);
	job->reached = end;
}

static enum copy_step write_disk(void *context, const struct copy_chunk *chunk)
{
	const struct image_frame *frame = chunk->note;
	const struct image_extent *extent;
	struct load_job *job = context;
	const void *data = chunk->data;
	char *error;
	uint32_t i;
	int err;

	error = job->args->raw || job->log ? NULL :
		image_get_data(frame, chunk->data, job->scratch, &data);
	if (error)
		return load_wrong(job, &job->write_error, error);
	for (i = 0; i < frame->count; i++) {
		extent = &frame->extents[i];
		err = job->fd < 0 ? 0 : file_write(job->fd, data, extent->length, extent->start);
		if (err)
			return disk_failed(job, err, extent->start);
		/* The extents of version 2 are in no order. */
		if (!job->log)
			count_skipped(job, extent->start);
		copy_count(&job->copy.counts.copied, extent->length);
		job->reached += extent->length;
		data = (const char *)data + extent->length;
	}
	return COPY_MORE;
}

static enum copy_step sync_disk(void *context)
{
	struct load_job *job = context;

	count_skipped(job, job->image.header.size);
	if (job->fd >= 0 && fsync(job->fd))
		return disk_failed(job, errno, 0);
	return COPY_END;
}

/* Read the image to its end, and write it to the disk if there is one. */
static enum exit_code run_job(struct load_job *job, const char *what)
{
	job->copy = (struct copy_job){
		.read = load_read,
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

/* Record what the disk has. It may not replace an image that has a newer state. */
static enum exit_code record(struct load_job *job, int control, int index, dev_t disk)
{
	const struct log_generation *generation = job->reader.generation;
	enum exit_code ret;
	char *sequence;

	if (job->args->raw || (job->log && generation != log_newest(&job->head)))
		return EXIT_OK;
	sequence = disk_sequence(disk);
	ret = disk_images_set(sequence, job->image.header.id);
	free(sequence);
	/* The next update then is short. Without a record, it is not. */
	if (!ret && job->log)
		track_begin(control, index, disk, generation->state);
	return ret;
}

/* The disk that was saved may still exist. */
static enum exit_code new_error(const struct load_job *job, int control, int err,
				const struct create_request *request)
{
	if (err == EEXIST && !job->args->uuid_text && control_has_uuid(control, request->uuid))
		return report(EXIT_BUSY,
			      "UUID '%s' of the image: another RAM disk has it; --uuid random gives the new disk another one",
			      request->uuid_text);
	return ramdisk_create_error(control, err, request);
}

static enum exit_code load_new(struct load_job *job, int control, char **path)
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
	char *unfinished;
	bool begun;
	int err;

	uuid_unparse_lower(header->uuid, uuid);
	memcpy(request.uuid, args->uuid_text ? args->uuid : header->uuid, sizeof(request.uuid));
	if (uuid_is_null(request.uuid))
		uuid_generate(request.uuid);
	disk_request(header, &request);
	ret = args->name ? ramdisk_name_check(args->name) : EXIT_OK;
	/* Do not mark a disk that was loaded before. */
	if (!ret && control_has_uuid(control, request.uuid))
		ret = new_error(job, control, EEXIST, &request);
	/* Before the disk exists: a save of half of it must not replace the image. */
	if (!ret)
		ret = disk_unfinished_begin(request.uuid, &begun);
	if (ret)
		return ret;
	unfinished = begun ? disk_unfinished_path(request.uuid) : NULL;
	arg = ramdisk_create_argument(&request);
	err = disk_guard_create(&guard, control, &arg, unfinished);
	if (err) {
		if (begun)
			disk_unfinished_end(request.uuid);
		free(unfinished);
		return new_error(job, control, err, &request);
	}
	/* Another load of this UUID may have failed, and removed the mark. */
	ret = disk_unfinished_begin(request.uuid, &begun);
	dev.path = format_text("/dev/rxd%d", arg.index);
	job->path = dev.path;
	if (!ret)
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
		if (!ret)
			ret = record(job, control, arg.index, dev.number);
		signals_block();
		if (!ret && signals_pending())
			ret = EXIT_BUSY;
		if (!ret) {
			/* Others may open it, and apply looks for the mark, when it is closed. */
			disk_unfinished_end(query.uuid);
			disk_guard_keep(&guard);
		}
		close(job->fd);
		if (ret)
			signals_allow();
		else
			device_announce(dev.number);
	}
	if (ret) {
		disk_guard_undo(&guard);
		if (begun)
			disk_unfinished_end(request.uuid);
		device_release(&dev);
	} else {
		*path = dev.path;
	}
	free(unfinished);
	return ret;
}

/* Check the whole image before the disk is changed. */
static enum exit_code verify(struct load_job *job)
{
	int fd = job->fd;
	enum exit_code ret;

	/* A stream can be read only once, and a plain disk image has no checksums. */
	if (job->args->stream || job->args->raw)
		return EXIT_OK;
	job->fd = -1;
	ret = run_job(job, "verify");
	job->fd = fd;
	return ret ? ret : load_begin(job);
}

/* Load the image into an empty disk. Empty the disk again on failure. */
static enum exit_code fill(struct load_job *job, int control, int index, dev_t disk,
			   const struct rxd_query *query, const char *unfinished)
{
	char *sequence = disk_sequence(disk);
	char *images = disk_images_path(sequence);
	struct disk_guard guard;
	enum exit_code ret;
	int err;

	/* Forget images of the old data. The guard removes the record if it empties the disk. */
	ret = disk_images_forget(sequence);
	free(sequence);
	err = ret ? 0 : disk_guard_empty(&guard, job->fd, query->size, images, unfinished);
	if (err)
		ret = report(exit_code_of(err), "cannot start a process: %s", strerror(err));
	if (ret) {
		if (unfinished)
			unlink(unfinished);
		free(images);
		return ret;
	}
	ret = run_job(job, "load");
	if (!ret)
		ret = record(job, control, index, disk);
	signals_block();
	if (!ret && signals_pending())
		ret = EXIT_BUSY;
	if (ret) {
		disk_guard_undo(&guard);
		signals_allow();
	} else {
		/* In this order: apply loads the image again while there is a mark. */
		disk_guard_keep(&guard);
		disk_unfinished_end(query->uuid);
	}
	free(images);
	return ret;
}

static enum exit_code fill_unfinished(struct load_job *job, int control, int index, dev_t disk,
				      const struct rxd_query *query)
{
	enum exit_code ret;
	char *unfinished;
	bool begun;

	ret = disk_unfinished_begin(query->uuid, &begun);
	if (ret)
		return ret;
	unfinished = begun ? disk_unfinished_path(query->uuid) : NULL;
	ret = fill(job, control, index, disk, query, unfinished);
	free(unfinished);
	return ret;
}

static enum exit_code load_into(struct load_job *job, int control)
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
		ret = disk_check_empty(&dev, job->fd, job->scratch);
	if (!ret)
		ret = verify(job);
	if (!ret)
		ret = fill_unfinished(job, control, index, dev.number, &query);
	close(job->fd);
	if (!ret && !job->args->exported)
		device_announce(dev.number);
	device_release(&dev);
	return ret;
}

static enum exit_code load_image(struct load_job *job, char **path)
{
	enum exit_code ret;
	int control;

	ret = load_open(job);
	if (!ret && !job->args->raw)
		ret = load_begin(job);
	if (!ret && job->damaged)
		log_tell_damage(job->image_fd, job->args->file, &job->head);
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
 * @path: out: allocated path of the new disk; NULL if no disk was created
 *
 * After success, the user's signals are blocked: the exit code says whether the data was kept.
 * Takes no lock but one of the image, against updates meanwhile.
 */
enum exit_code image_load(struct load_args *args, char **path)
{
	struct load_job job = { .args = args, .image_fd = -1, .fd = -1 };
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
	log_reader_close(&job.reader);
	free(job.read_error);
	free(job.write_error);
	free(job.scratch);
	free(job.block);
	return ret;
}
