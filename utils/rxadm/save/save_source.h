/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SAVE_SAVE_SOURCE_H
#define RXADM_SAVE_SAVE_SOURCE_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"
#include "kernel/saves.h"

/* The source of a save. */
struct save_source {
	int control;
	struct device dev;		/* the RAM disk to be saved */
	int index;
	bool found;			/* @dev is to be released */
	char *sequence;			/* the diskseq of @dev */
	bool locked;			/* against other saves of the disk to files */
	bool were_off;			/* its I/O statistics */
	bool in_use;
	bool apart;			/* a disk that was not loaded completely may be saved */
	bool guarded;			/* the caller checks which image the disk may replace */
	int images;			/* result of disk_images_open() */
	bool cloned;			/* @clone is read instead of the disk */
	struct save_clone clone;
	struct rxd_query query;		/* of the disk, with the size and limit of what is read */
	int fd;				/* what is read */
	char *generation;		/* of the data of the disk that is read, or NULL */
	uint64_t changes;		/* of the disk, before anything was read */
};

enum exit_code save_source_claim(struct save_source *source, int control, const char *name,
				 bool may_clone, bool to_file, bool guarded);
enum exit_code save_source_check_place(const struct save_source *source, const char *file);
enum exit_code save_source_read(struct save_source *source, bool no_freeze, const uint8_t *state);
bool save_source_unchanged(const struct save_source *source);
char *save_source_lost(const struct save_source *source);
enum exit_code save_source_end(struct save_source *source);
void save_source_release(struct save_source *source);

#endif /* RXADM_SAVE_SAVE_SOURCE_H */
