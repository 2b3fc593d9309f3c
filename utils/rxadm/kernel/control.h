/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_CONTROL_H
#define RXADM_KERNEL_CONTROL_H

#include <linux/rxd.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/device.h"
#include "lib/error.h"

/* The oldest that this rxadm can save the RAM disks of, and remove them. */
#define CONTROL_ABI_OLDEST	1

enum exit_code control_open(int *fd);
uint32_t control_abi(void);
int control_query(int fd, int index, uint32_t flags, struct rxd_query *query);
enum exit_code control_error(int err, const char *object);
enum exit_code control_idle(int fd, unsigned long request, const void *arg,
			    const struct device *dev);
enum exit_code control_idle_check(int fd, int index, const struct device *dev);
enum exit_code control_shrink_error(int fd, const struct device *dev, int index);
enum exit_code control_reserve_error(const char *text);
uint64_t control_share_left(int fd, int index);
enum exit_code control_share_error(int fd, const char *text, uint64_t size, int index);

char *ramdisk_state(uint32_t state);
char *ramdisk_node(int32_t node);
char *ramdisk_uuid(const uint8_t *uuid);

char *ramdisk_name(dev_t number);
char *ramdisk_named(const char *name);
char *ramdisk_by_name(const char *name);
enum exit_code device_find_rxd(const char *what, const char *name, struct device *dev,
			       int *index);

int ramdisk_extents(int fd, void (*each)(void *data, const struct rxd_extent *extent),
		    void *data);

#endif /* RXADM_KERNEL_CONTROL_H */
