// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table and status lines of the rxcache target, without START, LENGTH and
 * the target's name:
 *
 *	ORIGIN CACHE [#features feature...] [#policy_args key value...]
 *
 *	BLOCK_SIZE USED/TOTAL METADATA_BYTES READ_HITS READ_MISSES READ_PARTIALS
 *	WRITE_HITS WRITE_MISSES WRITE_PARTIALS FILLS EVICTIONS BYPASSES
 *	INVALIDATIONS ORIGIN_ERRORS #features feature... #policy_args key value...
 *
 * Nothing here looks at the machine.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "error.h"
#include "rxcache.h"

/* A line cut into words, and what is wrong with it so far. */
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

/* The next word, or NULL at the end or after an error. */
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

/* One number, or two with a separator between them. */
static void need_numbers(struct words *words, const char *what, uint64_t *first, char separator,
			 uint64_t *second)
{
	const char *word = need_word(words, what);
	const char *end;

	if (!word)
		return;
	if (parse_number(word, &end, first)) {
		if (second && *end == separator && parse_number(end + 1, &end, second) && !*end)
			return;
		if (!second && !*end)
			return;
	}
	words->error = format_text("its field %u, %s, is '%s'", words->count, what, word);
}

static void need_device(struct words *words, const char *what, dev_t *dev)
{
	uint64_t major = 0;
	uint64_t minor = 0;

	need_numbers(words, what, &major, ':', &minor);
	if (!words->error && (major > UINT_MAX || minor > UINT_MAX))
		words->error = format_text("its field %u, %s, is no device number", words->count,
					   what);
	*dev = makedev(major, minor);
}

/* The number that follows a key, in a group of which @count words are left. */
static void need_value(struct words *words, uint64_t *count, const char *what, uint64_t *value)
{
	if (*count) {
		--*count;
		need_numbers(words, what, value, 0, NULL);
	} else {
		words->error = format_text("its group ends with field %u, where %s is expected",
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

/* The number of words in a group, which may be missing. */
static uint64_t group_count(struct words *words, const char *what)
{
	const char *word = next_word(words);
	uint64_t count = 0;
	const char *end;

	if (word && (!parse_number(word, &end, &count) || *end)) {
		words->error = format_text("its field %u, %s, is '%s'", words->count, what, word);
		count = 0;
	}
	return count;
}

/* Keys that are not known here may have been added since. */
static void need_policy(struct words *words, uint64_t count, struct rxcache_features *features)
{
	const char *word;

	while (count && (word = need_word(words, "a policy argument"))) {
		count--;
		if (!strcmp(word, "seq_cutoff"))
			need_value(words, &count, "the cut-off", &features->seq_cutoff);
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
 * @table: out: what it says
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
 * @status: out: what it says
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
 * @table: what it is to say
 *
 * Return: allocated line, without START, LENGTH and target.
 */
char *rxcache_format_table(const struct rxcache_table *table)
{
	const struct rxcache_features *features = &table->features;
	char *policy = features->seq_cutoff ?
		       format_text("2 seq_cutoff %llu", (unsigned long long)features->seq_cutoff) :
		       copy_text("0");
	char *line = format_text("%u:%u %u:%u 3 %s block_size %llu %s", major(table->origin),
				 minor(table->origin), major(table->cache), minor(table->cache),
				 features->mode, (unsigned long long)features->block_size, policy);

	free(policy);
	return line;
}
