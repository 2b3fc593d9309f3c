/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_SAVE_CLONE_H
#define RXADM_KERNEL_SAVE_CLONE_H

#include <linux/rxd.h>
#include <stdbool.h>

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

#endif /* RXADM_KERNEL_SAVE_CLONE_H */
