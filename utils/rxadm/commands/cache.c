// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm map, unmap, set, mode
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/suggest.h"
#include "base/system.h"
#include "base/text.h"
#include "base/values.h"
#include "commands/command.h"
#include "commands/options.h"
#include "device/dm.h"
#include "kernel/attributes.h"
#include "kernel/cache_map.h"
#include "kernel/cache_size.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/rxcache.h"

static const char map_usage[] =
	"Usage: rxadm map --cache DEVICE|--size SIZE|MIN..MAX --origin DEVICE [OPTION...]\n"
	"\n"
	"Use a RAM disk as the cache of an origin, a slower disk, and print the path of the\n"
	"cached disk. The data of the RAM disk is lost. The origin always holds all data.\n"
	"With --size, the RAM disk is made, and 'rxadm unmap' removes it.\n"
	"\n"
	"Options:\n"
	"     --cache DEVICE      use this RAM disk\n"
	"     --size SIZE         make a RAM disk of this size: 4G, 25%; or MIN..MAX, such as\n"
	"                         4G..75%: memory beyond MIN is lent, and given back when\n"
	"                         others need it\n"
	"     --overcommit        with --size: do not count the size, or MIN, towards the share\n"
	"                         of memory\n"
	"     --origin DEVICE     cache this disk or partition\n"
	"     --name NAME         create /dev/mapper/NAME (default: rxc-ORIGIN)\n"
	"     --block-size SIZE   size of a cache block, a power of two from 4K to 1M\n"
	"                         (default: 4K)\n"
	"     --mode MODE         what is cached: writethrough, writearound or\n"
	"                         passthrough (default: writethrough)\n"
	"     --seq-cutoff SIZE   do not cache sequential I/O beyond this length;\n"
	"                         0: cache all I/O (default: 0)\n"
	"     --force             allow a RAM disk that holds unsaved data or a signature,\n"
	"                         or an origin that is swap space or a member of md or LVM\n"
	"     --dry-run           print what would be done; change nothing\n"
	" -h, --help              print this help\n";

static enum exit_code map_size_argument(const char *text, struct map_request *request)
{
	struct size_range range = { 0 };
	enum exit_code ret;

	ret = size_range_max(text) ? size_range_argument(text, &range) :
				     size_argument("size", text, &range.max);
	request->size_text = text;
	request->size = range.max;
	request->min_size = range.min;
	return ret;
}

static enum exit_code parse_map(int argc, char **argv, struct map_request *request, bool *help)
{
	static const struct option options[] = {
		{ "block-size",	required_argument, NULL, OPT_BLOCK_SIZE },
		{ "cache",	required_argument, NULL, OPT_CACHE },
		{ "dry-run",	no_argument,	   NULL, OPT_DRY_RUN },
		{ "force",	no_argument,	   NULL, OPT_FORCE },
		{ "mode",	required_argument, NULL, OPT_MODE },
		{ "name",	required_argument, NULL, OPT_NAME },
		{ "origin",	required_argument, NULL, OPT_ORIGIN },
		{ "overcommit",	no_argument,	   NULL, OPT_OVERCOMMIT },
		{ "seq-cutoff",	required_argument, NULL, OPT_SEQ_CUTOFF },
		{ "size",	required_argument, NULL, OPT_SIZE },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_BLOCK_SIZE:
			ret = block_size_argument(optarg, &request->block_size);
			break;
		case OPT_CACHE:
			request->cache = optarg;
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_FORCE:
			request->force = true;
			break;
		case OPT_MODE:
			request->mode = optarg;
			ret = mode_argument(optarg);
			break;
		case OPT_NAME:
			request->name = optarg;
			ret = mapping_name_check(optarg);
			break;
		case OPT_ORIGIN:
			request->origin = optarg;
			break;
		case OPT_OVERCOMMIT:
			request->overcommit = true;
			break;
		case OPT_SEQ_CUTOFF:
			ret = seq_cutoff_argument(optarg, &request->seq_cutoff);
			break;
		case OPT_SIZE:
			ret = map_size_argument(optarg, request);
			break;
		case 'h':
			return print_usage(map_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 0,
			       "--cache DEVICE|--size SIZE|MIN..MAX --origin DEVICE [OPTION...]");
	if (!ret && !request->cache && !request->size)
		ret = report(EXIT_PARAMETERS,
			     "option --cache or --size is missing; give one of them");
	if (!ret && request->cache && (request->size || request->overcommit))
		ret = report(EXIT_PARAMETERS,
			     "options --cache and --%s exclude each other: the RAM disk exists",
			     request->size ? "size" : "overcommit");
	if (!ret && !request->origin)
		ret = report(EXIT_PARAMETERS, "option --origin is missing; give the disk to cache");
	return ret;
}

static enum exit_code run_map(int argc, char **argv)
{
	struct map_request request = {
		.mode = RXCACHE_DEFAULT_MODE,
		.block_size = RXCACHE_DEFAULT_BLOCK_SIZE,
		.force_text = "--force",
	};
	bool help = false;
	char *path = NULL;
	enum exit_code ret;
	int control;

	ret = parse_map(argc, argv, &request, &help);
	if (ret || help)
		return ret;

	/* Take no global lock, because the origin may hang: cache_map() locks the devices only. */
	ret = privilege_check();
	if (!ret && !request.dry_run && !module_is_loaded("dm_rxcache"))
		ret = module_load("dm-rxcache");
	if (!ret)
		ret = control_open(&control);
	if (ret)
		return ret;
	ret = request.dry_run ? dm_connect() : dm_begin();
	if (!ret) {
		ret = request.size ? cache_map_sized(control, &request, &path) :
				     cache_map(control, &request, &path);
		if (path) {
			puts(path);
			fflush(stdout);
			signals_allow();
		}
		free(path);
		dm_end();
	}
	close(control);
	return ret;
}

const struct command command_map = {
	.name = "map",
	.summary = "use a RAM disk as the cache of a slower disk",
	.run = run_map,
};

static const char unmap_usage[] =
	"Usage: rxadm unmap NAME... [--dry-run]\n"
	"\n"
	"Remove caches. The origins hold all data. The RAM disks are empty and idle afterwards;\n"
	"those that 'rxadm map --size' made are removed.\n"
	"If one of the caches cannot be removed, none is.\n"
	"\n"
	"Options:\n"
	"     --dry-run   print what would be done; change nothing\n"
	" -h, --help      print this help\n";

/* A mapping that stands in for a cache can be removed without the target. */
static enum exit_code begin_unmap(const char *name)
{
	struct mapping mapping;
	enum exit_code ret;
	bool exists;

	if (module_is_loaded("dm_rxcache") || !module_is_loaded("dm_mod"))
		return dm_begin();
	ret = dm_connect();
	if (ret)
		return ret;
	ret = mapping_read(name, MAPPING_TABLE, &mapping);
	exists = mapping.exists;
	mapping_release(&mapping);
	if (ret || !exists)
		dm_end();
	return ret || exists ? ret : dm_begin();
}

static enum exit_code run_unmap(int argc, char **argv)
{
	bool dry_run = false;
	bool help = false;
	enum exit_code ret;
	char **name;

	ret = dry_run_option(argc, argv, unmap_usage, &dry_run, &help);
	if (ret || help)
		return ret;
	if (optind == argc)
		ret = operands(argc, argv, 1, "NAME... [--dry-run]");
	for (name = argv + optind; !ret && *name; name++)
		ret = mapping_name_check(mapping_name(*name));
	if (!ret)
		ret = privilege_check();
	/* Take no lock, because the origin may hang. device-mapper removes a mapping only once. */
	if (!ret)
		ret = begin_unmap(mapping_name(argv[optind]));
	if (ret)
		return ret;
	ret = cache_unmap_these(argv + optind, dry_run);
	dm_end();
	return ret;
}

const struct command command_unmap = {
	.name = "unmap",
	.summary = "remove caches",
	.run = run_unmap,
};

static const char set_usage[] =
	"Usage: rxadm set NAME OPTION...\n"
	"       rxadm set DEVICE --name NAME\n"
	"\n"
	"Change the settings of a cache, also while it is in use. They last until the cache is\n"
	"removed, its table is replaced, or 'rxadm apply' changes them. See 'rxadm mode' for its\n"
	"mode. With --name, change the name of a RAM disk.\n"
	"\n"
	"Options:\n"
	"     --seq-cutoff SIZE   do not cache sequential I/O beyond this length;\n"
	"                         0: cache all I/O\n"
	"     --latency on|off    start or stop measuring the latency of I/O\n"
	"     --advise on|off     start or stop finding out which hit ratio other sizes would\n"
	"                         have, for 'rxadm advise'\n"
	"     --name NAME         name of the RAM disk; '' removes it\n"
	"     --dry-run           print what would be sent; change nothing\n"
	" -h, --help              print this help\n";

struct set_request {
	const char *name;
	bool has_seq_cutoff;
	uint64_t seq_cutoff;
	const char *latency;	/* NULL: unchanged */
	const char *advise;	/* NULL: unchanged */
	const char *new_name;	/* of a RAM disk; NULL: unchanged */
	bool dry_run;
};

static enum exit_code switch_argument(const char *what, const char *text)
{
	if (!strcmp(text, "on") || !strcmp(text, "off"))
		return EXIT_OK;
	return report(EXIT_PARAMETERS, "%s '%s': must be on or off", what, text);
}

static enum exit_code parse_set(int argc, char **argv, struct set_request *request, bool *help)
{
	static const struct option options[] = {
		{ "advise",	required_argument, NULL, OPT_ADVISE },
		{ "dry-run",	no_argument,	   NULL, OPT_DRY_RUN },
		{ "latency",	required_argument, NULL, OPT_LATENCY },
		{ "name",	required_argument, NULL, OPT_NAME },
		{ "seq-cutoff",	required_argument, NULL, OPT_SEQ_CUTOFF },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_ADVISE:
			request->advise = optarg;
			ret = switch_argument("advise", optarg);
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_LATENCY:
			request->latency = optarg;
			ret = switch_argument("latency", optarg);
			break;
		case OPT_NAME:
			request->new_name = optarg;
			ret = *optarg ? name_argument(optarg) : EXIT_OK;
			break;
		case OPT_SEQ_CUTOFF:
			request->has_seq_cutoff = true;
			ret = seq_cutoff_argument(optarg, &request->seq_cutoff);
			break;
		case 'h':
			return print_usage(set_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 1, "NAME OPTION...");
	if (ret)
		return ret;
	request->name = argv[optind];
	if (request->new_name && (request->has_seq_cutoff || request->latency || request->advise))
		return report(EXIT_PARAMETERS,
			      "option --name, for RAM disks, cannot be combined with --seq-cutoff, --latency or --advise, for caches");
	if (request->new_name)
		return EXIT_OK;
	if (!request->has_seq_cutoff && !request->latency && !request->advise)
		return report(EXIT_PARAMETERS,
			      "an option is missing; give --seq-cutoff, --latency, --advise or --name");
	request->name = mapping_name(request->name);
	return mapping_name_check(request->name);
}

static enum exit_code set_name(const struct set_request *request)
{
	enum exit_code ret = lock_take();

	return ret ? ret : ramdisk_set_name(request->name, request->new_name, request->dry_run);
}

static enum exit_code run_set(int argc, char **argv)
{
	struct set_request request = { 0 };
	bool advise, measure, help = false;
	enum exit_code ret;

	ret = parse_set(argc, argv, &request, &help);
	if (ret || help)
		return ret;
	measure = request.latency && !strcmp(request.latency, "on");
	advise = request.advise && !strcmp(request.advise, "on");

	ret = privilege_check();
	if (!ret && request.new_name)
		return set_name(&request);
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = cache_lock(request.name);
	if (!ret)
		ret = cache_set(request.name, request.has_seq_cutoff ? &request.seq_cutoff : NULL,
				request.advise ? &advise : NULL,
				request.latency ? &measure : NULL, request.dry_run);
	dm_end();
	return ret;
}

const struct command command_set = {
	.name = "set",
	.summary = "change the settings of a cache or the name of a RAM disk",
	.run = run_set,
};

static const char mode_usage[] =
	"Usage: rxadm mode NAME [MODE] [--dry-run]\n"
	"\n"
	"Change the mode of a cache, also while it is in use. The mode lasts until the cache is\n"
	"removed, its table is replaced, or 'rxadm apply' changes it. Without MODE, print the\n"
	"current one.\n"
	"\n"
	" writethrough   cache what is read and what is written\n"
	" writearound    cache what is read; a write removes its blocks from the cache\n"
	" passthrough    do not use the cache; a write removes its blocks from it\n"
	"\n"
	"Options:\n"
	"     --dry-run   print the message that would be sent; change nothing\n"
	" -h, --help      print this help\n";

struct mode_request {
	const char *name;
	const char *mode;	/* NULL: print the current mode */
	bool dry_run;
};

static enum exit_code parse_mode(int argc, char **argv, struct mode_request *request, bool *help)
{
	enum exit_code ret;

	ret = dry_run_option(argc, argv, mode_usage, &request->dry_run, help);
	if (ret || *help)
		return ret;
	ret = operands(argc, argv, argc - optind == 1 ? 1 : 2, "NAME [MODE] [--dry-run]");
	if (ret)
		return ret;
	request->name = mapping_name(argv[optind]);
	if (argc - optind == 2)
		request->mode = argv[optind + 1];
	ret = mapping_name_check(request->name);
	if (!ret && request->mode)
		ret = mode_argument(request->mode);
	return ret;
}

static enum exit_code mode(const struct mode_request *request)
{
	struct rxcache_status status;
	enum exit_code ret;
	uint64_t sectors;
	char *message;

	ret = cache_query(request->name, &status, &sectors);
	if (ret)
		return ret;
	if (!request->mode) {
		puts(status.features.mode);
		return EXIT_OK;
	}
	message = format_text("mode %s", request->mode);
	ret = cache_message(request->name, message, request->dry_run);
	free(message);
	return ret;
}

static enum exit_code run_mode(int argc, char **argv)
{
	struct mode_request request = { 0 };
	bool help = false;
	enum exit_code ret;

	ret = parse_mode(argc, argv, &request, &help);
	if (ret || help)
		return ret;

	ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	if (request.mode)
		ret = cache_lock(request.name);
	if (!ret)
		ret = mode(&request);
	dm_end();
	return ret;
}

const struct command command_mode = {
	.name = "mode",
	.summary = "change or print the mode of a cache",
	.run = run_mode,
};
