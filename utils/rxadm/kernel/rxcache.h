/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_RXCACHE_H
#define RXADM_KERNEL_RXCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define RXCACHE_TARGET	"rxcache"
#define RXCACHE_UUID	"RXCACHE-"	/* prefix of the UUIDs of our mappings */

#define RXCACHE_DEFAULT_MODE		"writethrough"
#define RXCACHE_DEFAULT_BLOCK_SIZE	4096
#define RXCACHE_BLOCKS_MIN		16	/* RXC_SLOTS_MIN of the target */
#define RXCACHE_SIZE_PARTS		32	/* RXC_SIZE_PARTS of the target */
#define RXCACHE_WAYS			64	/* RXC_WAYS of the target */
#define RXCACHE_MODE_MAX		32

struct rxcache_features {
	char mode[RXCACHE_MODE_MAX];
	uint64_t block_size;	/* sectors, 0 if not given */
	uint64_t seq_cutoff;	/* bytes, 0 if there is none */
	uint64_t size;		/* limit of the cached data in bytes, 0 if there is none */
	uint64_t min_size;	/* memory beyond it is lent, in bytes; 0: none is */
	uint64_t advise;	/* 1: the advice is on */
	/* In blocks, of a status with @min_size; the last two are counters. */
	uint64_t lent, given_back, taken;
};

struct rxcache_table {
	bool unmade;		/* @cache would be made: of a dry run */
	dev_t origin;
	dev_t cache;
	struct rxcache_features features;
	uint64_t diskseq;	/* the RAM disk is taken only if it has both; 0: in any case */
	uint64_t changes;
};

enum rxcache_counter {
	RXCACHE_READ_HITS,
	RXCACHE_READ_MISSES,
	RXCACHE_READ_PARTIALS,
	RXCACHE_WRITE_HITS,
	RXCACHE_WRITE_MISSES,
	RXCACHE_WRITE_PARTIALS,
	RXCACHE_FILLS,
	RXCACHE_EVICTIONS,
	RXCACHE_BYPASSES,
	RXCACHE_INVALIDATIONS,
	RXCACHE_ORIGIN_ERRORS,
	RXCACHE_COUNTERS,
};

struct rxcache_status {
	uint64_t block_size;	/* sectors */
	uint64_t used;		/* blocks */
	uint64_t total;		/* blocks */
	uint64_t metadata;	/* bytes */
	uint64_t counters[RXCACHE_COUNTERS];
	struct rxcache_features features;
};

char *rxcache_parse_table(const char *line, struct rxcache_table *table);
char *rxcache_parse_status(const char *line, struct rxcache_status *status);
char *rxcache_format_table(const struct rxcache_table *table);
uint64_t rxcache_size(const struct rxcache_status *status);

/* Return: how many of the blocks of a RAM disk a cache uses. Its sets are of one size. */
static inline uint64_t rxcache_slots(uint64_t blocks)
{
	uint64_t fewer = blocks / RXCACHE_WAYS, more = fewer + !!(blocks % RXCACHE_WAYS);
	uint64_t of_more = more ? more * (blocks / more) : 0;

	return fewer * RXCACHE_WAYS > of_more ? fewer * RXCACHE_WAYS : of_more;
}

/* Would the cache have more blocks after a reload? @ramdisk: size of its RAM disk in bytes */
static inline bool rxcache_is_outgrown(const struct rxcache_status *status, uint64_t ramdisk)
{
	return rxcache_slots(ramdisk / (status->block_size * 512)) > status->total;
}

/* Return: the least size that a cache can be given, in blocks. */
static inline uint64_t rxcache_least_blocks(const struct rxcache_status *status)
{
	uint64_t least = status->total / RXCACHE_SIZE_PARTS +
			 !!(status->total % RXCACHE_SIZE_PARTS);

	return least > RXCACHE_BLOCKS_MIN ? least : RXCACHE_BLOCKS_MIN;
}

#define ADVICE_SIZES	8
/* Which of them is the present one. */
#define ADVICE_PRESENT	3
/* How often the samples can be halved. */
#define ADVICE_HALVED_MAX	2

enum advice_time {
	ADVICE_HOUR,
	ADVICE_DAY,
	ADVICE_TIMES,
};

/* What caches of other sizes would do with the reads of the last hour and day. */
struct advice {
	bool on;
	int error;	/* if it is not on: ENODATA, or why the target cannot tell it now */
	struct {
		uint64_t seconds;	/* without those that are left out */
		uint64_t left_out;	/* seconds in which too many samples were lost */
		uint64_t reads;		/* blocks */
		uint64_t fed, lost;	/* samples */
	} time[ADVICE_TIMES];
	uint64_t halved;	/* how often the samples were halved, because too many were lost */
	struct {
		uint64_t blocks;
		uint64_t used;		/* blocks that it would hold now */
		uint64_t misses[ADVICE_TIMES];	/* blocks */
	} size[ADVICE_SIZES];
};

char *advice_parse(const char *text, struct advice *advice);

/* Return: a size as a multiple of the present one. */
static inline double advice_times(const struct advice *advice, unsigned int size)
{
	return (double)advice->size[size].blocks / advice->size[ADVICE_PRESENT].blocks;
}

/* Return: the share of the reads that a cache of a size would have served, 0 to 1. */
static inline double advice_hit_ratio(const struct advice *advice, unsigned int size,
				      enum advice_time time)
{
	uint64_t reads = advice->time[time].reads, misses = advice->size[size].misses[time];

	return misses < reads ? 1 - (double)misses / reads : 0;
}

/* A size has been full if it uses so much of its blocks: some sets are full before others. */
#define ADVICE_FULL_PERCENT	90
/* So few misses do not matter, of the reads in the last hour, or in the day if that has none. */
#define ADVICE_FEW_PERCENT	1

/*
 * A size that has never been full has missed only blocks that it had not seen before. What it is
 * worth is not known yet, unless these are few. Return: whether it is known.
 */
static inline bool advice_is_known(const struct advice *advice, unsigned int size)
{
	enum advice_time time = advice->time[ADVICE_HOUR].reads ? ADVICE_HOUR : ADVICE_DAY;

	return 100.0 * advice->size[size].used >= ADVICE_FULL_PERCENT * advice->size[size].blocks ||
	       100.0 * advice->size[size].misses[time] <
	       (double)ADVICE_FEW_PERCENT * advice->time[time].reads;
}

#define LATENCY_BINS	19

/* A histogram of the duration of I/Os. */
struct latency {
	bool measured;
	uint64_t total;
	uint64_t sum_ns;	/* total duration */
	uint64_t count[LATENCY_BINS];
};

/* Lower bounds of all bins but the first, in ns; 0: the end. */
extern const uint64_t latency_bounds[LATENCY_BINS];

/* Return: the lower bound of a bin, which is the upper bound of the one before it, in ns. */
static inline uint64_t latency_from(unsigned int bin)
{
	return bin ? latency_bounds[bin - 1] : 0;
}

char *latency_parse(const char *text, struct latency *latency);

/* In sectors. */
struct range {
	uint64_t start;
	uint64_t length;
};

struct ranges {
	struct range *list;
	size_t count;
};

void ranges_add(struct ranges *ranges, uint64_t start, uint64_t length);
void ranges_sort(struct ranges *ranges);
void ranges_free(struct ranges *ranges);

char *ranges_read(FILE *file, uint64_t sectors, struct ranges *ranges);
void ranges_write(FILE *file, const struct ranges *ranges);

#endif /* RXADM_KERNEL_RXCACHE_H */
