/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_OPENERS_H
#define RXADM_KERNEL_OPENERS_H

#include <sys/types.h>

char *device_openers(dev_t number);
char *device_writers(dev_t number);
char *openers_of(dev_t number);

#endif /* RXADM_KERNEL_OPENERS_H */
