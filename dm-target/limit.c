// SPDX-License-Identifier: GPL-2.0-only
/*
 * The size of a cache: a limit of its blocks, which moves while the cache is in use.
 *
 * The RAM disk and the index have the maximum size. When the limit falls, a worker evicts the
 * blocks beyond it in small parts, and lets I/O go on. When it rises, the cache fills again.
 *
 * With a minimum, the memory beyond that is lent, and the limit floats. It is what the cache uses,
 * and a part more while memory is free. It falls with the blocks that are given back, by a few
 * at a time, before these leave: so no others enter in their place. See ../module/give-back.c.
 */
#include <linux/device-mapper.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/nodemask.h>
#include <linux/numa.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "limit.h"
#include "origin.h"

#define DM_MSG_PREFIX "rxcache"

/* Bytes that are evicted at once. */
#define PART		SZ_64M
/* Lent blocks are claimed in parts: so many, so many bytes, or this part of what is left. */
#define CLAIM_MOST	16UL
#define CLAIM_BYTES	SZ_1M
#define CLAIM_PART	8
/* When to look again after all blocks to be evicted were in use. */
#define RETRY_DELAY	(HZ / 20)
/* So many bytes is the floating limit above what is used, or this part of it if that is more. */
#define GROW_BYTES	SZ_4M
#define GROW_PART	64

static u64 bytes_of_block(const struct rxcache *c)
{
	return (u64)SECTOR_SIZE << c->block_shift;
}

static unsigned long pages_of_block(const struct rxcache *c)
{
	return bytes_of_block(c) >> PAGE_SHIFT;
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

/**
 * rxc_limit_check_min - check a minimum size
 * @c: the cache
 * @bytes: the minimum; 0: nothing is lent
 * @size: the size; 0: that of the RAM disk
 * @least: number of blocks that the minimum must have, at least RXC_SLOTS_MIN
 *
 * The caller prevents that the index is replaced.
 *
 * Return: NULL, or what the minimum must be.
 */
char *rxc_limit_check_min(const struct rxcache *c, u64 bytes, u64 size, unsigned long least)
{
	if (!bytes)
		return NULL;
	if (bytes % bytes_of_block(c))
		return "min_size must be a multiple of the block size";
	if (bytes >> PAGE_SHIFT > rxd_store_nr_pages(c->store) || (size && bytes > size))
		return "min_size must be 0, or at most size, and that of the cache device";
	if (bytes / bytes_of_block(c) < least)
		return "min_size must be 0, or at least 16 blocks and 1/32 of the cache device";
	return NULL;
}

/**
 * rxc_limit_most - get the largest number of blocks that the cache may have
 * @c: the cache; the caller prevents that the index is replaced
 *
 * Return: number of blocks.
 */
unsigned long rxc_limit_most(const struct rxcache *c)
{
	unsigned long nr_slots = rxc_index_nr_slots(c->index);
	u64 size = READ_ONCE(c->size);

	return size ? min_t(u64, size / bytes_of_block(c), nr_slots) : nr_slots;
}

static unsigned long least_blocks(const struct rxcache *c)
{
	return min_t(u64, c->min_size / bytes_of_block(c), rxc_limit_most(c));
}

static void raise(struct rxcache *c, u64 *bytes, const char *name)
{
	u64 least = rxc_index_min_limit(c->index) * bytes_of_block(c);

	if (!*bytes || *bytes >= least)
		return;
	DMWARN("%s: %s %llu is too small for the cache device, and becomes %llu",
	       dm_table_device_name(c->ti->table), name, *bytes, least);
	WRITE_ONCE(*bytes, least);
}

/* Limit the index. The table has to show the sizes that apply, so that it can be loaded again. */
static void apply(struct rxcache *c)
{
	unsigned long nr;

	lockdep_assert_held(&c->limit_lock);
	/* Some blocks of the RAM disk may be left over. An outgrown index will be replaced. */
	if (c->size / bytes_of_block(c) >= rxc_index_nr_slots(c->index) &&
	    !rxc_index_is_outgrown(c->index))
		WRITE_ONCE(c->size, 0);
	raise(c, &c->size, "size");
	raise(c, &c->min_size, "min_size");
	nr = rxc_limit_most(c);
	if (c->min_size) {
		c->floating = clamp(c->floating, least_blocks(c), nr);
		nr = c->floating;
		rxd_store_set_lending(c->store, least_blocks(c) * pages_of_block(c));
	} else {
		rxd_store_set_lending(c->store, ULONG_MAX);
	}
	rxc_index_set_limit(c->index, nr);
}

/**
 * rxc_limit_lent - get the memory that the cache was lent
 * @c: the cache
 *
 * Return: number of blocks.
 */
unsigned long rxc_limit_lent(const struct rxcache *c)
{
	return rxd_store_lent(c->store) / pages_of_block(c);
}

static void count_taken(struct rxcache *c)
{
	unsigned long lent = rxc_limit_lent(c);

	lockdep_assert_held(&c->limit_lock);
	/* Some of the blocks on their way out may have left already. */
	if (c->leaving)
		return;
	if (lent > c->last_lent)
		rxc_stat_add(c->stats, RXC_TAKEN, lent - c->last_lent);
	c->last_lent = lent;
}

/**
 * rxc_limit_count_taken - count the blocks that memory was lent for since the last look
 * @c: the cache, whose index is in use
 */
void rxc_limit_count_taken(struct rxcache *c)
{
	spin_lock(&c->limit_lock);
	count_taken(c);
	spin_unlock(&c->limit_lock);
}

/* Let the floating limit follow what is used. */
static void follow(struct rxcache *c)
{
	unsigned long nr, part;

	/* Whoever finds it locked goes on with the last limit. */
	if (!spin_trylock(&c->limit_lock))
		return;
	/* What is being given back is still used. */
	if (time_after(jiffies, c->followed_at) && c->min_size && !c->leaving) {
		WRITE_ONCE(c->followed_at, jiffies);
		nr = rxd_store_used(c->store) / pages_of_block(c);
		part = max(GROW_BYTES / bytes_of_block(c), nr / GROW_PART) ?: 1;
		c->floating = nr;
		if (rxd_lend_allows(c->store, part * pages_of_block(c)))
			c->floating += part;
		apply(c);
		count_taken(c);
	}
	spin_unlock(&c->limit_lock);
}

/* What is used stays, as far as the sizes allow it. */
static void float_as_used(struct rxcache *c)
{
	unsigned long nr = rxd_store_used(c->store) / pages_of_block(c);

	c->floating = nr - min(nr, c->leaving);
	apply(c);
	c->last_lent = rxc_limit_lent(c);
}

static void begin_trim(struct rxcache *c)
{
	mod_delayed_work(c->wq, &c->trim_work, 0);
}

/**
 * rxc_limit_set - change the size of a cache that is in use
 * @c: the cache, whose @index_lock the caller holds
 * @bytes: the size; 0: that of the RAM disk
 *
 * Return: NULL, or what the size must be; then nothing has changed.
 */
char *rxc_limit_set(struct rxcache *c, u64 bytes)
{
	char *error;

	lockdep_assert_held(&c->index_lock);
	spin_lock(&c->limit_lock);
	error = rxc_limit_check(c, bytes, rxc_index_min_limit(c->index));
	if (!error && bytes && bytes < c->min_size)
		error = "size must be 0, or at least min_size";
	if (!error) {
		WRITE_ONCE(c->size, bytes);
		apply(c);
		c->last_lent = rxc_limit_lent(c);
	}
	spin_unlock(&c->limit_lock);
	/* The work does nothing if the cache is suspended. */
	if (!error)
		begin_trim(c);
	return error;
}

/**
 * rxc_limit_set_min - change the size beyond which memory is lent
 * @c: the cache, whose @index_lock the caller holds
 * @bytes: the minimum; 0: nothing is lent
 *
 * Return: NULL, or what the minimum must be; then nothing has changed.
 */
char *rxc_limit_set_min(struct rxcache *c, u64 bytes)
{
	char *error;

	lockdep_assert_held(&c->index_lock);
	spin_lock(&c->limit_lock);
	error = rxc_limit_check_min(c, bytes, c->size, rxc_index_min_limit(c->index));
	if (!error) {
		WRITE_ONCE(c->min_size, bytes);
		float_as_used(c);
	}
	spin_unlock(&c->limit_lock);
	return error;
}

/**
 * rxc_limit_gfp - decide how pages for further blocks are allocated
 * @c: the cache
 * @nr: number of pages
 * @gfp: flags for memory of the cache's own
 *
 * The limit follows what is used, once in a jiffy.
 *
 * Return: @gfp; RXD_GFP_LENT if the memory is lent; or 0 if there is none to be lent now.
 */
gfp_t rxc_limit_gfp(struct rxcache *c, unsigned long nr, gfp_t gfp)
{
	if (likely(!READ_ONCE(c->min_size)))
		return gfp;
	if (time_after(jiffies, READ_ONCE(c->followed_at)))
		follow(c);
	if (!rxd_store_would_borrow(c->store, nr))
		return gfp;
	/* At its minimum, the cache replaces its own blocks, as others do. */
	if (!rxd_store_lent(c->store) && !rxd_store_has_room(c->store, pages_of_block(c)))
		return gfp;
	/* Most pages replace others, which are free only after a grace period. */
	return rxd_lend_may_replace() ? RXD_GFP_LENT : 0;
}

/* Blocks on their way out are still used, but no other block may enter in their place. */
static void float_as_lent(struct rxcache *c, unsigned long lent)
{
	c->floating = least_blocks(c) + lent - min(lent, c->leaving);
	apply(c);
}

/*
 * Claim up to @nr blocks, which the caller evicts. Whoever evicts a block because of the limit
 * claims it first. So no two of them evict a block each because of the same page. Near the minimum,
 * the parts are small, so that no task finds nothing because others have claimed too much.
 */
static unsigned long claim_lent(struct rxcache *c, unsigned long nr)
{
	unsigned long lent, left, most = min_t(u64, CLAIM_MOST, CLAIM_BYTES / bytes_of_block(c));

	spin_lock(&c->limit_lock);
	lent = rxc_limit_lent(c);
	left = lent - min(lent, c->leaving);
	most = max(min(most, left / CLAIM_PART), 1UL);
	nr = min3(nr, left, most);
	if (nr) {
		c->leaving += nr;
		float_as_lent(c, lent);
	}
	spin_unlock(&c->limit_lock);
	return nr;
}

static bool claim_excess(struct rxcache *c)
{
	bool is_there;

	spin_lock(&c->limit_lock);
	is_there = rxd_store_excess(c->store) > c->leaving * pages_of_block(c);
	c->leaving += is_there;
	spin_unlock(&c->limit_lock);
	return is_there;
}

/* Of the claimed blocks, some are out. The others stay. */
static void end_claim_of_lent(struct rxcache *c, unsigned long claimed, unsigned long out)
{
	spin_lock(&c->limit_lock);
	c->leaving -= claimed;
	float_as_lent(c, rxc_limit_lent(c));
	c->last_lent -= min(c->last_lent, out);
	spin_unlock(&c->limit_lock);
}

static void end_claim_of_excess(struct rxcache *c)
{
	spin_lock(&c->limit_lock);
	c->leaving--;
	spin_unlock(&c->limit_lock);
}

/* Take lent blocks of a node out of the cache, and lower its limit. */
static unsigned long give(struct rxcache *c, unsigned long nr, int nid, struct list_head *pages)
{
	unsigned long found = 0, claimed, out;
	struct rxc_victims victims = {};
	bool is_out = true;

	while (found < nr && is_out) {
		claimed = claim_lent(c, nr - found);
		if (!claimed)
			break;
		/* A drop may have removed blocks, too, after the claim. */
		for (out = 0; out < claimed && rxc_limit_lent(c); out++) {
			is_out = rxc_index_take_out(c->index, nid, &victims, pages);
			cond_resched();
			if (!is_out)
				break;
		}
		end_claim_of_lent(c, claimed, out);
		found += out;
	}
	rxc_stat_add(c->stats, RXC_GIVEN, found);
	return found;
}

/* Return: number of pages, or -EBUSY. */
static long give_back(struct rxd_borrower *borrower, unsigned long nr, int nid,
		      struct list_head *pages)
{
	struct rxcache *c = container_of(borrower, struct rxcache, borrower);

	/* Held by a resume, which may need memory. */
	if (!down_read_trylock(&c->index_lock))
		return -EBUSY;
	/* Do not look at each page if all are on one node. */
	if (num_node_state(N_MEMORY) < 2)
		nid = NUMA_NO_NODE;
	nr = give(c, DIV_ROUND_UP(nr, pages_of_block(c)), nid, pages);
	up_read(&c->index_lock);
	return nr * pages_of_block(c);
}

static u64 count_uses(const struct rxd_borrower *borrower)
{
	struct rxcache *c = container_of(borrower, struct rxcache, borrower);
	u64 nr = 0;
	int cpu;

	/* The counters are being exchanged with those of the previous table. */
	if (!down_read_trylock(&c->index_lock))
		return borrower->uses;
	for_each_possible_cpu(cpu)
		nr += READ_ONCE(per_cpu_ptr(c->stats, cpu)->count[RXC_READ_HITS]);
	up_read(&c->index_lock);
	return nr * pages_of_block(c);
}

/**
 * rxc_limit_begin - apply the sizes to an index that the cache has just got
 * @c: the cache, which is suspended, and whose @index_lock the caller holds for writing
 *
 * As soon as the lock is free, others get what the cache was lent.
 */
void rxc_limit_begin(struct rxcache *c)
{
	lockdep_assert_held_write(&c->index_lock);
	spin_lock(&c->limit_lock);
	/* What the previous table was lent stays. */
	float_as_used(c);
	spin_unlock(&c->limit_lock);
	/* After rxc_limit_take_over(), or a suspend, others read it already. */
	if (c->borrower.store != c->store)
		c->borrower.store = c->store;
	rxd_borrow_begin(&c->borrower);
}

/**
 * rxc_limit_take_over - let a cache give back what the previous table was lent
 * @c: the cache, whose @index_lock the caller holds for writing until after rxc_limit_begin()
 * @old: that of the previous table, with the same store
 *
 * @old gives nothing from now on, so the index may be exchanged. Others find @c locked until then.
 */
void rxc_limit_take_over(struct rxcache *c, struct rxcache *old)
{
	lockdep_assert_held_write(&c->index_lock);
	c->borrower.store = c->store;
	rxd_borrow_replace(&old->borrower, &c->borrower);
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
 * rxc_limit_suspend - stop evicting
 * @c: the cache, which is marked as suspended
 *
 * Lent memory is given back meanwhile, too.
 */
void rxc_limit_suspend(struct rxcache *c)
{
	cancel_delayed_work_sync(&c->trim_work);
}

/**
 * rxc_limit_end - give back no more
 * @c: the cache, which is never resumed again; nothing changes if another one has taken over
 *
 * What it was lent does not count as lent any more, because nobody could give it. Callers serialise
 * this with rxc_limit_take_over().
 */
void rxc_limit_end(struct rxcache *c)
{
	if (list_empty(&c->borrower.list))
		return;
	rxd_borrow_end(&c->borrower);
	rxd_store_set_lending(c->store, ULONG_MAX);
}

static bool trim_part(struct rxcache *c)
{
	unsigned long nr = max(PART / bytes_of_block(c), 1ULL), found = 0;
	bool is_out = true;

	while (found < nr && is_out && claim_excess(c)) {
		is_out = rxc_index_make_room(c->index);
		end_claim_of_excess(c);
		found += is_out;
		cond_resched();
	}
	return found;
}

/*
 * Evict a part of what is beyond the limit. The queue also serves I/O, so the work does not sleep
 * for long. RCU frees the pages, and throttles its callbacks: leave a grace period between parts.
 */
static void trim(struct work_struct *work)
{
	struct rxcache *c = container_of(to_delayed_work(work), struct rxcache, trim_work);
	unsigned long delay = 1;

	if (READ_ONCE(c->suspended) || !rxd_store_excess(c->store))
		return;
	if (poll_state_synchronize_rcu(c->trim_grace)) {
		if (!trim_part(c))
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
	spin_lock_init(&c->limit_lock);
	/* Jiffies start below 0. */
	c->followed_at = jiffies - 1;
	INIT_DELAYED_WORK(&c->trim_work, trim);
	c->trim_grace = get_completed_synchronize_rcu();
	c->borrower = (struct rxd_borrower) {
		.give = give_back,
		.count_uses = count_uses,
		.list = LIST_HEAD_INIT(c->borrower.list),
	};
}
