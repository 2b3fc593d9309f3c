// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hot lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/common.h"
#include "kernel/rxcache.h"
#include "tap.h"

#define SECTORS	1000
#define HEADING	"rxcache-hotlist 1\n"

static const struct {
	const char *text;
	const char *error;	/* a part of the message; NULL: the list is right */
	size_t count;
} lists[] = {
	{ HEADING, NULL, 0 },
	{ HEADING "0 8\n", NULL, 1 },
	{ HEADING "0 8", NULL, 1 },
	{ HEADING "992 8\n0 1000\n", NULL, 2 },
	{ "", .error = "is empty" },
	{ "\n", .error = "line 1" },
	{ "0 8\n", .error = "line 1, '0 8'" },
	{ "rxcache-hotlist 2\n", .error = "line 1, 'rxcache-hotlist 2'" },
	{ HEADING "\n", .error = "line 2, ''" },
	{ HEADING "0\n", .error = "line 2, '0'" },
	{ HEADING "0 8\n0 0\n", .error = "line 3, '0 0': LENGTH" },
	{ HEADING "0 8 8\n", .error = "'0 8 8'" },
	{ HEADING " 0 8\n", .error = "' 0 8'" },
	{ HEADING "-1 8\n", .error = "'-1 8'" },
	{ HEADING "0 -8\n", .error = "'0 -8'" },
	{ HEADING "0 +8\n", .error = "'0 +8'" },
	{ HEADING "0x10 8\n", .error = "'0x10 8'" },
	{ HEADING "0 8\r\n", .error = "START LENGTH" },
	{ HEADING "1000 8\n", .error = "beyond the end" },
	{ HEADING "993 8\n", .error = "beyond the end" },
	{ HEADING "8 18446744073709551615\n", .error = "beyond the end" },
	{ HEADING "18446744073709551616 8\n", .error = "START LENGTH" },
};

static FILE *open_text(const char *text, size_t length)
{
	FILE *file = tmpfile();

	if (!file || fwrite(text, 1, length, file) != length)
		abort();
	rewind(file);
	return file;
}

static void test_read(void)
{
	struct ranges ranges;
	FILE *file;
	char *error;
	size_t i;
	bool ok;

	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		file = open_text(lists[i].text, strlen(lists[i].text));
		error = ranges_read(file, SECTORS, &ranges);
		fclose(file);
		if (lists[i].error)
			ok = error && strstr(error, lists[i].error);
		else
			ok = !error && ranges.count == lists[i].count;
		if (!tap_ok(ok, "ranges_read: list %zu", i))
			printf("# error: %s\n", error ? error : "none");
		ranges_free(&ranges);
		free(error);
	}
}

/* A line must not seem to end at a NUL. */
static void test_zero_byte(void)
{
	static const char text[] = HEADING "0 8\0 16\n";
	FILE *file = open_text(text, sizeof(text) - 1);
	struct ranges ranges;
	char *error;

	error = ranges_read(file, SECTORS, &ranges);
	fclose(file);
	tap_ok(error && strstr(error, "line 2, '0 8': has a NUL byte"),
	       "ranges_read: a zero byte");
	free(error);
	ranges_free(&ranges);
}

static void test_sort(void)
{
	static const struct range in[] = {
		{ 64, 8 }, { 0, 8 }, { 72, 8 }, { 8, 8 }, { 100, 50 }, { 110, 10 }, { 149, 2 },
		{ 0, 8 },
	};
	static const struct range out[] = { { 0, 16 }, { 64, 16 }, { 100, 51 } };
	struct ranges ranges = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(in); i++)
		ranges_add(&ranges, in[i].start, in[i].length);
	ranges_sort(&ranges);
	tap_ok(ranges.count == ARRAY_SIZE(out) && !memcmp(ranges.list, out, sizeof(out)),
	       "ranges_sort: joins what touches or overlaps");
	ranges_free(&ranges);
	ranges_sort(&ranges);
	tap_ok(!ranges.count, "ranges_sort: an empty list");
}

static void test_round_trip(void)
{
	struct ranges out = { 0 };
	struct ranges in = { 0 };
	FILE *file = tmpfile();
	char *error;
	uint64_t i;

	if (!file)
		abort();
	for (i = 0; i < 300; i++)
		ranges_add(&out, i * 16, 8);
	ranges_write(file, &out);
	rewind(file);
	error = ranges_read(file, 300 * 16, &in);
	tap_ok(!error && in.count == 300 && !memcmp(in.list, out.list, 300 * sizeof(*in.list)),
	       "ranges_read: what ranges_write wrote");
	free(error);
	fclose(file);
	ranges_free(&in);
	ranges_free(&out);
}

int main(void)
{
	test_read();
	test_zero_byte();
	test_sort();
	test_round_trip();
	return tap_end();
}
