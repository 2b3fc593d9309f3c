/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies between a disk's pages and a buffer: the kernel's own, which knows the processor,
 * and what KCSAN is to be told of them.
 */
#ifndef RXD_COPY_H
#define RXD_COPY_H

#include <linux/compiler.h>
#include <linux/kcsan-checks.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/string.h>

/*
 * Tell KCSAN of an access to data, since it does not see what memcpy() does. Data that
 * is in sight is accessed as if each were a READ_ONCE() or WRITE_ONCE(): two copies of
 * one place do not race, but a copy races with who fills a page that should be in
 * nobody's sight yet, which is a plain access.
 */
static inline void rxd_check_access(const void *data, unsigned int len, int type)
{
	unsigned int part;

	if (!IS_ENABLED(CONFIG_KCSAN))
		return;
	/* It watches little more than a page at once. */
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
 * @dst: where to copy to
 * @src: where to copy from
 * @len: bytes
 *
 * Others may read or write the same place at once, and the owner of a buffer may change
 * it meanwhile: what arrives then is a mix of old and new data, as from any disk.
 */
static inline void rxd_copy(void *dst, const void *src, unsigned int len)
{
	rxd_check_read(src, len);
	rxd_check_write(dst, len);
	/* With a bound in sight, the compiler would make a copy of its own of it. */
	OPTIMIZER_HIDE_VAR(len);
	/* Readers and writers of the same place are not kept apart. */
	data_race(memcpy(dst, src, len));
}

/**
 * rxd_copy_zeroes - zero data of a disk
 * @data: the data of the disk
 * @len: bytes
 */
static inline void rxd_copy_zeroes(void *data, unsigned int len)
{
	rxd_check_write(data, len);
	/* Beside reads and writes of the same place, as rxd_copy(). */
	data_race(memset(data, 0, len));
}

#endif /* RXD_COPY_H */
