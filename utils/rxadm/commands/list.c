// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm list, status: a line for each RAM disk, and for each cache
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "base/text.h"
#include "commands/command.h"
#include "commands/options.h"
#include "device/device.h"
#include "device/dm.h"
#include "device/nvmet_locks.h"
#include "kernel/caches.h"
#include "kernel/disk_state.h"
#include "kernel/rxcache.h"
#include "output/table.h"

#define SYS_BLOCK	"/sys/block"
#define SECTOR		512

enum {
	COL_DEVICE,
	COL_SIZE,
	COL_USED,
	COL_MAX_USED,
	COL_LIMIT,
	COL_LOGICAL_BLOCK_SIZE,
	COL_STATE,
	COL_NOSPC,
	COL_DISCARDS,
	COL_METADATA,
	COL_FOLIO_SIZE,
	COL_NODE,
	COL_UUID,
	COL_DISK_NAME,
	COL_PARENT,
	COL_EXPORT,
};

#define STATES \
	"idle, or: open cache overcommit readonly reserved detect-zeroes expendable lost elastic"

static const struct column list_columns[] = {
	[COL_DEVICE]	= { "DEVICE", COLUMN_TEXT, true, "path of the RAM disk" },
	[COL_SIZE]	= { "SIZE", COLUMN_SIZE, true, "capacity" },
	[COL_USED]	= { "USED", COLUMN_SIZE, true, "memory that holds data" },
	[COL_MAX_USED]	= { "MAX_USED", COLUMN_SIZE, false, "largest USED since creation" },
	[COL_LIMIT]	= { "LIMIT", COLUMN_SIZE, true,
			    "memory that the data may occupy; none, or 0 as a number: no limit" },
	[COL_LOGICAL_BLOCK_SIZE] = { "LOGICAL_BLOCK_SIZE", COLUMN_NUMBER, false,
				     "logical block size in bytes" },
	[COL_STATE]	= { "STATE", COLUMN_TEXT, true, STATES },
	[COL_NOSPC]	= { "NOSPC", COLUMN_NUMBER, false,
			    "writes that failed because of the limit or a lack of memory" },
	[COL_DISCARDS]	= { "DISCARDS", COLUMN_NUMBER, false,
			    "discards and write-zeroes that freed memory" },
	[COL_METADATA]	= { "METADATA", COLUMN_SIZE, false,
			    "memory that keeps track of the data, not part of USED" },
	[COL_FOLIO_SIZE] = { "FOLIO_SIZE", COLUMN_SIZE, false,
			     "largest piece of memory that a long write allocates" },
	[COL_NODE]	= { "NODE", COLUMN_TEXT, false,
			    "NUMA node that memory is allocated from, local or interleave" },
	[COL_UUID]	= { "UUID", COLUMN_TEXT, false, "identity, as in /dev/disk/by-id" },
	[COL_DISK_NAME]	= { "NAME", COLUMN_TEXT, true, "name that it was given, if any" },
	[COL_PARENT]	= { "PARENT", COLUMN_TEXT, false, "UUID of the disk its data came from" },
	[COL_EXPORT]	= { "EXPORT", COLUMN_TEXT, false, "NQN and address of its export" },
};

static const struct table_spec list_spec = {
	.name = "ramdisks",
	.usage = "Usage: rxadm list [OPTION...]\n"
		 "\n"
		 "List the RAM disks.\n",
	.columns = list_columns,
	.count = ARRAY_SIZE(list_columns),
};

/* Read the values from sysfs, which is open to all users; the control node is for root only. */
static const char *const attributes[] = {
	[COL_SIZE]	= "size",
	[COL_USED]	= "rxd/mem_used",
	[COL_MAX_USED]	= "rxd/mem_max_used",
	[COL_LIMIT]	= "rxd/mem_limit",
	[COL_LOGICAL_BLOCK_SIZE] = "queue/logical_block_size",
	[COL_STATE]	= "rxd/state",
	[COL_NOSPC]	= "rxd/nospc",
	[COL_DISCARDS]	= "rxd/discards",
	[COL_METADATA]	= "rxd/mem_index",
	[COL_FOLIO_SIZE] = "rxd/folio_size",
	[COL_NODE]	= "rxd/node",
	[COL_UUID]	= "rxd/uuid",
	[COL_DISK_NAME]	= "rxd/name",
	[COL_PARENT]	= "rxd/parent",
};

/* The kernel sets the size of a disk to 0 before it removes its files. */
static bool is_size(const char *text)
{
	return text && strcmp(text, "0");
}

/* Another disk may have the device number by now. */
static bool is_there(const char *name, dev_t number, const char *sequence)
{
	char *size = sysfs_read(number, attributes[COL_SIZE]);
	dev_t named;
	bool there = is_size(size) && sysfs_number_of(name, &named) && named == number;
	char *now = there ? disk_sequence(number) : NULL;

	there = sequence && now && !strcmp(now, sequence);
	free(now);
	free(size);
	return there;
}

/* Return: false if the disk is gone. A module of another version may lack some files. */
static bool read_values(const char *name, dev_t number, char **values)
{
	char *sequence = disk_sequence(number);
	bool there;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		if (attributes[i])
			values[i] = sysfs_read(number, attributes[i]);
	there = values[COL_LOGICAL_BLOCK_SIZE] &&	/* which the kernel makes last */
		is_size(values[COL_SIZE]) && is_there(name, number, sequence);
	free(sequence);
	return there;
}

static void set_value(struct table *table, size_t column, const char *text)
{
	uint64_t number = strtoull(text, NULL, 10);

	if (list_columns[column].kind == COLUMN_TEXT)
		table_set_text(table, column, text);
	else if (column == COL_SIZE)
		table_set_number(table, column, number * SECTOR);
	else if (column == COL_LIMIT && !number && !table_wants_bytes(table))
		table_set_text(table, column, "none");
	else
		table_set_number(table, column, number);
}

static void add_disk_line(struct table *table, const char *name, dev_t number, char **values)
{
	size_t i;

	table_add_line(table);
	table_set_freed(table, COL_DEVICE, format_text("/dev/%s", name));
	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		if (values[i] && *values[i])
			set_value(table, i, values[i]);
	table_set_freed(table, COL_EXPORT, nvmet_exports_of(number));
}

/* Leave out a disk that is removed meanwhile. */
static void add_disk(struct table *table, const char *name)
{
	char *values[ARRAY_SIZE(attributes)] = { 0 };
	dev_t number;
	size_t i;

	if (sysfs_number_of(name, &number) && read_values(name, number, values))
		add_disk_line(table, name, number, values);
	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		free(values[i]);
}

static int is_ramdisk(const struct dirent *entry)
{
	unsigned int index;
	char end;

	return sscanf(entry->d_name, "rxd%u%c", &index, &end) == 1;
}

/* Without the module, the list is empty. */
static enum exit_code fill_list(struct table *table)
{
	struct dirent **entries;
	int count;
	int i;

	count = scandir(SYS_BLOCK, &entries, is_ramdisk, versionsort);
	if (count < 0)
		return report(exit_code_of(errno), "cannot read " SYS_BLOCK ": %s",
			      strerror(errno));
	for (i = 0; i < count; i++) {
		add_disk(table, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return EXIT_OK;
}

static enum exit_code run_list(int argc, char **argv)
{
	struct table *table;
	enum exit_code ret;

	ret = table_options(argc, argv, &list_spec, NULL, &table);
	if (ret || !table)
		return ret;
	ret = operands(argc, argv, 0, "[OPTION...]");
	if (!ret)
		ret = fill_list(table);
	if (!ret)
		ret = table_print(table);
	table_free(table);
	return ret;
}

const struct command command_list = {
	.name = "list",
	.summary = "list the RAM disks",
	.run = run_list,
};

enum {
	COL_NAME,
	COL_ORIGIN,	/* up to COL_BLOCKS_USED: see cache_columns_fill() */
	COL_CACHE,
	COL_MODE,
	COL_SEQ_CUTOFF,
	COL_ADVISE,
	COL_BLOCK_SIZE,
	COL_BLOCKS_TOTAL,
	COL_BLOCKS_USED,
	COL_METADATA_BYTES,
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
	COL_CACHE_LIMIT,
	COL_CACHE_EXPORT,
};

static const struct column status_columns[] = {
	[COL_NAME]		= { "NAME", COLUMN_TEXT, true, "name in /dev/mapper" },
	[COL_ORIGIN]		= { "ORIGIN", COLUMN_TEXT, true, "path of the origin" },
	[COL_CACHE]		= { "CACHE", COLUMN_TEXT, true, "path of the RAM disk" },
	[COL_MODE]		= { "MODE", COLUMN_TEXT, true, "what is cached" },
	[COL_SEQ_CUTOFF]	= { "SEQ_CUTOFF", COLUMN_SIZE, false,
				    "length beyond which sequential I/O is not cached" },
	[COL_ADVISE]		= { "ADVISE", COLUMN_TEXT, false, "yes: the advice is on" },
	[COL_BLOCK_SIZE]	= { "BLOCK_SIZE", COLUMN_SIZE, true, "size of a cache block" },
	[COL_BLOCKS_TOTAL]	= { "BLOCKS_TOTAL", COLUMN_NUMBER, true, "blocks of its RAM disk" },
	[COL_BLOCKS_USED]	= { "BLOCKS_USED", COLUMN_NUMBER, true, "blocks that it holds" },
	[COL_METADATA_BYTES]	= { "METADATA_BYTES", COLUMN_SIZE, false, "memory of the index" },
	[COL_READ_HITS]		= { "READ_HITS", COLUMN_NUMBER, true,
				    "blocks read from the RAM disk" },
	[COL_READ_MISSES]	= { "READ_MISSES", COLUMN_NUMBER, true,
				    "blocks read that were not cached" },
	[COL_READ_PARTIALS]	= { "READ_PARTIALS", COLUMN_NUMBER, false,
		"blocks in READ_HITS and READ_MISSES that were read only in part" },
	[COL_WRITE_HITS]	= { "WRITE_HITS", COLUMN_NUMBER, false,
				    "blocks written that were cached" },
	[COL_WRITE_MISSES]	= { "WRITE_MISSES", COLUMN_NUMBER, false,
				    "blocks written that were not cached, or were removed" },
	[COL_WRITE_PARTIALS]	= { "WRITE_PARTIALS", COLUMN_NUMBER, false,
		"blocks in WRITE_HITS and WRITE_MISSES that were written only in part" },
	[COL_FILLS]		= { "FILLS", COLUMN_NUMBER, false,
				    "blocks that a read brought into the cache" },
	[COL_EVICTIONS]		= { "EVICTIONS", COLUMN_NUMBER, false,
				    "blocks evicted for others, or by a resize" },
	[COL_BYPASSES]		= { "BYPASSES", COLUMN_NUMBER, false,
				    "blocks that bypassed the cache" },
	[COL_INVALIDATIONS]	= { "INVALIDATIONS", COLUMN_NUMBER, false,
				    "blocks removed by a write, a discard or a message" },
	[COL_ORIGIN_ERRORS]	= { "ORIGIN_ERRORS", COLUMN_NUMBER, false,
				    "requests that failed on the origin" },
	[COL_READ_HIT_PERCENT]	= { "READ_HIT_PERCENT", COLUMN_NUMBER, true,
				    "READ_HITS as a percentage of all blocks read" },
	[COL_MIN_SIZE]		= { "MIN_SIZE", COLUMN_SIZE, false,
				    "elastic: size beyond which memory is lent" },
	[COL_LENT]		= { "LENT", COLUMN_NUMBER, false,
				    "blocks beyond MIN_SIZE now" },
	[COL_GIVEN_BACK]	= { "GIVEN_BACK", COLUMN_NUMBER, false,
				    "blocks removed because others needed the memory" },
	[COL_TAKEN]		= { "TAKEN", COLUMN_NUMBER, false,
				    "by how many blocks LENT has grown in all" },
	[COL_CACHE_LIMIT]	= { "LIMIT", COLUMN_SIZE, true, "cache limit, if there is one" },
	[COL_CACHE_EXPORT]	= { "EXPORT", COLUMN_TEXT, false, "NQN and address of its export" },
};

static const struct table_spec status_spec = {
	.name = "caches",
	.usage = "Usage: rxadm status [NAME...] [OPTION...]\n"
		 "       rxadm status --latency [NAME...] [OPTION...]\n"
		 "\n"
		 "Show all caches, or only those named. With --latency, show a histogram of the latency of\n"
		 "their I/O; 'rxadm status --latency --help' lists its columns.\n",
	.columns = status_columns,
	.count = ARRAY_SIZE(status_columns),
};

/**
 * cache_columns_fill - fill the columns of a cache that 'status' and 'info' have
 * @table: the table
 * @origin: the column ORIGIN, followed by the others up to BLOCKS_USED
 * @metadata: the column for the memory of the index
 * @limit: the column for the cache limit
 * @counters: the first counter, followed by the others in their order, and READ_HIT_PERCENT up to
 *	TAKEN
 * @cache: the cache
 * @status: its status
 */
void cache_columns_fill(struct table *table, size_t origin, size_t metadata, size_t limit,
			size_t counters, const struct cache *cache,
			const struct rxcache_status *status)
{
	double hits = status->counters[RXCACHE_READ_HITS];
	double reads = hits + status->counters[RXCACHE_READ_MISSES];
	unsigned int i;

	table_set_freed(table, origin++, device_path(cache->table.origin));
	table_set_freed(table, origin++, device_path(cache->table.cache));
	table_set_text(table, origin++, status->features.mode);
	table_set_number(table, origin++, status->features.seq_cutoff);
	table_set_text(table, origin++, status->features.advise ? "yes" : "no");
	table_set_number(table, origin++, status->block_size * SECTOR);
	table_set_number(table, origin++, status->total);
	table_set_number(table, origin, status->used);
	table_set_number(table, metadata, status->metadata);
	if (status->features.size)
		table_set_number(table, limit, status->features.size);
	for (i = 0; i < RXCACHE_COUNTERS; i++)
		table_set_number(table, counters++, status->counters[i]);
	if (reads)
		table_set_freed(table, counters, format_text("%.1f", 100.0 * hits / reads));
	if (!status->features.min_size)
		return;
	table_set_number(table, ++counters, status->features.min_size);
	table_set_number(table, ++counters, status->features.lent);
	table_set_number(table, ++counters, status->features.given_back);
	table_set_number(table, ++counters, status->features.taken);
}

static enum exit_code add_cache(struct table *table, const struct cache *cache,
				bool named __always_unused)
{
	struct rxcache_status status;
	enum exit_code ret;
	uint64_t sectors;

	ret = cache_status(cache->name, &status, &sectors);
	if (ret || !sectors)
		return ret;
	table_add_line(table);
	table_set_text(table, COL_NAME, cache->name);
	cache_columns_fill(table, COL_ORIGIN, COL_METADATA_BYTES, COL_CACHE_LIMIT, COL_READ_HITS,
			   cache, &status);
	table_set_freed(table, COL_CACHE_EXPORT, nvmet_exports_of(cache->number));
	return EXIT_OK;
}

typedef enum exit_code add_fn(struct table *table, const struct cache *cache, bool named);

static enum exit_code fill_status(struct table *table, char **names, add_fn *add)
{
	const bool all = !*names;
	const struct cache *cache = NULL;
	struct caches caches;
	enum exit_code ret;
	size_t i;

	do {
		ret = all ? caches_read(&caches) :
			    cache_find(mapping_name(*names), &caches, &cache);
		for (i = 0; !ret && i < (all ? caches.count : 1); i++)
			ret = add(table, all ? &caches.list[i] : cache, !all);
		caches_free(&caches);
	} while (!all && !ret && *++names);
	return ret;
}

static enum exit_code status(struct table *table, char **names, add_fn *add)
{
	enum exit_code ret;

	/* Without the module there are no caches. */
	if (!*names && !module_is_loaded("dm_rxcache"))
		return table_print(table);
	ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = fill_status(table, names, add);
	if (!ret)
		ret = table_print(table);
	dm_end();
	return ret;
}

static const char latency_option[] = "--latency";

/* Find --latency, which may be abbreviated, before the columns are parsed: it selects the table. */
static bool wants_latency(char **argv)
{
	size_t length;

	while (*++argv && strcmp(*argv, "--")) {
		length = strlen(*argv);
		if (length >= strlen("--l") && !strncmp(*argv, latency_option, length))
			return true;
	}
	return false;
}

static void ignore_option(void *data __always_unused, int opt __always_unused)
{
}

static enum exit_code run_status(int argc, char **argv)
{
	static const struct option options[] = {
		{ latency_option + strlen("--"), no_argument, NULL, OPT_LATENCY },
		{ }
	};
	static const struct table_extra extra = {
		.options = options,
		.help = "     --latency          show a histogram of the latency of I/O\n",
		.set = ignore_option,
	};
	bool latency = wants_latency(argv);
	struct table *table;
	enum exit_code ret;
	char **name;

	ret = table_options(argc, argv, latency ? &latency_spec : &status_spec, &extra, &table);
	if (ret || !table)
		return ret;
	for (name = argv + optind; !ret && *name; name++)
		ret = mapping_name_check(mapping_name(*name));
	if (!ret)
		ret = status(table, argv + optind, latency ? add_latency : add_cache);
	table_free(table);
	return ret;
}

const struct command command_status = {
	.name = "status",
	.summary = "show the caches and their counters",
	.run = run_status,
};
