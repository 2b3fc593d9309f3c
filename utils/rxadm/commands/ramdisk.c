// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm remove, clear, resize, limit
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/suggest.h"
#include "base/system.h"
#include "base/text.h"
#include "base/values.h"
#include "commands/command.h"
#include "commands/options.h"
#include "config/plan.h"
#include "device/dm.h"
#include "kernel/attributes.h"
#include "kernel/cache_map.h"
#include "kernel/cache_size.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/discard.h"
#include "kernel/disk_state.h"
#include "kernel/ramdisk.h"

#define SECTOR	512

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
	"       rxadm resize NAME MIN..MAX|none [--dry-run]\n"
	"\n"
	"Set the size of a RAM disk or the limit of a cache to SIZE, or change it by +SIZE or\n"
	"-SIZE. Put '--' before -SIZE:\n"
	"\n"
	" rxadm resize rxd0 +1G\n"
	" rxadm resize rxd0 -- -1G\n"
	"\n"
	"The limit of a cache is the memory that its data may occupy. If it falls, only the blocks\n"
	"that no longer fit leave the cache. If it exceeds the RAM disk, that grows, and the cache\n"
	"keeps at least 95 % of its blocks. 'none' removes the limit. With MIN..MAX, the memory\n"
	"beyond MIN is lent: the cache gives it back when others need it.\n"
	"\n"
	"Options, of which caches have --dry-run only:\n"
	"     --force        shrink even if the device is open, or if data, a partition or a\n"
	"                    file system extends beyond its new end; that part is lost\n"
	"     --overcommit   do not count the disk towards the share of memory\n"
	"     --dry-run      print what would be done; change nothing\n"
	" -h, --help         print this help\n";

/* Return: whether the limit of a cache is to be removed. */
static bool is_none(const struct resize_request *request)
{
	return !strcmp(request->size_text, "none");
}

static enum exit_code parse_resize(int argc, char **argv, struct resize_request *request,
				   struct size_change *change, struct size_range *range,
				   bool *help)
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
	if (size_range_max(request->size_text))
		return size_range_argument(request->size_text, range);
	return is_none(request) ? EXIT_OK : size_change_argument(request->size_text, change);
}

/* A name is that of a RAM disk or a device in /dev or, if there is none, that of a mapping. */
static bool names_cache(const char *name)
{
	char *device = format_text("/dev/%s", name);
	char *mapping = format_text("/dev/mapper/%s", name);
	char *disk = ramdisk_named(name);
	bool is = mapping_name(name) != name ||
		  (*name && !strchr(name, '/') && access(device, F_OK) && !disk &&
		   !access(mapping, F_OK));

	free(disk);
	free(mapping);
	free(device);
	return is;
}

/* The sizes of @range; without one, the size after @change; without both, no limit. */
static enum exit_code resize_mapping(const char *name, const struct resize_request *request,
				     const struct size_change *change,
				     const struct size_range *range)
{
	struct size_range wanted = *range;
	struct rxcache_status status;
	enum exit_code ret;
	uint64_t sectors;

	ret = cache_query(name, &status, &sectors);
	if (!ret && change->bytes)
		ret = size_change_result(request->size_text, change, rxcache_size(&status),
					 &wanted.max);
	if (!ret)
		ret = cache_check_minimum(request->size_text, wanted.min,
					  status.block_size * SECTOR);
	return ret ? ret :
	       cache_resize(name, request->size_text, &status, &wanted, request->dry_run);
}

static enum exit_code resize_cache(const struct resize_request *request,
				   const struct size_change *change,
				   const struct size_range *range)
{
	const char *name = mapping_name(request->device);
	enum exit_code ret;

	if (request->flags)
		return report(EXIT_PARAMETERS,
			      "cache '%s': options --force and --overcommit are for RAM disks; leave them out",
			      name);
	ret = mapping_name_check(name);
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = cache_lock(name);
	if (!ret)
		ret = resize_mapping(name, request, change, range);
	dm_end();
	return ret;
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

static enum exit_code resize_ramdisk(int fd, struct resize_request *request,
				     const struct size_change *change)
{
	struct device dev;
	enum exit_code ret;
	char *sequence;
	int index;

	ret = device_find_rxd("device", request->device, &dev, &index);
	if (ret)
		return ret;
	sequence = disk_sequence(dev.number);
	ret = disk_lock(&dev, sequence, DISK_LOCK_SIZE);
	if (!ret)
		ret = resize_device(fd, &dev, index, request, change);
	free(sequence);
	device_release(&dev);
	return ret;
}

static enum exit_code run_resize(int argc, char **argv)
{
	struct resize_request request = { 0 };
	struct size_change change = { 0 };
	struct size_range range = { 0 };
	bool help = false;
	enum exit_code ret;
	int fd;

	ret = parse_resize(argc, argv, &request, &change, &range, &help);
	if (ret || help)
		return ret;

	ret = privilege_check();
	if (!ret && names_cache(request.device))
		return resize_cache(&request, &change, &range);
	/* Without the module, nobody knows whether this is the name of a cache. */
	if (!ret)
		ret = control_open(&fd);
	if (ret)
		return ret;
	if (range.max) {
		ret = report(EXIT_PARAMETERS,
			     "'%s': is no cache, and size '%s' is for caches; give one size for a RAM disk",
			     request.device, request.size_text);
	} else if (is_none(&request)) {
		ret = report(EXIT_PARAMETERS,
			     "'%s': is no cache, and size 'none' is for caches; 'rxadm limit %s none' removes the memory limit of a RAM disk",
			     request.device, request.device);
	} else {
		ret = resize_ramdisk(fd, &request, &change);
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
