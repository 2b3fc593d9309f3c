// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm hotlist
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caches.h"
#include "command.h"
#include "dm.h"
#include "hotlist.h"
#include "machine.h"
#include "options.h"
#include "ranges.h"
#include "rxcache.h"

/* How many sectors one message brings in: 16 MiB. */
#define PREFETCH_SECTORS	32768

static const char usage[] =
	"Usage: rxadm hotlist save NAME FILE\n"
	"       rxadm hotlist load NAME FILE [--background]\n"
	"\n"
	"Write down which blocks a cache holds, or have it read the blocks of such a list\n"
	"from the slow disk, in the order of the disk, while nothing else needs it.\n"
	"\n"
	"Options:\n"
	"     --background   return at once; the rest goes on\n"
	" -h, --help         print this help\n";

struct request {
	bool load;
	bool background;
	const char *name;
	const char *path;
};

static enum exit_code parse_action(const char *action, struct request *request)
{
	if (strcmp(action, "save") && strcmp(action, "load"))
		return report(EXIT_PARAMETERS, "'%s': must be save or load", action);
	request->load = !strcmp(action, "load");
	if (request->background && !request->load)
		return report(EXIT_PARAMETERS, "option '--background': is for load only");
	return EXIT_OK;
}

static enum exit_code parse(int argc, char **argv, struct request *request, bool *help)
{
	static const struct option options[] = {
		{ "background",	no_argument, NULL, OPT_BACKGROUND },
		{ "help",	no_argument, NULL, 'h' },
		{ }
	};
	enum exit_code ret;
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_BACKGROUND:
			request->background = true;
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	ret = operands(argc, argv, 3, "save|load NAME FILE");
	if (!ret)
		ret = parse_action(argv[optind], request);
	if (ret)
		return ret;
	request->name = mapping_name(argv[optind + 1]);
	request->path = argv[optind + 2];
	return mapping_name_check(request->name);
}

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
				     "mapping '%s': its list of blocks is not understood; are rxadm and the module dm-rxcache of one release?",
				     name);
		free(answer);
	} while (!ret && slot);
	ranges_sort(ranges);
	return ret;
}

static enum exit_code file_error(const char *path)
{
	return report(exit_code_of(errno), "file '%s': %s", path, strerror(errno));
}

/* The old file stays until the new one is whole. */
static enum exit_code write_file(const char *path, const struct ranges *ranges)
{
	char *temporary = format_text("%s.new", path);
	enum exit_code ret = EXIT_OK;
	FILE *file;
	bool ok;

	file = fopen(temporary, "we");
	if (!file) {
		ret = file_error(temporary);
		free(temporary);
		return ret;
	}
	ranges_write(file, ranges);
	ok = !fflush(file) && !ferror(file) && !fsync(fileno(file));
	if (!ok)
		ret = file_error(temporary);
	if (fclose(file) && ok)
		ret = file_error(temporary);
	if (!ret && rename(temporary, path))
		ret = file_error(path);
	if (ret)
		unlink(temporary);
	free(temporary);
	return ret;
}

static enum exit_code read_status(const char *name, struct rxcache_status *status,
				  uint64_t *sectors)
{
	struct mapping mapping;
	enum exit_code ret;
	char *error;

	ret = mapping_read(name, MAPPING_STATUS, &mapping);
	if (ret)
		return ret;
	error = rxcache_parse_status(mapping.params ? mapping.params : "", status);
	if (error)
		ret = report(EXIT_DEVICE, "mapping '%s': its status is not understood: %s", name,
			     error);
	*sectors = mapping.sectors;
	free(error);
	mapping_release(&mapping);
	return ret;
}

/**
 * hotlist_save - write down which blocks a cache holds
 * @name: the cache
 * @path: the file, replaced once the new one is whole
 */
enum exit_code hotlist_save(const char *name, const char *path)
{
	struct rxcache_status status;
	struct ranges ranges = { 0 };
	enum exit_code ret;
	uint64_t sectors;

	ret = read_status(name, &status, &sectors);
	if (!ret)
		ret = list_cached(name, status.block_size, &ranges);
	if (!ret)
		ret = write_file(path, &ranges);
	ranges_free(&ranges);
	return ret;
}

static enum exit_code read_file(const char *path, uint64_t sectors, struct ranges *ranges)
{
	enum exit_code ret = EXIT_OK;
	FILE *file;
	char *error;

	file = fopen(path, "re");
	if (!file)
		return file_error(path);
	error = ranges_read(file, sectors, ranges);
	if (error)
		ret = report(EXIT_PARAMETERS, "file '%s': %s", path, error);
	free(error);
	fclose(file);
	return ret;
}

static enum exit_code prefetch(const char *name, const struct range *range)
{
	enum exit_code ret = EXIT_OK;
	uint64_t done, length;
	char *message;

	for (done = 0; !ret && done < range->length; done += length) {
		length = range->length - done;
		if (length > PREFETCH_SECTORS)
			length = PREFETCH_SECTORS;
		message = format_text("prefetch %llu %llu", (unsigned long long)range->start + done,
				      (unsigned long long)length);
		ret = mapping_message(name, message, NULL);
		free(message);
	}
	return ret;
}

/* Return: whether to go on: in the background it is a child that does. */
static bool go_to_background(enum exit_code *ret)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child)
		return setsid() > 0;
	if (child < 0)
		*ret = report(exit_code_of(errno), "cannot go to the background: %s",
			      strerror(errno));
	return false;
}

static enum exit_code load(const struct request *request, uint64_t sectors)
{
	struct ranges ranges = { 0 };
	enum exit_code ret;
	size_t i;

	ret = read_file(request->path, sectors, &ranges);
	ranges_sort(&ranges);
	if (!ret && (!request->background || go_to_background(&ret)))
		for (i = 0; !ret && i < ranges.count; i++)
			ret = prefetch(request->name, &ranges.list[i]);
	ranges_free(&ranges);
	return ret;
}

static enum exit_code hotlist(const struct request *request)
{
	struct rxcache_status status;
	const struct cache *cache;
	uint64_t sectors = 0;
	struct caches caches;
	enum exit_code ret;

	ret = cache_find(request->name, &caches, &cache);
	caches_free(&caches);
	if (!ret)
		ret = read_status(request->name, &status, &sectors);
	if (ret)
		return ret;
	return request->load ? load(request, sectors) : hotlist_save(request->name, request->path);
}

static enum exit_code run(int argc, char **argv)
{
	struct request request = { 0 };
	bool help = false;
	enum exit_code ret;

	ret = parse(argc, argv, &request, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}

	/* What may take long must not keep others from changing something: no lock. */
	ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = hotlist(&request);
	dm_end();
	return ret;
}

const struct command command_hotlist = {
	.name = "hotlist",
	.summary = "save which blocks are cached, or load them",
	.run = run,
};
