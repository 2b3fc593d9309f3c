// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of readers that join a fill. The test decides when the origin completes a read.
 * A read returns the data of the time at which it was submitted.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/device-mapper.h>
#include <linux/ioprio.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/vmalloc.h>
#include <uapi/linux/rxd.h>

#include "../dm-target/origin.h"
#include "../module/store.h"
#include "join-test.h"

#define SECTORS		8	/* of a block */
#define NR_BLOCKS	1024
#define NR_SLOTS	1024
#define DISK_SIZE	(NR_BLOCKS * PAGE_SIZE)
#define MAX_IO		(24 * SECTORS)
#define IDLE		IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)
/* Blocks that a fill may span. */
#define REGION		BIO_MAX_VECS
#define DROPPED		20

/**
 * struct gate - the origin
 * @disk: its gendisk
 * @data: its content
 * @lock: protects the fields below
 * @holds_reads: hold reads until the test completes them
 * @held: reads that are held
 * @nr_reads: number of reads so far
 * @bad: a sector that cannot be read
 */
struct gate {
	struct gendisk *disk;
	u8 *data;
	spinlock_t lock; /* protects the fields below */
	bool holds_reads;
	struct bio_list held;
	unsigned int nr_reads;
	sector_t bad;
};

struct join {
	struct gate gate;
	struct dm_target ti;
	struct dm_dev origin;
	struct rxd_store *store;
	struct rxcache c;
};

/**
 * struct io - a bio as device mapper gives it to the target
 * @c: the cache
 * @rb: per-bio data of the target
 * @bio: the bio
 * @sector: its first sector
 * @nr: number of sectors that the target has accepted
 * @buf: its data
 * @ret: return value of the target's map function
 * @done: the bio has completed
 * @status: its status, if it has completed
 */
struct io {
	struct rxcache *c;
	struct rxc_bio rb;
	struct bio *bio;
	sector_t sector;
	unsigned int nr;
	u8 *buf;
	int ret;
	struct completion done;
	blk_status_t status;
};

/* The test whose block test_others_run() drops, once; or NULL. */
static struct join *drops;
/* The read that test_others_run() starts, once; or NULL. */
static struct io *late_read;

void test_accept_partial_bio(struct bio *bio, unsigned int nr_sectors)
{
	struct io *io = bio->bi_private;

	bio->bi_iter.bi_size = nr_sectors << SECTOR_SHIFT;
	io->nr = nr_sectors;
}

void *test_per_bio_data(struct bio *bio, size_t size)
{
	struct io *io = bio->bi_private;

	return &io->rb;
}

static void finish_mapping(struct io *io)
{
	if (io->ret == DM_MAPIO_REMAPPED)
		submit_bio_noacct(io->bio);
}

void test_others_run(void)
{
	struct join *j = xchg(&drops, NULL);
	struct io *io = xchg(&late_read, NULL);

	if (io) {
		io->ret = rxc_read(io->c, io->bio);
		finish_mapping(io);
	}
	if (j) {
		rxc_index_drop(j->c.index, DROPPED, 1);
		rxd_store_drain();
	}
	cond_resched();
}

static blk_status_t move_data(struct gate *gate, struct bio *bio)
{
	sector_t sector = bio->bi_iter.bi_sector;
	u8 *data = gate->data + (sector << SECTOR_SHIFT);
	struct bvec_iter iter;
	struct bio_vec bv;

	if (bio_op(bio) == REQ_OP_DISCARD) {
		memset(data, 0, bio->bi_iter.bi_size);
		return BLK_STS_OK;
	}
	if (bio_op(bio) == REQ_OP_READ && gate->bad - sector < bio_sectors(bio))
		return BLK_STS_IOERR;
	bio_for_each_segment(bv, bio, iter) {
		if (bio_op(bio) == REQ_OP_READ)
			memcpy_to_bvec(&bv, data);
		else
			memcpy_from_bvec(data, &bv);
		data += bv.bv_len;
	}
	return BLK_STS_OK;
}

static void gate_submit_bio(struct bio *bio)
{
	struct gate *gate = bio->bi_bdev->bd_disk->private_data;
	bool hold = false;

	spin_lock(&gate->lock);
	bio->bi_status = move_data(gate, bio);
	if (bio_op(bio) == REQ_OP_READ) {
		gate->nr_reads++;
		hold = gate->holds_reads;
	}
	if (hold)
		bio_list_add(&gate->held, bio);
	spin_unlock(&gate->lock);
	if (!hold)
		bio_endio(bio);
}

static const struct block_device_operations gate_ops = {
	.owner = THIS_MODULE,
	.submit_bio = gate_submit_bio,
};

static unsigned int nr_reads(struct join *j)
{
	return READ_ONCE(j->gate.nr_reads);
}

static void hold_reads(struct join *j)
{
	WRITE_ONCE(j->gate.holds_reads, true);
}

/* Complete the held reads, and do not hold others. */
static void release_reads(struct join *j)
{
	struct bio_list held;
	struct bio *bio;

	spin_lock(&j->gate.lock);
	j->gate.holds_reads = false;
	held = j->gate.held;
	bio_list_init(&j->gate.held);
	spin_unlock(&j->gate.lock);
	while ((bio = bio_list_pop(&held)))
		bio_endio(bio);
}

static void io_ended(struct bio *bio)
{
	struct io *io = bio->bi_private;

	rxc_bio_ended(io->c, bio, bio->bi_status);
	io->status = bio->bi_status;
	complete(&io->done);
}

static void free_io(void *arg)
{
	struct io *io = arg;

	bio_put(io->bio);
	vfree(io->buf);
}

static struct io *make_io(struct kunit *test, blk_opf_t opf, sector_t sector, unsigned int nr)
{
	struct io *io = kunit_kzalloc(test, sizeof(*io), GFP_KERNEL);
	struct join *j = test->priv;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, io);
	io->c = &j->c;
	io->buf = vmalloc(MAX_IO * SECTOR_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, io->buf);
	io->bio = bio_alloc(j->gate.disk->part0, MAX_IO / SECTORS, opf, GFP_KERNEL);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_io, io), 0);

	for (i = 0; i < DIV_ROUND_UP(nr, SECTORS); i++)
		__bio_add_page(io->bio, vmalloc_to_page(io->buf + i * PAGE_SIZE),
			       min(nr - i * SECTORS, SECTORS) * SECTOR_SIZE, 0);
	memset(io->buf, 0xa5, MAX_IO * SECTOR_SIZE);
	io->bio->bi_iter.bi_sector = sector;
	io->bio->bi_private = io;
	io->bio->bi_end_io = io_ended;
	io->sector = sector;
	io->nr = nr;
	init_completion(&io->done);
	return io;
}

static struct io *start_read(struct kunit *test, u64 block, unsigned int nr_blocks)
{
	struct io *io = make_io(test, REQ_OP_READ, block * SECTORS, nr_blocks * SECTORS);

	io->ret = rxc_read(io->c, io->bio);
	finish_mapping(io);
	return io;
}

static blk_status_t io_wait(struct kunit *test, struct io *io)
{
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&io->done, 30 * HZ), 0);
	return io->status;
}

static u8 value_of(sector_t sector)
{
	return 1 + sector % 251;
}

/* Has a read succeeded and returned the first content of the origin? */
static void expect_old(struct kunit *test, struct io *io)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(test, io_wait(test, io), BLK_STS_OK);
	for (i = 0; i < io->nr; i++) {
		KUNIT_EXPECT_EQ(test, io->buf[i * SECTOR_SIZE], value_of(io->sector + i));
		KUNIT_EXPECT_EQ(test, io->buf[(i + 1) * SECTOR_SIZE - 1],
				value_of(io->sector + i));
	}
	/* The bytes after the part that was accepted are unchanged. */
	if (io->nr < MAX_IO)
		KUNIT_EXPECT_EQ(test, io->buf[io->nr * SECTOR_SIZE], 0xa5);
}

static void expect_value(struct kunit *test, struct io *io, u8 value)
{
	KUNIT_EXPECT_EQ(test, io_wait(test, io), BLK_STS_OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(io->buf, value, io->nr * SECTOR_SIZE));
}

static void expect_waiting(struct kunit *test, struct io *io)
{
	KUNIT_EXPECT_EQ(test, io->ret, DM_MAPIO_SUBMITTED);
	KUNIT_EXPECT_FALSE(test, completion_done(&io->done));
}

static bool is_cached(struct join *j, u64 block)
{
	return rxc_index_find(j->c.index, block) >= 0;
}

static void second_reader(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *first, *second, *part;

	hold_reads(j);
	first = start_read(test, 5, 1);
	second = start_read(test, 5, 1);
	part = make_io(test, REQ_OP_READ, 5 * SECTORS + 3, 2);
	part->ret = rxc_read(part->c, part->bio);
	finish_mapping(part);
	expect_waiting(test, first);
	expect_waiting(test, second);
	expect_waiting(test, part);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
	release_reads(j);
	expect_old(test, first);
	expect_old(test, second);
	expect_old(test, part);
	KUNIT_EXPECT_TRUE(test, is_cached(j, 5));
	expect_old(test, start_read(test, 5, 1));
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
}

static void part_within_the_fill(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *first, *inner, *beyond, *rest, *before;

	hold_reads(j);
	first = start_read(test, 10, 4);
	inner = start_read(test, 11, 2);
	beyond = start_read(test, 12, 4);
	KUNIT_EXPECT_EQ(test, inner->nr, 2 * SECTORS);
	KUNIT_EXPECT_EQ(test, beyond->nr, 2 * SECTORS);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
	rest = start_read(test, 14, 2);
	/* A read that begins before the fill fills the blocks before it. */
	before = start_read(test, 8, 4);
	KUNIT_EXPECT_EQ(test, before->nr, 2 * SECTORS);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 3);
	release_reads(j);
	expect_old(test, first);
	expect_old(test, inner);
	expect_old(test, beyond);
	expect_old(test, rest);
	expect_old(test, before);
}

static void fill_across_regions(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *first, *second;

	hold_reads(j);
	first = start_read(test, REGION - 2, 6);
	second = start_read(test, REGION + 1, 2);
	expect_waiting(test, second);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
	release_reads(j);
	expect_old(test, first);
	expect_old(test, second);
}

static struct io *do_write(struct kunit *test, sector_t sector, unsigned int nr, u8 value)
{
	struct io *io = make_io(test, REQ_OP_WRITE, sector, nr);

	memset(io->buf, value, nr * SECTOR_SIZE);
	io->ret = rxc_write(io->c, io->bio);
	finish_mapping(io);
	KUNIT_EXPECT_EQ(test, io_wait(test, io), BLK_STS_OK);
	return io;
}

/* A read after a write returns its data, and not the older data of a fill. */
static void join_beside_a_write(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *first, *joined, *late, *beside;

	hold_reads(j);
	first = start_read(test, 0, 3);
	joined = start_read(test, 1, 1);
	do_write(test, SECTORS, SECTORS, 0xee);
	late = start_read(test, 1, 1);
	KUNIT_EXPECT_EQ(test, late->ret, DM_MAPIO_REMAPPED);
	/* A bio that meets such a block later waits for what comes before it. */
	beside = start_read(test, 0, 3);
	expect_waiting(test, beside);
	KUNIT_EXPECT_EQ(test, beside->nr, SECTORS);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 2);
	release_reads(j);
	expect_old(test, first);
	expect_old(test, joined);
	expect_old(test, beside);
	expect_value(test, late, 0xee);
	KUNIT_EXPECT_TRUE(test, is_cached(j, 0));
	KUNIT_EXPECT_FALSE(test, is_cached(j, 1));
	KUNIT_EXPECT_TRUE(test, is_cached(j, 2));
	expect_value(test, start_read(test, 1, 1), 0xee);
}

static void join_beside_a_discard(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *first, *late, *discard;

	hold_reads(j);
	first = start_read(test, 4, 2);
	discard = make_io(test, REQ_OP_DISCARD, 0, SECTORS);
	discard->bio->bi_vcnt = 0;
	discard->bio->bi_iter.bi_size = 16 * PAGE_SIZE;
	discard->ret = rxc_write_range(discard->c, discard->bio);
	finish_mapping(discard);
	KUNIT_EXPECT_EQ(test, io_wait(test, discard), BLK_STS_OK);
	late = start_read(test, 4, 2);
	KUNIT_EXPECT_EQ(test, late->ret, DM_MAPIO_REMAPPED);
	release_reads(j);
	expect_old(test, first);
	expect_value(test, late, 0);
	KUNIT_EXPECT_FALSE(test, is_cached(j, 4));
}

/* The message "invalidate": the origin has changed by itself. */
static void join_beside_a_drop(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *first, *late;

	hold_reads(j);
	first = start_read(test, 4, 1);
	memset(j->gate.data + 4 * PAGE_SIZE, 0x77, PAGE_SIZE);
	rxc_index_drop(j->c.index, 4, 1);
	late = start_read(test, 4, 1);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 2);
	release_reads(j);
	expect_old(test, first);
	expect_value(test, late, 0x77);
	expect_value(test, start_read(test, 4, 1), 0x77);
}

/* The fill owns its slots until the last reader has its data. */
static void drop_between_readers(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *first, *second;

	hold_reads(j);
	first = start_read(test, DROPPED, 1);
	second = start_read(test, DROPPED, 1);
	expect_waiting(test, second);
	WRITE_ONCE(drops, j);
	release_reads(j);
	expect_old(test, first);
	expect_old(test, second);
	KUNIT_EXPECT_NULL(test, READ_ONCE(drops));
	KUNIT_EXPECT_FALSE(test, is_cached(j, DROPPED));
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
}

/* Other tasks run after 64 KiB, and may drop a block that is still to be copied. */
static void drop_during_a_long_hit(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *io;

	expect_old(test, start_read(test, 0, 24));
	WRITE_ONCE(drops, j);
	io = start_read(test, 0, 24);
	KUNIT_EXPECT_NULL(test, xchg(&drops, NULL));
	KUNIT_EXPECT_EQ(test, io->nr, DROPPED * SECTORS);
	expect_old(test, io);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
	expect_old(test, start_read(test, DROPPED, 4));
	KUNIT_EXPECT_EQ(test, nr_reads(j), 2);
}

/* The origin has answered, and the data are being copied to the first reader. */
static void join_a_completed_fill(struct kunit *test)
{
	struct io *second = make_io(test, REQ_OP_READ, 5 * SECTORS, SECTORS);
	struct join *j = test->priv;
	struct io *first;

	hold_reads(j);
	first = start_read(test, 5, 1);
	WRITE_ONCE(late_read, second);
	release_reads(j);
	expect_old(test, first);
	expect_old(test, second);
	KUNIT_EXPECT_NULL(test, READ_ONCE(late_read));
	KUNIT_EXPECT_EQ(test, second->ret, DM_MAPIO_SUBMITTED);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
	KUNIT_EXPECT_TRUE(test, is_cached(j, 5));
}

/* If a fill fails, each of its readers reads the origin itself. */
static void join_a_failing_fill(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *first, *good, *bad;

	j->gate.bad = 6 * SECTORS;
	hold_reads(j);
	first = start_read(test, 4, 4);
	good = start_read(test, 5, 1);
	bad = start_read(test, 6, 1);
	expect_waiting(test, good);
	expect_waiting(test, bad);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
	release_reads(j);
	expect_old(test, good);
	KUNIT_EXPECT_EQ(test, io_wait(test, bad), BLK_STS_IOERR);
	KUNIT_EXPECT_EQ(test, io_wait(test, first), BLK_STS_IOERR);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 4);
	KUNIT_EXPECT_FALSE(test, is_cached(j, 5));
	/* The next read starts a new fill. */
	expect_old(test, start_read(test, 5, 1));
	KUNIT_EXPECT_TRUE(test, is_cached(j, 5));
}

static struct io *read_part(struct kunit *test, sector_t sector, unsigned int nr)
{
	struct io *io = make_io(test, REQ_OP_READ, sector, nr);

	io->ret = rxc_read(io->c, io->bio);
	finish_mapping(io);
	return io;
}

/* For a minute, a block with a bad sector is not filled again when its other sectors are read. */
static void no_fill_after_a_failure(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *io;

	j->gate.bad = 6 * SECTORS;
	expect_old(test, read_part(test, 6 * SECTORS + 4, 4));
	KUNIT_EXPECT_EQ(test, nr_reads(j), 2);
	expect_old(test, read_part(test, 6 * SECTORS + 4, 4));
	expect_old(test, read_part(test, 6 * SECTORS + 1, 2));
	KUNIT_EXPECT_EQ(test, nr_reads(j), 4);

	/* A longer read fills the blocks before it. */
	io = start_read(test, 4, 4);
	expect_old(test, io);
	KUNIT_EXPECT_EQ(test, io->nr, 2 * SECTORS);
	KUNIT_EXPECT_TRUE(test, is_cached(j, 5));
	/* The block itself is read alone, so that those after it can enter. */
	io = read_part(test, 6 * SECTORS + 4, SECTORS);
	expect_old(test, io);
	KUNIT_EXPECT_EQ(test, io->nr, 4);

	j->gate.bad = -1;
	j->c.failed.entries[0].until = jiffies;
	expect_old(test, start_read(test, 6, 1));
	KUNIT_EXPECT_TRUE(test, is_cached(j, 6));
}

/* A read at both ends of which there are bad sectors that it does not ask for. */
static void failure_at_both_ends(struct kunit *test)
{
	struct join *j = test->priv;

	j->gate.bad = 8 * SECTORS + 7;
	expect_old(test, read_part(test, 6 * SECTORS + 4, 2 * SECTORS));
	KUNIT_EXPECT_EQ(test, nr_reads(j), 2);
	expect_old(test, read_part(test, 7 * SECTORS, SECTORS));
	KUNIT_EXPECT_EQ(test, nr_reads(j), 3);
	KUNIT_EXPECT_TRUE(test, is_cached(j, 7));
	expect_old(test, read_part(test, 8 * SECTORS, 4));
	KUNIT_EXPECT_EQ(test, nr_reads(j), 4);
	/* A read of whole blocks fails itself. */
	j->gate.bad = 21 * SECTORS;
	KUNIT_EXPECT_EQ(test, io_wait(test, start_read(test, 20, 3)), BLK_STS_IOERR);
	expect_old(test, start_read(test, 20, 1));
	KUNIT_EXPECT_TRUE(test, is_cached(j, 20));
}

/* The record keeps the newest failures. */
static void many_failures(struct kunit *test)
{
	struct rxc_failed failed;
	unsigned int i;

	rxc_failed_init(&failed);
	KUNIT_EXPECT_EQ(test, rxc_failed_find(&failed, 0, 100), 100);
	for (i = 0; i <= RXC_NR_FAILED; i++)
		rxc_failed_note(&failed, 10 + i);
	KUNIT_EXPECT_EQ(test, rxc_failed_find(&failed, 0, 100), 11);
	KUNIT_EXPECT_EQ(test, rxc_failed_find(&failed, 0, 11), 11);
	KUNIT_EXPECT_EQ(test, rxc_failed_find(&failed, 10 + RXC_NR_FAILED, 100),
			10 + RXC_NR_FAILED);
	KUNIT_EXPECT_EQ(test, rxc_failed_find(&failed, 11 + RXC_NR_FAILED, 100), 100);
}

/* A reader that wants to fail early fails for other reasons, too. */
static void early_failure_is_not_remembered(struct kunit *test)
{
	struct io *io = make_io(test, REQ_OP_READ | REQ_FAILFAST_DEV, 6 * SECTORS + 4, 4);
	struct join *j = test->priv;

	j->gate.bad = 6 * SECTORS;
	io->ret = rxc_read(io->c, io->bio);
	finish_mapping(io);
	expect_old(test, io);
	j->gate.bad = -1;
	expect_old(test, start_read(test, 6, 1));
	KUNIT_EXPECT_TRUE(test, is_cached(j, 6));
}

static void join_without_waiting(struct kunit *test)
{
	struct io *first, *second = make_io(test, REQ_OP_READ | REQ_NOWAIT, 0, SECTORS);
	struct join *j = test->priv;

	hold_reads(j);
	first = start_read(test, 0, 1);
	/* Device mapper of Linux 6.1 holds an RCU read lock here. */
	preempt_disable();
	second->ret = rxc_read(second->c, second->bio);
	preempt_enable();
	expect_waiting(test, second);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
	release_reads(j);
	expect_old(test, first);
	expect_old(test, second);
}

/* A reader does not wait for a fill that the disk may delay. */
static void join_no_fill_of_a_lower_class(struct kunit *test)
{
	struct io *first = make_io(test, REQ_OP_READ, 0, SECTORS);
	struct io *second = make_io(test, REQ_OP_READ, 0, SECTORS);
	struct join *j = test->priv;
	struct io *other;

	first->bio->bi_ioprio = IDLE;
	second->bio->bi_ioprio = IDLE;
	hold_reads(j);
	first->ret = rxc_read(first->c, first->bio);
	other = start_read(test, 0, 1);
	KUNIT_EXPECT_EQ(test, other->ret, DM_MAPIO_REMAPPED);
	second->ret = rxc_read(second->c, second->bio);
	expect_waiting(test, second);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 2);
	release_reads(j);
	expect_old(test, first);
	expect_old(test, second);
	expect_old(test, other);
}

/* A limit of a cgroup may delay a fill for data, but not one for metadata. */
static void join_no_fill_without_strict_flags(struct kunit *test)
{
	static const blk_opf_t flags[] = { REQ_META, REQ_FAILFAST_DEV };
	struct join *j = test->priv;
	struct io *first, *second, *third, *fourth, *plain;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		hold_reads(j);
		WRITE_ONCE(j->gate.nr_reads, 0);
		plain = start_read(test, 2 * i, 1);
		first = make_io(test, REQ_OP_READ | flags[i], 2 * i * SECTORS, SECTORS);
		first->ret = rxc_read(first->c, first->bio);
		KUNIT_EXPECT_EQ(test, first->ret, DM_MAPIO_REMAPPED);
		finish_mapping(first);
		KUNIT_EXPECT_EQ(test, nr_reads(j), 2);

		/* A fill inherits the flags. Readers with and without them join it. */
		second = make_io(test, REQ_OP_READ | flags[i], (2 * i + 1) * SECTORS, SECTORS);
		second->ret = rxc_read(second->c, second->bio);
		third = make_io(test, REQ_OP_READ | flags[i], (2 * i + 1) * SECTORS, SECTORS);
		third->ret = rxc_read(third->c, third->bio);
		expect_waiting(test, third);
		fourth = start_read(test, 2 * i + 1, 1);
		expect_waiting(test, fourth);
		KUNIT_EXPECT_EQ(test, nr_reads(j), 3);
		release_reads(j);
		expect_old(test, plain);
		expect_old(test, first);
		expect_old(test, second);
		expect_old(test, third);
		expect_old(test, fourth);
	}
}

struct prefetch {
	struct rxcache *c;
	struct rxc_range range;
	u64 left_out;
	int ret;
	struct completion done;
};

static int prefetch_thread(void *arg)
{
	struct prefetch *p = arg;

	p->ret = rxc_prefetch(p->c, &p->range, &p->left_out);
	complete(&p->done);
	return 0;
}

static void wait_for_reads(struct kunit *test, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < 1500 && nr_reads(test->priv) < nr; i++)
		msleep(20);
	KUNIT_ASSERT_EQ(test, nr_reads(test->priv), nr);
}

static void start_prefetch(struct kunit *test, struct prefetch *p, u64 first, u64 nr)
{
	struct join *j = test->priv;

	*p = (struct prefetch) { .c = &j->c, .range = { .first = first, .nr = nr } };
	init_completion(&p->done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(prefetch_thread, p, "prefetch")));
}

static void join_a_prefetch(struct kunit *test)
{
	struct io *urgent = make_io(test, REQ_OP_READ, 20 * SECTORS, SECTORS);
	struct join *j = test->priv;
	struct prefetch p;
	struct io *second;

	hold_reads(j);
	start_prefetch(test, &p, 16, 32);
	wait_for_reads(test, 1);
	second = start_read(test, 20, 1);
	expect_waiting(test, second);
	urgent->bio->bi_ioprio = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, 0);
	urgent->ret = rxc_read(urgent->c, urgent->bio);
	KUNIT_EXPECT_EQ(test, urgent->ret, DM_MAPIO_REMAPPED);
	finish_mapping(urgent);
	release_reads(j);
	wait_for_completion(&p.done);
	KUNIT_EXPECT_EQ(test, p.ret, 0);
	KUNIT_EXPECT_EQ(test, p.left_out, 0);
	KUNIT_EXPECT_EQ(test, p.range.nr, 0);
	expect_old(test, second);
	expect_old(test, urgent);
}

/* A suspended prefetch serves the readers that have joined, and starts nothing more. */
static void join_beside_a_suspend(struct kunit *test)
{
	struct io *second = make_io(test, REQ_OP_READ, 20 * SECTORS, SECTORS);
	struct join *j = test->priv;
	struct prefetch p;

	hold_reads(j);
	start_prefetch(test, &p, 0, 768);
	wait_for_reads(test, 1);
	second->bio->bi_ioprio = IDLE;
	second->ret = rxc_read(second->c, second->bio);
	expect_waiting(test, second);
	WRITE_ONCE(j->c.suspended, true);
	release_reads(j);
	wait_for_completion(&p.done);
	expect_old(test, second);
	KUNIT_EXPECT_EQ(test, nr_reads(j), 1);
	/* The time limit of the prefetch may have passed before the suspend. */
	if (p.ret)
		KUNIT_EXPECT_EQ(test, p.ret, -EBUSY);
	else
		KUNIT_EXPECT_EQ(test, p.range.nr, 512);
}

/* A prefetch does not wait if there was no other I/O yet. */
static void prefetch_alone(struct kunit *test)
{
	struct join *j = test->priv;

	KUNIT_EXPECT_FALSE(test, time_before(jiffies, j->c.busy_at + HZ / 20));
}

/* A prefetch reports the number of blocks that other I/O was using. */
static void prefetch_around_others(struct kunit *test)
{
	struct join *j = test->priv;
	struct io *held[3];
	struct prefetch p;
	unsigned int i;

	hold_reads(j);
	for (i = 0; i < 3; i++)
		held[i] = start_read(test, 20 * (i + 1), 1);
	start_prefetch(test, &p, 0, 100);
	/* The prefetch starts all of its runs at once. */
	wait_for_reads(test, 3 + 4);
	release_reads(j);
	wait_for_completion(&p.done);
	KUNIT_EXPECT_EQ(test, p.ret, 0);
	/* That other I/O may have ended meanwhile. */
	KUNIT_EXPECT_LE(test, p.left_out, 3);
	for (i = 0; i < 3; i++)
		expect_old(test, held[i]);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_TRUE(test, is_cached(j, i));
}

/* Beside other I/O, a prefetch waits half a second for each MiB, not for each run of blocks. */
static void prefetch_waits_once(struct kunit *test)
{
	struct join *j = test->priv;
	struct prefetch p = { .c = &j->c, .range = { .nr = 2 * REGION } };
	unsigned long begin, end;
	unsigned int i;

	for (i = 0; i < REGION; i += 4)
		expect_old(test, start_read(test, i, 1));
	begin = jiffies;
	WRITE_ONCE(j->c.busy_at, begin + 30 * HZ);
	KUNIT_EXPECT_EQ(test, rxc_prefetch(p.c, &p.range, &p.left_out), 0);
	end = jiffies;
	KUNIT_EXPECT_FALSE(test, time_before(end, begin + HZ / 2));
	KUNIT_EXPECT_TRUE(test, time_before(end, begin + 10 * HZ));
	KUNIT_EXPECT_EQ(test, p.left_out, 0);
	KUNIT_EXPECT_EQ(test, p.range.nr, REGION);
	for (i = 0; i < REGION; i++)
		KUNIT_EXPECT_TRUE(test, is_cached(j, i));
}

KUNIT_DEFINE_ACTION_WRAPPER(destroy_store, rxd_store_destroy, struct rxd_store *);
KUNIT_DEFINE_ACTION_WRAPPER(destroy_index, rxc_index_destroy, struct rxc_index *);
KUNIT_DEFINE_ACTION_WRAPPER(free_stats, free_percpu, struct rxc_stats __percpu *);
KUNIT_DEFINE_ACTION_WRAPPER(exit_origin, rxc_origin_exit, struct rxcache *);
KUNIT_DEFINE_ACTION_WRAPPER(free_data, vfree, void *);

static void delete_disk(void *disk)
{
	del_gendisk(disk);
	put_disk(disk);
}

static int make_gate(struct kunit *test, struct gate *gate)
{
	struct queue_limits lim = {
		.features = BLK_FEAT_NOWAIT,
		.max_hw_discard_sectors = UINT_MAX,
	};
	sector_t sector;
	int ret;

	spin_lock_init(&gate->lock);
	bio_list_init(&gate->held);
	gate->bad = -1;
	gate->data = vmalloc(DISK_SIZE);
	if (!gate->data)
		return -ENOMEM;
	ret = kunit_add_action_or_reset(test, free_data, gate->data);
	if (ret)
		return ret;
	for (sector = 0; sector < DISK_SIZE / SECTOR_SIZE; sector++)
		memset(gate->data + sector * SECTOR_SIZE, value_of(sector), SECTOR_SIZE);

	gate->disk = blk_alloc_disk(&lim, NUMA_NO_NODE);
	if (IS_ERR(gate->disk))
		return PTR_ERR(gate->disk);
	gate->disk->fops = &gate_ops;
	gate->disk->flags = GENHD_FL_NO_PART;
	gate->disk->private_data = gate;
	strscpy(gate->disk->disk_name, "gate");
	set_capacity(gate->disk, DISK_SIZE / SECTOR_SIZE);
	ret = add_disk(gate->disk);
	if (ret) {
		put_disk(gate->disk);
		return ret;
	}
	return kunit_add_action_or_reset(test, delete_disk, gate->disk);
}

static int make_cache(struct kunit *test, struct join *j)
{
	static const struct rxd_store_options plain = { .node = RXD_NODE_LOCAL };
	struct rxcache *c = &j->c;
	int ret;

	c->store = rxd_store_create(NR_SLOTS, &plain);
	if (!c->store)
		return -ENOMEM;
	ret = kunit_add_action_or_reset(test, destroy_store, c->store);
	if (ret)
		return ret;
	c->stats = alloc_percpu(struct rxc_stats);
	if (!c->stats)
		return -ENOMEM;
	ret = kunit_add_action_or_reset(test, free_stats, (void __force *)c->stats);
	if (ret)
		return ret;
	c->index = rxc_index_create(c->store, 1, c->stats);
	if (IS_ERR(c->index))
		return PTR_ERR(c->index);
	ret = kunit_add_action_or_reset(test, destroy_index, c->index);
	if (ret)
		return ret;
	ret = rxc_origin_init(c, "join");
	if (ret)
		return ret;
	return kunit_add_action_or_reset(test, exit_origin, c);
}

static int join_init(struct kunit *test)
{
	struct join *j = kunit_kzalloc(test, sizeof(*j), GFP_KERNEL);
	int ret;

	if (!j)
		return -ENOMEM;
	test->priv = j;
	ret = make_gate(test, &j->gate);
	if (ret)
		return ret;
	j->origin.bdev = j->gate.disk->part0;
	j->ti.len = DISK_SIZE / SECTOR_SIZE;
	j->c.ti = &j->ti;
	j->c.origin = &j->origin;
	j->c.nr_blocks = NR_BLOCKS;
	j->c.block_shift = ilog2(SECTORS);
	return make_cache(test, j);
}

static struct kunit_case join_cases[] = {
	KUNIT_CASE(second_reader),
	KUNIT_CASE(part_within_the_fill),
	KUNIT_CASE(fill_across_regions),
	KUNIT_CASE(join_beside_a_write),
	KUNIT_CASE(join_beside_a_discard),
	KUNIT_CASE(join_beside_a_drop),
	KUNIT_CASE(drop_between_readers),
	KUNIT_CASE(drop_during_a_long_hit),
	KUNIT_CASE(join_a_completed_fill),
	KUNIT_CASE(join_a_failing_fill),
	KUNIT_CASE(no_fill_after_a_failure),
	KUNIT_CASE(failure_at_both_ends),
	KUNIT_CASE(many_failures),
	KUNIT_CASE(early_failure_is_not_remembered),
	KUNIT_CASE(join_without_waiting),
	KUNIT_CASE(join_no_fill_of_a_lower_class),
	KUNIT_CASE(join_no_fill_without_strict_flags),
	KUNIT_CASE(join_a_prefetch),
	KUNIT_CASE(join_beside_a_suspend),
	KUNIT_CASE(prefetch_alone),
	KUNIT_CASE(prefetch_around_others),
	KUNIT_CASE(prefetch_waits_once),
	{}
};

static int join_suite_init(struct kunit_suite *suite)
{
	return rxd_store_init();
}

static void join_suite_exit(struct kunit_suite *suite)
{
	rxd_store_exit();
}

static struct kunit_suite join_suite = {
	.name = "rxcache_join",
	.suite_init = join_suite_init,
	.suite_exit = join_suite_exit,
	.init = join_init,
	.test_cases = join_cases,
};

kunit_test_suite(join_suite);

MODULE_DESCRIPTION("KUnit tests of readers that join a fill");
MODULE_LICENSE("GPL");
