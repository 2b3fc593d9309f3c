/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that use the same object in parallel until they are told to stop.
 */
#ifndef RXD_KUNIT_CREW_H
#define RXD_KUNIT_CREW_H

#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched.h>

#define CREW_MAX	10

/**
 * struct crew - threads that run in parallel
 * @nr: number of threads
 * @thread: the threads
 */
struct crew {
	unsigned int nr;
	struct task_struct *thread[CREW_MAX];
};

/* Start a thread that runs @fn, which may sleep, until kthread_should_stop(). */
static inline void crew_add(struct kunit *test, struct crew *crew,
			    int (*fn)(void *), void *arg)
{
	struct task_struct *thread = ERR_PTR(-ENOSPC);

	if (crew->nr < CREW_MAX)
		thread = kthread_run(fn, arg, "%s/%u", test->name, crew->nr);
	if (IS_ERR(thread)) {
		KUNIT_FAIL(test, "no thread: %ld", PTR_ERR(thread));
		return;
	}
	crew->thread[crew->nr++] = thread;
}

static inline void crew_run(struct crew *crew, unsigned int msecs)
{
	msleep(msecs);
	while (crew->nr)
		kthread_stop(crew->thread[--crew->nr]);
}

#endif /* RXD_KUNIT_CREW_H */
