/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_FILESYSTEMS_H
#define DEVICE_FILESYSTEMS_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"

/* The mounted file systems on a disk, for RXD_CLONE. */
struct filesystems {
	int32_t fds[RXD_CLONE_FDS_MAX];	/* a file of each */
	uint32_t count;
	bool searched;			/* false: the disk was not in use */
	char *unfrozen;			/* users that cannot be frozen, as text; NULL: none */
};

enum exit_code filesystems_open(const struct device *disk, struct filesystems *found);
enum exit_code filesystems_check_swap(const struct device *disk);
bool filesystems_have(const struct device *disk, int folder_fd);
void filesystems_close(struct filesystems *found);

#endif /* DEVICE_FILESYSTEMS_H */
