// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bios between the reader or writer, the pages of the cache, and the origin.
 *
 * Data that enters the cache comes from the origin, or goes to the origin from the cache's
 * own pages. It never comes from a buffer that its owner may change meanwhile. Each step
 * handles the longest run of blocks that are treated alike. Device-mapper maps the rest of
 * the bio again.
 *
 * If slots, pages or bios are short, the I/O bypasses the cache.
 */
#include <linux/bio.h>
#include <linux/bvec.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mm.h>

#include "../module/copy.h"
#include "../module/rxd.h"
#include "limit.h"
#include "origin-internal.h"

/**
 * rxc_copy_bio - copy from one bio to another
 * @dst: the destination
 * @dst_iter: the part of @dst to copy to
 * @src: the source
 * @src_iter: the part of @src to copy from, at least as long
 */
void rxc_copy_bio(struct bio *dst, struct bvec_iter dst_iter, struct bio *src,
		  struct bvec_iter src_iter)
{
	struct bio_vec dst_bv, src_bv;
	void *dst_addr, *src_addr;
	unsigned int len;

	while (dst_iter.bi_size) {
		dst_bv = bio_iter_iovec(dst, dst_iter);
		src_bv = bio_iter_iovec(src, src_iter);
		len = min(dst_bv.bv_len, src_bv.bv_len);
		bio_advance_iter_single(dst, &dst_iter, len);
		bio_advance_iter_single(src, &src_iter, len);

		dst_addr = bvec_kmap_local(&dst_bv);
		src_addr = bvec_kmap_local(&src_bv);
		rxd_copy(dst_addr, src_addr, len);
		flush_dcache_page(dst_bv.bv_page);
		kunmap_local(src_addr);
		kunmap_local(dst_addr);
	}
}

/**
 * rxc_end_supply - free the pages that are not in a slot
 * @supply: the supply
 * @fate: the fate of the last block of the run
 */
void rxc_end_supply(struct rxc_supply *supply, enum rxc_fate fate)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, &supply->pages, lru)
		rxd_store_free_page(page);
	INIT_LIST_HEAD(&supply->pages);
	supply->is_short = fate == RXC_FATE_SHORT;
}

/**
 * rxc_supply_pages - allocate pages for one or more blocks
 * @c: the cache
 * @block: the first block
 * @nr_blocks: number of blocks wanted
 * @supply: the supply to add the pages to
 *
 * The pages are contiguous if possible. If there are none, a block is evicted, so that the
 * content of the cache still changes while memory is short.
 *
 * Return: true if there are pages for at least one block.
 */
bool rxc_supply_pages(struct rxcache *c, u64 block, unsigned int nr_blocks,
		      struct rxc_supply *supply)
{
	unsigned int wanted = nr_blocks * block_pages(c), found = 0, nr, i;
	gfp_t gfp = rxc_limit_gfp(c, wanted, supply->gfp);
	struct page *page;

	while (gfp && found < wanted) {
		nr = wanted - found;
		page = rxd_store_alloc_run(c->store, block * block_pages(c) + found, &nr, gfp);
		if (!page)
			break;
		for (i = 0; i < nr; i++)
			list_add_tail(&page[i].lru, &supply->pages);
		found += nr;
	}
	for (; found % block_pages(c); found--) {
		page = list_last_entry(&supply->pages, struct page, lru);
		list_del(&page->lru);
		rxd_store_free_page(page);
	}
	/* What was lent is evicted when others ask for it, not before. */
	if (!found && gfp == supply->gfp)
		rxc_index_make_room(c->index);
	return found;
}

/**
 * rxc_add_block - add a part of a block to a bio
 * @c: the cache
 * @bio: the bio, which has room for the part
 * @slot: the slot of the block, which the caller owns
 * @from: start of the part, in bytes
 * @to: end of the part, in bytes
 */
void rxc_add_block(struct rxcache *c, struct bio *bio, unsigned long slot,
		   unsigned int from, unsigned int to)
{
	unsigned int offset, len;
	struct page *page;

	for (; from < to; from += len) {
		offset = offset_in_page(from);
		len = min_t(unsigned int, to - from, PAGE_SIZE - offset);
		page = rxc_index_own_page(c->index, slot, from >> PAGE_SHIFT);
		/*
		 * There is a bvec for each page, so this cannot fail. It merges
		 * contiguous pages, because a long bio could otherwise have more
		 * segments than the disk accepts in a request.
		 */
		WARN_ON_ONCE(bio_add_page(bio, page, len, offset) != len);
	}
}

/**
 * rxc_remap - redirect a bio to the origin
 * @c: the cache
 * @bio: the bio
 *
 * Return: what map() returns.
 */
int rxc_remap(struct rxcache *c, struct bio *bio)
{
	bio_set_dev(bio, c->origin->bdev);
	if (bio_sectors(bio))
		bio->bi_iter.bi_sector = dm_target_offset(c->ti, bio->bi_iter.bi_sector);
	return DM_MAPIO_REMAPPED;
}

/**
 * rxc_origin_init - allocate what I/O needs
 * @c: the cache
 * @name: name of the mapped device
 *
 * Return: 0 or -ENOMEM.
 */
int rxc_origin_init(struct rxcache *c, const char *name)
{
	int ret;

	/* There was no I/O yet. Jiffies start below 0, so 0 would be in the future after boot. */
	c->busy_at = jiffies - QUIET_TIME;
	rxc_failed_init(&c->failed);
	ret = rxc_sequence_init(&c->sequence);
	if (ret)
		return ret;
	ret = rxc_fills_init(c, name);
	if (ret)
		rxc_sequence_exit(&c->sequence);
	return ret;
}

/**
 * rxc_origin_exit - undo rxc_origin_init()
 * @c: the cache, which has no I/O in flight
 */
void rxc_origin_exit(struct rxcache *c)
{
	rxc_fills_exit(c);
	rxc_sequence_exit(&c->sequence);
}
