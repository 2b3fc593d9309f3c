/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_CLOCK_H
#define COPY_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Time of the monotonic clock in nanoseconds. */
static inline uint64_t copy_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

/*
 * The same time at the last timer tick, up to 10 ms ago. copy_clock() makes a system call where
 * programs cannot read the hardware clock, for example if the TSC is unstable; this does not.
 */
static inline uint64_t copy_clock_coarse(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

#endif /* COPY_CLOCK_H */
