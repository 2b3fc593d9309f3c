// SPDX-License-Identifier: GPL-2.0-only
/*
 * Readers and writers on the same few blocks, and a model of what they may see.
 *
 * The writes to a sector are numbered as they start. Every other byte of the
 * sector is made of the write's number, the others depend on where the sector
 * lies: each byte can be judged alone, since a read that runs together with a
 * write may see any mixture of old and new bytes. What zeroes a sector is a write,
 * too, and leaves bytes that no other write has.
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
 * A write that failed may have reached the disk or not, sector by sector. Which
 * errors may come is part of the model:
 *
 *	EIO		with -e; whatever is to be compared is read until there is none
 *	ENOSPC		with -n, of writes and write-zeroes. With -c, exactly when the
 *			RAM disks below have counted one: each time with one writer,
 *			else in each round. With -l, exactly when the range has more
 *			pages that hold nothing than the limit leaves room for. Zeros need
 *			none if the disk detects them.
 *	EAGAIN		of what must not wait. With -d only while it is resized: the queue may
 *			be frozen. Other devices may wait for locks and memory of their own
 *	EOPNOTSUPP	of discards and holes without -z; without -d of what must not wait
 *	EIO		with -R member or disk, of what touches sectors that are cut off,
 *			from when that begins until they are back; always as long as they
 *			are gone
 *	ENOSPC, EINVAL, and less than was asked for: likewise, with -R disk
 *
 * The disk holds the zeroth writes at first. With -n it holds zeros, or, with -U, unknown
 * data. With -U the device encrypts: a mixture of old and new bytes below it may be
 * anything above it, so a read that runs together with a write to the sector is not judged.
 * It ends when the time is up and as many writes were made as -m says. With -d the device is a
 * RAM disk or a partition of one, and there is memory for all that its limit allows.
 *
 * With -x the writers also discard, zero, punch holes, and use RWF_NOWAIT. With -g
 * the second half of the sectors lies so many bytes further on, and only what zeroes
 * or discards reaches across.
 *
 * With -R the process that runs this program resizes. Lines on the standard output ask for
 * it, and a line answers each: "try" what must not disturb the I/O, "cut" off the second
 * half, "mend".
 * With -R disk the device itself becomes shorter, with -R member what it is made of, and
 * with -R none nothing is lost. With -S the device is striped over two disks, each chunk
 * so many sectors, and the second is cut. What was cut off comes back as zeros, with -U as
 * anything.
 *
 * Exit status: 0: all well; 1: an I/O error or wrong data; 2: could not run.
 */
#include <errno.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>

#include "../../include/uapi/linux/rxd.h"
#include "helper.h"

#define MAX_THREADS	64
#define MAX_SECTORS	16384
#define MAX_IO		2048	/* sectors */
#define OFTEN_MAX_IO	64	/* sectors that most I/Os do not exceed */
#define ONE_BEGUN	((uint64_t)1 << 32)
#define UNDER_WAY	(ONE_BEGUN - 1)
#define WINDOW		255	/* write numbers that a byte can tell apart */
#define KIND_WORDS	4	/* of 64 bits, for more numbers than a WINDOW */
#define ROUND_NS	(250 * 1000 * 1000)
#define CUT_NS		(20 * 1000 * 1000)
#define MAX_COUNTERS	8
#define NR_EXTENTS	256
#define SHORT		(-1)	/* less was done than requested */

enum role { WRITER, READER, RESIZER };

enum kind { READ, WRITE, ZERO, ZERO_IOCTL, HOLE, DISCARD, NR_KINDS, CUT = NR_KINDS };

/* The device that a resize shortens. */
enum cut { CUT_NOTHING, CUT_MEMBER, CUT_DISK };

/* Phases of a cut, which are repeated in a cycle. */
enum phase { WHOLE, CUTTING, IS_CUT, MENDING, NR_PHASES };

static const char *const kind_name[NR_KINDS] = {
	"read", "write", "write-zeroes", "zero-out", "hole", "discard",
};

struct op {
	enum kind kind;
	bool nowait;
	unsigned int first, count;	/* sectors of the model */
};

struct worker {
	pthread_t thread;
	unsigned int number;
	enum role role;
	uint64_t random;
	uint64_t ios;
};

static const char *device_path;
static int device_fd;
static int origin_fd = -1;
static unsigned int nr_sectors;
static unsigned int half;		/* where the gap is, and what resizes cut off begins */
static unsigned int nr_writers = 4;
static unsigned int nr_readers = 4;
static unsigned int unit = 1;		/* smallest I/O, in sectors */
static bool overlap;
static bool errors_allowed;
static bool space_errors_allowed;
static bool all_kinds;
static bool unknown;			/* content of sectors that were not written */
static bool discard_zeroes;		/* each block that it covers */
static bool is_ramdisk;			/* or a partition of one */
static uint64_t gap;			/* bytes between the halves */
static int counter_fd[MAX_COUNTERS];
static unsigned int nr_counters;
static int used_fd = -1, limit_fd = -1;	/* of the RAM disk that the device is */
static bool detects_zeroes;
static bool resizing;
static enum cut cut;
static unsigned int chunk;		/* sectors, where every other one is cut off */

/*
 * Of each sector: how many writes began, in the upper half, and how many are under
 * way, in the lower; the oldest write it may still show; which of the last writes were
 * zeros; and the last whose result is unknown, or -1.
 */
static atomic_uint_fast64_t writes_to[MAX_SECTORS];
static atomic_uint_fast64_t oldest_allowed[MAX_SECTORS];
static atomic_uint_fast64_t zeros_to[MAX_SECTORS][KIND_WORDS];
static atomic_int_fast64_t last_unknown[MAX_SECTORS];
static atomic_ulong nr_of_kind[NR_KINDS];
static atomic_ulong nr_failed, nr_again, nr_resized;
static atomic_ulong failed_in_round;
static atomic_uint phases;		/* how many there were: the last is an enum phase */
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

/* Neither this nor the next is ever 0: that is what zeroed sectors hold. */
static uint8_t place_byte(unsigned int sector)
{
	return (sector * 167 + (sector >> 8)) | 1;
}

static uint8_t number_byte(uint64_t number)
{
	return 1 + number % WINDOW;
}

static void fill(uint8_t *buffer, unsigned int sector, uint64_t number)
{
	unsigned int i;

	buffer[0] = number_byte(number);
	buffer[1] = place_byte(sector);
	for (i = 2; i < SECTOR; i *= 2)
		memcpy(buffer + i, buffer, i);
}

static void note_kind(unsigned int sector, uint64_t number, bool zeros)
{
	atomic_uint_fast64_t *word = &zeros_to[sector][number / 64 % KIND_WORDS];
	uint64_t bit = (uint64_t)1 << number % 64;

	if (zeros)
		atomic_fetch_or(word, bit);
	else
		atomic_fetch_and(word, ~bit);
}

static bool was_zeros(unsigned int sector, uint64_t number)
{
	return atomic_load(&zeros_to[sector][number / 64 % KIND_WORDS]) >> number % 64 & 1;
}

/* May the sector show the writes from @oldest to @newest? */
static void check(const uint8_t *buffer, unsigned int sector, uint64_t oldest, uint64_t newest)
{
	bool allowed[256] = {};
	uint64_t number;
	unsigned int i;

	if ((int64_t)oldest <= atomic_load(&last_unknown[sector]))
		return;
	if (newest - oldest >= WINDOW)
		memset(allowed, true, sizeof(allowed));
	for (number = oldest; number <= newest && newest - oldest < WINDOW; number++)
		allowed[was_zeros(sector, number) ? 0 : number_byte(number)] = true;

	for (i = 0; i < SECTOR; i += 2) {
		if (buffer[i + 1] && buffer[i + 1] != place_byte(sector))
			found("sector %u holds data of another", sector);
		if ((!buffer[i] || !buffer[i + 1]) && !allowed[0])
			found("stale: sector %u shows zeros, must show one of writes %llu to %llu",
			      sector, (unsigned long long)oldest, (unsigned long long)newest);
		if (!allowed[buffer[i]])
			found("stale: sector %u shows write %d modulo %u, must be %llu to %llu%s",
			      sector, buffer[i] - 1, WINDOW, (unsigned long long)oldest,
			      (unsigned long long)newest, allowed[0] ? ", or zeros" : "");
		/* Mostly it is one write's, and need not be looked at byte by byte. */
		if (!i && !memcmp(buffer, buffer + 2, SECTOR - 2))
			break;
	}
}

/* The offset of a sector of the model, in bytes. */
static off_t position(unsigned int sector)
{
	return (off_t)sector * SECTOR + (sector < half ? 0 : gap);
}

static off_t size_of(const struct op *op)
{
	return position(op->first + op->count - 1) + SECTOR - position(op->first);
}

/* Return: 0, an error number or SHORT. */
static int issue(int fd, const struct op *op, void *buffer)
{
	const struct iovec iov = { buffer, (size_t)op->count * SECTOR };
	uint64_t range[2] = { position(op->first), size_of(op) };
	int flags = op->nowait ? RWF_NOWAIT : 0;
	ssize_t done = 0;

	switch (op->kind) {
	case READ:
		done = preadv2(fd, &iov, 1, range[0], flags);
		break;
	case WRITE:
		done = pwritev2(fd, &iov, 1, range[0], flags);
		break;
	case ZERO:
		done = fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_ZERO_RANGE, range[0],
				 range[1]);
		break;
	case HOLE:
		done = fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, range[0],
				 range[1]);
		break;
	case ZERO_IOCTL:
		done = ioctl(fd, BLKZEROOUT, range);
		break;
	default:
		done = ioctl(fd, BLKDISCARD, range);
		break;
	}
	if (done < 0)
		return errno;
	return op->kind <= WRITE && (size_t)done != iov.iov_len ? SHORT : 0;
}

/* Does a cut take this sector away? */
static bool is_lost(unsigned int sector)
{
	return cut != CUT_NOTHING && sector >= half && (!chunk || sector / chunk % 2);
}

static bool touches_lost(const struct op *op)
{
	unsigned int sector = op->first < half ? half : op->first;

	while (sector < op->first + op->count)
		if (is_lost(sector++))
			return true;
	return false;
}

/* Nothing of the sectors that are cut off is there. */
static bool must_fail(const struct op *op)
{
	/* Told to keep the size, fallocate() does what lies before the end. */
	if (cut == CUT_DISK && op->first < half && (op->kind == ZERO || op->kind == HOLE))
		return false;
	return touches_lost(op);
}

static bool is_of_a_cut(int error)
{
	return error == EIO ||
	       (cut == CUT_DISK && (error == ENOSPC || error == EINVAL || error == SHORT));
}

/* @whole: nothing was cut off from its beginning to its end */
static bool may_come(int error, const struct op *op, bool whole)
{
	if (!whole && is_of_a_cut(error) && touches_lost(op))
		return true;
	switch (error) {
	case EIO:
		return errors_allowed;
	case ENOSPC:
		return space_errors_allowed && op->kind >= WRITE && op->kind <= ZERO_IOCTL;
	case EAGAIN:
		return op->nowait && (!is_ramdisk || resizing);
	case EOPNOTSUPP:
		return op->nowait ? !is_ramdisk : op->kind >= HOLE && !discard_zeroes;
	default:
		return false;
	}
}

/* Return: 0, or an error that may come. */
static int full_io(int fd, const struct op *op, void *buffer)
{
	unsigned int before = atomic_load(&phases);
	int error = issue(fd, op, buffer);
	bool same = atomic_load(&phases) == before;

	if (error && !may_come(error, op, same && before % NR_PHASES == WHOLE))
		found("%s%s of sectors %u to %u: %s", kind_name[op->kind],
		      op->nowait ? " without waiting" : "", op->first,
		      op->first + op->count - 1,
		      error == SHORT ? "ended early" : strerror(error));
	if (!error && same && before % NR_PHASES == IS_CUT && must_fail(op))
		found("%s of sectors %u to %u: success, must fail: %u and more are cut off",
		      kind_name[op->kind], op->first, op->first + op->count - 1, half);
	return error;
}

/* Repeat an I/O until it succeeds. The data does not change meanwhile. */
static void patient_io(int fd, enum kind kind, void *buffer, unsigned int first,
		       unsigned int count)
{
	const struct op op = { .kind = kind, .first = first, .count = count };
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };

	while (full_io(fd, &op, buffer))
		nanosleep(&pause, NULL);
}

static int open_attribute(const char *directory, const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(EXIT_BROKEN, "%s", path);
	return fd;
}

static uint64_t attribute(int fd)
{
	char text[32];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);

	if (length <= 0)
		err(EXIT_BROKEN, "attribute of a RAM disk");
	text[length] = 0;
	return strtoull(text, NULL, 10);
}

static bool has_state(const char *directory, const char *state)
{
	int fd = open_attribute(directory, "state");
	char text[256] = "";

	if (read(fd, text, sizeof(text) - 1) < 0)
		err(EXIT_BROKEN, "state of a RAM disk");
	close(fd);
	return strstr(text, state);
}

/* Number of writes of the RAM disks below that failed because memory was short. */
static uint64_t counted(void)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < nr_counters; i++)
		sum += attribute(counter_fd[i]);
	return sum;
}

/* Number of bytes of a range of the RAM disk that hold data. */
static uint64_t held(uint64_t start, uint64_t end)
{
	static struct rxd_extent extents[NR_EXTENTS];
	struct rxd_map map = { .next = start };
	uint64_t sum = 0;
	unsigned int i;

	while (map.next < end) {
		map = (struct rxd_map){
			.version = RXD_ABI_VERSION,
			.start = map.next,
			.length = end - map.next,
			.extents = (uintptr_t)extents,
			.count = NR_EXTENTS,
		};
		if (ioctl(device_fd, RXD_MAP, &map))
			err(EXIT_BROKEN, "map of %s", device_path);
		for (i = 0; i < map.count; i++)
			sum += extents[i].length;
	}
	return sum;
}

/* With one writer: is there too little room for all data that it is about to write? */
static bool too_little_room(const struct op *op)
{
	uint64_t start = position(op->first) / BLOCK * BLOCK;
	uint64_t end = (position(op->first) + size_of(op) + BLOCK - 1) / BLOCK * BLOCK;
	uint64_t limit = attribute(limit_fd), used = attribute(used_fd);

	if (op->kind > (detects_zeroes ? WRITE : ZERO_IOCTL) || !limit)
		return false;
	return end - start - held(start, end) > (limit > used ? limit - used : 0);
}

static void raise_to(atomic_uint_fast64_t *value, uint64_t least)
{
	uint_fast64_t old = atomic_load(value);

	while (old < least && !atomic_compare_exchange_weak(value, &old, least))
		;
}

/* Choose the place of a worker's next I/O: a part of a block, a block, or several. */
static void choose(struct worker *worker, bool anywhere, struct op *op)
{
	unsigned int *first = &op->first, *count = &op->count;
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

	/* Often choose a place where one request ends and the next begins. */
	if (gap && anywhere && op->kind == WRITE && random >> 40 & 1) {
		*first = half;
		*count = per_block;
	}
	if (!gap || *first >= half)
		return;
	if (op->kind >= ZERO && anywhere && random >> 32 & 1) {
		*first = half - *count % per_block / unit * unit - unit;
		*count = half - *first + per_block + (random >> 33 & 3 ? 0 : *count % per_block);
		*count -= *count % unit;
	} else if (*first + *count > half && op->kind <= WRITE) {
		*count = half - *first;
	}
}

static uint64_t begun(unsigned int sector)
{
	return atomic_load(&writes_to[sector]) / ONE_BEGUN;
}

static void choose_kind(struct worker *worker, struct op *op)
{
	static const enum kind others[] = { ZERO, ZERO_IOCTL, HOLE, HOLE, DISCARD };
	uint64_t random = random_next(&worker->random) >> 8;

	op->nowait = all_kinds && random % 4 == 0;
	if (op->kind == READ || !all_kinds || random % 16 < 10)
		return;
	op->kind = others[random / 16 % (sizeof(others) / sizeof(*others))];
	op->nowait = false;
}

/* The sectors of @op are about to change; returns what was under way to each before. */
static void begin(const struct op *op, uint64_t *before)
{
	unsigned int i, sector;

	for (i = 0; i < op->count; i++) {
		sector = op->first + i;
		if (op->kind == CUT && !is_lost(sector))
			continue;
		before[i] = atomic_fetch_add(&writes_to[sector], ONE_BEGUN + 1);
		note_kind(sector, before[i] / ONE_BEGUN + 1, op->kind != WRITE);
		/* Only one thread cuts. */
		if (op->kind == CUT && unknown)
			atomic_store(&last_unknown[sector], before[i] / ONE_BEGUN + 1);
	}
}

static void end(const struct op *op, const uint64_t *before, bool done)
{
	unsigned int i, sector;
	bool surely = done;

	for (i = 0; i < op->count; i++) {
		sector = op->first + i;
		if (op->kind == CUT && !is_lost(sector))
			continue;
		/* A discard does not change the blocks that it covers in part. */
		if (op->kind == DISCARD)
			surely = done && discard_zeroes &&
				 sector / 8 * 8 >= op->first &&
				 sector / 8 * 8 + 8 <= op->first + op->count;
		if (surely && !(before[i] & UNDER_WAY))
			raise_to(&oldest_allowed[sector], before[i] / ONE_BEGUN + 1);
		atomic_fetch_sub(&writes_to[sector], 1);
	}
}

/* Do the disks below count this as a failure because memory is short? */
static bool failed(int error)
{
	return error == ENOSPC || (errors_allowed && error == EIO);
}

static void do_write(struct worker *worker, uint8_t *buffer, uint64_t *before)
{
	bool alone = nr_writers == 1, expected = false, no_space;
	struct op op = { .kind = WRITE };
	uint64_t count = 0;
	unsigned int i;
	int error;

	choose_kind(worker, &op);
	choose(worker, overlap || alone, &op);
	begin(&op, before);
	for (i = 0; i < op.count && op.kind == WRITE; i++)
		fill(buffer + i * SECTOR, op.first + i, before[i] / ONE_BEGUN + 1);
	if (alone && nr_counters)
		count = counted();
	if (used_fd >= 0)
		expected = too_little_room(&op);

	error = full_io(device_fd, &op, buffer);
	no_space = error == ENOSPC;
	if (used_fd >= 0 && no_space != expected)
		found("%s of sectors %u to %u, %lld bytes: %s, must %s because memory is short",
		      kind_name[op.kind], op.first, op.first + op.count - 1,
		      (long long)size_of(&op), error ? strerror(error) : "success",
		      expected ? "fail" : "not fail");
	if (alone && nr_counters && failed(error) != (counted() != count))
		found("%s of sectors %u to %u: %s, and the RAM disks count %llu failures",
		      kind_name[op.kind], op.first, op.first + op.count - 1,
		      error ? strerror(error) : "success",
		      (unsigned long long)(counted() - count));
	end(&op, before, !error);
	atomic_fetch_add(&nr_of_kind[op.kind], !error);
	atomic_fetch_add(&nr_failed, failed(error));
	atomic_fetch_add(&nr_again, error == EAGAIN);
	atomic_fetch_add(&failed_in_round, failed(error));

	if (random_next(&worker->random) % 64 == 0 && fsync(device_fd) &&
	    !(errors_allowed && errno == EIO))
		found("flush: %s", strerror(errno));
}

/* Was nothing written to the sector since writes_to[] was @before? */
static bool is_untouched(unsigned int sector, uint64_t before)
{
	return !(before & UNDER_WAY) && before / ONE_BEGUN == begun(sector);
}

static void do_read(struct worker *worker, uint8_t *buffer, uint64_t *before)
{
	struct op op = { .kind = READ };
	uint64_t oldest[MAX_IO];
	unsigned int i;

	choose_kind(worker, &op);
	choose(worker, true, &op);
	for (i = 0; i < op.count; i++) {
		oldest[i] = atomic_load(&oldest_allowed[op.first + i]);
		before[i] = atomic_load(&writes_to[op.first + i]);
	}

	if (full_io(device_fd, &op, buffer))
		return;

	for (i = 0; i < op.count; i++)
		if (!unknown || is_untouched(op.first + i, before[i]))
			check(buffer + i * SECTOR, op.first + i, oldest[i], begun(op.first + i));
}

/* Ask the process that runs this program to do something. */
static void ask(const char *what)
{
	char answer[16];

	if (puts(what) < 0 || fflush(stdout) || !fgets(answer, sizeof(answer), stdin))
		errx(EXIT_BROKEN, "nobody has answered '%s'", what);
}

static void do_resize(uint64_t *before)
{
	const struct op op = { .kind = CUT, .first = half, .count = nr_sectors - half };
	const struct timespec pause = { .tv_nsec = CUT_NS };

	ask("try");
	begin(&op, before);
	atomic_fetch_add(&phases, 1);
	ask("cut");
	atomic_fetch_add(&phases, 1);
	nanosleep(&pause, NULL);
	atomic_fetch_add(&phases, 1);
	ask("mend");
	atomic_fetch_add(&phases, 1);
	end(&op, before, true);
	atomic_fetch_add(&nr_resized, 1);
	nanosleep(&pause, NULL);
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint8_t *buffer = alloc_buffer(MAX_IO * SECTOR);
	uint64_t *numbers = alloc_buffer(MAX_SECTORS * sizeof(*numbers));

	while (!atomic_load(&all_over)) {
		while (!atomic_load(&round_over)) {
			switch (worker->role) {
			case WRITER:
				do_write(worker, buffer, numbers);
				break;
			case READER:
				do_read(worker, buffer, numbers);
				break;
			case RESIZER:
				do_resize(numbers);
				break;
			}
			worker->ios++;
		}
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	free(numbers);
	free(buffer);
	return NULL;
}

/* How many sectors from @first on can one I/O have that does not cross the gap? */
static unsigned int piece(unsigned int first)
{
	unsigned int most = (first < half ? half : nr_sectors) - first;

	return most < MAX_IO ? most : MAX_IO;
}

/* No thread writes: the memory counters of the RAM disks must be correct. */
static void compare_memory(uint64_t counted_before)
{
	uint64_t limit, used, mapped;
	bool rose = counted() != counted_before;

	if (nr_counters && rose != !!atomic_exchange(&failed_in_round, 0))
		found("the RAM disks count %s failed write, and %s failed", rose ? "a" : "no",
		      rose ? "none" : "some");
	if (used_fd < 0)
		return;
	used = attribute(used_fd);
	limit = attribute(limit_fd);
	mapped = held(0, position(nr_sectors - 1) + SECTOR);
	if (mapped != used)
		found("mem_used is %llu, %llu bytes hold data", (unsigned long long)used,
		      (unsigned long long)mapped);
	if (limit && used > limit)
		found("mem_used is %llu, the limit is %llu", (unsigned long long)used,
		      (unsigned long long)limit);
}

/* No thread writes: the device, its origin and the model must agree. */
static void compare(uint8_t *mine, uint8_t *theirs)
{
	unsigned int first, count, pass, i;

	for (pass = 0; pass < 2; pass++) {
		for (first = 0; first < nr_sectors; first += count) {
			count = piece(first);
			patient_io(device_fd, READ, mine, first, count);
			for (i = 0; i < count; i++)
				check(mine + i * SECTOR, first + i,
				      atomic_load(&oldest_allowed[first + i]), begun(first + i));
			if (origin_fd < 0)
				continue;
			patient_io(origin_fd, READ, theirs, first, count);
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
	     "usage: rwmodel [-denOUxz] [-o ORIGIN] [-w WRITERS] [-r READERS] [-b BLOCKS] [-s SECONDS] [-m WRITES]\n"
	     "               [-u SECTORS] [-c ATTRIBUTES]... [-l ATTRIBUTES] [-g GAP] [-R none|member|disk]\n"
	     "               [-S SECTORS] DEVICE");
}

static enum cut parse_cut(const char *text)
{
	static const char *const name[] = { "none", "member", "disk" };
	unsigned int i;

	for (i = CUT_NOTHING; i <= CUT_DISK; i++)
		if (!strcmp(text, name[i]))
			return i;
	show_usage();
}

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_nsec = ROUND_NS };
	static struct worker workers[MAX_THREADS + 1];
	const char *origin_path = NULL;
	unsigned int seconds = 10, blocks = 8, rounds = 0, nr_workers, i;
	uint64_t reads = 0, writes = 0, least = 0, count;
	uint8_t *mine, *theirs;
	struct timespec start;
	int opt;

	while ((opt = getopt(argc, argv, "denOUxzo:w:r:b:s:m:u:c:l:g:R:S:")) != -1) {
		switch (opt) {
		case 'd':
			is_ramdisk = true;
			break;
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
		case 'n':
			space_errors_allowed = true;
			break;
		case 'U':
			unknown = true;
			break;
		case 'm':
			least = parse("writes", optarg, 1, 1UL << 32);
			break;
		case 'x':
			all_kinds = true;
			break;
		case 'z':
			discard_zeroes = true;
			break;
		case 'c':
			if (nr_counters == MAX_COUNTERS)
				errx(EXIT_BROKEN, "more than %u counters", MAX_COUNTERS);
			counter_fd[nr_counters++] = open_attribute(optarg, "nospc");
			break;
		case 'l':
			used_fd = open_attribute(optarg, "mem_used");
			limit_fd = open_attribute(optarg, "mem_limit");
			detects_zeroes = has_state(optarg, "detect-zeroes");
			break;
		case 'g':
			gap = parse("gap", optarg, 0, 1UL << 40) / BLOCK * BLOCK;
			break;
		case 'R':
			resizing = true;
			cut = parse_cut(optarg);
			break;
		case 'S':
			chunk = parse("sectors", optarg, 1, MAX_SECTORS);
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
	if (used_fd >= 0 && nr_writers > 1)
		errx(EXIT_BROKEN, "%u writers: must be one where each error is foretold",
		     nr_writers);
	device_path = argv[optind];
	nr_sectors = blocks * (BLOCK / SECTOR);
	half = gap || resizing ? blocks / 2 * (BLOCK / SECTOR) : nr_sectors;
	if (!half)
		errx(EXIT_BROKEN, "one block has no halves");
	device_fd = open_direct(device_path, O_RDWR);
	if (origin_path)
		origin_fd = open_direct(origin_path, O_RDONLY);
	mine = alloc_buffer(MAX_IO * SECTOR);
	theirs = alloc_buffer(MAX_IO * SECTOR);

	for (i = 0; i < nr_sectors && !space_errors_allowed; i += piece(i)) {
		for (count = 0; count < piece(i); count++)
			fill(mine + count * SECTOR, i + count, 0);
		patient_io(device_fd, WRITE, mine, i, piece(i));
	}
	/* If memory is too small for this, all sectors are zeros at first. */
	for (i = 0; i < nr_sectors && space_errors_allowed; i++)
		note_kind(i, 0, true);
	for (i = 0; i < nr_sectors; i++)
		atomic_init(&last_unknown[i], unknown && space_errors_allowed ? 0 : -1);
	nr_workers = nr_writers + nr_readers + resizing;
	pthread_barrier_init(&barrier, NULL, nr_workers + 1);
	count = counted();
	for (i = 0; i < nr_workers; i++) {
		workers[i].number = i;
		workers[i].role = i < nr_writers ? WRITER :
				  i < nr_writers + nr_readers ? READER : RESIZER;
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
		compare_memory(count);
		compare(mine, theirs);
		count = counted();
		rounds++;
		for (writes = 0, i = 0; i < nr_writers; i++)
			writes += workers[i].ios;
		atomic_store(&all_over, asked_to_end ||
			     (writes >= least && time_is_up(&start, seconds)));
		atomic_store(&round_over, false);
		pthread_barrier_wait(&barrier);
	} while (!atomic_load(&all_over));

	for (i = 0; i < nr_workers; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].role == READER)
			reads += workers[i].ios;
	}
	printf("writes %llu reads %llu rounds %u", (unsigned long long)writes,
	       (unsigned long long)reads, rounds);
	if (all_kinds) {
		for (i = ZERO; i < NR_KINDS; i++)
			printf(" %s %lu", kind_name[i], atomic_load(&nr_of_kind[i]));
		printf(" failed %lu again %lu resizes %lu", atomic_load(&nr_failed),
		       atomic_load(&nr_again), atomic_load(&nr_resized));
	}
	putchar('\n');
	return 0;
}
