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
#define RXCACHE_MODE_MAX		32

struct rxcache_features {
	char mode[RXCACHE_MODE_MAX];
	uint64_t block_size;	/* sectors, 0 if not given */
	uint64_t seq_cutoff;	/* bytes, 0 if there is none */
	uint64_t size;		/* limit of the cached data in bytes, 0 if there is none */
};

struct rxcache_table {
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

uint64_t latency_from(unsigned int bin);
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
