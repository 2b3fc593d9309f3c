/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_TRACK_H
#define RXADM_KERNEL_TRACK_H

#include <stdint.h>
#include <sys/types.h>

int track_begin(int control, int index, dev_t disk, const uint8_t *state);
int track_end(int control, int index);

#endif /* RXADM_KERNEL_TRACK_H */
