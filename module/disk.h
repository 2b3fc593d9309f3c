/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_DISK_H
#define RXD_DISK_H

#include <linux/blkdev.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/stddef.h>
#include <linux/sysfs.h>
#include <linux/types.h>
#include <linux/uuid.h>
#include <linux/workqueue.h>
#include <uapi/linux/rxd.h>

#include "expendable.h"
#include "record.h"
#include "rxd.h"
#include "store.h"

/**
 * enum rxd_refusal - why a disk rejects all bios
 * @RXD_SERVES: it does not
 * @RXD_TAKEN: a cache uses the pages
 * @RXD_LOST: it was given up, and has no pages any more
 */
enum rxd_refusal {
	RXD_SERVES,
	RXD_TAKEN,
	RXD_LOST,
};

/**
 * struct rxd_disk - a RAM disk
 * @store: the pages
 * @gd: the gendisk
 * @changes: see rxd_disk_changes()
 * @refusal: why bios are rejected; changed under @lock
 * @index: device number
 * @overcommit: the disk does not count towards the share of memory
 * @elastic: what its cache does not give back counts towards the share, in place of the size
 * @reserved: all memory of the disk is allocated
 * @detect_zeroes: pages of zeros are not stored
 * @expendable: the disk is given up if a write to another one finds no memory
 * @was_expendable: it was @expendable when it was claimed, and was not taken since then
 * @folio_size: the largest piece of memory that a write allocates, in bytes
 * @node: as in rxd_create.node
 * @refs: reference count
 * @uuid: the UUID of the disk
 * @parent: UUID of the disk from which the last clone or reset took the data, or null; see
 *	rxd_disk_set_parent()
 * @promised: bytes that count towards the share of memory; control.c uses it
 * @promises: of the tables of a cache, see rxd_promise(); control.c uses it
 * @lock: serialises resize, clear, clone, reset, claim and removal. Its holder must not reclaim
 *	memory by I/O, because a suspended cache may wait for the lock.
 * @removing: the disk is being removed; changed under @lock and the gendisk's open_mutex
 * @shut: the disk cannot be opened at present; changed as @removing
 * @owner: the user that has claimed the disk for its cache, or NULL
 * @nr_claims: number of claims of @owner
 * @lender: UUID of the disk to which the record of changes goes back when this one is removed
 * @loan: which record this is, if any; changed under @lock, except while the disk is created
 * @name: the name, or empty; name.c uses it
 * @named: entry of the list of disks with a name, or empty
 * @expend: for @expendable
 * @cloning: number of tasks that clone the disk while it is in use
 * @disarm: the work item of rxd_disk_disarm()
 * @nospc: number of writes that failed with ENOSPC
 * @discards: number of discards and write-zeroes that freed memory
 *
 * All I/O reads the first cache line, and writes to @changes once each time that this has been
 * reported. Otherwise it writes only to the counters, which have a cache line of their own.
 */
struct rxd_disk {
	struct rxd_store *store;
	struct gendisk *gd;
	atomic64_t changes;
	enum rxd_refusal refusal;
	int index;
	bool overcommit;
	bool elastic;
	bool reserved;
	bool detect_zeroes;
	bool expendable;
	bool was_expendable;
	unsigned int folio_size;
	int node;
	refcount_t refs ____cacheline_aligned_in_smp;
	uuid_t uuid;
	uuid_t parent;
	u64 promised;
	struct list_head promises;
	struct mutex lock; /* see above */
	bool removing;
	bool shut;
	const void *owner;
	unsigned int nr_claims;
	uuid_t lender;
	struct rxd_loan loan;
	char name[RXD_NAME_MAX + 1];
	struct list_head named;
	struct rxd_expendable expend;
	unsigned int cloning;
	struct delayed_work disarm;
	atomic64_t nospc ____cacheline_aligned_in_smp;
	atomic64_t discards;
};

static_assert(offsetofend(struct rxd_disk, node) <= SMP_CACHE_BYTES);

extern const struct attribute_group *rxd_disk_groups[];

void rxd_disk_end_load(bool loaded);
struct rxd_disk *rxd_disk_alloc(const struct rxd_create *arg);
struct rxd_disk *rxd_of_bdev(struct block_device *bdev);
void rxd_disk_get(struct rxd_disk *rxd);
void rxd_disk_put(struct rxd_disk *rxd);
int rxd_disk_prepare(const struct rxd_create *arg);
int rxd_disk_build(struct rxd_disk *rxd, const struct rxd_create *arg);
void rxd_disk_abandon(struct rxd_disk *rxd);
int rxd_disk_add(struct rxd_disk *rxd);
int rxd_disk_check_same(struct rxd_disk *rxd, const struct rxd_seen *seen);
int rxd_disk_check_idle(struct rxd_disk *rxd, const struct rxd_seen *seen);
int rxd_disk_shut_down(struct rxd_disk *rxd, const struct rxd_seen *seen, bool dry_run);
void rxd_disk_remove(struct rxd_disk *rxd);
int rxd_disk_prepare_growth(struct rxd_disk *rxd, u64 size);
int rxd_disk_resize(struct rxd_disk *rxd, u64 size, u32 flags);
int rxd_disk_clear(struct rxd_disk *rxd, const struct rxd_seen *seen, bool dry_run);
void rxd_disk_set_parent(struct rxd_disk *rxd, const uuid_t *parent);
void rxd_disk_get_parent(struct rxd_disk *rxd, uuid_t *parent);
int rxd_disk_reserve(struct rxd_disk *rxd, unsigned long first, unsigned long nr);
int rxd_disk_shut(struct rxd_disk *rxd, bool *flag, const struct rxd_seen *seen, bool dry_run);
int rxd_disk_zero(struct rxd_disk *rxd, u64 pos, u64 len, struct rxd_write *write);
void rxd_disk_drop_data(struct rxd_disk *rxd);
void rxd_submit_bio(struct bio *bio);
bool rxd_disk_is_lost(const struct rxd_disk *rxd);
u64 rxd_disk_size(const struct rxd_disk *rxd);
u32 rxd_disk_state(struct rxd_disk *rxd);
u64 rxd_disk_report_changes(struct rxd_disk *rxd);
u64 rxd_disk_changes(struct rxd_disk *rxd);
int rxd_disk_set_mem_limit(struct rxd_disk *rxd, u64 limit);
void rxd_disk_query(struct rxd_disk *rxd, struct rxd_query *arg);

#endif /* RXD_DISK_H */
