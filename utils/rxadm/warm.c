// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm warm
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caches.h"
#include "command.h"
#include "dm.h"
#include "machine.h"
#include "options.h"
#include "ranges.h"

/* How often it asks for blocks that others were at. */
#define PASSES	2

static const char usage[] =
	"Usage: rxadm warm NAME FILE [--background]\n"
	"\n"
	"Have a cache read the blocks that 'rxadm hotlist save' wrote down from the slow\n"
	"disk, in the order of the disk, while nothing else needs it.\n"
	"\n"
	"Options:\n"
	"     --background   return at once; the rest goes on\n"
	" -h, --help         print this help\n";

struct request {
	bool background;
	const char *name;
	const char *path;
};

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
	ret = operands(argc, argv, 2, "NAME FILE [--background]");
	if (ret)
		return ret;
	request->name = mapping_name(argv[optind]);
	request->path = argv[optind + 1];
	return mapping_name_check(request->name);
}

static enum exit_code file_error(const char *path)
{
	return report(exit_code_of(errno), "file '%s': %s", path, strerror(errno));
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

/* What the target answers: where to go on, and how many blocks it left out. */
static enum exit_code parse_answer(const char *name, const char *answer, uint64_t start,
				   uint64_t *next, uint64_t *left_out)
{
	unsigned long long sector, blocks;
	char more;

	if (!answer)
		return report(EXIT_DEVICE, "'%s': no answer: dm-rxcache is older than 1.1.0",
			      name);
	if (sscanf(answer, "%llu %llu %c", &sector, &blocks, &more) != 2 || sector <= start)
		return report(EXIT_DEVICE, "'%s': the target gives an unknown answer: '%s'", name,
			      answer);
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

/* What is there already takes no time. */
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
		report(EXIT_OK, "'%s': blocks that were in use and are not cached: %llu", name,
		       (unsigned long long)left_out);
	return ret;
}

/* Whoever reads what this process writes must not wait for the child's end. */
static bool leave_terminal(int null)
{
	int fd;

	for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	return setsid() > 0;
}

/* Return: whether to go on: in the background it is a child that does. */
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
		*ret = report(exit_code_of(errno), "cannot go to the background: %s",
			      strerror(errno));
	if (null >= 0)
		close(null);
	return false;
}

static enum exit_code warm(const struct request *request)
{
	struct rxcache_status status;
	struct ranges ranges = { 0 };
	uint64_t sectors = 0;
	enum exit_code ret;

	ret = cache_query(request->name, &status, &sectors);
	if (!ret)
		ret = read_file(request->path, sectors, &ranges);
	ranges_sort(&ranges);
	if (!ret && (!request->background || go_to_background(&ret)))
		ret = prefetch_all(request->name, &ranges);
	ranges_free(&ranges);
	return ret;
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
	ret = warm(&request);
	dm_end();
	return ret;
}

const struct command command_warm = {
	.name = "warm",
	.summary = "have a cache read what another one held",
	.run = run,
};
