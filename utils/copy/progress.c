// SPDX-License-Identifier: GPL-2.0-only
/*
 * Show the progress as a bar, or as JSON records for programs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "printable.h"
#include "progress.h"

#define BAR_WIDTH	30
#define NSEC_PER_SEC	1000000000ULL

/**
 * copy_count - add to a count that another thread reads
 * @count: the count
 * @bytes: number to add
 */
void copy_count(uint64_t *count, uint64_t bytes)
{
	__atomic_fetch_add(count, bytes, __ATOMIC_RELAXED);
}

static uint64_t counted(const uint64_t *count)
{
	return __atomic_load_n(count, __ATOMIC_RELAXED);
}

/**
 * progress_parse - parse the value of an option --progress
 * @text: the value
 * @mode: out: the mode
 */
bool progress_parse(const char *text, enum progress_mode *mode)
{
	static const char *const names[] = {
		[PROGRESS_AUTO]	= "auto",
		[PROGRESS_BAR]	= "bar",
		[PROGRESS_JSON]	= "json",
		[PROGRESS_NONE]	= "none",
	};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(text, names[i])) {
			*mode = i;
			return true;
		}
	}
	return false;
}

static double human(uint64_t bytes, char *unit)
{
	static const char units[] = "BKMGTPE";
	double value = bytes;
	unsigned int i;

	for (i = 0; value >= 1000 && i < sizeof(units) - 2; i++)
		value /= 1024;
	*unit = units[i];
	return value;
}

static void show_bar(struct progress *progress, uint64_t done, uint64_t copied)
{
	unsigned long long seconds = (copy_clock_coarse() - progress->begin) / NSEC_PER_SEC;
	double share = progress->total ? (double)done / progress->total : 1;
	int filled = share * BAR_WIDTH;
	char *what = strdup(progress->what);
	double total, speed, now;
	char units[3];

	if (what)
		make_printable(what);
	if (filled > BAR_WIDTH)
		filled = BAR_WIDTH;
	now = human(done, &units[0]);
	total = human(progress->total, &units[1]);
	speed = human(seconds ? copied / seconds : 0, &units[2]);
	fprintf(stderr,
		"\r%s %3d%% [%.*s%*s] %.1f%c of %.1f%c, %.1f%c/s, %llu:%02llu \033[K",
		what ? what : "", (int)(share * 100), filled, "##############################",
		BAR_WIDTH - filled, "", now, units[0], total, units[1], speed, units[2],
		seconds / 60, seconds % 60);
	fflush(stderr);
	free(what);
	progress->shown = true;
}

static void show_record(const struct progress *progress, const struct copy_counts *counts)
{
	const struct {
		const char *name;
		unsigned long long value;
	} fields[] = {
		{ "t", (copy_clock_coarse() - progress->begin) / NSEC_PER_SEC },
		{ "total", progress->total },
		{ "copied", counted(&counts->copied) },
		{ "write_skipped", counted(&counts->write_skipped) },
		{ "read_skipped", counted(&counts->read_skipped) },
	};
	unsigned int i;

	fputs("{ \"r\": \"data\", \"v\": 1", stdout);
	for (i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		printf(", \"%s\": \"%llu\"", fields[i].name, fields[i].value);
	puts(" }");
	fflush(stdout);
}

/**
 * progress_show - show the current progress
 * @progress: how to show it
 * @counts: the current counts
 */
void progress_show(struct progress *progress, const struct copy_counts *counts)
{
	uint64_t copied = counted(&counts->copied);

	if (progress->mode == PROGRESS_BAR)
		show_bar(progress, copied + counted(&counts->write_skipped), copied);
	else if (progress->mode == PROGRESS_JSON)
		show_record(progress, counts);
}

/**
 * progress_begin - decide how to show the progress, and show it for the first time
 * @progress: how to show it
 * @counts: all zero
 *
 * Where a terminal alone decides, a copy that takes less than a second shows no bar.
 */
void progress_begin(struct progress *progress, const struct copy_counts *counts)
{
	const bool at_once = progress->mode != PROGRESS_AUTO;

	if (!at_once)
		progress->mode = isatty(STDERR_FILENO) ? PROGRESS_BAR : PROGRESS_NONE;
	progress->begin = copy_clock_coarse();
	progress->shown = false;
	if (at_once)
		progress_show(progress, counts);
}

/**
 * progress_end - show the last record, or remove the bar
 * @progress: how it was shown
 * @counts: the final counts
 * @done: whether the copy is complete
 */
void progress_end(struct progress *progress, const struct copy_counts *counts, bool done)
{
	if (progress->mode == PROGRESS_JSON && done)
		show_record(progress, counts);
	if (progress->shown)
		fputs("\r\033[K", stderr);
	fflush(stderr);
	progress->shown = false;
}
