// SPDX-License-Identifier: GPL-2.0-only
/*
 * The advice, and what its tests change in it.
 */
#include "../dm-target/mini.c"
#include "../dm-target/policy.h"
#include "advice-test.h"

static void (*watcher)(u64 block);

static bool watched_use(struct rxc_mini *mini, u64 block, enum rxc_use use);

#define rxc_mini_use watched_use
#include "../dm-target/advice.c"
#undef rxc_mini_use

static bool watched_use(struct rxc_mini *mini, u64 block, enum rxc_use use)
{
	/* Only the first simulated cache of the smallest possible advice has so few. */
	if (watcher && mini->ways == RXC_SLOTS_MIN)
		watcher(block);
	return rxc_mini_use(mini, block, use);
}

/* There is always enough memory for a table. */
int rxd_prepare_table(size_t size)
{
	return 0;
}

/* Let time pass as if the worker had taken stock from time to time. */
void test_pass_time(struct rxc_sampler *sampler, unsigned int seconds)
{
	struct rxc_advice *a = advice_of(sampler);
	u64 left = (u64)seconds * NSEC_PER_SEC, step;

	mutex_lock(&a->lock);
	for (; left; left -= step) {
		step = min_t(u64, left, PART_NS);
		a->started -= step;
		a->last -= step;
		take_stock(a);
	}
	mutex_unlock(&a->lock);
}

void test_hold_worker(struct rxc_sampler *sampler)
{
	mutex_lock(&advice_of(sampler)->lock);
}

void test_release_worker(struct rxc_sampler *sampler)
{
	mutex_unlock(&advice_of(sampler)->lock);
}

/* Nothing is fed for an hour, or until test_pass_time(). */
void test_use_up_budget(struct rxc_sampler *sampler)
{
	test_set_budget(sampler, -3600LL * NSEC_PER_SEC / SHARE);
}

void test_set_budget(struct rxc_sampler *sampler, s64 budget)
{
	struct rxc_advice *a = advice_of(sampler);

	mutex_lock(&a->lock);
	a->budget = budget;
	WRITE_ONCE(a->rests, budget <= 0);
	mutex_unlock(&a->lock);
}

s64 test_budget(struct rxc_sampler *sampler)
{
	struct rxc_advice *a = advice_of(sampler);
	s64 budget;

	mutex_lock(&a->lock);
	budget = a->budget;
	mutex_unlock(&a->lock);
	return budget;
}

/* As if the tick had found time again, but it has fed nothing yet. */
void test_end_rest(struct rxc_sampler *sampler)
{
	test_set_budget(sampler, BUDGET);
}

bool test_rests(struct rxc_sampler *sampler)
{
	return READ_ONCE(advice_of(sampler)->rests);
}

void test_watch(void (*watch)(u64 block))
{
	watcher = watch;
}

/* Return: samples in the rings, after the worker has done what it was told to. */
unsigned int test_samples_left(struct rxc_sampler *sampler)
{
	struct rxc_advice *a = advice_of(sampler);
	unsigned int cpu, nr = 0;

	flush_work(&a->work);
	for_each_possible_cpu(cpu)
		nr += ring_of(a, cpu)->head - ring_of(a, cpu)->tail;
	return nr;
}

unsigned int test_ring_length(const struct rxc_sampler *sampler)
{
	return advice_of(sampler)->ring_mask + 1;
}

const struct rxc_mini *test_mini(const struct rxc_sampler *sampler, unsigned int i)
{
	return &advice_of(sampler)->mini[i];
}

static size_t mini_bytes(unsigned long nr_sets, unsigned int ways)
{
	return PAGE_ALIGN(nr_sets * ways * sizeof(u64)) + PAGE_ALIGN(rxc_policy_bytes(nr_sets));
}

/* What the advice has allocated. */
size_t test_advice_bytes(const struct rxc_sampler *sampler)
{
	const struct rxc_advice *a = advice_of(sampler);
	size_t bytes = PAGE_ALIGN(sizeof(*a)) + PAGE_ALIGN(nr_cpu_ids * a->ring_bytes);
	unsigned int i;

	for (i = 0; i < RXC_MINI_SIZES; i++)
		bytes += mini_bytes(a->mini[i].nr_sets, a->mini[i].ways);
	return bytes;
}

/* What it would allocate for a cache of @nr_slots on a machine with @nr_cpus. */
size_t test_bytes_for(u64 nr_slots, unsigned int nr_cpus)
{
	size_t bytes = PAGE_ALIGN(sizeof(struct rxc_advice));
	unsigned long nr_sets;
	unsigned int ways, i;
	u64 nr;

	bytes += PAGE_ALIGN(nr_cpus * ring_bytes(ring_length(nr_cpus)));
	for (i = 0; i < RXC_MINI_SIZES; i++) {
		nr = rxc_mini_slots(nr_slots, i);
		rxc_divide_slots(nr >> rxc_mini_shift(nr, RXC_MINI_SLOTS), &nr_sets, &ways);
		bytes += mini_bytes(nr_sets, ways);
	}
	return bytes;
}
