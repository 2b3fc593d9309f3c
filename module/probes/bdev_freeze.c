// SPDX-License-Identifier: GPL-2.0-only
/* 982c3b305803 ("bdev: rename freeze and thaw helpers") */
#include <linux/blkdev.h>

int probe(struct block_device *bdev);
int probe(struct block_device *bdev)
{
	return bdev_freeze(bdev);
}
