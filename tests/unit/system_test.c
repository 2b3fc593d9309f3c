// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits for devices that unknown processes have open: how long they are, by a clock that the test
 * sets.
 */
#include <stdint.h>
#include <time.h>

#include "base/system.h"
#include "tap.h"

#define MS	1000000
#define NO_END	100000

static uint64_t clock_ns;

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	(void)id;
	now->tv_sec = clock_ns / 1000000000;
	now->tv_nsec = clock_ns % 1000000000;
	return 0;
}

/* Return: the number of rounds of a wait, each of which takes this time. */
static unsigned int rounds(unsigned int ms)
{
	unsigned int round = 0;

	while (!wait_is_over(++round) && round < NO_END)
		clock_ns += (uint64_t)ms * MS;
	return round;
}

int main(void)
{
	tap_ok(rounds(50) == 20, "a wait has 20 rounds, which take a second");
	tap_ok(rounds(500) == 20, "even if they take longer");
	waits_share();
	tap_ok(rounds(50) == 201, "at a stop, a wait takes ten seconds");
	tap_ok(rounds(50) == 20, "the next one has no more than 20 rounds");
	waits_share();
	tap_ok(rounds(500) == 21, "if a round takes longer, there are fewer");
	clock_ns += UINT64_C(3600) * 1000 * MS;
	waits_share();
	tap_ok(rounds(250) == 41, "the time between two waits does not count");
	waits_share();
	for (unsigned int round = 1; round <= 61; round++, clock_ns += 50 * MS)
		wait_is_over(round);
	clock_ns += UINT64_C(3600) * 1000 * MS;
	tap_ok(rounds(50) == 141, "after a wait of three seconds, seven are left");
	return tap_end();
}
