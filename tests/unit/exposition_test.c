// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: exposition_test [openmetrics|prometheus [empty]]
 *
 * Check single lines of the metrics of some made-up disks; or print all of them, for
 * the checks of test_metrics.py.
 */
#include <stdlib.h>
#include <string.h>

#include "base/common.h"
#include "output/exposition.h"
#include "tap.h"

static struct ramdisk_metrics ramdisks[] = {
	{
		.disk = {
			.name = "rxd0",
			.io = {
				.requests = { 1, 2, 3, 4 },
				.bytes = { 4096, 8192, 12288 },
				.ms = { 1, 2005, 0, 60000 },
				.in_flight = 5,
				.busy_ms = 1234567,
			},
		},
		.query = {
			.logical_block_size = 512, .folio_size = 65536, .size = 1 << 30,
			.mem_used = 3 << 20, .mem_max_used = 4 << 20, .mem_index = 8192,
			.nospc = 7, .discards = 18446744073709551615ULL,
		},
		.uuid = "5f0c7a1e-6c2b-4d0e-9a55-0123456789ab",
		.node = "local",
		.state = "open readonly detect-zeroes",
		.saves = { .failures = 2, .time = 1764038400, .ms = 1250, .bytes = 1 << 20,
			   .start = 1764030000 },
		.autosave = 600,
	}, {
		.disk = { .name = "rxd1" },
		.query = { .size = 1 << 20, .mem_limit = 4096 },
		.uuid = "5f0c7a1e-6c2b-4d0e-9a55-0123456789ac",
		.node = "interleave",
		.state = "idle",
		.saves = { .failures = 1, .start = 1764038000 },
		.autosave = 60,
	}, {
		.disk = { .name = "rxd2" },
		.query = { .size = 1 << 20, .mem_limit = 1 << 30 },
		.uuid = "5f0c7a1e-6c2b-4d0e-9a55-0123456789ad",
		.node = "1",
		.state = "overcommit expendable lost",
	},
};

static struct cache_metrics caches[] = {
	{
		.disk = { .name = "rxc-sdb", .io = { .requests = { 9 } } },
		.device = "dm-0", .origin = "/dev/sdb", .cache = "/dev/rxd0",
		.status = {
			.block_size = 8, .used = 12, .total = 1024, .metadata = 4096,
			.counters = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 },
			.features = {
				.mode = "writethrough", .seq_cutoff = 1 << 20, .size = 65536,
				.min_size = 4096, .lent = 13, .given_back = 14, .taken = 15,
			},
		},
		.advice = {
			.on = true,
			.time = { { .seconds = 3600, .reads = 200 },
				  { .seconds = 86400, .reads = 3000, .lost = 17 } },
			.halved = 1,
			.size = { { 256, 0, { 150, 3000 } }, { .blocks = 512 }, { .blocks = 768 },
				  { .blocks = 1024 }, { .blocks = 1536 }, { .blocks = 2048 },
				  { .blocks = 4096 }, { 8192, 0, { 50, 1 } } },
		},
		.latency = {
			.measured = true, .sum_ns = 1500000007,
			.count = { 1, 2, [17] = 10, [18] = 100 },
		},
	}, {
		.disk.name = "odd \"\\\n\t\xc3\xa9",
		.device = "dm-1", .origin = "8:16", .cache = "/dev/rxd1",
		.status = { .block_size = 2048, .features.mode = "passthrough" },
	},
};

static const struct metrics all = {
	.ramdisks = ramdisks, .ramdisk_count = ARRAY_SIZE(ramdisks),
	.caches = caches, .cache_count = ARRAY_SIZE(caches),
};

static const struct metrics none;

static const char *const lines_of_both[] = {
	"rxd_info{device=\"rxd0\",uuid=\"5f0c7a1e-6c2b-4d0e-9a55-0123456789ab\",node=\"local\",logical_block_size=\"512\",folio_size=\"65536\"} 1",
	"rxd_state{device=\"rxd0\",rxd_state=\"open\"} 1",
	"rxd_state{device=\"rxd0\",rxd_state=\"detect-zeroes\"} 1",
	"rxd_state{device=\"rxd0\",rxd_state=\"cache\"} 0",
	"rxd_state{device=\"rxd1\",rxd_state=\"open\"} 0",
	"rxd_state{device=\"rxd1\",rxd_state=\"lost\"} 0",
	"rxd_state{device=\"rxd1\",rxd_state=\"elastic\"} 0",
	"rxd_state{device=\"rxd2\",rxd_state=\"expendable\"} 1",
	"rxd_state{device=\"rxd2\",rxd_state=\"lost\"} 1",
	"rxd_size_bytes{device=\"rxd0\"} 1073741824",
	"rxd_memory_used_bytes{device=\"rxd0\"} 3145728",
	"rxd_memory_max_used_bytes{device=\"rxd0\"} 4194304",
	"rxd_memory_limit_bytes{device=\"rxd0\"} 1073741824",
	"rxd_memory_limit_bytes{device=\"rxd1\"} 4096",
	"rxd_memory_limit_bytes{device=\"rxd2\"} 1048576",
	"rxd_metadata_bytes{device=\"rxd0\"} 8192",
	"rxd_nospc_writes_total{device=\"rxd0\"} 7",
	"rxd_discards_total{device=\"rxd0\"} 18446744073709551615",
	"rxd_save_timestamp_seconds{device=\"rxd0\"} 1764038400",
	"rxd_save_duration_seconds{device=\"rxd0\"} 1.250",
	"rxd_save_written_bytes{device=\"rxd0\"} 1048576",
	"rxd_save_failures_total{device=\"rxd0\"} 2",
	"rxd_save_failures_total{device=\"rxd1\"} 1",
	"rxd_save_failures_total{device=\"rxd2\"} 0",
	"rxd_autosave_interval_seconds{device=\"rxd0\"} 600",
	"rxd_autosave_due_seconds{device=\"rxd0\"} 1764039000",
	"rxd_autosave_due_seconds{device=\"rxd1\"} 1764038060",
	"rxd_io_requests_total{device=\"rxd0\",operation=\"flush\"} 4",
	"rxd_io_bytes_total{device=\"rxd0\",operation=\"discard\"} 12288",
	"rxd_io_seconds_total{device=\"rxd0\",operation=\"read\"} 0.001",
	"rxd_io_seconds_total{device=\"rxd0\",operation=\"write\"} 2.005",
	"rxd_io_seconds_total{device=\"rxd0\",operation=\"flush\"} 60.000",
	"rxd_io_busy_seconds_total{device=\"rxd0\"} 1234.567",
	"rxd_io_in_flight{device=\"rxd0\"} 5",
	"rxcache_info{name=\"rxc-sdb\",device=\"dm-0\",origin=\"/dev/sdb\",cache=\"/dev/rxd0\",mode=\"writethrough\"} 1",
	"rxcache_block_size_bytes{name=\"rxc-sdb\"} 4096",
	"rxcache_blocks{name=\"rxc-sdb\"} 1024",
	"rxcache_blocks_used{name=\"rxc-sdb\"} 12",
	"rxcache_metadata_bytes{name=\"rxc-sdb\"} 4096",
	"rxcache_seq_cutoff_bytes{name=\"rxc-sdb\"} 1048576",
	"rxcache_memory_limit_bytes{name=\"rxc-sdb\"} 65536",
	"rxcache_memory_minimum_bytes{name=\"rxc-sdb\"} 4096",
	"rxcache_blocks_lent{name=\"rxc-sdb\"} 13",
	"rxcache_given_back_total{name=\"rxc-sdb\"} 14",
	"rxcache_taken_total{name=\"rxc-sdb\"} 15",
	"rxcache_read_hits_total{name=\"rxc-sdb\"} 1",
	"rxcache_read_misses_total{name=\"rxc-sdb\"} 2",
	"rxcache_read_partials_total{name=\"rxc-sdb\"} 3",
	"rxcache_write_hits_total{name=\"rxc-sdb\"} 4",
	"rxcache_write_misses_total{name=\"rxc-sdb\"} 5",
	"rxcache_write_partials_total{name=\"rxc-sdb\"} 6",
	"rxcache_fills_total{name=\"rxc-sdb\"} 7",
	"rxcache_evictions_total{name=\"rxc-sdb\"} 8",
	"rxcache_bypasses_total{name=\"rxc-sdb\"} 9",
	"rxcache_invalidations_total{name=\"rxc-sdb\"} 10",
	"rxcache_origin_errors_total{name=\"rxc-sdb\"} 11",
	"rxcache_io_requests_total{name=\"rxc-sdb\",operation=\"read\"} 9",
	"rxcache_advice_hit_ratio{name=\"rxc-sdb\",size=\"1048576\",times=\"0.25\",window=\"hour\"} 0.250000",
	"rxcache_advice_hit_ratio{name=\"rxc-sdb\",size=\"1048576\",times=\"0.25\",window=\"day\"} 0.000000",
	"rxcache_advice_hit_ratio{name=\"rxc-sdb\",size=\"33554432\",times=\"8\",window=\"day\"} 0.999667",
	"rxcache_advice_lost_samples{name=\"rxc-sdb\"} 17",
	"rxcache_advice_halvings{name=\"rxc-sdb\"} 1",
	"rxcache_io_latency_seconds_bucket{name=\"rxc-sdb\",le=\"1e-06\"} 1",
	"rxcache_io_latency_seconds_bucket{name=\"rxc-sdb\",le=\"2e-06\"} 3",
	"rxcache_io_latency_seconds_bucket{name=\"rxc-sdb\",le=\"0.2\"} 3",
	"rxcache_io_latency_seconds_bucket{name=\"rxc-sdb\",le=\"1\"} 13",
	"rxcache_io_latency_seconds_bucket{name=\"rxc-sdb\",le=\"+Inf\"} 113",
	"rxcache_io_latency_seconds_sum{name=\"rxc-sdb\"} 1.500000007",
	"rxcache_io_latency_seconds_count{name=\"rxc-sdb\"} 113",
	"rxcache_fills_total{name=\"odd \\\"\\\\\\n\\\\x09\\\\xc3\\\\xa9\"} 0",
	"# HELP rxd_size_bytes Capacity.",
	"# TYPE rxd_size_bytes gauge",
	"# TYPE rxcache_io_latency_seconds histogram",
};

static const char *const lines_of_openmetrics[] = {
	"# TYPE rxd info",
	"# TYPE rxd_state stateset",
	"# TYPE rxd_discards counter",
	"# HELP rxd_discards Discards and write-zeroes that freed memory.",
	"# UNIT rxd_size_bytes bytes",
	"# UNIT rxd_io_seconds seconds",
	"# EOF",
};

static const char *const lines_of_prometheus[] = {
	"# TYPE rxd_info gauge",
	"# TYPE rxd_state gauge",
	"# TYPE rxd_discards_total counter",
	"# HELP rxd_discards_total Discards and write-zeroes that freed memory.",
};

static char *text_of(enum exposition_format format, const struct metrics *metrics)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		abort();
	exposition_write(file, format, metrics);
	fclose(file);
	return text;
}

static bool has_line(const char *text, const char *line)
{
	size_t length = strlen(line);
	const char *at = text;

	while ((at = strstr(at, line))) {
		if ((at == text || at[-1] == '\n') && at[length] == '\n')
			return true;
		at += length;
	}
	return false;
}

static void check_lines(const char *text, const char *const *lines, size_t count, bool there)
{
	size_t i;

	for (i = 0; i < count; i++)
		tap_ok(has_line(text, lines[i]) == there, "%s: %s", there ? "a line" : "no line",
		       lines[i]);
}

static void check_all(void)
{
	char *openmetrics = text_of(EXPOSITION_OPENMETRICS, &all);
	char *prometheus = text_of(EXPOSITION_PROMETHEUS, &all);

	check_lines(openmetrics, lines_of_both, ARRAY_SIZE(lines_of_both), true);
	check_lines(prometheus, lines_of_both, ARRAY_SIZE(lines_of_both), true);
	check_lines(openmetrics, lines_of_openmetrics, ARRAY_SIZE(lines_of_openmetrics), true);
	check_lines(prometheus, lines_of_openmetrics + 1, ARRAY_SIZE(lines_of_openmetrics) - 1,
		    false);
	check_lines(prometheus, lines_of_prometheus, ARRAY_SIZE(lines_of_prometheus), true);
	check_lines(openmetrics, lines_of_prometheus, ARRAY_SIZE(lines_of_prometheus), false);
	tap_ok(!strstr(openmetrics, "odd") || !strstr(openmetrics, "bucket{name=\"odd"),
	       "no histogram of what is not measured");
	tap_ok(!strstr(openmetrics, "_timestamp_seconds{device=\"rxd1") &&
	       !strstr(openmetrics, "save_duration_seconds{device=\"rxd1") &&
	       !strstr(openmetrics, "written_bytes{device=\"rxd1") &&
	       !strstr(openmetrics, "autosave_interval_seconds{device=\"rxd2") &&
	       !strstr(openmetrics, "autosave_due_seconds{device=\"rxd2"),
	       "no last save of a disk that was not saved");
	free(openmetrics);
	free(prometheus);
}

static void check_none(void)
{
	char *openmetrics = text_of(EXPOSITION_OPENMETRICS, &none);
	char *prometheus = text_of(EXPOSITION_PROMETHEUS, &none);

	tap_ok(!strcmp(openmetrics, "# EOF\n"), "openmetrics of nothing");
	tap_ok(!*prometheus, "prometheus of nothing");
	free(openmetrics);
	free(prometheus);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		exposition_write(stdout, strcmp(argv[1], "openmetrics") ? EXPOSITION_PROMETHEUS :
				 EXPOSITION_OPENMETRICS, argc > 2 ? &none : &all);
		return fflush(stdout) != 0;
	}
	check_all();
	check_none();
	return tap_end();
}
