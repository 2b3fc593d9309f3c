// SPDX-License-Identifier: GPL-2.0-only
/*
 * The advice: which hit ratio would caches of other sizes have?
 *
 * The uses of a sample of the blocks go into a ring of their processor. A work item feeds them to
 * a miniature cache for each size, counts the misses, and keeps the counts of the last day.
 *
 * The hit ratio of a size is 1 - its misses / all reads. With the reads of the sample in place of
 * all reads, the result would depend on which of the most popular blocks the sample has.
 */
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/device-mapper.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sizes.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "../module/compat.h"
#include "../module/rxd.h"
#include "advice.h"

#define DM_MSG_PREFIX "rxcache"

/* Samples in a ring, at least and at most, and in all rings. */
#define RING_MIN	2U
#define RING_MAX	2048U
#define RINGS_MAX	32768U
/* All of it takes less than this. */
#define BYTES_MAX	SZ_1M
/* The counts are kept in parts of five minutes. */
#define PART_SECONDS	300
#define PARTS_OF_HOUR	12
#define PARTS		288
/* How often the rings are emptied at least, if there is time. */
#define PERIOD		(10 * HZ)
/*
 * The worker may take a hundredth of a processor. After a quiet time, it may take what it could
 * have taken in PART_SECONDS at once.
 */
#define SHARE		100
#define BUDGET		((s64)PART_SECONDS * NSEC_PER_SEC / SHARE)
/* A sample is the number of a block, and what happened to it. */
#define USE_BITS	2

static_assert(RXC_NR_USES <= 1 << USE_BITS);

/* Of the samples, those of reads are counted apart: only they stand for reads. */
enum kind {
	OF_READS,
	OF_CHANGES,
	NR_KINDS,
};

/**
 * struct ring - samples of a processor
 * @head: number of samples that were put in; only tasks on this processor change it
 * @tail: number of samples that were taken out; only the worker changes it
 * @lost: number of samples for which there was no room
 * @seen: the part of @lost that the worker has counted
 * @sample: sample n is entry n modulo the length
 */
struct ring {
	u32 head;
	u32 tail;
	u32 lost[NR_KINDS];
	u32 seen[NR_KINDS];
	u64 sample[];
};

/**
 * struct part - counts of five minutes
 * @reads: blocks that were read, without those whose samples were lost
 * @fed: samples that the miniature caches got
 * @lost: samples that they did not get
 * @misses: blocks that each size would have missed
 */
struct part {
	u64 reads;
	u64 fed[NR_KINDS];
	u64 lost[NR_KINDS];
	u64 misses[RXC_MINI_SIZES];
};

/**
 * struct rxc_advice - finds the hit ratios of other sizes
 * @every: see struct rxc_sampler
 * @ring_mask: number of samples in a ring, less one
 * @ring_bytes: size of a ring
 * @rings: the rings, one for each processor
 * @stats: counters of the cache
 * @nr_slots: number of blocks that the cache may hold
 * @work: feeds the samples
 * @tick: does so from time to time
 * @rests: @work is not queued, because the worker has used up its time; @tick ends that
 * @lock: protects the following
 * @mini: the miniature caches
 * @seen: number of reads in @stats so far
 * @budget: nanoseconds that the worker may take; negative: it took too many
 * @paid: when @budget was last increased, in nanoseconds
 * @started: when the advice began, in seconds
 * @now: number of the current part
 * @parts: part n is entry n modulo PARTS
 */
struct rxc_advice {
	u32 every;
	u32 ring_mask;
	size_t ring_bytes;
	void *rings;
	struct rxc_stats __percpu *stats;
	u64 nr_slots;
	struct work_struct work;
	struct delayed_work tick;
	bool rests;
	struct mutex lock; /* the following */
	struct rxc_mini mini[RXC_MINI_SIZES];
	u64 seen;
	s64 budget;
	u64 paid;
	time64_t started;
	u64 now;
	struct part parts[PARTS];
};

static struct ring *ring_of(const struct rxc_advice *a, unsigned int cpu)
{
	return a->rings + cpu * a->ring_bytes;
}

static enum kind kind_of(enum rxc_use use)
{
	return use == RXC_USE_READ || use == RXC_USE_PASS ? OF_READS : OF_CHANGES;
}

static struct part *current_part(struct rxc_advice *a)
{
	lockdep_assert_held(&a->lock);
	return &a->parts[a->now % PARTS];
}

/* Go to the part of a time, and clear those on the way. */
static void turn_to(struct rxc_advice *a, time64_t now)
{
	u64 part = div_u64(now - a->started, PART_SECONDS);

	lockdep_assert_held(&a->lock);
	if (part > a->now + PARTS)
		a->now = part - PARTS;
	while (a->now < part) {
		a->now++;
		a->parts[a->now % PARTS] = (struct part) {};
	}
}

static void feed(struct rxc_advice *a, struct part *part, u64 sample)
{
	enum rxc_use use = sample & (BIT(USE_BITS) - 1);
	u64 block = sample >> USE_BITS;
	enum kind kind = kind_of(use);
	unsigned int i;

	lockdep_assert_held(&a->lock);
	part->fed[kind]++;
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		if (rxc_until_sample(block, BIT(a->mini[i].shift) - 1))
			continue;
		if (!rxc_mini_use(&a->mini[i], block, use) && kind == OF_READS)
			part->misses[i] += BIT(a->mini[i].shift);
	}
}

static void empty_ring(struct rxc_advice *a, struct part *part, struct ring *ring)
{
	/* Pairs with the release in put(). */
	u32 head = smp_load_acquire(&ring->head), tail = ring->tail, lost;
	enum kind kind;

	while (tail != head) {
		feed(a, part, ring->sample[tail & a->ring_mask]);
		/* The sample was read before another takes its place: pairs with put(). */
		smp_store_release(&ring->tail, ++tail);
		cond_resched();
	}
	for (kind = 0; kind < NR_KINDS; kind++) {
		lost = READ_ONCE(ring->lost[kind]);
		part->lost[kind] += lost - ring->seen[kind];
		ring->seen[kind] = lost;
	}
}

/* Return: blocks that were read since the last call. */
static u64 new_reads(struct rxc_advice *a)
{
	const struct rxc_stats zero = {};
	struct rxc_stats sum;
	u64 seen = a->seen;

	lockdep_assert_held(&a->lock);
	rxc_stats_read(a->stats, &zero, &sum);
	a->seen = sum.count[RXC_READ_HITS] + sum.count[RXC_READ_MISSES];
	return a->seen - seen;
}

/* Feed what is in the rings. Reads whose samples were lost do not count. */
static void feed_rings(struct rxc_advice *a)
{
	struct part *part = current_part(a);
	u64 fed = part->fed[OF_READS], lost = part->lost[OF_READS], reads;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		empty_ring(a, part, ring_of(a, cpu));
	fed = part->fed[OF_READS] - fed;
	lost = part->lost[OF_READS] - lost;
	reads = new_reads(a);
	part->reads += lost ? div64_u64(reads * fed, fed + lost) : reads;
}

/*
 * Feed what is in the rings, unless the time for that is used up. Then the rings stay as they are,
 * and the samples for which they have no room are lost.
 */
static void feed_all(struct rxc_advice *a)
{
	u64 begin = ktime_get_ns();

	lockdep_assert_held(&a->lock);
	a->budget = min_t(s64, a->budget + div_u64(begin - a->paid, SHARE), BUDGET);
	a->paid = begin;
	turn_to(a, ktime_get_seconds());
	if (a->budget > 0) {
		feed_rings(a);
		a->budget -= ktime_get_ns() - begin;
	}
	WRITE_ONCE(a->rests, a->budget <= 0);
}

static void feed_work(struct work_struct *work)
{
	struct rxc_advice *a = container_of(work, struct rxc_advice, work);

	mutex_lock(&a->lock);
	if (!a->rests)
		feed_all(a);
	mutex_unlock(&a->lock);
}

static void feed_tick(struct work_struct *work)
{
	struct rxc_advice *a = container_of(work, struct rxc_advice, tick.work);

	mutex_lock(&a->lock);
	feed_all(a);
	mutex_unlock(&a->lock);
	queue_delayed_work(system_dfl_wq, &a->tick, PERIOD);
}

/*
 * Put a sample into the ring of this processor. Preemption is off, and only tasks come here: an
 * interrupt in between would overwrite a sample. Discards leave half a ring to other uses.
 */
static void put(struct rxc_advice *a, u64 block, enum rxc_use use)
{
	struct ring *ring = ring_of(a, smp_processor_id());
	/* Pairs with the release in empty_ring(). */
	u32 head = ring->head, used = head - smp_load_acquire(&ring->tail);
	u32 half = (a->ring_mask + 1) / 2;
	enum kind kind = kind_of(use);

	if (used < (use == RXC_USE_DROP ? half : 2 * half)) {
		ring->sample[head & a->ring_mask] = block << USE_BITS | use;
		/* Pairs with the acquire in empty_ring(). */
		smp_store_release(&ring->head, head + 1);
		used++;
	} else {
		WRITE_ONCE(ring->lost[kind], ring->lost[kind] + 1);
	}
	if (used >= half && !READ_ONCE(a->rests))
		queue_work(system_dfl_wq, &a->work);
}

/**
 * rxc_sampler_take - put a sample into the ring of this processor
 * @sampler: the sampler
 * @block: block number
 * @use: what happened to the block
 *
 * Use rxc_sampler_note().
 */
void rxc_sampler_take(struct rxc_sampler *sampler, u64 block, enum rxc_use use)
{
	struct rxc_advice *a;

	preempt_disable();
	a = rcu_dereference_sched(sampler->advice);
	if (a)
		put(a, block, use);
	preempt_enable();
}

static struct rxc_advice *advice_of(const struct rxc_sampler *sampler)
{
	return rcu_dereference_protected(sampler->advice, true);
}

static void free_advice(struct rxc_advice *a)
{
	unsigned int i;

	for (i = 0; i < RXC_MINI_SIZES; i++)
		rxc_mini_exit(&a->mini[i]);
	vfree(a->rings);
	vfree(a);
}

/* With __GFP_NORETRY, because memory may come only after I/O to the suspended device. */
static void *alloc_zeroed(size_t size)
{
	return __vmalloc(size, GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN);
}

static int init_minis(struct rxc_advice *a)
{
	unsigned int i;
	u64 nr_slots;
	int ret;

	for (i = 0; i < RXC_MINI_SIZES; i++) {
		nr_slots = rxc_mini_slots(a->nr_slots, i);
		ret = rxc_mini_init(&a->mini[i], nr_slots,
				    rxc_mini_shift(nr_slots, RXC_MINI_SLOTS));
		if (ret)
			return ret;
	}
	/* The smallest size has the largest sample, of which the others are parts. */
	a->every = BIT(a->mini[0].shift);
	return 0;
}

static struct rxc_advice *create_advice(u64 nr_slots, struct rxc_stats __percpu *stats)
{
	u32 nr = rounddown_pow_of_two(clamp(RINGS_MAX / nr_cpu_ids, RING_MIN, RING_MAX));
	struct rxc_advice *a;

	if (rxd_prepare_table(BYTES_MAX))
		return NULL;
	a = alloc_zeroed(sizeof(*a));
	if (!a)
		return NULL;
	a->nr_slots = nr_slots;
	a->stats = stats;
	a->ring_mask = nr - 1;
	a->ring_bytes = ALIGN(offsetof(struct ring, sample[nr]), SMP_CACHE_BYTES);
	a->rings = alloc_zeroed(nr_cpu_ids * a->ring_bytes);
	if (!a->rings || init_minis(a)) {
		free_advice(a);
		return NULL;
	}
	INIT_WORK(&a->work, feed_work);
	INIT_DELAYED_WORK(&a->tick, feed_tick);
	mutex_init(&a->lock);
	a->budget = BUDGET;
	a->paid = ktime_get_ns();
	a->started = ktime_get_seconds();
	return a;
}

/**
 * rxc_sampler_on - switch the advice on
 * @sampler: the sampler, which is off
 * @nr_slots: number of blocks that the cache may hold
 * @stats: counters of the cache, which exist until rxc_sampler_off()
 *
 * Return: 0 or -ENOMEM.
 */
int rxc_sampler_on(struct rxc_sampler *sampler, u64 nr_slots, struct rxc_stats __percpu *stats)
{
	unsigned int memflags = memalloc_noio_save();
	struct rxc_advice *a = create_advice(nr_slots, stats);

	memalloc_noio_restore(memflags);
	if (!a)
		return -ENOMEM;
	mutex_lock(&a->lock);
	new_reads(a);
	mutex_unlock(&a->lock);
	rcu_assign_pointer(sampler->advice, a);
	WRITE_ONCE(sampler->every, a->every);
	queue_delayed_work(system_dfl_wq, &a->tick, PERIOD);
	return 0;
}

/**
 * rxc_sampler_off - switch the advice off, and forget what it knows
 * @sampler: the sampler
 *
 * May sleep.
 */
void rxc_sampler_off(struct rxc_sampler *sampler)
{
	struct rxc_advice *a = advice_of(sampler);

	if (!a)
		return;
	RCU_INIT_POINTER(sampler->advice, NULL);
	synchronize_rcu();
	/* After the grace period, no rxc_sampler_take() sets it again. */
	WRITE_ONCE(sampler->every, 0);
	cancel_delayed_work_sync(&a->tick);
	cancel_work_sync(&a->work);
	free_advice(a);
}

/**
 * rxc_sampler_inherit - take over the advice of another sampler
 * @sampler: the sampler, which is off
 * @from: the other one, which takes no samples now
 *
 * The caller hands over the counters of the cache as well.
 */
void rxc_sampler_inherit(struct rxc_sampler *sampler, struct rxc_sampler *from)
{
	struct rxc_advice *a = advice_of(from);

	RCU_INIT_POINTER(from->advice, NULL);
	WRITE_ONCE(from->every, 0);
	rcu_assign_pointer(sampler->advice, a);
	WRITE_ONCE(sampler->every, a ? a->every : 0);
}

/**
 * rxc_sampler_suits - check whether the advice is for a cache of this size
 * @sampler: the sampler
 * @nr_slots: number of blocks that the cache may hold
 *
 * Return: true if it is on, and for this size.
 */
bool rxc_sampler_suits(const struct rxc_sampler *sampler, u64 nr_slots)
{
	const struct rxc_advice *a = advice_of(sampler);

	return a && a->nr_slots == nr_slots;
}

/* Add up the newest parts. Return: number of seconds. */
static u64 sum_up(const struct rxc_advice *a, unsigned int nr, struct part *sum)
{
	u64 first = a->now + 1 > nr ? a->now + 1 - nr : 0, i;
	const struct part *part;
	unsigned int size;
	enum kind kind;

	lockdep_assert_held(&a->lock);
	*sum = (struct part) {};
	for (i = first; i <= a->now; i++) {
		part = &a->parts[i % PARTS];
		sum->reads += part->reads;
		for (kind = 0; kind < NR_KINDS; kind++) {
			sum->fed[kind] += part->fed[kind];
			sum->lost[kind] += part->lost[kind];
		}
		for (size = 0; size < RXC_MINI_SIZES; size++)
			sum->misses[size] += part->misses[size];
	}
	return ktime_get_seconds() - a->started - first * PART_SECONDS;
}

/**
 * rxc_sampler_report - write what the advice knows
 * @sampler: the sampler
 * @result: buffer for the text
 * @maxlen: size of @result
 *
 * The text has these numbers, for the last hour and then for the last day: seconds, without those
 * in which the machine slept; blocks that were read, without those whose samples were lost;
 * samples of reads, and those that were lost; samples of changes, and those that were lost. Then,
 * for each size: the number of slots, and the blocks that such a cache would have missed in the
 * last hour and day.
 *
 * Return: 0; -ENODATA if the advice is off.
 */
int rxc_sampler_report(struct rxc_sampler *sampler, char *result, unsigned int maxlen)
{
	struct rxc_advice *a = advice_of(sampler);
	static const unsigned int nr_parts[] = { PARTS_OF_HOUR, PARTS };
	struct part sum[ARRAY_SIZE(nr_parts)];
	unsigned int sz = 0, i;
	u64 seconds;

	if (!a)
		return -ENODATA;
	mutex_lock(&a->lock);
	feed_all(a);
	for (i = 0; i < ARRAY_SIZE(nr_parts); i++) {
		seconds = sum_up(a, nr_parts[i], &sum[i]);
		DMEMIT("%s%llu %llu %llu %llu %llu %llu", i ? " " : "", seconds, sum[i].reads,
		       sum[i].fed[OF_READS], sum[i].lost[OF_READS], sum[i].fed[OF_CHANGES],
		       sum[i].lost[OF_CHANGES]);
	}
	for (i = 0; i < RXC_MINI_SIZES; i++)
		DMEMIT(" %llu %llu %llu", rxc_mini_slots(a->nr_slots, i), sum[0].misses[i],
		       sum[1].misses[i]);
	mutex_unlock(&a->lock);
	return 0;
}
