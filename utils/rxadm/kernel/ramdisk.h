/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_RAMDISK_H
#define RXADM_KERNEL_RAMDISK_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel/device.h"
#include "kernel/disk_state.h"
#include "lib/error.h"

/* How to create a RAM disk; the texts are for messages. */
struct create_request {
	const char *size_text;
	uint64_t size;
	uint64_t mem_limit;
	bool has_index;
	unsigned int index;
	bool first_choice;	/* do not report an error if @index is in use */
	unsigned int logical_block_size;
	const char *mem_limit_text;
	uint32_t folio_size;
	const char *node_text;
	int32_t node;
	const char *uuid_text;
	uint8_t uuid[16];
	const char *name;	/* NULL: none */
	uint32_t flags;
	bool dry_run;		/* only check, and print what would be done */
};

struct rxd_create ramdisk_create_argument(const struct create_request *request);
enum exit_code ramdisk_create_error(int fd, int err, const struct create_request *request);
enum exit_code ramdisk_create_wait(int fd, int index, const char *path);
enum exit_code ramdisk_create(int fd, const struct create_request *request, int *index);

/* How to remove or to clear RAM disks. */
struct discard_request {
	bool force;		/* discard unsaved data, too */
	const char *diskseq;	/* diskseq that the disk must have; NULL: any */
	const struct disk_seen *saved;	/* what the disk must be; NULL: anything */
	bool *changed;		/* out, with @saved: it is not, which is not reported */
	bool (*is_kept)(const struct rxd_query *disk);	/* reports a kept disk; NULL: keep none */
	bool dry_run;		/* only check, and print what would be done */
};

enum exit_code ramdisk_remove(int fd, const struct device *dev, int index,
			      const struct discard_request *request);
enum exit_code ramdisk_remove_these(int fd, char *const *names,
				    const struct discard_request *request);
enum exit_code ramdisk_remove_all(int fd, const struct discard_request *request);
enum exit_code ramdisk_clear(int fd, const struct device *dev, int index,
			     const struct discard_request *request);

struct resize_request {
	const char *device;
	const char *size_text;
	uint64_t size;
	bool grow;		/* never shrink, whatever @flags are */
	uint32_t flags;
	bool dry_run;		/* only check, and print what would be done */
};

enum exit_code ramdisk_resize(int fd, const struct device *dev, int index,
			      const struct resize_request *request);

#endif /* RXADM_KERNEL_RAMDISK_H */
