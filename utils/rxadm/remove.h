/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_REMOVE_H
#define RXADM_REMOVE_H

#include "device.h"
#include "error.h"

enum exit_code ramdisk_remove(int fd, const struct device *dev, int index);
enum exit_code ramdisk_clear(int fd, const struct device *dev, int index);

#endif /* RXADM_REMOVE_H */
