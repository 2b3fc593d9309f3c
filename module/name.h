/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_NAME_H
#define RXD_NAME_H

#include <linux/types.h>

#include "disk.h"

int rxd_name_set(struct rxd_disk *rxd, const char *text, size_t len);
void rxd_name_get(struct rxd_disk *rxd, char *name);
void rxd_name_drop(struct rxd_disk *rxd);

#endif /* RXD_NAME_H */
