/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_SAVE_COST_H
#define RXADM_KERNEL_SAVE_COST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The saves of a RAM disk to files, since it was created. */
struct save_cost {
	uint64_t failures;
	uint64_t time;		/* end of the last that succeeded, since the epoch; 0: none */
	uint64_t ms;		/* how long that took */
	uint64_t bytes;		/* what that wrote */
	uint64_t start;		/* when autosave began, since the epoch; 0: it did not */
};

void save_cost_add(const char *sequence, bool success, uint64_t ms, uint64_t bytes);
void save_cost_begin(dev_t disk);
void save_cost_read(dev_t disk, struct save_cost *cost);

#endif /* RXADM_KERNEL_SAVE_COST_H */
