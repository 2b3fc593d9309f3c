// SPDX-License-Identifier: GPL-2.0-only
/*
 * From two readings of counters to what happened between them. Nothing here looks
 * at the machine.
 */
#include <stdio.h>

#include "rates.h"

#define SECTOR	512

/**
 * rates_parse_stat - read the file stat of a block device in sysfs
 * @text: its line
 * @counts: out: what it counts; the hits and misses stay as they are
 *
 * Return: whether it was understood.
 */
bool rates_parse_stat(const char *text, struct counts *counts)
{
	unsigned long long reads, read_sectors, read_ms, writes, write_sectors, write_ms;

	if (sscanf(text, "%llu %*u %llu %llu %llu %*u %llu %llu", &reads, &read_sectors, &read_ms,
		   &writes, &write_sectors, &write_ms) != 6)
		return false;
	counts->reads = reads;
	counts->writes = writes;
	counts->read_sectors = read_sectors;
	counts->write_sectors = write_sectors;
	counts->busy_ms = read_ms + write_ms;
	return true;
}

/* A counter that went back was set to zero in between. */
static double grown(uint64_t before, uint64_t after)
{
	return after < before ? after : after - before;
}

/**
 * rates_between - what happened between two readings
 * @before: the first
 * @after: the second
 * @seconds: time between them, more than 0
 */
struct rates rates_between(const struct counts *before, const struct counts *after,
			   double seconds)
{
	double reads = grown(before->reads, after->reads);
	double writes = grown(before->writes, after->writes);
	double hits = grown(before->hits, after->hits);
	double misses = grown(before->misses, after->misses);
	struct rates rates = {
		.reads = reads / seconds,
		.writes = writes / seconds,
		.read_bytes = grown(before->read_sectors, after->read_sectors) * SECTOR / seconds,
		.write_bytes = grown(before->write_sectors, after->write_sectors) * SECTOR /
			       seconds,
		.has_latency = reads + writes > 0,
		.has_hits = hits + misses > 0,
	};

	if (rates.has_latency)
		rates.latency_us = grown(before->busy_ms, after->busy_ms) * 1000 /
				   (reads + writes);
	if (rates.has_hits)
		rates.hit_percent = 100 * hits / (hits + misses);
	return rates;
}
