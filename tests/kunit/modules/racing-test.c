// SPDX-License-Identifier: GPL-2.0-only
/*
 * Intentional races, each in separate functions. KCSAN must report each of them: otherwise
 * it would not find races of the drivers either. tests/kcsan/run looks for the reports.
 * The name of the module must not contain "csan_", because KCSAN skips such stack frames.
 */
#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/compiler.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "../module/copy.h"
#include "crew.h"

#define RACE_MSECS	2000

static unsigned long shared;
static unsigned long published;
static unsigned long lock;
static u8 data[SZ_4K];

static noinline void racing_increment(void)
{
	shared++;
}

static noinline void racing_copy(void *buf)
{
	rxd_copy(buf, data, sizeof(data));
}

static noinline void racing_write(void)
{
	data[sizeof(data) / 2]++;
}

/* This is correct on x86. Only the weak memory model that KCSAN emulates shows the race. */
static noinline void racing_release(void)
{
	unsigned int i;

	if (cmpxchg_acquire(&lock, 0, 1))
		return;
	for (i = 0; i < 100; i++) {
		published++;
		barrier();
	}
	WRITE_ONCE(lock, 0);
	/* KCSAN performs a delayed write at one of the next accesses of this function. */
	for (i = 0; i < 100; i++)
		READ_ONCE(lock);
}

static int increment_until_stopped(void *unused)
{
	while (!kthread_should_stop()) {
		racing_increment();
		cond_resched();
	}
	return 0;
}

static int copy_until_stopped(void *buf)
{
	while (!kthread_should_stop()) {
		racing_copy(buf);
		cond_resched();
	}
	return 0;
}

static int write_until_stopped(void *unused)
{
	while (!kthread_should_stop()) {
		racing_write();
		cond_resched();
	}
	return 0;
}

static int release_until_stopped(void *unused)
{
	while (!kthread_should_stop()) {
		racing_release();
		cond_resched();
	}
	return 0;
}

static void two_increments(struct kunit *test)
{
	struct crew crew = {};

	crew_add(test, &crew, increment_until_stopped, NULL);
	crew_add(test, &crew, increment_until_stopped, NULL);
	crew_run(&crew, RACE_MSECS);
}

static void copy_beside_write(struct kunit *test)
{
	void *buf = kunit_kmalloc(test, sizeof(data), GFP_KERNEL);
	struct crew crew = {};

	KUNIT_ASSERT_NOT_NULL(test, buf);
	crew_add(test, &crew, copy_until_stopped, buf);
	crew_add(test, &crew, write_until_stopped, NULL);
	crew_run(&crew, RACE_MSECS);
}

static void unlock_without_release(struct kunit *test)
{
	struct crew crew = {};

	crew_add(test, &crew, release_until_stopped, NULL);
	crew_add(test, &crew, release_until_stopped, NULL);
	crew_run(&crew, RACE_MSECS);
}

static struct kunit_case racing_cases[] = {
	KUNIT_CASE(two_increments),
	KUNIT_CASE(copy_beside_write),
	KUNIT_CASE(unlock_without_release),
	{}
};

static struct kunit_suite racing_suite = {
	.name = "racing",
	.test_cases = racing_cases,
};

kunit_test_suite(racing_suite);

MODULE_DESCRIPTION("Races that KCSAN must find");
MODULE_LICENSE("GPL");
