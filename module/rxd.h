/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What rxd.ko offers to other modules: the use of a whole RAM disk as a cache's
 * memory. The functions of store.h that are exported go with it.
 */
#ifndef RXD_H
#define RXD_H

#include "store.h"

struct block_device;

struct rxd_store *rxd_claim(struct block_device *bdev, const void *owner,
			    unsigned int opens);
int rxd_take(struct block_device *bdev, const void *owner, unsigned int opens);
void rxd_release(struct block_device *bdev, const void *owner);

#endif /* RXD_H */
