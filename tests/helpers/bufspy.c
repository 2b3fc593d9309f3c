// SPDX-License-Identifier: GPL-2.0-only
/*
 * What direct I/O does to a buffer, and what a buffer does to direct I/O.
 *
 *	bufspy read FILE SIZE LENGTH
 *		read all SIZE bytes of FILE in pieces of LENGTH, while another
 *		thread writes over the buffer
 *	bufspy write FILE SIZE LENGTH
 *		the same for writes
 *	bufspy watch FILE SIZE SECONDS
 *		stamp the blocks of FILE, then read the even ones into one buffer
 *		and the odd ones into others, and look at the first all the time:
 *		it must never hold anything but zeroes and bytes of even blocks
 *	bufspy churn FILE SIZE SECONDS
 *		the same, while every other odd block is discarded and written, whole
 *		and in part, over and over
 *
 *	bufspy fresh FILE SIZE SECONDS
 *		write single sectors of a fresh FILE and discard it in parts, while
 *		another reads it, and look at the reader's buffer all the time: it must
 *		never hold anything but zeroes and bytes of the mark that was written.
 *		FILE may shrink and grow meanwhile. SIGTERM ends it before its time.
 *
 * Exit status: 0: done, nothing found; 1: found; 2: could not run.
 */
#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "helper.h"

#define SCRIBBLE	0xEEEEEEEEEEEEEEEEULL
#define EVEN_MARK	0x40
#define ODD_MARK	0x80
#define EVERY_BYTE	0x0101010101010101ULL
#define NR_OTHERS	3
#define FRESH_MARK	0x01
#define FRESH_BLOCKS	32	/* the longest read */

static int fd;
static unsigned long nr_blocks;
static atomic_uint_fast64_t *buffer;	/* other threads read or change it meanwhile */
static size_t buffer_words;
static atomic_bool all_over;
static atomic_ulong passes;
static atomic_ulong reads;
static bool churning;

static void *scribble(void *unused)
{
	uint64_t value = SCRIBBLE;
	size_t i;

	(void)unused;
	while (!atomic_load(&all_over)) {
		for (i = 0; i < buffer_words; i++)
			atomic_store_explicit(&buffer[i], value, memory_order_relaxed);
		value += EVERY_BYTE;
		atomic_fetch_add(&passes, 1);
	}
	return NULL;
}

static pthread_t start(void *(*function)(void *), void *arg)
{
	pthread_t thread;

	errno = pthread_create(&thread, NULL, function, arg);
	if (errno)
		err(EXIT_BROKEN, "thread");
	return thread;
}

static void set_buffer(size_t size)
{
	buffer = alloc_buffer(size);
	buffer_words = size / sizeof(*buffer);
	memset((void *)buffer, 0, size);
}

static int scribbled_io(bool write, unsigned long size, unsigned long length)
{
	unsigned long ios = 0, before, during = 0;
	pthread_t scribbler;
	unsigned long pos;
	ssize_t done;

	set_buffer(length);
	scribbler = start(scribble, NULL);
	for (pos = 0; pos + length <= size; pos += length) {
		before = atomic_load(&passes);
		done = write ? pwrite(fd, (void *)buffer, length, pos) :
			       pread(fd, (void *)buffer, length, pos);
		if (done < 0)
			err(EXIT_FOUND, "%s at %lu", write ? "write" : "read", pos);
		if ((unsigned long)done != length)
			errx(EXIT_FOUND, "%zd of %lu bytes at %lu", done, length, pos);
		during += atomic_load(&passes) != before;
		ios++;
	}
	atomic_store(&all_over, true);
	pthread_join(scribbler, NULL);
	printf("ios %lu scribbled %lu\n", ios, during);
	return 0;
}

static uint8_t mark(unsigned long block)
{
	return block % 2 ? ODD_MARK | (block / 2 % 0x80) : EVEN_MARK | (block / 2 % 0x40);
}

static void stamp_blocks(void)
{
	uint8_t *block = alloc_buffer(BLOCK);
	unsigned long i;

	for (i = 0; i < nr_blocks; i++) {
		memset(block, mark(i), BLOCK);
		if (pwrite(fd, block, BLOCK, i * BLOCK) != BLOCK)
			err(EXIT_BROKEN, "stamp block %lu", i);
	}
	free(block);
}

static void read_block(void *to, unsigned long block)
{
	ssize_t done = pread(fd, to, BLOCK, block * BLOCK);

	if (done != BLOCK)
		err(EXIT_FOUND, "read of block %lu: %zd", block, done);
	if (*(uint8_t *)to != mark(block) || memcmp(to, (uint8_t *)to + 1, BLOCK - 1))
		errx(EXIT_FOUND, "block %lu holds wrong data", block);
	atomic_fetch_add(&reads, 1);
}

static void *read_odd(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	void *other = alloc_buffer(BLOCK);

	while (!atomic_load(&all_over)) {
		if (churning)
			read_block(other, random_next(&random) % (nr_blocks / 4) * 4 + 1);
		else
			read_block(other, random_next(&random) % (nr_blocks / 2) * 2 + 1);
	}
	free(other);
	return NULL;
}

static void *churn_odd(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	uint8_t *other = alloc_buffer(BLOCK);
	unsigned long block;
	uint64_t range[2];
	size_t len;

	while (!atomic_load(&all_over)) {
		block = random_next(&random) % (nr_blocks / 4) * 4 + 3;
		range[0] = block * BLOCK;
		range[1] = BLOCK;
		if (ioctl(fd, BLKDISCARD, range))
			err(EXIT_BROKEN, "discard of block %lu", block);
		len = random_next(&random) % 2 ? BLOCK : SECTOR;
		memset(other, mark(block), BLOCK);
		if (pwrite(fd, other, len, range[0]) != (ssize_t)len)
			err(EXIT_FOUND, "write of block %lu", block);
		if (pread(fd, other, BLOCK, range[0]) != BLOCK || other[0] != mark(block))
			errx(EXIT_FOUND, "block %lu does not hold what was written", block);
		if (len < BLOCK && other[BLOCK - 1])
			errx(EXIT_FOUND, "block %lu holds what was discarded", block);
		/* It was just read, so it is probably cached. */
		if (ioctl(fd, BLKDISCARD, range))
			err(EXIT_BROKEN, "discard of block %lu", block);
		atomic_fetch_add(&passes, 1);
	}
	free(other);
	return NULL;
}

static void *read_even(void *arg)
{
	uint64_t random = (uintptr_t)arg;

	while (!atomic_load(&all_over)) {
		read_block((void *)buffer, random_next(&random) % (nr_blocks / 2) * 2);
		memset((void *)buffer, 0, BLOCK);
	}
	return NULL;
}

static int watch(unsigned int seconds)
{
	unsigned int nr = 0;
	pthread_t threads[NR_OTHERS + 2];
	struct timespec begin, now;
	unsigned long looks = 0;
	uint64_t word, marked;
	size_t i;

	set_buffer(BLOCK);
	stamp_blocks();
	for (; nr < NR_OTHERS; nr++)
		threads[nr] = start(read_odd, (void *)(uintptr_t)(nr + 1));
	if (churning) {
		threads[nr] = start(churn_odd, (void *)(uintptr_t)(nr + 1));
		nr++;
	}
	threads[nr] = start(read_even, (void *)(uintptr_t)(nr + 1));
	nr++;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (i = 0; i < buffer_words; i++) {
			word = atomic_load_explicit(&buffer[i], memory_order_relaxed);
			/* Bytes with the even mark may have any low bits. */
			marked = word >> 6 & EVERY_BYTE;
			if (word & ~(marked * 0x7F))
				errx(EXIT_FOUND, "foreign bytes in the buffer: 0x%016llx",
				     (unsigned long long)word);
		}
		looks++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec < (time_t)seconds);

	atomic_store(&all_over, true);
	while (nr)
		pthread_join(threads[--nr], NULL);
	printf("looks %lu reads %lu churned %lu\n", looks, atomic_load(&reads),
	       atomic_load(&passes));
	return 0;
}

/* Beyond the end of a disk that shrinks, a read is short or fails with EIO. */
static void check_fresh(const char *what, ssize_t done)
{
	if (done < 0 && errno != EIO && errno != ENOSPC && errno != EINVAL &&
	    errno != EOPNOTSUPP)
		err(EXIT_FOUND, "%s", what);
	if (done > 0)
		atomic_fetch_add(&reads, 1);
}

static void *write_fresh(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	void *sector = alloc_buffer(BLOCK);
	unsigned long pos;

	memset(sector, FRESH_MARK, BLOCK);
	while (!atomic_load(&all_over)) {
		pos = random_next(&random) % (nr_blocks * (BLOCK / SECTOR));
		check_fresh("write", pwrite(fd, sector, SECTOR, pos * SECTOR));
	}
	free(sector);
	return NULL;
}

static void *discard_fresh(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	uint64_t range[2];

	while (!atomic_load(&all_over)) {
		range[0] = random_next(&random) % nr_blocks * BLOCK;
		range[1] = (1 + random_next(&random) % FRESH_BLOCKS) * BLOCK;
		check_fresh("discard", ioctl(fd, BLKDISCARD, range));
	}
	return NULL;
}

static void *read_fresh(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	unsigned long count, pos;

	while (!atomic_load(&all_over)) {
		count = 1 + random_next(&random) % FRESH_BLOCKS;
		pos = random_next(&random) % nr_blocks;
		check_fresh("read", pread(fd, (void *)buffer, count * BLOCK, pos * BLOCK));
	}
	return NULL;
}

static void end_early(int signal)
{
	(void)signal;
	atomic_store(&all_over, true);
}

static int watch_fresh(unsigned int seconds)
{
	void *(*const work[NR_OTHERS])(void *) = { write_fresh, discard_fresh, read_fresh };
	pthread_t threads[NR_OTHERS];
	struct timespec begin, now;
	unsigned long looks = 0;
	uint64_t word;
	size_t i;

	signal(SIGTERM, end_early);
	puts("ready");
	fflush(stdout);
	set_buffer(FRESH_BLOCKS * BLOCK);
	for (i = 0; i < NR_OTHERS; i++)
		threads[i] = start(work[i], (void *)(i + 1));

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (i = 0; i < buffer_words; i++) {
			word = atomic_load_explicit(&buffer[i], memory_order_relaxed);
			if (word & ~(FRESH_MARK * EVERY_BYTE))
				errx(EXIT_FOUND, "old memory in the buffer: 0x%016llx",
				     (unsigned long long)word);
		}
		looks++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (!atomic_load(&all_over) && now.tv_sec - begin.tv_sec < (time_t)seconds);

	atomic_store(&all_over, true);
	for (i = 0; i < NR_OTHERS; i++)
		pthread_join(threads[i], NULL);
	printf("looks %lu ios %lu\n", looks, atomic_load(&reads));
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long size, last;

	if (argc != 5)
		errx(EXIT_BROKEN,
		     "usage: bufspy read|write|watch|churn|fresh FILE SIZE LENGTH|SECONDS");
	size = parse("size", argv[3], 2 * BLOCK, 1UL << 40);
	nr_blocks = size / BLOCK;
	last = parse("length or seconds", argv[4], 1, 1 << 20);

	if (!strcmp(argv[1], "read")) {
		fd = open_direct(argv[2], O_RDONLY);
		return scribbled_io(false, size, last);
	}
	fd = open_direct(argv[2], O_RDWR);
	if (!strcmp(argv[1], "write"))
		return scribbled_io(true, size, last);
	churning = !strcmp(argv[1], "churn");
	if (churning || !strcmp(argv[1], "watch"))
		return watch(last);
	if (!strcmp(argv[1], "fresh"))
		return watch_fresh(last);
	errx(EXIT_BROKEN, "'%s': must be read, write, watch, churn or fresh", argv[1]);
}
