// SPDX-License-Identifier: GPL-2.0-only
/*
 * The advice: which hit ratio would caches of other sizes have?
 *
 * The uses of a sample of the blocks go into a ring of their processor. A work item feeds them to
 * a simulated cache for each size, counts the misses, and keeps the counts of the last day.
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

/* Memory of all rings, if each may be a cache line, and samples in one of them at most. */
#define RINGS_BYTES	(288UL * SZ_1K)
#define RING_MAX	2048UL
/* The advice takes less than this. */
#define BYTES_MAX	SZ_1M
/* The counts are kept in parts of five minutes. */
#define PART_NS		(300 * NSEC_PER_SEC)
#define PARTS_OF_HOUR	12
#define PARTS		288
/* Of 100 samples of a part, at most so many may be lost. */
#define LOST_PERCENT	1
/* Losses within so much time are one burst. Stock is taken every ten seconds at least. */
#define BURST_NS	(20 * NSEC_PER_SEC)
/* How often the rings are emptied at least, if there is time. */
#define PERIOD		(10 * HZ)
/*
 * The worker may take a hundredth of a processor. After a quiet time, it may take what it could
 * have taken in a part at once.
 */
#define SHARE		100
#define BUDGET		((s64)PART_NS / SHARE)
/* Samples that are fed with preemption off. */
#define BATCH		16
/* A sample is the number of a block, and what happened to it. */
#define USE_BITS	3

static_assert(RXC_NR_USES <= 1 << USE_BITS);

/**
 * struct ring - samples of a processor; of many processors, a ring is one cache line
 * @head: number of samples that were put in; only tasks on this processor change it
 * @lost: number of samples for which there was no room, but for discards
 * @tail: number of samples that were taken out; only the worker changes it
 * @seen: the part of @lost that the worker has counted
 * @sample: sample n is entry n modulo the length
 */
struct ring {
	u32 head;
	u32 lost;
	u32 tail;
	u32 seen;
	u64 sample[];
};

/**
 * struct part - counts of five minutes
 * @time: nanoseconds of them in which the advice was on
 * @reads: blocks that were read
 * @fed: samples that the simulated caches got
 * @lost: samples that they did not get, but for discards
 * @judged: the part of @lost that was there when stock was last taken
 * @halved: the samples were halved meanwhile, so @misses is wrong
 * @misses: blocks that each size would have missed
 */
struct part {
	u64 time;
	u64 reads;
	u64 fed;
	u64 lost;
	u64 judged;
	bool halved;
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
 * @rests: @work is not queued, because the worker has used up its time; @tick ends that
 * @work: feeds the samples
 * @tick: does so from time to time, and takes stock
 * @lock: protects the following
 * @mini: the simulated caches
 * @halvings: how often the samples were halved
 * @burst: when too many samples were lost, in nanoseconds since @started; 0: not lately
 * @seen: number of reads in @stats when stock was last taken
 * @budget: nanoseconds that the worker may take; negative: it took too many
 * @started: when the advice began, in nanoseconds
 * @last: when stock was last taken
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
	bool rests;
	struct work_struct work ____cacheline_aligned_in_smp;
	struct delayed_work tick ____cacheline_aligned_in_smp;
	struct mutex lock; /* the following */
	struct rxc_mini mini[RXC_MINI_SIZES];
	unsigned int halvings;
	u64 burst;
	u64 seen;
	s64 budget;
	u64 started;
	u64 last;
	u64 now;
	struct part parts[PARTS];
};

static struct ring *ring_of(const struct rxc_advice *a, unsigned int cpu)
{
	return a->rings + cpu * a->ring_bytes;
}

static struct part *current_part(struct rxc_advice *a)
{
	lockdep_assert_held(&a->lock);
	return &a->parts[a->now % PARTS];
}

/* Go to the part of a time, and clear those on the way. */
static void turn_to(struct rxc_advice *a, u64 now)
{
	u64 part = div64_u64(now - a->started, PART_NS);

	lockdep_assert_held(&a->lock);
	if (part > a->now + PARTS)
		a->now = part - PARTS;
	while (a->now < part) {
		a->now++;
		*current_part(a) = (struct part) {};
	}
}

/* The worker's time does not include that in which it is off the processor. */
static u64 begin_batch(void)
{
	preempt_disable();
	return ktime_get_ns();
}

static void end_batch(struct rxc_advice *a, u64 begin)
{
	a->budget -= ktime_get_ns() - begin;
	preempt_enable();
	cond_resched();
}

static void feed(struct rxc_advice *a, struct part *part, u64 sample)
{
	enum rxc_use use = sample & (BIT(USE_BITS) - 1);
	u64 block = sample >> USE_BITS;
	bool is_read = use == RXC_USE_READ || use == RXC_USE_PASS || use == RXC_USE_MISS;
	unsigned int i;

	lockdep_assert_held(&a->lock);
	part->fed++;
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		if (rxc_until_sample(block, BIT(a->mini[i].shift) - 1))
			continue;
		if (!rxc_mini_use(&a->mini[i], block, use) && is_read)
			part->misses[i] += BIT(a->mini[i].shift);
	}
}

static void empty_ring(struct rxc_advice *a, struct part *part, struct ring *ring)
{
	u64 begin = begin_batch();
	/* Pairs with the release in put(). */
	u32 head = smp_load_acquire(&ring->head), tail = ring->tail;

	while (tail != head) {
		feed(a, part, ring->sample[tail++ & a->ring_mask]);
		if (tail % BATCH && tail != head)
			continue;
		/* The samples were read before others take their place: pairs with put(). */
		smp_store_release(&ring->tail, tail);
		end_batch(a, begin);
		begin = begin_batch();
	}
	end_batch(a, begin);
}

/*
 * Feed what is in the rings, unless the time for that is used up. Then they stay as they are, and
 * the samples for which they have no room are lost.
 */
static void feed_rings(struct rxc_advice *a)
{
	struct part *part = current_part(a);
	struct ring *ring;
	unsigned int cpu;
	u32 lost;

	for_each_possible_cpu(cpu) {
		ring = ring_of(a, cpu);
		if (a->budget > 0)
			empty_ring(a, part, ring);
		lost = READ_ONCE(ring->lost);
		part->lost += lost - ring->seen;
		ring->seen = lost;
	}
	WRITE_ONCE(a->rests, a->budget <= 0);
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

/*
 * Samples are lost for some time, with all blocks in them, so the misses of such a part are wrong:
 * what was first read in that time seems to be read for the first time later.
 */
static bool has_holes(const struct part *part)
{
	return part->halved || part->lost * 100 > (part->fed + part->lost) * LOST_PERCENT;
}

/*
 * Is it not a single burst that a ring had no room for? The samples are halved once in a part at
 * most, because what was lost before that does not count any more.
 */
static bool come_too_fast(struct rxc_advice *a, struct part *part, u64 now)
{
	bool lost = part->lost != part->judged;

	part->judged = part->lost;
	if (!lost || !has_holes(part))
		return false;
	now -= a->started;
	if (!a->burst || now - a->burst > 2 * PART_NS) {
		a->burst = now;
		return false;
	}
	return !part->halved && now - a->burst >= BURST_NS;
}

/*
 * Begin again with half the samples, and with empty simulated caches of half as many slots. If the
 * smallest of them does not have enough slots for that, all stays as it is.
 */
static void halve_samples(struct rxc_advice *a)
{
	unsigned int i;

	if (rxc_mini_slots(a->nr_slots, 0) >> (a->mini[0].shift + 1) <= RXC_MINI_SLOTS_MIN / 2)
		return;
	for (i = 0; i < RXC_MINI_SIZES; i++)
		rxc_mini_restart(&a->mini[i], rxc_mini_slots(a->nr_slots, i),
				 a->mini[i].shift + 1);
	a->halvings++;
	a->burst = 0;
	WRITE_ONCE(a->every, BIT(a->mini[0].shift));
	current_part(a)->halved = true;
}

/* Feed the samples, and complete the counts. */
static void take_stock(struct rxc_advice *a)
{
	struct part *part = current_part(a);
	u64 now = ktime_get_ns();

	a->budget = min_t(s64, a->budget + div_u64(now - a->last, SHARE), BUDGET);
	feed_rings(a);
	part->reads += new_reads(a);
	part->time += now - a->last;
	a->last = now;
	if (come_too_fast(a, part, now))
		halve_samples(a);
	turn_to(a, now);
}

static void feed_work(struct work_struct *work)
{
	struct rxc_advice *a = container_of(work, struct rxc_advice, work);

	mutex_lock(&a->lock);
	if (!a->rests)
		feed_rings(a);
	mutex_unlock(&a->lock);
}

static void feed_tick(struct work_struct *work)
{
	struct rxc_advice *a = container_of(work, struct rxc_advice, tick.work);

	mutex_lock(&a->lock);
	take_stock(a);
	mutex_unlock(&a->lock);
	queue_delayed_work(system_dfl_wq, &a->tick, PERIOD);
}

/*
 * Have half a ring or more emptied. Discards leave that half to other uses, because there may be
 * many at once, of blocks that are hardly used.
 *
 * Return: whether there is room for a sample.
 */
static noinline bool has_room(struct rxc_advice *a, struct ring *ring, u32 used, enum rxc_use use)
{
	/* If @work is just about to run and misses this sample, the next one queues it. */
	if (!READ_ONCE(a->rests) && !work_pending(&a->work))
		queue_work(system_dfl_wq, &a->work);
	if (use == RXC_USE_DISCARD)
		return false;
	if (used <= a->ring_mask)
		return true;
	WRITE_ONCE(ring->lost, ring->lost + 1);
	return false;
}

/*
 * Put a sample into the ring of this processor. Preemption is off, and only tasks come here: an
 * interrupt in between would overwrite a sample.
 */
static void put(struct rxc_advice *a, u64 block, enum rxc_use use)
{
	struct ring *ring = ring_of(a, smp_processor_id());
	/* Pairs with the release in empty_ring(). */
	u32 head = ring->head, used = head - smp_load_acquire(&ring->tail);

	if (unlikely(used > a->ring_mask / 2) && !has_room(a, ring, used, use))
		return;
	ring->sample[head & a->ring_mask] = block << USE_BITS | use;
	/* Pairs with the acquire in empty_ring(). */
	smp_store_release(&ring->head, head + 1);
}

static void put_range(struct rxc_advice *a, u32 every, u64 block, u64 end, enum rxc_use use)
{
	u64 region_end;

	while (block < end) {
		region_end = min((block | (RXC_SPREAD - 1)) + 1, end);
		block += rxc_until_sample(block, every - 1);
		for (; block < region_end; block += every)
			put(a, block, use);
		block = region_end;
	}
}

/**
 * rxc_sampler_take - put those blocks of a range that are in the sample into a ring
 * @sampler: the sampler
 * @block: first block
 * @end: the block after the last one
 * @use: what happened to the blocks
 *
 * Use rxc_sampler_note().
 */
void rxc_sampler_take(struct rxc_sampler *sampler, u64 block, u64 end, enum rxc_use use)
{
	struct rxc_advice *a;
	u32 every;

	preempt_disable();
	a = rcu_dereference_sched(sampler->advice);
	if (a) {
		every = READ_ONCE(a->every);
		if (unlikely(every != READ_ONCE(sampler->every)))
			WRITE_ONCE(sampler->every, every);
		put_range(a, every, block, end, use);
	}
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

/* Return: number of samples in each of @nr_rings. */
static u32 ring_length(unsigned int nr_rings)
{
	size_t lines = max(RINGS_BYTES / nr_rings / SMP_CACHE_BYTES, 1UL);
	size_t bytes = lines * SMP_CACHE_BYTES - offsetof(struct ring, sample);

	return rounddown_pow_of_two(min(bytes / sizeof(u64), RING_MAX));
}

static size_t ring_bytes(u32 length)
{
	return ALIGN(offsetof(struct ring, sample[length]), SMP_CACHE_BYTES);
}

static struct rxc_advice *create_advice(u64 nr_slots, struct rxc_stats __percpu *stats)
{
	u32 nr = ring_length(nr_cpu_ids);
	struct rxc_advice *a;

	if (rxd_prepare_table(BYTES_MAX))
		return NULL;
	a = alloc_zeroed(sizeof(*a));
	if (!a)
		return NULL;
	a->nr_slots = nr_slots;
	a->stats = stats;
	a->ring_mask = nr - 1;
	a->ring_bytes = ring_bytes(nr);
	a->rings = alloc_zeroed(nr_cpu_ids * a->ring_bytes);
	if (!a->rings || init_minis(a)) {
		free_advice(a);
		return NULL;
	}
	INIT_WORK(&a->work, feed_work);
	INIT_DELAYED_WORK(&a->tick, feed_tick);
	mutex_init(&a->lock);
	a->budget = BUDGET;
	a->started = ktime_get_ns();
	a->last = a->started;
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
	WRITE_ONCE(sampler->every, a ? READ_ONCE(a->every) : 0);
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

static void add_up(struct part *sum, const struct part *part)
{
	unsigned int size;

	sum->time += part->time;
	sum->reads += part->reads;
	sum->fed += part->fed;
	sum->lost += part->lost;
	for (size = 0; size < RXC_MINI_SIZES; size++)
		sum->misses[size] += part->misses[size];
}

/* Add up the newest parts. Those with holes do not count. */
static void sum_up(const struct rxc_advice *a, unsigned int nr, struct part *counted,
		   struct part *left_out)
{
	u64 i = a->now + 1 > nr ? a->now + 1 - nr : 0;
	const struct part *part;

	lockdep_assert_held(&a->lock);
	*counted = (struct part) {};
	*left_out = (struct part) {};
	for (; i <= a->now; i++) {
		part = &a->parts[i % PARTS];
		add_up(has_holes(part) ? left_out : counted, part);
	}
}

/**
 * rxc_sampler_report - write what the advice knows
 * @sampler: the sampler
 * @result: buffer for the text
 * @maxlen: size of @result
 *
 * The text has these numbers, for the last hour and then for the last day: seconds that count, in
 * which the machine did not sleep and few samples were lost; those that do not count, because more
 * were lost; blocks that were read in the former; samples of both, and those that were lost. Then
 * how often the samples were halved. Then, for each size: the number of slots; how many of them are
 * used; and the blocks that such a cache would have missed, of those read in the last hour and day.
 *
 * Return: 0; -ENODATA if the advice is off.
 */
int rxc_sampler_report(struct rxc_sampler *sampler, char *result, unsigned int maxlen)
{
	struct rxc_advice *a = advice_of(sampler);
	static const unsigned int nr_parts[] = { PARTS_OF_HOUR, PARTS };
	struct part sum[ARRAY_SIZE(nr_parts)], left_out;
	unsigned int sz = 0, i;

	if (!a)
		return -ENODATA;
	mutex_lock(&a->lock);
	take_stock(a);
	for (i = 0; i < ARRAY_SIZE(nr_parts); i++) {
		sum_up(a, nr_parts[i], &sum[i], &left_out);
		DMEMIT("%s%llu %llu %llu %llu %llu", i ? " " : "",
		       div_u64(sum[i].time, NSEC_PER_SEC), div_u64(left_out.time, NSEC_PER_SEC),
		       sum[i].reads, sum[i].fed + left_out.fed, sum[i].lost + left_out.lost);
	}
	DMEMIT(" %u", a->halvings);
	for (i = 0; i < RXC_MINI_SIZES; i++)
		DMEMIT(" %llu %llu %llu %llu", rxc_mini_slots(a->nr_slots, i),
		       (u64)a->mini[i].used << a->mini[i].shift, sum[0].misses[i],
		       sum[1].misses[i]);
	mutex_unlock(&a->lock);
	return 0;
}
