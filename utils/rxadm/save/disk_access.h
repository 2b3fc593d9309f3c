/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SAVE_DISK_ACCESS_H
#define RXADM_SAVE_DISK_ACCESS_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "copy/file.h"
#include "image/format.h"
#include "kernel/control.h"
#include "kernel/create.h"

enum exit_code disk_claim(int control, const struct device *dev, int index, int flags,
			  struct rxd_query *query, int *fd, bool *in_use);

/*
 * A child process that undoes an incomplete operation, even if its parent is killed: it
 * removes a RAM disk that it has created, or empties one that was empty before.
 */
struct disk_guard {
	int fd;			/* the control node, or the disk to be emptied */
	int socket;
	pid_t process;
	int index;		/* of the disk to be removed */
	uint64_t size;		/* of the disk to be emptied, or 0 */
	const char *record;	/* to be removed before the disk is emptied, or NULL */
	const char *unfinished;	/* to be removed after the disk was removed or emptied, or NULL */
};

int disk_guard_create(struct disk_guard *guard, int control, struct rxd_create *arg,
		      const char *unfinished);
int disk_guard_empty(struct disk_guard *guard, int disk, uint64_t size, const char *record,
		     const char *unfinished);
void disk_guard_keep(struct disk_guard *guard);
void disk_guard_undo(struct disk_guard *guard);

void disk_describe(const struct rxd_query *query, struct image_header *header);
void disk_request(const struct image_header *header, struct create_request *request);
enum exit_code disk_check_fit(const struct device *dev, const struct rxd_query *query,
			      const struct image_header *image);
enum exit_code disk_is_empty(const struct rxd_query *disk, bool *empty);
enum exit_code disk_check_empty(const struct device *dev, int fd, void *buffer);

bool image_may_be_replaced(const char *sequence, int folder_fd, const char *name);
bool image_may_take_name(struct output *output, const char *sequence, dev_t folder);
enum exit_code image_kept_error(const char *file);

#endif /* RXADM_SAVE_DISK_ACCESS_H */
