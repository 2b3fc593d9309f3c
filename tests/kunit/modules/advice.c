// SPDX-License-Identifier: GPL-2.0-only
/*
 * The advice, and what its tests change in it.
 */
#include "../dm-target/mini.c"
#include "../dm-target/advice.c"
#include "../dm-target/policy.h"
#include "advice-test.h"

/* There is always enough memory for a table. */
int rxd_prepare_table(size_t size)
{
	return 0;
}

void test_pass_time(struct rxc_sampler *sampler, unsigned int seconds)
{
	struct rxc_advice *a = advice_of(sampler);

	mutex_lock(&a->lock);
	a->started -= seconds;
	a->paid -= (u64)seconds * NSEC_PER_SEC;
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
	struct rxc_advice *a = advice_of(sampler);

	mutex_lock(&a->lock);
	a->budget = -3600LL * NSEC_PER_SEC / SHARE;
	WRITE_ONCE(a->rests, true);
	mutex_unlock(&a->lock);
}

/* As if the tick had found time again, but it has fed nothing yet. */
void test_end_rest(struct rxc_sampler *sampler)
{
	struct rxc_advice *a = advice_of(sampler);

	mutex_lock(&a->lock);
	a->budget = BUDGET;
	WRITE_ONCE(a->rests, false);
	mutex_unlock(&a->lock);
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

size_t test_advice_bytes(const struct rxc_sampler *sampler)
{
	const struct rxc_advice *a = advice_of(sampler);
	size_t bytes = sizeof(*a) + RINGS_MAX * sizeof(u64);
	unsigned int i;

	for (i = 0; i < RXC_MINI_SIZES; i++)
		bytes += a->mini[i].nr_sets * a->mini[i].ways * sizeof(u64) +
			 rxc_policy_bytes(a->mini[i].nr_sets);
	return bytes;
}
