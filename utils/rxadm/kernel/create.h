/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_CREATE_H
#define RXADM_KERNEL_CREATE_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"
#include "device/filesystems.h"

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
enum exit_code ramdisk_complete(int fd, int index, const char *name);
void ramdisk_read_partitions(int index);
enum exit_code ramdisk_remove_made(int fd, const uint8_t *uuid);

/* How to clone a RAM disk. */
struct clone_request {
	int source;			/* its device number */
	unsigned int count;
	struct create_request create;	/* index, UUID, name, flags and dry run; size: out */
	const uint8_t *state;		/* name of it, for a record of changes since; or NULL */
};

enum exit_code clone_make(int fd, const struct device *source,
			  const struct clone_request *request,
			  const struct filesystems *files, struct rxd_clone *arg);
enum exit_code clone_files(int fd, const struct device *source,
			   const struct clone_request *request, struct filesystems *files);
enum exit_code ramdisk_clone(int fd, const struct device *source, struct clone_request *request,
			     struct rxd_clone *made);

#endif /* RXADM_KERNEL_CREATE_H */
