/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface of rxd.ko for other modules, which may use a whole RAM disk as the memory
 * of a cache. The exported functions of store.h are a part of it.
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
