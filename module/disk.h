/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_DISK_H
#define RXD_DISK_H

#include <linux/blkdev.h>
#include <linux/mutex.h>
#include <linux/sysfs.h>
#include <linux/types.h>
#include <linux/uuid.h>
#include <uapi/linux/rxd.h>

#include "store.h"

/**
 * struct rxd_disk - a RAM disk
 * @store: its pages
 * @gd: its gendisk
 * @index: device number
 * @overcommit: it was allowed to exceed the machine-wide share
 * @reserved: all its memory is taken
 * @detect_zeroes: zeros are not stored
 * @folio_size: the largest piece of memory a write asks for, in bytes
 * @node: as rxd_create.node
 * @uuid: its UUID
 * @removing: no more openers; changed under the gendisk's open_mutex
 * @lock: serialises resizing and claiming
 * @owner: what uses the disk as its cache, or NULL; I/O is refused then
 * @nr_claims: how many times @owner claimed it
 * @taken: the pages are @owner's by now
 * @nospc: writes that found no memory
 * @discards: discards and write-zeroes that freed memory
 */
struct rxd_disk {
	struct rxd_store *store;
	struct gendisk *gd;
	int index;
	bool overcommit;
	bool reserved;
	bool detect_zeroes;
	unsigned int folio_size;
	int node;
	uuid_t uuid;
	bool removing;
	struct mutex lock; /* resizing, claiming */
	const void *owner;
	unsigned int nr_claims;
	bool taken;
	atomic64_t nospc;
	atomic64_t discards;
};

extern const struct attribute_group *rxd_disk_groups[];

struct rxd_disk *rxd_disk_create(const struct rxd_create *arg, int index);
int rxd_disk_remove(struct rxd_disk *rxd);
int rxd_disk_resize(struct rxd_disk *rxd, u64 size, bool force);
int rxd_disk_clear(struct rxd_disk *rxd);
u64 rxd_disk_size(const struct rxd_disk *rxd);
u32 rxd_disk_state(struct rxd_disk *rxd);
int rxd_disk_set_mem_limit(struct rxd_disk *rxd, u64 limit);
void rxd_disk_query(struct rxd_disk *rxd, struct rxd_query *arg);

#endif /* RXD_DISK_H */
