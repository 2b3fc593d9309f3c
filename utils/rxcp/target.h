/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_TARGET_H
#define RXCP_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "../copy/file.h"
#include "source.h"

/* Where a copy goes: a new file, or a block device. */
struct target {
	const char *path;
	int fd;
	bool is_device;
	bool replaces;		/* a file that is there */
	uint64_t page;		/* what a file had better be written in multiples of */
	struct stat old;
	struct output output;
};

bool target_folder(const char *path, int *folder);
bool target_open(struct target *target, const char *path, int folder,
		 const struct source *source);
uint64_t target_block(struct target *target, uint64_t min, uint64_t max);
bool target_skip(struct target *target, uint64_t offset, uint64_t length);
int target_finish(struct target *target, uint64_t size, uint64_t written, bool sync);
bool target_commit(struct target *target, const struct source *source, mode_t mask, bool sync);
void target_discard(struct target *target);

#endif /* RXCP_TARGET_H */
