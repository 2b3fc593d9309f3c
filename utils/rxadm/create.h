/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CREATE_H
#define RXADM_CREATE_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"

/* The RAM disk that is wanted; texts are kept for messages. */
struct create_request {
	const char *size_text;
	uint64_t size;
	uint64_t mem_limit;
	bool has_index;
	unsigned int index;
	bool first_choice;	/* if @index is taken, that is no error to be reported */
	unsigned int logical_block_size;
	const char *mem_limit_text;
	uint32_t folio_size;
	const char *node_text;
	int32_t node;
	const char *uuid_text;
	uint8_t uuid[16];
	uint32_t flags;
	bool dry_run;		/* only check, and print what would be done */
};

struct rxd_create create_argument(const struct create_request *request);
enum exit_code create_error(int fd, int err, const struct create_request *request);
enum exit_code create_wait(int fd, int index, const char *path);
enum exit_code ramdisk_create(int fd, const struct create_request *request, int *index);

#endif /* RXADM_CREATE_H */
