// SPDX-License-Identifier: GPL-2.0-only
/* d32e2bf83791 ("block: pass a gendisk to ->open") */
#include <linux/blkdev.h>

static int probe_open(struct gendisk *disk, blk_mode_t mode)
{
	return 0;
}

const struct block_device_operations probe = { .open = probe_open };
