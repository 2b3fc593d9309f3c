/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_HOLD_ARM_H
#define RXD_HOLD_ARM_H

#include <linux/workqueue.h>

#include "disk.h"

struct rxd_hold;

int rxd_disk_arm(struct rxd_disk *rxd, struct rxd_hold **hold);
void rxd_disk_disarm_later(struct rxd_disk *rxd);
void rxd_disk_disarm(struct work_struct *work);

#endif /* RXD_HOLD_ARM_H */
