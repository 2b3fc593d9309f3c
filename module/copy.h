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
#include <linux/minmax.h>
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
	if (rxd_has_fast_move()) {
		/* A long copy is better off with the processor's own prefetching. */
		if (!next)
			rxd_move_ahead(src, len);
		rxd_fast_move(dst, src, len);
		return;
	}
	if (!next || !rxd_copy_in_steps(dst, src, len)) {
		memcpy(dst, src, len);
		return;
	}
	for (; len; len -= RXD_COPY_STEP) {
		if (len > RXD_COPY_AHEAD) {
			prefetch(src + RXD_COPY_AHEAD);
		} else {
			prefetch(next);
			next += RXD_COPY_STEP;
		}
		rxd_copy_step(dst, src);
		dst += RXD_COPY_STEP;
		src += RXD_COPY_STEP;
	}
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
	if (rxd_has_fast_move()) {
		rxd_fast_move(dst, src, len);
		return;
	}
	if (!next || !rxd_copy_in_steps(dst, src, len)) {
		memcpy(dst, src, len);
		return;
	}
	for (; len; len -= RXD_COPY_STEP) {
		if (len > RXD_COPY_AHEAD) {
			prefetchw(dst + RXD_COPY_AHEAD);
		} else {
			prefetchw(next);
			next += RXD_COPY_STEP;
		}
		rxd_copy_step(dst, src);
		dst += RXD_COPY_STEP;
		src += RXD_COPY_STEP;
	}
}

#endif /* RXD_COPY_H */
