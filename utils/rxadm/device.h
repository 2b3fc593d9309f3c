/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_DEVICE_H
#define RXADM_DEVICE_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

#include "error.h"

#define KERNEL_NAME_MAX	64

struct device {
	const char *what;			/* its part in the command, for messages */
	char *path;				/* as the user called it, from / on */
	char kernel_name[KERNEL_NAME_MAX];	/* as in sysfs: vdb1, dm-0 */
	dev_t number;
};

enum exit_code device_find(const char *what, const char *name, struct device *dev);
enum exit_code device_find_rxd(const char *what, const char *name, struct device *dev,
			       int *index);
void device_release(struct device *dev);

char *device_path(dev_t number);
bool device_wait(const char *path, dev_t number);

DIR *sysfs_open(dev_t number, const char *folder);
char *sysfs_read(dev_t number, const char *attribute);
bool sysfs_read_number(dev_t device, const char *attribute, dev_t *number);
bool sysfs_number_of(const char *name, dev_t *number);

#endif /* RXADM_DEVICE_H */
