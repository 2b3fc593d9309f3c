/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_DIFF_H
#define RXD_DIFF_H

#include <linux/types.h>
#include <uapi/linux/rxd.h>

#include "disk.h"

int rxd_diff(struct rxd_disk *rxd, struct rxd_diff __user *argp);

#endif /* RXD_DIFF_H */
