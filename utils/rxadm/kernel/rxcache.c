// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parse and format the table and status lines of the rxcache target, without START, LENGTH and
 * the name of the target. rxcache(4) has their fields.
 *
 * Parse what the target answers to "advice", and the latency histograms that dm-stats keeps for a
 * cache. Read and write hot lists, which are ranges of sectors that should be in the cache. The
 * format of a file is:
 *
 *	rxcache-hotlist 1
 *	START LENGTH
 *	...
 *
 * These functions do not query the system.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/common.h"
#include "base/error.h"
#include "base/text.h"
#include "kernel/rxcache.h"

#define SECTOR	512

/* A line split into words, and the first error in it. */
struct words {
	char *copy;
	char *rest;
	unsigned int count;
	char *error;
};

static void words_begin(struct words *words, const char *line)
{
	*words = (struct words){ .copy = copy_text(line) };
	words->rest = words->copy;
}

static char *words_end(struct words *words)
{
	free(words->copy);
	return words->error;
}

/* Return the next word, or NULL at the end or after an error. */
static const char *next_word(struct words *words)
{
	char *word;

	do {
		word = words->error ? NULL : strsep(&words->rest, " ");
	} while (word && !*word);
	if (word)
		words->count++;
	return word;
}

static const char *need_word(struct words *words, const char *what)
{
	const char *word = next_word(words);

	if (!word && !words->error)
		words->error = format_text("it ends after %u fields, where %s is expected",
					   words->count, what);
	return word;
}

static bool parse_number(const char *text, const char **end, uint64_t *number)
{
	char *stop;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*number = strtoull(text, &stop, 10);
	*end = stop;
	return !errno;
}

/* Parse one number, or two with a separator between them. */
static void need_numbers(struct words *words, const char *what, uint64_t *first, char separator,
			 uint64_t *second)
{
	const char *word = need_word(words, what), *end;

	if (!word)
		return;
	if (parse_number(word, &end, first) &&
	    (!second || (*end == separator && parse_number(end + 1, &end, second))) && !*end)
		return;
	words->error = format_text("its field %u, %s, is '%s'", words->count, what, word);
}

static void need_device(struct words *words, const char *what, dev_t *dev)
{
	uint64_t major = 0, minor = 0;

	need_numbers(words, what, &major, ':', &minor);
	if (!words->error && (major > UINT_MAX || minor > UINT_MAX))
		words->error = format_text("its field %u, %s, is no device number", words->count,
					   what);
	*dev = makedev(major, minor);
}

/* Parse the number after a key. @count words of the group are left. */
static void need_value(struct words *words, uint64_t *count, const char *what, uint64_t *value)
{
	if (*count) {
		--*count;
		need_numbers(words, what, value, 0, NULL);
	} else {
		words->error = format_text("its group ends after field %u, where %s is expected",
					   words->count, what);
	}
}

static void need_features(struct words *words, uint64_t count, struct rxcache_features *features)
{
	const char *word;

	while (count && (word = need_word(words, "a feature"))) {
		count--;
		if (!strcmp(word, "block_size"))
			need_value(words, &count, "the block size", &features->block_size);
		else
			snprintf(features->mode, sizeof(features->mode), "%s", word);
	}
}

/* Parse the number of words in a group. A missing group has none. */
static uint64_t group_count(struct words *words, const char *what)
{
	const char *word = next_word(words), *end;
	uint64_t count = 0;

	if (word && (!parse_number(word, &end, &count) || *end)) {
		words->error = format_text("its field %u, %s, is '%s'", words->count, what, word);
		count = 0;
	}
	return count;
}

/* Ignore unknown keys: a later version of the target may have added them. */
static void need_policy(struct words *words, uint64_t count, struct rxcache_features *features)
{
	const struct {
		const char *key;
		uint64_t *value;
	} args[] = {
		{ "seq_cutoff", &features->seq_cutoff }, { "size", &features->size },
		{ "min_size", &features->min_size }, { "advise", &features->advise },
		{ "lent", &features->lent }, { "given_back", &features->given_back },
		{ "taken", &features->taken },
	};
	const char *word;
	size_t i;

	while (count && (word = need_word(words, "a policy argument"))) {
		count--;
		for (i = 0; i < ARRAY_SIZE(args); i++)
			if (!strcmp(word, args[i].key))
				need_value(words, &count, args[i].key, args[i].value);
	}
}

static void need_end(struct words *words)
{
	const char *word = next_word(words);

	if (word)
		words->error = format_text("its field %u, '%s', is one too many", words->count,
					   word);
}

/**
 * rxcache_parse_table - read a table line
 * @line: without START, LENGTH and target
 * @table: out: the values in it
 *
 * Return: NULL, or allocated text that says what is wrong with the line.
 */
char *rxcache_parse_table(const char *line, struct rxcache_table *table)
{
	struct words words;

	*table = (struct rxcache_table){ .features.mode = RXCACHE_DEFAULT_MODE };
	words_begin(&words, line);
	need_device(&words, "the origin", &table->origin);
	need_device(&words, "the cache device", &table->cache);
	need_features(&words, group_count(&words, "the number of features"), &table->features);
	need_policy(&words, group_count(&words, "the number of policy arguments"),
		    &table->features);
	need_end(&words);
	return words_end(&words);
}

/**
 * rxcache_parse_status - read a status line
 * @line: without START, LENGTH and target
 * @status: out: the values in it
 *
 * Return: NULL, or allocated text that says what is wrong with the line.
 */
char *rxcache_parse_status(const char *line, struct rxcache_status *status)
{
	uint64_t features = 0;
	struct words words;
	unsigned int i;

	*status = (struct rxcache_status){ .features.mode = RXCACHE_DEFAULT_MODE };
	words_begin(&words, line);
	need_numbers(&words, "the block size", &status->block_size, 0, NULL);
	need_numbers(&words, "the blocks used and in all", &status->used, '/', &status->total);
	need_numbers(&words, "the bytes of metadata", &status->metadata, 0, NULL);
	for (i = 0; i < RXCACHE_COUNTERS; i++)
		need_numbers(&words, "a counter", &status->counters[i], 0, NULL);
	need_numbers(&words, "the number of features", &features, 0, NULL);
	need_features(&words, features, &status->features);
	need_policy(&words, group_count(&words, "the number of policy arguments"),
		    &status->features);
	need_end(&words);
	return words_end(&words);
}

/**
 * rxcache_format_table - write a table line
 * @table: the values to write
 *
 * Return: allocated line, without START, LENGTH and target.
 */
char *rxcache_format_table(const struct rxcache_table *table)
{
	const struct rxcache_features *features = &table->features;
	const struct {
		const char *key;
		uint64_t value;
	} args[] = {
		{ "seq_cutoff", features->seq_cutoff }, { "size", features->size },
		{ "min_size", features->min_size }, { "advise", features->advise },
	};
	char *line = format_text("%u:%u ", major(table->origin), minor(table->origin));
	unsigned int words = 0;
	size_t i;

	if (table->unmade)
		append_text(&line, "/dev/rxdN");
	else
		append_text(&line, "%u:%u", major(table->cache), minor(table->cache));
	append_text(&line, " %d %s block_size %llu", table->diskseq ? 6 : 3, features->mode,
		    (unsigned long long)features->block_size);
	if (table->diskseq)
		append_text(&line, " if_same %llu %llu", (unsigned long long)table->diskseq,
			    (unsigned long long)table->changes);
	for (i = 0; i < ARRAY_SIZE(args); i++)
		words += args[i].value ? 2 : 0;
	append_text(&line, " %u", words);
	for (i = 0; i < ARRAY_SIZE(args); i++)
		if (args[i].value)
			append_text(&line, " %s %llu", args[i].key,
				    (unsigned long long)args[i].value);
	return line;
}

/**
 * rxcache_size - return the memory that the data of a cache may occupy, in bytes
 * @status: its status
 */
uint64_t rxcache_size(const struct rxcache_status *status)
{
	return status->features.size ? status->features.size :
				       status->total * status->block_size * SECTOR;
}

/*
 * Read the answer to the message "advice". Return: NULL; or allocated text: what is wrong, and
 * @advice is empty.
 */
char *advice_parse(const char *text, struct advice *advice)
{
	struct words words;
	unsigned int i, time;

	*advice = (struct advice){ 0 };
	words_begin(&words, text);
	for (time = 0; time < ADVICE_TIMES; time++) {
		need_numbers(&words, "a time", &advice->time[time].seconds, 0, NULL);
		need_numbers(&words, "a time", &advice->time[time].left_out, 0, NULL);
		need_numbers(&words, "the reads", &advice->time[time].reads, 0, NULL);
		need_numbers(&words, "samples", &advice->time[time].fed, 0, NULL);
		need_numbers(&words, "samples", &advice->time[time].lost, 0, NULL);
	}
	need_numbers(&words, "how often samples were halved", &advice->halved, 0, NULL);
	if (!words.error && advice->halved > ADVICE_HALVED_MAX)
		words.error = format_text("samples were halved %llu times, at most %d are possible",
					  (unsigned long long)advice->halved, ADVICE_HALVED_MAX);
	for (i = 0; i < ADVICE_SIZES; i++) {
		need_numbers(&words, "a size", &advice->size[i].blocks, 0, NULL);
		need_numbers(&words, "the blocks used", &advice->size[i].used, 0, NULL);
		for (time = 0; time < ADVICE_TIMES; time++)
			need_numbers(&words, "the misses", &advice->size[i].misses[time], 0, NULL);
	}
	need_end(&words);
	if (words.error)
		*advice = (struct advice){ 0 };
	advice->on = !words.error;
	return words_end(&words);
}

#define USEC	1000ULL
#define MSEC	(1000 * USEC)

#define WORD_READ_NS	4
#define WORD_WRITE_NS	8

/* Lower bounds of all bins but the first, in ns. */
const uint64_t latency_bounds[LATENCY_BINS] = {
	1 * USEC, 2 * USEC, 5 * USEC, 10 * USEC, 20 * USEC, 50 * USEC,
	100 * USEC, 200 * USEC, 500 * USEC, 1 * MSEC, 2 * MSEC, 5 * MSEC,
	10 * MSEC, 20 * MSEC, 50 * MSEC, 100 * MSEC, 200 * MSEC, 1000 * MSEC,
	0 /* the end */
};

/* Return the n-th word, counted from 0, as a number, or 0 if it is not a number. */
static uint64_t word_number(const char *text, unsigned int n)
{
	while (n--) {
		text += strcspn(text, "\n ");
		text += strspn(text, " ");
	}
	return strtoull(text, NULL, 10);
}

/**
 * latency_parse - parse the statistics of a region
 * @text: a line from the kernel: the range, the fields of disk statistics with times in
 *	nanoseconds, and the histogram as the last word
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
		if ((bin && *at++ != ':') || *at < '0' || *at > '9')
			break;
		errno = 0;
		latency->count[bin] = strtoull(at, &end, 10);
		if (errno)
			break;
		latency->total += latency->count[bin];
		at = end;
	}
	return bin == LATENCY_BINS && at == text + length ? NULL :
	       format_text("'%.*s' does not end with %d numbers", (int)length, text, LATENCY_BINS);
}

#define HEADING	"rxcache-hotlist 1"

/**
 * ranges_add - add a range to a list
 * @ranges: the list
 * @start: first sector
 * @length: sectors
 */
void ranges_add(struct ranges *ranges, uint64_t start, uint64_t length)
{
	/* Double the capacity when the list is full. */
	if (!(ranges->count & (ranges->count - 1)))
		ranges->list = resize_array(ranges->list, ranges->count ? 2 * ranges->count : 1,
					    sizeof(*ranges->list));
	ranges->list[ranges->count++] = (struct range){ .start = start, .length = length };
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

/**
 * ranges_sort - sort a list by start, and merge ranges that overlap or touch
 * @ranges: the list
 */
void ranges_sort(struct ranges *ranges)
{
	struct range *last = ranges->list, *range;
	uint64_t end;

	if (!ranges->count)
		return;
	qsort(ranges->list, ranges->count, sizeof(*ranges->list), compare_ranges);
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

/* Return: NULL, or what is wrong with the line. */
static const char *parse_line(const char *line, uint64_t sectors, struct range *range)
{
	if (!parse_number(line, &line, &range->start) || *line++ != ' ' ||
	    !parse_number(line, &line, &range->length) || *line)
		return "must be START LENGTH, two numbers of sectors";
	if (!range->length)
		return "LENGTH must be greater than 0";
	if (range->start >= sectors || range->length > sectors - range->start)
		return "lies beyond the end of the cached disk";
	return NULL;
}

/**
 * ranges_read - read a hot list
 * @file: the file to read
 * @sectors: length of the disk it is for
 * @ranges: out: the list, to be freed by ranges_free() also after an error
 *
 * Return: NULL, or allocated text that says what is wrong with it.
 */
char *ranges_read(FILE *file, uint64_t sectors, struct ranges *ranges)
{
	const char *wrong = NULL;
	unsigned int number = 0;
	char *error = NULL, *line = NULL;
	struct range range;
	size_t size = 0;
	ssize_t length;

	*ranges = (struct ranges){ 0 };
	while (!wrong && (length = getline(&line, &size, file)) >= 0) {
		number++;
		if (strlen(line) != (size_t)length) {
			wrong = "has a NUL byte";
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
 * @file: the file to write; the caller checks it for errors
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
