// SPDX-License-Identifier: GPL-2.0-only
/*
 * Latency histograms of a mapping, kept by dm-stats in a region of our own.
 */
#include <errno.h>
#include <libdevmapper.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "latency.h"

#define PROGRAM	"rxadm"
#define USEC	1000ULL
#define MSEC	(1000 * USEC)

#define WORD_READ_NS	4
#define WORD_WRITE_NS	8

/* Where the bins but the first begin, in ns. */
static const uint64_t bounds[LATENCY_BINS] = {
	1 * USEC, 2 * USEC, 5 * USEC, 10 * USEC, 20 * USEC, 50 * USEC,
	100 * USEC, 200 * USEC, 500 * USEC, 1 * MSEC, 2 * MSEC, 5 * MSEC,
	10 * MSEC, 20 * MSEC, 50 * MSEC, 100 * MSEC, 200 * MSEC, 1000 * MSEC,
	0 /* the end */
};

/**
 * latency_from - where a bin begins, which is where the one before it ends
 * @bin: 0 to LATENCY_BINS - 1
 *
 * Return: nanoseconds.
 */
uint64_t latency_from(unsigned int bin)
{
	return bin ? bounds[bin - 1] : 0;
}

/* The n-th word, from 0 on, as a number; 0 if it is none. */
static uint64_t word_number(const char *text, unsigned int n)
{
	while (n--) {
		text += strcspn(text, "\n ");
		text += strspn(text, " ");
	}
	return strtoull(text, NULL, 10);
}

/**
 * latency_parse - read what the kernel says of a region
 * @text: its answer, one line: the fields of a disk's statistics, in nanoseconds and
 *	after the range, and the histogram as the last word
 * @latency: out: the histogram
 *
 * Return: NULL, or allocated text that says what is wrong with it.
 */
char *latency_parse(const char *text, struct latency *latency)
{
	size_t length = strcspn(text, "\n");
	const char *at = text + length;
	unsigned int bin;
	char *end;

	*latency = (struct latency) {
		.measured = true,
		.sum_ns = word_number(text, WORD_READ_NS) + word_number(text, WORD_WRITE_NS),
	};
	while (at > text && at[-1] != ' ')
		at--;
	for (bin = 0; bin < LATENCY_BINS; bin++) {
		if (bin && *at++ != ':')
			break;
		if (*at < '0' || *at > '9')
			break;
		errno = 0;
		latency->count[bin] = strtoull(at, &end, 10);
		if (errno)
			break;
		latency->total += latency->count[bin];
		at = end;
	}
	if (bin != LATENCY_BINS || at != text + length)
		return format_text("'%.*s' does not end with %d numbers", (int)length, text,
				   LATENCY_BINS);
	return NULL;
}

static enum exit_code stats_error(const char *name)
{
	return report(EXIT_DEVICE, "mapping '%s': its statistics cannot be used", name);
}

static enum exit_code stats_begin(const char *name, struct dm_stats **stats)
{
	*stats = dm_stats_create(PROGRAM);
	if (*stats && dm_stats_bind_name(*stats, name) && dm_stats_list(*stats, PROGRAM))
		return EXIT_OK;
	if (*stats)
		dm_stats_destroy(*stats);
	return stats_error(name);
}

/* Our region, of which there is one at most. */
static bool find_region(struct dm_stats *stats, uint64_t *region)
{
	if (!dm_stats_get_nr_regions(stats))
		return false;
	dm_stats_foreach_region(stats) {
		*region = dm_stats_get_current_region(stats);
		return true;
	}
	return false;
}

static bool create_region(struct dm_stats *stats)
{
	struct dm_histogram *histogram = dm_histogram_bounds_from_uint64(bounds);
	uint64_t region;
	bool ok;

	if (!histogram)
		return false;
	ok = dm_stats_create_region(stats, &region, 0, 0, -1, 1, histogram, PROGRAM, "");
	dm_histogram_bounds_destroy(histogram);
	return ok;
}

/* The same as "dmsetup stats" would do it. */
static void print_region(const char *name)
{
	unsigned int bin;

	printf("dmsetup stats create --programid " PROGRAM " --bounds ");
	for (bin = 0; bounds[bin]; bin++)
		printf("%s%lluus", bin ? "," : "", (unsigned long long)bounds[bin] / USEC);
	printf(" %s\n", name);
}

static bool replace_region(struct dm_stats *stats, const char *name, bool on, bool dry_run)
{
	uint64_t region;
	bool there = find_region(stats, &region);

	if (!dry_run)
		return (!there || dm_stats_delete_region(stats, region)) &&
		       (!on || create_region(stats));
	if (there)
		printf("dmsetup stats delete --programid " PROGRAM " --regionid %llu %s\n",
		       (unsigned long long)region, name);
	if (on)
		print_region(name);
	return true;
}

/**
 * latency_measure - begin to measure anew, or end it
 * @name: the mapping
 * @on: begin
 * @dry_run: only print what would be done
 */
enum exit_code latency_measure(const char *name, bool on, bool dry_run)
{
	struct dm_stats *stats;
	enum exit_code ret;

	ret = stats_begin(name, &stats);
	if (ret)
		return ret;
	if (!replace_region(stats, name, on, dry_run))
		ret = stats_error(name);
	dm_stats_destroy(stats);
	return ret;
}

/**
 * latency_read - read what was measured so far
 * @name: the mapping
 * @latency: out: the histogram, or that none is kept
 */
enum exit_code latency_read(const char *name, struct latency *latency)
{
	struct dm_stats *stats;
	enum exit_code ret;
	uint64_t region;
	char *error;
	char *text;

	*latency = (struct latency){ 0 };
	ret = stats_begin(name, &stats);
	if (ret)
		return ret;
	if (find_region(stats, &region)) {
		text = dm_stats_print_region(stats, region, 0, 0, 0);
		error = text ? latency_parse(text, latency) : NULL;
		if (!text)
			ret = stats_error(name);
		else if (error)
			ret = report(EXIT_DEVICE, "mapping '%s': its statistics: %s", name, error);
		free(error);
		dm_stats_buffer_destroy(stats, text);
	}
	dm_stats_destroy(stats);
	return ret;
}
