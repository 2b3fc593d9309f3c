// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm save, load
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <linux/rxd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/suggest.h"
#include "base/system.h"
#include "base/values.h"
#include "commands/command.h"
#include "commands/options.h"
#include "copy/copy.h"
#include "copy/progress.h"
#include "image/format.h"
#include "image/generations.h"
#include "image/load_job.h"
#include "output/table.h"
#include "save/save.h"

/**
 * progress_argument - parse the argument of --progress
 * @text: the argument
 * @mode: out: the mode
 */
static enum exit_code progress_argument(const char *text, enum progress_mode *mode)
{
	if (progress_parse(text, mode))
		return EXIT_OK;
	return report(EXIT_PARAMETERS, "progress '%s': must be auto, bar, json or none", text);
}

/**
 * stream_argument - check whether an image is a standard stream, and whether the stream is usable
 * @file: the file name; - means the stream
 * @fd: the stream: standard input or output
 * @stream: out: whether @file means the stream
 */
static enum exit_code stream_argument(const char *file, int fd, bool *stream)
{
	const char *what = fd == STDIN_FILENO ? "input" : "output";
	int flags = fcntl(fd, F_GETFL);

	*stream = !strcmp(file, "-");
	if (!*stream)
		return EXIT_OK;
	/* copy_start() opens a closed stream with O_PATH. */
	if (flags < 0 || flags & O_PATH)
		return report(EXIT_PARAMETERS, "file '-': standard %s is closed", what);
	if (isatty(fd))
		return report(EXIT_PARAMETERS,
			      "file '-': standard %s is a terminal; redirect it to a file or a pipe",
			      what);
	return EXIT_OK;
}

static const char save_usage[] =
	"Usage: rxadm save DEVICE FILE [OPTION...]\n"
	"\n"
	"Save a RAM disk to the image FILE. 'rxadm load' recreates the disk from it. DEVICE may be\n"
	"open or mounted: its file systems are frozen for a moment, and a clone is saved. An\n"
	"existing image is replaced once the new one is complete. If FILE is -, the image is\n"
	"written to standard output. With --update, only what has changed is written.\n"
	"\n"
	"Options:\n"
	"     --compress zstd[:LEVEL]   compress the image\n"
	"     --format rxd|raw          raw: a plain disk image with holes, for losetup and QEMU\n"
	"                               (default: rxd)\n"
	"     --keep N                  with --update: the image keeps the last N generations, 1\n"
	"                               to 64 (default: 1)\n"
	"     --no-freeze               do not freeze file systems: the data is as after a power\n"
	"                               failure\n"
	"     --progress HOW            auto: a bar if standard error is a terminal; bar: always\n"
	"                               a bar; json: one record per second on standard\n"
	"                               output; none: nothing (default: auto)\n"
	"     --update                  write only what has changed since FILE was last updated, or\n"
	"                               loaded\n"
	" -h, --help                    print this help\n";

static enum exit_code format_argument(const char *text, bool *raw)
{
	*raw = !strcmp(text, "raw");
	if (*raw || !strcmp(text, "rxd"))
		return EXIT_OK;
	return report(EXIT_PARAMETERS, "format '%s': must be rxd or raw", text);
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

static enum exit_code check_update(struct save_args *args)
{
	if (args->generations && !args->update)
		return report(EXIT_PARAMETERS, "option --keep: needs --update");
	if (!args->generations)
		args->generations = 1;
	if (!args->update)
		return EXIT_OK;
	if (args->raw)
		return report(EXIT_PARAMETERS,
			      "options --update and --format raw exclude each other");
	return strcmp(args->file, "-") ? EXIT_OK :
	       report(EXIT_PARAMETERS,
		      "option --update: needs a file, not '-'; to update a file named -, specify ./-");
}

static enum exit_code parse_save(int argc, char **argv, struct save_args *args, bool *help)
{
	static const struct option options[] = {
		{ "compress",	required_argument, NULL, OPT_COMPRESS },
		{ "format",	required_argument, NULL, OPT_FORMAT },
		{ "keep",	required_argument, NULL, OPT_KEEP },
		{ "no-freeze",	no_argument,	   NULL, OPT_NO_FREEZE },
		{ "progress",	required_argument, NULL, OPT_PROGRESS },
		{ "update",	no_argument,	   NULL, OPT_UPDATE },
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
		case OPT_FORMAT:
			ret = format_argument(optarg, &args->raw);
			break;
		case OPT_KEEP:
			ret = number_argument("keep", optarg, 1, IMAGE_GENERATIONS_MAX,
					      &args->generations);
			break;
		case OPT_NO_FREEZE:
			args->no_freeze = true;
			break;
		case OPT_PROGRESS:
			ret = progress_argument(optarg, &args->progress);
			break;
		case OPT_UPDATE:
			args->update = true;
			break;
		case 'h':
			return print_usage(save_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 2, "DEVICE FILE [OPTION...]");
	if (ret)
		return ret;
	args->device = argv[optind];
	args->file = argv[optind + 1];
	if (args->raw && args->compress)
		return report(EXIT_PARAMETERS,
			      "options --compress and --format raw exclude each other");
	ret = check_update(args);
	if (!ret)
		ret = stream_argument(args->file, STDOUT_FILENO, &args->stream);
	if (!ret && args->stream && args->progress == PROGRESS_JSON)
		ret = report(EXIT_PARAMETERS,
			     "progress 'json': goes to standard output, as the image does; must be auto, bar or none");
	return ret;
}

static enum exit_code run_save(int argc, char **argv)
{
	struct save_args args = { .progress = PROGRESS_AUTO };
	bool help = false;
	enum exit_code ret;

	ret = parse_save(argc, argv, &args, &help);
	if (ret || help)
		return ret;
	ret = privilege_check();
	if (!ret)
		ret = image_save(&args);
	if (args.signal)
		copy_interrupt(args.signal);
	return ret;
}

const struct command command_save = {
	.name = "save",
	.summary = "save a RAM disk to an image",
	.run = run_save,
};

static const char load_usage[] =
	"Usage: rxadm load FILE [OPTION...]\n"
	"\n"
	"Create a RAM disk from an image of 'rxadm save' and print its path. The disk has the\n"
	"data, the UUID and the other properties of the saved disk. If FILE is -, the image is\n"
	"read from standard input.\n"
	"\n"
	"Options:\n"
	"     --format rxd|raw  raw: a plain disk image (default: rxd)\n"
	"     --generation N    load this generation of an image of 'rxadm save --update'\n"
	"                       (default: the newest)\n"
	"     --into DEVICE     load into this RAM disk, which must be empty and large enough\n"
	"     --index N         create /dev/rxdN (default: the lowest free number)\n"
	"     --list            load nothing, print the generations in the image\n"
	" -J, --json            with --list: print JSON\n"
	"     --name NAME       name for commands and /dev/disk/by-id/rxd-name-NAME\n"
	"     --node NODE       NUMA node to allocate memory from: a number, local or\n"
	"                       interleave (default: local)\n"
	"     --overcommit      do not count the disk towards the share of memory\n"
	"     --progress HOW    auto: a bar if standard error is a terminal; bar: always a bar;\n"
	"                       json: one record per second on standard output; none: nothing\n"
	"                       (default: auto)\n"
	"     --uuid UUID       identity (default: that of the image); random: a random one\n"
	" -h, --help            print this help\n";

/* Options that print the generations of an image instead of loading it. */
struct list_request {
	bool list;
	bool json;
};

static enum exit_code check_load(const struct load_args *args, const struct list_request *request)
{
	bool list = request->list;

	if (request->json && !list)
		return report(EXIT_PARAMETERS, "option --json: requires --list");
	if (list && (args->raw || args->generation || args->into || args->has_index || args->name ||
		     args->node_text || args->uuid_text || args->overcommit))
		return report(EXIT_PARAMETERS,
			      "option --list: loads nothing, and cannot be combined with --format raw, --generation, --index, --into, --name, --node, --overcommit and --uuid");
	if (args->raw && args->generation)
		return report(EXIT_PARAMETERS,
			      "options --generation and --format raw exclude each other");
	if (args->into && (args->has_index || args->name || args->node_text || args->uuid_text ||
			   args->overcommit))
		return report(EXIT_PARAMETERS,
			      "option --into: cannot be combined with --index, --name, --node, --overcommit and --uuid, which are for new RAM disks");
	return EXIT_OK;
}

static enum exit_code parse_load(int argc, char **argv, struct load_args *args, bool *help,
				 struct list_request *list)
{
	static const struct option options[] = {
		{ "format",	required_argument, NULL, OPT_FORMAT },
		{ "generation",	required_argument, NULL, OPT_GENERATION },
		{ "index",	required_argument, NULL, OPT_INDEX },
		{ "into",	required_argument, NULL, OPT_INTO },
		{ "json",	no_argument,	   NULL, 'J' },
		{ "list",	no_argument,	   NULL, OPT_LIST },
		{ "name",	required_argument, NULL, OPT_NAME },
		{ "node",	required_argument, NULL, OPT_NODE },
		{ "overcommit",	no_argument,	   NULL, OPT_OVERCOMMIT },
		{ "progress",	required_argument, NULL, OPT_PROGRESS },
		{ "uuid",	required_argument, NULL, OPT_UUID },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	unsigned int number = 0;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":Jh", options, NULL)) != -1) {
		switch (opt) {
		case OPT_FORMAT:
			ret = format_argument(optarg, &args->raw);
			break;
		case OPT_GENERATION:
			ret = number_argument("generation", optarg, 1, UINT_MAX, &number);
			args->generation = number;
			break;
		case OPT_INDEX:
			args->has_index = true;
			ret = number_argument("index", optarg, 0, RXD_INDEX_MAX, &args->index);
			break;
		case OPT_INTO:
			args->into = optarg;
			break;
		case OPT_LIST:
			list->list = true;
			break;
		case 'J':
			list->json = true;
			break;
		case OPT_NAME:
			args->name = optarg;
			ret = name_argument(optarg);
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
			return print_usage(load_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 1, "FILE [OPTION...]");
	if (ret)
		return ret;
	args->file = argv[optind];
	ret = check_load(args, list);
	if (!ret)
		ret = stream_argument(args->file, STDIN_FILENO, &args->stream);
	if (!ret && args->stream && args->raw)
		ret = report(EXIT_PARAMETERS,
			     "file '-': a raw image cannot be read from standard input; give its path");
	if (!ret && args->stream && list->list)
		ret = report(EXIT_PARAMETERS,
			     "file '-': its generations cannot be listed; give the path of the image");
	return ret;
}

enum {
	COL_GENERATION,
	COL_TIME,
	COL_DATA,
};

static const struct column columns[] = {
	[COL_GENERATION]	= { "GENERATION", COLUMN_NUMBER, true, "number" },
	[COL_TIME]		= { "TIME", COLUMN_TEXT, true, "when it was saved" },
	[COL_DATA]		= { "DATA", COLUMN_SIZE, true, "memory that the disk used" },
};

static const struct table_spec spec = {
	.name = "generations",
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

static enum exit_code print_generations(const char *file, bool json)
{
	const struct log_generation *generation;
	struct log_head head;
	enum exit_code ret = image_generations(file, &head);
	struct table *table;
	char text[64];
	uint32_t i;

	if (ret)
		return ret;
	table = table_make(&spec, json);
	for (i = 0; i < head.count; i++) {
		generation = &head.generations[i];
		table_add_line(table);
		table_set_number(table, COL_GENERATION, generation->number);
		generation_time(generation, json, text, sizeof(text));
		table_set_text(table, COL_TIME, text);
		table_set_number(table, COL_DATA, generation->data);
	}
	ret = table_print(table);
	table_free(table);
	return ret;
}

static enum exit_code run_load(int argc, char **argv)
{
	struct load_args args = { .progress = PROGRESS_AUTO };
	struct list_request list = { 0 };
	bool help = false;
	enum exit_code ret;
	char *path;

	ret = parse_load(argc, argv, &args, &help, &list);
	if (ret || help)
		return ret;
	if (list.list)
		return print_generations(args.file, list.json);
	ret = privilege_check();
	if (ret)
		return ret;
	ret = image_load(&args, &path);
	if (path) {
		puts(path);
		free(path);
	}
	if (args.signal)
		copy_interrupt(args.signal);
	return ret;
}

const struct command command_load = {
	.name = "load",
	.summary = "create a RAM disk from an image",
	.run = run_load,
};
