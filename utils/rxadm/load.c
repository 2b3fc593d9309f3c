// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm load
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../copy/copy.h"
#include "../copy/file.h"
#include "claim.h"
#include "command.h"
#include "create.h"
#include "guard.h"
#include "image.h"
#include "lineage.h"
#include "load.h"
#include "machine.h"
#include "options.h"
#include "progress.h"
#include "size.h"
#include "unfinished.h"

#define CHUNKS		4
#define EXTENTS_AT_ONCE	1024
#define UUID_TEXT	37

static const char usage[] =
	"Usage: rxadm load FILE [OPTION...]\n"
	"\n"
	"Make a RAM disk from an image of 'rxadm save' and print its path. It has the size,\n"
	"the UUID and the other properties of the disk that was saved.\n"
	"\n"
	"Options:\n"
	"     --into DEVICE     load into this RAM disk, which is empty and as large or larger\n"
	"     --index N         make /dev/rxdN; without it, the lowest free number\n"
	"     --node NODE       take memory from this NUMA node, or: local, interleave\n"
	"     --overcommit      allow more than the share of memory for RAM disks\n"
	"     --progress HOW    auto, a bar on a terminal; bar; json, a record a second on\n"
	"                       standard output; none; without it, auto\n"
	"     --uuid UUID       another identity than the image's; random: a random one\n"
	" -h, --help            print this help\n";

/* An image that is being read, and the disk it goes to. */
struct job {
	struct copy_job copy;
	struct progress progress;
	const struct load_args *args;
	struct image image;
	int image_fd;
	uint64_t image_size;
	void *block;		/* the next block of the image */
	void *scratch;		/* data unpacked */
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

/* Read a part of the image; the file must have all of it. */
static enum copy_step read_part(struct job *job, void *data, size_t length, uint64_t offset)
{
	size_t done;
	int err;

	err = file_read(job->image_fd, data, length, offset, &done);
	if (err) {
		job->read_error = format_text("image '%s': cannot be read at byte %llu: %s",
					      job->args->file, (unsigned long long)offset + done,
					      strerror(err));
		job->code = exit_code_of(err);
		return COPY_FAILED;
	}
	if (done < length)
		return image_wrong(job, &job->read_error,
				   format_text("is truncated: it ends at byte %llu, before its end",
					       (unsigned long long)offset + done));
	return COPY_MORE;
}

static enum copy_step read_image(void *context, struct copy_chunk *chunk)
{
	struct job *job = context;
	struct image_frame *frame = chunk->note;
	enum copy_step step;
	char *error;

	error = image_get_block(&job->image, job->block, frame);
	if (!error && job->image.ended && job->image.position != job->image_size)
		error = format_text("is wrong at byte %llu: something follows its end",
				    (unsigned long long)job->image.position);
	if (error)
		return image_wrong(job, &job->read_error, error);
	if (job->image.ended)
		return COPY_END;

	/* The payload, and in one go the block that follows it. */
	chunk->length = image_payload(frame);
	chunk->offset = frame->position + IMAGE_BLOCK;
	step = read_part(job, chunk->data, chunk->length + IMAGE_BLOCK, chunk->offset);
	if (step == COPY_MORE)
		memcpy(job->block, (char *)chunk->data + chunk->length, IMAGE_BLOCK);
	return step;
}

static enum copy_step disk_failed(struct job *job, int err, uint64_t at)
{
	job->write_error = format_text("device '%s': cannot be written at byte %llu: %s%s",
				       job->path, (unsigned long long)at, strerror(err),
				       err == ENOSPC ? "; is there too little memory?" : "");
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
	const void *data;
	char *error;
	uint32_t i;
	int err;

	error = image_get_data(frame, chunk->data, job->scratch, &data);
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

/* Begin, or begin again: what the image is of. */
static enum exit_code read_header(struct job *job)
{
	char *error = NULL;
	size_t done;
	int err;

	memset(job->block, 0, IMAGE_BLOCK);
	err = file_read(job->image_fd, job->block, IMAGE_BLOCK, 0, &done);
	if (err)
		return report(exit_code_of(err), "image '%s': cannot be read: %s", job->args->file,
			      strerror(err));
	error = image_get_header(&job->image, job->block);
	if (error && done < IMAGE_BLOCK && image_is_known(job->block)) {
		free(error);
		error = format_text("is truncated: it ends at byte %zu, within its header", done);
	}
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
		.read = read_image,
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
	/* The records are those of loading. */
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

static void uuid_format(const uint8_t *uuid, char *text)
{
	unsigned int i;

	for (i = 0; i < 16; i++)
		text += sprintf(text, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
				uuid[i]);
}

static enum exit_code load_new(struct job *job, int control, char **path)
{
	const struct image_header *header = &job->image.header;
	const struct load_args *args = job->args;
	char size[SIZE_TEXT_MAX], uuid[UUID_TEXT];
	struct create_request request = {
		.size_text = size_format(header->size, size),
		.size = header->size,
		.mem_limit = header->mem_limit,
		.has_index = args->has_index,
		.index = args->index,
		.logical_block_size = header->logical_block_size,
		.folio_size = header->folio_size,
		.node_text = args->node_text,
		.node = args->node_text ? args->node : RXD_NODE_LOCAL,
		.uuid_text = args->uuid_text ? args->uuid_text : uuid,
	};
	struct device dev = { .what = "device" };
	struct rxd_create arg;
	struct rxd_query query;
	struct guard guard;
	enum exit_code ret;
	int err;

	uuid_format(header->uuid, uuid);
	memcpy(request.uuid, args->uuid_text ? args->uuid : header->uuid, sizeof(request.uuid));
	if (args->overcommit)
		request.flags |= RXD_CREATE_OVERCOMMIT;
	if (header->disk_flags & IMAGE_DISK_RESERVE)
		request.flags |= RXD_CREATE_RESERVE;
	/* Such a limit only stops growth, as does one of the size. No disk can be made with it. */
	if (request.flags & RXD_CREATE_RESERVE && request.mem_limit &&
	    request.mem_limit < request.size)
		request.mem_limit = request.size;
	if (header->disk_flags & IMAGE_DISK_DETECT_ZEROES)
		request.flags |= RXD_CREATE_DETECT_ZEROES;
	arg = create_argument(&request);
	err = guard_create(&guard, control, &arg);
	if (err)
		return create_error(control, err, &request);

	dev.path = format_text("/dev/rxd%d", arg.index);
	job->path = dev.path;
	ret = create_wait(control, arg.index, dev.path);
	if (!ret)
		ret = control_query(control, arg.index, 0, &query) ?
		      report(EXIT_DEVICE, "device '%s': is gone", dev.path) : EXIT_OK;
	if (!ret) {
		dev.number = makedev(query.major, query.minor);
		ret = claim(control, &dev, arg.index, O_RDWR, &query, &job->fd);
	}
	if (!ret) {
		ret = run_job(job, "load");
		close(job->fd);
	}
	if (!ret)
		ret = lineage_set(dev.number, header->id);
	if (ret) {
		guard_undo(&guard);
		device_release(&dev);
		return ret;
	}
	/* Once it stays, the disk must not lose its name to a signal. */
	signals_block();
	guard_keep(&guard);
	unfinished_end(query.uuid);
	*path = dev.path;
	return EXIT_OK;
}

static enum exit_code check_fit(const struct job *job, const struct device *dev,
				const struct rxd_query *query)
{
	char disk[SIZE_TEXT_MAX], image[SIZE_TEXT_MAX];

	if (query->size < job->image.header.size) {
		size_format(query->size, disk);
		size_format(job->image.header.size, image);
		return report(EXIT_PARAMETERS,
			      "%s '%s': has %s (%llu bytes), and the image is of a disk of %s (%llu bytes); 'rxadm resize' makes it larger",
			      dev->what, dev->path, disk, (unsigned long long)query->size, image,
			      (unsigned long long)job->image.header.size);
	}
	if (query->logical_block_size != job->image.header.logical_block_size)
		return report(EXIT_PARAMETERS,
			      "%s '%s': has logical blocks of %u bytes, and the image is of a disk with %u; 'rxadm load' without --into makes such a disk",
			      dev->what, dev->path, query->logical_block_size,
			      job->image.header.logical_block_size);
	return EXIT_OK;
}

static enum exit_code not_empty(const struct device *dev)
{
	return report(EXIT_BUSY,
		      "%s '%s': holds data, which would be lost; 'rxadm clear' empties it",
		      dev->what, dev->path);
}

/* What has memory may still be zeros, as on a reserved disk. */
static enum exit_code check_zeros(struct job *job, const struct device *dev,
				  const struct rxd_extent *extent)
{
	uint64_t done;
	size_t got;
	int err;

	for (done = 0; done < extent->length; done += got) {
		got = extent->length - done;
		if (got > IMAGE_FRAME_MAX)
			got = IMAGE_FRAME_MAX;
		err = file_read(job->fd, job->scratch, got, extent->start + done, &got);
		if (err || !got)
			return report(exit_code_of(err ? err : EIO), "%s '%s': cannot be read: %s",
				      dev->what, dev->path, strerror(err ? err : EIO));
		if (!copy_is_zero(job->scratch, got))
			return not_empty(dev);
	}
	return EXIT_OK;
}

static enum exit_code check_empty(struct job *job, const struct device *dev, uint64_t size)
{
	struct rxd_extent *extents = zeroed_array(EXTENTS_AT_ONCE, sizeof(*extents));
	struct rxd_map arg = { .version = RXD_ABI_VERSION };
	enum exit_code ret = EXIT_OK;
	uint64_t start = 0;
	uint32_t i;

	while (!ret && start < size) {
		arg.start = start;
		arg.length = size - start;
		arg.extents = (uintptr_t)extents;
		arg.count = EXTENTS_AT_ONCE;
		arg.next = 0;
		if (ioctl(job->fd, RXD_MAP, &arg)) {
			ret = control_error(errno, dev->path);
			break;
		}
		for (i = 0; !ret && i < arg.count; i++)
			ret = check_zeros(job, dev, &extents[i]);
		start = arg.next;
	}
	free(extents);
	return ret;
}

/* Look at all of the image before anything is changed. */
static enum exit_code verify(struct job *job)
{
	int fd = job->fd;
	enum exit_code ret;

	job->fd = -1;
	ret = run_job(job, "verify");
	job->fd = fd;
	return ret ? ret : read_header(job);
}

/* Fill the disk, which is empty, and shall be so again if that fails. */
static enum exit_code fill(struct job *job, dev_t disk, uint64_t size)
{
	struct guard guard;
	enum exit_code ret;
	char *images;
	int err;

	/* It may replace no image of what it held before; whoever empties it forgets that again. */
	ret = lineage_forget(disk);
	if (ret)
		return ret;
	images = lineage_path(disk);
	err = guard_empty(&guard, job->fd, size, images);
	if (err) {
		free(images);
		return report(exit_code_of(err), "cannot start a process: %s", strerror(err));
	}
	ret = run_job(job, "load");
	if (!ret)
		ret = lineage_set(disk, job->image.header.id);
	if (ret)
		guard_undo(&guard);
	else
		guard_keep(&guard);
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
	ret = claim(control, &dev, index, O_RDWR, &query, &job->fd);
	if (ret) {
		device_release(&dev);
		return ret;
	}
	ret = check_fit(job, &dev, &query);
	if (!ret)
		ret = check_empty(job, &dev, query.size);
	if (!ret)
		ret = verify(job);
	if (!ret)
		ret = fill(job, dev.number, query.size);
	if (!ret)
		unfinished_end(query.uuid);
	close(job->fd);
	device_release(&dev);
	return ret;
}

static enum exit_code open_image(struct job *job)
{
	const char *path = job->args->file;
	struct stat st;
	int err;

	/* Opening a pipe must not wait for a writer. */
	err = file_open(path, O_RDONLY | O_NONBLOCK, true, &job->image_fd);
	if (!err && fstat(job->image_fd, &st))
		err = errno;
	if (err)
		return report(exit_code_of(err), "image '%s': %s", path, strerror(err));
	job->image_size = st.st_size;
	return S_ISREG(st.st_mode) ? EXIT_OK :
	       report(EXIT_PARAMETERS, "image '%s': is not a regular file", path);
}

static enum exit_code load_image(struct job *job, char **path)
{
	enum exit_code ret;
	int control;

	ret = open_image(job);
	if (!ret)
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
 * load_size - the size of the disk that an image is of
 * @file: the image
 *
 * Return: bytes; 0 if that cannot be read, for which load() has the reason.
 */
uint64_t load_size(const char *file)
{
	void *block = calloc(1, IMAGE_BLOCK);
	struct image image = { 0 };
	size_t done;
	char *error;
	int fd;

	if (block && !file_open(file, O_RDONLY | O_NONBLOCK, false, &fd)) {
		if (!file_read(fd, block, IMAGE_BLOCK, 0, &done)) {
			error = image_get_header(&image, block);
			if (error)
				image.header.size = 0;
			free(error);
		}
		close(fd);
	}
	free(block);
	return image.header.size;
}

/**
 * load - make a RAM disk from an image, or fill one that is empty
 * @args: from which image, and where to
 * @path: out: allocated path of the new disk, or NULL; the user's signals are
 *	blocked then
 *
 * Takes no lock, as save().
 */
enum exit_code load(struct load_args *args, char **path)
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
	if (job.image_fd >= 0)
		close(job.image_fd);
	free(job.read_error);
	free(job.write_error);
	free(job.scratch);
	free(job.block);
	return ret;
}

static enum exit_code check(const struct load_args *args)
{
	if (args->into && (args->has_index || args->node_text || args->uuid_text ||
			   args->overcommit))
		return report(EXIT_PARAMETERS,
			      "option --into: does not go with --index, --node, --overcommit and --uuid, which are of a new RAM disk");
	return EXIT_OK;
}

static enum exit_code parse(int argc, char **argv, struct load_args *args, bool *help)
{
	static const struct option options[] = {
		{ "index",	required_argument, NULL, OPT_INDEX },
		{ "into",	required_argument, NULL, OPT_INTO },
		{ "node",	required_argument, NULL, OPT_NODE },
		{ "overcommit",	no_argument,	   NULL, OPT_OVERCOMMIT },
		{ "progress",	required_argument, NULL, OPT_PROGRESS },
		{ "uuid",	required_argument, NULL, OPT_UUID },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_INDEX:
			args->has_index = true;
			ret = number_argument("index", optarg, 0, RXD_INDEX_MAX, &args->index);
			break;
		case OPT_INTO:
			args->into = optarg;
			break;
		case OPT_NODE:
			args->node_text = optarg;
			ret = node_argument(optarg, &args->node);
			break;
		case OPT_OVERCOMMIT:
			args->overcommit = true;
			break;
		case OPT_PROGRESS:
			ret = progress_argument(optarg, &args->progress);
			break;
		case OPT_UUID:
			args->uuid_text = optarg;
			memset(args->uuid, 0, sizeof(args->uuid));
			if (strcmp(optarg, "random"))
				ret = uuid_argument(optarg, args->uuid);
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 1, "FILE [OPTION...]");
	if (ret)
		return ret;
	args->file = argv[optind];
	return check(args);
}

static enum exit_code run(int argc, char **argv)
{
	struct load_args args = { .progress = PROGRESS_AUTO };
	bool help = false;
	enum exit_code ret;
	char *path;

	ret = parse(argc, argv, &args, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}
	ret = privilege_check();
	if (ret)
		return ret;
	ret = load(&args, &path);
	if (path) {
		puts(path);
		fflush(stdout);
		signals_allow();
		free(path);
	}
	if (args.signal)
		copy_interrupt(args.signal);
	return ret;
}

const struct command command_load = {
	.name = "load",
	.summary = "make a RAM disk from an image",
	.run = run,
};
