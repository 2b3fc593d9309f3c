// SPDX-License-Identifier: GPL-2.0-only
/* 224941e8379a ("use ->bd_mapping instead of ->bd_inode->i_mapping") */
#include <linux/blkdev.h>

struct address_space *probe(struct block_device *bdev);
struct address_space *probe(struct block_device *bdev)
{
	return bdev->bd_mapping;
}
