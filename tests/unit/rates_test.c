// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of utils/rxadm/output/screen.c
 */
#include <stdio.h>

#include "output/screen.h"
#include "tap.h"

static void test_between(void)
{
	const struct counts before = {
		.io.requests = { 100, 50 }, .io.bytes = { 409600, 204800 }, .io.ms = { 6, 4 },
		.hits = 70, .misses = 30, .given_back = 4096, .taken = 8192,
	};
	const struct counts after = {
		.io.requests = { 300, 150 }, .io.bytes = { 1228800, 614400 }, .io.ms = { 9, 7 },
		.hits = 220, .misses = 80, .given_back = 12288, .taken = 14336,
	};
	const struct counts reset = { .io.requests = { 300 }, .hits = 5, .misses = 15 };
	struct rates rates = rates_between(&before, &after, 2);

	tap_ok(rates.reads == 100 && rates.writes == 50, "rates_between: I/Os a second");
	tap_ok(rates.read_bytes == 409600 && rates.write_bytes == 204800,
	       "rates_between: bytes a second");
	tap_ok(rates.has_latency && rates.latency_us == 20, "rates_between: mean latency");
	tap_ok(rates.has_hits && rates.hit_percent == 75, "rates_between: hits");
	tap_ok(rates.given_back == 4096 && rates.taken == 3072, "rates_between: what was lent");
	rates = rates_between(&before, &before, 1);
	tap_ok(!rates.reads && !rates.writes && !rates.has_latency && !rates.has_hits &&
	       !rates.given_back && !rates.taken, "rates_between: nothing happened");
	rates = rates_between(&before, &reset, 1);
	tap_ok(rates.reads == 200 && !rates.writes && rates.has_hits && rates.hit_percent == 25,
	       "rates_between: counters that were set to zero");
}

int main(void)
{
	test_between();
	return tap_end();
}
