// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm top
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/suggest.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/command.h"
#include "commands/options.h"
#include "device/device.h"
#include "device/dm.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "output/screen.h"
#include "output/table.h"

#define SECONDS_MIN	0.1
#define SECONDS_MAX	3600.0
#define COUNT_MAX	4294967295U
#define SECTOR		512
#define RATE_WIDTH	10

static const char usage[] =
	"Usage: rxadm top [OPTION...]\n"
	"\n"
	"Show periodically what each cache and RAM disk did since the last update. On a\n"
	"terminal, q exits. Without a terminal, and with --batch, each line begins with the time.\n"
	"\n"
	"Options:\n"
	" -d, --delay SECONDS   update at this interval, 0.1 to 3600 (default: 1)\n"
	" -n, --count N         exit after N updates\n"
	" -b, --batch           print lines instead of updating the screen\n"
	" -J, --json            print one JSON object for each update, on one line\n"
	" -h, --help            print this help\n";

enum {
	COL_TIME,
	COL_NAME,
	COL_KIND,
	COL_READ_HIT_PERCENT,
	COL_READ_IOPS,
	COL_WRITE_IOPS,
	COL_READ_MBPS,
	COL_WRITE_MBPS,
	COL_LATENCY_US,
	COL_LENT_MB,
	COL_GIVEN_BACK_MBPS,
	COL_TAKEN_MBPS,
};

static const struct column columns[] = {
	[COL_TIME]		= { "TIME", COLUMN_TEXT, true, NULL },
	[COL_NAME]		= { "NAME", COLUMN_TEXT, true, NULL },
	[COL_KIND]		= { "KIND", COLUMN_TEXT, true, NULL },
	[COL_READ_HIT_PERCENT]	= { "READ_HIT_PERCENT", COLUMN_NUMBER, true, NULL },
	[COL_READ_IOPS]		= { "READ_IOPS", COLUMN_NUMBER, true, NULL },
	[COL_WRITE_IOPS]	= { "WRITE_IOPS", COLUMN_NUMBER, true, NULL },
	[COL_READ_MBPS]		= { "READ_MBPS", COLUMN_NUMBER, true, NULL },
	[COL_WRITE_MBPS]	= { "WRITE_MBPS", COLUMN_NUMBER, true, NULL },
	[COL_LATENCY_US]	= { "LATENCY_US", COLUMN_NUMBER, true, NULL },
	[COL_LENT_MB]		= { "LENT_MB", COLUMN_NUMBER, true, NULL },
	[COL_GIVEN_BACK_MBPS]	= { "GIVEN_BACK_MBPS", COLUMN_NUMBER, true, NULL },
	[COL_TAKEN_MBPS]	= { "TAKEN_MBPS", COLUMN_NUMBER, true, NULL },
};

static const struct table_spec spec = {
	.name = "top",
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

struct request {
	double seconds;
	unsigned int count;	/* 0: unlimited */
	bool batch;
	bool json;
};

/* The state of a device at the time of a look. */
struct sample {
	char *name;
	const char *kind;
	dev_t number;
	struct counts counts;
};

struct look {
	struct timespec time;
	struct sample *samples;
	size_t count;
	bool lends;		/* one of them is an elastic cache */
};

static enum exit_code parse(int argc, char **argv, struct request *request, bool *help)
{
	static const struct option options[] = {
		{ "batch",	no_argument,	   NULL, 'b' },
		{ "count",	required_argument, NULL, 'n' },
		{ "delay",	required_argument, NULL, 'd' },
		{ "json",	no_argument,	   NULL, 'J' },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":bd:n:Jh", options, NULL)) != -1) {
		switch (opt) {
		case 'b':
			request->batch = true;
			break;
		case 'd':
			ret = seconds_argument("delay", optarg, SECONDS_MIN, SECONDS_MAX,
					       &request->seconds);
			break;
		case 'n':
			ret = number_argument("count", optarg, 1, COUNT_MAX, &request->count);
			break;
		case 'J':
			request->json = true;
			break;
		case 'h':
			return print_usage(usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	return ret ? ret : operands(argc, argv, 0, "[OPTION...]");
}

static struct sample *add_sample(struct look *look, char *name, const char *kind, dev_t number)
{
	struct sample *sample;

	look->samples = resize_array(look->samples, look->count + 1, sizeof(*look->samples));
	sample = &look->samples[look->count++];
	*sample = (struct sample){ .name = name, .kind = kind, .number = number };
	iostat_read(number, &sample->counts.io);
	return sample;
}

static enum exit_code look_at_caches(struct look *look)
{
	struct rxcache_status status;
	const struct cache *cache;
	struct sample *sample;
	struct caches caches;
	enum exit_code ret;
	uint64_t sectors, block;
	size_t i;

	ret = caches_read(&caches);
	for (i = 0; !ret && i < caches.count; i++) {
		cache = &caches.list[i];
		ret = cache_status(cache->name, &status, &sectors);
		if (ret || !sectors)
			continue;
		sample = add_sample(look, copy_text(cache->name), "cache", cache->number);
		sample->counts.hits = status.counters[RXCACHE_READ_HITS];
		sample->counts.misses = status.counters[RXCACHE_READ_MISSES];
		block = status.block_size * SECTOR;
		sample->counts.lends = status.features.min_size;
		sample->counts.lent = status.features.lent * block;
		sample->counts.given_back = status.features.given_back * block;
		sample->counts.taken = status.features.taken * block;
		look->lends |= sample->counts.lends;
	}
	caches_free(&caches);
	return ret;
}

static void look_at_ramdisks(struct look *look, int control)
{
	struct rxd_query query;
	int next = 0;

	while (next <= RXD_INDEX_MAX && !control_query(control, next, RXD_QUERY_NEXT, &query)) {
		add_sample(look, format_text("rxd%d", query.index), "ramdisk",
			   makedev(query.major, query.minor));
		next = query.index + 1;
	}
}

static void look_free(struct look *look)
{
	size_t i;

	for (i = 0; i < look->count; i++)
		free(look->samples[i].name);
	free(look->samples);
	*look = (struct look){ 0 };
}

/* Skip the devices of a module that is not loaded. */
static enum exit_code look_around(struct look *look, int control, bool caches)
{
	enum exit_code ret = EXIT_OK;

	*look = (struct look){ 0 };
	clock_gettime(CLOCK_MONOTONIC, &look->time);
	if (caches)
		ret = look_at_caches(look);
	if (!ret && control >= 0)
		look_at_ramdisks(look, control);
	return ret;
}

static const struct sample *find_sample(const struct look *look, const struct sample *like)
{
	size_t i;

	for (i = 0; i < look->count; i++)
		if (look->samples[i].number == like->number &&
		    !strcmp(look->samples[i].name, like->name))
			return &look->samples[i];
	return NULL;
}

/* Only the first lines have headings: all cells are as wide, so that columns stay in place. */
static void set_cell(struct table *table, size_t column, const char *number)
{
	int width = strlen(columns[column].name);

	table_set_freed(table, column,
			format_text("%*s", width > RATE_WIDTH ? width : RATE_WIDTH, number));
}

static void set_rate(struct table *table, size_t column, double rate, bool json)
{
	char *text = format_text("%.1f", rate);

	if (json)
		table_set_text(table, column, text);
	else
		set_cell(table, column, text);
	free(text);
}

static void set_rates(struct table *table, const struct rates *rates,
		      const struct counts *counts, bool json)
{
	set_rate(table, COL_READ_IOPS, rates->reads, json);
	set_rate(table, COL_WRITE_IOPS, rates->writes, json);
	set_rate(table, COL_READ_MBPS, rates->read_bytes / 1e6, json);
	set_rate(table, COL_WRITE_MBPS, rates->write_bytes / 1e6, json);
	if (rates->has_latency)
		set_rate(table, COL_LATENCY_US, rates->latency_us, json);
	if (rates->has_hits)
		set_rate(table, COL_READ_HIT_PERCENT, rates->hit_percent, json);
	if (!counts->lends)
		return;
	set_rate(table, COL_LENT_MB, counts->lent / 1e6, json);
	set_rate(table, COL_GIVEN_BACK_MBPS, rates->given_back / 1e6, json);
	set_rate(table, COL_TAKEN_MBPS, rates->taken / 1e6, json);
}

static void set_blank(struct table *table)
{
	size_t column;

	for (column = COL_READ_HIT_PERCENT; column <= COL_TAKEN_MBPS; column++)
		set_cell(table, column, "");
}

static void fill(struct table *table, const struct look *before, const struct look *after,
		 bool json)
{
	double seconds = after->time.tv_sec - before->time.tv_sec +
			 (after->time.tv_nsec - before->time.tv_nsec) / 1e9;
	time_t now = time(NULL);
	const struct sample *sample, *earlier;
	struct rates rates;
	char stamp[32];
	size_t i;

	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	table_clear(table);
	for (i = 0; i < after->count; i++) {
		sample = &after->samples[i];
		table_add_line(table);
		table_set_text(table, COL_TIME, stamp);
		table_set_freed(table, COL_NAME, format_text(json ? "%s" : "%-16s", sample->name));
		table_set_freed(table, COL_KIND, format_text(json ? "%s" : "%-7s", sample->kind));
		if (!json)
			set_blank(table);
		earlier = find_sample(before, sample);
		if (!earlier || seconds <= 0)
			continue;
		rates = rates_between(&earlier->counts, &sample->counts, seconds);
		set_rates(table, &rates, &sample->counts, json);
	}
}

/* Join the lines of a JSON object. Values contain no line breaks. */
static void join_lines(char *text)
{
	char *to = text;
	char *from;

	for (from = text; *from; from++) {
		if (*from == '\n')
			from += strspn(from, "\n ") - 1;
		else
			*to++ = *from;
	}
	*to = '\0';
}

static enum exit_code show(struct table *table, const struct request *request, bool terminal)
{
	char *title;
	char *text;

	text = table_text(table);
	if (request->json) {
		join_lines(text);
		puts(text);
	} else if (terminal) {
		title = format_text("rxadm top, every %g s; q exits", request->seconds);
		screen_draw(title, *text ? text : "There is no RAM disk and no cache.\n");
		free(title);
	} else if (*text) {
		fputs(text, stdout);
		table_hide_headings(table);
	}
	free(text);
	/* main() reports the error, as for all commands. */
	return fflush(stdout) ? EXIT_DEVICE : EXIT_OK;
}

static enum exit_code watch(struct table *table, const struct request *request, int control,
			    bool caches, bool terminal)
{
	enum screen_event event = SCREEN_RESIZED;
	struct look before, after = { 0 };
	unsigned int done = 0;
	size_t column;
	enum exit_code ret;

	ret = look_around(&before, control, caches);
	for (column = COL_LENT_MB; !before.lends && !request->json && column <= COL_TAKEN_MBPS;
	     column++)
		table_hide(table, column);
	/* A terminal shows the devices at once, still without rates. */
	if (!ret && terminal)
		fill(table, &before, &before, false);
	while (!ret && event != SCREEN_QUIT) {
		if (event == SCREEN_TIME) {
			ret = look_around(&after, control, caches);
			if (ret)
				break;
			fill(table, &before, &after, request->json);
			look_free(&before);
			before = after;
			after = (struct look){ 0 };
		}
		if (terminal || event == SCREEN_TIME)
			ret = show(table, request, terminal);
		if (event == SCREEN_TIME && ++done == request->count)
			break;
		if (!ret)
			event = screen_wait(request->seconds);
	}
	look_free(&after);
	look_free(&before);
	return ret;
}

static enum exit_code top(const struct request *request, int control, bool caches)
{
	bool terminal = !request->json && !request->batch && isatty(STDOUT_FILENO);
	struct table *table = table_make(&spec, request->json);
	enum exit_code ret;

	if (terminal)
		table_hide(table, COL_TIME);
	ret = screen_open(terminal);
	if (!ret) {
		ret = watch(table, request, control, caches, terminal);
		screen_close();
	}
	table_free(table);
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct request request = { .seconds = 1 };
	bool caches, help = false;
	enum exit_code ret;
	int control = -1;

	ret = parse(argc, argv, &request, &help);
	if (ret || help)
		return ret;

	ret = privilege_check();
	caches = module_is_loaded("dm_rxcache");
	if (!ret && (module_is_loaded("rxd") || !caches))
		ret = control_open(&control);
	if (!ret && caches)
		ret = dm_begin();
	if (!ret) {
		ret = top(&request, control, caches);
		if (caches)
			dm_end();
	}
	if (control >= 0)
		close(control);
	return ret;
}

const struct command command_top = {
	.name = "top",
	.summary = "watch the activity of caches and RAM disks",
	.run = run,
};
