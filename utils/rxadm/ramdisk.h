/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_RAMDISK_H
#define RXADM_RAMDISK_H

#include <linux/rxd.h>
#include <stdint.h>

char *ramdisk_state(uint32_t state);
char *ramdisk_node(int32_t node);
char *ramdisk_uuid(const uint8_t *uuid);

int ramdisk_extents(int fd, void (*each)(void *data, const struct rxd_extent *extent),
		    void *data);

#endif /* RXADM_RAMDISK_H */
