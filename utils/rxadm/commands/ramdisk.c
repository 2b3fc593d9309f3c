// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm create, remove, clear, resize, limit
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
#include "base/values.h"
#include "commands/command.h"
#include "commands/options.h"
#include "config/plan.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/discard.h"
#include "kernel/disk_state.h"
#include "kernel/ramdisk.h"

static const char create_usage[] =
	"Usage: rxadm create --size SIZE [OPTION...]\n"
	"\n"
	"Create a RAM disk and print its path. Memory is allocated when data is written.\n"
	"\n"
	"Options:\n"
	"     --size SIZE              capacity: 64M, 1.5G, 10% of the memory\n"
	"     --index N                create /dev/rxdN (default: the lowest free number)\n"
	"     --logical-block-size N   512 or 4096 bytes (default: 512)\n"
	"     --mem-limit SIZE         memory that the data may occupy (default: no limit)\n"
	"     --overcommit             do not count the disk towards the share of memory\n"
	"     --reserve                allocate the memory for the whole capacity now\n"
	"     --folio-size SIZE        largest piece of memory that a long write allocates:\n"
	"                              4K, 64K or 2M (default: 4K)\n"
	"     --node NODE              NUMA node to allocate memory from: a number; local, the\n"
	"                              node of the writer; interleave, all nodes in turn\n"
	"                              (default: local)\n"
	"     --uuid UUID              identity in /dev/disk/by-id (default: a random one)\n"
	"     --name NAME              name for commands and /dev/disk/by-id/rxd-name-NAME\n"
	"     --detect-zeroes          do not store pages that hold only zeros\n"
	"     --dry-run                print the ioctl that would be made; change nothing\n"
	" -h, --help                   print this help\n";

/* Check options that depend on each other. */
static enum exit_code check_create(const struct create_request *request)
{
	if (!request->size_text)
		return report(EXIT_PARAMETERS, "option --size is missing; give the capacity");
	if (!(request->flags & RXD_CREATE_RESERVE))
		return EXIT_OK;
	if (request->flags & RXD_CREATE_DETECT_ZEROES)
		return report(EXIT_PARAMETERS,
			      "options --reserve and --detect-zeroes exclude each other: --detect-zeroes frees pages, --reserve keeps them");
	if (request->mem_limit_text && request->mem_limit < request->size)
		return report(EXIT_PARAMETERS,
			      "memory limit '%s': must be at least the size '%s' with --reserve",
			      request->mem_limit_text, request->size_text);
	return EXIT_OK;
}

static enum exit_code parse_create(int argc, char **argv, struct create_request *request,
				   bool *help)
{
	static const struct option options[] = {
		{ "detect-zeroes",	no_argument,	   NULL, OPT_DETECT_ZEROES },
		{ "dry-run",		no_argument,	   NULL, OPT_DRY_RUN },
		{ "folio-size",		required_argument, NULL, OPT_FOLIO_SIZE },
		{ "index",		required_argument, NULL, OPT_INDEX },
		{ "logical-block-size",	required_argument, NULL, OPT_LOGICAL_BLOCK_SIZE },
		{ "mem-limit",		required_argument, NULL, OPT_MEM_LIMIT },
		{ "name",		required_argument, NULL, OPT_NAME },
		{ "node",		required_argument, NULL, OPT_NODE },
		{ "overcommit",		no_argument,	   NULL, OPT_OVERCOMMIT },
		{ "reserve",		no_argument,	   NULL, OPT_RESERVE },
		{ "size",		required_argument, NULL, OPT_SIZE },
		{ "uuid",		required_argument, NULL, OPT_UUID },
		{ "help",		no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_DETECT_ZEROES:
			request->flags |= RXD_CREATE_DETECT_ZEROES;
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_FOLIO_SIZE:
			ret = folio_size_argument(optarg, &request->folio_size);
			break;
		case OPT_INDEX:
			request->has_index = true;
			ret = number_argument("index", optarg, 0, RXD_INDEX_MAX, &request->index);
			break;
		case OPT_LOGICAL_BLOCK_SIZE:
			ret = logical_block_size_argument(optarg, &request->logical_block_size);
			break;
		case OPT_MEM_LIMIT:
			request->mem_limit_text = optarg;
			ret = size_argument("memory limit", optarg, &request->mem_limit);
			break;
		case OPT_NAME:
			request->name = optarg;
			ret = name_argument(optarg);
			break;
		case OPT_NODE:
			request->node_text = optarg;
			ret = node_argument(optarg, &request->node);
			break;
		case OPT_OVERCOMMIT:
			request->flags |= RXD_CREATE_OVERCOMMIT;
			break;
		case OPT_RESERVE:
			request->flags |= RXD_CREATE_RESERVE;
			break;
		case OPT_SIZE:
			request->size_text = optarg;
			ret = size_argument("size", optarg, &request->size);
			break;
		case OPT_UUID:
			request->uuid_text = optarg;
			ret = uuid_argument(optarg, request->uuid);
			break;
		case 'h':
			return print_usage(create_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 0, "--size SIZE [OPTION...]");
	return ret ? ret : check_create(request);
}

static enum exit_code run_create(int argc, char **argv)
{
	struct create_request request = { .node = RXD_NODE_LOCAL };
	bool help = false;
	enum exit_code ret;
	int index;
	int fd = -1;

	ret = parse_create(argc, argv, &request, &help);
	if (ret || help)
		return ret;

	/* Take no lock: the kernel refuses a number or a UUID that another disk has. */
	ret = privilege_check();
	if (!ret && !request.dry_run && !module_is_loaded("rxd"))
		ret = module_load("rxd");
	if (!ret && (!request.dry_run || module_is_loaded("rxd")))
		ret = control_open(&fd);
	if (ret)
		return ret;

	/* Block signals until the path of the new device is printed. */
	signals_block();
	ret = ramdisk_create(fd, &request, &index);
	if (!ret && !request.dry_run) {
		disk_unfinished_end(request.uuid);
		printf("/dev/rxd%d\n", index);
	}
	fflush(stdout);
	signals_allow();
	if (fd >= 0)
		close(fd);
	return ret;
}

const struct command command_create = {
	.name = "create",
	.summary = "create a RAM disk",
	.run = run_create,
};

static const char remove_usage[] =
	"Usage: rxadm remove DEVICE...|--all [OPTION...]\n"
	"\n"
	"Remove RAM disks and free their memory. If one of the named disks cannot be removed,\n"
	"none is. --force is not needed if the disk is empty, or was saved to a file since it was\n"
	"loaded or last written.\n"
	"\n"
	"Options:\n"
	"     --all       remove all RAM disks that can be removed, except those of 'rxadm apply'\n"
	"     --force     remove RAM disks even if they hold data that was not saved\n"
	"     --dry-run   print the ioctls that would be made; change nothing\n"
	" -h, --help      print this help\n";

static enum exit_code parse_remove(int argc, char **argv, struct discard_request *request,
				   bool *all, bool *help)
{
	const struct flag flags[] = {
		{ "all", all },
		{ "dry-run", &request->dry_run },
		{ "force", &request->force },
		{ }
	};
	enum exit_code ret = flag_options(argc, argv, remove_usage, flags, help);

	if (ret || *help || (!*all && optind < argc))
		return ret;
	return operands(argc, argv, *all ? 0 : 1, "DEVICE...|--all [OPTION...]");
}

static enum exit_code run_remove(int argc, char **argv)
{
	struct discard_request request = { .is_kept = plan_keeps_disk };	/* for --all only */
	bool all = false, help = false;
	enum exit_code ret;
	int fd;

	ret = parse_remove(argc, argv, &request, &all, &help);
	if (ret || help)
		return ret;

	ret = privilege_check();
	/* Without the module there are no RAM disks. */
	if (ret || (all && !module_is_loaded("rxd")))
		return ret;
	ret = control_open(&fd);
	if (ret)
		return ret;
	ret = all ? ramdisk_remove_all(fd, &request) :
		    ramdisk_discard_these(fd, argv + optind, &request, true);
	close(fd);
	return ret;
}

const struct command command_remove = {
	.name = "remove",
	.summary = "remove RAM disks and free their memory",
	.run = run_remove,
};

static const char clear_usage[] =
	"Usage: rxadm clear DEVICE... [OPTION...]\n"
	"\n"
	"Discard all data of RAM disks. Their memory is freed, unless it is reserved. The disks are\n"
	"kept. If one of them cannot be cleared, none is. --force is not needed if the disk is\n"
	"empty, or was saved to a file since it was loaded or last written.\n"
	"\n"
	"Options:\n"
	"     --force     clear RAM disks even if they hold data that was not saved\n"
	"     --dry-run   print the ioctls that would be made; change nothing\n"
	" -h, --help      print this help\n";

static enum exit_code run_clear(int argc, char **argv)
{
	struct discard_request request = { 0 };
	const struct flag flags[] = {
		{ "dry-run", &request.dry_run },
		{ "force", &request.force },
		{ }
	};
	bool help = false;
	enum exit_code ret;
	int fd;

	ret = flag_options(argc, argv, clear_usage, flags, &help);
	if (ret || help)
		return ret;
	if (optind == argc)
		ret = operands(argc, argv, 1, "DEVICE... [OPTION...]");
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = control_open(&fd);
	if (ret)
		return ret;
	ret = ramdisk_discard_these(fd, argv + optind, &request, false);
	close(fd);
	return ret;
}

const struct command command_clear = {
	.name = "clear",
	.summary = "discard all data of RAM disks",
	.run = run_clear,
};

static const char resize_usage[] =
	"Usage: rxadm resize DEVICE|NAME [+|-]SIZE [OPTION...]\n"
	"       rxadm resize NAME none [--dry-run]\n"
	"\n"
	"Set the size of a RAM disk or the limit of a cache to SIZE, or change it by +SIZE or\n"
	"-SIZE. Put '--' before -SIZE:\n"
	"\n"
	" rxadm resize rxd0 +1G\n"
	" rxadm resize rxd0 -- -1G\n"
	"\n"
	"The limit of a cache is the memory that its data may occupy. If it falls, only the blocks\n"
	"that no longer fit leave the cache. 'none' removes the limit.\n"
	"\n"
	"Options, of which caches have --dry-run only:\n"
	"     --force        shrink even if the device is open, or if data, a partition or a\n"
	"                    file system extends beyond its new end; that part is lost\n"
	"     --overcommit   do not count the disk towards the share of memory\n"
	"     --dry-run      print the ioctl or message that would be sent; change nothing\n"
	" -h, --help         print this help\n";

/* Return: whether the limit of a cache is to be removed. */
static bool is_none(const struct resize_request *request)
{
	return !strcmp(request->size_text, "none");
}

static enum exit_code parse_resize(int argc, char **argv, struct resize_request *request,
				   struct size_change *change, bool *help)
{
	static const struct option options[] = {
		{ "dry-run",	no_argument, NULL, OPT_DRY_RUN },
		{ "force",	no_argument, NULL, OPT_FORCE },
		{ "overcommit",	no_argument, NULL, OPT_OVERCOMMIT },
		{ "help",	no_argument, NULL, 'h' },
		{ }
	};
	const char *negative;
	enum exit_code ret;
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_FORCE:
			request->flags |= RXD_RESIZE_FORCE;
			break;
		case OPT_OVERCOMMIT:
			request->flags |= RXD_RESIZE_OVERCOMMIT;
			break;
		case 'h':
			return print_usage(resize_usage, help);
		default:
			negative = negative_argument(opt, argv);
			if (negative)
				return report(EXIT_PARAMETERS,
					      "size '%s': must be greater than 0; to shrink by %s, write '-- %s' at the end",
					      negative, negative + 1, negative);
			return option_error(opt, argv, options);
		}
	}
	ret = operands(argc, argv, 2, "DEVICE|NAME [+|-]SIZE [OPTION...]");
	if (ret)
		return ret;
	request->device = argv[optind];
	request->size_text = argv[optind + 1];
	*change = (struct size_change){ 0 };
	return is_none(request) ? EXIT_OK : size_change_argument(request->size_text, change);
}

static enum exit_code resize_device(int fd, const struct device *dev, int index,
				    struct resize_request *request,
				    const struct size_change *change)
{
	struct rxd_query query;
	int err = control_query(fd, index, 0, &query);
	enum exit_code ret;

	if (err)
		return control_error(err, dev->path);
	request->grow = change->sign == '+';
	ret = size_change_result(request->size_text, change, query.size, &request->size);
	return ret ? ret : ramdisk_resize(fd, dev, index, request);
}

static enum exit_code run_resize(int argc, char **argv)
{
	struct resize_request request = { 0 };
	struct size_change change;
	struct device dev;
	bool help = false;
	enum exit_code ret;
	char *sequence;
	int index;
	int fd;

	ret = parse_resize(argc, argv, &request, &change, &help);
	if (ret || help)
		return ret;

	ret = privilege_check();
	if (!ret && names_cache(request.device))
		return resize_cache(&request, is_none(&request) ? NULL : &change);
	if (!ret && is_none(&request))
		ret = report(EXIT_PARAMETERS,
			     "'%s': size 'none' is for caches; 'rxadm limit %s none' removes the memory limit of a RAM disk",
			     request.device, request.device);
	if (!ret)
		ret = control_open(&fd);
	if (ret)
		return ret;
	ret = device_find_rxd("device", request.device, &dev, &index);
	if (!ret) {
		sequence = disk_sequence(dev.number);
		ret = disk_lock(&dev, sequence, DISK_LOCK_SIZE);
		if (!ret)
			ret = resize_device(fd, &dev, index, &request, &change);
		free(sequence);
		device_release(&dev);
	}
	close(fd);
	return ret;
}

const struct command command_resize = {
	.name = "resize",
	.summary = "resize a RAM disk, or limit a cache",
	.run = run_resize,
};

static const char limit_usage[] =
	"Usage: rxadm limit DEVICE SIZE|none [--dry-run]\n"
	"\n"
	"Set the memory that the data of a RAM disk may occupy; none: no limit. Existing data is\n"
	"kept. Writes that need more memory fail with ENOSPC. For a cache, use 'rxadm resize'.\n"
	"\n"
	"Options:\n"
	"     --dry-run   print what would be written; change nothing\n"
	" -h, --help      print this help\n";

static enum exit_code parse_limit(const char *text, uint64_t *limit)
{
	enum exit_code ret = EXIT_OK;
	char *error;

	if (!strcmp(text, "none"))
		return EXIT_OK;
	error = value_size(text, system_ram(), limit);
	if (error)
		ret = report(EXIT_PARAMETERS, "memory limit '%s': %s, or none", text, error);
	free(error);
	return ret;
}

static enum exit_code run_limit(int argc, char **argv)
{
	bool dry_run = false;
	bool help = false;
	uint64_t limit = 0;
	struct device dev;
	enum exit_code ret;
	int index;

	ret = dry_run_option(argc, argv, limit_usage, &dry_run, &help);
	if (ret || help)
		return ret;
	ret = operands(argc, argv, 2, "DEVICE SIZE|none [--dry-run]");
	if (!ret)
		ret = parse_limit(argv[optind + 1], &limit);
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = lock_take();
	if (!ret)
		ret = device_find_rxd("device", argv[optind], &dev, &index);
	if (ret)
		return ret;
	ret = ramdisk_limit(&dev, argv[optind + 1], limit, dry_run);
	device_release(&dev);
	return ret;
}

const struct command command_limit = {
	.name = "limit",
	.summary = "set the memory that a RAM disk may occupy",
	.run = run_limit,
};
