// SPDX-License-Identifier: GPL-2.0-only
/*
 * RXD_TRACK, and the way of a record of changes to a clone and back.
 *
 *	state of the disk:	S ------------> T ----------> clone is removed
 *
 *	record of the disk:	changes since S	  since T	since S
 *	record of the clone:			  since S until T
 *
 * The clone has only the UUID of the disk and the numbers of both records, so that each of the two
 * can be changed or removed without the other.
 */
#include <linux/errno.h>
#include <linux/lockdep.h>
#include <linux/sched/signal.h>
#include <linux/uuid.h>

#include "compat.h"
#include "disk.h"
#include "hold-arm.h"
#include "hold.h"
#include "record.h"
#include "track.h"

/**
 * rxd_may_track - check whether a record of changes may begin or end
 * @rxd: the disk, locked
 * @stop: it would end; a clone may be given up when all of it was read, before this
 *
 * Return: 0, -EIO or -EBUSY.
 */
int rxd_may_track(struct rxd_disk *rxd, bool stop)
{
	lockdep_assert_held(&rxd->lock);
	if (rxd_disk_is_lost(rxd) && !stop)
		return -EIO;
	return rxd->owner ? -EBUSY : 0;
}

/*
 * Replace the record by *@record if the disk is as @seen, which may be NULL. *@record is then the
 * earlier one. Return: 0 or -ESTALE.
 */
static int rxd_replace_same(struct rxd_disk *rxd, const struct rxd_seen *seen,
			    struct rxd_record **record)
{
	u64 start;
	int ret;

	/* Without a struct rxd_hold there is no record, and none begins. */
	if (!rxd->store->hold)
		return rxd_disk_check_same(rxd, seen);
	start = rxd_store_hold(rxd->store);
	ret = rxd_disk_check_same(rxd, seen);
	if (!ret)
		*record = rxd_store_swap_record(rxd->store, *record);
	rxd_store_unhold(rxd->store, start);
	return ret;
}

/**
 * rxd_disk_prepare_track - wait for, and allocate, the memory that rxd_disk_track() will need
 * @rxd: the disk, not locked: others need its lock, so this must not be held while memory is short
 * @arg: the checked argument of RXD_TRACK
 * @tracking: all zeros; the caller frees what it points to, also after an error
 *
 * Return: 0, -ENOMEM, or -EINTR if the task is killed.
 */
int rxd_disk_prepare_track(struct rxd_disk *rxd, const struct rxd_track *arg,
			   struct rxd_tracking *tracking)
{
	unsigned long nr_pages = rxd_store_nr_pages(rxd->store);

	if (arg->flags & RXD_TRACK_STOP)
		return 0;
	if (arg->flags & RXD_DRY_RUN)
		return rxd_record_prepare(nr_pages);
	/* If the disk is armed, it needs no other one. */
	tracking->hold = rxd_hold_alloc(NULL);
	tracking->record = rxd_record_alloc(nr_pages, arg->state);
	if (tracking->record)
		return 0;
	return fatal_signal_pending(current) ? -EINTR : -ENOMEM;
}

/* Make room for the record. Return: 0, -EAGAIN, -ENOMEM or -ESTALE. */
static int rxd_make_room(struct rxd_disk *rxd, const struct rxd_seen *seen,
			 struct rxd_tracking *tracking)
{
	if (tracking->record->nr_pages != rxd_store_nr_pages(rxd->store))
		return -EAGAIN;
	/* All writes to the disk are dearer afterwards: look before that. */
	return rxd_disk_check_same(rxd, seen) ?: rxd_disk_arm(rxd, &tracking->hold);
}

/**
 * rxd_disk_track - begin or end the record of changes
 * @rxd: the disk, locked
 * @arg: the checked argument of RXD_TRACK
 * @tracking: from rxd_disk_prepare_track(); what is left in it was not used, or is of an earlier
 *	record
 *
 * Return: 0; -EAGAIN if the disk was resized since rxd_disk_prepare_track(); or another negative
 * errno, see struct rxd_track.
 */
int rxd_disk_track(struct rxd_disk *rxd, const struct rxd_track *arg,
		   struct rxd_tracking *tracking)
{
	const struct rxd_seen as_seen = { .diskseq = arg->diskseq, .changes = arg->changes };
	const struct rxd_seen *seen = arg->flags & RXD_IF_SAME ? &as_seen : NULL;
	bool stop = arg->flags & RXD_TRACK_STOP;
	int ret;

	ret = rxd_may_track(rxd, stop);
	if (!ret && arg->flags & RXD_DRY_RUN)
		return rxd_disk_check_same(rxd, seen);
	if (!ret && !stop)
		ret = rxd_make_room(rxd, seen, tracking);
	if (!ret)
		ret = rxd_replace_same(rxd, seen, &tracking->record);
	if (!ret && stop) {
		rxd->loan.left = 0;
		rxd_disk_disarm_later(rxd);
	}
	return ret;
}

/**
 * rxd_disk_end_record - end the record of changes, if there is one
 * @rxd: the disk, locked
 */
void rxd_disk_end_record(struct rxd_disk *rxd)
{
	lockdep_assert_held(&rxd->lock);
	if (!rxd_store_record(rxd->store))
		return;
	rxd_record_free(rxd_store_replace_record(rxd->store, NULL));
	rxd_disk_disarm_later(rxd);
}

/**
 * rxd_disk_take_record - take the record of changes from a disk that has no block device any more
 * @rxd: the disk, not locked
 *
 * Return: the record, which the caller frees, or NULL.
 */
struct rxd_record *rxd_disk_take_record(struct rxd_disk *rxd)
{
	struct rxd_record *record;

	mutex_lock(&rxd->lock);
	record = rxd_store_record(rxd->store) ? rxd_store_swap_record(rxd->store, NULL) : NULL;
	mutex_unlock(&rxd->lock);
	return record;
}
