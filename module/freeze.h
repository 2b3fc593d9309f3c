/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_FREEZE_H
#define RXD_FREEZE_H

#include <linux/types.h>
#include <uapi/linux/rxd.h>

struct file;

/**
 * struct rxd_freeze - file systems that are frozen while a disk is cloned
 * @file: a file of each file system
 * @nr_files: number of files
 * @nr_frozen: number of these file systems that are frozen
 * @start: when the first one was about to be frozen, in ns
 * @ns: how long they were frozen, in ns, or 0 if there is none
 */
struct rxd_freeze {
	struct file *file[RXD_CLONE_FDS_MAX];
	unsigned int nr_files;
	unsigned int nr_frozen;
	u64 start;
	u64 ns;
};

int rxd_freeze_get(struct rxd_freeze *freeze, const s32 __user *fds, unsigned int nr);
void rxd_freeze_put(struct rxd_freeze *freeze);
int rxd_freeze_sync(const struct rxd_freeze *freeze);
int rxd_freeze(struct rxd_freeze *freeze);
int rxd_thaw(struct rxd_freeze *freeze);

#endif /* RXD_FREEZE_H */
