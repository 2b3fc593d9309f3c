/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_MAP_H
#define RXD_MAP_H

#include <linux/types.h>
#include <uapi/linux/rxd.h>

#include "disk.h"

int rxd_map(struct rxd_disk *rxd, struct rxd_map __user *argp);
int rxd_changed(struct rxd_disk *rxd, struct rxd_changed __user *argp);
int rxd_diff(struct rxd_disk *rxd, struct rxd_diff __user *argp);

#endif /* RXD_MAP_H */
