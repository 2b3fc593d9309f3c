/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface of rxd.ko for other modules, which may use a whole RAM disk as the memory
 * of a cache. The exported functions of store.h and lend.h are
 * a part of it.
 */
#ifndef RXD_H
#define RXD_H

#include <linux/list.h>
#include <linux/types.h>

#include "lend.h"
#include "store.h"

struct block_device;

/**
 * struct rxd_seen - what the caller has seen of a RAM disk, see RXD_IF_SAME
 * @diskseq: the diskseq of the disk
 * @changes: the number in the sysfs file changes, or RXD_CHANGES_ANY
 */
struct rxd_seen {
	u64 diskseq;
	u64 changes;
};

/**
 * struct rxd_promise - the memory of a RAM disk that a cache does not give back
 * @list: entry in the list of promises of the disk, or empty; the caller initialises it
 * @bytes: number of bytes; the caller sets it to 0, and then rxd_promise() sets it
 */
struct rxd_promise {
	struct list_head list;
	u64 bytes;
};

struct rxd_store *rxd_claim(struct block_device *bdev, const void *owner,
			    unsigned int opens);
int rxd_take(struct block_device *bdev, const void *owner, unsigned int opens,
	     const struct rxd_seen *seen);
int rxd_move_pages(struct block_device *bdev, const void *owner,
		   void (*move)(struct rxd_moves *moves, void *data), void *data);
void rxd_release(struct block_device *bdev, const void *owner);

int rxd_promise(struct block_device *bdev, struct rxd_promise *mine, u64 bytes, bool force);
void rxd_withdraw(struct block_device *bdev, struct rxd_promise *mine);

#endif /* RXD_H */
