/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_FAILED_H
#define RXC_FAILED_H

#include <linux/spinlock.h>
#include <linux/types.h>

/* Number of failed blocks that a cache remembers. */
#define RXC_NR_FAILED	16

/**
 * struct rxc_failed - blocks that a fill could not read lately
 * @lock: held by those who add a block
 * @next: the entry to be replaced next
 * @until: when the last entry expires, in jiffies
 * @entries: the blocks, and when each of them expires
 */
struct rxc_failed {
	spinlock_t lock; /* changes */
	unsigned int next;
	unsigned long until;
	struct {
		u64 block;
		unsigned long until;
	} entries[RXC_NR_FAILED];
};

void rxc_failed_init(struct rxc_failed *failed);
void rxc_failed_note(struct rxc_failed *failed, u64 block);
u64 rxc_failed_find(const struct rxc_failed *failed, u64 block, u64 end);

#endif /* RXC_FAILED_H */
