// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print how many bytes a copy has read and written, and how long that took.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "../copy/printable.h"
#include "source.h"
#include "summary.h"

#define NSEC_PER_SEC	UINT64_C(1000000000)

struct line {
	const char *name;
	uint64_t value;
};

static void print_names(const char *from, const char *to)
{
	char *names;

	if (asprintf(&names, "%s -> %s", from, to) < 0) {
		complain("out of memory");
		return;
	}
	make_printable(names);
	puts(names);
	free(names);
}

/**
 * summary_print - print a summary of a copy
 * @from: the source
 * @to: the destination
 * @copy: the copy, which has ended
 * @size: size of the source in bytes
 * @has_checksum: a checksum was computed
 */
void summary_print(const char *from, const char *to, const struct copy_job *copy, uint64_t size,
		   bool has_checksum)
{
	const struct copy_counts *counts = &copy->counts;
	const struct copy_times *times = &copy->times;
	const struct line bytes[] = {
		{ "file size", size },
		{ "read skipped", counts->read_skipped },
		{ "write skipped", counts->write_skipped },
		{ "copied bytes", counts->copied },
		{ "total bytes", counts->copied + counts->write_skipped },
		{ "scanned zeros", counts->zeroes },
	};
	const struct line nanoseconds[] = {
		{ "elapsed time", times->elapsed },
		{ "time on scan", times->scan },
		{ "time on read", times->read },
		{ "time on write", times->write },
		{ has_checksum ? "time on checksum" : NULL, times->checksum },
		{ "reader: get free buffer", times->get_free },
		{ "reader: put full buffer", times->put_full },
		{ "writer: get full buffer", times->get_full },
		{ "writer: put free buffer", times->put_free },
	};
	unsigned int i;

	print_names(from, to);
	for (i = 0; i < sizeof(bytes) / sizeof(*bytes); i++)
		printf("%-24s %" PRIu64 "\n", bytes[i].name, bytes[i].value);
	for (i = 0; i < sizeof(nanoseconds) / sizeof(*nanoseconds); i++) {
		if (!nanoseconds[i].name)
			continue;
		printf("%-24s %" PRIu64 ".%06" PRIu64 " s\n", nanoseconds[i].name,
		       nanoseconds[i].value / NSEC_PER_SEC,
		       nanoseconds[i].value % NSEC_PER_SEC / 1000);
	}
}
