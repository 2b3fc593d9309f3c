// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fills: bios that read the origin into slots, and the reads that wait for them.
 */
#include <linux/bio.h>
#include <linux/blk-cgroup.h>
#include <linux/hash.h>
#include <linux/ioprio.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/workqueue.h>

#include "../module/rxd.h"
#include "origin-internal.h"

#define MIN_BIOS	16

/*
 * Flags of readers that do not join a fill without them. REQ_META exempts a bio from limits of its
 * cgroup, because tasks of other cgroups may wait for metadata. The others make a bio fail early.
 */
#define STRICT_FLAGS	(REQ_META | REQ_FAILFAST_MASK)

/*
 * Flags that a fill inherits from the bio of its reader. A fill may also serve other
 * readers, so it must not fail because this reader only reads ahead or must not wait.
 * If it fails early, the other readers read for themselves.
 */
#define FILL_FLAGS	(STRICT_FLAGS | REQ_SYNC | REQ_PRIO | REQ_IDLE | REQ_BACKGROUND)

/*
 * The I/O priority of a prefetch. It is not of the idle class, because a scheduler may hold that
 * back for seconds, and whoever waits for the prefetch may hold up all I/O to the device.
 */
#define PREFETCH_PRIO	IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, IOPRIO_NR_LEVELS - 1)

/**
 * struct rxc_io - a fill
 * @work: finishes the fill, or submits it
 * @c: the cache
 * @list: entry in a list of fills in flight
 * @readers: bios that the fill serves, not yet advanced; none at first for a prefetch
 * @wait: the prefetch that waits for the fill, or NULL
 * @css: the cgroup of @bio when it was sent; may dangle, so it is only compared
 * @opf: the flags of @bio when it was sent; the disk may change others
 * @iter: the initial iterator of @bio
 * @first: first block
 * @nr: number of blocks; the fill owns the slot of each
 * @bio: the bio; the last member, because its bvecs may follow
 */
struct rxc_io {
	struct work_struct work;
	struct rxcache *c;
	struct list_head list;
	struct bio_list readers;
	struct rxc_wait *wait;
	const struct cgroup_subsys_state *css;
	blk_opf_t opf;
	struct bvec_iter iter;
	u64 first;
	unsigned int nr;
	struct bio bio;
};

static struct rxc_io *alloc_io(struct rxcache *c, u64 first, u64 end, blk_opf_t opf,
			       gfp_t gfp)
{
	unsigned int nr_vecs = min_t(u64, (end - first) * block_pages(c), MAX_PAGES);
	struct rxc_io *io;
	struct bio *bio;

	bio = bio_alloc_bioset(c->origin->bdev, nr_vecs, opf, gfp, &c->bios);
	if (!bio)
		return NULL;

	io = container_of(bio, struct rxc_io, bio);
	io->c = c;
	bio_list_init(&io->readers);
	io->wait = NULL;
	io->first = first;
	io->nr = 0;
	return io;
}

/* The I/O priority of a bio if it were submitted by the current task. */
static unsigned short prio_of(const struct bio *bio)
{
	if (IOPRIO_PRIO_CLASS(bio->bi_ioprio) == IOPRIO_CLASS_NONE)
		return get_current_ioprio();
	return bio->bi_ioprio;
}

static unsigned int class_of(unsigned short prio)
{
	return IOPRIO_PRIO_CLASS(prio) ?: IOPRIO_CLASS_BE;
}

static struct rxc_io *alloc_io_for(struct rxcache *c, struct bio *reader,
				   const struct rxc_span *span)
{
	struct rxc_io *io;

	/* Do not wait here: all bios of the set may be queued until map() returns. */
	io = alloc_io(c, span->first, span->end, REQ_OP_READ | (reader->bi_opf & FILL_FLAGS),
		      GFP_NOWAIT | __GFP_NOWARN);
	if (!io)
		return NULL;
	io->bio.bi_ioprio = prio_of(reader);
	bio_clone_blkg_association(&io->bio, reader);
	bio_list_add(&io->readers, reader);
	return io;
}

/* Number of blocks that can be added. */
static unsigned int io_room(const struct rxc_io *io)
{
	return MAX_PAGES / block_pages(io->c) - io->nr;
}

static void io_prepare(struct rxc_io *io, bio_end_io_t *end_io)
{
	io->bio.bi_iter.bi_sector = block_sector(io->c, io->first);
	io->bio.bi_end_io = end_io;
	io->iter = io->bio.bi_iter;
}

static void copy_to_reader(struct rxc_io *io, struct bio *reader)
{
	struct bvec_iter iter = io->iter;
	sector_t skip;

	skip = dm_target_offset(io->c->ti, reader->bi_iter.bi_sector) -
	       block_sector(io->c, io->first);
	bio_advance_iter(&io->bio, &iter, skip << SECTOR_SHIFT);
	rxc_copy_bio(reader, reader->bi_iter, &io->bio, iter);
}

/* A fill is no longer than a region, so it ends in the same region or in the next. */
static u64 region_of(const struct rxcache *c, u64 block)
{
	return block * block_pages(c) / MAX_PAGES;
}

static struct rxc_fills *fills_in(struct rxcache *c, u64 region)
{
	return &c->fills[hash_64(region, RXC_FILLS_BITS)];
}

/* From now on, readers may join. */
static void begin_joining(struct rxc_io *io)
{
	struct rxc_fills *fills = fills_in(io->c, region_of(io->c, io->first));

	io->css = bio_blkcg_css(&io->bio);
	io->opf = io->bio.bi_opf;
	spin_lock(&fills->lock);
	list_add(&io->list, &fills->list);
	spin_unlock(&fills->lock);
}

/* Take the readers that have joined. If there are none, no more may join. */
static bool take_readers(struct rxc_io *io, struct bio_list *readers)
{
	struct rxc_fills *fills = fills_in(io->c, region_of(io->c, io->first));

	spin_lock(&fills->lock);
	*readers = io->readers;
	bio_list_init(&io->readers);
	if (bio_list_empty(readers))
		list_del(&io->list);
	spin_unlock(&fills->lock);
	return !bio_list_empty(readers);
}

/* The loop ends, because no reader completes, and could join again, before all are served. */
static void end_joining(struct rxc_io *io, struct bio_list *served)
{
	struct bio_list readers;
	struct bio *reader;

	bio_list_init(served);
	while (take_readers(io, &readers)) {
		bio_list_for_each(reader, &readers) {
			if (!io->bio.bi_status)
				copy_to_reader(io, reader);
			cond_resched();
		}
		bio_list_merge(served, &readers);
	}
}

static struct rxc_io *find_fill(struct rxc_fills *fills, u64 block)
{
	struct rxc_io *io;

	lockdep_assert_held(&fills->lock);
	list_for_each_entry(io, &fills->list, list)
		if (block - io->first < io->nr)
			return io;
	return NULL;
}

/*
 * A reader must not join a fill that the disk, retries, or a limit of a cgroup could delay for
 * longer than a read by the reader itself.
 *
 * The bio of the fill keeps its cgroup only until it ends, but readers join until they have
 * their data. @css may dangle by then. It does no harm if another cgroup has got its address,
 * because no limit delays a fill whose bio has ended.
 */
static bool is_as_fast(struct rxc_io *io, struct bio *reader)
{
	return class_of(io->bio.bi_ioprio) <= class_of(prio_of(reader)) &&
	       !(reader->bi_opf & ~io->opf & STRICT_FLAGS) &&
	       io->css == bio_blkcg_css(reader);
}

/*
 * Join a bio to a fill that begins in @region. The bio must see each write that completed
 * before the bio arrived. If the write completed before the fill took the slot, the fill
 * reads its data. If the write was in flight then, the block did not get a slot. If the
 * write was announced later, it has doomed the slot:
 *
 *	write				read
 *
 *	announced: dooms the slot
 *	  sent to the origin
 *	  completes
 *					arrives: sees the slot in FILL and doomed
 *
 * A listed fill owns the slots of its blocks.
 *
 * Return: the block after the last one that the fill is going to serve.
 */
static u64 join_in(struct rxcache *c, u64 region, const struct rxc_span *span,
		   struct bio *bio)
{
	struct rxc_fills *fills = fills_in(c, region);
	u64 end, block = span->first;
	struct rxc_io *io;

	spin_lock(&fills->lock);
	io = find_fill(fills, block);
	if (io && is_as_fast(io, bio)) {
		end = min(span->end, io->first + io->nr);
		while (block < end && rxc_index_is_filling(c->index, block))
			block++;
	}
	if (block > span->first) {
		accept_until(c, bio, span, block);
		bio_list_add(&io->readers, bio);
	}
	spin_unlock(&fills->lock);
	return block;
}

/**
 * rxc_join_fill - make a read wait for a fill in flight
 * @c: the cache
 * @span: the blocks of the read
 * @bio: the read
 *
 * Return: true if a fill is going to serve the first blocks; device-mapper maps the rest
 * again.
 */
bool rxc_join_fill(struct rxcache *c, const struct rxc_span *span, struct bio *bio)
{
	u64 region = region_of(c, span->first);
	u64 block;

	/* The bio has no cgroup yet: device-mapper leaves this to the disk below. */
	bio_associate_blkg(bio);
	block = join_in(c, region, span, bio);
	if (block == span->first && region)
		block = join_in(c, region - 1, span, bio);
	if (block == span->first)
		return false;
	count_read(c, span, span->first, block, RXC_READ_MISSES, RXC_USE_READ);
	return true;
}

/*
 * Remember the blocks of a failed fill of which its first reader reads only a part. If the bad
 * sector is in another block, this reader gets an error. The fill for a reader that wants to fail
 * early says little about the disk.
 */
static void note_failure(struct rxc_io *io, const struct bio *reader)
{
	struct rxc_span span = span_of(io->c, reader);
	u64 last = io->first + io->nr - 1;

	if (io->opf & REQ_FAILFAST_MASK)
		return;
	if (!covers(io->c, &span, io->first))
		rxc_failed_note(&io->c->failed, io->first);
	if (last != io->first && !covers(io->c, &span, last))
		rxc_failed_note(&io->c->failed, last);
}

static void end_wait(struct rxc_wait *wait, blk_status_t status)
{
	if (status)
		WRITE_ONCE(wait->status, status);
	if (atomic_dec_and_test(&wait->pending))
		complete(&wait->done);
}

static void finish_fill(struct work_struct *work)
{
	struct rxc_io *io = container_of(work, struct rxc_io, work);
	blk_status_t status = io->bio.bi_status;
	struct rxc_wait *wait = io->wait;
	struct rxcache *c = io->c;
	struct bio_list readers;
	struct bio *reader;
	u64 block;

	end_joining(io, &readers);
	/* Before others can fill the blocks. A prefetch has no first reader. */
	if (status && !wait)
		note_failure(io, readers.head);
	for (block = io->first; block < io->first + io->nr; block++)
		rxc_index_end_fill(c->index, block, !status);
	bio_put(&io->bio);
	count_error(c, status);

	if (wait)
		end_wait(wait, status);
	while ((reader = bio_list_pop(&readers))) {
		if (!status) {
			bio_endio(reader);
			continue;
		}
		/* The error may be in another block of the fill, so read the origin instead. */
		rxc_remap(c, reader);
		submit_bio_noacct(reader);
	}
}

static void fill_ended(struct bio *bio)
{
	struct rxc_io *io = container_of(bio, struct rxc_io, bio);

	INIT_WORK(&io->work, finish_fill);
	queue_work(io->c->wq, &io->work);
}

static void submit_fill(struct work_struct *work)
{
	struct rxc_io *io = container_of(work, struct rxc_io, work);

	submit_bio_noacct(&io->bio);
}

/* Length of the run of missing blocks, of which @first is one. */
static unsigned int count_missing(struct rxcache *c, u64 first, u64 end)
{
	u64 block = first + 1;

	while (block < end && rxc_index_find(c->index, block) < 0)
		block++;
	return block - first;
}

/*
 * Take slots for the leading run of missing blocks, at most up to @end.
 *
 * Return: the block after the last one that got a slot.
 */
static u64 take_slots(struct rxc_io *io, u64 end, struct rxc_supply *supply)
{
	enum rxc_fate fate = RXC_FATE_TRACKED;
	struct rxcache *c = io->c;
	u64 block = io->first;
	unsigned long slot;
	unsigned int nr;

	while (block < end && io_room(io)) {
		fate = rxc_index_begin_fill(c->index, block, &supply->pages, &slot);
		if (fate == RXC_FATE_NEED_PAGES) {
			nr = count_missing(c, block, min(end, block + io_room(io)));
			if (rxc_supply_pages(c, block, nr, supply))
				continue;
			fate = RXC_FATE_SHORT;
		}
		if (fate != RXC_FATE_TRACKED)
			break;
		rxc_add_block(c, &io->bio, slot, 0, block_pages(c) << PAGE_SHIFT);
		io->nr++;
		block++;
	}
	rxc_end_supply(supply, fate);
	return block;
}

/**
 * rxc_start_fill - start a fill for the leading run of missing blocks
 * @c: the cache
 * @span: the blocks of a read
 * @bio: the read, which the fill is going to serve
 * @supply: pages for the slots
 *
 * Return: the block after the last one that is being filled.
 */
u64 rxc_start_fill(struct rxcache *c, const struct rxc_span *span, struct bio *bio,
		   struct rxc_supply *supply)
{
	u64 end = min(span->end, c->nr_blocks);
	struct rxc_io *io;
	u64 block;

	end = rxc_failed_find(&c->failed, span->first, max(end, span->first));
	if (span->first == end)
		return end;
	io = alloc_io_for(c, bio, span);
	if (!io) {
		supply->is_short = true;
		return span->first;
	}
	block = take_slots(io, end, supply);
	if (!io->nr) {
		bio_put(&io->bio);
		return block;
	}

	count_read(c, span, span->first, block, RXC_READ_MISSES, RXC_USE_READ);
	accept_until(c, bio, span, block);
	io_prepare(io, fill_ended);
	begin_joining(io);
	if (bio->bi_opf & REQ_NOWAIT) {
		/* The origin may block in submit_bio(), but this reader must not wait. */
		INIT_WORK(&io->work, submit_fill);
		queue_work(c->wq, &io->work);
	} else {
		submit_bio_noacct(&io->bio);
	}
	return block;
}

/**
 * rxc_fill_run - start a fill for a prefetch
 * @c: the cache
 * @block: first block
 * @end: block after the last one
 * @wait: counts the fill until it ends
 *
 * Return: the block to continue from, or -ENOMEM.
 */
s64 rxc_fill_run(struct rxcache *c, u64 block, u64 end, struct rxc_wait *wait)
{
	struct rxc_supply supply;
	struct rxc_io *io;
	u64 next;

	/* Each bio is submitted before the next is allocated, so the mempool has one in time. */
	io = alloc_io(c, block, end, REQ_OP_READ, GFP_NOIO);
	io->bio.bi_ioprio = PREFETCH_PRIO;
	begin_supply(&supply, RXD_GFP);
	next = take_slots(io, end, &supply);
	if (!io->nr) {
		bio_put(&io->bio);
		/* If nothing is short, other I/O is using this block. */
		return supply.is_short ? -ENOMEM : next + 1;
	}
	io->wait = wait;
	atomic_inc(&wait->pending);
	io_prepare(io, fill_ended);
	begin_joining(io);
	submit_bio_noacct(&io->bio);
	return next;
}

/**
 * rxc_fills_init - allocate what fills need
 * @c: the cache
 * @name: name of the mapped device
 *
 * Return: 0 or -ENOMEM.
 */
int rxc_fills_init(struct rxcache *c, const char *name)
{
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(c->fills); i++) {
		spin_lock_init(&c->fills[i].lock);
		INIT_LIST_HEAD(&c->fills[i].list);
	}
	ret = bioset_init(&c->bios, MIN_BIOS, offsetof(struct rxc_io, bio), BIOSET_NEED_BVECS);
	if (ret)
		return ret;
	c->wq = alloc_workqueue("dm-rxcache/%s", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, name);
	if (!c->wq) {
		bioset_exit(&c->bios);
		return -ENOMEM;
	}
	return 0;
}

/**
 * rxc_fills_exit - undo rxc_fills_init()
 * @c: the cache, which has no fill in flight
 */
void rxc_fills_exit(struct rxcache *c)
{
	destroy_workqueue(c->wq);
	bioset_exit(&c->bios);
}
