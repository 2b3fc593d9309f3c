// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a cache knows about its blocks. Hot lists are files with those that it holds: write one, and
 * read its blocks into a cache. Its advice tells how many it should hold.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "device/dm.h"
#include "kernel/caches.h"
#include "kernel/hotlist.h"
#include "kernel/rxcache.h"

/* A second pass retries the blocks that were in use. */
#define PASSES	2

/* Add the blocks of an answer. Return: false if it is not understood. */
static bool add_blocks(const char *answer, uint64_t block_size, struct ranges *ranges,
		       uint64_t *slot)
{
	uint64_t number;
	char *end;

	while (isdigit((unsigned char)*answer)) {
		number = strtoull(answer, &end, 10);
		if (!*end) {
			*slot = number;
			return true;
		}
		ranges_add(ranges, number * block_size, block_size);
		answer = end + strspn(end, " ");
	}
	return false;
}

static enum exit_code list_cached(const char *name, uint64_t block_size, struct ranges *ranges)
{
	enum exit_code ret;
	uint64_t slot = 0;
	char *message;
	char *answer;

	do {
		message = format_text("cached %llu", (unsigned long long)slot);
		ret = mapping_message(name, message, &answer);
		free(message);
		if (!ret && (!answer || !add_blocks(answer, block_size, ranges, &slot)))
			ret = report(EXIT_DEVICE,
				     "mapping '%s': its list of blocks is not understood; are rxadm and the module dm-rxcache from the same release?",
				     name);
		free(answer);
	} while (!ret && slot);
	ranges_sort(ranges);
	return ret;
}

static void fill_file(FILE *file, const void *data)
{
	ranges_write(file, data);
}

/**
 * hotlist_save - write a hot list of the blocks that a cache holds
 * @name: the cache
 * @path: the file, replaced when the new one is complete
 */
enum exit_code hotlist_save(const char *name, const char *path)
{
	struct rxcache_status status;
	struct ranges ranges = { 0 };
	enum exit_code ret;
	uint64_t sectors;

	ret = cache_query(name, &status, &sectors);
	if (!ret)
		ret = list_cached(name, status.block_size, &ranges);
	if (!ret)
		ret = file_replace("file", path, 0600, fill_file, &ranges);
	ranges_free(&ranges);
	return ret;
}

static enum exit_code read_file(const char *path, uint64_t sectors, struct ranges *ranges)
{
	/* Opening a pipe must not wait for a writer. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	enum exit_code ret = EXIT_OK;
	struct stat st;
	char *error;

	if (!file || fstat(fd, &st)) {
		ret = report(exit_code_of(errno), "file '%s': %s", path, strerror(errno));
		goto out_close;
	}
	if (!S_ISREG(st.st_mode)) {
		ret = report(EXIT_PARAMETERS, "file '%s': is not a regular file", path);
		goto out_close;
	}
	error = ranges_read(file, sectors, ranges);
	if (error)
		ret = report(EXIT_PARAMETERS, "file '%s': %s", path, error);
	free(error);
out_close:
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	return ret;
}

/* Parse the target's answer: the sector to continue at, and the number of skipped blocks. */
static enum exit_code parse_answer(const char *name, const char *answer, uint64_t start,
				   uint64_t *next, uint64_t *left_out)
{
	unsigned long long sector, blocks;
	char more;

	if (!answer)
		return report(EXIT_DEVICE,
			      "'%s': the target returned no answer; rxcache must be version 1.1.0 or newer",
			      name);
	if (sscanf(answer, "%llu %llu %c", &sector, &blocks, &more) != 2 || sector <= start)
		return report(EXIT_DEVICE, "'%s': the target returned an invalid answer: '%s'",
			      name, answer);
	*next = sector;
	*left_out += blocks;
	return EXIT_OK;
}

static enum exit_code prefetch(const char *name, const struct range *range, uint64_t *left_out)
{
	uint64_t start = range->start;
	uint64_t end = range->start + range->length;
	enum exit_code ret = EXIT_OK;
	char *message;
	char *answer;

	while (!ret && start < end) {
		message = format_text("prefetch %llu %llu", (unsigned long long)start,
				      (unsigned long long)(end - start));
		ret = mapping_message(name, message, &answer);
		if (!ret)
			ret = parse_answer(name, answer, start, &start, left_out);
		free(answer);
		free(message);
	}
	return ret;
}

/* Repeat whole passes: blocks that are cached already take no time. */
static enum exit_code prefetch_all(const char *name, const struct ranges *ranges)
{
	enum exit_code ret = EXIT_OK;
	uint64_t left_out = 1;
	unsigned int pass;
	size_t i;

	for (pass = 0; !ret && left_out && pass < PASSES; pass++) {
		left_out = 0;
		for (i = 0; !ret && i < ranges->count; i++)
			ret = prefetch(name, &ranges->list[i], &left_out);
	}
	if (!ret && left_out)
		report(EXIT_OK, "'%s': %llu blocks were in use and are not cached", name,
		       (unsigned long long)left_out);
	return ret;
}

/* Redirect the standard streams, so that a reader of the output does not wait for the child. */
static bool leave_terminal(int null)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	return setsid() > 0;
}

/* Start a child in the background. Return: true in the child, false in the parent. */
static bool go_to_background(enum exit_code *ret)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t child = -1;

	fflush(NULL);
	if (null >= 0)
		child = fork();
	if (!child)
		return leave_terminal(null);
	if (child < 0)
		*ret = report(exit_code_of(errno), "cannot continue in the background: %s",
			      strerror(errno));
	if (null >= 0)
		close(null);
	return false;
}

/**
 * hotlist_warm - read the blocks of a hot list into a cache
 * @name: the cache
 * @path: the file
 * @background: check the list and return; a child continues, and returns here, too
 */
enum exit_code hotlist_warm(const char *name, const char *path, bool background)
{
	struct rxcache_status status;
	struct ranges ranges = { 0 };
	uint64_t sectors = 0;
	enum exit_code ret;

	ret = cache_query(name, &status, &sectors);
	if (!ret)
		ret = read_file(path, sectors, &ranges);
	ranges_sort(&ranges);
	if (!ret && (!background || go_to_background(&ret)))
		ret = prefetch_all(name, &ranges);
	ranges_free(&ranges);
	return ret;
}

/**
 * advice_read - ask a cache which hit ratio other sizes would have
 * @name: the cache
 * @advice: out: its answer; its advice may be off, or its error EBUSY or ENXIO
 */
enum exit_code advice_read(const char *name, struct advice *advice)
{
	char *answer, *error = NULL;
	int err = mapping_ask(name, "advice", &answer);
	enum exit_code ret = EXIT_OK;

	*advice = (struct advice){ .error = err };
	if (!err)
		error = answer ? advice_parse(answer, advice) : copy_text("it is empty");
	/* It may have been switched off or removed, or its table replaced, since it was found. */
	else if (err != ENODATA && err != EBUSY && err != ENXIO)
		error = copy_text(strerror(err));
	if (error)
		ret = report(EXIT_DEVICE, "mapping '%s': its advice cannot be read: %s", name,
			     error);
	free(error);
	free(answer);
	return ret;
}
