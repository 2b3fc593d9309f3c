/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies between the pages of a disk and a buffer. They use the kernel's memcpy(), which is
 * adapted to the processor, and report their accesses to KCSAN.
 */
#ifndef RXD_COPY_H
#define RXD_COPY_H

#include <linux/compiler.h>
#include <linux/kcsan-checks.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/string.h>

/*
 * Report an access to data to KCSAN, which does not see the accesses of memcpy(). Copies
 * count as atomic accesses, such as READ_ONCE(), so two copies of one place are no race.
 * Filling a new page is a plain access: it races with a copy that sees the page too early.
 */
static inline void rxd_check_access(const void *data, unsigned int len, int type)
{
	unsigned int part;

	if (!IS_ENABLED(CONFIG_KCSAN))
		return;
	/* KCSAN cannot watch much more than a page at a time. */
	for (; len; data += part, len -= part) {
		part = min_t(unsigned int, len, PAGE_SIZE);
		kcsan_check_access(data, part, type);
	}
}

static inline void rxd_check_read(const void *data, unsigned int len)
{
	rxd_check_access(data, len, KCSAN_ACCESS_ATOMIC);
}

static inline void rxd_check_write(const void *data, unsigned int len)
{
	rxd_check_access(data, len, KCSAN_ACCESS_ATOMIC | KCSAN_ACCESS_WRITE);
}

/**
 * rxd_copy - copy data to or from a disk
 * @dst: the destination
 * @src: the source
 * @len: number of bytes
 *
 * Other tasks may access the same place at the same time, and the owner of a buffer may
 * change it meanwhile. The result is then a mix of old and new data, as with any disk.
 */
static inline void rxd_copy(void *dst, const void *src, unsigned int len)
{
	rxd_check_read(src, len);
	rxd_check_write(dst, len);
	/* If the compiler knew a bound of the length, it would not call memcpy(). */
	OPTIMIZER_HIDE_VAR(len);
	/* Accesses to the same place are not serialised: the result is a mix, as said above. */
	data_race(memcpy(dst, src, len));
}

/**
 * rxd_copy_zeroes - zero data of a disk
 * @data: the data of the disk
 * @len: number of bytes
 */
static inline void rxd_copy_zeroes(void *data, unsigned int len)
{
	rxd_check_write(data, len);
	/* Accesses to the same place are not serialised: a reader gets old data, zeros, or both. */
	data_race(memset(data, 0, len));
}

#endif /* RXD_COPY_H */
