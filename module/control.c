// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rxd-control: create, clone, remove, resize, clear, reset, track and query RAM disks, and
 * count what they share. The share of memory that they may promise.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/uuid.h>
#include <linux/xarray.h>

#include "check.h"
#include "clone.h"
#include "compat.h"
#include "disk.h"
#include "hold-arm.h"
#include "hold.h"
#include "record.h"
#include "track.h"

static unsigned int memory_share = 75;

static int set_memory_share(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, 100);
}

static const struct kernel_param_ops memory_share_ops = {
	.set	= set_memory_share,
	.get	= param_get_uint,
};

module_param_cb(memory_share, &memory_share_ops, &memory_share, 0644);
MODULE_PARM_DESC(memory_share,
		 "Percentage of memory that the sizes of all RAM disks without overcommit, and the minimums of elastic caches, may add up to, 1 to 100 (default 75)");

#define RXD_SIZES_MAX	32

static char *sizes[RXD_SIZES_MAX];
static int nr_sizes;
module_param_array(sizes, charp, &nr_sizes, 0444);
MODULE_PARM_DESC(sizes,
		 "Sizes of the RAM disks to create when the module is loaded, starting with rxd0: up to 32, separated by commas, each a number with an optional suffix K, M, G or T (default none)");

/*
 * All RAM disks by device number, including those that are being created or removed, and
 * the sum of what was promised. This lock is held for short
 * times only. Long operations hold the lock of their disk, which is taken first. A suspended
 * cache may wait for both locks, so their holders must not reclaim memory by I/O.
 */
static DEFINE_MUTEX(rxd_lock);
static DEFINE_XARRAY(rxd_disks);
static u64 rxd_promised;

/* Marks disks that have been created and are not being removed. */
#define RXD_LIVE	XA_MARK_1

static void promise(struct rxd_disk *rxd, u64 bytes)
{
	lockdep_assert_held(&rxd_lock);
	rxd_promised += bytes - rxd->promised;
	WRITE_ONCE(rxd->promised, bytes);
}

/*
 * What a disk promises if it has a size. All tables of a cache promise something, but only one of
 * them is in use at a time: the largest promise counts.
 */
static u64 bytes_to_promise(const struct rxd_disk *rxd, u64 size)
{
	const struct rxd_promise *one;
	u64 most = 0;

	lockdep_assert_held(&rxd_lock);
	if (rxd->overcommit)
		return 0;
	if (!rxd->elastic)
		return size;
	list_for_each_entry(one, &rxd->promises, list)
		most = max(most, one->bytes);
	return min(most, size);
}

static int check_share(u64 promised, u64 size)
{
	return rxd_check_share(promised, size, (u64)totalram_pages() << PAGE_SHIFT,
			       READ_ONCE(memory_share));
}

/* What was promised already always fits: memory_share may have become smaller since. */
static int check_promise(const struct rxd_disk *rxd, u64 bytes)
{
	lockdep_assert_held(&rxd_lock);
	return bytes > rxd->promised ? check_share(rxd_promised - rxd->promised, bytes) : 0;
}

static int check_uuid(const struct rxd_disk *wanted)
{
	struct rxd_disk *rxd;
	unsigned long index;

	xa_for_each(&rxd_disks, index, rxd)
		if (uuid_equal(&rxd->uuid, &wanted->uuid))
			return -EEXIST;
	return 0;
}

/* Return: the device number for a new disk, -EEXIST or -ENOSPC. */
static int find_free_index(s32 wanted)
{
	struct rxd_disk *rxd;
	unsigned long index;
	int lowest = 0;

	if (wanted != RXD_INDEX_ANY)
		return xa_load(&rxd_disks, wanted) ? -EEXIST : wanted;
	xa_for_each(&rxd_disks, index, rxd) {
		if (index > lowest)
			break;
		lowest++;
	}
	return lowest > RXD_INDEX_MAX ? -ENOSPC : lowest;
}

/* Reserve the UUID, the share of memory and the device number for a new disk. */
static int enter(struct rxd_disk *rxd, const struct rxd_create *arg, bool dry_run)
{
	int ret;

	lockdep_assert_held(&rxd_lock);
	ret = check_uuid(rxd) ?: check_promise(rxd, bytes_to_promise(rxd, arg->size));
	if (ret)
		return ret;
	ret = find_free_index(arg->index);
	if (ret < 0)
		return ret;
	if (dry_run)
		return 0;

	rxd->index = ret;
	ret = xa_insert(&rxd_disks, rxd->index, rxd, GFP_NOIO);
	if (!ret)
		promise(rxd, bytes_to_promise(rxd, arg->size));
	return ret;
}

static void leave(struct rxd_disk *rxd)
{
	lockdep_assert_held(&rxd_lock);
	xa_erase(&rxd_disks, rxd->index);
	promise(rxd, 0);
}

static struct rxd_disk *find(int index)
{
	lockdep_assert_held(&rxd_lock);
	return xa_get_mark(&rxd_disks, index, RXD_LIVE) ? xa_load(&rxd_disks, index) : NULL;
}

/* Return: a reference to a disk, or NULL. */
static struct rxd_disk *find_by_uuid(const uuid_t *uuid)
{
	struct rxd_disk *rxd, *found = NULL;
	unsigned long index;

	mutex_lock(&rxd_lock);
	xa_for_each_marked(&rxd_disks, index, rxd, RXD_LIVE) {
		if (uuid_equal(&rxd->uuid, uuid)) {
			found = rxd;
			rxd_disk_get(found);
			break;
		}
	}
	mutex_unlock(&rxd_lock);
	return found;
}

/*
 * The record of changes that a disk without a block device has from its source goes back. The two
 * disks are locked one after the other.
 */
static void return_record(struct rxd_disk *rxd)
{
	struct rxd_record *record;
	struct rxd_disk *source;
	unsigned int memflags;

	source = rxd->loan.left ? find_by_uuid(&rxd->lender) : NULL;
	if (!source)
		return;
	record = rxd_disk_take_record(rxd);
	mutex_lock(&source->lock);
	memflags = memalloc_noio_save();
	rxd_store_return_record(source->store, &rxd->loan, record);
	rxd_disk_disarm_later(source);
	memalloc_noio_restore(memflags);
	mutex_unlock(&source->lock);
	rxd_disk_put(source);
}

/* Create a disk, which is a clone if @cloning is not NULL. */
static int create_disk(struct rxd_create *arg, struct rxd_cloning *cloning)
{
	bool dry_run = arg->flags & RXD_DRY_RUN;
	struct rxd_disk *rxd;
	unsigned int memflags;
	int ret;

	if (!dry_run && !memchr_inv(arg->uuid, 0, sizeof(arg->uuid)))
		generate_random_uuid(arg->uuid);
	rxd = rxd_disk_alloc(arg);
	if (!rxd)
		return -ENOMEM;

	ret = mutex_lock_interruptible(&rxd_lock);
	if (ret)
		goto out_put;
	ret = enter(rxd, arg, dry_run);
	mutex_unlock(&rxd_lock);
	if (ret)
		goto out_put;

	ret = rxd_disk_prepare(arg);
	if (!ret && cloning && cloning->arg->flags & RXD_CLONE_TRACK)
		ret = rxd_record_prepare(arg->size >> PAGE_SHIFT);
	if (dry_run)
		goto out_put;
	if (!ret)
		ret = rxd_disk_build(rxd, arg);
	if (!ret && cloning)
		ret = rxd_disk_clone(cloning, rxd);

	/* Add and mark the disk under one lock: a disk that is visible can be found. */
	mutex_lock(&rxd_lock);
	memflags = memalloc_noio_save();
	if (!ret)
		ret = rxd_disk_add(rxd);
	if (!ret) {
		xa_set_mark(&rxd_disks, rxd->index, RXD_LIVE);
		arg->index = rxd->index;
	} else {
		leave(rxd);
	}
	memalloc_noio_restore(memflags);
	mutex_unlock(&rxd_lock);
	if (!ret)
		return 0;
	rxd_disk_abandon(rxd);
	return_record(rxd);
out_put:
	rxd_disk_put(rxd);
	return ret;
}

static int rxd_create(struct rxd_create *arg)
{
	int ret;

	ret = rxd_check_create(arg);
	if (ret)
		return ret;
	if (arg->node >= 0 && !node_state(arg->node, N_MEMORY))
		return -ENXIO;
	return create_disk(arg, NULL);
}

/* Return: a reference to a disk, or an ERR_PTR(). */
static struct rxd_disk *get_disk_at(int index)
{
	struct rxd_disk *rxd;
	int ret;

	ret = mutex_lock_interruptible(&rxd_lock);
	if (ret)
		return ERR_PTR(ret);
	rxd = find(index);
	if (rxd)
		rxd_disk_get(rxd);
	mutex_unlock(&rxd_lock);
	return rxd ?: ERR_PTR(-ENODEV);
}

/*
 * Prevent changes to a disk until unlock_disk(), which drops the reference from get_disk_at(). If
 * this fails, the reference is dropped, too.
 */
static int lock_found(struct rxd_disk *rxd, unsigned int *memflags)
{
	int ret;

	ret = mutex_lock_interruptible(&rxd->lock);
	if (ret)
		goto out_put;
	if (!rxd->removing) {
		*memflags = memalloc_noio_save();
		return 0;
	}
	ret = -ENODEV;
	mutex_unlock(&rxd->lock);
out_put:
	rxd_disk_put(rxd);
	return ret;
}

/* Find a disk, and prevent changes to it until unlock_disk(). */
static struct rxd_disk *lock_disk(int index, unsigned int *memflags)
{
	struct rxd_disk *rxd = get_disk_at(index);
	int ret;

	if (IS_ERR(rxd))
		return rxd;
	ret = lock_found(rxd, memflags);
	return ret ? ERR_PTR(ret) : rxd;
}

static void unlock_disk(struct rxd_disk *rxd, unsigned int memflags)
{
	memalloc_noio_restore(memflags);
	mutex_unlock(&rxd->lock);
	rxd_disk_put(rxd);
}

static int remove_disk(int index, const struct rxd_seen *seen, bool dry_run)
{
	struct rxd_disk *rxd;
	unsigned int memflags;
	int ret;

	rxd = lock_disk(index, &memflags);
	if (IS_ERR(rxd))
		return PTR_ERR(rxd);
	ret = rxd_disk_shut_down(rxd, seen, dry_run);
	if (ret || dry_run) {
		unlock_disk(rxd, memflags);
		return ret;
	}
	mutex_lock(&rxd_lock);
	xa_clear_mark(&rxd_disks, index, RXD_LIVE);
	mutex_unlock(&rxd_lock);
	unlock_disk(rxd, memflags);

	rxd_disk_remove(rxd);
	return_record(rxd);
	mutex_lock(&rxd_lock);
	leave(rxd);
	mutex_unlock(&rxd_lock);
	rxd_disk_put(rxd);
	return 0;
}

static int rxd_remove(struct rxd_remove *arg)
{
	const struct rxd_seen seen = { .diskseq = arg->diskseq, .changes = arg->changes };

	return rxd_check_remove(arg) ?:
	       remove_disk(arg->index, arg->flags & RXD_IF_SAME ? &seen : NULL,
			   arg->flags & RXD_DRY_RUN);
}

/* Promise the new size before the disk grows. */
static int promise_growth(struct rxd_disk *rxd, u64 size, bool overcommit, bool dry_run)
{
	u64 bytes;
	int ret;

	mutex_lock(&rxd_lock);
	bytes = overcommit ? 0 : bytes_to_promise(rxd, size);
	ret = check_promise(rxd, bytes);
	if (!ret && !dry_run && bytes > rxd->promised)
		promise(rxd, bytes);
	mutex_unlock(&rxd_lock);
	return ret;
}

static int rxd_resize(struct rxd_resize *arg)
{
	bool dry_run = arg->flags & RXD_DRY_RUN;
	struct rxd_disk *rxd;
	unsigned int memflags;
	bool overcommit;
	int ret;

	ret = rxd_check_resize(arg);
	if (ret)
		return ret;
	rxd = get_disk_at(arg->index);
	if (IS_ERR(rxd))
		return PTR_ERR(rxd);
	/*
	 * Others need the lock of the disk, so wait for memory without it. Do not look the disk up
	 * again: another one may have its number by then.
	 */
	ret = rxd_disk_prepare_growth(rxd, arg->size);
	if (ret) {
		rxd_disk_put(rxd);
		return ret;
	}
	ret = lock_found(rxd, &memflags);
	if (ret)
		return ret;

	overcommit = rxd->overcommit || arg->flags & RXD_RESIZE_OVERCOMMIT;
	ret = promise_growth(rxd, arg->size, overcommit, dry_run);
	if (ret)
		goto out_unlock;
	ret = rxd_disk_resize(rxd, arg->size, arg->flags);
	if (dry_run)
		goto out_unlock;

	mutex_lock(&rxd_lock);
	if (!ret)
		rxd->overcommit = overcommit;
	promise(rxd, bytes_to_promise(rxd, rxd_disk_size(rxd)));
	mutex_unlock(&rxd_lock);
out_unlock:
	unlock_disk(rxd, memflags);
	return ret;
}

/**
 * rxd_promise - promise the memory that a cache does not give back
 * @bdev: the RAM disk, which the caller has claimed
 * @mine: the promise of the caller, which the disk refers to until rxd_withdraw(), after an error,
 *	too
 * @bytes: number of bytes; U64_MAX: all that the disk can have
 * @force: the cache has this memory already, so count it, whether the share allows it or not
 *
 * Only an elastic disk counts it. Of several promises for a disk, the largest one counts.
 *
 * Return: 0; or -ERANGE if the share of memory does not allow it: then the last promise remains.
 */
int rxd_promise(struct block_device *bdev, struct rxd_promise *mine, u64 bytes, bool force)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);
	u64 last = mine->bytes;
	int ret = 0;

	/* The size of the disk counts, too. */
	mutex_lock(&rxd->lock);
	mutex_lock(&rxd_lock);
	if (list_empty(&mine->list))
		list_add(&mine->list, &rxd->promises);
	mine->bytes = bytes;
	bytes = bytes_to_promise(rxd, rxd_disk_size(rxd));
	if (!force)
		ret = check_promise(rxd, bytes);
	if (ret)
		mine->bytes = last;
	else
		promise(rxd, bytes);
	mutex_unlock(&rxd_lock);
	mutex_unlock(&rxd->lock);
	return ret;
}
EXPORT_SYMBOL_NS_GPL(rxd_promise, RXD_NS);

/**
 * rxd_withdraw - end a promise
 * @bdev: the RAM disk, which the caller has claimed
 * @mine: the promise, which may not have been given
 */
void rxd_withdraw(struct block_device *bdev, struct rxd_promise *mine)
{
	struct rxd_disk *rxd = rxd_of_bdev(bdev);

	mutex_lock(&rxd->lock);
	mutex_lock(&rxd_lock);
	list_del_init(&mine->list);
	mine->bytes = 0;
	promise(rxd, bytes_to_promise(rxd, rxd_disk_size(rxd)));
	mutex_unlock(&rxd_lock);
	mutex_unlock(&rxd->lock);
}
EXPORT_SYMBOL_NS_GPL(rxd_withdraw, RXD_NS);

static int rxd_clear(struct rxd_clear *arg)
{
	const struct rxd_seen seen = { .diskseq = arg->diskseq, .changes = arg->changes };
	struct rxd_disk *rxd;
	unsigned int memflags;
	int ret;

	ret = rxd_check_clear(arg);
	if (ret)
		return ret;
	rxd = lock_disk(arg->index, &memflags);
	if (IS_ERR(rxd))
		return PTR_ERR(rxd);
	ret = rxd_disk_clear(rxd, arg->flags & RXD_IF_SAME ? &seen : NULL,
			     arg->flags & RXD_DRY_RUN);
	unlock_disk(rxd, memflags);
	return ret;
}

static int clone_disk(struct rxd_clone *arg, struct rxd_cloning *cloning)
{
	struct rxd_create create = {
		.version	= RXD_ABI_VERSION,
		.flags		= arg->flags & (RXD_CREATE_OVERCOMMIT | RXD_DRY_RUN),
		.index		= arg->index,
	};
	bool expendable = arg->flags & RXD_CLONE_EXPENDABLE;
	struct rxd_disk *source;
	unsigned int memflags;
	int ret;

	if (expendable)
		create.flags |= RXD_CREATE_OVERCOMMIT;
	source = lock_disk(arg->source, &memflags);
	if (IS_ERR(source))
		return PTR_ERR(source);
	memcpy(create.uuid, arg->uuid, sizeof(create.uuid));
	/* Check this before the new disk takes a number. */
	ret = rxd_disk_like(source, &create, expendable);
	rxd_disk_get(source);
	unlock_disk(source, memflags);

	cloning->source = source;
	if (!ret)
		ret = create_disk(&create, cloning);
	rxd_disk_put(source);
	if (!ret && !(arg->flags & RXD_DRY_RUN)) {
		arg->index = create.index;
		memcpy(arg->uuid, create.uuid, sizeof(arg->uuid));
	}
	return ret;
}

static int rxd_clone(struct rxd_clone *arg)
{
	struct rxd_cloning *cloning;
	int ret;

	ret = rxd_check_clone(arg);
	if (ret)
		return ret;
	cloning = kzalloc_obj(*cloning, GFP_KERNEL);
	if (!cloning)
		return -ENOMEM;
	cloning->arg = arg;
	ret = rxd_freeze_get(&cloning->freeze, u64_to_user_ptr(arg->fds), arg->nr_fds);
	if (!ret)
		ret = clone_disk(arg, cloning);
	rxd_freeze_put(&cloning->freeze);
	kfree(cloning);
	return ret;
}

/* Return: -EAGAIN if the disk was resized meanwhile, or as rxd_track(). */
static int track_disk(const struct rxd_track *arg, struct rxd_tracking *tracking)
{
	unsigned int memflags;
	struct rxd_disk *rxd;
	int ret;

	rxd = lock_disk(arg->index, &memflags);
	if (IS_ERR(rxd))
		return PTR_ERR(rxd);
	ret = rxd_may_track(rxd, arg->flags & RXD_TRACK_STOP);
	rxd_disk_get(rxd);
	unlock_disk(rxd, memflags);
	/* Others need the lock of the disk, so wait for memory without it. */
	if (!ret)
		ret = rxd_disk_prepare_track(rxd, arg, tracking);
	if (ret) {
		rxd_disk_put(rxd);
		return ret;
	}
	ret = lock_found(rxd, &memflags);
	if (ret)
		return ret;
	ret = rxd_disk_track(rxd, arg, tracking);
	unlock_disk(rxd, memflags);
	return ret;
}

static int rxd_track(struct rxd_track *arg)
{
	struct rxd_tracking tracking;
	int ret;

	ret = rxd_check_track(arg);
	if (ret)
		return ret;
	do {
		tracking = (struct rxd_tracking){};
		ret = track_disk(arg, &tracking);
		rxd_hold_free(tracking.hold);
		rxd_record_free(tracking.record);
	} while (ret == -EAGAIN);
	return ret;
}

/* Return: -EAGAIN if the disk was resized meanwhile, or as rxd_disk_snapshot(). */
static int try_snapshot(int index, struct rxd_snapshot *snapshot)
{
	struct rxd_disk *rxd = get_disk_at(index);
	unsigned int memflags;
	int ret;

	if (IS_ERR(rxd))
		return PTR_ERR(rxd);
	ret = rxd_disk_prepare_snapshot(rxd, snapshot);
	if (ret) {
		rxd_disk_put(rxd);
		return ret;
	}
	ret = lock_found(rxd, &memflags);
	if (!ret) {
		ret = rxd_disk_snapshot(rxd, snapshot);
		unlock_disk(rxd, memflags);
	}
	if (ret)
		rxd_store_destroy(snapshot->store);
	return ret;
}

/* Only check the disk and the memory. */
static int check_snapshot(int index, struct rxd_snapshot *snapshot)
{
	struct rxd_disk *rxd;
	unsigned int memflags;
	int ret;

	rxd = lock_disk(index, &memflags);
	if (IS_ERR(rxd))
		return PTR_ERR(rxd);
	snapshot->store = NULL;
	ret = rxd_disk_snapshot(rxd, snapshot);
	unlock_disk(rxd, memflags);
	return ret ?: rxd_store_prepare(snapshot->nr_pages);
}

static int snapshot_disk(int index, struct rxd_snapshot *snapshot, bool dry_run)
{
	int ret;

	if (dry_run)
		return check_snapshot(index, snapshot);
	do {
		ret = try_snapshot(index, snapshot);
	} while (ret == -EAGAIN);
	return ret;
}

/* The two disks are locked one after the other, so that none waits for the lock of the other. */
static int reset_disk(const struct rxd_reset *arg, bool dry_run)
{
	const struct rxd_seen seen = { .diskseq = arg->diskseq, .changes = arg->changes };
	struct rxd_snapshot snapshot;
	struct rxd_disk *rxd;
	unsigned int memflags;
	int ret;

	ret = snapshot_disk(arg->source, &snapshot, dry_run);
	if (ret)
		return ret;
	rxd = lock_disk(arg->index, &memflags);
	if (IS_ERR(rxd)) {
		ret = PTR_ERR(rxd);
		goto out_destroy;
	}
	ret = rxd_disk_reset(rxd, &snapshot, arg->flags & RXD_IF_SAME ? &seen : NULL, dry_run);
	unlock_disk(rxd, memflags);
out_destroy:
	rxd_store_destroy(snapshot.store);
	return ret;
}

static int rxd_reset(struct rxd_reset *arg)
{
	int ret;

	/* A snapshot makes later writes to the source slower: check the reset before. */
	ret = rxd_check_reset(arg) ?: reset_disk(arg, true);
	return ret || arg->flags & RXD_DRY_RUN ? ret : reset_disk(arg, false);
}

static int rxd_query(struct rxd_query *arg)
{
	struct rxd_disk *rxd;
	unsigned long index;
	int ret;

	ret = rxd_check_query(arg);
	if (ret)
		return ret;
	ret = mutex_lock_interruptible(&rxd_lock);
	if (ret)
		return ret;
	index = arg->index;
	if (arg->flags & RXD_QUERY_NEXT)
		rxd = xa_find(&rxd_disks, &index, RXD_INDEX_MAX, RXD_LIVE);
	else
		rxd = find(index);
	if (rxd)
		rxd_disk_query(rxd, arg);
	else
		ret = -ENODEV;
	mutex_unlock(&rxd_lock);
	return ret;
}

/* The disk is not locked: counting takes long, and needs only its pages. */
static int rxd_count(struct rxd_count_shared *arg)
{
	const struct rxd_seen seen = { .diskseq = arg->diskseq, .changes = RXD_CHANGES_ANY };
	unsigned long start, first, end;
	struct rxd_disk *rxd;
	int ret;

	ret = rxd_check_count_shared(arg);
	if (ret)
		return ret;
	ret = mutex_lock_interruptible(&rxd_lock);
	if (ret)
		return ret;
	rxd = find(arg->index);
	ret = rxd ? rxd_disk_check_same(rxd, arg->diskseq ? &seen : NULL) : -ENODEV;
	if (!ret)
		rxd_disk_get(rxd);
	mutex_unlock(&rxd_lock);
	if (ret)
		return ret;

	start = arg->start >> PAGE_SHIFT;
	first = start;
	end = (arg->start + arg->length) >> PAGE_SHIFT;
	arg->shared = (u64)rxd_store_count_shared(rxd->store, &first, end) << PAGE_SHIFT;
	arg->next = (u64)first << PAGE_SHIFT;
	rxd_disk_put(rxd);
	return first == start && first < end ? -EINTR : 0;
}

static long rxd_control_ioctl(struct file *file, unsigned int cmd, unsigned long uarg)
{
	void __user *argp = (void __user *)uarg;
	union {
		struct rxd_create create;
		struct rxd_remove remove;
		struct rxd_resize resize;
		struct rxd_clear clear;
		struct rxd_clone clone;
		struct rxd_reset reset;
		struct rxd_track track;
		struct rxd_query query;
		struct rxd_count_shared count;
	} arg;
	int ret;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;

	switch (cmd) {
	case RXD_CREATE:
	case RXD_REMOVE:
	case RXD_RESIZE:
	case RXD_CLEAR:
	case RXD_CLONE:
	case RXD_RESET:
	case RXD_TRACK:
	case RXD_QUERY:
	case RXD_COUNT_SHARED:
		break;
	default:
		return -ENOTTY;
	}
	if (copy_from_user(&arg, argp, _IOC_SIZE(cmd)))
		return -EFAULT;
	/* Check that the answer can be written before anything is changed. */
	if (_IOC_DIR(cmd) & _IOC_READ && copy_to_user(argp, &arg, _IOC_SIZE(cmd)))
		return -EFAULT;

	switch (cmd) {
	case RXD_CREATE:
		ret = rxd_create(&arg.create);
		break;
	case RXD_REMOVE:
		ret = rxd_remove(&arg.remove);
		break;
	case RXD_RESIZE:
		ret = rxd_resize(&arg.resize);
		break;
	case RXD_CLEAR:
		ret = rxd_clear(&arg.clear);
		break;
	case RXD_CLONE:
		ret = rxd_clone(&arg.clone);
		break;
	case RXD_RESET:
		ret = rxd_reset(&arg.reset);
		break;
	case RXD_TRACK:
		ret = rxd_track(&arg.track);
		break;
	case RXD_COUNT_SHARED:
		ret = rxd_count(&arg.count);
		break;
	default:
		ret = rxd_query(&arg.query);
		break;
	}

	if (!ret && _IOC_DIR(cmd) & _IOC_READ && copy_to_user(argp, &arg, _IOC_SIZE(cmd)))
		return -EFAULT;
	return ret;
}

static int rxd_control_open(struct inode *inode, struct file *file)
{
	return capable(CAP_SYS_ADMIN) ? nonseekable_open(inode, file) : -EPERM;
}

static const struct file_operations rxd_control_fops = {
	.owner		= THIS_MODULE,
	.open		= rxd_control_open,
	.unlocked_ioctl	= rxd_control_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.llseek		= noop_llseek,
};

static struct miscdevice rxd_control = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= RXD_CONTROL_NAME,
	.fops	= &rxd_control_fops,
	.mode	= 0600,
};

/* Set up @arg for a disk of size @text, when @promised bytes are already promised. */
static int __init parse_size(const char *text, u64 promised, struct rxd_create *arg)
{
	int ret;

	*arg = (struct rxd_create) {
		.version	= RXD_ABI_VERSION,
		.index		= RXD_INDEX_ANY,
		.node		= RXD_NODE_LOCAL,
	};
	ret = rxd_parse_size(text, &arg->size) ?: rxd_check_create(arg);
	return ret ?: check_share(promised, arg->size);
}

static void __init complain(const char *text, int error)
{
	pr_err("size '%s': %s\n", text,
	       error == -EINVAL ? "must be a positive multiple of the page size, such as 64M" :
	       error == -EFBIG ? "must be at most 256T" :
	       error == -ERANGE ? "must fit into the share of memory that memory_share sets" :
	       "cannot be created");
}

static void __init remove_all(void)
{
	struct rxd_disk *rxd;
	unsigned long index;

	rxd_disk_end_load(false);
	xa_for_each(&rxd_disks, index, rxd)
		/* Nobody has the disk open. Only a signal makes this fail, while a lock is busy. */
		while (remove_disk(index, NULL, false))
			msleep(20);
}

/* A new disk is visible at once, so check all sizes before creating the first. */
static int __init create_at_load(void)
{
	struct rxd_create arg;
	u64 promised = 0;
	int i, ret = 0;

	for (i = 0; i < nr_sizes && !ret; i++) {
		ret = parse_size(sizes[i], promised, &arg);
		promised += arg.size;
	}
	if (ret)
		goto out_complain;

	for (i = 0; i < nr_sizes && !ret; i++)
		ret = parse_size(sizes[i], 0, &arg) ?: rxd_create(&arg);
	if (ret)
		remove_all();
out_complain:
	if (ret)
		complain(sizes[i - 1], ret);
	return ret;
}

static int __init rxd_init(void)
{
	int ret;

	ret = rxd_store_init();
	if (ret)
		return ret;
	ret = create_at_load();
	if (ret)
		goto out_store_exit;
	ret = misc_register(&rxd_control);
	if (ret)
		goto out_remove_all;
	rxd_disk_end_load(true);
	return 0;

out_remove_all:
	remove_all();
out_store_exit:
	rxd_store_exit();
	return ret;
}

/*
 * Each disk holds a reference to the module, so no disk is left. The memory of removed disks
 * may not be free yet: rxd_store_exit() waits for it.
 */
static void __exit rxd_exit(void)
{
	misc_deregister(&rxd_control);
	xa_destroy(&rxd_disks);
	rxd_store_exit();
}

module_init(rxd_init);
module_exit(rxd_exit);

MODULE_DESCRIPTION("RAM disks that are created, resized and removed at run time");
MODULE_LICENSE("GPL");
