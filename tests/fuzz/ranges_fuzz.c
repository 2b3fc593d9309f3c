// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hot lists: nothing of a file is overlooked, all ranges lie on the disk, sorting
 * loses none, and what is written reads the same.
 */
#include "fuzz.h"
#include "kernel/rxcache.h"

#define SECTORS	(1ULL << 40)

static FILE *open_data(const void *data, size_t size)
{
	FILE *file = fmemopen((void *)data, size, "r");

	must(file);
	return file;
}

static void check_file(const uint8_t *data, size_t size, const struct ranges *ranges)
{
	size_t lines = size && data[size - 1] != '\n';
	size_t i;

	for (i = 0; i < size; i++) {
		must(data[i]);
		lines += data[i] == '\n';
	}
	must(lines == ranges->count + 1);
	for (i = 0; i < ranges->count; i++)
		must(ranges->list[i].length && ranges->list[i].start < SECTORS &&
		     ranges->list[i].length <= SECTORS - ranges->list[i].start);
}

static void check_written(const struct ranges *ranges)
{
	struct ranges again;
	size_t size = 0;
	char *text = NULL;
	FILE *file;

	file = open_memstream(&text, &size);
	must(file);
	ranges_write(file, ranges);
	must(!fclose(file));

	file = open_data(text, size);
	must(!ranges_read(file, SECTORS, &again));
	fclose(file);
	must(again.count == ranges->count);
	must(!again.count ||
	     !memcmp(again.list, ranges->list, again.count * sizeof(*again.list)));
	ranges_free(&again);
	free(text);
}

static int is_covered(const struct ranges *ranges, const struct range *range)
{
	size_t i;

	for (i = 0; i < ranges->count; i++)
		if (ranges->list[i].start <= range->start &&
		    range->start + range->length <= ranges->list[i].start + ranges->list[i].length)
			return 1;
	return 0;
}

static void check_sorted(const struct ranges *ranges)
{
	uint64_t before = 0, after = 0;
	struct ranges sorted = { 0 };
	size_t i;

	for (i = 0; i < ranges->count; i++) {
		ranges_add(&sorted, ranges->list[i].start, ranges->list[i].length);
		before += ranges->list[i].length;
	}
	ranges_sort(&sorted);
	for (i = 0; i < sorted.count; i++) {
		after += sorted.list[i].length;
		must(!i || sorted.list[i].start >
			   sorted.list[i - 1].start + sorted.list[i - 1].length);
	}
	must(after <= before);
	for (i = 0; i < ranges->count; i++)
		must(is_covered(&sorted, &ranges->list[i]));
	ranges_free(&sorted);
}

int fuzz_input(const uint8_t *data, size_t size)
{
	struct ranges ranges;
	char *error;
	FILE *file;

	/* fmemopen() does not accept an empty buffer. */
	if (!size)
		return 0;
	file = open_data(data, size);
	error = ranges_read(file, SECTORS, &ranges);
	fclose(file);
	if (error) {
		must(*error);
		free(error);
	} else {
		check_file(data, size, &ranges);
		check_written(&ranges);
		check_sorted(&ranges);
	}
	ranges_free(&ranges);
	return 0;
}
