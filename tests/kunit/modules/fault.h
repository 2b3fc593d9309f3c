/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Make one allocation of this task fail, selected by its number. The kernel must count all
 * allocations: fail_page_alloc/min-order is 0, and ignore-gfp-wait is off there and in
 * failslab.
 */
#ifndef RXD_KUNIT_FAULT_H
#define RXD_KUNIT_FAULT_H

#include <linux/gfp.h>
#include <linux/sched.h>
#include <linux/slab.h>

/* More allocations than any function under test makes. */
#define FAULT_MAX	64

static inline void fault_begin(unsigned int nth)
{
	WRITE_ONCE(current->fail_nth, nth);
}

/* Return: true if an allocation has failed since fault_begin(). */
static inline bool fault_end(void)
{
	return !xchg(&current->fail_nth, 0);
}

/* Return: 0, or -EOPNOTSUPP if the kernel does not count all allocations. */
static inline int fault_check(void)
{
	void *obj, *page;

	fault_begin(1);
	obj = kmalloc(32, GFP_KERNEL);
	fault_end();
	kfree(obj);

	fault_begin(1);
	page = (void *)__get_free_page(GFP_KERNEL);
	fault_end();
	free_page((unsigned long)page);

	return obj || page ? -EOPNOTSUPP : 0;
}

#endif /* RXD_KUNIT_FAULT_H */
