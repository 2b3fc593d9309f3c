// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of caches that are lent memory. The tests use the index as the target does, and give
 * memory back as reclaim and the OOM killer have it given back.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/shrinker.h>
#include <linux/sizes.h>
#include <linux/swap.h>
#include <uapi/linux/rxd.h>

#include "../dm-target/limit.h"
#include "../dm-target/origin.h"
#include "../module/store.h"
#include "crew.h"
#include "lend-test.h"

#define MIB		(SZ_1M / PAGE_SIZE)
#define BLOCK_PAGES	4
/* In blocks. */
#define SLOTS		(32 * MIB / BLOCK_PAGES)
#define MINIMUM		(4 * MIB / BLOCK_PAGES)
/* The least size of a cache that has twice as many. */
#define LEAST		(2 * SLOTS / RXC_SIZE_PARTS)
/* In pages. */
#define GROWTH		(SLOTS / 64 * BLOCK_PAGES)
#define BLOCK_BYTES	(BLOCK_PAGES * PAGE_SIZE)
/* What the races read and write. */
#define RACE_BLOCKS	(2 * SLOTS)
#define RACE_PAGES	(RACE_BLOCKS * BLOCK_PAGES)

/**
 * struct origin - the device that is cached. Each word of a page contains its number and a version
 * @version: of each page that the races write; that of others is 0
 * @done: the newest version of which a write has succeeded
 * @busy: blocks that are being written
 */
static struct origin {
	u32 version[RACE_PAGES];
	u32 done[RACE_PAGES];
	unsigned long busy[BITS_TO_LONGS(RACE_BLOCKS)];
} origin;

struct lender {
	struct rxcache c;
	struct lender *next; /* the next table, or NULL */
	struct rw_semaphore io; /* held for reading by I/O, which a suspension waits for */
	unsigned int seed;
	atomic_t fills, hits, cut, writes, drops, wrong, gifts, changes, growths;
};

static unsigned long used(const struct lender *l)
{
	return rxd_store_used(l->c.store) / BLOCK_PAGES;
}

static u64 stat(const struct lender *l, enum rxc_stat which)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu_ptr(l->c.stats, cpu)->count[which];
	return sum;
}

static void destroy(void *arg)
{
	struct lender *l = arg;

	rxc_limit_end(&l->c);
	l->c.suspended = true;
	rxc_limit_suspend(&l->c);
	if (!IS_ERR_OR_NULL(l->c.index))
		rxc_index_destroy(l->c.index);
	if (l->c.store)
		rxd_store_set_lending(l->c.store, ULONG_MAX);
	rxd_store_destroy(l->c.store);
	free_percpu(l->c.stats);
	if (l->c.wq)
		destroy_workqueue(l->c.wq);
}

static void begin(struct lender *l)
{
	down_write(&l->c.index_lock);
	rxc_limit_begin(&l->c);
	up_write(&l->c.index_lock);
	rxc_limit_resume(&l->c);
}

static struct lender *make_empty(struct kunit *test, unsigned long minimum)
{
	struct lender *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	init_rwsem(&l->io);
	init_rwsem(&l->c.message_lock);
	init_rwsem(&l->c.index_lock);
	rxc_limit_init(&l->c);
	l->c.block_shift = ilog2(BLOCK_BYTES / SECTOR_SIZE);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, destroy, l), 0);
	l->c.wq = alloc_workqueue("lend_kunit", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	KUNIT_ASSERT_NOT_NULL(test, l->c.wq);
	l->c.stats = alloc_percpu(struct rxc_stats);
	KUNIT_ASSERT_NOT_NULL(test, (void __force *)l->c.stats);
	l->c.min_size = minimum * BLOCK_BYTES;
	return l;
}

static struct lender *make(struct kunit *test, unsigned long minimum)
{
	static const struct rxd_store_options plain = { .node = RXD_NODE_LOCAL };
	struct lender *l = make_empty(test, minimum);

	l->c.store = rxd_store_create(SLOTS * BLOCK_PAGES, &plain);
	KUNIT_ASSERT_NOT_NULL(test, l->c.store);
	l->c.index = rxc_index_create(l->c.store, BLOCK_PAGES, l->c.stats);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, l->c.index);
	begin(l);
	return l;
}

static void free_pages_of(struct list_head *pages)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, pages, lru)
		rxd_store_free_page(page);
	INIT_LIST_HEAD(pages);
}

/* Get the pages of a block, as rxc_supply_pages() does. */
static bool get_pages(struct lender *l, struct list_head *pages)
{
	gfp_t gfp = rxc_limit_gfp(&l->c, BLOCK_PAGES, RXD_GFP);
	struct page *page;
	unsigned int i;

	for (i = 0; gfp && i < BLOCK_PAGES; i++) {
		page = rxd_store_alloc_page(l->c.store, 0, gfp);
		if (!page)
			break;
		list_add(&page->lru, pages);
	}
	if (i == BLOCK_PAGES)
		return true;
	free_pages_of(pages);
	return false;
}

/* Return: true if the block has a slot. */
static bool begin_fill(struct lender *l, u64 block, unsigned long *slot)
{
	enum rxc_fate fate;
	LIST_HEAD(pages);

	fate = rxc_index_begin_fill(l->c.index, block, &pages, slot);
	if (fate == RXC_FATE_NEED_PAGES && get_pages(l, &pages))
		fate = rxc_index_begin_fill(l->c.index, block, &pages, slot);
	free_pages_of(&pages);
	return fate == RXC_FATE_TRACKED;
}

static u32 version_of(u64 nr)
{
	return nr < RACE_PAGES ? READ_ONCE(origin.version[nr]) : 0;
}

static void put(struct lender *l, unsigned long slot, u64 nr, u32 version)
{
	struct page *page = rxc_index_own_page(l->c.index, slot, nr % BLOCK_PAGES);

	memset64(page_address(page), nr << 32 | version, PAGE_SIZE / sizeof(u64));
}

/* Return: true if the block is cached now. */
static bool fill(struct lender *l, u64 block)
{
	unsigned long slot;
	unsigned int i;
	u64 nr;

	if (!begin_fill(l, block, &slot))
		return false;
	for (i = 0; i < BLOCK_PAGES; i++) {
		nr = block * BLOCK_PAGES + i;
		put(l, slot, nr, version_of(nr));
	}
	rxc_index_end_fill(l->c.index, block, true);
	atomic_inc(&l->fills);
	return true;
}

static bool is_right(const struct page *page, u64 nr, u32 least, u32 most)
{
	const u64 *word = page_address(page);
	unsigned int i;
	u64 value;

	for (i = 0; i < PAGE_SIZE / sizeof(u64); i++) {
		value = READ_ONCE(word[i]);
		if (value >> 32 != nr || (u32)value < least || (u32)value > most)
			return false;
	}
	return true;
}

/*
 * As copy_hit() reads a block, with a pause after the first page, in which others may take the
 * slot. Return: true if all of it is cached.
 */
static bool hit_slowly(struct lender *l, u64 block, unsigned int msecs)
{
	u64 nr = block * BLOCK_PAGES;
	u32 least[BLOCK_PAGES];
	struct rxc_walk walk;
	unsigned long slot;
	struct page *page;
	unsigned int i;

	for (i = 0; i < BLOCK_PAGES; i++) {
		/* Pairs with the release in write(): a read sees what was written before. */
		least[i] = nr < RACE_PAGES ? smp_load_acquire(&origin.done[nr + i]) : 0;
	}
	rcu_read_lock();
	rxc_index_begin_walk(l->c.index, block, block + 1, &walk);
	for (i = 0; i < BLOCK_PAGES; i++) {
		page = i ? rxc_index_hit_page(l->c.index, slot, block, i) :
			   rxc_index_hit(l->c.index, &walk, block, 0, &slot);
		if (!page)
			break;
		if (!is_right(page, nr + i, least[i], U32_MAX))
			atomic_inc(&l->wrong);
		if (!i && msecs)
			mdelay(msecs);
	}
	rcu_read_unlock();
	if (i < BLOCK_PAGES) {
		atomic_add(i > 0, &l->cut);
		return false;
	}
	rxc_stat_inc(l->c.stats, RXC_READ_HITS);
	atomic_inc(&l->hits);
	return true;
}

static bool hit(struct lender *l, u64 block)
{
	return hit_slowly(l, block, 0);
}

/* Misses of blocks that were not read before. The limit follows once in a jiffy. */
static void miss(struct lender *l, unsigned long nr)
{
	for (; nr; nr--) {
		fill(l, l->seed++);
		if (nr % 64 == 0)
			schedule_timeout_uninterruptible(1);
	}
}

static void take_all(struct lender *l)
{
	miss(l, 3 * SLOTS);
}

static void nothing_is_lent_without_a_minimum(struct kunit *test)
{
	struct lender *l = make(test, 0);

	take_all(l);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), 0);
	KUNIT_EXPECT_EQ(test, test_count(), SHRINK_EMPTY);
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), SHRINK_STOP);
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);
}

static void what_is_beyond_the_minimum_is_lent(struct kunit *test)
{
	long before = test_reclaimable();
	struct lender *l = make(test, MINIMUM);
	long lent;

	miss(l, MINIMUM);
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), 0);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_TAKEN), 0);
	take_all(l);
	lent = rxc_limit_lent(&l->c);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);
	KUNIT_EXPECT_EQ(test, lent, SLOTS - MINIMUM);
	KUNIT_EXPECT_LE(test, stat(l, RXC_TAKEN), lent);
	KUNIT_EXPECT_GE(test, stat(l, RXC_TAKEN), lent - 64);
	/* Of the stat, each processor has a part that is not added yet. */
	KUNIT_EXPECT_GE(test, test_reclaimable() - before, lent * BLOCK_PAGES - 2 * (long)MIB);
	KUNIT_EXPECT_LE(test, test_reclaimable() - before, lent * BLOCK_PAGES + 2 * (long)MIB);
	KUNIT_EXPECT_GE(test, test_count(), (lent * BLOCK_PAGES) - MIB);
	/* Neither for the pages nor for their leaves. */
	KUNIT_EXPECT_EQ(test, atomic_read(&test_limit.nr_wakes), 0);
	rxc_limit_count_taken(&l->c);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_TAKEN), lent);
}

/* Writes to a RAM disk count on what caches give back, but not on what other drivers might. */
static void memory_of_other_drivers_is_not_usable(struct kunit *test)
{
	const long foreign = 1024 * MIB, margin = 32 * MIB;
	struct lender *l = make(test, MINIMUM);
	long before, with;

	take_all(l);
	before = test_usable();
	test_add_reclaimable(foreign);
	with = test_usable();
	test_add_reclaimable(-foreign);
	KUNIT_EXPECT_LT(test, with, before + margin);
	KUNIT_EXPECT_GT(test, with, before - margin);
}

static void limit_rises_while_memory_is_free(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long at;

	test_machine.is_full = true;
	miss(l, 2 * MINIMUM);
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
	KUNIT_EXPECT_TRUE(test, hit(l, l->seed - 1));

	test_machine.is_full = false;
	miss(l, 4 * MINIMUM);
	at = used(l);
	KUNIT_EXPECT_GT(test, at, 2 * MINIMUM);
	KUNIT_EXPECT_LT(test, at, SLOTS);

	/* No block enters beyond what is used by now, but new blocks replace others. */
	test_machine.is_full = true;
	schedule_timeout_uninterruptible(2);
	miss(l, 2 * MINIMUM);
	KUNIT_EXPECT_LE(test, used(l), at + 1);
	KUNIT_EXPECT_TRUE(test, hit(l, l->seed - 1));
	KUNIT_EXPECT_EQ(test, atomic_read(&l->wrong), 0);

	/* What a drop leaves free is not taken again while others have the memory. */
	rxc_index_drop(l->c.index, 0, l->seed);
	KUNIT_EXPECT_EQ(test, used(l), 0);
	schedule_timeout_uninterruptible(2);
	miss(l, 4 * MINIMUM);
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
}

/* While many pages wait to be freed, no others are lent in their place. */
static void misses_go_round_the_cache(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	u64 evictions;

	take_all(l);
	test_machine.is_full = true;
	schedule_timeout_uninterruptible(2);
	miss(l, 64);
	KUNIT_EXPECT_TRUE(test, hit(l, l->seed - 1));
	test_limit.is_waiting = true;
	evictions = stat(l, RXC_EVICTIONS);
	miss(l, 64);
	KUNIT_EXPECT_FALSE(test, hit(l, l->seed - 1));
	KUNIT_EXPECT_EQ(test, stat(l, RXC_EVICTIONS), evictions);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);

	/* At its minimum, the cache replaces memory of its own. */
	while (test_scan(1024, NULL) != SHRINK_STOP)
		;
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
	miss(l, 64);
	KUNIT_EXPECT_TRUE(test, hit(l, l->seed - 1));
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
}

/* The lender for what happens at a claim. */
static struct lender *claimed;

static void trim_at_claim(void)
{
	/* The last part waits for its grace period. */
	synchronize_rcu();
	mod_delayed_work(claimed->c.wq, &claimed->c.trim_work, 0);
	flush_delayed_work(&claimed->c.trim_work);
}

static void trim_spares_what_is_given(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long before;

	take_all(l);
	before = used(l);
	claimed = l;
	test_limit.at_claim = trim_at_claim;
	KUNIT_EXPECT_EQ(test, test_scan(MIB, NULL), MIB);
	test_limit.at_claim = NULL;
	KUNIT_EXPECT_EQ(test, used(l), before - MIB / BLOCK_PAGES);
}

static void drop_at_claim(void)
{
	test_limit.at_claim = NULL;
	while (used(claimed) > MINIMUM + 2)
		rxc_index_drop(claimed->c.index, --claimed->seed, 1);
}

/* A drop meanwhile leaves less to be given: the minimum stays. */
static void drop_beside_a_gift(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);

	take_all(l);
	claimed = l;
	test_limit.at_claim = drop_at_claim;
	KUNIT_EXPECT_EQ(test, test_scan(1024, NULL), 2 * BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), 0);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_GIVEN), 2);
}

/* Blocks from 0 on, which are in use until their fills end. The limit follows once in a jiffy. */
static void begin_fills(struct kunit *test, struct lender *l, u64 nr)
{
	unsigned long slot;
	u64 block;

	for (block = 0; block < nr; block++) {
		KUNIT_ASSERT_TRUE(test, begin_fill(l, block, &slot));
		if (block % 64 == 0)
			schedule_timeout_uninterruptible(1);
	}
}

/* If nothing can be given, the limit stays, and nothing counts as given, or as taken again. */
static void blocks_in_use_are_not_given(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long before;
	u64 block;

	begin_fills(test, l, 2 * MINIMUM);
	rxc_limit_count_taken(&l->c);
	before = used(l);
	KUNIT_EXPECT_EQ(test, before, 2 * MINIMUM);
	test_machine.is_full = true;
	schedule_timeout_uninterruptible(2);
	rxc_limit_gfp(&l->c, BLOCK_PAGES, RXD_GFP);
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), SHRINK_STOP);
	KUNIT_EXPECT_EQ(test, used(l), before);
	KUNIT_EXPECT_EQ(test, rxd_store_excess(l->c.store), 0);
	rxc_limit_count_taken(&l->c);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_GIVEN), 0);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_TAKEN), MINIMUM);
	for (block = 0; block < 2 * MINIMUM; block++)
		rxc_index_end_fill(l->c.index, block, false);
}

/* If fewer blocks can leave than were claimed, the claims of the others end. */
static void unused_claims_end(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long before;
	u64 block;

	begin_fills(test, l, 2 * MINIMUM);
	for (block = 0; block < 3; block++)
		rxc_index_end_fill(l->c.index, block, true);
	rxc_limit_count_taken(&l->c);
	before = used(l);
	test_machine.is_full = true;
	schedule_timeout_uninterruptible(2);
	rxc_limit_gfp(&l->c, BLOCK_PAGES, RXD_GFP);
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), 3 * BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, used(l), before - 3);
	KUNIT_EXPECT_EQ(test, l->c.leaving, 0);
	KUNIT_EXPECT_EQ(test, rxc_index_limit(l->c.index), before - 3);
	KUNIT_EXPECT_EQ(test, rxd_store_excess(l->c.store), 0);
	rxc_limit_count_taken(&l->c);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_GIVEN), 3);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_TAKEN), before - MINIMUM);
	for (; block < 2 * MINIMUM; block++)
		rxc_index_end_fill(l->c.index, block, false);
}

static unsigned int claims;
static unsigned long most_claimed;

static void count_claims(void)
{
	claims++;
	most_claimed = max(most_claimed, claimed->c.leaving);
}

/* Few blocks are claimed at once, and fewer near the minimum: other tasks find some, too. */
static void claims_are_small(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);

	take_all(l);
	claimed = l;
	claims = 0;
	most_claimed = 0;
	test_limit.at_claim = count_claims;
	KUNIT_EXPECT_EQ(test, test_scan(MIB, NULL), MIB);
	KUNIT_EXPECT_EQ(test, claims, MIB / BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, most_claimed, 16);
	test_limit.at_claim = NULL;
	while (rxc_limit_lent(&l->c) > 40)
		KUNIT_ASSERT_EQ(test, test_scan(MIB + BLOCK_PAGES, NULL), MIB + BLOCK_PAGES);
	KUNIT_ASSERT_EQ(test, rxc_limit_lent(&l->c), 38);
	most_claimed = 0;
	test_limit.at_claim = count_claims;
	KUNIT_EXPECT_EQ(test, test_scan(MIB, NULL), 38 * BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, most_claimed, 4);
	test_limit.at_claim = NULL;
	KUNIT_EXPECT_EQ(test, l->c.leaving, 0);
}

/* Of many misses in a jiffy, one looks at the memory, and no other one waits for it. */
static void misses_do_not_wait_for_the_limit(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long at;

	take_all(l);
	schedule_timeout_uninterruptible(2);
	at = l->c.followed_at;
	spin_lock(&l->c.limit_lock);
	KUNIT_EXPECT_TRUE(test, rxc_limit_gfp(&l->c, BLOCK_PAGES, RXD_GFP) == RXD_GFP_LENT);
	spin_unlock(&l->c.limit_lock);
	KUNIT_EXPECT_EQ(test, l->c.followed_at, at);
}

static void pages_are_free_when_reclaim_is_told(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long before, reclaimed;

	take_all(l);
	before = used(l);
	KUNIT_EXPECT_EQ(test, test_scan(1, &reclaimed), MIB);
	KUNIT_EXPECT_EQ(test, reclaimed, MIB);
	KUNIT_EXPECT_EQ(test, used(l), before - MIB / BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_GIVEN), MIB / BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, rxd_store_excess(l->c.store), 0);
	/* Others need the memory, so the cache does not take it again. */
	test_machine.is_full = true;
	miss(l, 128);
	KUNIT_EXPECT_EQ(test, used(l), before - MIB / BLOCK_PAGES);
}

static void gives_down_to_the_minimum(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long nr, rounds = 0;
	u64 block;

	take_all(l);
	while ((nr = test_scan(1024, NULL)) != SHRINK_STOP && rounds++ < 100)
		KUNIT_EXPECT_LE(test, nr, 1024);
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), 0);
	KUNIT_EXPECT_EQ(test, stat(l, RXC_GIVEN), SLOTS - MINIMUM);
	for (block = 0; block < l->seed; block++)
		hit(l, block);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->hits), MINIMUM);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->wrong), 0);

	/* When memory is free again, the cache takes it again. */
	take_all(l);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);
	KUNIT_EXPECT_GT(test, stat(l, RXC_TAKEN), stat(l, RXC_GIVEN));
}

static void oom_gets_all_in_the_end(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned int i;

	take_all(l);
	for (i = 0; i < 100 && test_oom(); i++)
		;
	KUNIT_EXPECT_LT(test, i, 10);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), 0);
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
	/* Then nothing keeps the OOM killer from its work. */
	KUNIT_EXPECT_EQ(test, test_count(), SHRINK_EMPTY);
}

static void page_cache_is_reclaimed_first(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);

	take_all(l);
	test_machine.page_cache = totalram_pages() / 8;
	/* What reclaim asks for at its first priority is less than a page. */
	KUNIT_EXPECT_EQ(test, test_count() >> 11, 0);
	KUNIT_EXPECT_GT(test, test_count(), 0);
	test_machine.page_cache = totalram_pages() / 32;
	KUNIT_EXPECT_GE(test, test_count() >> 11, MIB);
}

static int scan_once(void *arg)
{
	struct completion *done = arg;

	test_scan(256, NULL);
	kthread_complete_and_exit(done, 0);
}

/* Readers that have found a page may copy it until they leave their RCU section. */
static void page_stays_while_it_is_read(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	DECLARE_COMPLETION_ONSTACK(done);
	unsigned int left = SLOTS - 256 / BLOCK_PAGES, i;
	struct task_struct *thread;
	bool early = false;

	take_all(l);
	thread = kthread_create(scan_once, &done, "lend_kunit");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, thread);
	rcu_read_lock();
	wake_up_process(thread);
	for (i = 0; i < 10000 && used(l) > left; i++)
		mdelay(1);
	KUNIT_EXPECT_EQ(test, used(l), left);
	/* The blocks have left the cache by now, but not their pages. */
	for (i = 0; i < 100; i++) {
		mdelay(1);
		early |= completion_done(&done);
	}
	rcu_read_unlock();
	wait_for_completion(&done);
	KUNIT_EXPECT_FALSE(test, early);
}

/* Reclaim for a huge page runs while single pages are free. */
static void nothing_is_given_while_memory_is_free(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);

	take_all(l);
	test_machine.spare = test_enough() + 2048;
	KUNIT_EXPECT_EQ(test, test_pass(8192, true, NULL), 0);
	KUNIT_EXPECT_EQ(test, test_pass(8192, false, NULL), 0);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);
	test_machine.spare = 0;
	KUNIT_EXPECT_EQ(test, test_scan(1024, NULL), 1024);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS - 1024 / BLOCK_PAGES);
}

/*
 * When kswapd has freed enough, tasks that reclaim get the progress that ends their work, and no
 * more. kswapd itself goes on until it has enough.
 */
static void tasks_make_progress(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long reclaimed, left = SLOTS;
	unsigned int i;

	take_all(l);
	test_machine.spare = test_enough() + 2047;
	KUNIT_EXPECT_EQ(test, test_pass(8192, true, NULL), 0);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, test_pass(8192, false, &reclaimed), SWAP_CLUSTER_MAX);
		KUNIT_EXPECT_EQ(test, reclaimed, SWAP_CLUSTER_MAX);
		left -= SWAP_CLUSTER_MAX / BLOCK_PAGES;
		KUNIT_EXPECT_EQ(test, used(l), left);
	}
	test_machine.spare = test_enough();
	KUNIT_EXPECT_EQ(test, test_pass(2048, true, NULL), 0);
	test_machine.spare--;
	KUNIT_EXPECT_EQ(test, test_pass(2048, true, &reclaimed), 2048);
	KUNIT_EXPECT_EQ(test, reclaimed, 2048);
	left -= 2048 / BLOCK_PAGES;
	KUNIT_EXPECT_EQ(test, used(l), left);

	/* Below their own mark, tasks get all that they ask for. */
	test_machine.spare = 1;
	KUNIT_EXPECT_EQ(test, test_pass(2048, false, &reclaimed), 2048);
	KUNIT_EXPECT_EQ(test, reclaimed, 2048);

	/* Nothing counts as progress that was not given. */
	while (rxc_limit_lent(&l->c))
		KUNIT_ASSERT_NE(test, test_scan(1024, NULL), SHRINK_STOP);
	test_machine.spare = test_enough();
	KUNIT_EXPECT_EQ(test, test_pass(2048, false, &reclaimed), 0);
	KUNIT_EXPECT_EQ(test, reclaimed, 0);
	KUNIT_EXPECT_EQ(test, used(l), MINIMUM);
}

/* On machines of all sizes, reclaim gets many times what one of its passes may swap out. */
static void enough_for_machines(struct kunit *test)
{
	static const struct {
		unsigned long gib, for_task, in_all, watched;
	} machines[] = {
		{ 1, 32, 96, 128 },
		{ 16, 64, 1536, 1024 },
		{ 256, 64, 1536, 16384 },
	};
	unsigned long nr, headroom, boost;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(machines); i++) {
		nr = machines[i].gib * 1024 * MIB;
		headroom = min(nr / 8, 2048 * MIB);
		KUNIT_EXPECT_EQ(test, test_give_mark(headroom, 50 * MIB), machines[i].in_all * MIB);
		KUNIT_EXPECT_EQ(test, test_grow_mark(headroom, 0), headroom);
		KUNIT_EXPECT_EQ(test, test_enough_for_task(nr), machines[i].for_task * MIB);
		/* A first pass asks for so much, or for twice what is lent. */
		KUNIT_EXPECT_EQ(test, 2 * (test_urgent_count(nr / 2, nr) >> 12), nr / 8);
		KUNIT_EXPECT_EQ(test, 2 * (test_urgent_count(MIB, nr) >> 12), 2 * MIB);
		KUNIT_EXPECT_EQ(test, test_watch_pages(1, nr), machines[i].watched);
		/* Whatever the boost, caches do not take at once what others have got. */
		for (boost = 0; boost <= 4 * headroom; boost += headroom / 16) {
			KUNIT_EXPECT_GE(test, test_give_mark(headroom, boost), boost);
			KUNIT_EXPECT_GE(test, test_grow_mark(headroom, boost),
					test_give_mark(headroom, boost) + headroom / 4);
		}
	}
	KUNIT_EXPECT_EQ(test, test_watch_pages(128, 1024 * MIB), 4096);
}

static bool is_urgent(void)
{
	return test_count() >> 11;
}

/* Page cache from which many pages have moved within a second or two is not reclaimed instead. */
static void page_cache_that_moves(struct kunit *test)
{
	long many = test_watch_pages(num_online_cpus(), totalram_pages());
	struct lender *l = make(test, MINIMUM);

	take_all(l);
	test_machine.page_cache = totalram_pages() / 8;
	/* Others may have been watched before. */
	test_machine.later = 3 * HZ;
	KUNIT_EXPECT_FALSE(test, is_urgent());
	test_machine.moved += many;
	KUNIT_EXPECT_FALSE(test, is_urgent());
	test_machine.moved++;
	KUNIT_EXPECT_TRUE(test, is_urgent());
	/* The second after. */
	test_machine.later += HZ + HZ / 2;
	KUNIT_EXPECT_TRUE(test, is_urgent());
	test_machine.later += HZ + HZ / 2;
	KUNIT_EXPECT_FALSE(test, is_urgent());
	/* Nobody has looked for minutes, in which some pages move. */
	test_machine.moved += many + 1;
	KUNIT_EXPECT_TRUE(test, is_urgent());
	test_machine.moved += 10 * many;
	test_machine.later += 600 * HZ;
	KUNIT_EXPECT_FALSE(test, is_urgent());
	test_machine.later += HZ + HZ / 2;
	KUNIT_EXPECT_FALSE(test, is_urgent());
}

static void nothing_is_given_from_an_index_that_is_replaced(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);

	take_all(l);
	down_write(&l->c.index_lock);
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), SHRINK_STOP);
	up_write(&l->c.index_lock);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);
	rxc_limit_end(&l->c);
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), SHRINK_STOP);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);
}

static void idle_cache_gives_first(struct kunit *test)
{
	struct lender *busy = make(test, MINIMUM), *idle = make(test, MINIMUM);
	unsigned int round;
	u64 block;

	take_all(busy);
	take_all(idle);
	for (round = 0; round < 3; round++) {
		for (block = 0; block < busy->seed; block++)
			hit(busy, block);
		test_compare();
	}
	while (rxc_limit_lent(&idle->c)) {
		KUNIT_ASSERT_NE(test, test_scan(256, NULL), SHRINK_STOP);
		KUNIT_ASSERT_EQ(test, used(busy), SLOTS);
	}
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), 256);
	KUNIT_EXPECT_EQ(test, used(busy), SLOTS - 256 / BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, used(idle), MINIMUM);
}

/* As rxcache_preresume() does it. */
static void take_over(struct lender *l, struct lender *old)
{
	LIST_HEAD(pages);

	down_write(&l->c.index_lock);
	l->c.store = old->c.store;
	rxc_limit_take_over(&l->c, &old->c);
	/* The counters of the two are not exchanged yet. */
	test_compare();
	if (l->c.borrower.give(&l->c.borrower, 1, NUMA_NO_NODE, &pages) != -EBUSY)
		atomic_inc(&l->wrong);
	old->c.store = NULL;
	swap(l->c.index, old->c.index);
	swap(l->c.stats, old->c.stats);
	/* The old table is destroyed at any time. */
	rxc_limit_end(&old->c);
	rxc_limit_begin(&l->c);
	up_write(&l->c.index_lock);
	rxc_limit_resume(&l->c);
}

static struct lender *reload(struct kunit *test, struct lender *old)
{
	struct lender *l = make_empty(test, old->c.min_size / BLOCK_BYTES);

	take_over(l, old);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->wrong), 0);
	l->seed = old->seed;
	return l;
}

/* A reload of the table changes neither what is lent, nor who gives first. Hits stay counted. */
static void next_table_goes_on(struct kunit *test)
{
	struct lender *busy = make(test, MINIMUM), *idle = make(test, MINIMUM);
	unsigned int round;
	u64 block, worth;

	take_all(idle);
	take_all(busy);
	for (round = 0; round < 3; round++) {
		for (block = 0; block < busy->seed; block++)
			hit(busy, block);
		test_compare();
	}
	worth = busy->c.borrower.worth;
	busy = reload(test, busy);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&busy->c), SLOTS - MINIMUM);
	test_compare();
	KUNIT_EXPECT_GT(test, busy->c.borrower.worth, 0);
	KUNIT_EXPECT_LE(test, busy->c.borrower.worth, worth);
	while (rxc_limit_lent(&idle->c)) {
		KUNIT_ASSERT_NE(test, test_scan(256, NULL), SHRINK_STOP);
		KUNIT_ASSERT_EQ(test, used(busy), SLOTS);
	}
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), 256);
	KUNIT_EXPECT_EQ(test, used(busy), SLOTS - 256 / BLOCK_PAGES);
	KUNIT_EXPECT_EQ(test, stat(busy, RXC_GIVEN), 256 / BLOCK_PAGES);
}

/* What nobody can give does not count as lent: no resume may follow. */
static void nothing_is_lent_after_the_end(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);

	take_all(l);
	KUNIT_EXPECT_NE(test, test_count(), SHRINK_EMPTY);
	rxc_limit_end(&l->c);
	KUNIT_EXPECT_EQ(test, test_count(), SHRINK_EMPTY);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), 0);
	KUNIT_EXPECT_EQ(test, test_oom(), 0);
	begin(l);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), SLOTS - MINIMUM);
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), 256);
}

static void sizes_move(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);

	take_all(l);
	down_read(&l->c.index_lock);
	rxc_limit_set_min(&l->c, 2 * MINIMUM * BLOCK_BYTES);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), SLOTS - 2 * MINIMUM);
	KUNIT_EXPECT_EQ(test, used(l), SLOTS);
	rxc_limit_set(&l->c, 3 * MINIMUM * BLOCK_BYTES);
	up_read(&l->c.index_lock);
	flush_delayed_work(&l->c.trim_work);
	while (rxd_store_excess(l->c.store))
		msleep(20);
	KUNIT_EXPECT_EQ(test, used(l), 3 * MINIMUM);
	KUNIT_EXPECT_EQ(test, rxc_limit_most(&l->c), 3 * MINIMUM);
	take_all(l);
	KUNIT_EXPECT_EQ(test, used(l), 3 * MINIMUM);

	down_read(&l->c.index_lock);
	rxc_limit_set_min(&l->c, 0);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), 0);
	rxc_limit_set_min(&l->c, 3 * MINIMUM * BLOCK_BYTES);
	KUNIT_EXPECT_EQ(test, rxc_limit_lent(&l->c), 0);
	up_read(&l->c.index_lock);
	KUNIT_EXPECT_EQ(test, test_scan(256, NULL), SHRINK_STOP);
}

static void bad_minimum(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	struct rxcache *c = &l->c;

	KUNIT_EXPECT_NULL(test, rxc_limit_check_min(c, 0, 0, 16));
	KUNIT_EXPECT_NULL(test, rxc_limit_check_min(c, 16 * BLOCK_BYTES, 0, 16));
	KUNIT_EXPECT_NULL(test, rxc_limit_check_min(c, 16 * BLOCK_BYTES, 16 * BLOCK_BYTES, 16));
	KUNIT_EXPECT_NULL(test, rxc_limit_check_min(c, SLOTS * BLOCK_BYTES, 0, 16));
	KUNIT_EXPECT_NOT_NULL(test, rxc_limit_check_min(c, 15 * BLOCK_BYTES, 0, 16));
	KUNIT_EXPECT_NOT_NULL(test, rxc_limit_check_min(c, 32 * BLOCK_BYTES + 512, 0, 16));
	KUNIT_EXPECT_NOT_NULL(test, rxc_limit_check_min(c, (SLOTS + 1) * BLOCK_BYTES, 0, 16));
	KUNIT_EXPECT_NOT_NULL(test,
			      rxc_limit_check_min(c, 33 * BLOCK_BYTES, 32 * BLOCK_BYTES, 16));
	down_read(&c->index_lock);
	KUNIT_EXPECT_NOT_NULL(test, rxc_limit_set_min(c, 15 * BLOCK_BYTES));
	KUNIT_EXPECT_NOT_NULL(test, rxc_limit_set(c, (MINIMUM - 1) * BLOCK_BYTES));
	KUNIT_EXPECT_NULL(test, rxc_limit_set(c, 2 * MINIMUM * BLOCK_BYTES));
	KUNIT_EXPECT_NOT_NULL(test, rxc_limit_set_min(c, (2 * MINIMUM + 1) * BLOCK_BYTES));
	up_read(&c->index_lock);
	KUNIT_EXPECT_EQ(test, c->min_size, MINIMUM * BLOCK_BYTES);
	KUNIT_EXPECT_EQ(test, c->size, 2 * MINIMUM * BLOCK_BYTES);
}

/* Threads for the races. All I/O holds the semaphore, as a suspension waits for it. */

/* Some whole blocks get new pages. Return: true if the block has a slot. */
static bool begin_write(struct lender *l, u64 block, bool whole, unsigned long *slot)
{
	enum rxc_fate fate;
	LIST_HEAD(pages);

	if (whole && get_random_u32_below(2))
		get_pages(l, &pages);
	fate = rxc_index_begin_write(l->c.index, block, whole, &pages, slot);
	if (fate == RXC_FATE_NEED_PAGES && get_pages(l, &pages))
		fate = rxc_index_begin_write(l->c.index, block, whole, &pages, slot);
	free_pages_of(&pages);
	return fate == RXC_FATE_TRACKED;
}

/* Write a block or one of its pages. A write that fails may have reached the origin, or not. */
static void write(struct lender *l, u64 block)
{
	bool whole = get_random_u32_below(2), ok = get_random_u32_below(4);
	bool arrives = ok || get_random_u32_below(2), tracked;
	struct rxc_range range = { .first = block, .nr = 1 };
	u64 first = block * BLOCK_PAGES, end = first + BLOCK_PAGES, nr;
	unsigned long slot;

	down_read(&l->io);
	if (test_and_set_bit_lock(block, origin.busy))
		goto out;
	if (!whole) {
		first += get_random_u32_below(BLOCK_PAGES);
		end = first + 1;
	}
	tracked = begin_write(l, block, whole, &slot);
	if (!tracked)
		rxc_index_begin_range(l->c.index, &range);
	for (nr = first; tracked && nr < end; nr++)
		put(l, slot, nr, version_of(nr) + 1);
	/* Others meet the write while it is in flight. */
	if (!get_random_u32_below(8))
		usleep_range(50, 500);
	for (nr = first; arrives && nr < end; nr++)
		WRITE_ONCE(origin.version[nr], version_of(nr) + 1);
	if (tracked)
		rxc_index_end_write(l->c.index, block, ok);
	else
		rxc_index_end_range(l->c.index, &range);
	for (nr = first; ok && nr < end; nr++) {
		/* Pairs with the acquire in hit(). */
		smp_store_release(&origin.done[nr], version_of(nr));
	}
	clear_bit_unlock(block, origin.busy);
	atomic_add(tracked, &l->writes);
out:
	up_read(&l->io);
	cond_resched();
}

static void read(struct lender *l)
{
	u64 block = get_random_u32_below(RACE_BLOCKS);

	down_read(&l->io);
	if (!hit_slowly(l, block, get_random_u32_below(2) ? 0 : 2))
		fill(l, block);
	up_read(&l->io);
	cond_resched();
}

static int race_reads(void *arg)
{
	while (!kthread_should_stop())
		read(arg);
	return 0;
}

static int race_io(void *arg)
{
	while (!kthread_should_stop()) {
		if (get_random_u32_below(4))
			read(arg);
		else
			write(arg, get_random_u32_below(RACE_BLOCKS));
	}
	return 0;
}

static int race_drop(void *arg)
{
	struct lender *l = arg;

	while (!kthread_should_stop()) {
		usleep_range(1000, 20000);
		down_read(&l->io);
		rxc_index_drop(l->c.index, get_random_u32_below(RACE_BLOCKS),
			       get_random_u32_below(SLOTS / 8));
		up_read(&l->io);
		atomic_inc(&l->drops);
	}
	return 0;
}

static int race_reclaim(void *arg)
{
	struct lender *l = arg;
	unsigned long nr;

	while (!kthread_should_stop()) {
		usleep_range(200, 5000);
		test_count();
		nr = get_random_u32_below(16) ? test_scan(get_random_u32_below(2048), NULL) :
						test_oom();
		if (nr && nr != SHRINK_STOP)
			atomic_inc(&l->gifts);
	}
	return 0;
}

static int race_early(void *arg)
{
	while (!kthread_should_stop()) {
		usleep_range(200, 5000);
		test_early();
	}
	return 0;
}

static int race_memory(void *arg)
{
	while (!kthread_should_stop()) {
		usleep_range(5000, 50000);
		WRITE_ONCE(test_machine.is_full, get_random_u32_below(2));
	}
	WRITE_ONCE(test_machine.is_full, false);
	return 0;
}

/* In place of messages. */
static int race_resize(void *arg)
{
	struct lender *l = arg;
	unsigned long least;

	while (!kthread_should_stop()) {
		usleep_range(1000, 20000);
		down_read(&l->c.message_lock);
		down_read(&l->c.index_lock);
		least = get_random_u32_inclusive(LEAST, SLOTS / 2);
		if (get_random_u32_below(2))
			rxc_limit_set_min(&l->c, least * BLOCK_BYTES);
		else
			rxc_limit_set(&l->c, (SLOTS - least) * BLOCK_BYTES);
		up_read(&l->c.index_lock);
		up_read(&l->c.message_lock);
		test_compare();
		atomic_inc(&l->changes);
	}
	return 0;
}

static int race_trim(void *arg)
{
	struct lender *l = arg;

	while (!kthread_should_stop()) {
		usleep_range(200, 2000);
		rxc_limit_resume(&l->c);
	}
	return 0;
}

static bool is_consistent(struct lender *l)
{
	bool is;

	spin_lock(&l->c.limit_lock);
	is = !l->c.size || l->c.min_size <= l->c.size;
	spin_unlock(&l->c.limit_lock);
	return is;
}

/* Each of the two messages is refused if the other one came first. */
static int race_sizes(void *arg)
{
	struct lender *l = arg;

	while (!kthread_should_stop()) {
		down_read(&l->c.index_lock);
		if (get_random_u32_below(2)) {
			rxc_limit_set(&l->c, 2 * MINIMUM * BLOCK_BYTES);
			atomic_add(!is_consistent(l), &l->wrong);
			rxc_limit_set(&l->c, 0);
		} else {
			rxc_limit_set_min(&l->c, 3 * MINIMUM * BLOCK_BYTES);
			atomic_add(!is_consistent(l), &l->wrong);
			rxc_limit_set_min(&l->c, MINIMUM * BLOCK_BYTES);
		}
		up_read(&l->c.index_lock);
		atomic_inc(&l->changes);
		cond_resched();
	}
	return 0;
}

/* Another table takes over, which is asked for what was lent, and then this one again. */
static void race_tables(struct lender *l)
{
	struct lender *next = l->next;

	take_over(next, l);
	usleep_range(200, 2000);
	WRITE_ONCE(next->c.suspended, true);
	rxc_limit_suspend(&next->c);
	take_over(l, next);
	WRITE_ONCE(next->c.suspended, false);
}

/* The larger index gets the blocks, or they leave the cache. */
static void race_indices(struct lender *l, struct rxc_index *index)
{
	bool is_larger = rxc_index_nr_slots(index) > rxc_index_nr_slots(l->c.index);
	struct rxd_moves moves;

	if (is_larger && !rxd_store_begin_moves(&moves, l->c.store)) {
		rxc_index_take_over(index, l->c.index, &moves);
		rxd_store_end_moves(&moves);
		atomic_inc(&l->growths);
	} else {
		rxd_store_clear(l->c.store);
	}
	rxc_index_destroy(l->c.index);
	l->c.index = index;
}

/* As a suspension and a resume, sometimes of another table, or with a new index. */
static int race_suspend(void *arg)
{
	struct lender *l = arg;
	struct rxc_index *index;
	unsigned long nr_pages;

	while (!kthread_should_stop()) {
		usleep_range(5000, 50000);
		/* The RAM disk grows while the cache is in use. */
		nr_pages = rxd_store_nr_pages(l->c.store) + GROWTH;
		if (get_random_u32_below(2) && nr_pages <= 2 * SLOTS * BLOCK_PAGES)
			rxd_store_grow(l->c.store, nr_pages);
		WRITE_ONCE(l->c.suspended, true);
		down_write(&l->io);
		rxc_limit_suspend(&l->c);
		index = rxc_index_is_outgrown(l->c.index) || !get_random_u32_below(4) ?
			rxc_index_create(l->c.store, BLOCK_PAGES, l->c.stats) : NULL;
		down_write(&l->c.message_lock);
		if (get_random_u32_below(2))
			race_tables(l);
		down_write(&l->c.index_lock);
		if (get_random_u32_below(2))
			rxc_limit_end(&l->c);
		if (!IS_ERR_OR_NULL(index))
			race_indices(l, index);
		rxc_limit_begin(&l->c);
		up_write(&l->c.index_lock);
		up_write(&l->c.message_lock);
		WRITE_ONCE(l->c.suspended, false);
		rxc_limit_resume(&l->c);
		up_write(&l->io);
		atomic_inc(&l->changes);
	}
	return 0;
}

/* When nobody writes, a cached block has the data of the origin, also if a write has failed. */
static bool is_like_origin(struct lender *l, u64 block)
{
	long slot = rxc_index_find(l->c.index, block);
	u64 nr = block * BLOCK_PAGES;
	struct page *page;
	bool right = true;
	unsigned int i;

	/* The limit may still evict. */
	rcu_read_lock();
	for (i = 0; slot >= 0 && i < BLOCK_PAGES && right; i++, nr++) {
		page = rxc_index_hit_page(l->c.index, slot, block, i);
		right = !page || is_right(page, nr, version_of(nr), version_of(nr));
	}
	rcu_read_unlock();
	return right;
}

static void expect_right(struct kunit *test, struct lender *l)
{
	u64 block;

	for (block = 0; block < RACE_BLOCKS; block++) {
		hit(l, block);
		KUNIT_EXPECT_TRUE(test, is_like_origin(l, block));
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&l->wrong), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&l->fills), 100);
	KUNIT_EXPECT_GT(test, atomic_read(&l->hits), 100);
	KUNIT_EXPECT_GT(test, atomic_read(&l->gifts), 10);
	kunit_info(test,
		   "%d fills, %d hits, %d cut, %d writes, %d drops, %d gifts, %d changes, %d growths, %llu given, %llu taken",
		   atomic_read(&l->fills), atomic_read(&l->hits), atomic_read(&l->cut),
		   atomic_read(&l->writes), atomic_read(&l->drops), atomic_read(&l->gifts),
		   atomic_read(&l->changes), atomic_read(&l->growths), stat(l, RXC_GIVEN),
		   stat(l, RXC_TAKEN));
}

/* Several tasks that reclaim leave the cache its minimum. */
static void race_for_the_minimum(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	unsigned long least = SLOTS;
	struct crew crew = {};
	unsigned int i;

	take_all(l);
	/* A write that fails takes a block out, even at the minimum. */
	crew_add(test, &crew, race_reads, l);
	crew_add(test, &crew, race_memory, l);
	crew_add(test, &crew, race_reclaim, l);
	crew_add(test, &crew, race_reclaim, l);
	crew_add(test, &crew, race_reclaim, l);
	crew_add(test, &crew, race_early, l);
	crew_add(test, &crew, race_trim, l);
	for (i = 0; i < 1000; i++) {
		least = min(least, used(l));
		usleep_range(500, 1500);
	}
	crew_run(&crew, 500);
	/* A fill may evict a block of another set before its own enters. */
	KUNIT_EXPECT_GE(test, least, MINIMUM - 1);
	KUNIT_EXPECT_GE(test, used(l), MINIMUM);
	expect_right(test, l);
}

static void race_of_messages(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM);
	struct crew crew = {};
	unsigned int i;

	for (i = 0; i < 4; i++)
		crew_add(test, &crew, race_sizes, l);
	crew_run(&crew, 1000);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->wrong), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&l->changes), 100);
}

static void race_with_all(struct kunit *test)
{
	struct lender *l = make(test, MINIMUM), *other = make(test, MINIMUM);
	struct crew crew = {};

	l->next = make_empty(test, MINIMUM);
	take_all(other);
	crew_add(test, &crew, race_io, l);
	crew_add(test, &crew, race_io, l);
	crew_add(test, &crew, race_drop, l);
	crew_add(test, &crew, race_memory, l);
	crew_add(test, &crew, race_reclaim, l);
	crew_add(test, &crew, race_reclaim, l);
	crew_add(test, &crew, race_early, l);
	crew_add(test, &crew, race_resize, l);
	crew_add(test, &crew, race_suspend, l);
	crew_run(&crew, 5000);
	expect_right(test, l);
	KUNIT_EXPECT_GT(test, atomic_read(&l->changes), 10);
	KUNIT_EXPECT_GT(test, atomic_read(&l->writes), 100);
	KUNIT_EXPECT_GT(test, atomic_read(&l->growths), 3);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->next->wrong), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&l->drops), 10);
}

static void linger(void)
{
	usleep_range(50, 200);
}

/* Caches end while they give back, which takes long. */
static void race_of_ends(struct kunit *test)
{
	struct lender *other = make(test, MINIMUM), *l;
	unsigned long lent = 0;
	struct crew crew = {};
	unsigned int i;

	crew_add(test, &crew, race_reclaim, other);
	crew_add(test, &crew, race_reclaim, other);
	crew_add(test, &crew, race_early, other);
	test_limit.at_claim = linger;
	for (i = 0; i < 50 || (lent <= 10 * MINIMUM && i < 1000); i++) {
		l = make(test, MINIMUM);
		miss(l, 2 * MINIMUM);
		lent += rxc_limit_lent(&l->c);
		kunit_release_action(test, destroy, l);
	}
	crew_run(&crew, 1);
	KUNIT_EXPECT_GT(test, lent, 10 * MINIMUM);
	KUNIT_EXPECT_GT(test, atomic_read(&other->gifts), 10);
	KUNIT_EXPECT_EQ(test, test_count(), SHRINK_EMPTY);
}

static int lend_init(struct kunit *test)
{
	test_machine = (struct test_machine) {};
	test_limit = (struct test_limit) {};
	test_forget_gifts();
	return 0;
}

static int lend_suite_init(struct kunit_suite *suite)
{
	return rxd_store_init();
}

static void lend_suite_exit(struct kunit_suite *suite)
{
	/* What was lent is not counted any more. */
	WARN_ON_ONCE(test_count() != SHRINK_EMPTY);
	rxd_store_exit();
}

static struct kunit_case lend_cases[] = {
	KUNIT_CASE_SLOW(nothing_is_lent_without_a_minimum),
	KUNIT_CASE_SLOW(what_is_beyond_the_minimum_is_lent),
	KUNIT_CASE_SLOW(memory_of_other_drivers_is_not_usable),
	KUNIT_CASE(limit_rises_while_memory_is_free),
	KUNIT_CASE_SLOW(misses_go_round_the_cache),
	KUNIT_CASE_SLOW(trim_spares_what_is_given),
	KUNIT_CASE_SLOW(drop_beside_a_gift),
	KUNIT_CASE_SLOW(blocks_in_use_are_not_given),
	KUNIT_CASE_SLOW(unused_claims_end),
	KUNIT_CASE_SLOW(claims_are_small),
	KUNIT_CASE_SLOW(misses_do_not_wait_for_the_limit),
	KUNIT_CASE_SLOW(pages_are_free_when_reclaim_is_told),
	KUNIT_CASE_SLOW(gives_down_to_the_minimum),
	KUNIT_CASE_SLOW(oom_gets_all_in_the_end),
	KUNIT_CASE_SLOW(page_cache_is_reclaimed_first),
	KUNIT_CASE_SLOW(page_stays_while_it_is_read),
	KUNIT_CASE_SLOW(nothing_is_given_while_memory_is_free),
	KUNIT_CASE_SLOW(tasks_make_progress),
	KUNIT_CASE(enough_for_machines),
	KUNIT_CASE_SLOW(page_cache_that_moves),
	KUNIT_CASE_SLOW(nothing_is_given_from_an_index_that_is_replaced),
	KUNIT_CASE_SLOW(idle_cache_gives_first),
	KUNIT_CASE_SLOW(next_table_goes_on),
	KUNIT_CASE_SLOW(nothing_is_lent_after_the_end),
	KUNIT_CASE_SLOW(sizes_move),
	KUNIT_CASE(bad_minimum),
	KUNIT_CASE_SLOW(race_for_the_minimum),
	KUNIT_CASE_SLOW(race_of_messages),
	KUNIT_CASE_SLOW(race_with_all),
	KUNIT_CASE_SLOW(race_of_ends),
	{}
};

static struct kunit_suite lend_suite = {
	.name = "rxcache_lend",
	.init = lend_init,
	.suite_init = lend_suite_init,
	.suite_exit = lend_suite_exit,
	.test_cases = lend_cases,
};

kunit_test_suite(lend_suite);

MODULE_DESCRIPTION("KUnit tests of caches that are lent memory");
MODULE_LICENSE("GPL");
