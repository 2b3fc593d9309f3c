/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_ADVICE_H
#define RXC_ADVICE_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "mini.h"
#include "stats.h"

struct rxc_advice;

/**
 * struct rxc_sampler - takes samples of the uses of blocks
 * @every: one of @every blocks is in the sample, a power of two; 0: the advice is off
 * @advice: gets the samples, or NULL
 *
 * The caller of rxc_sampler_on() and the other functions that change it prevents that they run at
 * the same time. Samples may be taken meanwhile.
 */
struct rxc_sampler {
	struct rxc_advice __rcu *advice;
	u32 every;
};

int rxc_sampler_on(struct rxc_sampler *sampler, u64 nr_slots, struct rxc_stats __percpu *stats);
void rxc_sampler_off(struct rxc_sampler *sampler);
void rxc_sampler_inherit(struct rxc_sampler *sampler, struct rxc_sampler *from);
bool rxc_sampler_suits(const struct rxc_sampler *sampler, u64 nr_slots);
int rxc_sampler_report(struct rxc_sampler *sampler, char *result, unsigned int maxlen);
void rxc_sampler_take(struct rxc_sampler *sampler, u64 block, u64 end, enum rxc_use use);

static inline bool rxc_sampler_is_on(const struct rxc_sampler *sampler)
{
	return rcu_access_pointer(sampler->advice);
}

/**
 * rxc_sampler_may_take - check whether some blocks may be in the sample
 * @sampler: the sampler
 * @block: first block
 * @end: the block after the last one
 *
 * Return: false if it is off, or if the only block is not in the sample.
 */
static inline bool rxc_sampler_may_take(const struct rxc_sampler *sampler, u64 block, u64 end)
{
	u32 every = READ_ONCE(sampler->every);

	return every && (end - block > 1 || !rxc_until_sample(block, every - 1));
}

/**
 * rxc_sampler_note - record what happened to some blocks
 * @sampler: the sampler
 * @block: first block
 * @end: the block after the last one
 * @use: what happened
 */
static inline void rxc_sampler_note(struct rxc_sampler *sampler, u64 block, u64 end,
				    enum rxc_use use)
{
	if (unlikely(rxc_sampler_may_take(sampler, block, end)))
		rxc_sampler_take(sampler, block, end, use);
}

#endif /* RXC_ADVICE_H */
