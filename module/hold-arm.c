// SPDX-License-Identifier: GPL-2.0-only
/*
 * Make it possible to hold the writes to a disk, and undo this when nothing needs it any more.
 *
 * Writes to an armed disk cost more. To arm and to disarm a disk, its queue is frozen, which
 * holds all I/O for a grace period. A disk is therefore disarmed only some time after it was
 * cloned, and only if it has no record of changes. Pages that are still shared do not matter:
 * only setting their marks needs a disk that is armed or not in use.
 */
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/lockdep.h>
#include <linux/sched/mm.h>

#include "compat.h"
#include "hold-arm.h"
#include "hold.h"
#include "record.h"

#define RXD_DISARM_DELAY	(10 * HZ)

/**
 * rxd_disk_arm - make it possible to hold the writes to a disk
 * @rxd: the disk, locked
 * @hold: what is used for this, and set to NULL, unless this was done before
 *
 * Return: 0, or -ENOMEM if *@hold is NULL.
 */
int rxd_disk_arm(struct rxd_disk *rxd, struct rxd_hold **hold)
{
	unsigned int memflags;

	lockdep_assert_held(&rxd->lock);
	rxd_disk_disarm_later(rxd);
	if (rxd->store->hold)
		return 0;
	if (!*hold)
		return -ENOMEM;
	(*hold)->changes = &rxd->changes;
	memflags = rxd_freeze_queue(rxd->gd->queue);
	rxd->store->hold = *hold;
	rxd_unfreeze_queue(rxd->gd->queue, memflags);
	*hold = NULL;
	return 0;
}

/**
 * rxd_disk_disarm_later - disarm a disk after a while if nothing needs it to be armed then
 * @rxd: the disk, locked
 */
void rxd_disk_disarm_later(struct rxd_disk *rxd)
{
	lockdep_assert_held(&rxd->lock);
	/* rxd_disk_remove() waits for the work item only once. */
	if (!rxd->removing)
		mod_delayed_work(system_long_wq, &rxd->disarm, RXD_DISARM_DELAY);
}

/**
 * rxd_disk_disarm - disarm a disk unless something needs it to be armed
 * @work: rxd_disk.disarm
 */
void rxd_disk_disarm(struct work_struct *work)
{
	struct rxd_disk *rxd = container_of(to_delayed_work(work), struct rxd_disk, disarm);
	struct rxd_hold *hold = NULL;
	unsigned int memflags, noio;

	mutex_lock(&rxd->lock);
	noio = memalloc_noio_save();
	if (rxd->cloning) {
		rxd_disk_disarm_later(rxd);
	} else if (!rxd->removing && rxd->store->hold && !rxd_store_record(rxd->store)) {
		memflags = rxd_freeze_queue(rxd->gd->queue);
		swap(hold, rxd->store->hold);
		rxd_unfreeze_queue(rxd->gd->queue, memflags);
	}
	memalloc_noio_restore(noio);
	mutex_unlock(&rxd->lock);
	rxd_hold_free(hold);
}
