/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_UNUSED_H
#define RXCP_UNUSED_H

#include <stdint.h>

/* Ranges that the file systems and swap areas of a disk do not use. */
struct unused;

struct unused *unused_open(int fd, uint64_t size);
void unused_next(struct unused *unused, uint64_t from, uint64_t *start, uint64_t *end);
void unused_close(struct unused *unused);

#endif /* RXCP_UNUSED_H */
