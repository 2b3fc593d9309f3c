/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_DEVICE_USERS_H
#define DEVICE_DEVICE_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "device/device.h"

/* Lists with one element per line; NULL: none. */
struct users {
	char *mounts;	/* folders */
	char *swaps;	/* paths of devices */
	char *holders;	/* paths of devices on top of it */
	char *exports;	/* NQN, address, and the command that ends the export */
};

struct users users_read(dev_t number);
void users_release(struct users *users);

char *users_of(dev_t number);
char *users_left(dev_t number, const struct users *ended);

#endif /* DEVICE_DEVICE_USERS_H */
