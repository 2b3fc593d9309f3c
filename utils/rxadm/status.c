// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm status
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caches.h"
#include "columns/table.h"
#include "command.h"
#include "device.h"
#include "dm.h"
#include "latency.h"
#include "machine.h"
#include "nvmet.h"
#include "options.h"

#define SECTOR	512

enum {
	COL_NAME,
	COL_ORIGIN,
	COL_CACHE,
	COL_MODE,
	COL_SEQ_CUTOFF,
	COL_BLOCK_SIZE,
	COL_BLOCKS_TOTAL,
	COL_BLOCKS_USED,
	COL_METADATA_BYTES,
	COL_READ_HITS,
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
	COL_EXPORT,
};

static const struct column columns[] = {
	[COL_NAME]		= { "NAME", COLUMN_TEXT, true, "name in /dev/mapper" },
	[COL_ORIGIN]		= { "ORIGIN", COLUMN_TEXT, true, "path of the slow disk" },
	[COL_CACHE]		= { "CACHE", COLUMN_TEXT, true, "path of the RAM disk" },
	[COL_MODE]		= { "MODE", COLUMN_TEXT, true, "what is cached" },
	[COL_SEQ_CUTOFF]	= { "SEQ_CUTOFF", COLUMN_SIZE, false,
				    "length from which on sequential I/O is not cached" },
	[COL_BLOCK_SIZE]	= { "BLOCK_SIZE", COLUMN_SIZE, true, "size of a cache block" },
	[COL_BLOCKS_TOTAL]	= { "BLOCKS_TOTAL", COLUMN_NUMBER, true,
				    "blocks that the cache can hold" },
	[COL_BLOCKS_USED]	= { "BLOCKS_USED", COLUMN_NUMBER, true, "blocks that it holds" },
	[COL_METADATA_BYTES]	= { "METADATA_BYTES", COLUMN_SIZE, false,
				    "memory that the index takes" },
	[COL_READ_HITS]		= { "READ_HITS", COLUMN_NUMBER, true,
				    "blocks read from the RAM disk" },
	[COL_READ_MISSES]	= { "READ_MISSES", COLUMN_NUMBER, true,
				    "blocks read that were not cached" },
	[COL_READ_PARTIALS]	= { "READ_PARTIALS", COLUMN_NUMBER, false,
				    "of these, blocks read only in part" },
	[COL_WRITE_HITS]	= { "WRITE_HITS", COLUMN_NUMBER, false,
				    "blocks written that were cached" },
	[COL_WRITE_MISSES]	= { "WRITE_MISSES", COLUMN_NUMBER, false,
				    "blocks written that were not cached" },
	[COL_WRITE_PARTIALS]	= { "WRITE_PARTIALS", COLUMN_NUMBER, false,
				    "of these, blocks written only in part" },
	[COL_FILLS]		= { "FILLS", COLUMN_NUMBER, false,
				    "blocks taken into the cache by a read" },
	[COL_EVICTIONS]		= { "EVICTIONS", COLUMN_NUMBER, false,
				    "blocks given up for others" },
	[COL_BYPASSES]		= { "BYPASSES", COLUMN_NUMBER, false,
				    "blocks that went round the cache" },
	[COL_INVALIDATIONS]	= { "INVALIDATIONS", COLUMN_NUMBER, false,
				    "blocks put out by a write, a discard or a message" },
	[COL_ORIGIN_ERRORS]	= { "ORIGIN_ERRORS", COLUMN_NUMBER, false,
				    "requests that the slow disk failed" },
	[COL_READ_HIT_PERCENT]	= { "READ_HIT_PERCENT", COLUMN_NUMBER, true,
				    "READ_HITS as a share of all blocks read" },
	[COL_EXPORT]		= { "EXPORT", COLUMN_TEXT, false,
				    "NQN and address by which hosts reach it" },
};

static const struct table_spec spec = {
	.name = "caches",
	.usage = "Usage: rxadm status [NAME] [OPTION...]\n"
		 "       rxadm status --latency [NAME] [OPTION...]\n"
		 "\n"
		 "Show the caches, or one of them, or how long their I/O took.\n",
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

enum {
	LATENCY_NAME,
	LATENCY_FROM_NS,
	LATENCY_UPTO_NS,
	LATENCY_COUNT,
	LATENCY_PERCENT,
};

static const struct column latency_columns[] = {
	[LATENCY_NAME]		= { "NAME", COLUMN_TEXT, true, "name in /dev/mapper" },
	[LATENCY_FROM_NS]	= { "FROM_NS", COLUMN_NUMBER, true,
				    "it took this long, in nanoseconds" },
	[LATENCY_UPTO_NS]	= { "UPTO_NS", COLUMN_NUMBER, true, "and less than this" },
	[LATENCY_COUNT]		= { "COUNT", COLUMN_NUMBER, true, "reads and writes that did" },
	[LATENCY_PERCENT]	= { "PERCENT", COLUMN_NUMBER, true, "COUNT as a share of all" },
};

static const struct table_spec latency_spec = {
	.name = "latencies",
	.usage = "Usage: rxadm status --latency [NAME] [OPTION...]\n"
		 "\n"
		 "Show how long the I/O of the caches took since 'rxadm set NAME --latency on'.\n",
	.columns = latency_columns,
	.count = ARRAY_SIZE(latency_columns),
};

static void set_device(struct table *table, size_t column, dev_t number)
{
	char *path = device_path(number);

	table_set_text(table, column, path);
	free(path);
}

static void set_hit_percent(struct table *table, uint64_t hits, uint64_t misses)
{
	double reads = (double)hits + misses;
	char *text;

	if (!reads)
		return;
	text = format_text("%.1f", 100.0 * hits / reads);
	table_set_text(table, COL_READ_HIT_PERCENT, text);
	free(text);
}

static void add_line(struct table *table, const struct cache *cache,
		     const struct rxcache_status *status)
{
	const uint64_t *counters = status->counters;
	char *export = nvmet_exports_of(cache->number);
	unsigned int i;

	table_add_line(table);
	table_set_text(table, COL_NAME, cache->name);
	set_device(table, COL_ORIGIN, cache->table.origin);
	set_device(table, COL_CACHE, cache->table.cache);
	table_set_text(table, COL_MODE, status->features.mode);
	table_set_number(table, COL_SEQ_CUTOFF, status->features.seq_cutoff);
	table_set_number(table, COL_BLOCK_SIZE, status->block_size * SECTOR);
	table_set_number(table, COL_BLOCKS_TOTAL, status->total);
	table_set_number(table, COL_BLOCKS_USED, status->used);
	table_set_number(table, COL_METADATA_BYTES, status->metadata);
	/* These columns and counters come in the same order. */
	for (i = 0; i < RXCACHE_COUNTERS; i++)
		table_set_number(table, COL_READ_HITS + i, counters[i]);
	set_hit_percent(table, counters[RXCACHE_READ_HITS], counters[RXCACHE_READ_MISSES]);
	if (export)
		table_set_text(table, COL_EXPORT, export);
	free(export);
}

static enum exit_code add_cache(struct table *table, const struct cache *cache)
{
	struct rxcache_status status;
	enum exit_code ret;
	uint64_t sectors;

	ret = cache_status(cache->name, &status, &sectors);
	if (!ret && sectors)
		add_line(table, cache, &status);
	return ret;
}

static void add_bin(struct table *table, const char *name, const struct latency *latency,
		    unsigned int bin)
{
	char *percent = format_text("%.2f", 100.0 * latency->count[bin] / latency->total);

	table_add_line(table);
	table_set_text(table, LATENCY_NAME, name);
	table_set_number(table, LATENCY_FROM_NS, latency_from(bin));
	if (bin + 1 < LATENCY_BINS)
		table_set_number(table, LATENCY_UPTO_NS, latency_from(bin + 1));
	table_set_number(table, LATENCY_COUNT, latency->count[bin]);
	table_set_text(table, LATENCY_PERCENT, percent);
	free(percent);
}

static enum exit_code add_latency(struct table *table, const struct cache *cache)
{
	struct latency latency;
	enum exit_code ret;
	unsigned int bin;

	ret = latency_read(cache->name, &latency);
	for (bin = 0; !ret && bin < LATENCY_BINS; bin++)
		if (latency.count[bin])
			add_bin(table, cache->name, &latency, bin);
	return ret;
}

typedef enum exit_code add_fn(struct table *table, const struct cache *cache);

static enum exit_code fill(struct table *table, const char *name, add_fn *add)
{
	const struct cache *cache;
	struct caches caches;
	enum exit_code ret;
	size_t i;

	if (name) {
		ret = cache_find(name, &caches, &cache);
		if (!ret)
			ret = add(table, cache);
	} else {
		ret = caches_read(&caches);
		for (i = 0; !ret && i < caches.count; i++)
			ret = add(table, &caches.list[i]);
	}
	caches_free(&caches);
	return ret;
}

static enum exit_code status(struct table *table, const char *name, add_fn *add)
{
	enum exit_code ret;

	/* Without the module there are no caches. */
	if (!name && !module_is_loaded("dm_rxcache"))
		return table_print(table);
	ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = fill(table, name, add);
	if (!ret)
		ret = table_print(table);
	dm_end();
	return ret;
}

/* Another table, with options and columns of its own: take the word out. */
static bool take_latency(int *argc, char **argv)
{
	int i;

	for (i = 1; i < *argc && strcmp(argv[i], "--"); i++) {
		if (strcmp(argv[i], "--latency"))
			continue;
		memmove(argv + i, argv + i + 1, (*argc - i) * sizeof(*argv));
		(*argc)--;
		return true;
	}
	return false;
}

static enum exit_code run(int argc, char **argv)
{
	bool latency = take_latency(&argc, argv);
	const char *name = NULL;
	struct table *table;
	enum exit_code ret;

	ret = table_options(argc, argv, latency ? &latency_spec : &spec, &table);
	if (ret || !table)
		return ret;
	if (optind < argc) {
		ret = operands(argc, argv, 1, "[NAME] [OPTION...]");
		name = mapping_name(argv[optind]);
		if (!ret)
			ret = mapping_name_check(name);
	}
	if (!ret)
		ret = status(table, name, latency ? add_latency : add_cache);
	table_free(table);
	return ret;
}

const struct command command_status = {
	.name = "status",
	.summary = "show the caches and what they did",
	.run = run,
};
