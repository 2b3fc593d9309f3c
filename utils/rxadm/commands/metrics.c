// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm metrics, stats: print the counters, and reset them; and the table of status --latency
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/suggest.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/command.h"
#include "commands/options.h"
#include "config/config.h"
#include "config/config_files.h"
#include "config/plan.h"
#include "device/device.h"
#include "device/dm.h"
#include "kernel/attributes.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/hotlist.h"
#include "kernel/saves.h"
#include "output/exposition.h"
#include "output/table.h"

static const char metrics_usage[] =
	"Usage: rxadm metrics [OPTION...]\n"
	"\n"
	"Print the state of all RAM disks and caches as metrics for Prometheus.\n"
	"\n"
	"Options:\n"
	"     --format FORMAT   openmetrics, or prometheus, which the textfile collector\n"
	"                       of node_exporter reads (default: openmetrics)\n"
	" -o, --output FILE     write to this file, which is replaced atomically\n"
	" -h, --help            print this help\n";

struct metrics_request {
	enum exposition_format format;
	const char *path;	/* NULL: standard output */
};

static enum exit_code format_argument(const char *text, enum exposition_format *format)
{
	if (!strcmp(text, "openmetrics"))
		*format = EXPOSITION_OPENMETRICS;
	else if (!strcmp(text, "prometheus"))
		*format = EXPOSITION_PROMETHEUS;
	else
		return report(EXIT_PARAMETERS, "format '%s': must be openmetrics or prometheus",
			      text);
	return EXIT_OK;
}

static enum exit_code parse_metrics(int argc, char **argv, struct metrics_request *request,
				    bool *help)
{
	static const struct option options[] = {
		{ "format",	required_argument, NULL, OPT_FORMAT },
		{ "output",	required_argument, NULL, 'o' },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_FORMAT:
			ret = format_argument(optarg, &request->format);
			break;
		case 'o':
			request->path = optarg;
			break;
		case 'h':
			return print_usage(metrics_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 0, "[OPTION...]");
	if (!ret && request->path && !*request->path)
		ret = report(EXIT_PARAMETERS, "output '': must be the path of a file");
	return ret;
}

static void release_ramdisk(struct ramdisk_metrics *ramdisk)
{
	free(ramdisk->disk.name);
	free(ramdisk->uuid);
	free(ramdisk->node);
	free(ramdisk->state);
}

static void release_cache(struct cache_metrics *cache)
{
	free(cache->disk.name);
	free(cache->device);
	free(cache->origin);
	free(cache->cache);
}

static void release(struct metrics *metrics)
{
	size_t i;

	for (i = 0; i < metrics->ramdisk_count; i++)
		release_ramdisk(&metrics->ramdisks[i]);
	for (i = 0; i < metrics->cache_count; i++)
		release_cache(&metrics->caches[i]);
	free(metrics->ramdisks);
	free(metrics->caches);
}

/* Leave out a RAM disk that was removed or replaced meanwhile. */
static void add_ramdisk(struct metrics *metrics, const struct rxd_query *query,
			const struct config *started)
{
	const struct config_section *section = plan_section_of(started, query);
	dev_t number = makedev(query->major, query->minor);
	struct ramdisk_metrics ramdisk = {
		.disk.name = format_text("rxd%d", query->index),
		.query = *query,
		.node = sysfs_read(number, "rxd/node"),
		.state = sysfs_read(number, "rxd/state"),
		.autosave = section ? section->autosave : 0,
	};
	bool complete = iostat_read(number, &ramdisk.disk.io) && ramdisk.node && ramdisk.state;
	char *uuid = ramdisk_uuid(query->uuid);

	save_cost_read(number, &ramdisk.saves);
	/* Last: another disk may have got the number since the query. */
	ramdisk.uuid = sysfs_read(number, "rxd/uuid");
	complete = complete && ramdisk.uuid && !strcmp(ramdisk.uuid, uuid);
	free(uuid);
	if (!complete) {
		release_ramdisk(&ramdisk);
		return;
	}
	metrics->ramdisks = resize_array(metrics->ramdisks, metrics->ramdisk_count + 1,
					 sizeof(*metrics->ramdisks));
	metrics->ramdisks[metrics->ramdisk_count++] = ramdisk;
}

static enum exit_code read_ramdisks(struct metrics *metrics)
{
	struct config started = { .ram = system_ram() };
	struct rxd_query query;
	enum exit_code ret;
	int next = 0;
	int err = 0;
	size_t i;
	int fd;

	ret = control_open(&fd);
	if (ret)
		return ret;
	config_record_read_all(&started, RUN_FOLDER, NULL);
	for (i = 0; i < started.error_count; i++)
		report(EXIT_OK, "note: %s", started.errors[i]);
	while (next <= RXD_INDEX_MAX &&
	       !(err = control_query(fd, next, RXD_QUERY_NEXT, &query))) {
		add_ramdisk(metrics, &query, &started);
		next = query.index + 1;
	}
	if (err && err != ENODEV)
		ret = control_error(err, "the list of RAM disks");
	config_free(&started);
	close(fd);
	return ret;
}

/*
 * A target of another build may tell its advice in another way: omit the advice then, and set
 * @omitted to the error, which was reported.
 */
static enum exit_code add_cache(struct metrics *metrics, const struct cache *cache,
				enum exit_code *omitted)
{
	struct cache_metrics values = { 0 };
	enum exit_code ret;
	uint64_t sectors;

	ret = cache_status(cache->name, &values.status, &sectors);
	if (ret || !sectors || !iostat_read(cache->number, &values.disk.io))
		return ret;
	ret = latency_read(cache->name, &values.latency);
	if (ret)
		return ret;
	if (values.status.features.advise)
		ret = advice_read(cache->name, &values.advice);
	if (!*omitted)
		*omitted = ret;
	values.disk.name = copy_text(cache->name);
	values.device = format_text("dm-%u", minor(cache->number));
	values.origin = device_path(cache->table.origin);
	values.cache = device_path(cache->table.cache);
	metrics->caches = resize_array(metrics->caches, metrics->cache_count + 1,
				       sizeof(*metrics->caches));
	metrics->caches[metrics->cache_count++] = values;
	return EXIT_OK;
}

static enum exit_code read_caches(struct metrics *metrics, enum exit_code *omitted)
{
	struct caches caches;
	enum exit_code ret;
	size_t i;

	ret = dm_begin();
	if (ret)
		return ret;
	ret = caches_read(&caches);
	for (i = 0; !ret && i < caches.count; i++)
		ret = add_cache(metrics, &caches.list[i], omitted);
	caches_free(&caches);
	dm_end();
	return ret;
}

/* A module that is not loaded has no devices, which is no error for a collector. */
static enum exit_code collect(struct metrics *metrics, enum exit_code *omitted)
{
	enum exit_code ret = EXIT_OK;

	if (module_is_loaded("rxd"))
		ret = read_ramdisks(metrics);
	if (!ret && module_is_loaded("dm_rxcache"))
		ret = read_caches(metrics, omitted);
	return ret;
}

/* The argument of fill(). */
struct text {
	enum exposition_format format;
	const struct metrics *metrics;
};

static void fill(FILE *file, const void *data)
{
	const struct text *text = data;

	exposition_write(file, text->format, text->metrics);
}

static enum exit_code run_metrics(int argc, char **argv)
{
	struct metrics_request request = { .format = EXPOSITION_OPENMETRICS };
	enum exit_code ret, omitted = EXIT_OK;
	struct metrics metrics = { 0 };
	struct text text;
	bool help = false;

	ret = parse_metrics(argc, argv, &request, &help);
	if (ret || help)
		return ret;

	text = (struct text){ .format = request.format, .metrics = &metrics };
	ret = privilege_check();
	if (!ret)
		ret = collect(&metrics, &omitted);
	if (!ret && request.path)
		ret = file_replace("output", request.path, 0644, fill, &text);
	else if (!ret)
		fill(stdout, &text);
	release(&metrics);
	return ret ? ret : omitted;
}

const struct command command_metrics = {
	.name = "metrics",
	.summary = "print metrics of RAM disks and caches for Prometheus",
	.run = run_metrics,
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
	[LATENCY_FROM_NS]	= { "FROM_NS", COLUMN_NUMBER, true, "lower bound in nanoseconds" },
	[LATENCY_UPTO_NS]	= { "UPTO_NS", COLUMN_NUMBER, true,
				    "upper bound, which is not in the class" },
	[LATENCY_COUNT]		= { "COUNT", COLUMN_NUMBER, true, "reads and writes in the class" },
	[LATENCY_PERCENT]	= { "PERCENT", COLUMN_NUMBER, true, "COUNT as a percentage" },
};

const struct table_spec latency_spec = {
	.name = "latencies",
	.usage = "Usage: rxadm status --latency [NAME...] [OPTION...]\n"
		 "\n"
		 "Show a histogram of the latency of reads and writes since 'rxadm set --latency on'.\n",
	.columns = latency_columns,
	.count = ARRAY_SIZE(latency_columns),
};

static void add_bin(struct table *table, const char *name, const struct latency *latency,
		    unsigned int bin)
{
	double percent = 100.0 * latency->count[bin] / latency->total;

	table_add_line(table);
	table_set_text(table, LATENCY_NAME, name);
	table_set_number(table, LATENCY_FROM_NS, latency_from(bin));
	if (bin + 1 < LATENCY_BINS)
		table_set_number(table, LATENCY_UPTO_NS, latency_from(bin + 1));
	table_set_number(table, LATENCY_COUNT, latency->count[bin]);
	table_set_freed(table, LATENCY_PERCENT, format_text("%.2f", percent));
}

/* Add the histogram of a cache for 'status --latency'. */
enum exit_code add_latency(struct table *table, const struct cache *cache, bool named)
{
	struct latency latency;
	enum exit_code ret;
	unsigned int bin;

	ret = latency_read(cache->name, &latency);
	for (bin = 0; !ret && bin < LATENCY_BINS; bin++)
		if (latency.count[bin])
			add_bin(table, cache->name, &latency, bin);
	if (!ret && named && !latency.measured)
		latency_note_off(cache->name);
	return ret;
}

static const char stats_usage[] =
	"Usage: rxadm stats reset NAME...|--all [--dry-run]\n"
	"\n"
	"Set the counters of caches to zero. 'rxadm status' shows them. If one of the caches does\n"
	"not exist, none is changed.\n"
	"\n"
	"Options:\n"
	"     --all       all caches\n"
	"     --dry-run   print the messages that would be sent; change nothing\n"
	" -h, --help      print this help\n";

struct stats_request {
	char **names;	/* NULL: all */
	bool all;
	bool dry_run;
};

static enum exit_code parse_stats(int argc, char **argv, struct stats_request *request, bool *help)
{
	const struct flag flags[] = {
		{ "all", &request->all },
		{ "dry-run", &request->dry_run },
		{ }
	};
	enum exit_code ret;
	char **name;

	ret = flag_options(argc, argv, stats_usage, flags, help);
	if (ret || *help)
		return ret;
	if (optind < argc && strcmp(argv[optind], "reset"))
		return report(EXIT_PARAMETERS,
			      "'%s': is unknown; usage: rxadm stats reset NAME...|--all [--dry-run]",
			      argv[optind]);
	if (request->all || argc - optind < 2)
		return operands(argc, argv, request->all ? 1 : 2,
				"reset NAME...|--all [--dry-run]");
	request->names = argv + optind + 1;
	for (name = request->names; !ret && *name; name++)
		ret = mapping_name_check(mapping_name(*name));
	return ret;
}

static enum exit_code run_stats(int argc, char **argv)
{
	struct stats_request request = { 0 };
	bool help = false;
	enum exit_code ret;

	ret = parse_stats(argc, argv, &request, &help);
	if (ret || help)
		return ret;

	ret = privilege_check();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = caches_reset_stats(request.names, request.dry_run);
	dm_end();
	return ret;
}

const struct command command_stats = {
	.name = "stats",
	.summary = "set the counters of caches to zero",
	.run = run_stats,
};
