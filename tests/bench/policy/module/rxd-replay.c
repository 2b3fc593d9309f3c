// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rxd-replay: read blocks of a device in the order of a trace.
 *
 * Write "DEVICE TRACE", two paths. TRACE is a file of 64-bit numbers, in the
 * byte order of the machine, of blocks of a page each. They are read one by one,
 * each after the last has been answered; then the write returns.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#define LINE_MAX	512
#define CHUNK		8192

struct replay {
	struct file *trace;
	struct file *dev;
	struct block_device *bdev;
	struct page *page;
	u64 *blocks;
};

static int read_block(struct replay *r, struct bio *bio, u64 block)
{
	if (block >= bdev_nr_bytes(r->bdev) >> PAGE_SHIFT)
		return -ERANGE;
	bio_reset(bio, r->bdev, REQ_OP_READ);
	bio->bi_iter.bi_sector = block << (PAGE_SHIFT - SECTOR_SHIFT);
	__bio_add_page(bio, r->page, PAGE_SIZE, 0);
	return submit_bio_wait(bio);
}

static int replay_all(struct replay *r)
{
	struct bio_vec bv;
	struct bio bio;
	ssize_t len, i;
	loff_t pos = 0;
	int ret = 0;

	bio_init(&bio, r->bdev, &bv, 1, REQ_OP_READ);
	while (!ret) {
		len = kernel_read(r->trace, r->blocks, CHUNK * sizeof(u64), &pos);
		if (len <= 0) {
			ret = len;
			break;
		}
		for (i = 0; i < len / (ssize_t)sizeof(u64) && !ret; i++)
			ret = read_block(r, &bio, r->blocks[i]);
		cond_resched();
	}
	bio_uninit(&bio);
	return ret;
}

static int open_files(struct replay *r, const char *dev, const char *trace)
{
	r->dev = filp_open(dev, O_RDONLY | O_LARGEFILE, 0);
	if (IS_ERR(r->dev))
		return PTR_ERR(r->dev);
	r->trace = filp_open(trace, O_RDONLY | O_LARGEFILE, 0);
	if (IS_ERR(r->trace))
		return PTR_ERR(r->trace);
	if (!S_ISBLK(file_inode(r->dev)->i_mode))
		return -ENOTBLK;
	r->bdev = I_BDEV(r->dev->f_mapping->host);
	return 0;
}

static void close_file(struct file *file)
{
	if (!IS_ERR_OR_NULL(file))
		filp_close(file, NULL);
}

static int replay(const char *dev, const char *trace)
{
	struct replay r = {};
	int ret;

	r.page = alloc_page(GFP_KERNEL);
	r.blocks = kmalloc_array(CHUNK, sizeof(u64), GFP_KERNEL);
	ret = r.page && r.blocks ? open_files(&r, dev, trace) : -ENOMEM;
	if (!ret)
		ret = replay_all(&r);
	close_file(r.trace);
	close_file(r.dev);
	kfree(r.blocks);
	if (r.page)
		__free_page(r.page);
	return ret;
}

static ssize_t replay_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	char *line, *dev, *trace;
	int ret = -EINVAL;

	if (len >= LINE_MAX)
		return -EINVAL;
	line = memdup_user_nul(from, len);
	if (IS_ERR(line))
		return PTR_ERR(line);
	trace = strim(line);
	dev = strsep(&trace, " ");
	if (trace)
		ret = replay(dev, trace);
	if (ret)
		pr_err("rxd-replay: '%s' '%s': error %d\n", dev, trace ?: "", ret);
	kfree(line);
	return ret ?: len;
}

static const struct file_operations replay_fops = {
	.owner		= THIS_MODULE,
	.write		= replay_write,
};

static struct miscdevice replay_misc = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "rxd-replay",
	.fops	= &replay_fops,
	.mode	= 0600,
};

module_misc_device(replay_misc);

MODULE_DESCRIPTION("Reads the blocks that a trace asks for");
MODULE_LICENSE("GPL");
