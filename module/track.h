/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_TRACK_H
#define RXD_TRACK_H

#include <linux/types.h>
#include <uapi/linux/rxd.h>

#include "disk.h"

struct rxd_hold;
struct rxd_record;

/**
 * struct rxd_tracking - what a disk needs for a record of changes
 * @hold: for rxd_disk_arm()
 * @record: the record
 */
struct rxd_tracking {
	struct rxd_hold *hold;
	struct rxd_record *record;
};

int rxd_may_track(struct rxd_disk *rxd, bool stop);
int rxd_disk_prepare_track(struct rxd_disk *rxd, const struct rxd_track *arg,
			   struct rxd_tracking *tracking);
int rxd_disk_track(struct rxd_disk *rxd, const struct rxd_track *arg,
		   struct rxd_tracking *tracking);
void rxd_disk_end_record(struct rxd_disk *rxd);
struct rxd_record *rxd_disk_take_record(struct rxd_disk *rxd);

#endif /* RXD_TRACK_H */
