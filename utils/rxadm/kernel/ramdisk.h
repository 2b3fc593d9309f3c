/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_RAMDISK_H
#define RXADM_KERNEL_RAMDISK_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "device/device.h"

/* Operations on a RAM disk that exclude each other: the bit of the key of their lock. */
enum disk_lock {
	DISK_LOCK_EMPTY = 59,	/* empty it: see disk_empty_begin() */
	DISK_LOCK_SAVE = 60,	/* save it to a file */
	DISK_LOCK_DATA = 61,	/* check whether its data can be discarded, and do that */
	DISK_LOCK_SIZE = 62,	/* change its size */
};

uint64_t disk_lock_key(const char *sequence, enum disk_lock what);
enum exit_code disk_lock(const struct device *dev, const char *sequence, enum disk_lock what);
void disk_unlock(const char *sequence, enum disk_lock what);
enum exit_code disk_empty_begin(const struct device *dev, const char *sequence);
enum exit_code disk_empty_end(const char *sequence, bool emptied);
enum exit_code disk_check_emptying(const struct device *dev, const char *sequence);

enum exit_code ramdisk_reset(int fd, const char *name, const char *source_name, bool force,
			     bool dry_run);

struct resize_request {
	const char *device;
	const char *size_text;
	uint64_t size;
	bool grow;		/* never shrink, whatever @flags are */
	uint32_t flags;
	bool dry_run;		/* only check, and print what would be done */
	bool quiet;		/* with @dry_run: print nothing */
	bool for_cache;		/* the caller has the cache use the new size */
};

enum exit_code ramdisk_resize(int fd, const struct device *dev, int index,
			      const struct resize_request *request);
enum exit_code ramdisk_grow(dev_t disk, const struct resize_request *request);

#endif /* RXADM_KERNEL_RAMDISK_H */
