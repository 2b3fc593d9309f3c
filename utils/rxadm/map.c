// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm map
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "caches.h"
#include "command.h"
#include "control.h"
#include "device.h"
#include "dm.h"
#include "lineage.h"
#include "machine.h"
#include "map.h"
#include "options.h"
#include "rxcache.h"
#include "users.h"

#define SECTOR_SHIFT	9

static const char usage[] =
	"Usage: rxadm map --cache DEVICE --origin DEVICE [OPTION...]\n"
	"\n"
	"Let a RAM disk cache a slow disk, and print the path of the cached disk. The RAM\n"
	"disk's content is lost, the slow disk's is kept: writes go through to it.\n"
	"\n"
	"Options:\n"
	"     --cache DEVICE      the RAM disk\n"
	"     --origin DEVICE     the slow disk\n"
	"     --name NAME         make /dev/mapper/NAME; without it, rxc-ORIGIN\n"
	"     --block-size SIZE   a power of two from 4K to 1M; without it, 4K\n"
	"     --mode MODE         writethrough, writearound or passthrough; without it,\n"
	"                         writethrough\n"
	"     --seq-cutoff SIZE   do not cache sequential I/O beyond this length; 0, the\n"
	"                         default, caches all\n"
	"     --force             take a RAM disk that holds a file system or the like, or a\n"
	"                         slow disk that is swap space or a member of md or LVM\n"
	"     --dry-run           check all, print what would be done, and change nothing\n"
	" -h, --help              print this help\n";

static enum exit_code parse(int argc, char **argv, struct map_request *request, bool *help)
{
	static const struct option options[] = {
		{ "block-size",	required_argument, NULL, OPT_BLOCK_SIZE },
		{ "cache",	required_argument, NULL, OPT_CACHE },
		{ "dry-run",	no_argument,	   NULL, OPT_DRY_RUN },
		{ "force",	no_argument,	   NULL, OPT_FORCE },
		{ "mode",	required_argument, NULL, OPT_MODE },
		{ "name",	required_argument, NULL, OPT_NAME },
		{ "origin",	required_argument, NULL, OPT_ORIGIN },
		{ "seq-cutoff",	required_argument, NULL, OPT_SEQ_CUTOFF },
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
		case OPT_SEQ_CUTOFF:
			ret = seq_cutoff_argument(optarg, &request->seq_cutoff);
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 0, "--cache DEVICE --origin DEVICE [OPTION...]");
	if (!ret && !request->cache)
		ret = report(EXIT_PARAMETERS, "option --cache is missing; it takes a RAM disk");
	if (!ret && !request->origin)
		ret = report(EXIT_PARAMETERS, "option --origin is missing; it takes a slow disk");
	return ret;
}

/* Is one of the two the other, or a partition of it? */
static bool overlap(dev_t a, dev_t b)
{
	dev_t disk;

	return a == b || (sysfs_read_number(a, "../dev", &disk) && disk == b) ||
	       (sysfs_read_number(b, "../dev", &disk) && disk == a);
}

static enum exit_code mapped_error(const struct device *dev, const char *role, dev_t member,
				   const char *name)
{
	return report(EXIT_BUSY, "%s '%s': %s the %s of '%s'; run 'rxadm unmap %s' first",
		      dev->what, dev->path,
		      dev->number == member ? "is already" : "shares a disk with", role, name,
		      name);
}

static enum exit_code check_not_mapped(const struct device *dev, const struct caches *caches)
{
	const struct cache *cache;
	size_t i;

	for (i = 0; i < caches->count; i++) {
		cache = &caches->list[i];
		if (overlap(dev->number, cache->table.origin))
			return mapped_error(dev, "origin", cache->table.origin, cache->name);
		if (overlap(dev->number, cache->table.cache))
			return mapped_error(dev, "cache", cache->table.cache, cache->name);
	}
	return EXIT_OK;
}

static enum exit_code check_unused(const struct device *dev)
{
	char *users = users_of(dev->number);
	enum exit_code ret = EXIT_OK;

	if (users)
		ret = report(EXIT_BUSY, "%s '%s': is in use (%s); release it there first",
			     dev->what, dev->path, users);
	free(users);
	return ret;
}

static enum exit_code check_fit(int control, const struct device *dev, int index)
{
	struct rxd_query query;
	int err;

	err = control_query(control, index, 0, &query);
	if (err)
		return control_error(err, dev->path);
	if (query.state & RXD_STATE_READONLY)
		return report(EXIT_DEVICE, "%s '%s': is read-only; must be writable", dev->what,
			      dev->path);
	if (query.state & RXD_STATE_RESERVED)
		return report(EXIT_DEVICE,
			      "%s '%s': its memory is reserved; must be a RAM disk made without --reserve",
			      dev->what, dev->path);
	return EXIT_OK;
}

static enum exit_code check_cache(int control, const struct device *dev, int index,
				  const struct caches *caches, bool force)
{
	enum exit_code ret;

	ret = check_not_mapped(dev, caches);
	if (!ret)
		ret = check_unused(dev);
	if (!ret)
		ret = control_idle_check(control, index, dev);
	if (!ret)
		ret = check_fit(control, dev, index);
	if (!ret && !force)
		ret = signature_check(dev->what, dev->path);
	return ret;
}

static enum exit_code read_origin(int fd, const struct device *dev, uint64_t *sectors)
{
	uint64_t bytes;
	int read_only;

	if (ioctl(fd, BLKROGET, &read_only) || ioctl(fd, BLKGETSIZE64, &bytes))
		return report(exit_code_of(errno), "%s '%s': %s", dev->what, dev->path,
			      strerror(errno));
	if (read_only)
		return report(EXIT_DEVICE, "%s '%s': is read-only; must be writable", dev->what,
			      dev->path);
	*sectors = bytes >> SECTOR_SHIFT;
	if (!*sectors)
		return report(EXIT_DEVICE, "%s '%s': has no capacity", dev->what, dev->path);
	return EXIT_OK;
}

static enum exit_code check_origin(const struct device *dev, const struct device *cache,
				   const struct caches *caches,
				   const struct map_request *request, uint64_t *sectors)
{
	enum exit_code ret;
	int fd;

	if (overlap(dev->number, cache->number))
		return report(EXIT_PARAMETERS,
			      "%s '%s': is the cache device itself; must be another device",
			      dev->what, dev->path);
	ret = check_not_mapped(dev, caches);
	if (!ret)
		ret = check_unused(dev);
	if (ret)
		return ret;

	/* Whoever holds it without showing up above is found by this. */
	fd = open(dev->path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		return report(EXIT_BUSY,
			      "%s '%s': is in use by the kernel, perhaps mounted in another namespace; release it there first",
			      dev->what, dev->path);
	if (fd < 0)
		return report(exit_code_of(errno), "%s '%s': %s", dev->what, dev->path,
			      strerror(errno));
	ret = read_origin(fd, dev, sectors);
	close(fd);
	if (!ret && !request->force)
		ret = member_check(dev->what, dev->path, request->force_text);
	return ret;
}

static enum exit_code check_name_is_free(const char *name)
{
	struct mapping mapping;
	enum exit_code ret;

	ret = mapping_read(name, MAPPING_STATUS, &mapping);
	if (!ret && mapping.exists)
		ret = report(EXIT_BUSY,
			     "name '%s': /dev/mapper/%s exists; %s, or remove it first",
			     name, name, advice("give another --name", "rename the section"));
	mapping_release(&mapping);
	return ret;
}

static char *table_of(const struct map_request *request, const struct device *origin,
		      const struct device *cache)
{
	struct rxcache_table table = {
		.origin = origin->number,
		.cache = cache->number,
		.features.block_size = request->block_size >> SECTOR_SHIFT,
		.features.seq_cutoff = request->seq_cutoff,
	};

	snprintf(table.features.mode, sizeof(table.features.mode), "%s", request->mode);
	return rxcache_format_table(&table);
}

static enum exit_code create(const char *name, const struct device *origin, uint64_t sectors,
			     const struct device *cache, const struct map_request *request,
			     char **path)
{
	char *table = table_of(request, origin, cache);
	char *uuid = format_text(RXCACHE_UUID "%u:%u", major(origin->number),
				 minor(origin->number));
	enum exit_code ret = EXIT_OK;
	dev_t number;

	*path = NULL;
	if (request->dry_run) {
		if (!module_is_loaded("dm_rxcache"))
			puts("modprobe dm-rxcache");
		printf("dmsetup create %s --uuid %s --table '0 %llu " RXCACHE_TARGET " %s'\n",
		       name, uuid, (unsigned long long)sectors, table);
		goto out;
	}
	*path = format_text("/dev/mapper/%s", name);
	/* It becomes empty, and is so when it is no cache any more. */
	ret = lineage_suspend(cache->number);
	if (ret)
		goto out;
	ret = mapping_create(name, uuid, sectors, RXCACHE_TARGET, table, &number);
	if (ret)
		lineage_restore(cache->number);
	else
		lineage_forget(cache->number);
	if (!ret && !device_wait(*path, number)) {
		ret = mapping_remove(name);
		if (!ret)
			ret = report(EXIT_DEVICE,
				     "'%s': the node did not appear, so the mapping was removed",
				     *path);
	}
out:
	free(uuid);
	free(table);
	return ret;
}

/* A name for the cache of this origin; sysfs writes '!' for a slash. */
static char *default_name(const struct device *origin)
{
	char *name = format_text("rxc-%s", origin->kernel_name);
	char *c;

	for (c = name; *c; c++)
		if (*c == '!')
			*c = '-';
	return name;
}

static enum exit_code map_devices(int control, const struct map_request *request,
				  const struct device *cache, int index,
				  const struct device *origin, char **path)
{
	struct caches caches;
	enum exit_code ret;
	uint64_t sectors = 0;
	char *name;

	name = request->name ? copy_text(request->name) : default_name(origin);
	ret = caches_read(&caches);
	if (!ret)
		ret = mapping_name_check(name);
	if (!ret)
		ret = check_origin(origin, cache, &caches, request, &sectors);
	if (!ret)
		ret = check_cache(control, cache, index, &caches, request->force);
	if (!ret)
		ret = check_name_is_free(name);
	if (!ret)
		ret = create(name, origin, sectors, cache, request, path);
	caches_free(&caches);
	free(name);
	return ret;
}

/* The same for a disk and all its partitions. */
static uint64_t disk_of(dev_t number)
{
	dev_t disk;

	return sysfs_read_number(number, "../dev", &disk) ? disk : number;
}

/**
 * cache_map - map a cache, or report why not
 * @control: the control node of the RAM disks
 * @request: what to map
 * @path: out: allocated path of the mapping, or NULL, as after a dry run
 *
 * A signal must not leave a mapping without a table: block them around this.
 */
enum exit_code cache_map(int control, const struct map_request *request, char **path)
{
	struct device cache, origin;
	enum exit_code ret;
	int index;

	*path = NULL;
	ret = device_find_rxd("cache device", request->cache, &cache, &index);
	if (ret)
		return ret;
	ret = device_find("origin", request->origin, &origin);
	if (!ret) {
		/* device-mapper lets two mappings have one disk. */
		ret = lock_take_one(disk_of(origin.number), origin.path);
		if (!ret) {
			ret = map_devices(control, request, &cache, index, &origin, path);
			lock_give_one(disk_of(origin.number));
		}
		device_release(&origin);
	}
	device_release(&cache);
	return ret;
}

static enum exit_code run(int argc, char **argv)
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

	ret = parse(argc, argv, &request, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}

	/* cache_map() locks the origin, which may hang, and nothing that others wait for. */
	ret = privilege_check();
	if (!ret && !request.dry_run && !module_is_loaded("dm_rxcache"))
		ret = module_load("dm-rxcache");
	if (!ret)
		ret = control_open(&control);
	if (ret)
		return ret;
	ret = request.dry_run ? dm_connect() : dm_begin();
	if (!ret) {
		signals_block();
		ret = cache_map(control, &request, &path);
		if (path && !ret)
			puts(path);
		fflush(stdout);
		signals_allow();
		free(path);
		dm_end();
	}
	close(control);
	return ret;
}

const struct command command_map = {
	.name = "map",
	.summary = "let a RAM disk cache a slow disk",
	.run = run,
};
