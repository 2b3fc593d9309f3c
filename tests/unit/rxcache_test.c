// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table and status lines of the rxcache target.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/common.h"
#include "kernel/rxcache.h"
#include "tap.h"

#define STATUS "8 12/1024 4096 1 2 3 4 5 6 7 8 9 10 11 "

static const struct {
	const char *line;
	const char *error;	/* a part of the message; NULL: the line is right */
	const char *mode;
	uint64_t block_size;
	uint64_t seq_cutoff;
	uint64_t size;
	uint64_t advise;
} statuses[] = {
	{ STATUS "3 writethrough block_size 8", NULL, "writethrough", 8, 0, 0, 0 },
	{ STATUS "1 writearound", NULL, "writearound", 0, 0, 0, 0 },
	{ STATUS "0", NULL, "writethrough", 0, 0, 0, 0 },
	{ "  8  12/1024 4096 1 2 3 4 5 6 7 8 9 10 11 0 ", NULL, "writethrough", 0, 0, 0, 0 },
	{ "", .error = "ends after 0 fields" },
	{ "8", .error = "ends after 1 fields" },
	{ "8 12/1024 4096 1 2 3", .error = "ends after 6 fields" },
	{ "8 12/1024 4096 1 2 3 4 5 6 7 8 9 10 11", .error = "ends after 14 fields" },
	{ STATUS "3 writethrough", .error = "ends after 16 fields" },
	{ STATUS "3 writethrough block_size", .error = "ends after 17 fields" },
	{ STATUS "18446744073709551615 writethrough", .error = "ends after 16 fields" },
	{ STATUS "3 passthrough block_size 8 0", NULL, "passthrough", 8, 0, 0, 0 },
	{ STATUS "3 writethrough block_size 8 2 seq_cutoff 4096", NULL, "writethrough", 8, 4096, 0,
	  0 },
	{ STATUS "0 2 key value", NULL, "writethrough", 0, 0, 0, 0 },
	{ STATUS "0 4 key value seq_cutoff 512", NULL, "writethrough", 0, 512, 0, 0 },
	{ STATUS "0 4 seq_cutoff 512 size 65536", NULL, "writethrough", 0, 512, 65536, 0 },
	{ STATUS "0 2 size 65536", NULL, "writethrough", 0, 0, 65536, 0 },
	{ STATUS "0 2 size x", .error = "size, is 'x'" },
	{ STATUS "0 2 advise 1", NULL, "writethrough", 0, 0, 0, 1 },
	{ STATUS "0 2 advise 0", NULL, "writethrough", 0, 0, 0, 0 },
	{ STATUS "0 4 seq_cutoff 512 advise 1", NULL, "writethrough", 0, 512, 0, 1 },
	{ STATUS "0 6 seq_cutoff 512 size 65536 advise 1", NULL, "writethrough", 0, 512, 65536, 1 },
	{ STATUS "0 6 advise 1 seq_cutoff 512 size 65536", NULL, "writethrough", 0, 512, 65536, 1 },
	{ STATUS "0 2 lent x", .error = "lent, is 'x'" },
	{ STATUS "0 2 advise yes", .error = "is 'yes'" },
	{ STATUS "0 1 advise", .error = "group ends after field 17" },
	{ STATUS "0 0 0", .error = "'0', is one too many" },
	{ STATUS "3 writethrough block_size 8 more", .error = "is 'more'" },
	{ STATUS "3 writethrough block_size 8 0 more", .error = "'more', is one too many" },
	{ STATUS "0 2 seq_cutoff", .error = "ends after 17 fields" },
	{ STATUS "1 block_size", .error = "group ends after field 16" },
	{ STATUS "1 block_size 8", .error = "group ends after field 16" },
	{ STATUS "0 1 seq_cutoff", .error = "group ends after field 17" },
	{ STATUS "0 2 seq_cutoff 1M", .error = "is '1M'" },
	{ STATUS "3 writethrough block_size x", .error = "is 'x'" },
	{ STATUS "-1", .error = "is '-1'" },
	{ "8 12 4096 1 2 3 4 5 6 7 8 9 10 11 0", .error = "is '12'" },
	{ "8 12/ 4096 1 2 3 4 5 6 7 8 9 10 11 0", .error = "is '12/'" },
	{ "8 12/1024/3 4096 1 2 3 4 5 6 7 8 9 10 11 0", .error = "is '12/1024/3'" },
	{ "8 /1024 4096 1 2 3 4 5 6 7 8 9 10 11 0", .error = "is '/1024'" },
	{ "8k 12/1024 4096 1 2 3 4 5 6 7 8 9 10 11 0", .error = "is '8k'" },
	{ "8 12/1024 4096 1 2 3 four 5 6 7 8 9 10 11 0", .error = "is 'four'" },
	{ "8 12/1024 4096 1 2 3 +4 5 6 7 8 9 10 11 0", .error = "is '+4'" },
	{ "8 12/1024 99999999999999999999 1 2 3 4 5 6 7 8 9 10 11 0",
	  .error = "is '99999999999999999999'" },
	{ "Fail", .error = "is 'Fail'" },
	{ "Error\n", .error = "is 'Error" },
};

static const struct {
	const char *line;
	const char *error;
	const char *mode;
	uint64_t block_size;
	uint64_t seq_cutoff;
	uint64_t size;
	uint64_t advise;
} tables[] = {
	{ "254:1 252:3 3 writethrough block_size 8 0", NULL, "writethrough", 8, 0, 0, 0 },
	{ "254:1 252:3 3 block_size 64 writethrough 0", NULL, "writethrough", 64, 0, 0, 0 },
	{ "254:1 252:3", NULL, "writethrough", 0, 0, 0, 0 },
	{ "254:1 252:3 0", NULL, "writethrough", 0, 0, 0, 0 },
	{ "254:1 252:3 1 passthrough 2 key value", NULL, "passthrough", 0, 0, 0, 0 },
	{ "254:1 252:3 3 writearound block_size 8 2 seq_cutoff 512", NULL, "writearound", 8, 512, 0,
	  0 },
	{ "254:1 252:3 0 4 size 65536 seq_cutoff 512", NULL, "writethrough", 0, 512, 65536, 0 },
	{ "254:1 252:3 0 4 advise 1 seq_cutoff 512", NULL, "writethrough", 0, 512, 0, 1 },
	{ "254:1 252:3 0 6 size 65536 advise 1 seq_cutoff 512", NULL, "writethrough", 0, 512, 65536,
	  1 },
	{ "254:1 252:3 0 0 0", .error = "is one too many" },
	{ "254:1 252:3 0 x", .error = "is 'x'" },
	{ "254:1 252:3 0 2 seq_cutoff -1", .error = "is '-1'" },
	{ "", .error = "ends after 0 fields" },
	{ "254:1", .error = "ends after 1 fields" },
	{ "254 252:3", .error = "is '254'" },
	{ "254:4294967296 252:3", .error = "field 1, the origin, is no device number" },
	{ "254:1 4294967296:3", .error = "field 2, the cache device, is no device number" },
	{ "254: 252:3", .error = "is '254:'" },
	{ "/dev/vdb 252:3", .error = "is '/dev/vdb'" },
	{ "254:1 252:3 x", .error = "is 'x'" },
	{ "254:1 252:3 3x writethrough block_size 8", .error = "is '3x'" },
	{ "254:1 252:3 3 writethrough", .error = "ends after 4 fields" },
	{ "254:1 252:3 3 writethrough block_size -8", .error = "is '-8'" },
};

static bool matches(const char *error, const char *expected)
{
	if (!error || !expected)
		return !error && !expected;
	return strstr(error, expected);
}

static void test_status(void)
{
	struct rxcache_status status;
	unsigned int counter;
	char *error;
	size_t i;
	bool ok;

	for (i = 0; i < ARRAY_SIZE(statuses); i++) {
		error = rxcache_parse_status(statuses[i].line, &status);
		ok = matches(error, statuses[i].error);
		if (ok && !error) {
			ok = status.block_size == 8 && status.used == 12 &&
			     status.total == 1024 && status.metadata == 4096 &&
			     !strcmp(status.features.mode, statuses[i].mode) &&
			     status.features.block_size == statuses[i].block_size &&
			     status.features.seq_cutoff == statuses[i].seq_cutoff &&
			     status.features.size == statuses[i].size &&
			     rxcache_size(&status) == (statuses[i].size ?: 1024 * 4096) &&
			     status.features.advise == statuses[i].advise;
			for (counter = 0; counter < RXCACHE_COUNTERS; counter++)
				ok = ok && status.counters[counter] == counter + 1;
		}
		if (!tap_ok(ok, "rxcache_parse_status: '%.*s'",
			    (int)strcspn(statuses[i].line, "\n"), statuses[i].line))
			printf("# error: %s\n", error ? error : "none");
		free(error);
	}
}

static void test_table(void)
{
	struct rxcache_table table;
	char *error;
	size_t i;
	bool ok;

	for (i = 0; i < ARRAY_SIZE(tables); i++) {
		error = rxcache_parse_table(tables[i].line, &table);
		ok = matches(error, tables[i].error);
		if (ok && !error)
			ok = table.origin == makedev(254, 1) && table.cache == makedev(252, 3) &&
			     !strcmp(table.features.mode, tables[i].mode) &&
			     table.features.block_size == tables[i].block_size &&
			     table.features.seq_cutoff == tables[i].seq_cutoff &&
			     table.features.size == tables[i].size &&
			     table.features.advise == tables[i].advise;
		if (!tap_ok(ok, "rxcache_parse_table: '%s'", tables[i].line))
			printf("# error: %s\n", error ? error : "none");
		free(error);
	}
}

static void test_long_mode(void)
{
	struct rxcache_table table;
	char *line = NULL;
	char *error;

	if (asprintf(&line, "1:2 3:4 1 %0200d", 1) < 0)
		abort();
	error = rxcache_parse_table(line, &table);
	tap_ok(!error && strlen(table.features.mode) == RXCACHE_MODE_MAX - 1,
	       "rxcache_parse_table: a feature longer than any mode is cut");
	free(error);
	free(line);
}

static void test_round_trip(void)
{
	static const char *const lines[] = {
		"259:1048575 252:0 3 writearound block_size 128 0",
		"259:1048575 252:0 3 writearound block_size 128 2 seq_cutoff 4096",
		"259:1048575 252:0 3 writearound block_size 128 2 size 1048576",
		"259:1048575 252:0 3 writearound block_size 128 4 seq_cutoff 4096 size 1048576",
		"259:1048575 252:0 3 writearound block_size 128 2 advise 1",
		"259:1048575 252:0 3 writearound block_size 128 4 seq_cutoff 4096 advise 1",
		"259:1048575 252:0 3 writearound block_size 128 4 size 1048576 advise 1",
		"259:1048575 252:0 3 writearound block_size 128 6 seq_cutoff 4096 size 1048576 "
		"advise 1",
	};
	struct rxcache_table in = {
		.origin = makedev(259, 1048575),
		.cache = makedev(252, 0),
		.features = { .mode = "writearound", .block_size = 128 },
	};
	struct rxcache_table out;
	unsigned int pass;
	char *error;
	char *line;

	for (pass = 0; pass < ARRAY_SIZE(lines); pass++) {
		in.features.seq_cutoff = pass % 2 * 4096;
		in.features.size = pass / 2 % 2 << 20;
		in.features.advise = pass / 4;
		line = rxcache_format_table(&in);
		tap_ok(!strcmp(line, lines[pass]), "rxcache_format_table: %s", line);
		error = rxcache_parse_table(line, &out);
		tap_ok(!error && out.origin == in.origin && out.cache == in.cache &&
		       !strcmp(out.features.mode, "writearound") &&
		       out.features.block_size == 128 &&
		       out.features.seq_cutoff == in.features.seq_cutoff &&
		       out.features.size == in.features.size &&
		       out.features.advise == in.features.advise,
		       "rxcache_parse_table: what rxcache_format_table wrote");
		free(error);
		free(line);
	}
}

#define TIMES	"3300 300 100 1 2 7200 600 1000 5 6 1 "
#define SIZES	"16 9 90 900 32 9 80 800 48 9 70 700 64 9 60 600 96 9 50 500 128 9 40 400 256 9 30 300 "

static void test_minimum(void)
{
	const struct rxcache_table table = {
		.unmade = true, .origin = makedev(8, 16),
		.features = {
			.mode = "writethrough", .block_size = 8, .size = 8192, .min_size = 4096,
			.advise = 1, .lent = 5, .given_back = 6, .taken = 7,
		},
	};
	char *line = rxcache_format_table(&table);
	struct rxcache_table parsed;
	struct rxcache_status status;
	char *error;

	error = rxcache_parse_status(STATUS "0 10 size 65536 min_size 4096 lent 5 given_back 6 taken 7",
				     &status);
	tap_ok(!error && status.features.size == 65536 && status.features.min_size == 4096 &&
	       status.features.lent == 5 && status.features.given_back == 6 &&
	       status.features.taken == 7, "rxcache_parse_status: what is lent");
	free(error);
	error = rxcache_parse_table("8:16 252:0 0 4 min_size 8192 seq_cutoff 512", &parsed);
	tap_ok(!error && parsed.features.min_size == 8192 && parsed.features.seq_cutoff == 512,
	       "rxcache_parse_table: a minimum");
	free(error);
	tap_ok(!strcmp(line, "8:16 /dev/rxdN 3 writethrough block_size 8 6 size 8192 min_size 4096 advise 1"),
	       "rxcache_format_table: a minimum, and a RAM disk that would be made: %s", line);
	free(line);
}

static void test_advice(void)
{
	static const struct {
		const char *text;
		const char *error;
	} answers[] = {
		{ TIMES SIZES "512 9 101 1000", NULL },
		{ "", "ends after 0 fields" },
		{ TIMES, "ends after 11 fields" },
		{ TIMES SIZES "512 9 101", "ends after 42 fields" },
		{ TIMES SIZES "512 9 101 -1", "is '-1'" },
		{ TIMES SIZES "512 9 x 1000", "is 'x'" },
		{ TIMES SIZES "512 9 101 1000 7", "'7', is one too many" },
		{ "1 0 9 9 9 1 0 9 9 9 2 " SIZES "512 9 101 1000", NULL },
		{ "1 0 9 9 9 1 0 9 9 9 3 " SIZES "512 9 101 1000", "halved 3 times, at most 2" },
	};
	static const struct advice none;
	struct advice advice;
	char *error;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(answers); i++) {
		error = advice_parse(answers[i].text, &advice);
		if (!tap_ok(matches(error, answers[i].error), "advice_parse: '%s'",
			    answers[i].text))
			printf("# error: %s\n", error ? error : "none");
		tap_ok(advice.on == !answers[i].error, "advice_parse: whether it is on");
		tap_ok(!answers[i].error || !memcmp(&advice, &none, sizeof(advice)),
		       "advice_parse: nothing that is wrong is left");
		free(error);
	}
	free(advice_parse(answers[0].text, &advice));
	tap_ok(advice.on && advice.time[ADVICE_HOUR].fed == 1 &&
	       advice.time[ADVICE_DAY].lost == 6 && advice.time[ADVICE_HOUR].seconds == 3300 &&
	       advice.time[ADVICE_DAY].left_out == 600 && advice.size[7].used == 9 &&
	       advice.time[ADVICE_DAY].reads == 1000 && advice.halved == 1 && advice.size[0].blocks == 16 &&
	       advice.size[7].misses[ADVICE_DAY] == 1000, "advice_parse: its values");
	tap_ok(!advice_is_known(&advice, 0), "advice_is_known: it is not full, and misses much");
	advice.size[0].used = 15;
	tap_ok(advice_is_known(&advice, 0), "advice_is_known: it was full");
	advice.size[7].misses[ADVICE_HOUR] = 0;
	tap_ok(advice_is_known(&advice, 7), "advice_is_known: it missed nothing in the last hour");
	advice.time[ADVICE_HOUR].reads = 0;
	tap_ok(!advice_is_known(&advice, 7), "advice_is_known: nothing was read in the last hour");
	advice.size[7].misses[ADVICE_DAY] = 9;
	tap_ok(advice_is_known(&advice, 7), "advice_is_known: it missed little in the last day");
	advice.time[ADVICE_HOUR].reads = 100;
	advice.size[7].misses[ADVICE_HOUR] = 101;
	advice.size[7].misses[ADVICE_DAY] = 1000;
	tap_ok(advice_hit_ratio(&advice, 0, ADVICE_HOUR) > 0.0999 &&
	       advice_hit_ratio(&advice, 0, ADVICE_HOUR) < 0.1001 &&
	       advice_hit_ratio(&advice, 6, ADVICE_DAY) > 0.6999 &&
	       advice_hit_ratio(&advice, 6, ADVICE_DAY) < 0.7001, "advice_hit_ratio");
	tap_ok(advice_hit_ratio(&advice, 7, ADVICE_HOUR) <= 0,
	       "advice_hit_ratio: more misses than reads");
	advice.time[ADVICE_HOUR].reads = 0;
	tap_ok(advice_hit_ratio(&advice, 0, ADVICE_HOUR) <= 0, "advice_hit_ratio: no reads");
}

static void test_least_blocks(void)
{
	static const struct {
		uint64_t total;
		uint64_t least;
	} sizes[] = { { 16, 16 }, { 512, 16 }, { 513, 17 }, { 8388608, 262144 } };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct rxcache_status status = { .total = sizes[i].total };

		tap_ok(rxcache_least_blocks(&status) == sizes[i].least,
		       "rxcache_least_blocks: of %llu", (unsigned long long)sizes[i].total);
	}
}

/* As rxc_divide_slots() of the target divides them. */
static void test_slots(void)
{
	static const struct {
		uint64_t blocks;
		uint64_t slots;
	} sizes[] = { { 0, 0 }, { 16, 16 }, { 63, 63 }, { 64, 64 }, { 65, 64 }, { 100, 100 },
		      { 2080, 2079 }, { 3072, 3072 }, { 3120, 3087 }, { 26214400, 26214400 },
		      { 26476544, 26476544 } };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		const struct rxcache_status status = { .total = sizes[i].slots, .block_size = 8 };
		const struct rxcache_status less = { .total = sizes[i].slots - 1, .block_size = 8 };

		tap_ok(rxcache_slots(sizes[i].blocks) == sizes[i].slots &&
		       !rxcache_is_outgrown(&status, 4096 * sizes[i].blocks) &&
		       (!sizes[i].slots || rxcache_is_outgrown(&less, 4096 * sizes[i].blocks)),
		       "rxcache_slots: of %llu", (unsigned long long)sizes[i].blocks);
	}
}

int main(void)
{
	test_minimum();
	test_slots();
	test_advice();
	test_least_blocks();
	test_status();
	test_table();
	test_long_mode();
	test_round_trip();
	return tap_end();
}
