// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device-mapper target "rxcache": a RAM disk as a write-through cache in
 * front of a slower disk. Table, status, messages and map().
 *
 * Table line: see args.c. Messages: see message.c. Status line (STATUSTYPE_INFO),
 * counters in cache blocks unless noted:
 *
 *	BLOCK_SIZE		size of a cache block, in sectors
 *	USED/TOTAL		blocks that hold data, and all blocks
 *	METADATA_BYTES		memory of the index
 *	READ_HITS READ_MISSES READ_PARTIALS
 *	WRITE_HITS WRITE_MISSES WRITE_PARTIALS
 *	FILLS EVICTIONS BYPASSES INVALIDATIONS
 *	ORIGIN_ERRORS		in bios
 *	FEATURE_COUNT feature ... POLICY_ARG_COUNT key value ...
 *				as in the table line; with min_size, also the policy arguments
 *				lent N		blocks whose memory is lent now
 *				given_back N	blocks whose memory was given back, so far
 *				taken N		blocks that memory was lent for, so far
 */
#include <linux/blk-integrity.h>
#include <linux/device-mapper.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "../module/compat.h"
#include "../module/rxd.h"
#include "advise.h"
#include "args.h"
#include "limit.h"
#include "message.h"
#include "origin.h"
#include "promise.h"

#define DM_MSG_PREFIX "rxcache"

/* All caches, because no two of them may use the same disk. */
static DEFINE_MUTEX(rxc_lock);
static LIST_HEAD(rxc_caches);

static unsigned int cache_block_size(const struct rxcache *c)
{
	return 1U << c->block_shift;
}

static bool same_disk(const struct dm_dev *a, const struct dm_dev *b)
{
	return a->bdev->bd_disk == b->bdev->bd_disk;
}

static bool uses_disk_of(const struct rxcache *c, const struct rxcache *other)
{
	return c->origin->bdev == other->origin->bdev || same_disk(c->cache, other->cache) ||
	       same_disk(c->origin, other->cache) || same_disk(c->cache, other->origin);
}

/*
 * A table that replaces another one of the same device may use the same disks, because only
 * one of the two is live at a time.
 */
static bool may_share(const struct rxcache *c, const struct rxcache *other)
{
	return c->ti->table != other->ti->table &&
	       dm_table_get_md(c->ti->table) == dm_table_get_md(other->ti->table);
}

static bool in_another_mode(const struct dm_dev *a, const struct dm_dev *b)
{
	return a->bdev == b->bdev && a->mode != b->mode;
}

/*
 * How many times does the mapped device have a device of this table open? All its tables,
 * active and inactive, share one open, and a second one if only some are read-only.
 */
static unsigned int count_opens(const struct rxcache *c, const struct dm_dev *dev)
{
	struct rxcache *other;

	lockdep_assert_held(&rxc_lock);
	list_for_each_entry(other, &rxc_caches, list)
		if (may_share(c, other) && (in_another_mode(dev, other->origin) ||
					    in_another_mode(dev, other->cache)))
			return 2;
	return 1;
}

/* Writes by another target bypass the cache, which would then return stale data. */
static bool origin_is_held(const struct rxcache *c)
{
	struct block_device *bdev = c->origin->bdev;
	int holders = count_opens(c, c->origin);

	/* An exclusive open of a whole disk counts as two holders. */
	if (!bdev_is_partition(bdev))
		holders *= 2;
	return bdev->bd_holders > holders;
}

/* @opens: set to the number of times that the mapped device has the cache device open. */
static int register_cache(struct rxcache *c, unsigned int *opens)
{
	struct rxcache *other;
	int ret = 0;

	mutex_lock(&rxc_lock);
	if (origin_is_held(c)) {
		c->ti->error = "the origin device is in use by another mapping";
		ret = -EBUSY;
		goto out_unlock;
	}
	list_for_each_entry(other, &rxc_caches, list) {
		if (uses_disk_of(c, other) && !may_share(c, other)) {
			c->ti->error = "the origin or the cache device is in use by another cache";
			ret = -EBUSY;
			goto out_unlock;
		}
	}
	*opens = count_opens(c, c->cache);
	list_add(&c->list, &rxc_caches);
out_unlock:
	mutex_unlock(&rxc_lock);
	return ret;
}

static void unregister_cache(struct rxcache *c)
{
	mutex_lock(&rxc_lock);
	list_del(&c->list);
	mutex_unlock(&rxc_lock);
}

static int get_devices(struct rxcache *c, const struct rxc_args *args)
{
	struct dm_target *ti = c->ti;
	int ret;

	ret = dm_get_device(ti, args->origin, dm_table_get_mode(ti->table), &c->origin);
	if (ret) {
		ti->error = "cannot open the origin device";
		return ret;
	}
	ret = dm_get_device(ti, args->cache, dm_table_get_mode(ti->table), &c->cache);
	if (ret) {
		ti->error = "cannot open the cache device";
		goto out_put_origin;
	}
	if (same_disk(c->origin, c->cache)) {
		ti->error = "the origin and the cache device are the same disk";
		ret = -EINVAL;
		goto out_put_cache;
	}
	/* A zone reset has no length, so the cache would keep the old data of the zone. */
	if (bdev_is_zoned(c->origin->bdev)) {
		ti->error = "the origin device is zoned, which is not supported";
		ret = -EOPNOTSUPP;
		goto out_put_cache;
	}
	/* The cache does not store protection information. */
	if (bdev_get_integrity(c->origin->bdev)) {
		ti->error = "the origin device has integrity metadata, which is not supported";
		ret = -EOPNOTSUPP;
		goto out_put_cache;
	}
	if (bdev_logical_block_size(c->origin->bdev) > cache_block_size(c) << SECTOR_SHIFT) {
		ti->error = "the origin's logical blocks are larger than the cache blocks";
		ret = -EINVAL;
		goto out_put_cache;
	}
	if (ti->len > bdev_nr_sectors(c->origin->bdev)) {
		ti->error = "the target is longer than the origin device";
		ret = -ERANGE;
		goto out_put_cache;
	}
	return 0;

out_put_cache:
	dm_put_device(ti, c->cache);
out_put_origin:
	dm_put_device(ti, c->origin);
	return ret;
}

static void put_devices(struct rxcache *c)
{
	dm_put_device(c->ti, c->cache);
	dm_put_device(c->ti, c->origin);
}

static char *claim_error(int error)
{
	switch (error) {
	case -ENODEV:
		return "the cache device is not an rxd RAM disk, or is a partition of one";
	case -EOPNOTSUPP:
		return "the cache device's memory is reserved, or is that of a reserved disk";
	case -EROFS:
		return "the cache device is read-only";
	case -EIO:
		return "the cache device was given up when memory was short";
	default:
		return "the cache device is in use by another mapping";
	}
}

static int create_index(struct rxcache *c, unsigned int opens)
{
	const void *owner = dm_table_get_md(c->ti->table);
	struct dm_target *ti = c->ti;
	int ret;

	c->store = rxd_claim(c->cache->bdev, owner, opens);
	if (IS_ERR(c->store)) {
		ret = PTR_ERR(c->store);
		ti->error = claim_error(ret);
		return ret;
	}
	c->index = rxc_index_create(c->store, cache_block_size(c) >> (PAGE_SHIFT - SECTOR_SHIFT),
				    c->stats);
	if (IS_ERR(c->index)) {
		ret = PTR_ERR(c->index);
		ti->error = ret == -ENOSPC ? "the cache device has fewer than 16 cache blocks" :
					     "no memory for the index";
		rxd_release(c->cache->bdev, owner);
		return ret;
	}
	return 0;
}

static void destroy_index(struct rxcache *c)
{
	rxc_promise_end(c);
	rxc_index_destroy(c->index);
	rxd_release(c->cache->bdev, dm_table_get_md(c->ti->table));
}

static void setup_target(struct dm_target *ti)
{
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_secure_erase_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->per_io_data_size = sizeof(struct rxc_bio);
}

static int rxcache_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct rxc_args args;
	unsigned int opens;
	struct rxcache *c;
	int ret;

	ret = rxc_args_parse(&args, argc, argv, &ti->error);
	if (ret)
		return ret;

	c = kzalloc_obj(*c, GFP_KERNEL);
	if (!c) {
		ti->error = "no memory for the cache";
		return -ENOMEM;
	}
	c->ti = ti;
	c->suspended = true;
	c->block_shift = ilog2(args.block_size);
	c->mode = args.mode;
	c->seq_cutoff = args.seq_cutoff;
	c->size = args.size;
	c->min_size = args.min_size;
	c->if_same = args.if_same;
	c->advise = args.advise;
	c->seen = (struct rxd_seen) { .diskseq = args.diskseq, .changes = args.changes };
	init_rwsem(&c->message_lock);
	init_rwsem(&c->index_lock);
	mutex_init(&c->stats_lock);
	rxc_limit_init(c);
	rxc_promise_init(c);
	mutex_init(&c->advice_lock);
	c->nr_blocks = ti->len >> c->block_shift;
	if (c->nr_blocks > RXC_BLOCK_MAX) {
		ti->error = "the target has too many cache blocks";
		ret = -ERANGE;
		goto out_free;
	}

	ret = -ENOMEM;
	c->stats = alloc_percpu(struct rxc_stats);
	if (!c->stats) {
		ti->error = "no memory for the counters";
		goto out_free;
	}
	ret = get_devices(c, &args);
	if (ret)
		goto out_free_stats;
	ret = register_cache(c, &opens);
	if (ret)
		goto out_put_devices;
	ret = create_index(c, opens);
	if (ret)
		goto out_unregister;
	/* A size below the minimum is raised: the RAM disk may have grown since. */
	ti->error = rxc_limit_check(c, args.size, RXC_SLOTS_MIN) ?:
		    rxc_limit_check_min(c, args.min_size, args.size, RXC_SLOTS_MIN);
	if (ti->error) {
		ret = -EINVAL;
		goto out_destroy_index;
	}
	ti->error = rxc_promise_table(c);
	if (ti->error) {
		ret = -ERANGE;
		goto out_destroy_index;
	}
	ret = rxc_origin_init(c, dm_device_name(dm_table_get_md(ti->table)));
	if (ret) {
		ti->error = "no memory for I/O";
		goto out_destroy_index;
	}

	setup_target(ti);
	ti->private = c;
	return 0;

out_destroy_index:
	destroy_index(c);
out_unregister:
	unregister_cache(c);
out_put_devices:
	put_devices(c);
out_free_stats:
	free_percpu(c->stats);
out_free:
	kfree(c);
	return ret;
}

static void rxcache_dtr(struct dm_target *ti)
{
	struct rxcache *c = ti->private;
	struct rxcache *other;

	/* The memory that this cache was lent is free later. */
	rxd_note_givers(1);
	/*
	 * No other table may take over an index of this one any more. The next targets of the table
	 * are destroyed after this one, which may take long. By then, their origins may have
	 * changed without their indexes.
	 */
	mutex_lock(&rxc_lock);
	list_for_each_entry(other, &rxc_caches, list)
		if (other->ti->table == ti->table)
			other->started = false;
	rxc_limit_end(c);
	mutex_unlock(&rxc_lock);
	rxc_limit_suspend(c);
	rxc_sampler_off(&c->sampler);
	rxc_origin_exit(c);
	destroy_index(c);
	rxd_note_givers(-1);
	unregister_cache(c);
	put_devices(c);
	free_percpu(c->stats);
	kfree(c);
}

static int rxcache_map(struct dm_target *ti, struct bio *bio)
{
	struct rxc_bio *rb = dm_per_bio_data(bio, sizeof(*rb));
	struct rxcache *c = ti->private;

	rb->track = RXC_TRACK_NONE;
	if (unlikely(!bio_sectors(bio)))
		return rxc_remap(c, bio);

	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return rxc_read(c, bio);
	case REQ_OP_WRITE:
		return rxc_write(c, bio);
	default:
		return rxc_write_range(c, bio);
	}
}

static int rxcache_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *status)
{
	rxc_bio_ended(ti->private, bio, *status);
	return DM_ENDIO_DONE;
}

static void rxcache_presuspend(struct dm_target *ti)
{
	struct rxcache *c = ti->private;

	WRITE_ONCE(c->suspended, true);
}

static void rxcache_postsuspend(struct dm_target *ti)
{
	rxc_limit_suspend(ti->private);
}

static void rxcache_resume(struct dm_target *ti)
{
	struct rxcache *c = ti->private;

	WRITE_ONCE(c->suspended, false);
	rxc_limit_resume(c);
}

/* Find the cache of the previous table of the same device. */
static struct rxcache *find_predecessor(const struct rxcache *c)
{
	struct rxcache *other;

	lockdep_assert_held(&rxc_lock);
	list_for_each_entry(other, &rxc_caches, list) {
		if (other != c && other->started && may_share(c, other) &&
		    other->origin->bdev == c->origin->bdev &&
		    other->cache->bdev == c->cache->bdev &&
		    other->block_shift == c->block_shift)
			return other;
	}
	return NULL;
}

static bool is_larger(const struct rxc_index *a, const struct rxc_index *b)
{
	return rxc_index_nr_slots(a) > rxc_index_nr_slots(b);
}

/*
 * Caches of previous tables give nothing back any more: their indices or the pages of the RAM disk
 * are going to be replaced.
 */
static void end_predecessors(struct rxcache *c)
{
	struct rxcache *other;

	lockdep_assert_held(&rxc_lock);
	list_for_each_entry(other, &rxc_caches, list)
		if (may_share(c, other) && uses_disk_of(c, other))
			rxc_limit_end(other);
}

/*
 * Take over the cached data and the counters of the table that this one replaces, which is
 * permanently suspended by now.
 *
 * @nr_blocks: set to the number of blocks of the target that the index may know
 * @larger: a larger index than that of this table, or NULL; then set to that of this table if it is
 *	larger than the other one
 *
 * Return: true if there is such a table.
 */
static bool inherit_index(struct rxcache *c, u64 *nr_blocks, struct rxc_index **larger)
{
	struct rxcache *other;

	lockdep_assert_held_write(&c->index_lock);
	*nr_blocks = 0;
	mutex_lock(&rxc_lock);
	other = find_predecessor(c);
	/* In one step: others get what is lent from one of the two. */
	if (other)
		rxc_limit_take_over(c, other);
	end_predecessors(c);
	if (other) {
		swap(c->index, other->index);
		if (!*larger && is_larger(other->index, c->index))
			swap(*larger, other->index);
		*nr_blocks = other->nr_blocks;
		rxc_sampler_inherit(&c->sampler, &other->sampler);
		swap(c->stats, other->stats);
		swap(c->stats_base, other->stats_base);
	}
	mutex_unlock(&rxc_lock);
	return other;
}

static void keep_size(const struct rxcache *c, const char *why)
{
	DMWARN("%s: %s, the cache keeps its size", dm_table_device_name(c->ti->table), why);
}

/*
 * Create a larger index if the RAM disk has grown since that of this table was created. Reclaim may
 * have to take memory from this cache for it, so @index_lock is not held.
 *
 * Return: the index, or NULL.
 */
static struct rxc_index *create_larger(struct rxcache *c)
{
	struct rxc_index *index;
	unsigned int memflags;

	/* Only a resume replaces the index, and there is one at a time. */
	if (!rxc_index_is_outgrown(c->index))
		return NULL;
	/* Reclaim must not do I/O to the suspended device, which would never end. */
	memflags = memalloc_noio_save();
	index = rxc_index_create(c->store, cache_block_size(c) >> (PAGE_SHIFT - SECTOR_SHIFT),
				 c->stats);
	memalloc_noio_restore(memflags);
	if (IS_ERR(index)) {
		keep_size(c, "no memory for a larger index");
		return NULL;
	}
	if (!rxc_promise_growth(c, index)) {
		keep_size(c, "its minimum would exceed what is left of memory_share");
		rxc_index_destroy(index);
		return NULL;
	}
	return index;
}

struct growth {
	struct rxc_index *index;
	struct rxc_index *larger;
};

static void move_blocks(struct rxd_moves *moves, void *data)
{
	struct growth *growth = data;

	rxc_index_take_over(growth->larger, growth->index, moves);
}

/* @index: in: the larger index; out: the one that is not used any more */
static void take_up_growth(struct rxcache *c, struct rxc_index **index)
{
	struct growth growth = { .index = c->index, .larger = *index };

	lockdep_assert_held_write(&c->index_lock);
	if (rxd_move_pages(c->cache->bdev, dm_table_get_md(c->ti->table), move_blocks, &growth)) {
		keep_size(c, "no memory for the directory of its pages");
		return;
	}
	/* The counters may be those of the previous table by now. */
	rxc_index_swap_stats(*index, c->index);
	swap(c->index, *index);
}

static int take_ramdisk(struct rxcache *c)
{
	unsigned int opens;
	int ret;

	mutex_lock(&rxc_lock);
	opens = count_opens(c, c->cache);
	mutex_unlock(&rxc_lock);
	ret = rxd_take(c->cache->bdev, dm_table_get_md(c->ti->table), opens,
		       c->if_same ? &c->seen : NULL);
	if (ret)
		DMERR("%s: the cache device %s %s", dm_table_device_name(c->ti->table),
		      c->cache->name,
		      ret == -EBUSY ? "is now in use by another mapping" :
		      ret == -ESTALE ? "was replaced or written to" :
		      ret == -EROFS ? "is now read-only" :
				       "cannot store what its page cache holds");
	return ret;
}

/*
 * From now on, the origin changes without the indexes of other tables of the same device, which
 * exist for a while after they were replaced: no table may take them over.
 *
 * A table of another target, or of another part of the origin, is not seen here. Its predecessor is
 * destroyed by the ioctl that replaced it, so only a table that is loaded and resumed while this
 * ioctl runs could take over an old index.
 */
static void start(struct rxcache *c)
{
	struct rxcache *other;

	mutex_lock(&rxc_lock);
	list_for_each_entry(other, &rxc_caches, list)
		if (may_share(c, other) && uses_disk_of(c, other))
			other->started = false;
	c->started = true;
	mutex_unlock(&rxc_lock);
}

/* Without a previous table, the RAM disk may hold other data: drop it. */
static int rxcache_preresume(struct dm_target *ti)
{
	struct rxcache *c = ti->private;
	struct rxc_index *larger = create_larger(c);
	u64 nr_blocks = 0;
	int ret = 0;

	/* First, because some messages take long, and others trylock @index_lock meanwhile. */
	down_write(&c->message_lock);
	down_write(&c->index_lock);
	/* If this table cannot take over the index, what was lent is free later. */
	rxd_note_givers(1);
	if (!c->started && !inherit_index(c, &nr_blocks, &larger))
		ret = take_ramdisk(c);
	if (!ret) {
		start(c);
		if (larger && is_larger(larger, c->index))
			take_up_growth(c, &larger);
		rxc_limit_begin(c);
	}
	rxd_note_givers(-1);
	/* From now on, this cache gives back what it was lent: the rest may take long. */
	downgrade_write(&c->index_lock);
	up_write(&c->message_lock);
	rxc_promise_resume(c);
	if (!ret) {
		/* Blocks beyond the end of a shorter table would not be updated any more. */
		if (nr_blocks > c->nr_blocks)
			rxc_index_drop(c->index, c->nr_blocks, nr_blocks - c->nr_blocks);
		rxc_advise_adjust(c);
	}
	up_read(&c->index_lock);
	rxc_index_destroy(larger);
	return ret;
}

/* @sum: the counters, or NULL in a table line. */
static void emit_policy_args(const struct rxcache *c, const struct rxc_stats *sum, char *result,
			     unsigned int maxlen)
{
	u64 seq_cutoff = READ_ONCE(c->seq_cutoff), size = READ_ONCE(c->size);
	u64 min_size = READ_ONCE(c->min_size);
	bool advise = READ_ONCE(c->advise);
	bool lends = sum && min_size;
	unsigned int sz = 0;

	DMEMIT("%d", 2 * (!!seq_cutoff + !!size + !!min_size + advise + 3 * lends));
	if (seq_cutoff)
		DMEMIT(" seq_cutoff %llu", seq_cutoff);
	if (size)
		DMEMIT(" size %llu", size);
	if (min_size)
		DMEMIT(" min_size %llu", min_size);
	if (advise)
		DMEMIT(" advise 1");
	if (lends)
		DMEMIT(" lent %lu given_back %llu taken %llu", rxc_limit_lent(c),
		       sum->count[RXC_GIVEN], sum->count[RXC_TAKEN]);
}

static void rxcache_status(struct dm_target *ti, status_type_t type,
			   unsigned int status_flags, char *result, unsigned int maxlen)
{
	struct rxcache *c = ti->private;
	const char *mode = rxc_mode_name(READ_ONCE(c->mode));
	struct rxc_stats sum;
	unsigned int sz = 0;
	int i;

	switch (type) {
	case STATUSTYPE_INFO:
		down_read(&c->index_lock);
		if (c->started)
			rxc_limit_count_taken(c);
		mutex_lock(&c->stats_lock);
		rxc_stats_read(c->stats, &c->stats_base, &sum);
		mutex_unlock(&c->stats_lock);
		DMEMIT("%u %lld/%lu %zu", cache_block_size(c), max_t(s64, sum.used, 0),
		       rxc_index_nr_slots(c->index), rxc_index_metadata_bytes(c->index));
		up_read(&c->index_lock);
		for (i = 0; i < RXC_GIVEN; i++)
			DMEMIT(" %llu", sum.count[i]);
		DMEMIT(" 3 %s block_size %u ", mode, cache_block_size(c));
		emit_policy_args(c, &sum, result + sz, maxlen - sz);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %s 3 %s block_size %u ", c->origin->name, c->cache->name, mode,
		       cache_block_size(c));
		emit_policy_args(c, NULL, result + sz, maxlen - sz);
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",origin=%s,cache=%s,mode=%s,block_size=%u,seq_cutoff=%llu,size=%llu",
		       c->origin->name, c->cache->name, mode, cache_block_size(c),
		       READ_ONCE(c->seq_cutoff), READ_ONCE(c->size));
		DMEMIT(",min_size=%llu", READ_ONCE(c->min_size));
		DMEMIT(",advise=%c;", READ_ONCE(c->advise) ? 'y' : 'n');
		break;
	}
}

static int rxcache_message(struct dm_target *ti, unsigned int argc, char **argv,
			   char *result, unsigned int maxlen)
{
	struct rxcache *c = ti->private;
	int ret;

	down_read(&c->message_lock);
	down_read(&c->index_lock);
	/* A table that replaces another one has not taken over the index yet. */
	ret = c->started ? rxc_message(c, argc, argv, result, maxlen) : -EBUSY;
	up_read(&c->index_lock);
	up_read(&c->message_lock);
	return ret;
}

static int rxcache_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn,
				   void *data)
{
	struct rxcache *c = ti->private;

	return fn(ti, c->origin, 0, ti->len, data);
}

static struct target_type rxcache_target = {
	.name			= "rxcache",
	.version		= { 1, 5, 0 },
	.features		= DM_TARGET_NOWAIT,
	.module			= THIS_MODULE,
	.ctr			= rxcache_ctr,
	.dtr			= rxcache_dtr,
	.map			= rxcache_map,
	.end_io			= rxcache_end_io,
	.presuspend		= rxcache_presuspend,
	.presuspend_undo	= rxcache_resume,
	.postsuspend		= rxcache_postsuspend,
	.preresume		= rxcache_preresume,
	.resume			= rxcache_resume,
	.status			= rxcache_status,
	.message		= rxcache_message,
	.iterate_devices	= rxcache_iterate_devices,
};

static int __init rxcache_init(void)
{
	return dm_register_target(&rxcache_target);
}

static void __exit rxcache_exit(void)
{
	dm_unregister_target(&rxcache_target);
}

module_init(rxcache_init);
module_exit(rxcache_exit);

MODULE_DESCRIPTION("A RAM disk as a write-through cache in front of a slower disk");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(RXD_NS);
