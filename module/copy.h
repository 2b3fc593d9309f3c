/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies of many pages. The processor's own prefetching stops at the end of each
 * page of memory, and does not fetch what is to be overwritten: asking for a line
 * some way ahead saves a tenth to a quarter of a long copy. tests/bench/copy
 * measures this and what was left out; Documentation/design.rst has the figures.
 */
#ifndef RXD_COPY_H
#define RXD_COPY_H

#include <linux/align.h>
#include <linux/prefetch.h>
#include <linux/string.h>

/* How far ahead to ask for what is read or overwritten, in bytes. */
#define RXD_COPY_AHEAD	2048

/* What one step of a copy moves, in bytes: a cache line on most machines. */
#define RXD_COPY_STEP	64

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
 * rxd_copy_out - copy a part of a long read
 * @dst: where to copy to
 * @src: the data of the disk
 * @len: bytes
 * @next: the data of the disk that is copied next, or NULL
 */
static inline void rxd_copy_out(void *dst, const void *src, unsigned int len,
				const void *next)
{
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
 * rxd_copy_in - copy a part of a long write
 * @dst: the data of the disk
 * @src: where to copy from
 * @len: bytes
 * @next: the data of the disk that is overwritten next, or NULL
 */
static inline void rxd_copy_in(void *dst, const void *src, unsigned int len, void *next)
{
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
