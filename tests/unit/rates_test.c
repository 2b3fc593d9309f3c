// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of utils/rxadm/output/screen.c
 */
#include <stdio.h>

#include "output/screen.h"
#include "tap.h"

static void test_parse(void)
{
	struct counts counts = { .hits = 3, .misses = 4 };

	/* With the fields for discards and flushes, and from before they were added. */
	tap_ok(rates_parse_stat("   10  1  200  30  40  2  600  70  0  80  90  1 2 3 4 5 6\n",
				&counts) &&
	       counts.reads == 10 && counts.read_sectors == 200 && counts.writes == 40 &&
	       counts.write_sectors == 600 && counts.busy_ms == 100 && counts.hits == 3 &&
	       counts.misses == 4, "rates_parse_stat: 17 fields");
	tap_ok(rates_parse_stat("1 0 2 3 4 0 5 6 0 0 0", &counts) && counts.writes == 4,
	       "rates_parse_stat: 11 fields");
	tap_ok(!rates_parse_stat("1 0 2 3 4 0 5", &counts), "rates_parse_stat: too few fields");
	tap_ok(!rates_parse_stat("", &counts), "rates_parse_stat: nothing");
	tap_ok(!rates_parse_stat("1 0 2 x 4 0 5 6", &counts), "rates_parse_stat: no number");
}

static void test_between(void)
{
	const struct counts before = {
		.reads = 100, .writes = 50, .read_sectors = 800, .write_sectors = 400,
		.busy_ms = 10, .hits = 70, .misses = 30,
	};
	const struct counts after = {
		.reads = 300, .writes = 150, .read_sectors = 2400, .write_sectors = 1200,
		.busy_ms = 16, .hits = 220, .misses = 80,
	};
	const struct counts reset = { .reads = 300, .hits = 5, .misses = 15 };
	struct rates rates = rates_between(&before, &after, 2);

	tap_ok(rates.reads == 100 && rates.writes == 50, "rates_between: I/Os a second");
	tap_ok(rates.read_bytes == 409600 && rates.write_bytes == 204800,
	       "rates_between: bytes a second");
	tap_ok(rates.has_latency && rates.latency_us == 20, "rates_between: mean latency");
	tap_ok(rates.has_hits && rates.hit_percent == 75, "rates_between: hits");
	rates = rates_between(&before, &before, 1);
	tap_ok(!rates.reads && !rates.writes && !rates.has_latency && !rates.has_hits,
	       "rates_between: nothing happened");
	rates = rates_between(&before, &reset, 1);
	tap_ok(rates.reads == 200 && !rates.writes && rates.has_hits && rates.hit_percent == 25,
	       "rates_between: counters that were set to zero");
}

int main(void)
{
	test_parse();
	test_between();
	return tap_end();
}
