// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of whole RAM disks that share data: each allocation of an operation fails once, and
 * the operation either still succeeds or changes nothing; what other tasks may do while a
 * disk is cloned; what a clear of reserved memory leaves; what disks promise.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/jhash.h>
#include <linux/pagemap.h>
#include <linux/prandom.h>

#include "../module/compat.h"
#include "crew.h"
#include "share-test.h"

/*
 * The block layer makes and registers a disk with hundreds of allocations. They count as one each.
 *
 * Return: true if this is the one that fails; otherwise, end_of_many() goes on counting.
 */
static bool is_one_of_many(unsigned int *nth)
{
	*nth = xchg(&current->fail_nth, 0);
	return *nth == 1;
}

static void end_of_many(unsigned int nth)
{
	if (nth)
		fault_begin(nth - 1);
}

static struct gendisk *test_alloc_disk(struct queue_limits *lim, int node)
{
	struct gendisk *gd;
	unsigned int nth;

	if (is_one_of_many(&nth))
		return ERR_PTR(-ENOMEM);
	gd = rxd_alloc_disk(lim, node);
	end_of_many(nth);
	return gd;
}

static int test_add_disk(struct device *parent, struct gendisk *gd,
			 const struct attribute_group **groups)
{
	unsigned int nth;
	int ret;

	if (is_one_of_many(&nth))
		return -ENOMEM;
	ret = device_add_disk(parent, gd, groups);
	end_of_many(nth);
	return ret;
}

#include "../module/check.c"
#define device_add_disk		test_add_disk
#define rxd_alloc_disk		test_alloc_disk
#include "../module/disk.c"
#undef device_add_disk
#undef rxd_alloc_disk

/* Called between the parts of a write-zeroes request, or NULL. */
static void (*at_part)(void);

static void test_resched(void)
{
	if (at_part)
		at_part();
	cond_resched();
}

#pragma push_macro("cond_resched")
#undef cond_resched
#define cond_resched()		test_resched()
#include "../module/bio.c"
#pragma pop_macro("cond_resched")
#include "../module/resize.c"
#include "../module/claim.c"
#include "../module/hold-arm.c"
#include "../module/track.c"
#include "../module/freeze.c"
#include "../module/name.c"
#include "../module/sysfs.c"
#include "../module/clone.h"
#include "../module/store-internal.h"

/* What rxd_disk_clone() finds on its way. */
static struct {
	struct gendisk *gd;
	unsigned int nr_flushes;
	unsigned int nr_locked;
	unsigned int nr_freezes;
	unsigned int nr_thaws;
	unsigned int nr_frozen_locked;
	unsigned int nr_prepared;
	void (*at_freeze)(void);
	struct kunit *test;
} way;

static int test_flush(struct address_space *mapping)
{
	way.nr_flushes++;
	if (way.gd && mutex_is_locked(&way.gd->open_mutex))
		way.nr_locked++;
	return filemap_write_and_wait(mapping);
}

/* The I/O that a file system waits for may need the lock of the source. */
static void note_lock(struct rxd_cloning *cloning)
{
	if (mutex_is_locked(&cloning->source->lock))
		way.nr_frozen_locked++;
}

static int test_freeze(struct rxd_freeze *freeze)
{
	struct rxd_cloning *cloning = container_of(freeze, struct rxd_cloning, freeze);

	way.nr_freezes++;
	note_lock(cloning);
	/* 0: the next one who holds writes waits for a grace period. */
	if (READ_ONCE(cloning->source->store->hold->sem.rss.gp_state))
		way.nr_prepared++;
	if (way.at_freeze)
		way.at_freeze();
	return rxd_freeze(freeze);
}

static int test_thaw(struct rxd_freeze *freeze)
{
	way.nr_thaws++;
	note_lock(container_of(freeze, struct rxd_cloning, freeze));
	return rxd_thaw(freeze);
}

#define filemap_write_and_wait	test_flush
#define rxd_freeze(freeze)	test_freeze(freeze)
#define rxd_thaw(freeze)	test_thaw(freeze)
#include "../module/clone.c"
#undef filemap_write_and_wait
#undef rxd_freeze
#undef rxd_thaw
#include "../module/control.c"
#include "../module/map.c"

/* Numbers of the disks. */
enum {
	SOURCE,
	CLONE,
	NEW,
	NR_DISKS,
};

static struct rxd_disk *disk(int index)
{
	return xa_load(&rxd_disks, index);
}

static struct rxd_store *store_of(int index)
{
	return disk(index)->store;
}

static int make_disk_with(unsigned long nr_pages, u32 flags)
{
	struct rxd_create arg = {
		.version = RXD_ABI_VERSION,
		.flags = flags | RXD_CREATE_OVERCOMMIT,
		.index = SOURCE,
		.size = (u64)nr_pages << PAGE_SHIFT,
		.node = RXD_NODE_LOCAL,
	};

	return rxd_create(&arg);
}

static int make_disk(unsigned long nr_pages)
{
	return make_disk_with(nr_pages, 0);
}

static int make_clone(int index, u32 flags)
{
	struct rxd_clone arg = {
		.version = RXD_ABI_VERSION,
		.flags = flags,
		.source = SOURCE,
		.index = index,
		.state = { flags & RXD_CLONE_TRACK ? 2 : 0 },
	};

	return rxd_clone(&arg);
}

static int reset_clone(void)
{
	struct rxd_reset arg = { .version = RXD_ABI_VERSION, .index = CLONE, .source = SOURCE };

	return rxd_reset(&arg);
}

static int clear_source(void)
{
	struct rxd_clear arg = { .version = RXD_ABI_VERSION, .index = SOURCE };

	return rxd_clear(&arg);
}

static int track(int index, u32 flags)
{
	struct rxd_track arg = {
		.version = RXD_ABI_VERSION,
		.flags = flags,
		.index = index,
		.state = { flags & RXD_TRACK_STOP ? 0 : 1 },
	};

	return rxd_track(&arg);
}

static int track_source(u32 flags)
{
	return track(SOURCE, flags);
}

/* A file that a thread closes is closed later. */
static int remove(int index)
{
	unsigned int tries = 500;
	int ret;

	while ((ret = remove_disk(index, NULL, false)) == -EBUSY && --tries)
		msleep(20);
	return ret;
}

static void disarm_source(void)
{
	cancel_delayed_work_sync(&disk(SOURCE)->disarm);
	rxd_disk_disarm(&disk(SOURCE)->disarm.work);
}

static int init_disks(struct kunit *test)
{
	init_test_memory(test);
	memset(&way, 0, sizeof(way));
	return 0;
}

static void exit_disks(struct kunit *test)
{
	int i;

	reset_test_memory();
	for (i = 0; i < NR_DISKS; i++)
		if (disk(i))
			KUNIT_EXPECT_EQ(test, remove(i), 0);
	KUNIT_EXPECT_EQ(test, pages_taken(), 0);
	KUNIT_EXPECT_EQ(test, test_owners(), 0);
	KUNIT_EXPECT_EQ(test, test_freed(), test_awaited());
	KUNIT_EXPECT_FALSE(test, test_is_changing());
	KUNIT_EXPECT_EQ(test, rxd_promised, 0);
}

/* The source and its clone, of which page 3 was changed. */
static void make_disks(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, make_disk(NR_PAGES), 0);
	fill(test, store_of(SOURCE), 0, 8, 0x10);
	fill(test, store_of(SOURCE), BORDER, NR_BORDER, 0x20);
	KUNIT_ASSERT_EQ(test, make_clone(CLONE, RXD_CREATE_OVERCOMMIT), 0);
}

static struct file *open_disk(struct kunit *test, int index)
{
	struct file *file;

	file = bdev_file_open_by_dev(disk_devt(disk(index)->gd), BLK_OPEN_READ, NULL, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	return file;
}

static void close_disk(struct file *file, int index)
{
	bdev_fput(file);
	while (disk_openers(disk(index)->gd))
		msleep(20);
}

/* What is written: bytes 0x33. */
static struct page *written;

static int do_bio(blk_opf_t opf, u64 pos, unsigned int len)
{
	struct bio_vec bv;
	struct bio bio;
	int ret;

	bio_init(&bio, disk(CLONE)->gd->part0, &bv, 1, opf);
	bio.bi_iter.bi_sector = pos >> SECTOR_SHIFT;
	if ((opf & REQ_OP_MASK) == REQ_OP_WRITE)
		__bio_add_page(&bio, written, len, 0);
	else
		bio.bi_iter.bi_size = len;
	ret = submit_bio_wait(&bio);
	bio_uninit(&bio);
	return ret;
}

/**
 * struct operation - an operation on the source or the clone
 * @name: its name
 * @open: the source is open meanwhile
 * @tracked: the source has a record of changes
 * @copies: after a failure, a copy of a leaf may remain
 * @error: what it returns if it fails; 0 if it reports no failure
 * @run: does it
 * @is_done: was it done?
 * @undo: undoes it
 */
struct operation {
	const char *name;
	bool open;
	bool tracked;
	bool copies;
	int error;
	int (*run)(void);
	bool (*is_done)(void);
	int (*undo)(void);
};

static int run_clone(void)
{
	return make_clone(NEW, RXD_CREATE_OVERCOMMIT);
}

static int run_expendable(void)
{
	return make_clone(NEW, RXD_CLONE_EXPENDABLE);
}

static int run_clone_track(void)
{
	return make_clone(NEW, RXD_CREATE_OVERCOMMIT | RXD_CLONE_TRACK);
}

static bool is_cloned(void)
{
	return disk(NEW) && is_golden(store_of(NEW)) && used(store_of(NEW)) == 8 + NR_BORDER;
}

/* Which state a record is of, or 0. */
static u8 state_of_record(int index)
{
	struct rxd_record *record = rxd_store_record(store_of(index));

	return record ? record->state.b[0] : 0;
}

static bool is_cloned_and_tracked(void)
{
	return is_cloned() && state_of_record(SOURCE) == 2;
}

static int remove_new(void)
{
	int ret = remove(NEW);

	disarm_source();
	return ret;
}

static int remove_new_of_untracked(void)
{
	int ret = remove(NEW) ?: track_source(RXD_TRACK_STOP);

	disarm_source();
	return ret;
}

static int run_track(void)
{
	return track_source(0);
}

static bool is_tracked(void)
{
	return state_of_record(SOURCE) == 1;
}

static int undo_track(void)
{
	int ret = track_source(RXD_TRACK_STOP);

	disarm_source();
	return ret;
}

static bool is_reset(void)
{
	return is_golden(store_of(CLONE));
}

static int change_clone(void)
{
	return do_bio(REQ_OP_WRITE, pos_of(3), PAGE_SIZE);
}

static int run_write(void)
{
	return do_bio(REQ_OP_WRITE, pos_of(5), PAGE_SIZE);
}

static bool is_written(void)
{
	return page_is(store_of(CLONE), 5, 0x33);
}

static int run_write_part(void)
{
	return do_bio(REQ_OP_WRITE, pos_of(5) + 512, 1024);
}

static u8 byte_at(u64 pos)
{
	u8 byte;

	rxd_store_read(store_of(CLONE), pos, &byte, 1);
	return byte;
}

static bool is_written_in_part(void)
{
	return byte_at(pos_of(5) + 511) == 0x10 && byte_at(pos_of(5) + 512) == 0x33 &&
	       byte_at(pos_of(5) + 1535) == 0x33 && byte_at(pos_of(5) + 1536) == 0x10;
}

static int run_write_hole(void)
{
	return do_bio(REQ_OP_WRITE, pos_of(20), PAGE_SIZE);
}

static bool is_hole_written(void)
{
	return page_is(store_of(CLONE), 20, 0x33) && used(store_of(CLONE)) == 8 + NR_BORDER + 1;
}

static int run_discard(void)
{
	return do_bio(REQ_OP_DISCARD, pos_of(2), 3 << PAGE_SHIFT);
}

static int run_write_zeroes(void)
{
	return do_bio(REQ_OP_WRITE_ZEROES, pos_of(2), 3 << PAGE_SHIFT);
}

static bool is_discarded(void)
{
	return pages_are(store_of(CLONE), 2, 3, 0) && used(store_of(CLONE)) == 5 + NR_BORDER;
}

static int run_write_zeroes_part(void)
{
	return do_bio(REQ_OP_WRITE_ZEROES, pos_of(5) + 512, 1024);
}

static bool is_zeroed_in_part(void)
{
	return byte_at(pos_of(5) + 511) == 0x10 && byte_at(pos_of(5) + 512) == 0 &&
	       byte_at(pos_of(5) + 1535) == 0 && byte_at(pos_of(5) + 1536) == 0x10;
}

static int run_provision(void)
{
	return do_bio(REQ_OP_WRITE_ZEROES | REQ_NOUNMAP, pos_of(20), PAGE_SIZE);
}

static bool is_provisioned(void)
{
	return page_is(store_of(CLONE), 20, 0) && used(store_of(CLONE)) == 8 + NR_BORDER + 1;
}

static const struct operation operations[] = {
	{ .name = "clone", .error = -ENOMEM,
	  .run = run_clone, .is_done = is_cloned, .undo = remove_new },
	{ .name = "clone in use", .open = true, .error = -ENOMEM,
	  .run = run_clone, .is_done = is_cloned, .undo = remove_new },
	{ .name = "expendable clone", .error = -ENOMEM,
	  .run = run_expendable, .is_done = is_cloned, .undo = remove_new },
	{ .name = "expendable clone in use", .open = true, .error = -ENOMEM,
	  .run = run_expendable, .is_done = is_cloned, .undo = remove_new },
	{ .name = "clone, first record", .error = -ENOMEM,
	  .run = run_clone_track, .is_done = is_cloned_and_tracked,
	  .undo = remove_new_of_untracked },
	{ .name = "clone with record in use", .open = true, .tracked = true, .error = -ENOMEM,
	  .run = run_clone_track, .is_done = is_cloned_and_tracked, .undo = remove_new },
	{ .name = "track", .error = -ENOMEM,
	  .run = run_track, .is_done = is_tracked, .undo = undo_track },
	{ .name = "track in use", .open = true, .error = -ENOMEM,
	  .run = run_track, .is_done = is_tracked, .undo = undo_track },
	{ .name = "reset", .error = -ENOMEM,
	  .run = reset_clone, .is_done = is_reset, .undo = change_clone },
	{ .name = "write", .error = -ENOSPC,
	  .run = run_write, .is_done = is_written, .undo = reset_clone },
	{ .name = "write to a part", .error = -ENOSPC,
	  .run = run_write_part, .is_done = is_written_in_part, .undo = reset_clone },
	{ .name = "write to a hole", .error = -ENOSPC,
	  .run = run_write_hole, .is_done = is_hole_written, .undo = reset_clone },
	{ .name = "discard",
	  .run = run_discard, .is_done = is_discarded, .undo = reset_clone },
	{ .name = "write-zeroes", .error = -ENOSPC,
	  .run = run_write_zeroes, .is_done = is_discarded, .undo = reset_clone },
	{ .name = "write-zeroes to a part", .copies = true, .error = -ENOSPC,
	  .run = run_write_zeroes_part, .is_done = is_zeroed_in_part, .undo = reset_clone },
	{ .name = "provision", .error = -ENOSPC,
	  .run = run_provision, .is_done = is_provisioned, .undo = reset_clone },
};

static void operation_name(const struct operation *op, char *desc)
{
	strscpy(desc, op->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(operation, operations, operation_name);

/**
 * struct counts - what must be the same after a failure
 * @hash: data of both disks
 * @used: pages of both disks
 * @index: memory of both indexes and records
 * @record: the state of the source's record
 * @pages: pages and leaves of all disks
 * @owners: other owners of these
 * @promised: share of memory
 * @nr_disks: number of disks
 */
struct counts {
	u32 hash;
	unsigned long used[2];
	unsigned long index[2];
	u8 record;
	long pages;
	long owners;
	u64 promised;
	unsigned int nr_disks;
};

static u32 hash_pages(struct rxd_store *store, unsigned long first, unsigned long nr, u32 hash)
{
	static u8 buf[PAGE_SIZE];

	for (; nr; nr--) {
		rxd_store_read(store, pos_of(first++), buf, sizeof(buf));
		hash = jhash(buf, sizeof(buf), hash);
	}
	return hash;
}

static struct counts count(void)
{
	struct rxd_store_stats stats;
	struct counts counts = {};
	struct rxd_disk *rxd;
	unsigned long index;
	int i;

	counts.pages = pages_taken();
	counts.owners = test_owners();
	counts.promised = rxd_promised;
	counts.record = state_of_record(SOURCE);
	for (i = SOURCE; i <= CLONE; i++) {
		rxd_store_get_stats(store_of(i), &stats);
		counts.used[i] = stats.used;
		counts.index[i] = stats.index_bytes;
		counts.hash = hash_pages(store_of(i), 0, 24, counts.hash);
		counts.hash = hash_pages(store_of(i), BORDER - 2, NR_BORDER + 4, counts.hash);
	}
	xa_for_each(&rxd_disks, index, rxd)
		counts.nr_disks++;
	return counts;
}

static void expect_equal(struct kunit *test, const char *what, u64 now, u64 before,
			 unsigned int nth)
{
	KUNIT_EXPECT_EQ_MSG(test, now, before, "%s after allocation %u", what, nth);
}

static void expect_same(struct kunit *test, const struct counts *before, unsigned int nth,
			bool copies)
{
	struct counts now = count();

	expect_equal(test, "data", now.hash, before->hash, nth);
	expect_equal(test, "source", now.used[SOURCE], before->used[SOURCE], nth);
	expect_equal(test, "clone", now.used[CLONE], before->used[CLONE], nth);
	expect_equal(test, "index of source", now.index[SOURCE], before->index[SOURCE], nth);
	expect_equal(test, "index of clone", now.index[CLONE], before->index[CLONE], nth);
	expect_equal(test, "record", now.record, before->record, nth);
	expect_equal(test, "promise", now.promised, before->promised, nth);
	expect_equal(test, "disks", now.nr_disks, before->nr_disks, nth);
	if (copies)
		return;
	expect_equal(test, "pages", now.pages, before->pages, nth);
	expect_equal(test, "owners", now.owners, before->owners, nth);
}

/* Let one allocation fail. Return: false if there are not so many. */
static bool fail_one(struct kunit *test, const struct operation *op, unsigned int nth,
		     const struct counts *before, unsigned int *nr_failed)
{
	bool reached;
	int ret;

	fault_begin(nth);
	ret = op->run();
	reached = fault_end();

	if (ret || !op->is_done()) {
		KUNIT_EXPECT_TRUE(test, reached);
		KUNIT_EXPECT_EQ_MSG(test, ret, op->error, "allocation %u", nth);
		expect_same(test, before, nth, op->copies);
		++*nr_failed;
		KUNIT_EXPECT_EQ_MSG(test, op->run(), 0, "after allocation %u", nth);
	}
	KUNIT_EXPECT_TRUE_MSG(test, op->is_done(), "allocation %u", nth);
	KUNIT_EXPECT_EQ(test, op->undo(), 0);
	expect_same(test, before, nth, false);
	return reached;
}

static void fails_at_each_allocation(struct kunit *test)
{
	const struct operation *op = test->param_value;
	unsigned int nth, nr_failed = 0;
	struct file *file = NULL;
	struct counts before;

	make_disks(test);
	if (op->undo == change_clone)
		KUNIT_ASSERT_EQ(test, change_clone(), 0);
	if (op->tracked)
		KUNIT_ASSERT_EQ(test, track_source(0), 0);
	if (op->open)
		file = open_disk(test, SOURCE);

	before = count();
	for (nth = 1; nth < FAULT_MAX; nth++)
		if (!fail_one(test, op, nth, &before, &nr_failed))
			break;
	kunit_info(test, "%u allocations, %u failures", nth - 1, nr_failed);
	KUNIT_EXPECT_LT(test, nth, FAULT_MAX);
	KUNIT_EXPECT_GT(test, nr_failed, 0);
	if (file)
		close_disk(file, SOURCE);
}

/* The number of leaves that are shared at a time, and more. */
#define NR_MANY_LEAVES	300

static void give_up_new(void)
{
	int i;

	if (!rxd_give_up_others(store_of(SOURCE)))
		return;
	test_memory.at_resched = NULL;
	/* It may have to wait until this is over. */
	for (i = 0; i < 20 && rxd_is_giving_up(); i++)
		msleep(20);
}

static const bool uses[] = { false, true };

static void use_name(const bool *open, char *desc)
{
	strscpy(desc, *open ? "in use" : "idle", KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(use, uses, use_name);

/* A clone that is given up while it is made keeps nothing. */
static void given_up_while_it_is_made(struct kunit *test)
{
	struct file *file = NULL;
	long before;

	KUNIT_ASSERT_EQ(test, make_disk(NR_MANY_LEAVES * PER_LEAF), 0);
	fill(test, store_of(SOURCE), 0, 8, 0x10);
	fill(test, store_of(SOURCE), (NR_MANY_LEAVES - 1) * PER_LEAF, 8, 0x20);
	KUNIT_ASSERT_EQ(test, make_clone(CLONE, RXD_CREATE_OVERCOMMIT), 0);
	before = test_owners();
	if (*(const bool *)test->param_value)
		file = open_disk(test, SOURCE);

	test_memory.at_resched = give_up_new;
	KUNIT_EXPECT_EQ(test, make_clone(NEW, RXD_CLONE_EXPENDABLE), 0);
	KUNIT_EXPECT_TRUE(test, !test_memory.at_resched);
	test_memory.at_resched = NULL;
	KUNIT_ASSERT_NOT_NULL(test, disk(NEW));
	KUNIT_EXPECT_TRUE(test, rxd_disk_is_lost(disk(NEW)));
	flush_work(&disk(NEW)->expend.work);
	KUNIT_EXPECT_EQ(test, used(store_of(NEW)), 0);
	KUNIT_EXPECT_EQ(test, first_data(store_of(NEW), 0), NR_MANY_LEAVES * PER_LEAF);
	KUNIT_EXPECT_EQ(test, test_owners(), before);
	KUNIT_EXPECT_TRUE(test, pages_are(store_of(CLONE), 0, 8, 0x10));
	if (file)
		close_disk(file, SOURCE);
}

static int make_reserved(int index, u32 folio_size)
{
	struct rxd_create arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_CREATE_RESERVE | RXD_CREATE_OVERCOMMIT,
		.index = index,
		.size = SZ_2M,
		.node = RXD_NODE_LOCAL,
		.folio_size = folio_size,
	};

	return rxd_create(&arg);
}

/* Larger pieces are allocated where they were requested, and only there. */
static void pieces_of_the_folio_size(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, make_reserved(SOURCE, 0), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_64k, 0);
	KUNIT_ASSERT_EQ(test, make_reserved(CLONE, SZ_64K), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_64k, SZ_2M >> PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, test_memory.nr_2m, 0);
	KUNIT_ASSERT_EQ(test, make_reserved(NEW, SZ_2M), 0);
	KUNIT_EXPECT_EQ(test, test_memory.nr_2m, SZ_2M >> PAGE_SHIFT);
}

/* The block layer does not check the segments of direct I/O in all of its versions. */
static void segments_of_any_length(struct kunit *test)
{
	static const struct {
		unsigned int offset, len;
	} segments[] = { { 0, 100 }, { 200, 4000 }, { 5000, 508 } };
	const unsigned int size = 9 * SECTOR_SIZE;
	u8 *buf = kunit_kmalloc(test, 2 * PAGE_SIZE, GFP_KERNEL);
	u8 *data = kunit_kmalloc(test, size, GFP_KERNEL);
	struct bio_vec bv[ARRAY_SIZE(segments)];
	unsigned int i, done;
	struct bio bio;

	KUNIT_ASSERT_EQ(test, make_disk(8), 0);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_NOT_NULL(test, data);
	get_random_bytes(buf, 2 * PAGE_SIZE);

	bio_init(&bio, disk(SOURCE)->gd->part0, bv, ARRAY_SIZE(bv), REQ_OP_WRITE);
	bio.bi_iter.bi_sector = 7;
	for (i = 0; i < ARRAY_SIZE(segments); i++)
		__bio_add_page(&bio, virt_to_page(buf), segments[i].len, segments[i].offset);
	KUNIT_EXPECT_EQ(test, submit_bio_wait(&bio), 0);
	bio_uninit(&bio);

	rxd_store_read(store_of(SOURCE), 7 * SECTOR_SIZE, data, size);
	for (i = 0, done = 0; i < ARRAY_SIZE(segments); done += segments[i++].len)
		KUNIT_EXPECT_MEMEQ(test, data + done, buf + segments[i].offset, segments[i].len);
}

/* A clear of reserved memory is a change, unless the disk held zeros before, or is read-only. */
static void clear_of_reserved_is_counted(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, make_disk_with(8, RXD_CREATE_RESERVE), 0);
	KUNIT_EXPECT_EQ(test, clear_source(), 0);
	KUNIT_EXPECT_EQ(test, rxd_disk_changes(disk(SOURCE)), 0);

	rxd_note_change(&disk(SOURCE)->changes);
	KUNIT_EXPECT_EQ(test, rxd_disk_changes(disk(SOURCE)), 1);
	set_disk_ro(disk(SOURCE)->gd, true);
	KUNIT_EXPECT_EQ(test, clear_source(), -EROFS);
	KUNIT_EXPECT_EQ(test, rxd_disk_changes(disk(SOURCE)), 1);
	set_disk_ro(disk(SOURCE)->gd, false);
	KUNIT_EXPECT_EQ(test, clear_source(), 0);
	KUNIT_EXPECT_EQ(test, rxd_disk_changes(disk(SOURCE)), 2);
}

static void let_time_pass(void)
{
	test_memory.late += 10 * HZ;
}

/* What cannot be taken back cannot be zeroed. The rest has changed. */
static void clear_of_reserved_ends_half_way(struct kunit *test)
{
	struct rxd_store *other;
	struct file *file;

	KUNIT_ASSERT_EQ(test, make_disk_with(16, RXD_CREATE_RESERVE), 0);
	rxd_note_change(&disk(SOURCE)->changes);
	fill(test, store_of(SOURCE), 0, 8, 0x10);
	fill(test, store_of(SOURCE), 8, 8, 0x20);
	/* Nothing gives this one up. */
	other = share(test, store_of(SOURCE));
	fill(test, store_of(SOURCE), 0, 8, 0x11);
	KUNIT_EXPECT_EQ(test, rxd_disk_changes(disk(SOURCE)), 1);
	rxd_store_drain();

	test_memory.nr_refusals = UINT_MAX;
	test_memory.at_refusal = let_time_pass;
	KUNIT_EXPECT_EQ(test, clear_source(), -ENOSPC);
	reset_test_memory();
	KUNIT_EXPECT_TRUE(test, pages_are(store_of(SOURCE), 0, 8, 0));
	KUNIT_EXPECT_TRUE(test, pages_are(store_of(SOURCE), 8, 8, 0x20));
	KUNIT_EXPECT_TRUE(test, pages_are(other, 0, 8, 0x10));
	KUNIT_EXPECT_TRUE(test, pages_are(other, 8, 8, 0x20));
	KUNIT_EXPECT_EQ(test, rxd_disk_changes(disk(SOURCE)), 2);
	/* It is not shut any more. */
	file = open_disk(test, SOURCE);
	close_disk(file, SOURCE);

	kunit_release_action(test, destroy_test_store, other);
	KUNIT_EXPECT_EQ(test, clear_source(), 0);
	KUNIT_EXPECT_TRUE(test, pages_are(store_of(SOURCE), 0, 16, 0));
	KUNIT_EXPECT_EQ(test, used(store_of(SOURCE)), 16);
	KUNIT_EXPECT_EQ(test, rxd_disk_changes(disk(SOURCE)), 3);
}

static void leaf_is_there(struct page *page)
{
	test_memory.no_leaf = false;
}

/* A part of a shared leaf is unmapped, and there is no memory but that of another clone. */
static void unmap_gives_up_a_clone(struct kunit *test)
{
	make_disks(test);
	KUNIT_ASSERT_EQ(test, make_clone(NEW, RXD_CLONE_EXPENDABLE), 0);
	fill(test, store_of(NEW), 5, 1, 0x44);
	rxd_store_drain();

	test_memory.no_leaf = true;
	test_memory.at_free = leaf_is_there;
	KUNIT_EXPECT_EQ(test, do_bio(REQ_OP_DISCARD, pos_of(2), 3 << PAGE_SHIFT), 0);
	KUNIT_EXPECT_FALSE(test, rxd_disk_is_lost(disk(NEW)));
	KUNIT_EXPECT_EQ(test, do_bio(REQ_OP_WRITE_ZEROES, pos_of(2), 3 << PAGE_SHIFT), 0);
	KUNIT_EXPECT_TRUE(test, rxd_disk_is_lost(disk(NEW)));
	reset_test_memory();
	KUNIT_EXPECT_TRUE(test, pages_are(store_of(CLONE), 0, 2, 0x10));
	KUNIT_EXPECT_TRUE(test, pages_are(store_of(CLONE), 2, 3, 0));
	KUNIT_EXPECT_TRUE(test, pages_are(store_of(CLONE), 5, 3, 0x10));
	KUNIT_EXPECT_TRUE(test, is_golden(store_of(SOURCE)));
}

/* The page cache may take long to write: the disk can be opened meanwhile. */
static void can_be_opened_while_it_is_flushed(struct kunit *test)
{
	struct file *file;

	make_disks(test);
	file = open_disk(test, SOURCE);
	way.gd = disk(SOURCE)->gd;
	KUNIT_EXPECT_EQ(test, make_clone(NEW, RXD_CREATE_OVERCOMMIT), 0);
	way.gd = NULL;
	KUNIT_EXPECT_GT(test, way.nr_flushes, 0);
	KUNIT_EXPECT_EQ(test, way.nr_locked, 0);
	close_disk(file, SOURCE);
}

static void freezes_without_the_lock(struct kunit *test)
{
	struct file *file;

	make_disks(test);
	file = open_disk(test, SOURCE);
	KUNIT_EXPECT_EQ(test, make_clone(NEW, RXD_CREATE_OVERCOMMIT), 0);
	KUNIT_EXPECT_EQ(test, way.nr_freezes, 1);
	KUNIT_EXPECT_EQ(test, way.nr_thaws, 1);
	KUNIT_EXPECT_EQ(test, way.nr_frozen_locked, 0);
	close_disk(file, SOURCE);
}

/* No grace period is waited for while file systems are frozen. Another one may end too early. */
static void freezes_for_no_grace_period(struct kunit *test)
{
	unsigned int i;
	struct file *file;

	make_disks(test);
	file = open_disk(test, SOURCE);
	for (i = 0; i < 10 && !way.nr_prepared; i++) {
		KUNIT_ASSERT_EQ(test, make_clone(NEW, RXD_CREATE_OVERCOMMIT), 0);
		KUNIT_ASSERT_EQ(test, remove_new(), 0);
	}
	KUNIT_EXPECT_EQ(test, way.nr_freezes, i);
	KUNIT_EXPECT_EQ(test, way.nr_prepared, 1);
	close_disk(file, SOURCE);
}

/* The file "parent" has one UUID or the other, and none that is mixed of both. */
static const uuid_t parents[] = {
	UUID_INIT(0x11111111, 0x1111, 0x1111, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11),
	UUID_INIT(0x22222222, 0x2222, 0x2222, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22),
};

struct parent_race {
	atomic_t reads;
	atomic_t errors;
	char *text;
};

static int parent_writer(void *arg)
{
	unsigned int i = 0;

	while (!kthread_should_stop()) {
		rxd_disk_set_parent(disk(SOURCE), &parents[++i & 1]);
		if (!(i & 0xff))
			cond_resched();
	}
	return 0;
}

static int parent_reader(void *arg)
{
	struct parent_race *race = arg;
	ssize_t len;

	while (!kthread_should_stop()) {
		len = parent_show(disk_to_dev(disk(SOURCE)->gd), NULL, race->text);
		if (len != UUID_STRING_LEN + 1 || race->text[0] != race->text[len - 2])
			atomic_inc(&race->errors);
		if (!(atomic_inc_return(&race->reads) & 0xff))
			cond_resched();
	}
	return 0;
}

static void parent_is_never_mixed(struct kunit *test)
{
	struct parent_race race = { .text = (char *)__get_free_page(GFP_KERNEL) };
	struct crew crew = {};

	KUNIT_ASSERT_NOT_NULL(test, race.text);
	KUNIT_ASSERT_EQ(test, make_disk(NR_PAGES), 0);
	rxd_disk_set_parent(disk(SOURCE), &parents[0]);
	crew_add(test, &crew, parent_writer, &race);
	crew_add(test, &crew, parent_reader, &race);
	crew_run(&crew, 1000);
	KUNIT_EXPECT_GT(test, atomic_read(&race.reads), 10);
	KUNIT_EXPECT_EQ(test, atomic_read(&race.errors), 0);
	free_page((unsigned long)race.text);
}

/* A killed task does not learn that memory is short, because it has not waited for it. */
static void killed_wait_is_no_shortage(struct kunit *test)
{
	struct rxd_create arg = {
		.version = RXD_ABI_VERSION,
		.flags = RXD_CREATE_OVERCOMMIT,
		.index = SOURCE,
		.size = SZ_1T,
		.node = RXD_NODE_LOCAL,
	};

	/* A page that is about to be free: others wait for it. */
	rxd_note_retired(1);
	test_memory.is_short = true;
	allow_signal(SIGKILL);
	send_sig(SIGKILL, current, 1);
	KUNIT_EXPECT_EQ(test, rxd_create(&arg), -EINTR);
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_fill(NULL, 1), -EINTR);
	flush_signals(current);
	disallow_signal(SIGKILL);

	rxd_note_freed(1);
	KUNIT_EXPECT_EQ(test, rxd_create(&arg), -ENOMEM);
	KUNIT_EXPECT_EQ(test, rxd_store_prepare_fill(NULL, 1), -ENOSPC);
	test_memory.is_short = false;
}

/* The walk through a large hole lets go of the lock of the disk, which no answer shows. */
#define BORDER_OF_WALK	BIT(23)
#define NR_HUGE		BIT(28)

static void map_of_a_hole_lets_go(struct kunit *test)
{
	unsigned long first = 0, end = NR_HUGE;
	struct rxd_extent extents[4];
	struct walk walk = { .next = next_data };
	unsigned int parts;
	int found = 0;

	KUNIT_ASSERT_EQ(test, make_disk(NR_HUGE), 0);
	fill(test, store_of(SOURCE), BORDER_OF_WALK - 4, 8, 0x11);
	fill(test, store_of(SOURCE), NR_HUGE - 1, 1, 0x22);
	walk.rxd = disk(SOURCE);
	for (parts = 0; first < end; parts++) {
		found = gather_locked(&walk, &first, &end, extents, found, ARRAY_SIZE(extents));
		KUNIT_ASSERT_GE(test, found, 0);
	}
	KUNIT_EXPECT_GE(test, parts, NR_HUGE / BORDER_OF_WALK);
	KUNIT_ASSERT_EQ(test, found, 2);
	KUNIT_EXPECT_EQ(test, extents[0].start, (u64)(BORDER_OF_WALK - 4) << PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, extents[0].length, 8 << PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, extents[1].start, (u64)(NR_HUGE - 1) << PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, extents[1].length, PAGE_SIZE);
}

/* A discard marks all pages as changed, also those that are holes. */
static void changes_of_a_discard_let_go(struct kunit *test)
{
	unsigned long first = 0, end = NR_HUGE;
	struct walk walk = { .next = next_change };
	struct rxd_extent extent;
	unsigned int parts;
	int found = 0;

	KUNIT_ASSERT_EQ(test, make_disk(NR_HUGE), 0);
	KUNIT_ASSERT_EQ(test, track_source(0), 0);
	rxd_store_free_range(store_of(SOURCE), 0, NR_HUGE);
	walk.rxd = disk(SOURCE);
	for (parts = 0; first < end; parts++) {
		found = gather_locked(&walk, &first, &end, &extent, found, 1);
		KUNIT_ASSERT_GE(test, found, 0);
	}
	KUNIT_EXPECT_GE(test, parts, NR_HUGE / BORDER_OF_WALK);
	KUNIT_ASSERT_EQ(test, found, 1);
	KUNIT_EXPECT_EQ(test, extent.start, 0);
	KUNIT_EXPECT_EQ(test, extent.length, (u64)NR_HUGE << PAGE_SHIFT);
}

struct opening {
	dev_t dev;
	bool began;
	int error;
};

static int try_to_open(void *arg)
{
	struct opening *opening = arg;
	struct file *file;

	WRITE_ONCE(opening->began, true);
	file = bdev_file_open_by_dev(opening->dev, BLK_OPEN_READ, NULL, NULL);
	WRITE_ONCE(opening->error, PTR_ERR_OR_ZERO(file));
	while (!kthread_should_stop())
		msleep(20);
	if (!IS_ERR(file))
		bdev_fput(file);
	return 0;
}

/* A disk that a task opens while the module is loaded can be removed if loading fails. */
static void failed_load_waits_for_nobody(struct kunit *test)
{
	struct opening opening = {};
	struct crew crew = {};

	reinit_completion(&rxd_load_ended);
	KUNIT_EXPECT_EQ(test, make_disk(8), 0);
	opening.dev = disk_devt(disk(SOURCE)->gd);
	crew_add(test, &crew, try_to_open, &opening);
	while (!READ_ONCE(opening.began))
		msleep(20);
	msleep(100);

	rxd_disk_end_load(false);
	KUNIT_EXPECT_EQ(test, remove_disk(SOURCE, NULL, false), 0);
	crew_run(&crew, 0);
	KUNIT_EXPECT_EQ(test, opening.error, -ENXIO);
	rxd_disk_end_load(true);
}

static void opens_wait_for_the_load(struct kunit *test)
{
	struct opening opening = { .error = 1 };
	struct crew crew = {};

	reinit_completion(&rxd_load_ended);
	KUNIT_EXPECT_EQ(test, make_disk(8), 0);
	opening.dev = disk_devt(disk(SOURCE)->gd);
	crew_add(test, &crew, try_to_open, &opening);
	while (!READ_ONCE(opening.began))
		msleep(20);
	msleep(100);
	KUNIT_EXPECT_EQ(test, READ_ONCE(opening.error), 1);
	KUNIT_EXPECT_EQ(test, disk_openers(disk(SOURCE)->gd), 0);

	rxd_disk_end_load(true);
	crew_run(&crew, 500);
	KUNIT_EXPECT_EQ(test, opening.error, 0);
}

/**
 * struct call - a function that a thread calls
 * @run: the function
 * @began: the thread runs
 * @error: what the function has returned, or 1 before
 */
struct call {
	int (*run)(void);
	bool began;
	int error;
};

static int run_call(void *arg)
{
	struct call *call = arg;

	WRITE_ONCE(call->began, true);
	WRITE_ONCE(call->error, call->run());
	while (!kthread_should_stop())
		msleep(20);
	return 0;
}

/* Start the call, and give it time to wait for something. */
static void begin_call(struct kunit *test, struct crew *crew, struct call *call)
{
	call->error = 1;
	crew_add(test, crew, run_call, call);
	while (!READ_ONCE(call->began))
		msleep(20);
	msleep(200);
}

/* A page is about to be free, and who finds no memory waits for it. */
static void begin_shortage(void)
{
	rxd_note_retired(1);
	WRITE_ONCE(test_memory.is_short, true);
}

static void end_shortage(void)
{
	WRITE_ONCE(test_memory.is_short, false);
	rxd_note_freed(1);
}

static int resize_source(unsigned long nr_pages, u32 flags)
{
	struct rxd_resize resize = {
		.version = RXD_ABI_VERSION,
		.flags = flags,
		.index = SOURCE,
		.size = (u64)nr_pages << PAGE_SHIFT,
	};

	return rxd_resize(&resize);
}

static int grow_source(void)
{
	return resize_source(NR_HUGE, 0);
}

static int begin_record(void)
{
	return track_source(0);
}

static const struct waiting {
	const char *name;
	unsigned long nr_pages;
	int (*run)(void);
} waitings[] = {
	{ "growth", 8, grow_source },
	{ "record", NR_HUGE, begin_record },
	{ "snapshot", NR_HUGE, reset_clone },
};

static void get_waiting_name(const struct waiting *waiting, char *desc)
{
	strscpy(desc, waiting->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(waiting, waitings, get_waiting_name);

/* Others need the lock of a disk while a call waits for memory. */
static void waits_without_the_lock(struct kunit *test)
{
	const struct waiting *waiting = test->param_value;
	struct call call = { .run = waiting->run };
	struct crew crew = {};

	KUNIT_ASSERT_EQ(test, make_disk(waiting->nr_pages), 0);
	KUNIT_ASSERT_EQ(test, make_clone(CLONE, RXD_CREATE_OVERCOMMIT), 0);
	begin_shortage();
	begin_call(test, &crew, &call);
	KUNIT_EXPECT_EQ(test, READ_ONCE(call.error), 1);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(&disk(SOURCE)->lock));
	end_shortage();
	crew_run(&crew, 0);
	KUNIT_EXPECT_EQ(test, call.error, 0);
}

/* A disk that waits to grow is removed. Another disk, which gets its number, does not grow. */
static void growth_is_of_the_same_disk(struct kunit *test)
{
	struct call call = { .run = grow_source };
	struct crew crew = {};

	KUNIT_ASSERT_EQ(test, make_disk(8), 0);
	begin_shortage();
	begin_call(test, &crew, &call);
	KUNIT_EXPECT_EQ(test, READ_ONCE(call.error), 1);
	KUNIT_EXPECT_EQ(test, remove_disk(SOURCE, NULL, false), 0);
	KUNIT_EXPECT_EQ(test, make_disk(16), 0);
	end_shortage();
	crew_run(&crew, 0);
	KUNIT_EXPECT_EQ(test, call.error, -ENODEV);
	KUNIT_EXPECT_EQ(test, rxd_disk_size(disk(SOURCE)), (u64)16 << PAGE_SHIFT);
}

/* The pages of a removed disk are freed, although a task still has a reference to it. */
static void removal_frees_at_once(struct kunit *test)
{
	struct rxd_disk *rxd;

	KUNIT_ASSERT_EQ(test, make_disk(8), 0);
	fill(test, store_of(SOURCE), 0, 8, 0x10);
	rxd = disk(SOURCE);
	rxd_disk_get(rxd);
	KUNIT_EXPECT_EQ(test, remove_disk(SOURCE, NULL, false), 0);
	KUNIT_EXPECT_EQ(test, used(rxd->store), 0);
	rxd_store_drain();
	KUNIT_EXPECT_EQ(test, test_freed(), test_awaited());
	rxd_disk_put(rxd);
}

/* Growth of reserved memory takes long, and so may a cut: a frozen file system must not wait. */
static void resize_when_frozen(void)
{
	KUNIT_EXPECT_EQ(way.test, resize_source(16, 0), -EBUSY);
	KUNIT_EXPECT_EQ(way.test, resize_source(4, RXD_RESIZE_FORCE), -EBUSY);
}

static void frozen_for_a_short_time(struct kunit *test)
{
	struct file *file;

	KUNIT_ASSERT_EQ(test, make_disk_with(8, RXD_CREATE_RESERVE), 0);
	file = open_disk(test, SOURCE);
	way.test = test;
	way.at_freeze = resize_when_frozen;
	KUNIT_EXPECT_EQ(test, make_clone(CLONE, RXD_CLONE_EXPENDABLE), 0);
	KUNIT_EXPECT_EQ(test, way.nr_freezes, 1);
	KUNIT_EXPECT_EQ(test, remove(CLONE), 0);
	KUNIT_EXPECT_EQ(test, resize_source(16, 0), 0);
	close_disk(file, SOURCE);
}

static void killed_while_it_shrinks(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, make_disk(NR_HUGE), 0);
	allow_signal(SIGKILL);
	send_sig(SIGKILL, current, 1);
	KUNIT_EXPECT_EQ(test, resize_source(8, 0), -EINTR);
	flush_signals(current);
	disallow_signal(SIGKILL);
	KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store_of(SOURCE)), NR_HUGE);
	KUNIT_EXPECT_FALSE(test, disk(SOURCE)->shut);
}

/* A growth is killed while it waits for memory, and after it has taken some: none is left. */
static void killed_while_it_grows(struct kunit *test)
{
	struct rxd_store_stats before, after;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, make_disk_with(8, RXD_CREATE_RESERVE), 0);
	rxd_store_get_stats(store_of(SOURCE), &before);
	allow_signal(SIGKILL);
	for (i = 0; i < 2; i++) {
		/* A page that is about to be free. */
		if (!i)
			rxd_note_retired(1);
		test_memory.is_short = !i;
		send_sig(SIGKILL, current, 1);
		KUNIT_EXPECT_EQ(test, resize_source(4 * PER_LEAF, 0), -EINTR);
		flush_signals(current);
		if (!i)
			rxd_note_freed(1);
		KUNIT_EXPECT_EQ(test, rxd_store_nr_pages(store_of(SOURCE)), 8);
		rxd_store_get_stats(store_of(SOURCE), &after);
		KUNIT_EXPECT_EQ(test, after.used, before.used);
		KUNIT_EXPECT_EQ(test, after.index_bytes, before.index_bytes);
	}
	disallow_signal(SIGKILL);
	KUNIT_EXPECT_EQ(test, resize_source(16, 0), 0);
	KUNIT_EXPECT_EQ(test, used(store_of(SOURCE)), 16);
}

static int cut_source(void)
{
	return resize_source(8, RXD_RESIZE_FORCE);
}

/* Opens and sync(2) need the open_mutex while a bio in flight waits for memory. */
static void cut_waits_without_the_open_mutex(struct kunit *test)
{
	struct call call = { .run = cut_source };
	struct crew crew = {};
	struct gendisk *gd;

	KUNIT_ASSERT_EQ(test, make_disk(16), 0);
	gd = disk(SOURCE)->gd;
	percpu_ref_get(&gd->queue->q_usage_counter);
	begin_call(test, &crew, &call);
	KUNIT_EXPECT_EQ(test, READ_ONCE(call.error), 1);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(&gd->open_mutex));
	percpu_ref_put(&gd->queue->q_usage_counter);
	crew_run(&crew, 0);
	KUNIT_EXPECT_EQ(test, call.error, 0);
	KUNIT_EXPECT_EQ(test, rxd_disk_size(disk(SOURCE)), (u64)8 << PAGE_SHIFT);
}

static int cut_to_a_leaf(void)
{
	return resize_source(PER_LEAF, RXD_RESIZE_FORCE);
}

static int remove_source(void)
{
	return remove_disk(SOURCE, NULL, false);
}

static const struct dropping {
	const char *name;
	int (*run)(void);
	unsigned long left; /* pages and leaves */
} droppings[] = {
	{ "clear", clear_source },
	{ "shrink", cut_to_a_leaf, PER_LEAF + 1 },
	{ "removal", remove_source },
};

static void get_dropping_name(const struct dropping *dropping, char *desc)
{
	strscpy(desc, dropping->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(dropping, droppings, get_dropping_name);

static DECLARE_COMPLETION(may_free);

/* Hold up who frees in the background, but not RCU. If others wait for it, it gives up for good. */
static void wait_to_free(struct page *page)
{
	if (in_task() && current->flags & PF_WQ_WORKER &&
	    !wait_for_completion_timeout(&may_free, 60 * HZ))
		complete_all(&may_free);
}

/* Dropped data is freed in the background. No call waits for this, and it holds up no other. */
static void nobody_waits_for_dropped_data(struct kunit *test)
{
	const struct dropping *dropping = test->param_value;
	struct file *file;
	long before, held;

	before = pages_taken();
	KUNIT_ASSERT_EQ(test, make_disk(2 * PER_LEAF), 0);
	fill(test, store_of(SOURCE), 0, 2 * PER_LEAF, 0x11);
	held = pages_taken();
	KUNIT_EXPECT_EQ(test, held, before + 2 * (PER_LEAF + 1));

	reinit_completion(&may_free);
	WRITE_ONCE(test_memory.at_free, wait_to_free);
	KUNIT_EXPECT_EQ(test, dropping->run(), 0);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(&rxd_lock));
	if (!disk(SOURCE))
		KUNIT_EXPECT_EQ(test, make_disk(8), 0);
	file = open_disk(test, SOURCE);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(&disk(SOURCE)->gd->open_mutex));
	KUNIT_EXPECT_EQ(test, READ_ONCE(disk(SOURCE)->gd->queue->mq_freeze_depth), 0);
	close_disk(file, SOURCE);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&test_pages), held);

	complete_all(&may_free);
	KUNIT_EXPECT_EQ(test, pages_taken(), before + dropping->left);
	WRITE_ONCE(test_memory.at_free, NULL);
}

static int halve_source(void)
{
	return resize_source(NR_HUGE / 2, RXD_RESIZE_FORCE);
}

/* A shorter directory is no reason to wait for memory. */
static void shrink_waits_for_no_memory(struct kunit *test)
{
	struct call call = { .run = halve_source };
	struct crew crew = {};
	unsigned int i;

	KUNIT_ASSERT_EQ(test, make_disk(NR_HUGE), 0);
	begin_shortage();
	begin_call(test, &crew, &call);
	/* It may take long, but ends before the shortage does. */
	for (i = 0; i < 500 && READ_ONCE(call.error) > 0; i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(call.error), 0);
	end_shortage();
	crew_run(&crew, 0);
}

/* The new end lies in a shared leaf, of which a copy is needed. */
static void shrink_takes_from_the_headroom(struct kunit *test)
{
	make_disks(test);
	WRITE_ONCE(test_memory.is_short, true);
	/* Memory is checked once in several pages, and each time after a check has failed. */
	KUNIT_EXPECT_EQ(test, fill_range(store_of(SOURCE), PER_LEAF, PER_LEAF),
			-ENOSPC);
	KUNIT_EXPECT_EQ(test, resize_source(4, RXD_RESIZE_FORCE), 0);
	WRITE_ONCE(test_memory.is_short, false);
	KUNIT_EXPECT_EQ(test, used(store_of(SOURCE)), 4);
}

/* A chained bio, which belongs to another part of the disk, has failed before. */
static void first_error_stays(struct kunit *test)
{
	struct bio_vec bv;
	struct bio bio;

	KUNIT_ASSERT_EQ(test, make_disk(8), 0);
	rxd_store_set_limit(store_of(SOURCE), 0);
	bio_init(&bio, disk(SOURCE)->gd->part0, &bv, 1, REQ_OP_WRITE);
	__bio_add_page(&bio, written, PAGE_SIZE, 0);
	bio.bi_status = BLK_STS_MEDIUM;
	KUNIT_EXPECT_EQ(test, submit_bio_wait(&bio), blk_status_to_errno(BLK_STS_MEDIUM));
	KUNIT_EXPECT_EQ(test, atomic64_read(&disk(SOURCE)->nospc), 1);
	bio_uninit(&bio);
}

static unsigned int nr_parts;

static void refuse_twice(void)
{
	test_memory.nr_refusals = 2;
	nr_parts++;
}

static void wait_long(void)
{
	test_memory.late += 19 * HZ / 2;
}

/* I/O may be held behind a request of many parts, each of which waits for memory. */
static void all_parts_wait_not_for_ever(struct kunit *test)
{
	const unsigned long pages = RXD_COPY_BYTES >> PAGE_SHIFT;
	unsigned long pgno;

	KUNIT_ASSERT_EQ(test, make_disk(NR_PAGES), 0);
	for (pgno = 0; pgno < NR_PAGES; pgno += pages)
		fill(test, store_of(SOURCE), pgno, 1, 0x10);
	KUNIT_ASSERT_EQ(test, make_clone(CLONE, RXD_CREATE_OVERCOMMIT), 0);
	test_memory.nr_dirty = totalram_pages() / 8;
	test_memory.at_refusal = wait_long;
	nr_parts = 0;
	at_part = refuse_twice;
	KUNIT_EXPECT_EQ(test, do_bio(REQ_OP_WRITE_ZEROES | REQ_NOUNMAP, 0, pos_of(NR_PAGES)),
			-ENOSPC);
	at_part = NULL;
	/* The first one does not wait, and twelve times 9.5 seconds are less than two minutes. */
	KUNIT_EXPECT_GE(test, nr_parts, 12);
	KUNIT_EXPECT_LE(test, nr_parts, 14);
	KUNIT_EXPECT_TRUE(test, page_is(store_of(CLONE), 10 * pages, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store_of(CLONE), 15 * pages, 0x10));
}

static struct rxd_store *shared_again;

/*
 * While writes may be held, each try to get memory is made twice. A clone shares the leaves again
 * just before their pages are freed, and there is no memory for copies then.
 */
static void refuse_four_times(void)
{
	test_memory.nr_refusals = 4;
	if (++nr_parts == 2) {
		rxd_store_share(store_of(CLONE), shared_again);
		test_memory.no_leaf = true;
	}
}

static void wait_half_as_long(void)
{
	test_memory.no_leaf = false;
	test_memory.late += 19 * HZ / 4;
}

/* The same for the parts of an unmap: pages in part at both ends, and leaves shared meanwhile. */
static void all_parts_of_unmap_wait_not_for_ever(struct kunit *test)
{
	const unsigned long pages = RXD_COPY_BYTES >> PAGE_SHIFT, last = 2 * PER_LEAF - 1;
	struct rxd_store *store;
	unsigned long pgno;

	KUNIT_ASSERT_EQ(test, make_disk(NR_PAGES), 0);
	fill(test, store_of(SOURCE), 0, 1, 0x10);
	for (pgno = 1; pgno < PER_LEAF; pgno += pages)
		fill(test, store_of(SOURCE), pgno, 1, 0x10);
	for (pgno = PER_LEAF; pgno < last; pgno += pages)
		fill(test, store_of(SOURCE), pgno, 1, 0x10);
	fill(test, store_of(SOURCE), last, 1, 0x10);
	KUNIT_ASSERT_EQ(test, make_clone(CLONE, RXD_CREATE_OVERCOMMIT), 0);
	KUNIT_ASSERT_EQ(test, track(CLONE, 0), 0);
	store = store_of(CLONE);
	shared_again = make_store(test, NR_PAGES);
	test_memory.nr_dirty = totalram_pages() / 8;
	test_memory.nr_refusals = 4;
	test_memory.at_refusal = wait_half_as_long;
	nr_parts = 0;
	at_part = refuse_four_times;
	KUNIT_EXPECT_EQ(test, do_bio(REQ_OP_WRITE_ZEROES, 512, pos_of(last)), -ENOSPC);
	at_part = NULL;
	/* All parts wait for 9.5 seconds: both ends, 8 of the first leaf, and 2 of the second. */
	KUNIT_EXPECT_EQ(test, nr_parts, 13);
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF + pages, 0));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF + 2 * pages, 0x10));
	KUNIT_EXPECT_TRUE(test, page_is(store, PER_LEAF + 3 * pages, 0x10));
	kunit_release_action(test, destroy_test_store, shared_again);
}

static void refuse_twice_in_16(void)
{
	if (!(++nr_parts % 16))
		test_memory.nr_refusals = 2;
}

static void wait_for_six_seconds(void)
{
	test_memory.late += 6 * HZ;
}

/* All waits of a long request exceed two minutes, but not those of any 64 MiB. */
static void long_request_gets_steady_memory(struct kunit *test)
{
	const unsigned long nr = 2 * RXD_ZERO_BYTES >> PAGE_SHIFT;
	const unsigned long pages = 16 * RXD_COPY_BYTES >> PAGE_SHIFT;
	unsigned long pgno;

	KUNIT_ASSERT_EQ(test, make_disk(nr), 0);
	for (pgno = 0; pgno < nr; pgno += pages)
		fill(test, store_of(SOURCE), pgno, 1, 0x10);
	KUNIT_ASSERT_EQ(test, make_clone(CLONE, RXD_CREATE_OVERCOMMIT), 0);
	test_memory.nr_dirty = totalram_pages() / 8;
	test_memory.at_refusal = wait_for_six_seconds;
	nr_parts = 0;
	at_part = refuse_twice_in_16;
	KUNIT_EXPECT_EQ(test, blkdev_issue_zeroout(disk(CLONE)->gd->part0, 0,
						   pos_of(nr) >> SECTOR_SHIFT, GFP_KERNEL,
						   BLKDEV_ZERO_NOUNMAP), 0);
	at_part = NULL;
	KUNIT_EXPECT_EQ(test, nr_parts, 16 * nr / pages);
	KUNIT_EXPECT_GE(test, test_memory.late, 2 * 6 * HZ * (nr / pages - 1));
	KUNIT_EXPECT_EQ(test, used(store_of(CLONE)), nr);
	KUNIT_EXPECT_EQ(test, atomic64_read(&disk(CLONE)->nospc), 0);
	KUNIT_EXPECT_TRUE(test, page_is(store_of(CLONE), nr - pages, 0));
}

/* Of the tables of a cache on the source. */
static struct rxd_promise promises[2];

static void init_promises(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(promises); i++) {
		INIT_LIST_HEAD(&promises[i].list);
		promises[i].bytes = 0;
	}
}

static int promise_of(int table, u64 bytes)
{
	return rxd_promise(disk(SOURCE)->gd->part0, &promises[table], bytes, false);
}

static void withdraw(int table)
{
	rxd_withdraw(disk(SOURCE)->gd->part0, &promises[table]);
}

static u64 share_of_memory(void)
{
	return round_down(div_u64((u64)totalram_pages() << PAGE_SHIFT, 100) * memory_share,
			  PAGE_SIZE);
}

static int make_counted(int index, u64 size, u32 flags)
{
	struct rxd_create arg = {
		.version = RXD_ABI_VERSION,
		.flags = flags,
		.index = index,
		.size = size,
		.node = RXD_NODE_LOCAL,
	};

	return rxd_create(&arg);
}

/* By the source, and by all disks together. */
static void expect_promised(struct kunit *test, u64 bytes)
{
	KUNIT_EXPECT_EQ(test, disk(SOURCE)->promised, bytes);
	KUNIT_EXPECT_EQ(test, rxd_promised, bytes);
}

/* Two tables of a cache: only the larger promise counts, and a refused one changes nothing. */
static void tables_promise_beside_each_other(struct kunit *test)
{
	const u64 share = share_of_memory(), half = round_down(share / 2, PAGE_SIZE);

	init_promises();
	KUNIT_ASSERT_EQ(test, make_counted(SOURCE, 2 * share, RXD_CREATE_ELASTIC), 0);
	KUNIT_EXPECT_EQ(test, rxd_disk_state(disk(SOURCE)), RXD_STATE_ELASTIC);
	expect_promised(test, 0);
	KUNIT_EXPECT_EQ(test, promise_of(0, half), 0);
	expect_promised(test, half);
	KUNIT_EXPECT_EQ(test, promise_of(1, share + PAGE_SIZE), -ERANGE);
	expect_promised(test, half);
	KUNIT_EXPECT_EQ(test, promise_of(1, PAGE_SIZE), 0);
	expect_promised(test, half);
	KUNIT_EXPECT_EQ(test, promise_of(1, share), 0);
	expect_promised(test, share);
	KUNIT_EXPECT_EQ(test, promise_of(1, U64_MAX), -ERANGE);
	expect_promised(test, share);
	withdraw(1);
	expect_promised(test, half);
	withdraw(1);
	withdraw(0);
	expect_promised(test, 0);
	/* A table that is refused ends, too. */
	KUNIT_EXPECT_EQ(test, promise_of(0, share + PAGE_SIZE), -ERANGE);
	expect_promised(test, 0);
	withdraw(0);
	expect_promised(test, 0);
}

/* The promise counts where other disks are made and grow, and theirs count for it. */
static void promises_of_all_disks(struct kunit *test)
{
	const u64 share = share_of_memory(), half = round_down(share / 2, PAGE_SIZE);

	init_promises();
	KUNIT_ASSERT_EQ(test, make_counted(SOURCE, 2 * share, RXD_CREATE_ELASTIC), 0);
	KUNIT_ASSERT_EQ(test, promise_of(0, half), 0);
	KUNIT_EXPECT_EQ(test, make_counted(CLONE, share - half + PAGE_SIZE, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, make_counted(CLONE, share - half + PAGE_SIZE, RXD_DRY_RUN), -ERANGE);
	KUNIT_ASSERT_EQ(test, make_counted(CLONE, share - half, 0), 0);
	KUNIT_EXPECT_EQ(test, promise_of(0, half + PAGE_SIZE), -ERANGE);
	KUNIT_EXPECT_EQ(test, make_counted(NEW, 2 * share, RXD_CREATE_ELASTIC), 0);
	KUNIT_EXPECT_EQ(test, remove(NEW), 0);
	KUNIT_EXPECT_EQ(test, make_counted(NEW, 2 * share, RXD_CREATE_OVERCOMMIT), 0);
	KUNIT_EXPECT_EQ(test, remove(CLONE), 0);
	KUNIT_EXPECT_EQ(test, promise_of(0, half + PAGE_SIZE), 0);
	expect_promised(test, half + PAGE_SIZE);
	withdraw(0);
}

/* What a cache has already counts, even if it is too much. It may always promise less. */
static void forced_promise(struct kunit *test)
{
	const u64 share = share_of_memory();
	struct block_device *bdev;

	init_promises();
	KUNIT_ASSERT_EQ(test, make_counted(SOURCE, 4 * share, RXD_CREATE_ELASTIC), 0);
	bdev = disk(SOURCE)->gd->part0;
	KUNIT_EXPECT_EQ(test, rxd_promise(bdev, &promises[0], U64_MAX, true), 0);
	expect_promised(test, 4 * share);
	KUNIT_EXPECT_EQ(test, make_counted(CLONE, PAGE_SIZE, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, make_counted(CLONE, PAGE_SIZE, RXD_CREATE_OVERCOMMIT), 0);
	KUNIT_EXPECT_EQ(test, promise_of(0, 2 * share), 0);
	expect_promised(test, 2 * share);
	KUNIT_EXPECT_EQ(test, promise_of(0, 3 * share), -ERANGE);
	expect_promised(test, 2 * share);
	withdraw(0);
}

/* A cache without a minimum can have the whole disk, also after that has grown. */
static void promise_of_a_disk_that_grows(struct kunit *test)
{
	const u64 share = share_of_memory();
	const unsigned long most = share >> PAGE_SHIFT;

	init_promises();
	KUNIT_ASSERT_EQ(test, make_counted(SOURCE, pos_of(8), RXD_CREATE_ELASTIC), 0);
	KUNIT_EXPECT_EQ(test, resize_source(2 * most, RXD_DRY_RUN), 0);
	KUNIT_EXPECT_EQ(test, promise_of(0, U64_MAX), 0);
	expect_promised(test, pos_of(8));
	KUNIT_EXPECT_EQ(test, resize_source(16, RXD_DRY_RUN), 0);
	expect_promised(test, pos_of(8));
	KUNIT_EXPECT_EQ(test, resize_source(16, 0), 0);
	expect_promised(test, pos_of(16));
	KUNIT_EXPECT_EQ(test, resize_source(most + 1, RXD_DRY_RUN), -ERANGE);
	KUNIT_EXPECT_EQ(test, resize_source(most + 1, 0), -ERANGE);
	expect_promised(test, pos_of(16));
	/* With a minimum, the size does not count. */
	KUNIT_EXPECT_EQ(test, promise_of(0, pos_of(4)), 0);
	expect_promised(test, pos_of(4));
	KUNIT_EXPECT_EQ(test, resize_source(most + 1, 0), 0);
	expect_promised(test, pos_of(4));
	KUNIT_EXPECT_EQ(test, resize_source(most + 2, RXD_RESIZE_OVERCOMMIT), 0);
	expect_promised(test, 0);
	KUNIT_EXPECT_EQ(test, rxd_disk_state(disk(SOURCE)), RXD_STATE_OVERCOMMIT);
	withdraw(0);
	expect_promised(test, 0);
}

/* Other disks count their size, or nothing, whatever the cache is. */
static void promise_of_other_disks(struct kunit *test)
{
	init_promises();
	KUNIT_ASSERT_EQ(test, make_counted(SOURCE, pos_of(8), 0), 0);
	KUNIT_EXPECT_EQ(test, promise_of(0, pos_of(4)), 0);
	expect_promised(test, pos_of(8));
	KUNIT_EXPECT_EQ(test, promise_of(0, U64_MAX), 0);
	expect_promised(test, pos_of(8));
	withdraw(0);
	expect_promised(test, pos_of(8));
	KUNIT_ASSERT_EQ(test, remove(SOURCE), 0);
	KUNIT_ASSERT_EQ(test, make_counted(SOURCE, 2 * share_of_memory(), RXD_CREATE_OVERCOMMIT),
			0);
	KUNIT_EXPECT_EQ(test, promise_of(0, U64_MAX), 0);
	expect_promised(test, 0);
	withdraw(0);
}

static struct kunit_case clone_cases[] = {
	KUNIT_CASE_PARAM_ATTR(fails_at_each_allocation, operation_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM(given_up_while_it_is_made, use_gen_params),
	KUNIT_CASE(pieces_of_the_folio_size),
	KUNIT_CASE(segments_of_any_length),
	KUNIT_CASE(clear_of_reserved_is_counted),
	KUNIT_CASE(clear_of_reserved_ends_half_way),
	KUNIT_CASE(unmap_gives_up_a_clone),
	KUNIT_CASE(can_be_opened_while_it_is_flushed),
	KUNIT_CASE(freezes_without_the_lock),
	KUNIT_CASE(freezes_for_no_grace_period),
	KUNIT_CASE_SLOW(parent_is_never_mixed),
	KUNIT_CASE(killed_wait_is_no_shortage),
	KUNIT_CASE(map_of_a_hole_lets_go),
	KUNIT_CASE(failed_load_waits_for_nobody),
	KUNIT_CASE(opens_wait_for_the_load),
	KUNIT_CASE(changes_of_a_discard_let_go),
	KUNIT_CASE_PARAM(waits_without_the_lock, waiting_gen_params),
	KUNIT_CASE(growth_is_of_the_same_disk),
	KUNIT_CASE(removal_frees_at_once),
	KUNIT_CASE(frozen_for_a_short_time),
	KUNIT_CASE(killed_while_it_shrinks),
	KUNIT_CASE(killed_while_it_grows),
	KUNIT_CASE(cut_waits_without_the_open_mutex),
	KUNIT_CASE_PARAM(nobody_waits_for_dropped_data, dropping_gen_params),
	KUNIT_CASE(shrink_waits_for_no_memory),
	KUNIT_CASE(shrink_takes_from_the_headroom),
	KUNIT_CASE(first_error_stays),
	KUNIT_CASE(all_parts_wait_not_for_ever),
	KUNIT_CASE(all_parts_of_unmap_wait_not_for_ever),
	KUNIT_CASE(long_request_gets_steady_memory),
	KUNIT_CASE(tables_promise_beside_each_other),
	KUNIT_CASE(promises_of_all_disks),
	KUNIT_CASE(forced_promise),
	KUNIT_CASE(promise_of_a_disk_that_grows),
	KUNIT_CASE(promise_of_other_disks),
	{}
};

static int init_clone_suite(struct kunit_suite *suite)
{
	written = alloc_page(GFP_KERNEL);
	if (!written)
		return -ENOMEM;
	memset(page_address(written), 0x33, PAGE_SIZE);
	return fault_check();
}

static void exit_clone_suite(struct kunit_suite *suite)
{
	__free_page(written);
}

static struct kunit_suite clone_suite = {
	.name = "rxd_clone",
	.suite_init = init_clone_suite,
	.suite_exit = exit_clone_suite,
	.init = init_disks,
	.exit = exit_disks,
	.test_cases = clone_cases,
};

kunit_test_suite(clone_suite);
