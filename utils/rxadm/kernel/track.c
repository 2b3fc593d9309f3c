// SPDX-License-Identifier: GPL-2.0-only
/*
 * Begin and end the record of changes of a RAM disk.
 */
#include <errno.h>
#include <linux/rxd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <uuid/uuid.h>

#include "kernel/disk_state.h"
#include "kernel/track.h"

/**
 * track_begin - record the changes of a RAM disk from now on
 * @control: the control node
 * @index: number of the disk
 * @disk: its device number
 * @state: the name of its present state; zeros: it has none, and nothing is done
 *
 * Return: 0 or an errno; EINVAL or ENOTTY: the module is older.
 */
int track_begin(int control, int index, dev_t disk, const uint8_t *state)
{
	struct rxd_track arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_IF_SAME,
		.index = index,
	};
	char *generation = disk_generation(disk);
	char *sequence = disk_sequence(disk);
	struct disk_seen seen;
	int err = 0;

	disk_note(sequence, generation, &seen);
	free(generation);
	free(sequence);
	arg.diskseq = seen.diskseq;
	arg.changes = seen.changes;
	memcpy(arg.state, state, sizeof(arg.state));
	if (!uuid_is_null(state) && ioctl(control, RXD_TRACK, &arg))
		err = errno;
	return err;
}

/**
 * track_end - end the record of changes of a RAM disk
 * @control: the control node
 * @index: number of the disk
 *
 * Return: 0 or an errno.
 */
int track_end(int control, int index)
{
	struct rxd_track arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_TRACK_STOP,
		.index = index,
	};

	return ioctl(control, RXD_TRACK, &arg) ? errno : 0;
}
