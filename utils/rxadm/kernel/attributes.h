/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_ATTRIBUTES_H
#define RXADM_KERNEL_ATTRIBUTES_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "device/device.h"

char *ramdisk_state(uint32_t state);
char *ramdisk_node(int32_t node);
char *ramdisk_uuid(const uint8_t *uuid);

char *ramdisk_name(dev_t number);
char *ramdisk_parent(dev_t number);
char *ramdisk_named(const char *name);
char *ramdisk_by_name(const char *name);
enum exit_code device_find_named(const char *what, const char *name, struct device *dev);
enum exit_code device_find_rxd(const char *what, const char *name, struct device *dev,
			       int *index);

enum exit_code ramdisk_name_check(const char *name);
enum exit_code ramdisk_rename(const char *disk, const char *name, bool dry_run);
enum exit_code ramdisk_set_name(const char *disk, const char *name, bool dry_run);
enum exit_code ramdisk_limit(const struct device *dev, const char *text, uint64_t limit,
			     bool dry_run);
unsigned int ramdisk_memory_share(void);

#endif /* RXADM_KERNEL_ATTRIBUTES_H */
