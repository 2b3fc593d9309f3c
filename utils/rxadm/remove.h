/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_REMOVE_H
#define RXADM_REMOVE_H

#include <stdbool.h>

#include "device.h"
#include "error.h"

enum exit_code ramdisk_remove(int fd, const struct device *dev, int index, bool dry_run);
enum exit_code ramdisk_clear(int fd, const struct device *dev, int index);

#endif /* RXADM_REMOVE_H */
