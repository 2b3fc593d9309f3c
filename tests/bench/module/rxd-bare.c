// SPDX-License-Identifier: GPL-2.0-only
/*
 * Three disks of "mib" MiB that show what a driver cannot avoid.
 *
 * /dev/rxd-bare completes bios at once, without any work. The time of a bio on it is the time of
 * the block layer. null_blk was such a disk until its bio mode was removed in Linux 6.10.
 *
 * /dev/rxd-flat copies to and from pages that it finds in an array: it has no index, no locks and
 * no counters. It takes bios of whole pages only.
 *
 * /dev/rxd-hash is the same disk, but it searches each page, as a cache does that has blocks of one
 * page: one cache line of a table has the number of the page and its address, and those of three
 * pages elsewhere on the disk. It prefetches that line some pages ahead. It never has to search
 * another line, and nothing ever changes.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/prefetch.h>
#include <linux/vmalloc.h>

#include "../module/compat.h"

static ulong mib = 1024;
module_param(mib, ulong, 0444);
MODULE_PARM_DESC(mib, "size in MiB");

/* How many pages ahead /dev/rxd-hash prefetches. */
#define AHEAD	4

/**
 * struct entry - a page of /dev/rxd-hash
 * @pgno: its number on the disk
 * @page: the page
 */
struct entry {
	u64 pgno;
	struct page *page;
};

static struct gendisk *bare_disk, *flat_disk, *hash_disk;
static struct page **flat_pages;
static struct entry *hash_table;
static unsigned long hash_mask;

static void bare_submit_bio(struct bio *bio)
{
	bio_endio(bio);
}

/* An odd factor gives each page an entry of its own, and neighbours different lines. */
static struct entry *entry_of(u64 pgno)
{
	return &hash_table[(pgno * GOLDEN_RATIO_64) & hash_mask];
}

static struct page *flat_find(u64 pgno)
{
	return flat_pages[pgno];
}

static struct page *hash_find(u64 pgno)
{
	const struct entry *entry = entry_of(pgno);

	return entry->pgno == pgno ? entry->page : NULL;
}

static __always_inline void copy_pages(struct bio *bio, bool hashed)
{
	u64 pgno = bio->bi_iter.bi_sector / PAGE_SECTORS;
	u64 ahead = pgno, end = pgno + bio_sectors(bio) / PAGE_SECTORS;
	struct bvec_iter iter;
	struct bio_vec bv;
	struct page *page;
	void *data;

	for (; hashed && ahead < min(end, pgno + AHEAD); ahead++)
		prefetch(entry_of(ahead));
	bio_for_each_segment(bv, bio, iter) {
		if (hashed && ahead < end)
			prefetch(entry_of(ahead++));
		page = hashed ? hash_find(pgno) : flat_find(pgno);
		if (!page || bio->bi_iter.bi_sector % PAGE_SECTORS || bv.bv_len != PAGE_SIZE) {
			bio_io_error(bio);
			return;
		}
		data = page_address(page);
		/* If the compiler knew the length, it would not call memcpy(). */
		OPTIMIZER_HIDE_VAR(bv.bv_len);
		if (bio_data_dir(bio) == WRITE)
			memcpy_from_bvec(data, &bv);
		else
			memcpy_to_bvec(&bv, data);
		pgno++;
	}
	bio_endio(bio);
}

static void flat_submit_bio(struct bio *bio)
{
	copy_pages(bio, false);
}

static void hash_submit_bio(struct bio *bio)
{
	copy_pages(bio, true);
}

static const struct block_device_operations bare_ops = {
	.owner		= THIS_MODULE,
	.submit_bio	= bare_submit_bio,
};

static const struct block_device_operations flat_ops = {
	.owner		= THIS_MODULE,
	.submit_bio	= flat_submit_bio,
};

static const struct block_device_operations hash_ops = {
	.owner		= THIS_MODULE,
	.submit_bio	= hash_submit_bio,
};

static struct gendisk *make_disk(const char *name, const struct block_device_operations *ops)
{
	struct queue_limits lim = {
		.logical_block_size	= SECTOR_SIZE,
		.physical_block_size	= PAGE_SIZE,
	};
	struct gendisk *disk;
	int ret;

	disk = rxd_alloc_disk(&lim, NUMA_NO_NODE);
	if (IS_ERR(disk))
		return disk;
	disk->fops = ops;
	strscpy(disk->disk_name, name, DISK_NAME_LEN);
	set_capacity(disk, (sector_t)mib << (20 - SECTOR_SHIFT));
	ret = add_disk(disk);
	if (ret) {
		put_disk(disk);
		return ERR_PTR(ret);
	}
	return disk;
}

static void drop_disk(struct gendisk *disk)
{
	if (IS_ERR_OR_NULL(disk))
		return;
	del_gendisk(disk);
	put_disk(disk);
}

static void free_pages_of_flat(void)
{
	unsigned long i;

	for (i = 0; flat_pages && i < mib << (20 - PAGE_SHIFT) && flat_pages[i]; i++)
		__free_page(flat_pages[i]);
	vfree(flat_pages);
	vfree(hash_table);
}

static int __init alloc_pages_of_flat(void)
{
	unsigned long i, nr = mib << (20 - PAGE_SHIFT);

	flat_pages = vcalloc(nr, sizeof(*flat_pages));
	if (!flat_pages)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		flat_pages[i] = alloc_page(GFP_KERNEL | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN);
		if (!flat_pages[i])
			return -ENOMEM;
	}
	return 0;
}

static int __init make_table(void)
{
	unsigned long i, nr = mib << (20 - PAGE_SHIFT);

	hash_mask = roundup_pow_of_two(nr) - 1;
	hash_table = vmalloc_huge((hash_mask + 1) * sizeof(*hash_table), GFP_KERNEL | __GFP_ZERO);
	if (!hash_table)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		*entry_of(i) = (struct entry) { .pgno = i, .page = flat_pages[i] };
	return 0;
}

static void bare_exit(void)
{
	drop_disk(hash_disk);
	drop_disk(flat_disk);
	drop_disk(bare_disk);
	free_pages_of_flat();
}

static int __init bare_init(void)
{
	int ret;

	bare_disk = make_disk("rxd-bare", &bare_ops);
	if (IS_ERR(bare_disk))
		return PTR_ERR(bare_disk);
	ret = alloc_pages_of_flat() ?: make_table();
	if (!ret) {
		flat_disk = make_disk("rxd-flat", &flat_ops);
		ret = PTR_ERR_OR_ZERO(flat_disk);
	}
	if (!ret) {
		hash_disk = make_disk("rxd-hash", &hash_ops);
		ret = PTR_ERR_OR_ZERO(hash_disk);
	}
	if (ret)
		bare_exit();
	return ret;
}

module_init(bare_init);
module_exit(bare_exit);

MODULE_DESCRIPTION("A disk that does nothing, and two that only copy");
MODULE_LICENSE("GPL");
