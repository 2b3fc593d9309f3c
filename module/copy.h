/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies between a disk's pages and a buffer. tests/bench/copy measures the ways there
 * are and what was left out; Documentation/design.rst has the figures.
 *
 * Where the processor has fast short string moves (FSRM), one such move is the
 * fastest, as in the kernel's own memcpy(). Elsewhere the processor's prefetching
 * stops at the end of each page of memory, and does not fetch what is to be
 * overwritten: asking for a line some way ahead saves a tenth to a quarter of a long
 * copy.
 */
#ifndef RXD_COPY_H
#define RXD_COPY_H

#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/kcsan-checks.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/prefetch.h>
#include <linux/string.h>

#if defined(__x86_64__) && !defined(CONFIG_KASAN) && !defined(CONFIG_KMSAN)
#include <asm/cpufeature.h>

static inline bool rxd_has_fast_move(void)
{
	return boot_cpu_has(X86_FEATURE_FSRM);
}

/* User-Mode Linux patches no alternatives: its memcpy() is never this. */
static inline void rxd_fast_move(void *dst, const void *src, unsigned long len)
{
	asm volatile("rep movsb" : "+D" (dst), "+S" (src), "+c" (len) : : "memory");
}
#else
static inline bool rxd_has_fast_move(void)
{
	return false;
}

static inline void rxd_fast_move(void *dst, const void *src, unsigned long len)
{
	memcpy(dst, src, len);
}
#endif

/* How far ahead to ask for what is read or overwritten, in bytes. */
#define RXD_COPY_AHEAD	2048

/* What one step of a copy moves, in bytes: a cache line on most machines. */
#define RXD_COPY_STEP	64

/* How much to ask for before a fast move of a page of its own begins, in bytes. */
#define RXD_MOVE_AHEAD	4096

static inline void rxd_move_ahead(const void *src, unsigned int len)
{
	unsigned int i;

	len = min_t(unsigned int, len, RXD_MOVE_AHEAD);
	for (i = 0; i < len; i += RXD_COPY_STEP)
		prefetch(src + i);
}

static inline void rxd_copy_step(unsigned long *dst, const unsigned long *src)
{
	unsigned int i;

	for (i = 0; i < RXD_COPY_STEP / sizeof(*dst); i += 4) {
		unsigned long a = src[i], b = src[i + 1], c = src[i + 2], d = src[i + 3];

		dst[i] = a;
		dst[i + 1] = b;
		dst[i + 2] = c;
		dst[i + 3] = d;
	}
}

static inline bool rxd_copy_in_steps(const void *dst, const void *src, unsigned int len)
{
	return IS_ALIGNED((unsigned long)dst | (unsigned long)src, sizeof(unsigned long)) &&
	       IS_ALIGNED(len, RXD_COPY_STEP);
}

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

static inline void *rxd_move_out(void *dst, const void *src, unsigned int len,
				 const void *next)
{
	void *to = dst;

	if (rxd_has_fast_move()) {
		/* A long copy is better off with the processor's own prefetching. */
		if (!next)
			rxd_move_ahead(src, len);
		rxd_fast_move(dst, src, len);
		return dst;
	}
	if (!next || !rxd_copy_in_steps(dst, src, len))
		return memcpy(dst, src, len);
	for (; len; len -= RXD_COPY_STEP) {
		if (len > RXD_COPY_AHEAD) {
			prefetch(src + RXD_COPY_AHEAD);
		} else {
			prefetch(next);
			next += RXD_COPY_STEP;
		}
		rxd_copy_step(to, src);
		to += RXD_COPY_STEP;
		src += RXD_COPY_STEP;
	}
	return dst;
}

static inline void *rxd_move_in(void *dst, const void *src, unsigned int len, void *next)
{
	void *to = dst;

	if (rxd_has_fast_move()) {
		rxd_fast_move(dst, src, len);
		return dst;
	}
	if (!next || !rxd_copy_in_steps(dst, src, len))
		return memcpy(dst, src, len);
	for (; len; len -= RXD_COPY_STEP) {
		if (len > RXD_COPY_AHEAD) {
			prefetchw(to + RXD_COPY_AHEAD);
		} else {
			prefetchw(next);
			next += RXD_COPY_STEP;
		}
		rxd_copy_step(to, src);
		to += RXD_COPY_STEP;
		src += RXD_COPY_STEP;
	}
	return dst;
}

/**
 * rxd_copy_out - copy data of a disk to a reader
 * @dst: where to copy to
 * @src: the data of the disk
 * @len: bytes
 * @next: the data of the disk that is copied next, or NULL
 */
static inline void rxd_copy_out(void *dst, const void *src, unsigned int len,
				const void *next)
{
	rxd_check_read(src, len);
	rxd_check_write(dst, len);
	/* A reader beside a write gets a mix of old and new data, as from any disk. */
	data_race(rxd_move_out(dst, src, len, next));
}

/**
 * rxd_copy_in - copy data of a writer to a disk
 * @dst: the data of the disk
 * @src: where to copy from
 * @len: bytes
 * @next: the data of the disk that is overwritten next, or NULL
 */
static inline void rxd_copy_in(void *dst, const void *src, unsigned int len, void *next)
{
	rxd_check_read(src, len);
	rxd_check_write(dst, len);
	/*
	 * Others may read or write the same place at once, and the owner of the buffer
	 * may change it meanwhile: what the disk holds then is a mix, as on any disk.
	 */
	data_race(rxd_move_in(dst, src, len, next));
}

/**
 * rxd_copy_zeroes - zero data of a disk
 * @data: the data of the disk
 * @len: bytes
 */
static inline void rxd_copy_zeroes(void *data, unsigned int len)
{
	rxd_check_write(data, len);
	/* Beside reads and writes of the same place, as rxd_copy_in(). */
	data_race(memset(data, 0, len));
}

#endif /* RXD_COPY_H */
