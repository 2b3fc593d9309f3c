/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the supported kernels. The sources are written for the newest
 * kernel; the RXD_HAVE_* macros come from the probes (see probe.mk).
 */
#ifndef RXD_COMPAT_H
#define RXD_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/swap.h>

#if !defined(CONFIG_64BIT) || defined(CONFIG_HIGHMEM)
#error "rxd needs a 64-bit kernel without high memory"
#endif

#ifdef RXD_HAVE_NAMESPACE_STRING
#define RXD_NS	"RXD"
#else
#define RXD_NS	RXD
#endif

#ifndef kzalloc_obj
#define kzalloc_obj(obj, gfp)	kzalloc(sizeof(obj), gfp)
#endif

#ifndef RXD_HAVE_DFL_WQ
#define system_dfl_wq	system_unbound_wq
#endif

#ifdef RXD_HAVE_FREEZE_MEMFLAGS
#define rxd_freeze_queue(q)		blk_mq_freeze_queue(q)
#define rxd_unfreeze_queue(q, flags)	blk_mq_unfreeze_queue(q, flags)
#else
static inline unsigned int rxd_freeze_queue(struct request_queue *q)
{
	unsigned int memflags = memalloc_noio_save();

	blk_mq_freeze_queue(q);
	return memflags;
}

static inline void rxd_unfreeze_queue(struct request_queue *q, unsigned int memflags)
{
	blk_mq_unfreeze_queue(q);
	memalloc_noio_restore(memflags);
}
#endif

#ifdef RXD_HAVE_ALLOC_PAGES_BULK
#define rxd_alloc_pages_bulk(gfp, node, nr, pages)	\
	alloc_pages_bulk_node(gfp, node, nr, pages)
#else
#define rxd_alloc_pages_bulk(gfp, node, nr, pages)	\
	alloc_pages_bulk_array_node(gfp, node, nr, pages)
#endif

/* Kernels without call_rcu_hurry() never delay call_rcu() to save power. */
#ifndef RXD_HAVE_CALL_RCU_HURRY
#define call_rcu_hurry(head, func)	call_rcu(head, func)
#endif

/* rxd_reclaimed(): what a pass of reclaim has got so far from others than its lists. */
#ifdef RXD_HAVE_ACCOUNT_RECLAIMED
static inline unsigned long rxd_reclaimed(void)
{
	return current->reclaim_state->reclaimed;
}
#else
static inline unsigned long rxd_reclaimed(void)
{
	return current->reclaim_state->reclaimed_slab;
}

static inline void mm_account_reclaimed_pages(unsigned long pages)
{
	if (current->reclaim_state)
		current->reclaim_state->reclaimed_slab += pages;
}
#endif

#ifdef RXD_HAVE_SHRINKER_ALLOC
#define rxd_shrinker_alloc(flags, name)	shrinker_alloc(flags, name)
#define rxd_shrinker_free(shrinker)	shrinker_free(shrinker)

static inline int rxd_shrinker_register(struct shrinker *shrinker, const char *name)
{
	shrinker_register(shrinker);
	return 0;
}
#else
#define rxd_shrinker_register(shrinker, name)	register_shrinker(shrinker, name)

static inline struct shrinker *rxd_shrinker_alloc(unsigned int flags, const char *name)
{
	struct shrinker *shrinker = kzalloc(sizeof(*shrinker), GFP_KERNEL);

	if (shrinker)
		shrinker->flags = flags;
	return shrinker;
}

static inline void rxd_shrinker_free(struct shrinker *shrinker)
{
	/* Does nothing if it was never registered. */
	unregister_shrinker(shrinker);
	kfree(shrinker);
}
#endif

#ifdef RXD_HAVE_BDEV_MAPPING
#define rxd_bdev_mapping(bdev)	((bdev)->bd_mapping)
#else
#define rxd_bdev_mapping(bdev)	((bdev)->bd_inode->i_mapping)
#endif

#ifdef RXD_HAVE_FREEZE_OWNER
#define rxd_freezer(method, sb)	method(sb, FREEZE_HOLDER_KERNEL | FREEZE_MAY_NEST, NULL)
#elif defined(RXD_HAVE_FREEZE_HOLDER)
#define rxd_freezer(method, sb)	method(sb, FREEZE_HOLDER_KERNEL | FREEZE_MAY_NEST)
#else
#define rxd_freezer(method, sb)	method(sb)
#endif

/*
 * From 6.6 on, which the two probes recognise, device-mapper does not map bios under
 * rcu_read_lock(). Some later releases of 6.1 do not either, but no probe can tell.
 */
#if defined(RXD_HAVE_FREEZE_OWNER) || defined(RXD_HAVE_FREEZE_HOLDER)
#define RXD_MAP_MAY_SLEEP	true
#else
#define RXD_MAP_MAY_SLEEP	false
#endif

static inline int rxd_freeze_super(struct super_block *sb)
{
	if (sb->s_op->freeze_super)
		return rxd_freezer(sb->s_op->freeze_super, sb);
	return rxd_freezer(freeze_super, sb);
}

static inline int rxd_thaw_super(struct super_block *sb)
{
	if (sb->s_op->thaw_super)
		return rxd_freezer(sb->s_op->thaw_super, sb);
	return rxd_freezer(thaw_super, sb);
}

#ifdef RXD_HAVE_OPEN_GENDISK
#define RXD_OPEN_METHOD(open)
#define rxd_open_method(open)	open
#else
#define blk_mode_t	fmode_t
#define BLK_OPEN_READ	FMODE_READ

#define RXD_OPEN_METHOD(open)						\
static int open##_bdev(struct block_device *bdev, fmode_t mode)		\
{									\
	return open(bdev->bd_disk, mode);				\
}

#define rxd_open_method(open)	open##_bdev
#endif

/*
 * rxd_alloc_disk - allocate a disk whose bios complete within submit_bio(), honour
 * REQ_NOWAIT and are counted
 */
static inline struct gendisk *rxd_alloc_disk(struct queue_limits *lim, int node)
{
	struct gendisk *disk;

#ifdef RXD_HAVE_LIMIT_FEATURES
	lim->features |= BLK_FEAT_SYNCHRONOUS | BLK_FEAT_NOWAIT | BLK_FEAT_IO_STAT;
#endif
#ifdef RXD_HAVE_LIMITS_AT_ALLOC
	disk = blk_alloc_disk(lim, node);
	if (IS_ERR(disk))
		return disk;
#else
	disk = blk_alloc_disk(node);
	if (!disk)
		return ERR_PTR(-ENOMEM);
	blk_queue_logical_block_size(disk->queue, lim->logical_block_size);
	blk_queue_physical_block_size(disk->queue, lim->physical_block_size);
	blk_queue_max_discard_sectors(disk->queue, lim->max_hw_discard_sectors);
	blk_queue_max_discard_segments(disk->queue, lim->max_discard_segments);
	blk_queue_max_write_zeroes_sectors(disk->queue, lim->max_write_zeroes_sectors);
	disk->queue->limits.discard_granularity = lim->discard_granularity;
#endif
#ifndef RXD_HAVE_LIMIT_FEATURES
	blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
	blk_queue_flag_set(QUEUE_FLAG_NOWAIT, disk->queue);
	blk_queue_flag_set(QUEUE_FLAG_IO_STAT, disk->queue);
#ifdef QUEUE_FLAG_SYNCHRONOUS
	blk_queue_flag_set(QUEUE_FLAG_SYNCHRONOUS, disk->queue);
#endif
#endif
	return disk;
}

#endif /* RXD_COMPAT_H */
