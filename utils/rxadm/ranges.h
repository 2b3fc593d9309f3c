/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_RANGES_H
#define RXADM_RANGES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Sectors. */
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

#endif /* RXADM_RANGES_H */
