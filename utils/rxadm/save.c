// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm save
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../copy/copy.h"
#include "../copy/file.h"
#include "beside.h"
#include "claim.h"
#include "command.h"
#include "image.h"
#include "lineage.h"
#include "machine.h"
#include "options.h"
#include "progress.h"
#include "replace.h"
#include "save.h"
#include "values.h"

#define CHUNKS		4
#define EXTENTS_AT_ONCE	4096

static const char usage[] =
	"Usage: rxadm save DEVICE FILE [OPTION...]\n"
	"\n"
	"Save a RAM disk to an image, from which 'rxadm load' makes it again. Nobody may use\n"
	"the disk meanwhile. An old image is replaced when the new one is whole.\n"
	"\n"
	"Options:\n"
	"     --compress zstd[:LEVEL]   compress the image\n"
	"     --progress HOW            auto, a bar on a terminal; bar; json, a record a\n"
	"                               second on standard output; none; without it, auto\n"
	" -h, --help                    print this help\n";

enum stage {
	STAGE_HEADER,
	STAGE_FRAMES,
	STAGE_DONE,
};

/* The reader uses all but the output, the writer only that. */
struct job {
	struct copy_job copy;
	struct progress progress;
	struct save_args *args;
	const struct device *dev;
	int fd;
	struct output output;

	enum stage stage;
	struct image image;
	struct image_frame frame;
	uint64_t cursor;		/* all before is in frames, or zeros */
	void *scratch;			/* data to be compressed */
	struct rxd_extent *extents;	/* a part of the allocation map */
	uint32_t nr_extents;
	uint32_t next_extent;
	uint64_t mapped;		/* how far that part reaches */

	char *read_error;
	char *write_error;
	int err;			/* errno behind it */
};

static enum copy_step read_failed(struct job *job, int err, char *text)
{
	job->read_error = text;
	job->err = err;
	return COPY_FAILED;
}

static enum copy_step write_failed(struct job *job, int err)
{
	job->write_error = format_text("file '%s': %s", job->args->file, strerror(err));
	job->err = err;
	return COPY_FAILED;
}

/* Get the next part of the allocation map. */
static enum copy_step map_more(struct job *job)
{
	struct rxd_map arg = {
		.version = control_abi(),
		.start = job->mapped,
		.length = job->image.header.size - job->mapped,
		.extents = (uintptr_t)job->extents,
		.count = EXTENTS_AT_ONCE,
	};

	if (ioctl(job->fd, RXD_MAP, &arg))
		return read_failed(job, errno,
				   format_text("%s '%s': its allocation map cannot be read: %s",
					       job->dev->what, job->dev->path, strerror(errno)));
	job->nr_extents = arg.count;
	job->next_extent = 0;
	job->mapped = arg.next;
	return COPY_MORE;
}

/* Find what is allocated from @from on. */
static enum copy_step find_extent(struct job *job, uint64_t from, struct image_extent *found)
{
	const struct rxd_extent *extent;
	enum copy_step step;

	for (;;) {
		for (; job->next_extent < job->nr_extents; job->next_extent++) {
			extent = &job->extents[job->next_extent];
			if (extent->start + extent->length <= from)
				continue;
			found->start = extent->start > from ? extent->start : from;
			found->length = extent->start + extent->length - found->start;
			return COPY_MORE;
		}
		if (job->mapped >= job->image.header.size)
			return COPY_END;
		step = map_more(job);
		if (step != COPY_MORE)
			return step;
	}
}

static enum copy_step read_extent(struct job *job, const struct image_extent *extent, void *data)
{
	size_t done;
	int err;

	err = file_read(job->fd, data, extent->length, extent->start, &done);
	if (!err && done < extent->length)
		err = EIO;
	if (!err)
		return COPY_MORE;
	return read_failed(job, err,
			   format_text("%s '%s': cannot be read at byte %llu: %s", job->dev->what,
				       job->dev->path, (unsigned long long)extent->start,
				       strerror(err)));
}

/* Read what is allocated into @data, as much as a frame may hold; the frame says what. */
static enum copy_step gather(struct job *job, char *data)
{
	struct image_frame *frame = &job->frame;
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

/* Add a page to a frame. Return: false if the frame can have no more extents. */
static bool add_page(struct image_frame *frame, uint64_t start)
{
	struct image_extent *last = &frame->extents[frame->count - 1];

	if (frame->count && last->start + last->length == start) {
		last->length += IMAGE_PAGE;
	} else {
		if (frame->count == IMAGE_EXTENTS_MAX)
			return false;
		frame->extents[frame->count++] = (struct image_extent){ start, IMAGE_PAGE };
	}
	frame->data += IMAGE_PAGE;
	return true;
}

/*
 * Leave the pages out that hold zeros only. That makes more extents: what no longer
 * fits is read again for the next frame.
 */
static void leave_out_zeros(struct job *job, char *data)
{
	const struct image_frame all = job->frame;
	struct copy_counts *counts = &job->copy.counts;
	struct image_frame *frame = &job->frame;
	uint64_t skipped, at, zeros = 0;
	const char *page = data;
	uint32_t i;

	frame->count = 0;
	frame->data = 0;
	for (i = 0; i < all.count; i++) {
		skipped = all.extents[i].start - job->cursor;
		copy_count(&counts->read_skipped, skipped);
		copy_count(&counts->write_skipped, skipped);
		job->cursor = all.extents[i].start;
		for (at = 0; at < all.extents[i].length; at += IMAGE_PAGE, page += IMAGE_PAGE) {
			if (copy_is_zero(page, IMAGE_PAGE)) {
				zeros += IMAGE_PAGE;
			} else {
				char *place = data + frame->data;

				if (!add_page(frame, all.extents[i].start + at))
					goto full;
				if (place != page)
					memcpy(place, page, IMAGE_PAGE);
			}
			job->cursor += IMAGE_PAGE;
		}
	}
full:
	copy_count(&counts->zeroes, zeros);
	copy_count(&counts->write_skipped, zeros);
	if (i == all.count)
		return;
	job->mapped = job->cursor;
	job->nr_extents = 0;
	job->next_extent = 0;
}

/* Put the frame into a chunk; its data is in @data. */
static void put_frame(struct job *job, struct copy_chunk *chunk, const void *data)
{
	void *payload = (char *)chunk->data + IMAGE_BLOCK;
	struct image_frame *frame = &job->frame;

	frame->encoding = IMAGE_RAW;
	frame->stored = frame->data;
	if (data != payload) {
		frame->stored = image_compress(job->args->level, data, frame->data, payload,
					       IMAGE_FRAME_MAX);
		frame->encoding = IMAGE_ZSTD;
		if (!frame->stored) {
			memcpy(payload, data, frame->data);
			frame->encoding = IMAGE_RAW;
			frame->stored = frame->data;
		}
	}
	chunk->length = IMAGE_BLOCK + image_payload(frame);
	*(uint32_t *)chunk->note = frame->data;
	image_put_frame(&job->image, frame, payload, chunk->data);
}

static enum copy_step read_frame(struct job *job, struct copy_chunk *chunk)
{
	char *data = job->args->compress ? job->scratch : (char *)chunk->data + IMAGE_BLOCK;
	enum copy_step step;
	uint64_t begin, rest;

	do {
		if (copy_stopped(&job->copy))
			return COPY_END;
		step = gather(job, data);
		if (step != COPY_MORE)
			return step;
		if (!job->frame.count) {
			rest = job->image.header.size - job->cursor;
			copy_count(&job->copy.counts.read_skipped, rest);
			copy_count(&job->copy.counts.write_skipped, rest);
			image_put_end(&job->image, chunk->data);
			chunk->length = IMAGE_BLOCK;
			job->stage = STAGE_DONE;
			return COPY_MORE;
		}
		begin = copy_clock();
		leave_out_zeros(job, data);
		job->copy.times.scan += copy_clock() - begin;
	} while (!job->frame.count);
	put_frame(job, chunk, data);
	return COPY_MORE;
}

static enum copy_step read_disk(void *context, struct copy_chunk *chunk)
{
	struct job *job = context;

	chunk->offset = job->image.position;
	*(uint32_t *)chunk->note = 0;
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

static enum copy_step write_image(void *context, const struct copy_chunk *chunk)
{
	struct job *job = context;
	int err = file_write(job->output.fd, chunk->data, chunk->length, chunk->offset);

	if (err)
		return write_failed(job, err);
	copy_count(&job->copy.counts.copied, *(const uint32_t *)chunk->note);
	return COPY_MORE;
}

static enum copy_step sync_image(void *context)
{
	struct job *job = context;

	return fsync(job->output.fd) ? write_failed(job, errno) : COPY_END;
}

/* How many writes and discards the disk has seen. */
static uint64_t changes(const struct device *dev)
{
	unsigned long long writes = 0, discards = 0;
	char *stat = sysfs_read(dev->number, "stat");

	if (stat)
		sscanf(stat, "%*u %*u %*u %*u %llu %*u %*u %*u %*u %*u %*u %llu", &writes,
		       &discards);
	free(stat);
	return writes + discards;
}

/* Return: 0 or an errno. */
static int switch_statistics(const struct device *dev, const char *value)
{
	char *path = format_text("/sys/dev/block/%u:%u/queue/iostats", major(dev->number),
				 minor(dev->number));
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	free(path);
	if (fd < 0)
		return errno;
	if (write(fd, value, strlen(value)) < 0)
		err = errno;
	close(fd);
	return err;
}

/*
 * Have the kernel count writes: it does so only while it keeps statistics of the disk. To
 * be called before the disk is claimed, while nobody has it open: whoever opens it later
 * is counted.
 */
static enum exit_code statistics_on(const struct device *dev, bool *were_off)
{
	char *value = sysfs_read(dev->number, "queue/iostats");
	int err = 0;

	*were_off = value && !strcmp(value, "0");
	free(value);
	if (*were_off)
		err = switch_statistics(dev, "1");
	return err ? report(exit_code_of(err),
			    "%s '%s': its I/O statistics, which tell of writes during the save, cannot be switched on: %s",
			    dev->what, dev->path, strerror(err)) : EXIT_OK;
}

/**
 * save_may_replace - whether a file is an image of an older state of a RAM disk, or the same
 * @disk: the RAM disk's device number
 * @folder_fd: where the file is
 * @name: its name there
 */
bool save_may_replace(dev_t disk, int folder_fd, const char *name)
{
	struct image image = { 0 };
	void *block = zeroed_array(1, IMAGE_BLOCK);
	bool own = false;
	size_t done;
	char *error;
	int fd;

	fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && !file_read(fd, block, IMAGE_BLOCK, 0, &done)) {
		error = image_get_header(&image, block);
		own = !error && lineage_has(disk, image.header.id);
		free(error);
	}
	if (fd >= 0)
		close(fd);
	free(block);
	return own;
}

/* Whether the image may take its name. What comes later is not replaced. */
static bool may_take_name(struct job *job)
{
	struct output *output = &job->output;
	int err = 0;
	struct stat st;

	if (fstatat(output->folder_fd, output->name, &st, AT_SYMLINK_NOFOLLOW))
		err = errno;
	output->exclusive = err == ENOENT;
	if (err != ENOENT)
		return !err && save_may_replace(job->dev->number, output->folder_fd, output->name);
	/* Below a file system that is not mounted, nobody would look for it. */
	return !job->args->folder || (!fstat(output->folder_fd, &st) &&
				      st.st_dev == job->args->folder);
}

/* Give the new file a name that nobody has, with the time. Return: 0 or an errno. */
static int choose_name_beside(struct job *job)
{
	struct output *output = &job->output;
	char *name;
	int err;

	err = beside_choose(output->folder_fd, output->name, &name);
	free(output->name);
	output->name = name;
	output->exclusive = true;
	job->args->beside = beside_path(output->folder_fd, name);
	return err;
}

static enum exit_code commit(struct job *job)
{
	struct save_args *args = job->args;
	int err = 0;

	if (args->keep && (args->apart || !may_take_name(job)))
		err = choose_name_beside(job);
	if (err)
		return report(exit_code_of(err), "file '%s': %s", args->beside, strerror(err));
	/* First, so that a kill in between leaves no image that the disk may not replace. */
	if (lineage_add(job->dev->number, job->image.header.id))
		fprintf(stderr, "rxadm: the image is saved nevertheless\n");
	err = output_commit(&job->output, 0600, true);
	if (err == EEXIST && job->output.exclusive && !args->beside) {
		err = choose_name_beside(job);
		if (!err)
			err = output_commit(&job->output, 0600, true);
	}
	return err ? report(exit_code_of(err), "file '%s': %s",
			    args->beside ? args->beside : args->file, strerror(err)) : EXIT_OK;
}

static enum exit_code run_job(struct job *job)
{
	uint64_t before = changes(job->dev);
	enum copy_result result = copy_run(&job->copy);

	switch (result) {
	case COPY_NO_MEMORY:
		return report(EXIT_MEMORY, "too little memory for the buffers");
	case COPY_INTERRUPTED:
		return report(EXIT_DEVICE, "interrupted; nothing was saved");
	case COPY_ERROR:
		return report(exit_code_of(job->err), "%s",
			      job->read_error ? job->read_error : job->write_error);
	default:
		break;
	}
	/* Who had it open without a claim could write. */
	if (changes(job->dev) != before)
		return report(EXIT_BUSY,
			      "%s '%s': somebody wrote to it while it was saved; nothing was saved",
			      job->dev->what, job->dev->path);
	return commit(job);
}

static void describe(struct image_header *header, const struct rxd_query *query)
{
	*header = (struct image_header){
		.size = query->size,
		.mem_limit = query->mem_limit,
		.logical_block_size = query->logical_block_size,
		.folio_size = query->folio_size,
	};
	if (query->state & RXD_STATE_RESERVED)
		header->disk_flags |= IMAGE_DISK_RESERVE;
	if (query->state & RXD_STATE_DETECT_ZEROES)
		header->disk_flags |= IMAGE_DISK_DETECT_ZEROES;
	memcpy(header->uuid, query->uuid, sizeof(header->uuid));
}

static enum exit_code save_claimed(struct save_args *args, const struct device *dev,
				   const struct rxd_query *query, int fd)
{
	struct job job = {
		.copy = {
			.read = read_disk,
			.write = write_image,
			.finish = sync_image,
			.context = &job,
			.room = IMAGE_BLOCK + IMAGE_FRAME_MAX,
			.note_size = sizeof(uint32_t),
			.chunks = CHUNKS,
			.progress = &job.progress,
		},
		.progress = { .mode = args->progress, .what = "save", .total = query->size },
		.args = args,
		.dev = dev,
		.fd = fd,
	};
	struct copy_signals signals;
	enum exit_code ret;
	int err;

	describe(&job.image.header, query);
	if (getrandom(&job.image.header.id, sizeof(job.image.header.id), 0) < 0)
		return report(EXIT_DEVICE, "no random number: %s", strerror(errno));
	err = copy_signals_hold(&signals);
	if (err)
		return report(EXIT_DEVICE, "cannot hold signals: %s", strerror(err));
	err = output_open(&job.output, args->file, true);
	if (err) {
		copy_signals_release(&signals);
		return replace_error("file", args->file, err);
	}
	job.copy.signals = &signals;
	job.extents = zeroed_array(EXTENTS_AT_ONCE, sizeof(*job.extents));
	job.scratch = args->compress ? aligned_alloc(COPY_ALIGN, IMAGE_FRAME_MAX) : NULL;
	if (args->compress && !job.scratch)
		ret = report(EXIT_MEMORY, "too little memory for the buffers");
	else
		ret = run_job(&job);
	args->signal = job.copy.signal;
	output_discard(&job.output);
	copy_signals_release(&signals);
	free(job.scratch);
	free(job.extents);
	free(job.read_error);
	free(job.write_error);
	return ret;
}

/**
 * save - save a RAM disk to an image
 * @args: what and where to
 *
 * Takes no lock: what may take long must not keep others from changing something
 * else, and nobody else can claim the disk.
 */
enum exit_code save(struct save_args *args)
{
	struct rxd_query query;
	struct device dev;
	enum exit_code ret;
	bool were_off, off_again, claimed;
	int control, fd;
	int index;

	args->signal = 0;
	args->beside = NULL;
	ret = control_open(&control);
	if (ret)
		return ret;
	ret = device_find_rxd("device", args->device, &dev, &index);
	if (!ret) {
		ret = statistics_on(&dev, &were_off);
		if (!ret)
			ret = claim(control, &dev, index, O_RDONLY, &query, &fd);
		claimed = !ret;
		/* Another save, which this one waited for, may have switched them off again. */
		if (claimed) {
			ret = statistics_on(&dev, &off_again);
			were_off |= off_again;
		}
		if (!ret)
			ret = save_claimed(args, &dev, &query, fd);
		/* Before another save has the disk, and needs them. */
		if (were_off)
			switch_statistics(&dev, "0");
		if (claimed)
			close(fd);
		device_release(&dev);
	}
	close(control);
	return ret;
}

static enum exit_code compress_argument(const char *text, struct save_args *args)
{
	char *error = value_compress(text, &args->level);

	args->compress = !error;
	if (error)
		report(EXIT_PARAMETERS, "compression '%s': %s", text, error);
	free(error);
	return args->compress ? EXIT_OK : EXIT_PARAMETERS;
}

static enum exit_code parse(int argc, char **argv, struct save_args *args, bool *help)
{
	static const struct option options[] = {
		{ "compress",	required_argument, NULL, OPT_COMPRESS },
		{ "progress",	required_argument, NULL, OPT_PROGRESS },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_COMPRESS:
			ret = compress_argument(optarg, args);
			break;
		case OPT_PROGRESS:
			ret = progress_argument(optarg, &args->progress);
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 2, "DEVICE FILE [OPTION...]");
	if (ret)
		return ret;
	args->device = argv[optind];
	args->file = argv[optind + 1];
	return EXIT_OK;
}

static enum exit_code run(int argc, char **argv)
{
	struct save_args args = { .progress = PROGRESS_AUTO };
	bool help = false;
	enum exit_code ret;

	ret = parse(argc, argv, &args, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}
	ret = privilege_check();
	if (!ret)
		ret = save(&args);
	if (args.signal)
		copy_interrupt(args.signal);
	return ret;
}

const struct command command_save = {
	.name = "save",
	.summary = "save a RAM disk to an image",
	.run = run,
};
