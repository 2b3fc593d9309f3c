// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prefetch: fills without a reader, which give way to all other I/O.
 */
#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>

#include "origin-internal.h"

/* How long a prefetch waits for other I/O at most. */
#define MAX_PATIENCE	(HZ / 2)
/* A prefetch starts no further MiB after this time, because other tasks wait for its end. */
#define MAX_PREFETCH	(HZ / 10)

static bool must_stop(const struct rxcache *c)
{
	return READ_ONCE(c->suspended) || fatal_signal_pending(current);
}

static void give_way(struct rxcache *c)
{
	unsigned long patience = jiffies + MAX_PATIENCE;

	while (time_before(jiffies, READ_ONCE(c->busy_at) + QUIET_TIME) &&
	       time_before(jiffies, patience) && !must_stop(c))
		schedule_timeout_killable(1);
}

/* Blocks that are prefetched between two checks for other I/O. */
static unsigned int blocks_at_once(const struct rxcache *c)
{
	return SZ_1M >> SECTOR_SHIFT >> c->block_shift;
}

static int prefetch_missing(struct rxcache *c, u64 block, u64 end)
{
	struct rxc_wait wait = { .pending = ATOMIC_INIT(1) };
	s64 next = block;

	init_completion(&wait.done);
	for (; next >= 0 && block < end; block = next) {
		next = block + 1;
		if (rxc_index_find(c->index, block) < 0)
			next = rxc_fill_run(c, block, end, &wait);
	}
	if (!atomic_dec_and_test(&wait.pending))
		wait_for_completion_io(&wait.done);
	return next < 0 ? next : blk_status_to_errno(wait.status);
}

static u64 count_absent(struct rxcache *c, u64 block, u64 end)
{
	u64 nr = 0;

	for (; block < end; block++)
		nr += rxc_index_find(c->index, block) < 0;
	return nr;
}

static int prefetch_part(struct rxcache *c, u64 block, u64 end, u64 *nr_left_out)
{
	int ret;

	if (!count_absent(c, block, end))
		return 0;
	give_way(c);
	if (must_stop(c))
		return READ_ONCE(c->suspended) ? -EBUSY : -EINTR;
	ret = prefetch_missing(c, block, end);
	*nr_left_out += count_absent(c, block, end);
	return ret;
}

/**
 * rxc_prefetch - read blocks into the cache
 * @c: the cache
 * @range: in: the blocks; out, if 0 is returned: the blocks that remain to be prefetched
 * @nr_left_out: set to the number of blocks before these that are not in the cache, because
 *	other I/O was using them
 *
 * Other I/O to the origin has precedence. The prefetch stops if the device is suspended. It
 * also stops after MAX_PREFETCH, even if blocks remain, because a task that waits for the end
 * of a message may make all I/O to the device wait.
 *
 * Return: 0; -EBUSY if the device is suspended or being suspended; -EINTR if the task is
 * killed; -ENOMEM if the cache has no room for more blocks; or an error of the origin.
 */
int rxc_prefetch(struct rxcache *c, struct rxc_range *range, u64 *nr_left_out)
{
	unsigned long end = jiffies + MAX_PREFETCH;
	int ret = 0;
	u64 nr;

	*nr_left_out = 0;
	atomic_inc(&c->nr_prefetches);
	while (!ret && range->nr) {
		nr = min_t(u64, range->nr, blocks_at_once(c));
		ret = prefetch_part(c, range->first, range->first + nr, nr_left_out);
		range->first += nr;
		range->nr -= nr;
		cond_resched();
		if (time_after(jiffies, end))
			break;
	}
	atomic_dec(&c->nr_prefetches);
	return ret;
}
