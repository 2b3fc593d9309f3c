// SPDX-License-Identifier: GPL-2.0-only
/*
 * Readers and writers on the same few blocks, and a model of what they may see.
 *
 * The writes to a sector are numbered as they start. Every other byte of the
 * sector is the write's number modulo 256, the others depend on where the sector
 * lies: each byte can be judged alone, since a read that runs together with a
 * write may see any mixture of old and new bytes.
 *
 * When a write completes that began while no other to the sector was under way,
 * the sector must never again show an older one. A read that starts later and
 * finds one is stale. Where writers keep to blocks of their own, that goes for
 * each write.
 *
 * Now and then everybody stops, and for good when the time is up or SIGTERM came.
 * Then the device is compared with its origin, and, where writers keep to blocks of
 * their own, with the last writes.
 *
 * Where errors are allowed, a write that failed may have reached the disk or not,
 * and whatever is to be compared is read until there is no error.
 *
 * Exit status: 0: all well; 1: an I/O error or wrong data; 2: could not run.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "helper.h"

#define MAX_THREADS	64
#define MAX_SECTORS	16384
#define MAX_IO		2048	/* sectors */
#define OFTEN_MAX_IO	64	/* sectors that most I/Os do not exceed */
#define ONE_BEGUN	((uint64_t)1 << 32)
#define UNDER_WAY	(ONE_BEGUN - 1)
#define WINDOW		256	/* write numbers that a byte can tell apart */
#define ROUND_NS	(250 * 1000 * 1000)

struct worker {
	pthread_t thread;
	unsigned int number;
	bool writer;
	uint64_t random;
	uint64_t ios;
};

static const char *device_path;
static int device_fd;
static int origin_fd = -1;
static unsigned int nr_sectors;
static unsigned int nr_writers = 4;
static unsigned int nr_readers = 4;
static unsigned int unit = 1;		/* smallest I/O, in sectors */
static bool overlap;
static bool errors_allowed;

/*
 * Of each sector: how many writes began, in the upper half, and how many are under
 * way, in the lower; and the oldest write it may still show.
 */
static atomic_uint_fast64_t writes_to[MAX_SECTORS];
static atomic_uint_fast64_t oldest_allowed[MAX_SECTORS];
static atomic_bool round_over;
static atomic_bool all_over;
static pthread_barrier_t barrier;

static __noreturn __printf(1, 2) void found(const char *format, ...)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	va_list args;

	pthread_mutex_lock(&once);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	_exit(EXIT_FOUND);
}

static uint8_t place_byte(unsigned int sector)
{
	return sector * 167 + (sector >> 8);
}

static void fill(uint8_t *buffer, unsigned int sector, uint64_t number)
{
	unsigned int i;

	for (i = 0; i < SECTOR; i += 2) {
		buffer[i] = number;
		buffer[i + 1] = place_byte(sector);
	}
}

/* May the sector show the writes from @oldest to @newest? */
static void check(const uint8_t *buffer, unsigned int sector, uint64_t oldest, uint64_t newest)
{
	unsigned int i;

	for (i = 0; i < SECTOR; i += 2) {
		if (buffer[i + 1] != place_byte(sector))
			found("sector %u holds data of another", sector);
		if (newest - oldest < WINDOW && (uint8_t)(buffer[i] - oldest) > newest - oldest)
			found("stale: sector %u shows write %u modulo %u, must be %llu to %llu",
			      sector, buffer[i], WINDOW, (unsigned long long)oldest,
			      (unsigned long long)newest);
	}
}

/* Return: false after an error that is allowed. */
static bool full_io(int fd, bool write, void *buffer, unsigned int first, unsigned int count)
{
	size_t size = (size_t)count * SECTOR;
	off_t pos = (off_t)first * SECTOR;
	ssize_t done;

	done = write ? pwrite(fd, buffer, size, pos) : pread(fd, buffer, size, pos);
	if (done < 0 && errno == EIO && errors_allowed)
		return false;
	if (done < 0)
		found("%s of sectors %u to %u: %s", write ? "write" : "read", first,
		      first + count - 1, strerror(errno));
	if ((size_t)done != size)
		found("%s of sectors %u to %u: %zd of %zu bytes", write ? "write" : "read",
		      first, first + count - 1, done, size);
	return true;
}

/* What does not change meanwhile, however often it takes. */
static void patient_io(int fd, bool write, void *buffer, unsigned int first,
		       unsigned int count)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };

	while (!full_io(fd, write, buffer, first, count))
		nanosleep(&pause, NULL);
}

static void raise_to(atomic_uint_fast64_t *value, uint64_t least)
{
	uint_fast64_t old = atomic_load(value);

	while (old < least && !atomic_compare_exchange_weak(value, &old, least))
		;
}

/* Where the next I/O of a worker goes: a part of a block, a block, or several. */
static void choose(struct worker *worker, bool anywhere, unsigned int *first,
		   unsigned int *count)
{
	unsigned int per_block = BLOCK / SECTOR;
	unsigned int start = 0, length = nr_sectors, most;
	uint64_t random = random_next(&worker->random);

	if (!anywhere) {
		length = nr_sectors / nr_writers;
		start = worker->number * length;
	}
	switch (random % 4) {
	case 0:
	case 1:
		*count = per_block;
		*first = (random >> 8) % (length / per_block) * per_block;
		break;
	case 2:
		*count = unit + (random >> 8) % (per_block - unit + 1);
		*count -= *count % unit;
		*first = (random >> 32) % (length - *count + 1);
		break;
	default:
		most = random % 64 == 3 ? MAX_IO : OFTEN_MAX_IO;
		*count = 1 + (random >> 8) % (length < most ? length : most);
		*count += unit - 1 - (*count - 1) % unit;
		*first = (random >> 32) % (length - *count + 1);
		break;
	}
	*first -= *first % unit;
	*first += start;
}

static uint64_t begun(unsigned int sector)
{
	return atomic_load(&writes_to[sector]) / ONE_BEGUN;
}

static void do_write(struct worker *worker, uint8_t *buffer)
{
	uint64_t before[MAX_IO];
	unsigned int first, count, i;
	bool done;

	choose(worker, overlap, &first, &count);
	for (i = 0; i < count; i++) {
		before[i] = atomic_fetch_add(&writes_to[first + i], ONE_BEGUN + 1);
		fill(buffer + i * SECTOR, first + i, before[i] / ONE_BEGUN + 1);
	}

	done = full_io(device_fd, true, buffer, first, count);
	if (random_next(&worker->random) % 64 == 0 && fsync(device_fd) &&
	    !(errors_allowed && errno == EIO))
		found("flush: %s", strerror(errno));

	for (i = 0; i < count; i++) {
		if (done && !(before[i] & UNDER_WAY))
			raise_to(&oldest_allowed[first + i], before[i] / ONE_BEGUN + 1);
		atomic_fetch_sub(&writes_to[first + i], 1);
	}
}

static void do_read(struct worker *worker, uint8_t *buffer)
{
	unsigned int first, count, i;
	uint64_t oldest[MAX_IO];

	choose(worker, true, &first, &count);
	for (i = 0; i < count; i++)
		oldest[i] = atomic_load(&oldest_allowed[first + i]);

	if (!full_io(device_fd, false, buffer, first, count))
		return;

	for (i = 0; i < count; i++)
		check(buffer + i * SECTOR, first + i, oldest[i], begun(first + i));
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint8_t *buffer = alloc_buffer(MAX_IO * SECTOR);

	while (!atomic_load(&all_over)) {
		while (!atomic_load(&round_over)) {
			if (worker->writer)
				do_write(worker, buffer);
			else
				do_read(worker, buffer);
			worker->ios++;
		}
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	free(buffer);
	return NULL;
}

/* Nobody writes: the device, its origin and the model must agree. */
static void compare(uint8_t *mine, uint8_t *theirs)
{
	unsigned int first, count, pass, i;

	for (pass = 0; pass < 2; pass++) {
		for (first = 0; first < nr_sectors; first += count) {
			count = nr_sectors - first < MAX_IO ? nr_sectors - first : MAX_IO;
			patient_io(device_fd, false, mine, first, count);
			for (i = 0; i < count && !overlap; i++)
				check(mine + i * SECTOR, first + i,
				      errors_allowed ? atomic_load(&oldest_allowed[first + i]) :
						       begun(first + i), begun(first + i));
			if (origin_fd < 0)
				continue;
			patient_io(origin_fd, false, theirs, first, count);
			for (i = 0; i < count * SECTOR; i++)
				if (mine[i] != theirs[i])
					found("sector %u: the device holds byte %u, the origin %u",
					      first + i / SECTOR, mine[i], theirs[i]);
		}
	}
}

static volatile sig_atomic_t asked_to_end;

static void ask_to_end(int number)
{
	(void)number;
	asked_to_end = 1;
}

static bool time_is_up(const struct timespec *start, unsigned int seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - start->tv_sec >= (time_t)seconds;
}

static __noreturn void show_usage(void)
{
	errx(EXIT_BROKEN,
	     "usage: rwmodel [-eO] [-o ORIGIN] [-w WRITERS] [-r READERS] [-b BLOCKS] [-s SECONDS] [-u SECTORS] DEVICE");
}

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_nsec = ROUND_NS };
	static struct worker workers[MAX_THREADS];
	const char *origin_path = NULL;
	unsigned int seconds = 10, blocks = 8, rounds = 0, i;
	uint64_t reads = 0, writes = 0;
	uint8_t *mine, *theirs;
	struct timespec start;
	int opt;

	while ((opt = getopt(argc, argv, "eOo:w:r:b:s:u:")) != -1) {
		switch (opt) {
		case 'e':
			errors_allowed = true;
			break;
		case 'O':
			overlap = true;
			break;
		case 'o':
			origin_path = optarg;
			break;
		case 'w':
			nr_writers = parse("writers", optarg, 1, MAX_THREADS / 2);
			break;
		case 'r':
			nr_readers = parse("readers", optarg, 0, MAX_THREADS / 2);
			break;
		case 'b':
			blocks = parse("blocks", optarg, 1, MAX_SECTORS * SECTOR / BLOCK);
			break;
		case 's':
			seconds = parse("seconds", optarg, 1, 3600);
			break;
		case 'u':
			unit = parse("sectors", optarg, 1, BLOCK / SECTOR);
			break;
		default:
			show_usage();
		}
	}
	if (optind != argc - 1)
		show_usage();
	if (!overlap && blocks % nr_writers)
		errx(EXIT_BROKEN, "%u blocks cannot be shared out to %u writers", blocks,
		     nr_writers);
	device_path = argv[optind];
	nr_sectors = blocks * (BLOCK / SECTOR);
	device_fd = open_direct(device_path, O_RDWR);
	if (origin_path)
		origin_fd = open_direct(origin_path, O_RDONLY);
	mine = alloc_buffer(MAX_IO * SECTOR);
	theirs = alloc_buffer(MAX_IO * SECTOR);

	for (i = 0; i < nr_sectors; i++) {
		fill(mine + i % MAX_IO * SECTOR, i, 0);
		if (i % MAX_IO == MAX_IO - 1 || i == nr_sectors - 1)
			patient_io(device_fd, true, mine, i / MAX_IO * MAX_IO, i % MAX_IO + 1);
	}
	pthread_barrier_init(&barrier, NULL, nr_writers + nr_readers + 1);
	for (i = 0; i < nr_writers + nr_readers; i++) {
		workers[i].number = i;
		workers[i].writer = i < nr_writers;
		workers[i].random = 0x9E3779B97F4A7C15ULL * (i + 1);
		errno = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		if (errno)
			err(EXIT_BROKEN, "thread");
	}

	signal(SIGTERM, ask_to_end);
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		nanosleep(&pause, NULL);
		atomic_store(&round_over, true);
		pthread_barrier_wait(&barrier);
		compare(mine, theirs);
		rounds++;
		atomic_store(&all_over, asked_to_end || time_is_up(&start, seconds));
		atomic_store(&round_over, false);
		pthread_barrier_wait(&barrier);
	} while (!atomic_load(&all_over));

	for (i = 0; i < nr_writers + nr_readers; i++) {
		pthread_join(workers[i].thread, NULL);
		*(workers[i].writer ? &writes : &reads) += workers[i].ios;
	}
	printf("writes %llu reads %llu rounds %u\n", (unsigned long long)writes,
	       (unsigned long long)reads, rounds);
	return 0;
}
