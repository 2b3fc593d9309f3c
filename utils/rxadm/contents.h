/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONTENTS_H
#define RXADM_CONTENTS_H

#include <stdint.h>

#include "device.h"
#include "error.h"

/* What a device holds, by the signatures on it. */
struct contents {
	char *last;	/* what reaches farthest: "ext4", "partition 2"; NULL: nothing known */
	uint64_t end;	/* how far, in bytes */
	char *unknown;	/* what may reach anywhere: "LVM2_member"; NULL: nothing */
};

enum exit_code contents_read(const struct device *dev, struct contents *contents);
void contents_release(struct contents *contents);

#endif /* RXADM_CONTENTS_H */
