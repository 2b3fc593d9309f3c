/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_LIMIT_H
#define RXADM_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "error.h"

enum exit_code ramdisk_limit(const struct device *dev, const char *text, uint64_t limit,
			     bool dry_run);

#endif /* RXADM_LIMIT_H */
