/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_CLONE_H
#define RXADM_KERNEL_CLONE_H

#include <linux/rxd.h>

#include "base/error.h"
#include "device/device.h"
#include "device/filesystems.h"
#include "kernel/create.h"

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

#endif /* RXADM_KERNEL_CLONE_H */
