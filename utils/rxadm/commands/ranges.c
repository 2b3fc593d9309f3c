// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm extents, diff: ranges of RAM disks; hotlist, warm: the blocks of a cache; advise: the
 * hit ratio of a cache with other sizes
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/command.h"
#include "commands/options.h"
#include "device/dm.h"
#include "kernel/caches.h"
#include "kernel/extents.h"
#include "kernel/hotlist.h"
#include "kernel/rxcache.h"
#include "output/table.h"

enum {
	COL_START,
	COL_LENGTH,
};

static const struct column columns[] = {
	[COL_START]	= { "START", COLUMN_NUMBER, true, "offset in bytes" },
	[COL_LENGTH]	= { "LENGTH", COLUMN_NUMBER, true, "length in bytes" },
};

static bool add_line(void *data, const struct rxd_extent *extent)
{
	struct table *table = data;

	table_add_line(table);
	table_set_number(table, COL_START, extent->start);
	table_set_number(table, COL_LENGTH, extent->length);
	return true;
}

static const struct table_spec extents_spec = {
	.name = "extents",
	.usage = "Usage: rxadm extents DEVICE [OPTION...]\n"
		 "\n"
		 "Show the ranges of a RAM disk that hold data. All other ranges read as zeros.\n",
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

static enum exit_code run_extents(int argc, char **argv)
{
	struct table *table;
	enum exit_code ret;

	ret = table_options(argc, argv, &extents_spec, NULL, &table);
	if (ret || !table)
		return ret;
	ret = operands(argc, argv, 1, "DEVICE [OPTION...]");
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = ramdisk_extents(argv[optind], add_line, table);
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

static const char diff_usage[] =
	"Usage: rxadm diff DEVICE --base BASE [OPTION...]\n"
	"\n"
	"Show the ranges of the RAM disk DEVICE that it does not share with the RAM disk BASE.\n"
	"If one of them is a clone of the other, these are the ranges that were changed since.\n"
	"No data is read, unless --compare is given.\n";

static const struct table_spec diff_spec = {
	.name = "diff",
	.usage = diff_usage,
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

struct diff_request {
	const char *base;
	bool compare;
};

static const struct option diff_options[] = {
	{ "base",	required_argument, NULL, OPT_BASE },
	{ "compare",	no_argument,	   NULL, OPT_COMPARE },
	{ }
};

static void set_diff_option(void *data, int opt)
{
	struct diff_request *request = data;

	if (opt == OPT_BASE)
		request->base = optarg;
	else
		request->compare = true;
}

static enum exit_code run_diff(int argc, char **argv)
{
	struct diff_request request = { 0 };
	const struct table_extra extra = {
		.options = diff_options,
		.help = "     --base BASE        the RAM disk to compare with\n"
			"     --compare          read these ranges, and show only those that differ\n",
		.set = set_diff_option,
		.data = &request,
	};
	struct table *table;
	enum exit_code ret;

	ret = table_options(argc, argv, &diff_spec, &extra, &table);
	if (ret || !table)
		return ret;
	ret = operands(argc, argv, 1, "DEVICE --base BASE [OPTION...]");
	if (!ret && !request.base)
		ret = report(EXIT_PARAMETERS,
			     "option --base is missing; give the RAM disk to compare with");
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = ramdisk_diff(argv[optind], request.base, request.compare, add_line, table);
	if (!ret)
		ret = table_print(table);
	table_free(table);
	return ret;
}

const struct command command_diff = {
	.name = "diff",
	.summary = "show the ranges that two RAM disks do not share",
	.run = run_diff,
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
	const char *name;
	bool help = false;
	enum exit_code ret;

	ret = help_option(argc, argv, hotlist_usage, &help);
	if (ret || help)
		return ret;
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
	ret = hotlist_save(name, argv[optind + 2]);
	dm_end();
	return ret;
}

const struct command command_hotlist = {
	.name = "hotlist",
	.summary = "save the list of cached blocks",
	.run = run_hotlist,
};

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
	const struct flag flags[] = { { "background", &request->background }, { } };
	enum exit_code ret;

	ret = flag_options(argc, argv, warm_usage, flags, help);
	if (ret || *help)
		return ret;
	ret = operands(argc, argv, 2, "NAME FILE [--background]");
	if (ret)
		return ret;
	request->name = mapping_name(argv[optind]);
	request->path = argv[optind + 1];
	return mapping_name_check(request->name);
}

static enum exit_code run_warm(int argc, char **argv)
{
	struct warm_request request = { 0 };
	bool help = false;
	enum exit_code ret;

	ret = parse_warm(argc, argv, &request, &help);
	if (ret || help)
		return ret;

	/* Take no lock: this may take long, and must not block other changes. */
	ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = hotlist_warm(request.name, request.path, request.background);
	dm_end();
	return ret;
}

const struct command command_warm = {
	.name = "warm",
	.summary = "read the blocks of a list into a cache",
	.run = run_warm,
};

#define SECTOR		512
#define HOUR		3600
/* A size is better than another one if it saves this much of the reads of the origin. */
#define HELPS_PERCENT	5
/* Blocks an hour are not extrapolated from less. */
#define SECONDS_MIN	60
#define MINUTE		60

enum {
	COL_SIZE,
	COL_CURRENT,
	COL_HOUR_HIT_PERCENT,	/* followed by COL_HOUR_SAVED; then the same for the day */
	COL_HOUR_SAVED,
	COL_DAY_HIT_PERCENT,
	COL_DAY_SAVED_HOURLY,
};

static const struct column advise_columns[] = {
	[COL_SIZE]	= { "SIZE", COLUMN_SIZE, true, "size that the cache could have" },
	[COL_CURRENT]	= { "CURRENT", COLUMN_TEXT, true, "yes: its present size" },
	[COL_HOUR_HIT_PERCENT] = { "HOUR_HIT_PERCENT", COLUMN_NUMBER, true,
				   "hit ratio of this size in the last hour, in percent" },
	[COL_HOUR_SAVED] = { "HOUR_SAVED", COLUMN_NUMBER, true,
			     "how many fewer blocks it would have read from the origin then" },
	[COL_DAY_HIT_PERCENT] = { "DAY_HIT_PERCENT", COLUMN_NUMBER, true,
				  "as HOUR_HIT_PERCENT, in the last day" },
	[COL_DAY_SAVED_HOURLY] = { "DAY_SAVED_HOURLY", COLUMN_NUMBER, true,
				   "as HOUR_SAVED, mean of an hour in the last day" },
};

static const struct table_spec advise_spec = {
	.name = "sizes",
	.usage = "Usage: rxadm advise NAME [OPTION...]\n"
		 "\n"
		 "Show the hit ratio that a cache would have had with other sizes, and how many\n"
		 "fewer blocks an hour it would have read from the origin than with its present\n"
		 "size, in the last hour and day. First switch this on, by 'rxadm set NAME\n"
		 "--advise on' or, permanently, by 'advise = yes' in rxd.conf.\n",
	.columns = advise_columns,
	.count = ARRAY_SIZE(advise_columns),
};

static void fill_sizes(struct table *table, const struct advice *advice, uint64_t block_size)
{
	double ratio, saved;
	unsigned int i, time;

	for (i = 0; i < ADVICE_SIZES; i++) {
		if (advice->size[i].blocks < RXCACHE_BLOCKS_MIN)
			continue;
		table_add_line(table);
		table_set_number(table, COL_SIZE, advice->size[i].blocks * block_size);
		table_set_text(table, COL_CURRENT, i == ADVICE_PRESENT ? "yes" : "no");
		for (time = 0; time < ADVICE_TIMES; time++) {
			if (!advice->time[time].reads)
				continue;
			ratio = advice_hit_ratio(advice, i, time);
			table_set_freed(table, COL_HOUR_HIT_PERCENT + 2 * time,
					format_text("%.2f", 100 * ratio));
			if (advice->time[time].seconds < SECONDS_MIN)
				continue;
			saved = (ratio - advice_hit_ratio(advice, ADVICE_PRESENT, time)) *
				advice->time[time].reads * HOUR / advice->time[time].seconds;
			table_set_freed(table, COL_HOUR_SAVED + 2 * time,
					format_text("%lld", (long long)saved));
		}
	}
}

/* Return: whether a size reads clearly fewer blocks from the origin than another one. */
static bool is_better(const struct advice *advice, unsigned int size, unsigned int than)
{
	unsigned int time;

	for (time = 0; time < ADVICE_TIMES; time++)
		if (100.0 * advice->size[size].misses[time] <
		    (100.0 - HELPS_PERCENT) * advice->size[than].misses[time])
			return true;
	return false;
}

static unsigned long long minutes(uint64_t seconds)
{
	return (seconds + MINUTE - 1) / MINUTE;
}

/* Parts of the time in which samples came faster than they can be fed do not count. */
static void note_left_out(const char *name, const struct advice *advice, enum advice_time time)
{
	uint64_t left_out = advice->time[time].left_out;

	if (left_out)
		report(EXIT_OK,
		       "note: the figures of '%s' for the last %s leave out %llu of %llu minutes, in which samples came too fast",
		       name, time == ADVICE_HOUR ? "hour" : "day", minutes(left_out),
		       minutes(advice->time[time].seconds + left_out));
}

/* Print a note if no size is better, or if the results are not complete. */
static void note_sizes(const char *name, const struct advice *advice,
		       const struct rxcache_status *status)
{
	uint64_t block_size = status->block_size * SECTOR;
	uint64_t least_blocks = rxcache_least_blocks(status);
	unsigned int least = 0, most = ADVICE_SIZES - 1, unknown = ADVICE_PRESENT;
	char size[SIZE_TEXT_MAX];

	note_left_out(name, advice, ADVICE_HOUR);
	note_left_out(name, advice, ADVICE_DAY);
	if (advice->halved)
		report(EXIT_OK,
		       "note: samples of '%s' came too fast, so the target now takes only one of %llu, and the figures are less exact",
		       name, 1ULL << advice->halved);
	if (!advice->time[ADVICE_DAY].reads && !advice->time[ADVICE_DAY].left_out)
		report(EXIT_OK, "note: nothing was read from '%s' in the last day", name);
	if (advice->time[ADVICE_DAY].seconds + advice->time[ADVICE_DAY].left_out < HOUR)
		report(EXIT_OK, "note: the advice of '%s' has been on for less than an hour", name);
	if (!strcmp(status->features.mode, "passthrough")) {
		report(EXIT_OK,
		       "note: the mode of '%s' is passthrough, in which all reads are misses for all sizes",
		       name);
		return;
	}
	if (!advice->time[ADVICE_DAY].reads)
		return;
	while (unknown < ADVICE_SIZES && advice_is_known(advice, unknown))
		unknown++;
	while (most > ADVICE_PRESENT && !is_better(advice, most, ADVICE_PRESENT))
		most--;
	if (unknown < ADVICE_SIZES)
		report(EXIT_OK,
		       "note: the advice of '%s' has not been on for long enough to judge a size of %s or more",
		       name, size_format(advice->size[unknown].blocks * block_size, size));
	else if (most == ADVICE_PRESENT)
		report(EXIT_OK,
		       "note: no larger size of '%s' would save %d %% of the blocks that it reads from the origin",
		       name, HELPS_PERCENT);
	if (unknown == ADVICE_PRESENT)
		return;
	while (least < ADVICE_PRESENT && (advice->size[least].blocks < least_blocks ||
					  is_better(advice, ADVICE_PRESENT, least)))
		least++;
	if (least < ADVICE_PRESENT)
		report(EXIT_OK,
		       "note: with only %s, '%s' would read at most about %d %% more blocks from the origin",
		       size_format(advice->size[least].blocks * block_size, size), name,
		       HELPS_PERCENT);
}

static enum exit_code no_advice(const char *name, int error)
{
	if (error == EBUSY)
		return report(EXIT_BUSY,
			      "cache '%s': its table is being replaced; try again when it is resumed",
			      name);
	if (error == ENXIO)
		return report(EXIT_DEVICE, "cache '%s': it was removed meanwhile", name);
	return report(EXIT_BUSY,
		      "cache '%s': its advice is off; 'rxadm set %s --advise on' switches it on",
		      name, name);
}

static enum exit_code advise(struct table *table, const char *name)
{
	struct rxcache_status status;
	struct advice advice = { 0 };
	enum exit_code ret;
	uint64_t sectors;

	ret = cache_query(name, &status, &sectors);
	if (!ret && !target_can(VERSION_ADVISE))
		ret = report(EXIT_DEVICE, "cache '%s': " ADVICE_TOO_OLD, name);
	if (!ret)
		ret = advice_read(name, &advice);
	if (!ret && !advice.on)
		ret = no_advice(name, advice.error);
	if (ret)
		return ret;
	fill_sizes(table, &advice, status.block_size * SECTOR);
	ret = table_print(table);
	note_sizes(name, &advice, &status);
	return ret;
}

static enum exit_code run_advise(int argc, char **argv)
{
	const char *name = NULL;
	struct table *table;
	enum exit_code ret;

	ret = table_options(argc, argv, &advise_spec, NULL, &table);
	if (ret || !table)
		return ret;
	ret = operands(argc, argv, 1, "NAME [OPTION...]");
	if (!ret) {
		name = mapping_name(argv[optind]);
		ret = mapping_name_check(name);
	}
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (!ret) {
		ret = advise(table, name);
		dm_end();
	}
	table_free(table);
	return ret;
}

const struct command command_advise = {
	.name = "advise",
	.summary = "show the hit ratio of a cache with other sizes",
	.run = run_advise,
};
