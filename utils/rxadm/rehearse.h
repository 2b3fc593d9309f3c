/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_REHEARSE_H
#define RXADM_REHEARSE_H

#include <linux/rxd.h>

#include "device.h"

int rehearse_create(int fd, const struct rxd_create *arg);
int rehearse_resize(int fd, const struct device *dev, const struct rxd_resize *arg);
void rehearse_remove(const struct rxd_remove *arg);
void rehearse_clear(const struct rxd_clear *arg);

#endif /* RXADM_REHEARSE_H */
