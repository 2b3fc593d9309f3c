// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the whole cache: readers and writers on the same few blocks of
 * mapped devices that the guest's script has set up.
 *
 * Each word that is written contains its sector and a version. One thread at a time
 * writes a sector, but several may write its block. In each word, a read must see a
 * version no older than the last one completed before it started and no newer than
 * the last one started before it ended. It must not see a word of another sector.
 */
#include <kunit/test.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/sizes.h>
#include <linux/umh.h>
#include <linux/vmalloc.h>

#include "crew.h"
#include "fault.h"

#define AREA		8192	/* sectors in use, several times the size of the cache */
#define HOT		256	/* sectors that get most of the I/O */
/* Writes that bypass the cache are split every 4 MiB: in the middle of the hot sectors. */
#define FIRST		(SZ_4M / SECTOR_SIZE - HOT / 2)
#define MAX_IO		128
#define BUF_SIZE	((MAX_IO + 8) * SECTOR_SIZE)
#define WORDS		(SECTOR_SIZE / sizeof(u64))
#define STRESS_MSECS	8000

struct target {
	const char *name;
	const char *cached;
	const char *origin;
	const char *errors;
};

#define TARGET(name, nr)						\
	{ name, "/dev/dm-" #nr, "/dev/nullb" #nr,			\
	  "/sys/kernel/debug/block/nullb" #nr "/error_injection" }

static const struct target targets[] = {
	TARGET("blocks of 4 KiB", 0),
	TARGET("blocks of 32 KiB", 1),
	/* Half of what is used is lent, and given back meanwhile. */
	TARGET("lent memory", 2),
};

static void target_name(const struct target *target, char *desc)
{
	strscpy(desc, target->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(target, targets, target_name);

/**
 * struct sector - versions of a sector
 * @started: newest version of a write that has started
 * @done: newest version of a write that has completed
 * @zeroed: newest version of a discard that has started
 */
struct sector {
	u32 started;
	u32 done;
	u32 zeroed;
};

struct stress {
	struct file *cached_file;
	struct file *origin_file;
	struct block_device *cached;
	struct block_device *origin;
	bool faults;
	struct sector *sector;
	unsigned long busy[BITS_TO_LONGS(AREA)];
	atomic_t reads, writes, discards, again;
	atomic_t foreign, stale, early, errors, failed_writes;
};

struct io {
	struct completion done;
	blk_status_t status;
};

static void io_ended(struct bio *bio)
{
	struct io *io = bio->bi_private;

	io->status = bio->bi_status;
	complete(&io->done);
	bio_put(bio);
}

static void io_submit(struct stress *s, struct io *io, struct block_device *bdev, blk_opf_t opf,
		      unsigned int sector, unsigned int nr, void *buf)
{
	unsigned int len, left = nr * SECTOR_SIZE;
	struct bio *bio;

	bio = bio_alloc(bdev, BUF_SIZE / PAGE_SIZE + 2, opf, GFP_KERNEL | __GFP_NOFAIL);
	bio->bi_iter.bi_sector = FIRST + sector;
	bio->bi_private = io;
	bio->bi_end_io = io_ended;
	if (!buf)
		bio->bi_iter.bi_size = left;
	for (; buf && left; left -= len, buf += len) {
		len = min_t(unsigned int, left, PAGE_SIZE - offset_in_page(buf));
		__bio_add_page(bio, vmalloc_to_page(buf), len, offset_in_page(buf));
	}

	init_completion(&io->done);
	if (s->faults)
		fault_begin(get_random_u32_inclusive(1, 12));
	submit_bio(bio);
	if (s->faults)
		fault_end();
}

static blk_status_t io_wait(struct io *io)
{
	wait_for_completion_io(&io->done);
	return io->status;
}

static blk_status_t do_io(struct stress *s, struct block_device *bdev, blk_opf_t opf,
			  unsigned int sector, unsigned int nr, void *buf)
{
	struct io io;

	io_submit(s, &io, bdev, opf, sector, nr, buf);
	return io_wait(&io);
}

static u64 word_of(unsigned int sector, u32 version)
{
	return (u64)(sector + 1) << 32 | version;
}

static void put_versions(struct stress *s, u64 *buf, unsigned int sector, unsigned int nr,
			 unsigned int newer)
{
	for (; nr; nr--, sector++, buf += WORDS)
		memset64(buf, word_of(sector, s->sector[sector].started - newer), WORDS);
}

static void choose_range(unsigned int *sector, unsigned int *nr)
{
	unsigned int area = get_random_u32_below(8) ? HOT : AREA;

	*sector = get_random_u32_below(area);
	/* Every second I/O consists of whole aligned blocks. */
	if (get_random_u32_below(2)) {
		*sector = round_down(*sector, 8);
		*nr = 8 << (get_random_u32_below(8) ? get_random_u32_below(2) : 4);
	} else {
		*nr = get_random_u32_inclusive(1, get_random_u32_below(8) ? 12 : MAX_IO);
	}
	*nr = min(*nr, AREA - *sector);
}

static bool lock_range(struct stress *s, unsigned int sector, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		if (!test_and_set_bit_lock(sector + i, s->busy))
			continue;
		while (i--)
			clear_bit_unlock(sector + i, s->busy);
		return false;
	}
	return true;
}

static void unlock_range(struct stress *s, unsigned int sector, unsigned int nr)
{
	while (nr--)
		clear_bit_unlock(sector++, s->busy);
}

static void start_versions(struct stress *s, unsigned int sector, unsigned int nr,
			   unsigned int step)
{
	for (; nr; nr--, sector++)
		WRITE_ONCE(s->sector[sector].started, s->sector[sector].started + step);
}

static void finish_versions(struct stress *s, unsigned int sector, unsigned int nr,
			    unsigned int newer)
{
	struct sector *state;

	for (state = s->sector + sector; nr; nr--, state++) {
		/* Pairs with the acquire in stress_read(). */
		smp_store_release(&state->done, state->started - newer);
	}
}

/* Return: true if the I/O had the expected result. */
static bool succeeded(struct stress *s, blk_status_t status)
{
	if (!status)
		return true;
	atomic_inc(status == BLK_STS_AGAIN ? &s->again : &s->errors);
	return false;
}

static blk_opf_t maybe_nowait(void)
{
	return get_random_u32_below(8) ? 0 : REQ_NOWAIT;
}

static void *random_offset(void *buf)
{
	return buf + get_random_u32_below(8) * SECTOR_SIZE;
}

static int stress_write(void *arg)
{
	struct stress *s = arg;
	unsigned int sector, nr;
	bool scribble, ok;
	struct io io;
	void *base, *buf;

	base = vmalloc(BUF_SIZE);
	while (base && !kthread_should_stop()) {
		choose_range(&sector, &nr);
		if (!lock_range(s, sector, nr)) {
			usleep_range(20, 100);
			continue;
		}
		buf = random_offset(base);
		scribble = !get_random_u32_below(4);
		start_versions(s, sector, nr, 1 + scribble);
		put_versions(s, buf, sector, nr, scribble);

		io_submit(s, &io, s->cached, REQ_OP_WRITE | maybe_nowait(), sector, nr, buf);
		/* If the buffer changes during the write, cache and origin must hold the same. */
		if (scribble)
			put_versions(s, buf, sector, nr, 0);
		ok = succeeded(s, io_wait(&io));
		if (ok)
			finish_versions(s, sector, nr, scribble);
		else if (io.status != BLK_STS_AGAIN)
			atomic_inc(&s->failed_writes);
		unlock_range(s, sector, nr);
		atomic_inc(&s->writes);
	}
	vfree(base);
	return 0;
}

static void check_word(struct stress *s, unsigned int sector, u64 word, u32 done)
{
	const struct sector *state = &s->sector[sector];
	u32 version = word ? (u32)word : READ_ONCE(state->zeroed);

	if (word && word >> 32 != sector + 1)
		atomic_inc(&s->foreign);
	else if ((s32)(version - done) < 0)
		atomic_inc(&s->stale);
	else if ((s32)(version - READ_ONCE(state->started)) > 0)
		atomic_inc(&s->early);
}

static void check_sector(struct stress *s, unsigned int sector, const u64 *word, u32 done)
{
	unsigned int i;

	check_word(s, sector, word[0], done);
	/* Most sectors contain one version only. */
	if (!memcmp(word, word + 1, (WORDS - 1) * sizeof(*word)))
		return;
	for (i = 1; i < WORDS; i++)
		check_word(s, sector, word[i], done);
}

static int stress_read(void *arg)
{
	unsigned int sector, nr, i;
	struct stress *s = arg;
	struct io io;
	void *base;
	u32 *done;
	u64 *buf;

	base = vmalloc(BUF_SIZE);
	done = kmalloc_array(MAX_IO, sizeof(*done), GFP_KERNEL);
	while (base && done && !kthread_should_stop()) {
		cond_resched();
		choose_range(&sector, &nr);
		buf = random_offset(base);
		memset(buf, 0xa5, nr * SECTOR_SIZE);
		for (i = 0; i < nr; i++) {
			/* A read must see all writes that completed before this point. */
			done[i] = smp_load_acquire(&s->sector[sector + i].done);
		}
		io_submit(s, &io, s->cached, REQ_OP_READ | maybe_nowait(), sector, nr, buf);
		if (!get_random_u32_below(4)) {
			/* No other reader may ever see this. */
			memset(buf, 0x5a, nr * SECTOR_SIZE);
			succeeded(s, io_wait(&io));
			continue;
		}
		if (!succeeded(s, io_wait(&io)))
			continue;
		for (i = 0; i < nr; i++)
			check_sector(s, sector + i, buf + i * WORDS, done[i]);
		atomic_inc(&s->reads);
	}
	kfree(done);
	vfree(base);
	return 0;
}

static int stress_discard(void *arg)
{
	struct stress *s = arg;
	unsigned int sector, nr, i;

	while (!kthread_should_stop()) {
		usleep_range(500, 2000);
		choose_range(&sector, &nr);
		/* The origin discards whole pages only. */
		sector = round_down(sector, 8);
		nr = min(round_up(nr, 8), AREA - sector);
		if (!lock_range(s, sector, nr))
			continue;
		start_versions(s, sector, nr, 1);
		for (i = sector; i < sector + nr; i++)
			WRITE_ONCE(s->sector[i].zeroed, s->sector[i].started);
		if (succeeded(s, do_io(s, s->cached, REQ_OP_DISCARD, sector, nr, NULL)))
			finish_versions(s, sector, nr, 0);
		unlock_range(s, sector, nr);
		atomic_inc(&s->discards);
	}
	return 0;
}

/* Return: number of I/Os whose data differs from the origin. */
static unsigned int count_differences(struct kunit *test, struct stress *s)
{
	unsigned int sector, pass, differences = 0;
	void *cached = vmalloc(BUF_SIZE);
	void *origin = vmalloc(BUF_SIZE);

	KUNIT_EXPECT_NOT_NULL(test, cached);
	KUNIT_EXPECT_NOT_NULL(test, origin);
	/* The second pass reads the blocks from the cache that the first pass has filled. */
	for (pass = 0; pass < 2 && cached && origin; pass++) {
		for (sector = 0; sector < AREA; sector += MAX_IO) {
			KUNIT_EXPECT_EQ(test, do_io(s, s->cached, REQ_OP_READ, sector, MAX_IO,
						    cached), 0);
			KUNIT_EXPECT_EQ(test, do_io(s, s->origin, REQ_OP_READ, sector, MAX_IO,
						    origin), 0);
			differences += !!memcmp(cached, origin, MAX_IO * SECTOR_SIZE);
		}
	}
	vfree(origin);
	vfree(cached);
	return differences;
}

static void write_area(struct kunit *test, struct stress *s)
{
	void *buf = vmalloc(BUF_SIZE);
	unsigned int sector;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	for (sector = 0; sector < AREA; sector += MAX_IO) {
		put_versions(s, buf, sector, MAX_IO, 0);
		KUNIT_EXPECT_EQ(test, do_io(s, s->cached, REQ_OP_WRITE, sector, MAX_IO, buf), 0);
	}
	vfree(buf);
}

/* The block layer accepts its fault rules from a process only. */
static void set_errors(struct kunit *test, const char *rule)
{
	const struct target *target = test->param_value;
	char command[160];
	char *argv[4] = { "/bin/sh", "-c", command, NULL };
	char *envp[2] = { "PATH=/bin", NULL };

	snprintf(command, sizeof(command), "echo %s >%s", rule, target->errors);
	KUNIT_EXPECT_EQ(test, call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC), 0);
}

static int stress_init(struct kunit *test)
{
	const struct target *target = test->param_value;
	const blk_mode_t mode = BLK_OPEN_READ | BLK_OPEN_WRITE;
	struct stress *s;

	s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;
	s->sector = kunit_kcalloc(test, AREA, sizeof(*s->sector), GFP_KERNEL);
	if (!s->sector)
		return -ENOMEM;
	s->cached_file = bdev_file_open_by_path(target->cached, mode, NULL, NULL);
	if (IS_ERR(s->cached_file))
		return PTR_ERR(s->cached_file);
	s->origin_file = bdev_file_open_by_path(target->origin, mode, NULL, NULL);
	if (IS_ERR(s->origin_file)) {
		bdev_fput(s->cached_file);
		return PTR_ERR(s->origin_file);
	}
	s->cached = file_bdev(s->cached_file);
	s->origin = file_bdev(s->origin_file);
	test->priv = s;
	write_area(test, s);
	return 0;
}

static void stress_exit(struct kunit *test)
{
	struct stress *s = test->priv;

	if (!s)
		return;
	bdev_fput(s->origin_file);
	bdev_fput(s->cached_file);
}

static void run_stress(struct kunit *test, struct crew *crew)
{
	struct stress *s = test->priv;

	crew_add(test, crew, stress_write, s);
	crew_add(test, crew, stress_write, s);
	crew_add(test, crew, stress_write, s);
	crew_add(test, crew, stress_read, s);
	crew_add(test, crew, stress_read, s);
	crew_add(test, crew, stress_read, s);
	crew_run(crew, STRESS_MSECS);
	s->faults = false;

	kunit_info(test, "%d reads, %d writes, %d discards, %d errors, %d would block",
		   atomic_read(&s->reads), atomic_read(&s->writes), atomic_read(&s->discards),
		   atomic_read(&s->errors), atomic_read(&s->again));
	KUNIT_EXPECT_EQ(test, atomic_read(&s->foreign), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&s->stale), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&s->early), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&s->reads), 20);
	KUNIT_EXPECT_GT(test, atomic_read(&s->writes), 20);
}

static void read_write(struct kunit *test)
{
	struct stress *s = test->priv;
	struct crew crew = {};

	run_stress(test, &crew);
	KUNIT_EXPECT_EQ(test, atomic_read(&s->errors), 0);
	KUNIT_EXPECT_EQ(test, count_differences(test, s), 0);
}

/* If memory is short, I/O bypasses the cache and does not fail. */
static void read_write_short_of_memory(struct kunit *test)
{
	struct stress *s = test->priv;
	struct crew crew = {};

	s->faults = true;
	run_stress(test, &crew);
	KUNIT_EXPECT_EQ(test, atomic_read(&s->errors), 0);
	KUNIT_EXPECT_EQ(test, count_differences(test, s), 0);
}

static void read_write_discard(struct kunit *test)
{
	struct stress *s = test->priv;
	struct crew crew = {};

	crew_add(test, &crew, stress_discard, s);
	run_stress(test, &crew);
	KUNIT_EXPECT_EQ(test, atomic_read(&s->errors), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&s->discards), 10);
	KUNIT_EXPECT_EQ(test, count_differences(test, s), 0);
}

static void read_write_with_origin_errors(struct kunit *test)
{
	struct stress *s = test->priv;
	struct crew crew = {};

	set_errors(test, "add,op=WRITE,start=0,status=IOERR,chance=8");
	set_errors(test, "add,op=READ,start=0,status=IOERR,chance=8");
	run_stress(test, &crew);
	set_errors(test, "removeall");
	KUNIT_EXPECT_GT(test, atomic_read(&s->failed_writes), 0);
	KUNIT_EXPECT_EQ(test, count_differences(test, s), 0);
}

static int stress_suite_init(struct kunit_suite *suite)
{
	return fault_check();
}

#define STRESS_CASE(name)							\
	KUNIT_CASE_PARAM_ATTR(name, target_gen_params, { .speed = KUNIT_SPEED_SLOW })

static struct kunit_case stress_cases[] = {
	STRESS_CASE(read_write),
	STRESS_CASE(read_write_short_of_memory),
	STRESS_CASE(read_write_discard),
	STRESS_CASE(read_write_with_origin_errors),
	{}
};

static struct kunit_suite stress_suite = {
	.name = "rxcache",
	.suite_init = stress_suite_init,
	.init = stress_init,
	.exit = stress_exit,
	.test_cases = stress_cases,
};

kunit_test_suite(stress_suite);

MODULE_DESCRIPTION("KUnit tests of rxcache with readers and writers on the same blocks");
MODULE_LICENSE("GPL");
