/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_SAVES_H
#define RXADM_KERNEL_SAVES_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "device/device.h"

/* The clone that a save of a disk in use reads. */
struct save_clone {
	int control;
	int record;		/* locked; -1: there is no clone */
	int fd;			/* the clone, with O_DIRECT; -1: not open */
	char *path;		/* of the record */
	char *node;		/* in /dev */
	struct rxd_query query;
	uint64_t changes;	/* of the source, at the moment of the clone */
	bool tracked;		/* the driver records what changes after the clone */
};

enum exit_code save_clone_make(int control, const struct device *source, int index, bool no_freeze,
			       const uint8_t *state, struct save_clone *clone);
enum exit_code save_clone_remove(struct save_clone *clone);
bool save_clone_is_lost(const struct save_clone *clone);
void save_clones_clean(int control);

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

#endif /* RXADM_KERNEL_SAVES_H */
