// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hot lists: ranges of sectors that are worth to be cached. As a file:
 *
 *	rxcache-hotlist 1
 *	START LENGTH
 *	...
 *
 * Nothing here looks at the machine.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "ranges.h"

#define HEADING	"rxcache-hotlist 1"

/**
 * ranges_add - add a range to a list
 * @ranges: the list
 * @start: first sector
 * @length: sectors
 */
void ranges_add(struct ranges *ranges, uint64_t start, uint64_t length)
{
	/* Double it each time it is full. */
	if (!(ranges->count & (ranges->count - 1)))
		ranges->list = resize_array(ranges->list, ranges->count ? 2 * ranges->count : 1,
					    sizeof(*ranges->list));
	ranges->list[ranges->count++] = (struct range){ .start = start, .length = length };
}

static int compare(const void *a, const void *b)
{
	const struct range *left = a;
	const struct range *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

/**
 * ranges_sort - put a list in the order of the disk, and join what touches
 * @ranges: the list
 */
void ranges_sort(struct ranges *ranges)
{
	struct range *last = ranges->list;
	struct range *range;
	uint64_t end;

	if (!ranges->count)
		return;
	qsort(ranges->list, ranges->count, sizeof(*ranges->list), compare);
	for (range = last + 1; range < ranges->list + ranges->count; range++) {
		if (range->start > last->start + last->length) {
			*++last = *range;
			continue;
		}
		end = range->start + range->length;
		if (end > last->start + last->length)
			last->length = end - last->start;
	}
	ranges->count = last + 1 - ranges->list;
}

void ranges_free(struct ranges *ranges)
{
	free(ranges->list);
	*ranges = (struct ranges){ 0 };
}

static bool parse_number(const char **text, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*number = strtoull(*text, &end, 10);
	*text = end;
	return !errno;
}

/* Return: NULL, or what is wrong with the line. */
static const char *parse_line(const char *line, uint64_t sectors, struct range *range)
{
	if (!parse_number(&line, &range->start) || *line++ != ' ' ||
	    !parse_number(&line, &range->length) || *line)
		return "must be START LENGTH, two numbers of sectors";
	if (!range->length)
		return "LENGTH must be greater than 0";
	if (range->start >= sectors || range->length > sectors - range->start)
		return "lies beyond the end of the cached disk";
	return NULL;
}

/**
 * ranges_read - read a hot list
 * @file: where it stands
 * @sectors: length of the disk it is for
 * @ranges: out: the list, to be freed by ranges_free() also after an error
 *
 * Return: NULL, or allocated text that says what is wrong with it.
 */
char *ranges_read(FILE *file, uint64_t sectors, struct ranges *ranges)
{
	const char *wrong = NULL;
	unsigned int number = 0;
	struct range range;
	char *error = NULL;
	char *line = NULL;
	size_t size = 0;
	ssize_t length;

	*ranges = (struct ranges){ 0 };
	while (!wrong && (length = getline(&line, &size, file)) >= 0) {
		number++;
		if (strlen(line) != (size_t)length) {
			wrong = "has a zero byte";
			break;
		}
		line[strcspn(line, "\n")] = '\0';
		if (number == 1) {
			if (strcmp(line, HEADING))
				wrong = "must be '" HEADING "'";
			continue;
		}
		wrong = parse_line(line, sectors, &range);
		if (!wrong)
			ranges_add(ranges, range.start, range.length);
	}
	if (wrong)
		error = format_text("line %u, '%.60s': %s", number, line, wrong);
	else if (!feof(file))
		error = copy_text(strerror(errno));
	else if (!number)
		error = copy_text("is empty; its first line must be '" HEADING "'");
	free(line);
	return error;
}

/**
 * ranges_write - write a hot list
 * @file: where to; whether it worked is to be asked of it
 * @ranges: the list
 */
void ranges_write(FILE *file, const struct ranges *ranges)
{
	size_t i;

	fputs(HEADING "\n", file);
	for (i = 0; i < ranges->count; i++)
		fprintf(file, "%llu %llu\n", (unsigned long long)ranges->list[i].start,
			(unsigned long long)ranges->list[i].length);
}
