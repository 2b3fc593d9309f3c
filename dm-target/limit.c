// SPDX-License-Identifier: GPL-2.0-only
/*
 * The size of a cache: a limit of its blocks, which moves while the cache is in use.
 *
 * The RAM disk and the index have the maximum size. When the limit falls, a worker evicts the
 * blocks beyond it in small parts, and lets I/O go on. When it rises, the cache fills again.
 */
#include <linux/device-mapper.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>

#include "limit.h"
#include "origin.h"

#define DM_MSG_PREFIX "rxcache"

/* Bytes that are evicted at once. */
#define PART		SZ_64M
/* When to look again after all blocks to be evicted were in use. */
#define RETRY_DELAY	(HZ / 20)

static u64 bytes_of_block(const struct rxcache *c)
{
	return (u64)SECTOR_SIZE << c->block_shift;
}

/**
 * rxc_limit_check - check a size
 * @c: the cache
 * @bytes: the size; 0: that of the RAM disk
 * @least: number of blocks that the size must have, at least RXC_SLOTS_MIN
 *
 * The caller prevents that the index is replaced.
 *
 * Return: NULL, or what the size must be.
 */
char *rxc_limit_check(const struct rxcache *c, u64 bytes, unsigned long least)
{
	if (!bytes)
		return NULL;
	if (bytes % bytes_of_block(c))
		return "size must be a multiple of the block size";
	if (bytes >> PAGE_SHIFT > rxd_store_nr_pages(c->store))
		return "size must be 0, or at most that of the cache device";
	if (bytes / bytes_of_block(c) < least)
		return "size must be 0, or at least 16 blocks and 1/32 of the cache device";
	return NULL;
}

/* Limit the index. The table has to show the size that applies, so that it can be loaded again. */
static void apply(struct rxcache *c)
{
	unsigned long nr_slots = rxc_index_nr_slots(c->index);
	u64 least = rxc_index_min_limit(c->index) * bytes_of_block(c);

	lockdep_assert_held(&c->limit_lock);
	/* Some blocks of the RAM disk may be left over. An outgrown index will be replaced. */
	if (c->size / bytes_of_block(c) >= nr_slots && !rxc_index_is_outgrown(c->index))
		WRITE_ONCE(c->size, 0);
	if (c->size && c->size < least) {
		DMWARN("%s: size %llu is too small for the cache device, and becomes %llu",
		       dm_table_device_name(c->ti->table), c->size, least);
		WRITE_ONCE(c->size, least);
	}
	rxc_index_set_limit(c->index, c->size ? c->size / bytes_of_block(c) : nr_slots);
}

static void begin_trim(struct rxcache *c)
{
	mod_delayed_work(c->wq, &c->trim_work, 0);
}

/**
 * rxc_limit_set - change the size of a cache that is in use
 * @c: the cache, whose @index_lock the caller holds
 * @bytes: a size that rxc_limit_check() has accepted
 */
void rxc_limit_set(struct rxcache *c, u64 bytes)
{
	lockdep_assert_held(&c->index_lock);
	mutex_lock(&c->limit_lock);
	WRITE_ONCE(c->size, bytes);
	apply(c);
	mutex_unlock(&c->limit_lock);
	/* The work does nothing if the cache is suspended. */
	begin_trim(c);
}

/**
 * rxc_limit_apply - apply the size to an index that the cache has just got
 * @c: the cache, which is suspended
 */
void rxc_limit_apply(struct rxcache *c)
{
	mutex_lock(&c->limit_lock);
	apply(c);
	mutex_unlock(&c->limit_lock);
}

/**
 * rxc_limit_resume - go on evicting blocks beyond the limit
 * @c: the cache, which has been resumed
 */
void rxc_limit_resume(struct rxcache *c)
{
	begin_trim(c);
}

/**
 * rxc_limit_suspend - stop evicting, so that the index may be replaced
 * @c: the cache, which is marked as suspended
 */
void rxc_limit_suspend(struct rxcache *c)
{
	cancel_delayed_work_sync(&c->trim_work);
}

/*
 * Evict a part of what is beyond the limit. The queue also serves I/O, so the work does not sleep
 * for long. RCU frees the pages, and throttles its callbacks: leave a grace period between parts.
 */
static void trim(struct work_struct *work)
{
	struct rxcache *c = container_of(to_delayed_work(work), struct rxcache, trim_work);
	unsigned long nr = max(PART / bytes_of_block(c), 1ULL), delay = 1;

	if (READ_ONCE(c->suspended) || !rxd_store_excess(c->store))
		return;
	if (poll_state_synchronize_rcu(c->trim_grace)) {
		if (!rxc_index_trim(c->index, nr))
			delay = RETRY_DELAY;
		c->trim_grace = start_poll_synchronize_rcu();
	}
	queue_delayed_work(c->wq, &c->trim_work, delay);
}

/**
 * rxc_limit_init - prepare for rxc_limit_set()
 * @c: the cache
 */
void rxc_limit_init(struct rxcache *c)
{
	mutex_init(&c->limit_lock);
	INIT_DELAYED_WORK(&c->trim_work, trim);
	c->trim_grace = get_completed_synchronize_rcu();
}
