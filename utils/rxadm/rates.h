/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_RATES_H
#define RXADM_RATES_H

#include <stdbool.h>
#include <stdint.h>

/* What a block device and its cache have counted since they were made. */
struct counts {
	uint64_t reads;
	uint64_t writes;
	uint64_t read_sectors;
	uint64_t write_sectors;
	uint64_t busy_ms;	/* of all reads and writes together */
	uint64_t hits;
	uint64_t misses;
};

/* What that comes to, a second. */
struct rates {
	double reads;
	double writes;
	double read_bytes;
	double write_bytes;
	bool has_latency;	/* anything was read or written */
	double latency_us;	/* mean */
	bool has_hits;		/* the cache was asked for anything */
	double hit_percent;
};

bool rates_parse_stat(const char *text, struct counts *counts);
struct rates rates_between(const struct counts *before, const struct counts *after,
			   double seconds);

#endif /* RXADM_RATES_H */
