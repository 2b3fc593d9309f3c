// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm info
 */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "commands/command.h"
#include "commands/options.h"
#include "device/device.h"
#include "device/device_users.h"
#include "device/dm.h"
#include "device/nvmet_locks.h"
#include "device/openers.h"
#include "kernel/attributes.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"
#include "kernel/extents.h"
#include "kernel/rxcache.h"
#include "output/table.h"

#define SECTOR	512
#define LINKS	"/dev/disk"

enum {
	COL_DEVICE,
	COL_KIND,
	COL_NUMBER,
	COL_SIZE,
	COL_STATE,
	COL_USED,
	COL_SHARED,
	COL_MAX_USED,
	COL_LIMIT,
	COL_METADATA,
	COL_EXTENTS,
	COL_LOGICAL_BLOCK_SIZE,
	COL_FOLIO_SIZE,
	COL_NODE,
	COL_NOSPC,
	COL_DISCARDS,
	COL_ORIGIN,	/* up to COL_BLOCKS_USED: see cache_columns_fill() */
	COL_CACHE,
	COL_MODE,
	COL_SEQ_CUTOFF,
	COL_ADVISE,
	COL_BLOCK_SIZE,
	COL_BLOCKS_TOTAL,
	COL_BLOCKS_USED,
	COL_READ_HITS,	/* up to COL_TAKEN: likewise */
	COL_READ_MISSES,
	COL_READ_PARTIALS,
	COL_WRITE_HITS,
	COL_WRITE_MISSES,
	COL_WRITE_PARTIALS,
	COL_FILLS,
	COL_EVICTIONS,
	COL_BYPASSES,
	COL_INVALIDATIONS,
	COL_ORIGIN_ERRORS,
	COL_READ_HIT_PERCENT,
	COL_MIN_SIZE,
	COL_LENT,
	COL_GIVEN_BACK,
	COL_TAKEN,
	COL_LATENCY_P50_NS,
	COL_LATENCY_P99_NS,
	COL_READS,
	COL_WRITES,
	COL_UUID,
	COL_NAME,
	COL_PARENT,
	COL_EXPORT,
	COL_LINKS,
	COL_PARTITIONS,
	COL_MOUNTS,
	COL_SWAPS,
	COL_HOLDERS,
	COL_OPENERS,
};

static const struct column columns[] = {
	[COL_DEVICE]	= { "DEVICE", COLUMN_TEXT, true, "path" },
	[COL_KIND]	= { "KIND", COLUMN_TEXT, true, "ramdisk or cache" },
	[COL_NUMBER]	= { "NUMBER", COLUMN_TEXT, true, "device number, MAJOR:MINOR" },
	[COL_SIZE]	= { "SIZE", COLUMN_SIZE, true, "capacity" },
	[COL_STATE]	= { "STATE", COLUMN_TEXT, true, "as in 'rxadm list'" },
	[COL_USED]	= { "USED", COLUMN_SIZE, true, "memory that holds data" },
	[COL_SHARED]	= { "SHARED", COLUMN_SIZE, true,
			    "part of USED that other RAM disks share" },
	[COL_MAX_USED]	= { "MAX_USED", COLUMN_SIZE, true, "largest USED since creation" },
	[COL_LIMIT]	= { "LIMIT", COLUMN_SIZE, true,
			    "memory that the data may occupy, if limited" },
	[COL_METADATA]	= { "METADATA", COLUMN_SIZE, true,
			    "memory of the index, which keeps track of the data" },
	[COL_EXTENTS]	= { "EXTENTS", COLUMN_NUMBER, true, "number of ranges that hold data" },
	[COL_LOGICAL_BLOCK_SIZE] = { "LOGICAL_BLOCK_SIZE", COLUMN_NUMBER, true,
				     "logical block size in bytes" },
	[COL_FOLIO_SIZE] = { "FOLIO_SIZE", COLUMN_SIZE, true,
			     "largest piece of memory that a long write allocates" },
	[COL_NODE]	= { "NODE", COLUMN_TEXT, true,
			    "NUMA node that memory is allocated from, local or interleave" },
	[COL_NOSPC]	= { "NOSPC", COLUMN_NUMBER, true,
			    "writes that failed because of the limit or a lack of memory" },
	[COL_DISCARDS]	= { "DISCARDS", COLUMN_NUMBER, true,
			    "discards and write-zeroes that freed memory" },
	[COL_ORIGIN]	= { "ORIGIN", COLUMN_TEXT, true, "path of the origin" },
	[COL_CACHE]	= { "CACHE", COLUMN_TEXT, true, "path of the RAM disk" },
	[COL_MODE]	= { "MODE", COLUMN_TEXT, true, "what is cached" },
	[COL_SEQ_CUTOFF] = { "SEQ_CUTOFF", COLUMN_SIZE, true,
			     "length beyond which sequential I/O is not cached" },
	[COL_ADVISE]	= { "ADVISE", COLUMN_TEXT, true,
			    "yes: the advice on the size of the cache is on" },
	[COL_BLOCK_SIZE] = { "BLOCK_SIZE", COLUMN_SIZE, true, "size of a cache block" },
	[COL_BLOCKS_TOTAL] = { "BLOCKS_TOTAL", COLUMN_NUMBER, true,
			       "blocks that fit into the RAM disk" },
	[COL_BLOCKS_USED] = { "BLOCKS_USED", COLUMN_NUMBER, true, "blocks that it holds" },
	[COL_READ_HITS]	= { "READ_HITS", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_READ_MISSES] = { "READ_MISSES", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_READ_PARTIALS] = { "READ_PARTIALS", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_WRITE_HITS] = { "WRITE_HITS", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_WRITE_MISSES] = { "WRITE_MISSES", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_WRITE_PARTIALS] = { "WRITE_PARTIALS", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_FILLS]	= { "FILLS", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_EVICTIONS]	= { "EVICTIONS", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_BYPASSES]	= { "BYPASSES", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_INVALIDATIONS] = { "INVALIDATIONS", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_ORIGIN_ERRORS] = { "ORIGIN_ERRORS", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_READ_HIT_PERCENT] = { "READ_HIT_PERCENT", COLUMN_NUMBER, true,
				   "READ_HITS as a percentage of all blocks read" },
	[COL_MIN_SIZE]	= { "MIN_SIZE", COLUMN_SIZE, true, "as in 'rxadm status'" },
	[COL_LENT]	= { "LENT", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_GIVEN_BACK] = { "GIVEN_BACK", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_TAKEN]	= { "TAKEN", COLUMN_NUMBER, true, "as in 'rxadm status'" },
	[COL_LATENCY_P50_NS] = { "LATENCY_P50_NS", COLUMN_NUMBER, true,
				 "median latency of reads and writes, if measured" },
	[COL_LATENCY_P99_NS] = { "LATENCY_P99_NS", COLUMN_NUMBER, true,
				 "99th percentile of the latency, if measured" },
	[COL_READS]	= { "READS", COLUMN_NUMBER, true, "reads since creation" },
	[COL_WRITES]	= { "WRITES", COLUMN_NUMBER, true, "writes since creation" },
	[COL_UUID]	= { "UUID", COLUMN_TEXT, true, "identity" },
	[COL_NAME]	= { "NAME", COLUMN_TEXT, true, "name that a RAM disk was given" },
	[COL_PARENT]	= { "PARENT", COLUMN_TEXT, true,
			    "UUID of the disk its data came from" },
	[COL_EXPORT]	= { "EXPORT", COLUMN_TEXT, true,
			    "NQN and address of its export" },
	[COL_LINKS]	= { "LINKS", COLUMN_LIST, true, "other names in " LINKS },
	[COL_PARTITIONS] = { "PARTITIONS", COLUMN_LIST, true, "paths of its partitions" },
	[COL_MOUNTS]	= { "MOUNTS", COLUMN_LIST, true, "mount points of it and its partitions" },
	[COL_SWAPS]	= { "SWAPS", COLUMN_LIST, true, "swap space on it" },
	[COL_HOLDERS]	= { "HOLDERS", COLUMN_LIST, true, "devices on top of it" },
	[COL_OPENERS]	= { "OPENERS", COLUMN_LIST, true, "processes that have it open" },
};

static const struct table_spec spec = {
	.name = "info",
	.usage = "Usage: rxadm info DEVICE|NAME... [OPTION...]\n"
		 "\n"
		 "Show all properties of RAM disks and caches, and what uses them.\n",
	.vertical = true,
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

static void set_list_freed(struct table *table, size_t column, char *list)
{
	table_set_list(table, column, list);
	free(list);
}

/* Add the links in one folder of LINKS that lead to a device. */
static void add_links(char **links, const char *folder, dev_t number)
{
	char *path = format_text(LINKS "/%s", folder);
	DIR *dir = opendir(path);
	struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir)))
		if (!fstatat(dirfd(dir), entry->d_name, &st, 0) && S_ISBLK(st.st_mode) &&
		    st.st_rdev == number)
			append_text(links, "%s%s/%s", *links ? "\n" : "", path, entry->d_name);
	if (dir)
		closedir(dir);
	free(path);
}

static char *links_of(dev_t number)
{
	DIR *dir = opendir(LINKS);
	struct dirent *entry;
	char *links = NULL;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			add_links(&links, entry->d_name, number);
	if (dir)
		closedir(dir);
	return links;
}

static char *partitions_of(dev_t number)
{
	struct disk_family family = disk_family_of(number);
	char *list = NULL;
	char *path;
	size_t i;

	for (i = 1; i < family.count; i++) {
		path = device_path(family.numbers[i]);
		append_text(&list, "%s%s", list ? "\n" : "", path);
		free(path);
	}
	disk_family_release(&family);
	return list;
}

/* Fill the columns that every block device has. */
static void fill_device(struct table *table, const char *path, const char *kind, dev_t number)
{
	struct users users = users_read(number);
	struct iostat io;

	table_set_text(table, COL_DEVICE, path);
	table_set_text(table, COL_KIND, kind);
	table_set_freed(table, COL_NUMBER, format_text("%u:%u", major(number), minor(number)));
	if (iostat_read(number, &io)) {
		table_set_number(table, COL_READS, io.requests[IO_READ]);
		table_set_number(table, COL_WRITES, io.requests[IO_WRITE]);
	}
	table_set_freed(table, COL_EXPORT, nvmet_exports_of(number));
	set_list_freed(table, COL_LINKS, links_of(number));
	set_list_freed(table, COL_PARTITIONS, partitions_of(number));
	table_set_list(table, COL_MOUNTS, users.mounts);
	table_set_list(table, COL_SWAPS, users.swaps);
	table_set_list(table, COL_HOLDERS, users.holders);
	set_list_freed(table, COL_OPENERS, device_openers(number));
	users_release(&users);
}

static bool count(void *data, const struct rxd_extent *extent __always_unused)
{
	uint64_t *extents = data;

	++*extents;
	return true;
}

/* Leave the column empty if the RAM disk is in use as a cache: the ioctl then fails. */
static void fill_extents(struct table *table, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t extents = 0;

	if (fd < 0)
		return;
	if (!extents_each(fd, count, &extents))
		table_set_number(table, COL_EXTENTS, extents);
	close(fd);
}

/* Leave the column empty if the module is older. */
static void fill_shared(struct table *table, int fd, const struct rxd_query *query, dev_t number)
{
	char *sequence = disk_sequence(number);
	uint64_t shared;

	if (!control_count_shared(fd, query, sequence ? strtoull(sequence, NULL, 10) : 0, &shared))
		table_set_number(table, COL_SHARED, shared);
	free(sequence);
}

static void fill_query(struct table *table, const struct rxd_query *query)
{
	table_set_number(table, COL_SIZE, query->size);
	table_set_freed(table, COL_STATE, ramdisk_state(query->state));
	table_set_number(table, COL_USED, query->mem_used);
	table_set_number(table, COL_MAX_USED, query->mem_max_used);
	if (query->mem_limit)
		table_set_number(table, COL_LIMIT, query->mem_limit);
	table_set_number(table, COL_METADATA, query->mem_index);
	table_set_number(table, COL_LOGICAL_BLOCK_SIZE, query->logical_block_size);
	table_set_number(table, COL_FOLIO_SIZE, query->folio_size);
	table_set_freed(table, COL_NODE, ramdisk_node(query->node));
	table_set_number(table, COL_NOSPC, query->nospc);
	table_set_number(table, COL_DISCARDS, query->discards);
	table_set_freed(table, COL_UUID, ramdisk_uuid(query->uuid));
}

static enum exit_code fill_found(struct table *table, const struct device *dev, int index)
{
	struct rxd_query query;
	enum exit_code ret;
	char *path;
	int err;
	int fd;

	ret = control_open(&fd);
	if (ret)
		return ret;
	err = control_query(fd, index, 0, &query);
	if (err) {
		ret = control_error(err, dev->path);
	} else {
		path = device_path(dev->number);
		table_add_line(table);
		fill_device(table, path, "ramdisk", dev->number);
		fill_query(table, &query);
		fill_shared(table, fd, &query, dev->number);
		table_set_freed(table, COL_NAME, ramdisk_name(dev->number));
		table_set_freed(table, COL_PARENT, ramdisk_parent(dev->number));
		fill_extents(table, path);
		free(path);
	}
	close(fd);
	return ret;
}

static enum exit_code fill_ramdisk(struct table *table, const char *name)
{
	struct device dev;
	enum exit_code ret;
	int index;

	ret = device_find_rxd("device", name, &dev, &index);
	if (!ret) {
		ret = fill_found(table, &dev, index);
		device_release(&dev);
	}
	return ret;
}

/* Return: the upper bound of the class of a percentile; for the last class, its lower bound. */
static uint64_t quantile(const struct latency *latency, unsigned int percent)
{
	uint64_t wanted = (latency->total * percent + 99) / 100;
	uint64_t seen = latency->count[0];
	unsigned int bin = 0;

	while (seen < wanted && bin < LATENCY_BINS - 1)
		seen += latency->count[++bin];
	return latency_from(bin + 1 < LATENCY_BINS ? bin + 1 : bin);
}

static enum exit_code fill_latency(struct table *table, const char *name)
{
	struct latency latency;
	enum exit_code ret;

	ret = latency_read(name, &latency);
	if (ret || !latency.total)
		return ret;
	table_set_number(table, COL_LATENCY_P50_NS, quantile(&latency, 50));
	table_set_number(table, COL_LATENCY_P99_NS, quantile(&latency, 99));
	return EXIT_OK;
}

static enum exit_code fill_cache(struct table *table, const char *name)
{
	struct rxcache_status status;
	const struct cache *cache;
	struct caches caches;
	uint64_t sectors = 0;
	enum exit_code ret;
	char *path;

	ret = cache_find(name, &caches, &cache);
	if (!ret)
		ret = cache_status(name, &status, &sectors);
	if (!ret && !sectors)
		ret = report(EXIT_DEVICE, "mapping '%s': was removed by another process", name);
	if (!ret) {
		path = format_text("/dev/mapper/%s", name);
		table_add_line(table);
		fill_device(table, path, "cache", cache->number);
		table_set_number(table, COL_SIZE, sectors * SECTOR);
		cache_columns_fill(table, COL_ORIGIN, COL_METADATA, COL_LIMIT, COL_READ_HITS, cache,
				   &status);
		ret = fill_latency(table, name);
		free(path);
	}
	caches_free(&caches);
	return ret;
}

static enum exit_code fill_mapping(struct table *table, const char *name)
{
	enum exit_code ret;

	ret = mapping_name_check(name);
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = fill_cache(table, name);
	dm_end();
	return ret;
}

static enum exit_code neither_error(const char *name)
{
	if (!module_is_loaded("rxd") && !module_is_loaded("dm_rxcache"))
		return report(EXIT_DEVICE,
			      "'%s': does not exist, because the modules rxd and dm-rxcache are not loaded; run 'modprobe rxd' or 'modprobe dm-rxcache'",
			      name);
	return report(EXIT_DEVICE,
		      "'%s': is neither a RAM disk nor a cache; 'rxadm list' and 'rxadm status' list all",
		      name);
}

/* A name is that of a device in /dev, a RAM disk or a mapping. A path may be a link to one. */
static enum exit_code fill(struct table *table, const char *name)
{
	char *path = strchr(name, '/') ? copy_text(name) : format_text("/dev/%s", name);
	char *disk = ramdisk_named(name);
	char *mapping = NULL;
	bool is_device;
	enum exit_code ret;
	struct stat st;

	is_device = *name && !stat(path, &st) && S_ISBLK(st.st_mode);
	if (is_device)
		mapping = sysfs_read(st.st_rdev, "dm/name");
	else if (*name && !disk && !strchr(name, '/'))
		mapping = format_text("/dev/mapper/%s", name);
	if (mapping && !is_device && access(mapping, F_OK))
		ret = neither_error(name);
	else if (mapping)
		ret = fill_mapping(table, mapping_name(mapping));
	else
		ret = fill_ramdisk(table, name);
	free(mapping);
	free(disk);
	free(path);
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct table *table;
	enum exit_code ret;
	char **name;

	ret = table_options(argc, argv, &spec, NULL, &table);
	if (ret || !table)
		return ret;
	if (optind == argc)
		ret = operands(argc, argv, 1, "DEVICE|NAME... [OPTION...]");
	if (!ret)
		ret = privilege_check();
	for (name = argv + optind; !ret && *name; name++)
		ret = fill(table, *name);
	if (!ret)
		ret = table_print(table);
	table_free(table);
	return ret;
}

const struct command command_info = {
	.name = "info",
	.summary = "show all properties of RAM disks and caches",
	.run = run,
};
