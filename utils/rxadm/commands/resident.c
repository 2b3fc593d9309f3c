// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm extents, hotlist, warm: the parts of a device that are in memory
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/guess.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/command.h"
#include "commands/options.h"
#include "device/device.h"
#include "kernel/attributes.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/dm.h"
#include "kernel/extents.h"
#include "kernel/rxcache.h"
#include "output/table.h"

enum {
	COL_START,
	COL_LENGTH,
};

static const struct column extent_columns[] = {
	[COL_START]	= { "START", COLUMN_NUMBER, true, "offset in bytes" },
	[COL_LENGTH]	= { "LENGTH", COLUMN_NUMBER, true, "length in bytes" },
};

static const struct table_spec extents_spec = {
	.name = "extents",
	.usage = "Usage: rxadm extents DEVICE [OPTION...]\n"
		 "\n"
		 "Show the ranges of a RAM disk that hold data. All other ranges read as zeros.\n",
	.columns = extent_columns,
	.count = ARRAY_SIZE(extent_columns),
};

static enum exit_code map_error(int err, const struct device *dev)
{
	if (err == EBUSY)
		return report(EXIT_BUSY,
			      "%s '%s': is in use as a cache; 'rxadm status' shows what it holds",
			      dev->what, dev->path);
	return control_error(err, dev->path);
}

static bool add_line(void *data, const struct rxd_extent *extent)
{
	struct table *table = data;

	table_add_line(table);
	table_set_number(table, COL_START, extent->start);
	table_set_number(table, COL_LENGTH, extent->length);
	return true;
}

static enum exit_code add_lines(struct table *table, int fd, const struct device *dev)
{
	int err = extents_each(fd, add_line, table);

	return err ? map_error(err, dev) : EXIT_OK;
}

static enum exit_code fill_extents(struct table *table, const char *name)
{
	struct device dev;
	enum exit_code ret;
	int index;
	int fd;

	ret = privilege_check();
	if (!ret)
		ret = device_find_rxd("device", name, &dev, &index);
	if (ret)
		return ret;
	fd = open(dev.path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		ret = report(exit_code_of(errno), "%s '%s': cannot be opened: %s", dev.what,
			     dev.path, strerror(errno));
	} else {
		ret = add_lines(table, fd, &dev);
		close(fd);
	}
	device_release(&dev);
	return ret;
}

static enum exit_code run_extents(int argc, char **argv)
{
	struct table *table;
	enum exit_code ret;

	ret = table_options(argc, argv, &extents_spec, &table);
	if (ret || !table)
		return ret;
	ret = operands(argc, argv, 1, "DEVICE [OPTION...]");
	if (!ret)
		ret = fill_extents(table, argv[optind]);
	if (!ret)
		ret = table_print(table);
	table_free(table);
	return ret;
}

const struct command command_extents = {
	.name = "extents",
	.summary = "show the ranges of a RAM disk that hold data",
	.run = run_extents,
};

static const char hotlist_usage[] =
	"Usage: rxadm hotlist save NAME FILE\n"
	"\n"
	"Write a list of the blocks that a cache holds to FILE, for 'rxadm warm'.\n"
	"\n"
	"Options:\n"
	" -h, --help   print this help\n";

static enum exit_code run_hotlist(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	const char *name;
	enum exit_code ret;
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt != 'h')
			return option_error(opt, argv, options);
		fputs(hotlist_usage, stdout);
		return EXIT_OK;
	}
	ret = operands(argc, argv, 3, "save NAME FILE");
	if (ret)
		return ret;
	if (strcmp(argv[optind], "save"))
		return report(EXIT_PARAMETERS,
			      "'%s': is unknown; usage: rxadm hotlist save NAME FILE",
			      argv[optind]);
	name = mapping_name(argv[optind + 1]);

	/* Take no lock: this may take long, and must not block other changes. */
	ret = mapping_name_check(name);
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = cache_save_hotlist(name, argv[optind + 2]);
	dm_end();
	return ret;
}

const struct command command_hotlist = {
	.name = "hotlist",
	.summary = "save the list of cached blocks",
	.run = run_hotlist,
};

/* A second pass retries the blocks that were in use. */
#define PASSES	2

static const char warm_usage[] =
	"Usage: rxadm warm NAME FILE [--background]\n"
	"\n"
	"Read the blocks listed in FILE from the origin into a cache. 'rxadm hotlist save'\n"
	"writes the list. Other I/O to the origin takes precedence.\n"
	"\n"
	"Options:\n"
	"     --background   check the list and return; continue in the background\n"
	" -h, --help         print this help\n";

struct warm_request {
	bool background;
	const char *name;
	const char *path;
};

static enum exit_code parse_warm(int argc, char **argv, struct warm_request *request, bool *help)
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
			return option_error(opt, argv, options);
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

static enum exit_code warm(const struct warm_request *request)
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

static enum exit_code run_warm(int argc, char **argv)
{
	struct warm_request request = { 0 };
	bool help = false;
	enum exit_code ret;

	ret = parse_warm(argc, argv, &request, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(warm_usage, stdout);
		return EXIT_OK;
	}

	/* Take no lock: this may take long, and must not block other changes. */
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
	.summary = "read the blocks of a list into a cache",
	.run = run_warm,
};
