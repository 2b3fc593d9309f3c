/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_RESIZE_H
#define RXADM_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "error.h"

struct resize_request {
	const char *device;
	const char *size_text;
	uint64_t size;
	uint32_t flags;
	bool dry_run;		/* only check, and print what would be done */
};

enum exit_code ramdisk_resize(int fd, const struct device *dev, int index,
			      const struct resize_request *request);

#endif /* RXADM_RESIZE_H */
