/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef GENERATOR_NETWORK_H
#define GENERATOR_NETWORK_H

#include "config/config.h"

/* Where to look for mounts. */
struct mount_sources {
	const char *fstab;
	const char *units;	/* folders of units, the first has priority; separated by colons */
};

void network_mark(struct config *config, struct config *started,
		  const struct mount_sources *sources);

#endif /* GENERATOR_NETWORK_H */
