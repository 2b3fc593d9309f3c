/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_DISK_H
#define RXD_DISK_H

#include <linux/blkdev.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/stddef.h>
#include <linux/sysfs.h>
#include <linux/types.h>
#include <linux/uuid.h>
#include <uapi/linux/rxd.h>

#include "store.h"

/**
 * struct rxd_disk - a RAM disk
 * @refs: who uses this structure
 * @store: its pages
 * @gd: its gendisk
 * @index: device number
 * @overcommit: it was allowed to exceed the machine-wide share
 * @reserved: all its memory is taken
 * @detect_zeroes: zeros are not stored
 * @folio_size: the largest piece of memory a write asks for, in bytes
 * @node: as rxd_create.node
 * @uuid: its UUID
 * @promised: how much of the machine-wide share it has; control.c's
 * @lock: one at a time resizes, clears, claims or removes the disk. Who holds it must
 *	not reclaim memory by I/O: a cache that is suspended may wait for it.
 * @removing: it goes for good; changed under @lock and the gendisk's open_mutex
 * @shut: it cannot be opened for now; as @removing
 * @owner: what uses the disk, or will, as its cache, or NULL
 * @nr_claims: how many times @owner claimed it
 * @taken: the pages are @owner's by now: all other I/O is refused
 * @nospc: writes that found no memory
 * @discards: discards and write-zeroes that freed memory
 *
 * I/O writes to the counters only, which have a cache line of their own.
 */
struct rxd_disk {
	refcount_t refs;
	struct rxd_store *store;
	struct gendisk *gd;
	int index;
	bool overcommit;
	bool reserved;
	bool detect_zeroes;
	unsigned int folio_size;
	int node;
	uuid_t uuid;
	u64 promised;
	struct mutex lock; /* resizing, clearing, claiming, removing */
	bool removing;
	bool shut;
	const void *owner;
	unsigned int nr_claims;
	bool taken;
	atomic64_t nospc ____cacheline_aligned_in_smp;
	atomic64_t discards;
};

static_assert(!IS_ENABLED(CONFIG_SMP) ||
	      offsetof(struct rxd_disk, nospc) / SMP_CACHE_BYTES >
	      offsetof(struct rxd_disk, taken) / SMP_CACHE_BYTES);

extern const struct attribute_group *rxd_disk_groups[];

struct rxd_disk *rxd_disk_alloc(const struct rxd_create *arg);
void rxd_disk_get(struct rxd_disk *rxd);
void rxd_disk_put(struct rxd_disk *rxd);
int rxd_disk_build(struct rxd_disk *rxd, const struct rxd_create *arg);
int rxd_disk_add(struct rxd_disk *rxd);
int rxd_disk_shut_down(struct rxd_disk *rxd);
void rxd_disk_remove(struct rxd_disk *rxd);
int rxd_disk_resize(struct rxd_disk *rxd, u64 size, bool force);
int rxd_disk_clear(struct rxd_disk *rxd);
u64 rxd_disk_size(const struct rxd_disk *rxd);
u32 rxd_disk_state(struct rxd_disk *rxd);
int rxd_disk_set_mem_limit(struct rxd_disk *rxd, u64 limit);
void rxd_disk_query(struct rxd_disk *rxd, struct rxd_query *arg);

#endif /* RXD_DISK_H */
