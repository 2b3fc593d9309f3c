/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_LATENCY_H
#define RXADM_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

#define LATENCY_BINS	19

/* How many I/Os took how long. */
struct latency {
	bool measured;
	uint64_t total;
	uint64_t sum_ns;	/* what they took together */
	uint64_t count[LATENCY_BINS];
};

uint64_t latency_from(unsigned int bin);
char *latency_parse(const char *text, struct latency *latency);

enum exit_code latency_measure(const char *name, bool on, bool dry_run);
enum exit_code latency_read(const char *name, struct latency *latency);

#endif /* RXADM_LATENCY_H */
