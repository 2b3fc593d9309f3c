/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IOSTAT_H
#define RXADM_IOSTAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum io_operation {
	IO_READ,
	IO_WRITE,
	IO_DISCARD,
	IO_FLUSH,
	IO_OPERATIONS,
};

/* What the block layer counted of a disk since it was made. */
struct iostat {
	uint64_t requests[IO_OPERATIONS];
	uint64_t bytes[IO_OPERATIONS];	/* flushes have none */
	uint64_t ms[IO_OPERATIONS];	/* the sum of what each took */
	uint64_t in_flight;
	uint64_t busy_ms;		/* while any was in flight */
};

bool iostat_parse(const char *text, struct iostat *iostat);
bool iostat_read(dev_t number, struct iostat *iostat);

#endif /* RXADM_IOSTAT_H */
