// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm create, clone, reset
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/suggest.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/command.h"
#include "commands/options.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "kernel/ramdisk.h"

#define COUNT_MAX	1024

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

static const char clone_usage[] =
	"Usage: rxadm clone DEVICE [OPTION...]\n"
	"\n"
	"Create RAM disks with the data of DEVICE, and print their paths. All of them share\n"
	"memory with DEVICE. A write to one of the disks takes memory for the pages that it\n"
	"changes, and the other disks do not change. DEVICE may be open or mounted: its file\n"
	"systems are frozen for a moment.\n"
	"\n"
	"Options:\n"
	"     --count N      create N RAM disks (1 to 1024), or none if one of them cannot be\n"
	"                    created; not with --index, --name or --uuid\n"
	"     --expendable   let the driver give up the new disks if a write to a disk of their\n"
	"                    family finds no memory; required if the memory of DEVICE is reserved\n"
	"     --index N      create /dev/rxdN (default: the lowest free number)\n"
	"     --name NAME    name for commands and /dev/disk/by-id/rxd-name-NAME\n"
	"     --no-freeze    do not freeze file systems: the data is as after a power failure\n"
	"     --overcommit   do not count the disks towards the share of memory\n"
	"     --read-only    make the new disks read-only\n"
	"     --uuid UUID    identity in /dev/disk/by-id (default: a random one)\n"
	"     --dry-run      print the ioctls that would be made; change nothing\n"
	" -h, --help         print this help\n";

static enum exit_code check_clone(const struct clone_request *request)
{
	const struct create_request *create = &request->create;
	const char *other = create->has_index ? "--index" : create->uuid_text ? "--uuid" :
			    create->name ? "--name" : NULL;

	if (!request->count || !other)
		return EXIT_OK;
	return report(EXIT_PARAMETERS,
		      "options --count and %s exclude each other: an index, a UUID or a name belongs to one RAM disk",
		      other);
}

static enum exit_code parse_clone(int argc, char **argv, struct clone_request *request,
				  bool *help)
{
	static const struct option options[] = {
		{ "count",	required_argument, NULL, OPT_COUNT },
		{ "dry-run",	no_argument,	   NULL, OPT_DRY_RUN },
		{ "expendable",	no_argument,	   NULL, OPT_EXPENDABLE },
		{ "index",	required_argument, NULL, OPT_INDEX },
		{ "name",	required_argument, NULL, OPT_NAME },
		{ "no-freeze",	no_argument,	   NULL, OPT_NO_FREEZE },
		{ "overcommit",	no_argument,	   NULL, OPT_OVERCOMMIT },
		{ "read-only",	no_argument,	   NULL, OPT_READ_ONLY },
		{ "uuid",	required_argument, NULL, OPT_UUID },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	struct create_request *create = &request->create;
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_COUNT:
			ret = number_argument("count", optarg, 1, COUNT_MAX, &request->count);
			break;
		case OPT_DRY_RUN:
			create->dry_run = true;
			break;
		case OPT_EXPENDABLE:
			create->flags |= RXD_CLONE_EXPENDABLE;
			break;
		case OPT_INDEX:
			create->has_index = true;
			ret = number_argument("index", optarg, 0, RXD_INDEX_MAX, &create->index);
			break;
		case OPT_NAME:
			create->name = optarg;
			ret = name_argument(optarg);
			break;
		case OPT_NO_FREEZE:
			create->flags |= RXD_CLONE_NO_FREEZE;
			break;
		case OPT_OVERCOMMIT:
			create->flags |= RXD_CREATE_OVERCOMMIT;
			break;
		case OPT_READ_ONLY:
			create->flags |= RXD_CLONE_READ_ONLY;
			break;
		case OPT_UUID:
			create->uuid_text = optarg;
			ret = uuid_argument(optarg, create->uuid);
			break;
		case 'h':
			return print_usage(clone_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 1, "DEVICE [OPTION...]");
	return ret ? ret : check_clone(request);
}

static enum exit_code clone_and_print(int fd, const struct device *source,
				      struct clone_request *request)
{
	struct rxd_clone *made = zeroed_array(request->count, sizeof(*made));
	enum exit_code ret;
	unsigned int i;

	/* Block signals until the paths of the new devices are printed. */
	signals_block();
	ret = ramdisk_clone(fd, source, request, made);
	for (i = 0; !ret && !request->create.dry_run && i < request->count; i++)
		printf("/dev/rxd%d\n", made[i].index);
	fflush(stdout);
	signals_allow();
	free(made);
	return ret;
}

static enum exit_code run_clone(int argc, char **argv)
{
	struct clone_request request = { 0 };
	struct device source;
	bool help = false;
	enum exit_code ret;
	int fd;

	ret = parse_clone(argc, argv, &request, &help);
	if (ret || help)
		return ret;
	ret = privilege_check();
	if (!ret)
		ret = control_open(&fd);
	if (ret)
		return ret;
	if (!request.count)
		request.count = 1;
	ret = device_find_rxd("device", argv[optind], &source, &request.source);
	if (!ret) {
		ret = clone_and_print(fd, &source, &request);
		device_release(&source);
	}
	close(fd);
	return ret;
}

const struct command command_clone = {
	.name = "clone",
	.summary = "create RAM disks that share the data of another one",
	.run = run_clone,
};

static const char reset_usage[] =
	"Usage: rxadm reset DEVICE --to SOURCE [OPTION...]\n"
	"\n"
	"Discard all data of the RAM disk DEVICE, and give it the data of the RAM disk SOURCE.\n"
	"The two disks then share memory. --force is not needed if DEVICE last got its data from\n"
	"SOURCE by clone or reset, or if it was saved to a file since it was loaded or last\n"
	"written.\n"
	"\n"
	"Options:\n"
	"     --to SOURCE   the RAM disk with the data, which has the same size\n"
	"     --force       reset the RAM disk even if it holds data that was not saved\n"
	"     --dry-run     print the ioctl that would be made; change nothing\n"
	" -h, --help        print this help\n";

struct reset_request {
	const char *source;
	bool force;
	bool dry_run;
};

static enum exit_code parse_reset(int argc, char **argv, struct reset_request *request, bool *help)
{
	static const struct option options[] = {
		{ "dry-run",	no_argument,	   NULL, OPT_DRY_RUN },
		{ "force",	no_argument,	   NULL, OPT_FORCE },
		{ "to",		required_argument, NULL, OPT_TO },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret;
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_FORCE:
			request->force = true;
			break;
		case OPT_TO:
			request->source = optarg;
			break;
		case 'h':
			return print_usage(reset_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	ret = operands(argc, argv, 1, "DEVICE --to SOURCE [OPTION...]");
	if (!ret && !request->source)
		ret = report(EXIT_PARAMETERS,
			     "option --to is missing; give the RAM disk that has the data");
	return ret;
}

static enum exit_code run_reset(int argc, char **argv)
{
	struct reset_request request = { 0 };
	bool help = false;
	enum exit_code ret;
	int fd;

	ret = parse_reset(argc, argv, &request, &help);
	if (ret || help)
		return ret;
	ret = privilege_check();
	if (!ret)
		ret = control_open(&fd);
	if (ret)
		return ret;
	ret = ramdisk_reset(fd, argv[optind], request.source, request.force, request.dry_run);
	close(fd);
	return ret;
}

const struct command command_reset = {
	.name = "reset",
	.summary = "replace the data of a RAM disk by that of another one",
	.run = run_reset,
};
