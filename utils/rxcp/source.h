/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_SOURCE_H
#define RXCP_SOURCE_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "unused.h"

/* Which ranges need not be read. */
enum smart {
	SMART_NONE,
	SMART_HOLES,	/* holes of files, unallocated ranges of RAM disks */
	SMART_UNUSED,	/* also unused blocks of file systems */
};

struct source {
	const char *path;
	int fd;
	struct stat st;
	uint64_t size;
	enum smart smart;
	bool has_holes;		/* by st_blocks, or by SEEK_HOLE */
	uint64_t data_start;	/* of a file: the data that was found last */
	uint64_t data_end;
	bool is_rxd;
	struct unused *unused;
	struct rxd_extent *extents;	/* a part of the list of extents */
	uint32_t nr_extents;
	uint32_t next_extent;
	uint64_t mapped;		/* how far that part reaches */
};

__attribute__((format(printf, 1, 2)))
bool complain(const char *format, ...);
bool source_open(struct source *source, const char *path, enum smart smart);
int source_next(struct source *source, uint64_t from, uint64_t *start, uint64_t *end);
bool source_was_written(const struct source *source);
bool source_shrank(const struct source *source);
void source_close(struct source *source);

#endif /* RXCP_SOURCE_H */
