// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm extents, diff: ranges of RAM disks; hotlist, warm: the blocks of a cache
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "commands/command.h"
#include "commands/options.h"
#include "kernel/caches.h"
#include "kernel/dm.h"
#include "kernel/extents.h"
#include "kernel/hotlist.h"
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
