// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rxd-bare: a disk of "mib" MiB that completes bios at once, without any work. The
 * time of a bio on it is the time of the block layer. null_blk was such a disk until its bio
 * mode was removed in Linux 6.10.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "../module/compat.h"

static ulong mib = 1024;
module_param(mib, ulong, 0444);
MODULE_PARM_DESC(mib, "size in MiB");

static struct gendisk *bare_disk;

static void bare_submit_bio(struct bio *bio)
{
	bio_endio(bio);
}

static const struct block_device_operations bare_ops = {
	.owner		= THIS_MODULE,
	.submit_bio	= bare_submit_bio,
};

static int __init bare_init(void)
{
	struct queue_limits lim = {
		.logical_block_size	= SECTOR_SIZE,
		.physical_block_size	= PAGE_SIZE,
	};
	struct gendisk *disk;
	int ret;

	disk = rxd_alloc_disk(&lim, NUMA_NO_NODE);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	disk->fops = &bare_ops;
	strscpy(disk->disk_name, "rxd-bare", DISK_NAME_LEN);
	set_capacity(disk, (sector_t)mib << (20 - SECTOR_SHIFT));
	ret = add_disk(disk);
	if (ret) {
		put_disk(disk);
		return ret;
	}
	bare_disk = disk;
	return 0;
}

static void __exit bare_exit(void)
{
	del_gendisk(bare_disk);
	put_disk(bare_disk);
}

module_init(bare_init);
module_exit(bare_exit);

MODULE_DESCRIPTION("A disk that does nothing");
MODULE_LICENSE("GPL");
