// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print errors. Find the ranges of the source of a copy that need not be read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../copy/file.h"
#include "../copy/printable.h"
#include "source.h"

#define EXTENTS_AT_ONCE	4096
#define STAT_BLOCK	512
#define SEEKS		3		/* tries to find data while a file is written to */
#define READ_AT_ONCE	(64 << 10)	/* smaller files need no readahead */

/**
 * complain - print an error as one line
 * @format: message, without newline
 *
 * Return: false.
 */
bool complain(const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);

	if (text)
		make_printable(text);
	fflush(stdout);
	fprintf(stderr, "rxcp: %s\n", text ? text : "out of memory");
	free(text);
	return false;
}

/* Get the part of the list of extents that begins at @from. */
static int map_from(struct source *source, uint64_t from)
{
	struct rxd_map arg = {
		.version = RXD_ABI_VERSION,
		.start = from,
		.length = source->size - from,
		.extents = (uintptr_t)source->extents,
		.count = EXTENTS_AT_ONCE,
	};

	/* A signal that stops and continues the program interrupts it, too. */
	while (ioctl(source->fd, RXD_MAP, &arg))
		if (errno != EINTR)
			return errno;
	source->nr_extents = arg.count;
	source->next_extent = 0;
	source->mapped = arg.next;
	return 0;
}

/* A device-mapper device passes RXD_MAP on to the disk below, but its own data lies elsewhere. */
static bool is_ram_disk(const struct source *source)
{
	dev_t number = source->st.st_rdev;
	char path[64];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/rxd", major(number), minor(number));
	return !access(path, F_OK);
}

/* Without a map, everything is data. */
static void try_map(struct source *source)
{
	if (!is_ram_disk(source))
		return;
	source->extents = calloc(EXTENTS_AT_ONCE, sizeof(*source->extents));
	/* The map does not include dirty pages of the page cache: write them back first. */
	source->is_rxd = source->extents && !fsync(source->fd) && !map_from(source, 0);
}

/* Files of size 0 may still have data, as in /proc. */
static bool check_size(struct source *source)
{
	ssize_t length;
	char byte;

	length = source->size ? 0 : read(source->fd, &byte, 1);
	if (length < 0)
		return complain("source '%s': %s", source->path, strerror(errno));
	if (length)
		return complain("source '%s': its size is unknown; use cp for such files",
				source->path);
	return true;
}

static bool look_at(struct source *source)
{
	int err = 0;

	if (fstat(source->fd, &source->st))
		return complain("source '%s': %s", source->path, strerror(errno));
	if (S_ISDIR(source->st.st_mode))
		return complain("source '%s': is a directory; name its files instead",
				source->path);
	if (!S_ISREG(source->st.st_mode) && !S_ISBLK(source->st.st_mode))
		return complain("source '%s': is neither a file nor a block device", source->path);
	source->size = source->st.st_size;
	if (S_ISBLK(source->st.st_mode))
		err = file_size(source->fd, &source->size);
	if (err)
		return complain("source '%s': %s", source->path, strerror(err));
	if (S_ISREG(source->st.st_mode)) {
		if (source->size > READ_AT_ONCE)
			posix_fadvise(source->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		source->has_holes = source->smart >= SMART_HOLES &&
			(uint64_t)source->st.st_blocks * STAT_BLOCK < source->size;
		return check_size(source);
	}
	/* O_NONBLOCK opens a drive without medium. */
	if (!source->size)
		return complain("source '%s': has no medium, or a size of 0", source->path);
	fcntl(source->fd, F_SETFL, fcntl(source->fd, F_GETFL) | O_DIRECT);
	if (source->smart >= SMART_HOLES)
		try_map(source);
	return true;
}

/**
 * source_open - open the source of a copy, or print an error
 * @source: out
 * @path: the file or block device
 * @smart: which ranges need not be read
 */
bool source_open(struct source *source, const char *path, enum smart smart)
{
	struct stat st;

	*source = (struct source){ .path = path, .smart = smart };
	/* Opening a pipe must not wait for a writer. */
	source->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	/* Wait until another program gives up its lease of a file. */
	if (source->fd < 0 && errno == EWOULDBLOCK && !stat(path, &st) && S_ISREG(st.st_mode))
		source->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (source->fd < 0)
		return complain("source '%s': %s", path, strerror(errno));
	if (!look_at(source)) {
		source_close(source);
		return false;
	}
	if (smart >= SMART_UNUSED)
		source->unused = unused_open(source->fd, source->size);
	return true;
}

static int next_in_map(struct source *source, uint64_t from, uint64_t *start, uint64_t *end)
{
	const struct rxd_extent *extent;
	int err;

	for (;;) {
		for (; source->next_extent < source->nr_extents; source->next_extent++) {
			extent = &source->extents[source->next_extent];
			if (extent->start + extent->length <= from)
				continue;
			*start = extent->start > from ? extent->start : from;
			*end = extent->start + extent->length;
			return 0;
		}
		if (source->mapped >= source->size)
			return 0;
		err = map_from(source, source->mapped);
		if (err)
			return err;
	}
}

/*
 * Find the next data of a file. The rest of it also looks like a hole while it is shorter, such as
 * when a program truncates it and writes it anew. If it may have been shorter, read the rest.
 */
static void find_data(struct source *source, uint64_t from)
{
	struct stat before = source->st;
	unsigned int i;

	for (i = 0; i < SEEKS; i++) {
		if ((uint64_t)before.st_size < source->size)
			break;
		file_next_data(source->fd, from, source->size, &source->data_start,
			       &source->data_end);
		if (source->data_start < source->size || !file_was_written(source->fd, &before))
			return;
		if (fstat(source->fd, &before))
			break;
	}
	source->data_start = from;
	source->data_end = source->size;
}

static int next_in_file(struct source *source, uint64_t from, uint64_t *start, uint64_t *end)
{
	/* Reuse the last result: some file systems check each page up to the next hole. */
	if (from >= source->data_end || from < source->data_start)
		find_data(source, from);
	*start = from > source->data_start ? from : source->data_start;
	*end = source->data_end;
	return 0;
}

/* Find the next range that is not known to be a hole. */
static int next_data(struct source *source, uint64_t from, uint64_t *start, uint64_t *end)
{
	*start = source->size;
	*end = source->size;
	if (source->is_rxd)
		return next_in_map(source, from, start, end);
	if (source->has_holes)
		return next_in_file(source, from, start, end);
	*start = from;
	return 0;
}

/**
 * source_next - find the next range that must be read
 * @source: the source
 * @from: offset to start at
 * @start: out: where it begins; the size of the source if there is none
 * @end: out: where it ends
 *
 * Return: 0 or an errno.
 */
int source_next(struct source *source, uint64_t from, uint64_t *start, uint64_t *end)
{
	uint64_t used_end;
	int err;

	for (;;) {
		err = next_data(source, from, start, end);
		if (err)
			return err;
		if (*start >= source->size) {
			*start = source->size;
			return 0;
		}
		if (*end > source->size)
			*end = source->size;
		if (!source->unused)
			return 0;
		unused_next(source->unused, *start, &from, &used_end);
		if (from < *end) {
			*start = from;
			if (used_end < *end)
				*end = used_end;
			return 0;
		}
	}
}

/**
 * source_was_written - check whether blocks that were left out may hold data now
 * @source: the source
 *
 * A block device is open exclusively meanwhile, or was in use from the start.
 */
bool source_was_written(const struct source *source)
{
	return source->unused && S_ISREG(source->st.st_mode) &&
	       file_was_written(source->fd, &source->st);
}

/**
 * source_shrank - check whether ranges that were taken for holes were beyond the end
 * @source: the source
 */
bool source_shrank(const struct source *source)
{
	uint64_t size;

	if (!source->has_holes && !source->is_rxd)
		return false;
	return file_size(source->fd, &size) || size < source->size;
}

void source_close(struct source *source)
{
	unused_close(source->unused);
	free(source->extents);
	if (source->fd >= 0)
		close(source->fd);
	source->fd = -1;
}
