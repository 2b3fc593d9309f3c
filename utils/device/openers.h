/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_OPENERS_H
#define DEVICE_OPENERS_H

#include <sys/types.h>

char *device_openers(dev_t number);
char *device_writers(dev_t number);
char *openers_of(dev_t number);

#endif /* DEVICE_OPENERS_H */
