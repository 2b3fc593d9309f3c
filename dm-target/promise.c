// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory that a cache does not give back counts towards the share of memory of all RAM disks.
 * It is the minimum of an elastic cache; a cache without a minimum can have the whole RAM disk.
 *
 * A table promises it when it is loaded, and fails if it does not fit. The promise ends with the
 * table. A table that replaces another one thus promises beside that: the larger promise counts.
 * The RAM disk decides whether any of them counts: see RXD_CREATE_ELASTIC.
 */
#include <linux/device-mapper.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/mutex.h>

#include "../module/rxd.h"
#include "limit.h"
#include "origin.h"
#include "promise.h"

/* @min_size: the minimum, which a large @index raises; see limit.c */
static int promise_with(struct rxcache *c, const struct rxc_index *index, u64 min_size, bool force)
{
	u64 least = (u64)rxc_index_min_limit(index) << c->block_shift << SECTOR_SHIFT;

	return rxd_promise(c->cache->bdev, &c->promise,
			   min_size ? max(min_size, least) : U64_MAX, force);
}

static int promise(struct rxcache *c, u64 min_size, bool force)
{
	return promise_with(c, c->index, min_size, force);
}

static char *try(struct rxcache *c, u64 min_size)
{
	if (!promise(c, min_size, false))
		return NULL;
	return min_size ? "min_size must fit into what is left of memory_share" :
	       "without min_size, the cache device must fit into what is left of memory_share";
}

/**
 * rxc_promise_init - prepare for the other functions
 * @c: the cache
 */
void rxc_promise_init(struct rxcache *c)
{
	INIT_LIST_HEAD(&c->promise.list);
	mutex_init(&c->promise_lock);
}

/**
 * rxc_promise_table - promise what a new table needs
 * @c: the cache, which has claimed the RAM disk and has an index
 *
 * Return: NULL, or what must fit into the share of memory.
 */
char *rxc_promise_table(struct rxcache *c)
{
	return try(c, c->min_size);
}

/**
 * rxc_promise_growth - promise the minimum that a larger index has, if the share allows it
 * @c: the cache, which is being resumed; rxc_promise_resume() follows
 * @larger: the index
 *
 * May wait as rxc_promise_resume().
 *
 * Return: true if it does.
 */
bool rxc_promise_growth(struct rxcache *c, const struct rxc_index *larger)
{
	bool fits;

	mutex_lock(&c->promise_lock);
	fits = !promise_with(c, larger, READ_ONCE(c->min_size), false);
	mutex_unlock(&c->promise_lock);
	return fits;
}

/**
 * rxc_promise_resume - promise the minimum that applies from now on
 * @c: the cache, whose @index_lock the caller holds
 *
 * It may be larger than that of the table, because the RAM disk has grown. This may wait for a task
 * that resizes the RAM disk, and needs memory for that.
 */
void rxc_promise_resume(struct rxcache *c)
{
	lockdep_assert_held_read(&c->index_lock);
	mutex_lock(&c->promise_lock);
	promise(c, READ_ONCE(c->min_size), true);
	mutex_unlock(&c->promise_lock);
}

/**
 * rxc_promise_min - change the minimum of a cache that is in use, if the share of memory allows it
 * @c: the cache, whose @index_lock the caller holds
 * @bytes: the minimum; 0: nothing is lent
 *
 * Return: NULL, or what the minimum must be; then nothing has changed.
 */
char *rxc_promise_min(struct rxcache *c, u64 bytes)
{
	char *error;

	lockdep_assert_held(&c->index_lock);
	mutex_lock(&c->promise_lock);
	/* A value that is wrong in any case is not one of a share that is too small. */
	error = rxc_limit_check_min(c, bytes, READ_ONCE(c->size), rxc_index_min_limit(c->index));
	if (!error)
		error = try(c, bytes);
	if (!error)
		error = rxc_limit_set_min(c, bytes);
	/* Others may have changed the size meanwhile, so that this minimum is refused after all. */
	if (error)
		promise(c, READ_ONCE(c->min_size), true);
	mutex_unlock(&c->promise_lock);
	return error;
}

/**
 * rxc_promise_end - promise nothing any more
 * @c: the cache, which still has claimed the RAM disk
 */
void rxc_promise_end(struct rxcache *c)
{
	rxd_withdraw(c->cache->bdev, &c->promise);
}
