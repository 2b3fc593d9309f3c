// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm hotlist
 */
#include <ctype.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caches.h"
#include "command.h"
#include "dm.h"
#include "hotlist.h"
#include "machine.h"
#include "options.h"
#include "ranges.h"
#include "replace.h"
#include "rxcache.h"

static const char usage[] =
	"Usage: rxadm hotlist save NAME FILE\n"
	"\n"
	"Write down which blocks a cache holds, for 'rxadm warm'.\n"
	"\n"
	"Options:\n"
	" -h, --help   print this help\n";

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

static void fill(FILE *file, const void *data)
{
	ranges_write(file, data);
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

	ret = cache_query(name, &status, &sectors);
	if (!ret)
		ret = list_cached(name, status.block_size, &ranges);
	if (!ret)
		ret = replace_file("file", path, 0600, fill, &ranges);
	ranges_free(&ranges);
	return ret;
}

static enum exit_code run(int argc, char **argv)
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
			return option_error(opt, argv);
		fputs(usage, stdout);
		return EXIT_OK;
	}
	ret = operands(argc, argv, 3, "save NAME FILE");
	if (ret)
		return ret;
	if (strcmp(argv[optind], "save"))
		return report(EXIT_PARAMETERS, "'%s': must be save", argv[optind]);
	name = mapping_name(argv[optind + 1]);

	/* What may take long must not keep others from changing something: no lock. */
	ret = mapping_name_check(name);
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = hotlist_save(name, argv[optind + 2]);
	dm_end();
	return ret;
}

const struct command command_hotlist = {
	.name = "hotlist",
	.summary = "save which blocks are cached",
	.run = run,
};
