/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_OUTPUT_SCREEN_H
#define RXADM_OUTPUT_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"

/* Counters of a block device and its cache since their creation. */
struct counts {
	struct iostat io;
	uint64_t hits;
	uint64_t misses;
	bool lends;		/* of an elastic cache: */
	uint64_t lent;		/* bytes, now */
	uint64_t given_back;	/* bytes */
	uint64_t taken;		/* bytes */
};

/* Rates per second. */
struct rates {
	double reads;
	double writes;
	double read_bytes;
	double write_bytes;
	bool has_latency;	/* anything was read or written */
	double latency_us;	/* mean */
	bool has_hits;		/* there were hits or misses */
	double hit_percent;
	double given_back;	/* bytes */
	double taken;		/* bytes */
};

struct rates rates_between(const struct counts *before, const struct counts *after,
			   double seconds);

/* Reason why screen_wait() returned. */
enum screen_event {
	SCREEN_TIME,	/* timeout */
	SCREEN_RESIZED,	/* the terminal must be redrawn */
	SCREEN_QUIT,	/* a key, a signal or a hangup ends the program */
};

enum exit_code screen_open(bool terminal);
void screen_close(void);
void screen_draw(const char *title, const char *text);
enum screen_event screen_wait(double seconds);

#endif /* RXADM_OUTPUT_SCREEN_H */
