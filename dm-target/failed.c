// SPDX-License-Identifier: GPL-2.0-only
/*
 * Blocks that could not be filled lately. A block is longer than most reads. If one of its sectors
 * is bad, each read of the others would otherwise try to fill the block again, and wait until the
 * disk gives up.
 */
#include <linux/jiffies.h>

#include "failed.h"

/* How long a block is not filled again. */
#define FAILED_TIME	(60 * HZ)

/**
 * rxc_failed_init - initialize the record of failed blocks
 * @failed: the record
 */
void rxc_failed_init(struct rxc_failed *failed)
{
	unsigned int i;

	spin_lock_init(&failed->lock);
	failed->next = 0;
	failed->until = jiffies;
	for (i = 0; i < RXC_NR_FAILED; i++)
		failed->entries[i].until = jiffies;
}

/**
 * rxc_failed_note - remember a block that could not be filled
 * @failed: the record
 * @block: the block
 */
void rxc_failed_note(struct rxc_failed *failed, u64 block)
{
	unsigned long until = jiffies + FAILED_TIME;
	unsigned int i;

	spin_lock(&failed->lock);
	i = failed->next++ % RXC_NR_FAILED;
	WRITE_ONCE(failed->entries[i].block, block);
	WRITE_ONCE(failed->entries[i].until, until);
	WRITE_ONCE(failed->until, until);
	spin_unlock(&failed->lock);
}

/**
 * rxc_failed_find - find the first block of a range that could not be filled lately
 * @failed: the record
 * @block: the first block of the range
 * @end: the block after the last one, not before @block
 *
 * The lookup takes no lock. An entry that changes meanwhile may be missed or found for a wrong
 * block, which then bypasses the cache once.
 *
 * Return: the block, or @end if there is none.
 */
u64 rxc_failed_find(const struct rxc_failed *failed, u64 block, u64 end)
{
	unsigned long now = jiffies;
	unsigned int i;
	u64 found;

	if (likely(!time_before(now, READ_ONCE(failed->until))))
		return end;
	for (i = 0; i < RXC_NR_FAILED; i++) {
		found = READ_ONCE(failed->entries[i].block);
		if (found >= block && found < end &&
		    time_before(now, READ_ONCE(failed->entries[i].until)))
			end = found;
	}
	return end;
}
