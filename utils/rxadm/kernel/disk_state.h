/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_DISK_STATE_H
#define RXADM_KERNEL_DISK_STATE_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"
#include "device/device.h"

/* The state of a RAM disk when rxadm decided to discard its data, see RXD_IF_SAME. */
struct disk_seen {
	struct rxd_query query;
	uint64_t diskseq;	/* 0: unknown */
	uint64_t changes;
};

char *disk_sequence(dev_t disk);
bool disk_is_same(dev_t disk, const char *sequence);
enum exit_code disk_check_same(const struct device *dev, const char *sequence);

enum exit_code disk_images_set(const char *sequence, uint64_t id);
int disk_images_open(const char *sequence);
bool disk_images_are_old(const char *sequence, int record);
enum exit_code disk_images_add(int record, uint64_t id);
enum exit_code disk_images_forget(const char *sequence);
enum exit_code disk_images_suspend(const char *sequence);
void disk_images_restore(const char *sequence);
bool disk_images_has(const char *sequence, uint64_t id);
char *disk_images_path(const char *sequence);

char *disk_generation(dev_t disk);
void disk_note(const char *sequence, const char *generation, struct disk_seen *seen);
enum exit_code disk_saved_set(const char *sequence, const char *generation, const char *path,
			      const struct stat *written);
enum exit_code disk_check_saved(int fd, const struct device *dev, int index, bool force,
				struct disk_seen *seen);
enum exit_code disk_check_discard(int fd, const struct device *dev, int index, bool force,
				  struct disk_seen *seen);

char *disk_unfinished_path(const uint8_t *uuid);
enum exit_code disk_unfinished_begin(const uint8_t *uuid, bool *begun);
void disk_unfinished_end(const uint8_t *uuid);
bool disk_is_unfinished(const uint8_t *uuid);

void disk_state_forget(const char *diskseq, const uint8_t *uuid);

#endif /* RXADM_KERNEL_DISK_STATE_H */
