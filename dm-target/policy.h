/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_POLICY_H
#define RXC_POLICY_H

#include <linux/bits.h>
#include <linux/limits.h>
#include <linux/types.h>

/*
 * A policy decides which block of a set is evicted. It owns the bits RXC_TAG_POLICY of the
 * tags, and may remember blocks that have left. rxc_policy_insert() and rxc_policy_victim()
 * are called under the lock of the set's bucket.
 */

/* A bit for each way of a set. */
#define RXC_ALL_WAYS	U64_MAX

/* The bits of a tag that count uses. Further uses change nothing when all of them are set. */
#define RXC_TAG_USES	GENMASK_ULL(5, 4)

struct rxc_policy;

struct rxc_policy *rxc_policy_create(unsigned long nr_sets, unsigned int ways);
void rxc_policy_restart(struct rxc_policy *policy, unsigned long nr_sets, unsigned int ways);
void rxc_policy_destroy(struct rxc_policy *policy);
size_t rxc_policy_bytes(unsigned long nr_sets);

void rxc_policy_set_capacity(struct rxc_policy *policy, unsigned long nr_slots);
unsigned long rxc_policy_touch(u64 tag);
unsigned long rxc_policy_insert(struct rxc_policy *policy, unsigned long set, const u64 *tags,
				u64 block, bool room);
void rxc_policy_take_over(struct rxc_policy *policy, const struct rxc_policy *old);
unsigned long rxc_policy_bits_of(const struct rxc_policy *old, unsigned long set, u64 tag);
int rxc_policy_coldest(const struct rxc_policy *policy, unsigned long set, const u64 *tags,
		       u64 tag);
int rxc_policy_victim_among(struct rxc_policy *policy, unsigned long set, u64 *tags, u64 ways);

/**
 * rxc_policy_victim - choose the block to evict
 * @policy: the policy
 * @set: number of the set
 * @tags: tags of the set
 *
 * Return: the way of the block, or -1 if no block of the set is valid.
 */
static inline int rxc_policy_victim(struct rxc_policy *policy, unsigned long set, u64 *tags)
{
	return rxc_policy_victim_among(policy, set, tags, RXC_ALL_WAYS);
}

#endif /* RXC_POLICY_H */
