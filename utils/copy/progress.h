/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_PROGRESS_H
#define COPY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* In bytes. At the end, copied and write_skipped add up to the total. */
struct copy_counts {
	uint64_t copied;	/* written */
	uint64_t write_skipped;	/* not written, since it is zeros or unused */
	uint64_t read_skipped;	/* not read either */
	uint64_t zeroes;	/* read, and found to be zeros */
};

enum progress_mode {
	PROGRESS_AUTO,	/* a bar if standard error is a terminal */
	PROGRESS_BAR,	/* a bar in any case */
	PROGRESS_JSON,	/* a record a second on standard output */
	PROGRESS_NONE,
};

/**
 * struct progress - progress of a copy, shown each second
 * @mode: how to show it
 * @what: text before the bar
 * @total: bytes in total
 * @begin: start time, set by progress_begin()
 * @shown: a bar is on the screen
 */
struct progress {
	enum progress_mode mode;
	const char *what;
	uint64_t total;
	uint64_t begin;
	bool shown;
};

bool progress_parse(const char *text, enum progress_mode *mode);
void progress_begin(struct progress *progress, const struct copy_counts *counts);
void progress_show(struct progress *progress, const struct copy_counts *counts);
void progress_end(struct progress *progress, const struct copy_counts *counts, bool done);

void copy_count(uint64_t *count, uint64_t bytes);

#endif /* COPY_PROGRESS_H */
