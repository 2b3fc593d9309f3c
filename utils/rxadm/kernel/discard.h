/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_DISCARD_H
#define RXADM_KERNEL_DISCARD_H

#include <linux/rxd.h>
#include <stdbool.h>

#include "base/error.h"
#include "device/device.h"
#include "kernel/disk_state.h"

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
enum exit_code ramdisk_remove_same(const char *path, const char *diskseq);
enum exit_code ramdisk_clear(int fd, const struct device *dev, int index,
			     const struct discard_request *request);
enum exit_code ramdisk_remove_all(int fd, const struct discard_request *request);
enum exit_code ramdisk_discard_these(int fd, char *const *names,
				     const struct discard_request *request, bool remove);

#endif /* RXADM_KERNEL_DISCARD_H */
