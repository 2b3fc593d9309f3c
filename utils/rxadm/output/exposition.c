// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write metrics as text for Prometheus: OpenMetrics 1.0, or the older text format 0.0.4. They
 * differ in the names of metric families: OpenMetrics omits the suffix that the samples have.
 * OpenMetrics also has more types. Nothing here reads the state of the machine.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/common.h"
#include "base/error.h"
#include "base/text.h"
#include "output/exposition.h"

#define SECTOR	512

enum type {
	TYPE_COUNTER,
	TYPE_GAUGE,
	TYPE_HISTOGRAM,
	TYPE_INFO,
	TYPE_STATESET,
};

static const struct {
	const char *openmetrics;
	const char *prometheus;
	const char *ending;	/* suffix of the samples */
} types[] = {
	[TYPE_COUNTER]	 = { "counter", "counter", "_total" },
	[TYPE_GAUGE]	 = { "gauge", "gauge", "" },
	[TYPE_HISTOGRAM] = { "histogram", "histogram", "" },
	[TYPE_INFO]	 = { "info", "gauge", "_info" },
	[TYPE_STATESET]	 = { "stateset", "gauge", "" },
};

/* The metric family that is being written, for one disk. */
struct scope {
	FILE *file;
	char *name;		/* without the suffix of the samples */
	enum type type;
	const char *label;	/* name of the label for the disk's name */
	const char *disk;
};

struct family {
	const char *name;	/* without the prefix of its kind, and without suffix */
	enum type type;
	const char *unit;	/* NULL: none */
	const char *help;
	void (*write)(const struct scope *scope, const void *disk);
};

struct kind {
	const char *prefix;
	const char *label;
	const struct family *families;	/* besides io_families */
	size_t family_count;
	size_t size;		/* of one disk's struct, which begins with disk_metrics */
};

/* Names come from users: write bytes that are not printable as \xNN. */
static void write_label(FILE *file, const char *name, const char *value)
{
	const unsigned char *c;

	fprintf(file, "%s=\"", name);
	for (c = (const unsigned char *)value; *c; c++) {
		if (*c == '\n')
			fputs("\\n", file);
		else if (*c == '"' || *c == '\\')
			fprintf(file, "\\%c", *c);
		else if (*c < ' ' || *c > '~')
			fprintf(file, "\\\\x%02x", *c);
		else
			fputc(*c, file);
	}
	fputc('"', file);
}

/* Write the beginning of a line: "name{label="disk"". More labels and the value follow. */
static void begin(const struct scope *scope, const char *ending)
{
	fprintf(scope->file, "%s%s%s{", scope->name, types[scope->type].ending, ending);
	write_label(scope->file, scope->label, scope->disk);
}

static void add_label(const struct scope *scope, const char *name, const char *value)
{
	fputc(',', scope->file);
	write_label(scope->file, name, value);
}

__printf(2, 3)
static void end(const struct scope *scope, const char *format, ...)
{
	va_list args;

	fputs("} ", scope->file);
	va_start(args, format);
	vfprintf(scope->file, format, args);
	va_end(args);
	fputc('\n', scope->file);
}

static void end_number(const struct scope *scope, uint64_t number)
{
	end(scope, "%llu", (unsigned long long)number);
}

/* Write seconds exactly, with as many decimals as @per_second has zeros. */
static void end_seconds(const struct scope *scope, uint64_t number, unsigned int per_second)
{
	int decimals = per_second == 1000 ? 3 : 9;

	end(scope, "%llu.%0*llu", (unsigned long long)number / per_second, decimals,
	    (unsigned long long)number % per_second);
}

static void write_number(const struct scope *scope, uint64_t number)
{
	begin(scope, "");
	end_number(scope, number);
}

static const char *const operations[] = {
	[IO_READ]	= "read",
	[IO_WRITE]	= "write",
	[IO_DISCARD]	= "discard",
	[IO_FLUSH]	= "flush",
};

static void write_operations(const struct scope *scope, const uint64_t *numbers,
			     unsigned int count, bool ms)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		begin(scope, "");
		add_label(scope, "operation", operations[i]);
		if (ms)
			end_seconds(scope, numbers[i], 1000);
		else
			end_number(scope, numbers[i]);
	}
}

static void write_io_requests(const struct scope *scope, const void *disk)
{
	const struct iostat *io = &((const struct disk_metrics *)disk)->io;

	write_operations(scope, io->requests, IO_OPERATIONS, false);
}

static void write_io_bytes(const struct scope *scope, const void *disk)
{
	write_operations(scope, ((const struct disk_metrics *)disk)->io.bytes, IO_FLUSH, false);
}

static void write_io_seconds(const struct scope *scope, const void *disk)
{
	write_operations(scope, ((const struct disk_metrics *)disk)->io.ms, IO_OPERATIONS, true);
}

static void write_io_busy(const struct scope *scope, const void *disk)
{
	begin(scope, "");
	end_seconds(scope, ((const struct disk_metrics *)disk)->io.busy_ms, 1000);
}

static void write_io_in_flight(const struct scope *scope, const void *disk)
{
	write_number(scope, ((const struct disk_metrics *)disk)->io.in_flight);
}

static const struct family io_families[] = {
	{ "io_requests", TYPE_COUNTER, NULL, "Requests completed.", write_io_requests },
	{ "io_bytes", TYPE_COUNTER, "bytes", "Bytes read, written and discarded.", write_io_bytes },
	{ "io_seconds", TYPE_COUNTER, "seconds", "Total time of these requests.",
	  write_io_seconds },
	{ "io_busy_seconds", TYPE_COUNTER, "seconds",
	  "Time with at least one request in flight.", write_io_busy },
	{ "io_in_flight", TYPE_GAUGE, NULL, "Requests in flight.", write_io_in_flight },
};

static void write_ramdisk_info(const struct scope *scope, const void *disk)
{
	const struct ramdisk_metrics *ramdisk = disk;
	char *block = format_text("%u", ramdisk->query.logical_block_size);
	char *folio = format_text("%u", ramdisk->query.folio_size);

	begin(scope, "");
	add_label(scope, "uuid", ramdisk->uuid);
	add_label(scope, "node", ramdisk->node);
	add_label(scope, "logical_block_size", block);
	add_label(scope, "folio_size", folio);
	end_number(scope, 1);
	free(folio);
	free(block);
}

static void write_state(const struct scope *scope, const void *disk)
{
	static const char *const states[] = {
		"open", "cache", "overcommit", "readonly", "reserved", "detect-zeroes",
		"expendable", "lost", "elastic",
	};
	const struct ramdisk_metrics *ramdisk = disk;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		begin(scope, "");
		/* In OpenMetrics, the label must have the name of the family. */
		add_label(scope, scope->name, states[i]);
		end_number(scope, text_has_word(ramdisk->state, states[i]));
	}
}

#define MEASURE(_kind, _name, _value, _shown)						\
static void write_##_name(const struct scope *scope, const void *disk)			\
{											\
	const struct _kind##_metrics *metrics = disk;					\
											\
	if (_shown)									\
		write_number(scope, (_value));						\
}

MEASURE(ramdisk, size, metrics->query.size, true)
MEASURE(ramdisk, limit,
	metrics->query.mem_limit && metrics->query.mem_limit < metrics->query.size ?
	metrics->query.mem_limit : metrics->query.size, true)
MEASURE(ramdisk, mem_used, metrics->query.mem_used, true)
MEASURE(ramdisk, mem_max_used, metrics->query.mem_max_used, true)
MEASURE(ramdisk, mem_index, metrics->query.mem_index, true)
MEASURE(ramdisk, nospc, metrics->query.nospc, true)
MEASURE(ramdisk, discards, metrics->query.discards, true)
MEASURE(ramdisk, save_time, metrics->saves.time, metrics->saves.time)
MEASURE(ramdisk, save_bytes, metrics->saves.bytes, metrics->saves.time)
MEASURE(ramdisk, save_failures, metrics->saves.failures, true)
MEASURE(ramdisk, autosave, metrics->autosave, metrics->autosave)

/* The first save is due one interval after autosave began. */
static uint64_t autosave_due(const struct ramdisk_metrics *ramdisk)
{
	const struct save_cost *saves = &ramdisk->saves;

	return (saves->time > saves->start ? saves->time : saves->start) + ramdisk->autosave;
}

MEASURE(ramdisk, autosave_due, autosave_due(metrics),
	metrics->autosave && (metrics->saves.time || metrics->saves.start))

static void write_save_duration(const struct scope *scope, const void *disk)
{
	const struct save_cost *saves = &((const struct ramdisk_metrics *)disk)->saves;

	if (!saves->time)
		return;
	begin(scope, "");
	end_seconds(scope, saves->ms, 1000);
}

static const struct family ramdisk_families[] = {
	{ "", TYPE_INFO, NULL, "Fixed properties of a RAM disk.", write_ramdisk_info },
	{ "state", TYPE_STATESET, NULL, "States of a RAM disk, 1 if it applies.", write_state },
	{ "size_bytes", TYPE_GAUGE, "bytes", "Capacity.", write_size },
	{ "memory_used_bytes", TYPE_GAUGE, "bytes", "Memory that holds data.", write_mem_used },
	{ "memory_max_used_bytes", TYPE_GAUGE, "bytes",
	  "Largest memory that held data since creation.", write_mem_max_used },
	{ "memory_limit_bytes", TYPE_GAUGE, "bytes",
	  "Memory that the data may occupy, the limit or the capacity.", write_limit },
	{ "metadata_bytes", TYPE_GAUGE, "bytes", "Memory that keeps track of the data.",
	  write_mem_index },
	{ "nospc_writes", TYPE_COUNTER, NULL,
	  "Writes that failed: the limit was reached, or memory was short.", write_nospc },
	{ "discards", TYPE_COUNTER, NULL, "Discards and write-zeroes that freed memory.",
	  write_discards },
	{ "save_timestamp_seconds", TYPE_GAUGE, "seconds",
	  "End of the last successful save to an image, since the epoch.", write_save_time },
	{ "save_duration_seconds", TYPE_GAUGE, "seconds",
	  "Time that the last successful save took.", write_save_duration },
	{ "save_written_bytes", TYPE_GAUGE, "bytes", "Bytes that the last successful save wrote.",
	  write_save_bytes },
	{ "save_failures", TYPE_COUNTER, NULL, "Saves to images that failed.",
	  write_save_failures },
	{ "autosave_interval_seconds", TYPE_GAUGE, "seconds",
	  "Time between two saves by the timer.", write_autosave },
	{ "autosave_due_seconds", TYPE_GAUGE, "seconds",
	  "When the next save by the timer is due, since the epoch.", write_autosave_due },
};

static void write_cache_info(const struct scope *scope, const void *disk)
{
	const struct cache_metrics *cache = disk;

	begin(scope, "");
	add_label(scope, "device", cache->device);
	add_label(scope, "origin", cache->origin);
	add_label(scope, "cache", cache->cache);
	add_label(scope, "mode", cache->status.features.mode);
	end_number(scope, 1);
}

MEASURE(cache, cache_limit, rxcache_size(&metrics->status), true)
MEASURE(cache, block_size, metrics->status.block_size * SECTOR, true)
MEASURE(cache, cutoff, metrics->status.features.seq_cutoff, true)
MEASURE(cache, blocks, metrics->status.total, true)
MEASURE(cache, blocks_used, metrics->status.used, true)
MEASURE(cache, metadata, metrics->status.metadata, true)
MEASURE(cache, read_hits, metrics->status.counters[RXCACHE_READ_HITS], true)
MEASURE(cache, read_misses, metrics->status.counters[RXCACHE_READ_MISSES], true)
MEASURE(cache, read_partials, metrics->status.counters[RXCACHE_READ_PARTIALS], true)
MEASURE(cache, write_hits, metrics->status.counters[RXCACHE_WRITE_HITS], true)
MEASURE(cache, write_misses, metrics->status.counters[RXCACHE_WRITE_MISSES], true)
MEASURE(cache, write_partials, metrics->status.counters[RXCACHE_WRITE_PARTIALS], true)
MEASURE(cache, fills, metrics->status.counters[RXCACHE_FILLS], true)
MEASURE(cache, evictions, metrics->status.counters[RXCACHE_EVICTIONS], true)
MEASURE(cache, bypasses, metrics->status.counters[RXCACHE_BYPASSES], true)
MEASURE(cache, invalidations, metrics->status.counters[RXCACHE_INVALIDATIONS], true)
MEASURE(cache, origin_errors, metrics->status.counters[RXCACHE_ORIGIN_ERRORS], true)
MEASURE(cache, advice_lost, metrics->advice.time[ADVICE_DAY].lost, metrics->advice.on)
MEASURE(cache, advice_halved, metrics->advice.halved, metrics->advice.on)
MEASURE(cache, min_size, metrics->status.features.min_size, true)
MEASURE(cache, lent, metrics->status.features.lent, true)
MEASURE(cache, given_back, metrics->status.features.given_back, true)
MEASURE(cache, taken, metrics->status.features.taken, true)

static void write_latency(const struct scope *scope, const void *disk)
{
	const struct latency *latency = &((const struct cache_metrics *)disk)->latency;
	uint64_t count = 0;
	unsigned int bin;
	char bound[32];

	if (!latency->measured)
		return;
	for (bin = 0; bin < LATENCY_BINS; bin++) {
		count += latency->count[bin];
		if (bin + 1 < LATENCY_BINS)
			snprintf(bound, sizeof(bound), "%g", latency_from(bin + 1) / 1e9);
		else
			snprintf(bound, sizeof(bound), "+Inf");
		begin(scope, "_bucket");
		add_label(scope, "le", bound);
		end_number(scope, count);
	}
	begin(scope, "_sum");
	end_seconds(scope, latency->sum_ns, 1000000000);
	begin(scope, "_count");
	end_number(scope, count);
}

static void write_advice(const struct scope *scope, const void *disk)
{
	const struct cache_metrics *cache = disk;
	const struct advice *advice = &cache->advice;
	const double block_size = cache->status.block_size * SECTOR;
	char size[32], times[32];
	unsigned int i, time;

	for (time = 0; time < ADVICE_TIMES; time++)
		for (i = 0; advice->time[time].reads && i < ADVICE_SIZES; i++) {
			if (advice->size[i].blocks < RXCACHE_BLOCKS_MIN)
				continue;
			snprintf(size, sizeof(size), "%.0f", advice->size[i].blocks * block_size);
			snprintf(times, sizeof(times), "%.2g", advice_times(advice, i));
			begin(scope, "");
			add_label(scope, "size", size);
			add_label(scope, "times", times);
			add_label(scope, "window", time == ADVICE_HOUR ? "hour" : "day");
			end(scope, "%.6f", advice_hit_ratio(advice, i, time));
		}
}

static const struct family cache_families[] = {
	{ "", TYPE_INFO, NULL, "Devices and mode of a cache.", write_cache_info },
	{ "block_size_bytes", TYPE_GAUGE, "bytes", "Size of a cache block.", write_block_size },
	{ "blocks", TYPE_GAUGE, NULL, "Blocks that fit into the RAM disk.", write_blocks },
	{ "blocks_used", TYPE_GAUGE, NULL, "Blocks in the cache.", write_blocks_used },
	{ "metadata_bytes", TYPE_GAUGE, "bytes", "Memory of the index.", write_metadata },
	{ "memory_limit_bytes", TYPE_GAUGE, "bytes",
	  "Cache limit or, without one, the size of all blocks.", write_cache_limit },
	{ "memory_minimum_bytes", TYPE_GAUGE, "bytes",
	  "Memory beyond which memory is lent to the cache, 0 if none is.", write_min_size },
	{ "blocks_lent", TYPE_GAUGE, NULL, "Blocks whose memory is lent.", write_lent },
	{ "given_back", TYPE_COUNTER, NULL,
	  "Blocks removed because others needed the memory.", write_given_back },
	{ "taken", TYPE_COUNTER, NULL, "Blocks that memory was lent for.", write_taken },
	{ "seq_cutoff_bytes", TYPE_GAUGE, "bytes",
	  "Length beyond which sequential I/O is not cached, 0 if all is cached.", write_cutoff },
	{ "read_hits", TYPE_COUNTER, NULL, "Blocks read from the RAM disk.", write_read_hits },
	{ "read_misses", TYPE_COUNTER, NULL, "Blocks read that were not cached.",
	  write_read_misses },
	{ "read_partials", TYPE_COUNTER, NULL, "Blocks read only in part.", write_read_partials },
	{ "write_hits", TYPE_COUNTER, NULL, "Blocks written that were cached.", write_write_hits },
	{ "write_misses", TYPE_COUNTER, NULL,
	  "Blocks written that were not cached, or that the write removed.", write_write_misses },
	{ "write_partials", TYPE_COUNTER, NULL, "Blocks written only in part.",
	  write_write_partials },
	{ "fills", TYPE_COUNTER, NULL, "Blocks that a read brought into the cache.", write_fills },
	{ "evictions", TYPE_COUNTER, NULL, "Blocks evicted for others, or by a resize.",
	  write_evictions },
	{ "bypasses", TYPE_COUNTER, NULL, "Blocks that bypassed the cache.", write_bypasses },
	{ "invalidations", TYPE_COUNTER, NULL,
	  "Blocks removed by a write, a discard or a message.", write_invalidations },
	{ "origin_errors", TYPE_COUNTER, NULL, "Requests that failed on the origin.",
	  write_origin_errors },
	{ "io_latency_seconds", TYPE_HISTOGRAM, "seconds",
	  "Latency of reads and writes since its measurement was started.", write_latency },
	{ "advice_hit_ratio", TYPE_GAUGE, NULL,
	  "Hit ratio that the cache would have had with this size, 0 to 1.", write_advice },
	{ "advice_lost_samples", TYPE_GAUGE, NULL,
	  "Samples of the advice that were lost in the last day.", write_advice_lost },
	{ "advice_halvings", TYPE_GAUGE, NULL,
	  "How often the advice has halved its samples, because too many were lost.",
	  write_advice_halved },
};

static const struct kind ramdisk_kind = {
	.prefix = "rxd",
	.label = "device",
	.families = ramdisk_families,
	.family_count = ARRAY_SIZE(ramdisk_families),
	.size = sizeof(struct ramdisk_metrics),
};

static const struct kind cache_kind = {
	.prefix = "rxcache",
	.label = "name",
	.families = cache_families,
	.family_count = ARRAY_SIZE(cache_families),
	.size = sizeof(struct cache_metrics),
};

static void write_heading(const struct scope *scope, const struct family *family,
			  enum exposition_format format)
{
	const char *ending = types[family->type].ending;

	if (format == EXPOSITION_PROMETHEUS) {
		fprintf(scope->file, "# HELP %s%s %s\n", scope->name, ending, family->help);
		fprintf(scope->file, "# TYPE %s%s %s\n", scope->name, ending,
			types[family->type].prometheus);
		return;
	}
	fprintf(scope->file, "# TYPE %s %s\n", scope->name, types[family->type].openmetrics);
	if (family->unit)
		fprintf(scope->file, "# UNIT %s %s\n", scope->name, family->unit);
	fprintf(scope->file, "# HELP %s %s\n", scope->name, family->help);
}

static void write_family(FILE *file, const struct kind *kind, const struct family *family,
			 enum exposition_format format, const char *disks, size_t count)
{
	struct scope scope = {
		.file = file,
		.name = format_text("%s%s%s", kind->prefix, *family->name ? "_" : "",
				    family->name),
		.type = family->type,
		.label = kind->label,
	};
	const struct disk_metrics *disk;
	size_t i;

	write_heading(&scope, family, format);
	for (i = 0; i < count; i++) {
		disk = (const void *)(disks + i * kind->size);
		scope.disk = disk->name;
		family->write(&scope, disk);
	}
	free(scope.name);
}

static void write_kind(FILE *file, const struct kind *kind, enum exposition_format format,
		       const void *disks, size_t count)
{
	size_t i;

	for (i = 0; count && i < kind->family_count; i++)
		write_family(file, kind, &kind->families[i], format, disks, count);
	for (i = 0; count && i < ARRAY_SIZE(io_families); i++)
		write_family(file, kind, &io_families[i], format, disks, count);
}

/**
 * exposition_write - write metrics as text
 * @file: output file
 * @format: output format
 * @metrics: the metrics; if there are none, only the end marker of the format is written
 */
void exposition_write(FILE *file, enum exposition_format format, const struct metrics *metrics)
{
	write_kind(file, &ramdisk_kind, format, metrics->ramdisks, metrics->ramdisk_count);
	write_kind(file, &cache_kind, format, metrics->caches, metrics->cache_count);
	if (format == EXPOSITION_OPENMETRICS)
		fputs("# EOF\n", file);
}
