/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_EXTENTS_H
#define RXADM_KERNEL_EXTENTS_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/format.h"

/* Extents of a RAM disk, asked for in parts. */
struct extents {
	int fd;			/* the disk */
	uint64_t size;
	bool changed;		/* those in the record of changes, not those with memory */
	struct rxd_extent *array;
	uint32_t count;
	uint32_t next;
	uint64_t begin;		/* of the disk: the range that is in the array */
	uint64_t end;
};

void extents_begin(struct extents *extents, int fd, uint64_t size, bool changed);
int extents_find(struct extents *extents, uint64_t from, struct image_extent *found);
void extents_end(struct extents *extents);
int extents_each(int fd, bool (*each)(void *data, const struct rxd_extent *extent), void *data);
int extents_state(int fd, uint64_t size, uint8_t *state);

enum exit_code ramdisk_extents(const char *name,
			       bool (*each)(void *data, const struct rxd_extent *extent),
			       void *data);
enum exit_code ramdisk_diff(const char *name, const char *base, bool compare,
			    bool (*each)(void *data, const struct rxd_extent *extent), void *data);

int track_begin(int control, int index, dev_t disk, const uint8_t *state);
int track_end(int control, int index);

#endif /* RXADM_KERNEL_EXTENTS_H */
