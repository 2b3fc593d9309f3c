// SPDX-License-Identifier: GPL-2.0-only
/*
 * How to copy between a buffer and a RAM disk larger than the processor's caches.
 *
 * usage: copy [MIB]
 *
 * Copies blocks of 4 KiB, 64 KiB and 1 MiB out of random places of MIB mebibytes
 * (default 1024), and into them, page by page, in each of the ways below in turn,
 * and prints the median times by that of the plain copy: the loop of words that
 * the kernel's memcpy() is on processors without fast string moves. module/copy.h
 * has the winner of each direction.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE	4096u
#define LINE	64u
#define LARGEST	(1u << 20)
#define BUFFER	(64u << 20)

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* Copies a page; @next_dst and @next_src are what the next copy is about. */
typedef void copy_fn(char *dst, const char *src, const char *next_dst, const char *next_src);

static inline void step(char *dst, const char *src)
{
	unsigned long *to = (unsigned long *)dst;
	const unsigned long *from = (const unsigned long *)src;
	unsigned int i;

	for (i = 0; i < LINE / sizeof(*to); i += 4) {
		unsigned long a = from[i], b = from[i + 1], c = from[i + 2], d = from[i + 3];

		to[i] = a;
		to[i + 1] = b;
		to[i + 2] = c;
		to[i + 3] = d;
		/* Keep the compiler from making a call of memcpy() of it. */
		__asm__ volatile("" : : : "memory");
	}
}

static void words(char *dst, const char *src, const char *next_dst, const char *next_src)
{
	unsigned int i;

	(void)next_dst;
	(void)next_src;
	for (i = 0; i < PAGE; i += LINE)
		step(dst + i, src + i);
}

static void c_library(char *dst, const char *src, const char *next_dst, const char *next_src)
{
	(void)next_dst;
	(void)next_src;
	memcpy(dst, src, PAGE);
}

static inline const char *ahead(const char *at, const char *next, unsigned int i,
				unsigned int distance)
{
	return i + distance < PAGE ? at + i + distance : next + (i + distance - PAGE);
}

#define AHEAD(name, distance, side, write)						\
static void name(char *dst, const char *src, const char *next_dst, const char *next_src)	\
{											\
	unsigned int i;									\
											\
	(void)next_dst;									\
	(void)next_src;									\
	for (i = 0; i < PAGE; i += LINE) {						\
		__builtin_prefetch(ahead(side, next_##side, i, distance), write);	\
		step(dst + i, src + i);							\
	}										\
}

AHEAD(source_512, 512, src, 0)
AHEAD(source_1024, 1024, src, 0)
AHEAD(source_2048, 2048, src, 0)
AHEAD(target_512, 512, dst, 1)
AHEAD(target_1024, 1024, dst, 1)
AHEAD(target_2048, 2048, dst, 1)

#ifdef __x86_64__
static void string_move(char *dst, const char *src, const char *next_dst, const char *next_src)
{
	size_t len = PAGE;

	(void)next_dst;
	(void)next_src;
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
}

static void non_temporal(char *dst, const char *src, const char *next_dst, const char *next_src)
{
	unsigned int i;

	(void)next_dst;
	(void)next_src;
	for (i = 0; i < PAGE; i += sizeof(long))
		__builtin_ia32_movnti64((long long *)(dst + i), *(const long long *)(src + i));
	__builtin_ia32_sfence();
}
#endif

static const struct {
	const char *name;
	copy_fn *copy;
} ways[] = {
	{ "words", words },
	{ "C library", c_library },
#ifdef __x86_64__
	{ "rep movsb", string_move },
	{ "non-temporal", non_temporal },
#endif
	{ "source, 512 ahead", source_512 },
	{ "source, 1024 ahead", source_1024 },
	{ "source, 2048 ahead", source_2048 },
	{ "target, 512 ahead", target_512 },
	{ "target, 1024 ahead", target_1024 },
	{ "target, 2048 ahead", target_2048 },
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t random_number(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t copy_block(copy_fn *copy, char *dst, const char *src, unsigned int size)
{
	uint64_t begin = now_ns();
	unsigned int at, next;

	for (at = 0; at < size; at += PAGE) {
		/* The last page has nothing after it: ask for what is there already. */
		next = at + PAGE < size ? at + PAGE : at;
		copy(dst + at, src + at, dst + next, src + next);
	}
	return now_ns() - begin;
}

static void measure(char *disk, size_t disk_size, char *buffer, unsigned int size, int write)
{
	unsigned int rounds = (LARGEST / size) * 300;
	uint64_t *times[ARRAY_SIZE(ways)];
	unsigned int i, round;
	size_t place;

	if (rounds > 10000)
		rounds = 10000;
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		times[i] = calloc(rounds, sizeof(*times[i]));
		if (!times[i]) {
			fprintf(stderr, "copy: out of memory\n");
			exit(1);
		}
	}
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < ARRAY_SIZE(ways); i++) {
			place = random_number() % (disk_size / size) * size;
			times[i][round] = copy_block(ways[i].copy, write ? disk + place : buffer,
						     write ? buffer : disk + place, size);
		}
	}
	printf("\n%s, %u KiB, %u times each\n", write ? "write" : "read", size >> 10, rounds);
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		qsort(times[i], rounds, sizeof(*times[i]), by_value);
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		printf("  %-20s %9llu ns  %.2f\n", ways[i].name,
		       (unsigned long long)times[i][rounds / 2],
		       (double)times[i][rounds / 2] / (double)times[0][rounds / 2]);
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		free(times[i]);
}

static char *memory(size_t size)
{
	char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (data == MAP_FAILED) {
		perror("copy: mmap");
		exit(1);
	}
	madvise(data, size, MADV_HUGEPAGE);
	memset(data, 1, size);
	return data;
}

int main(int argc, char **argv)
{
	static const unsigned int sizes[] = { 4096, 65536, LARGEST };
	unsigned long mib = 1024;
	char *end = "", *disk, *buffer;
	unsigned int i;

	if (argc > 1)
		mib = strtoul(argv[1], &end, 10);
	if (argc > 2 || *end || mib < 1 || mib > 1048576) {
		fprintf(stderr, "copy: MIB '%s': must be 1 to 1048576\n", argc > 1 ? argv[1] : "");
		return 2;
	}

	disk = memory((size_t)mib << 20);
	buffer = memory(BUFFER);
	for (i = 0; i < 2 * ARRAY_SIZE(sizes); i++)
		measure(disk, (size_t)mib << 20, buffer, sizes[i % ARRAY_SIZE(sizes)],
			i >= ARRAY_SIZE(sizes));
	return 0;
}
