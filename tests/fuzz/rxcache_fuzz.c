// SPDX-License-Identifier: GPL-2.0-only
/*
 * Table and status lines of the rxcache target: what is understood of a table comes
 * back from the line that is written of it.
 */
#include <sys/sysmacros.h>

#include "fuzz.h"
#include "kernel/rxcache.h"

static void check_features(const struct rxcache_features *features)
{
	must(memchr(features->mode, '\0', sizeof(features->mode)));
	must(*features->mode && !strchr(features->mode, ' '));
}

static void check_table(const char *line)
{
	struct rxcache_table table, again;
	char *error, *written;

	error = rxcache_parse_table(line, &table);
	if (error) {
		must(*error);
		free(error);
		return;
	}
	check_features(&table.features);
	must(strtoull(line + strspn(line, " "), NULL, 10) == major(table.origin));

	written = rxcache_format_table(&table);
	must(!rxcache_parse_table(written, &again));
	must(again.origin == table.origin && again.cache == table.cache);
	must(!strcmp(again.features.mode, table.features.mode));
	must(again.features.block_size == table.features.block_size);
	must(again.features.seq_cutoff == table.features.seq_cutoff);
	must(again.features.size == table.features.size);
	must(again.features.advise == table.features.advise);
	free(written);
}

static void check_status(const char *line)
{
	struct rxcache_status status, again;
	char *error, *spaced;
	size_t length = strlen(line);

	error = rxcache_parse_status(line, &status);
	if (error) {
		must(*error);
		free(error);
		return;
	}
	check_features(&status.features);

	/* Spaces around a line change nothing. */
	spaced = malloc(length + 3);
	must(spaced);
	snprintf(spaced, length + 3, " %s ", line);
	must(!rxcache_parse_status(spaced, &again));
	must(status.block_size == again.block_size && status.used == again.used &&
	     status.total == again.total && status.metadata == again.metadata);
	must(!memcmp(status.counters, again.counters, sizeof(status.counters)));
	free(spaced);
}

static void check_advice(const char *text)
{
	struct advice advice;
	char *error = advice_parse(text, &advice);

	must(!error || *error);
	must(error || (advice_hit_ratio(&advice, 0, ADVICE_HOUR) >= 0 &&
		       advice_hit_ratio(&advice, 7, ADVICE_DAY) <= 1));
	free(error);
}

int fuzz_input(const uint8_t *data, size_t size)
{
	char *line = fuzz_text(data, size);

	check_table(line);
	check_status(line);
	check_advice(line);
	free(line);
	return 0;
}
