/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_TARGET_H
#define RXCP_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "../copy/file.h"
#include "source.h"

/* Destination of a copy: a new file, or a block device. */
struct target {
	const char *path;
	int fd;
	bool is_device;
	bool replaces;		/* something that exists */
	bool sync;		/* a file and its folder; a device is always synced */
	bool unpunched;		/* a hole could not be punched */
	uint64_t page;		/* preferred I/O size of a file: st_blksize */
	struct stat old;
	int old_fd;		/* the file that is replaced, or -1 */
	struct output output;
};

bool target_folder(const char *path, bool sync, int *folder);
bool target_open(struct target *target, const char *path, int folder, bool sync,
		 const struct source *source);
uint64_t target_block(struct target *target, uint64_t min, uint64_t max);
uint64_t target_skip(struct target *target, uint64_t offset, uint64_t length);
void target_leave(struct target *target, uint64_t offset, uint64_t length);
int target_finish(struct target *target, uint64_t size, uint64_t written);
bool target_commit(struct target *target, const struct source *source, mode_t mask);
void target_discard(struct target *target);

#endif /* RXCP_TARGET_H */
