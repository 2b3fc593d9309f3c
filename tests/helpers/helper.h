/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the helpers share: O_DIRECT files, aligned buffers, and a way out.
 */
#ifndef _RXD_TEST_HELPER_H
#define _RXD_TEST_HELPER_H

#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define EXIT_FOUND	1	/* the fault that the test looks for was found */
#define EXIT_BROKEN	2	/* the test could not be done */

#define __noreturn	__attribute__((noreturn))
#define __printf(a, b)	__attribute__((format(printf, a, b)))

#define SECTOR	512
#define BLOCK	4096

static inline int open_direct(const char *path, int flags)
{
	int fd = open(path, flags | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		err(EXIT_BROKEN, "%s", path);
	return fd;
}

static inline void *alloc_buffer(size_t size)
{
	void *buffer = aligned_alloc(BLOCK, (size + BLOCK - 1) / BLOCK * BLOCK);

	if (!buffer)
		errx(EXIT_BROKEN, "no memory for a buffer of %zu bytes", size);
	return buffer;
}

static inline unsigned long parse(const char *what, const char *text, unsigned long min,
				  unsigned long max)
{
	unsigned long value;
	char *end;

	value = strtoul(text, &end, 10);
	if (!*text || *end || value < min || value > max)
		errx(EXIT_BROKEN, "%s '%s': must be a number from %lu to %lu", what, text, min,
		     max);
	return value;
}

/* xorshift64*: the same sequence everywhere, without a lock. */
static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545F4914F6CDD1DULL;
}

#endif /* _RXD_TEST_HELPER_H */
