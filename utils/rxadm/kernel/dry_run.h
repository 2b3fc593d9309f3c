/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_DRY_RUN_H
#define RXADM_KERNEL_DRY_RUN_H

#include <linux/rxd.h>

#include "kernel/device.h"

int dry_run_create(int fd, const struct rxd_create *arg);
int dry_run_resize(int fd, const struct rxd_resize *arg);
enum exit_code dry_run_remove(int fd, const struct device *dev, int index);
enum exit_code dry_run_clear(int fd, const struct device *dev, int index);

#endif /* RXADM_KERNEL_DRY_RUN_H */
