/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define KERNEL_NAME_MAX	64

struct device {
	const char *what;			/* its role in the command, for messages */
	char *path;				/* as the user gave it, or /dev/NAME */
	char kernel_name[KERNEL_NAME_MAX];	/* as in sysfs: vdb1, dm-0 */
	dev_t number;
};

enum exit_code device_find(const char *what, const char *name, struct device *dev);
void device_release(struct device *dev);

char *device_path(dev_t number);
bool device_wait(const char *path, dev_t number);
void device_announce(dev_t number);
enum exit_code device_open_unused(const struct device *dev, int *fd);

DIR *sysfs_open(dev_t number, const char *folder);
char *sysfs_read(dev_t number, const char *attribute);
int sysfs_write(const char *path, const char *value, bool dry_run);
bool sysfs_read_number(dev_t device, const char *attribute, dev_t *number);
bool sysfs_number_of(const char *name, dev_t *number);
bool devices_overlap(dev_t a, dev_t b);

struct disk_family {
	dev_t *numbers;
	size_t count;
};

struct disk_family disk_family_of(dev_t number);
bool disk_family_has(const struct disk_family *family, dev_t number);
void disk_family_release(struct disk_family *family);

enum io_operation {
	IO_READ,
	IO_WRITE,
	IO_DISCARD,
	IO_FLUSH,
	IO_OPERATIONS,
};

/* I/O counters of the block layer for a disk, since the disk was created. */
struct iostat {
	uint64_t requests[IO_OPERATIONS];
	uint64_t bytes[IO_OPERATIONS];	/* flushes have none */
	uint64_t ms[IO_OPERATIONS];	/* total duration */
	uint64_t in_flight;
	uint64_t busy_ms;		/* time with requests in flight */
};

bool iostat_parse(const char *text, struct iostat *iostat);
bool iostat_read(dev_t number, struct iostat *iostat);

#endif /* DEVICE_DEVICE_H */
