/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_CLONE_H
#define RXD_CLONE_H

#include <linux/types.h>
#include <linux/uuid.h>
#include <uapi/linux/rxd.h>

#include "disk.h"
#include "freeze.h"

struct rxd_hold;
struct rxd_record;

/**
 * struct rxd_cloning - a disk that is being cloned
 * @source: the disk
 * @freeze: the file systems to be frozen
 * @arg: the argument of RXD_CLONE; its times and changes are filled in
 * @hold: for the disk, see rxd_disk_arm()
 * @record: with RXD_CLONE_TRACK, the next record of changes of the disk
 */
struct rxd_cloning {
	struct rxd_disk *source;
	struct rxd_freeze freeze;
	struct rxd_clone *arg;
	struct rxd_hold *hold;
	struct rxd_record *record;
};

/**
 * struct rxd_snapshot - the data of a disk at one moment
 * @store: a store that shares the data; NULL in a dry run
 * @nr_pages: capacity in pages
 * @logical_block_size: in bytes
 * @used: number of pages that hold data
 * @uuid: UUID of the disk
 */
struct rxd_snapshot {
	struct rxd_store *store;
	unsigned long nr_pages;
	unsigned int logical_block_size;
	unsigned long used;
	uuid_t uuid;
};

int rxd_disk_like(struct rxd_disk *rxd, struct rxd_create *arg, bool expendable);
int rxd_disk_clone(struct rxd_cloning *cloning, struct rxd_disk *rxd);
int rxd_disk_prepare_snapshot(struct rxd_disk *rxd, struct rxd_snapshot *snapshot);
int rxd_disk_snapshot(struct rxd_disk *rxd, struct rxd_snapshot *snapshot);
int rxd_disk_reset(struct rxd_disk *rxd, const struct rxd_snapshot *snapshot,
		   const struct rxd_seen *seen, bool dry_run);

#endif /* RXD_CLONE_H */
