// SPDX-License-Identifier: GPL-2.0-only
/*
 * Images that can be updated: many updates beside a model in memory, each generation read again;
 * any moment of a power cut; damage; and the bounds of what is written and kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "image/append.h"
#include "image/changes.h"
#include "image/compact.h"
#include "image/frame.h"
#include "image/generations.h"
#include "image/log_read.h"
#include "tap.h"

#define PAGES_MAX	(32 << 10)
#define STEPS_MAX	4096

/* A disk: the version of each page, 0 for a hole. The version makes the data. */
struct disk {
	uint32_t pages;
	uint32_t *versions;
	bool *changed;
};

/* What was done to a file since it was opened, as a power cut could leave it. */
enum step_kind { STEP_WRITE, STEP_SYNC, STEP_PUNCH, STEP_CUT };

struct step {
	enum step_kind kind;
	uint64_t offset;
	uint64_t length;
	void *data;
};

static struct step steps[STEPS_MAX];
static size_t nr_steps;
static bool recording;
static int64_t room = -1;	/* bytes that can be written before ENOSPC; -1: any */
static uint64_t written;

ssize_t __real_pwrite64(int fd, const void *data, size_t length, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t length, off_t offset);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_fallocate64(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t length);

static void note(enum step_kind kind, const void *data, uint64_t length, uint64_t offset)
{
	struct step *step = &steps[nr_steps];

	if (!recording)
		return;
	if (nr_steps++ == STEPS_MAX)
		abort();
	*step = (struct step){ .kind = kind, .offset = offset, .length = length };
	if (data) {
		step->data = malloc(length);
		memcpy(step->data, data, length);
	}
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t length, off_t offset)
{
	if (room >= 0 && (int64_t)length > room) {
		length = room / IMAGE_BLOCK * IMAGE_BLOCK;
		if (!length) {
			errno = ENOSPC;
			return -1;
		}
	}
	if (room >= 0)
		room -= length;
	written += length;
	note(STEP_WRITE, data, length, offset);
	return __real_pwrite64(fd, data, length, offset);
}

int __wrap_fdatasync(int fd)
{
	(void)fd;
	note(STEP_SYNC, NULL, 0, 0);
	return 0;
}

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t length)
{
	note(STEP_PUNCH, NULL, length, offset);
	return __real_fallocate64(fd, mode, offset, length);
}

static uint64_t seed = 88172645463325252;

static uint32_t any(uint32_t limit)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 20) % limit;
}

/* Half of the versions can be compressed. Every 16th is all zeros. */
static void page_of(uint32_t page, uint32_t version, void *data)
{
	uint64_t word = ((uint64_t)version << 32 | page) * 2654435761;
	uint64_t *out = data;
	size_t i;

	memset(data, 0, IMAGE_PAGE);
	if (!version || !(version % 16))
		return;
	for (i = 0; i < IMAGE_PAGE / sizeof(word); i += version % 2 ? 1 : 8) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		out[i] = word;
	}
}

static struct disk make_disk(uint32_t pages)
{
	return (struct disk){ pages, calloc(PAGES_MAX, sizeof(uint32_t)), calloc(PAGES_MAX, 1) };
}

static void free_disk(struct disk *disk)
{
	free(disk->versions);
	free(disk->changed);
}

/* The source of an update, or of a whole disk. */
struct source {
	const struct disk *disk;
	bool whole;
};

static bool is_listed(const struct source *source, uint32_t page)
{
	return source->whole ? source->disk->versions[page] : source->disk->changed[page];
}

static enum copy_step find(void *context, uint64_t from, struct change *change)
{
	const struct source *source = context;
	const struct disk *disk = source->disk;
	uint32_t page = from / IMAGE_PAGE, end;

	while (page < disk->pages && !is_listed(source, page))
		page++;
	if (page == disk->pages)
		return COPY_END;
	change->hole = !disk->versions[page];
	for (end = page; end < disk->pages && is_listed(source, end) &&
	     !disk->versions[end] == change->hole; end++)
		;
	change->extent.start = (uint64_t)page * IMAGE_PAGE;
	change->extent.length = (uint64_t)(end - page) * IMAGE_PAGE;
	return COPY_MORE;
}

static enum copy_step read_disk(void *context, const struct image_extent *extent, void *data)
{
	const struct source *source = context;
	uint32_t first = extent->start / IMAGE_PAGE, i;

	for (i = 0; i < extent->length / IMAGE_PAGE; i++)
		page_of(first + i, source->disk->versions[first + i],
			(char *)data + i * IMAGE_PAGE);
	return COPY_MORE;
}

/* Append a generation. Return: whether that worked; after a failure, it is cut off again. */
static bool save(int fd, struct log_head *head, const struct disk *disk, bool whole, int level,
		 unsigned int keep)
{
	struct image_header header = {
		.size = (uint64_t)disk->pages * IMAGE_PAGE,
		.logical_block_size = 4096,
		.folio_size = 4096,
	};
	struct source source = { disk, whole };
	struct append append = {
		.fd = fd,
		.level = level,
		.next = changes_next,
		.progress.mode = PROGRESS_NONE,
	};
	struct changes changes = {
		.find = find,
		.read = read_disk,
		.context = &source,
		.holes = !whole,
	};
	struct log_segment *segment = &append.segment;
	struct log_head new = *head;
	uint32_t i;
	bool good;

	append.context = &changes;
	segment->generation.number = 1;
	if (!head->count) {
		generations_begin(&new, &header, segment);
	} else {
		segment->generation.number = log_newest(head)->number + 1;
		segment->header = header;
		segment->header.id = head->log;
		segment->first = head->end;
		segment->previous = log_newest(head)->position;
		segment->whole = whole;
	}
	segment->generation.state[0] = segment->generation.number;
	for (i = 0; i < disk->pages; i++)
		segment->generation.data += disk->versions[i] ? IMAGE_PAGE : 0;
	good = append_segment(&append) == COPY_DONE;
	changes_end(&changes);
	good = good && !generations_add(&new, segment, keep, append.written) &&
	       !append_head(fd, &new);
	if (good)
		*head = new;
	else if (head->count && ftruncate(fd, head->end))
		abort();
	return good;
}

static bool is_page(const void *data, uint32_t page, uint32_t version)
{
	static char wanted[IMAGE_PAGE];

	page_of(page, version, wanted);
	return !memcmp(wanted, data, IMAGE_PAGE);
}

/* Read a generation. Return: NULL if it is as @disk was then, or what is wrong. */
static char *compare(int fd, const struct log_head *head, const struct log_generation *generation,
		     const struct disk *disk)
{
	void *data = aligned_alloc(COPY_ALIGN, IMAGE_FRAME_MAX);
	char *found = calloc(disk->pages, 1), *error = NULL;
	struct image_frame frame;
	struct log_reader reader;
	enum copy_step step = COPY_FAILED;
	const char *at;
	uint32_t i, page;
	uint64_t done;

	if (log_reader_open(&reader, fd, head, generation)) {
		if (reader.header.size != (uint64_t)disk->pages * IMAGE_PAGE)
			error = copy_text("it has another size");
		while (!error && (step = log_read(&reader, &frame, data)) == COPY_MORE) {
			at = data;
			for (i = 0; i < frame.count; i++) {
				for (done = 0; done < frame.extents[i].length; done += IMAGE_PAGE) {
					page = (frame.extents[i].start + done) / IMAGE_PAGE;
					if (found[page]++)
						error = copy_text("a page comes twice");
					else if (!is_page(at, page, disk->versions[page]))
						error = format_text("page %u is wrong", page);
					at += IMAGE_PAGE;
				}
			}
		}
	}
	if (!error && step == COPY_FAILED)
		error = copy_text(reader.walk.error);
	for (page = 0; !error && page < disk->pages; page++)
		if (!found[page] && !is_page((char[IMAGE_PAGE]){ 0 }, page, disk->versions[page]))
			error = format_text("page %u is missing", page);
	log_reader_close(&reader);
	free(found);
	free(data);
	return error;
}

static int scratch_file(void)
{
	char name[] = "/var/tmp/log_test-XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0 || unlink(name))
		abort();
	return fd;
}

static void spoil(struct disk *disk, uint32_t runs, uint32_t length, uint32_t version)
{
	uint32_t i, j, page;

	memset(disk->changed, 0, disk->pages);
	for (i = 0; i < runs; i++) {
		page = any(disk->pages);
		for (j = any(length) + 1; j && page < disk->pages; j--, page++) {
			disk->changed[page] = true;
			disk->versions[page] = any(4) ? version : 0;
		}
	}
}

static uint64_t used(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		abort();
	return (uint64_t)st.st_blocks * 512;
}

static bool put_head(int fd, struct log_head *head)
{
	head->sequence++;
	return !append_head(fd, head);
}

/* Both heads have the generations before anything is punched out, as in compact_image(). */
static bool clean(int fd, struct log_head *head, uint64_t *taken)
{
	bool good = put_head(fd, head);
	char *error = NULL;

	good = good && generations_clean(fd, head, NULL, taken, &error) && put_head(fd, head);
	free(error);
	return good;
}

#define KEPT_MAX	24

static void copy_disk(struct disk *to, const struct disk *from)
{
	to->pages = from->pages;
	memcpy(to->versions, from->versions, from->pages * sizeof(*from->versions));
}

static bool check_all(int fd, const struct log_head *head, const struct disk *history,
		      unsigned int round)
{
	char *error = NULL;
	uint32_t i;

	for (i = 0; !error && i < head->count; i++)
		error = compare(fd, head, &head->generations[i],
				&history[head->generations[i].number % (KEPT_MAX + 1)]);
	if (error)
		tap_ok(false, "round %u, generation %llu: %s", round,
		       (unsigned long long)head->generations[i - 1].number, error);
	free(error);
	return !error;
}

static bool rewrite_file(int *fd, struct log_head *head, int level)
{
	struct rewrite rewrite = {
		.from = *fd, .to = scratch_file(), .level = level, .mode = PROGRESS_NONE,
		.head = *head,
	};
	bool good = rewrite_image(&rewrite) == COPY_DONE;

	close(*fd);
	*fd = rewrite.to;
	*head = rewrite.head;
	free(rewrite.error);
	return good;
}

static void discard(struct disk *disk, uint32_t page, uint32_t length)
{
	for (; length && page < disk->pages; length--, page++) {
		disk->changed[page] = true;
		disk->versions[page] = 0;
	}
}

/* Many updates; now and then everything is written, the size changes, or the file is rewritten. */
static void test_model(int level, uint32_t pages, uint32_t runs)
{
	struct disk history[KEPT_MAX + 1], disk = make_disk(pages);
	struct log_head head = { 0 };
	int fd = scratch_file();
	bool good = true, whole;
	unsigned int round, i;
	uint64_t taken;

	for (i = 0; i <= KEPT_MAX; i++)
		history[i] = make_disk(disk.pages);
	for (round = 1; good && round <= 40; round++) {
		whole = round == 1 || !any(10);
		if (whole && round > 1)
			disk.pages = pages * 2 / 3 + any(pages * 2 / 3);
		spoil(&disk, round % 7 ? 1 + any(runs) : 0, round % 5 ? 3 : 400, round);
		if (round % 4 == 3)
			discard(&disk, any(disk.pages), any(disk.pages));
		good = save(fd, &head, &disk, whole, level, 1 + any(5));
		copy_disk(&history[log_newest(&head)->number % (KEPT_MAX + 1)], &disk);
		good = good && check_all(fd, &head, history, round);
		if (good && !any(3)) {
			good = clean(fd, &head, &taken) && check_all(fd, &head, history, round);
		}
		if (good && !any(8))
			good = rewrite_file(&fd, &head, level) &&
			       check_all(fd, &head, history, round);
	}
	tap_ok(good, "40 updates of all kinds of %u pages, level %d", pages, level);
	for (i = 0; i <= KEPT_MAX; i++)
		free_disk(&history[i]);
	free_disk(&disk);
	close(fd);
}

static struct image_start start_of(int fd, char **error)
{
	struct image_start start;

	if (image_read_start(fd, &start, error))
		abort();
	return start;
}

static void apply(int fd, const struct step *step, uint64_t length)
{
	uint64_t end = step->offset + length;

	if (step->kind == STEP_WRITE &&
	    __real_pwrite64(fd, step->data, length, step->offset) != (ssize_t)length)
		abort();
	if (step->kind == STEP_PUNCH && (off_t)end > 0 &&
	    __real_fallocate64(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, step->offset,
			       length))
		abort();
}

/* All steps up to the last sync before @at, and some of those after it; one may be torn. */
static int power_cut(size_t at)
{
	int fd = scratch_file();
	size_t synced = 0, i;

	for (i = 0; i < at; i++)
		if (steps[i].kind == STEP_SYNC)
			synced = i;
	for (i = 0; i < at; i++) {
		if (i < synced || any(2))
			apply(fd, &steps[i], steps[i].length);
		else if (steps[i].kind == STEP_WRITE && any(2))
			apply(fd, &steps[i], any(steps[i].length / 512 + 1) * 512);
	}
	return fd;
}

/* Nothing that the older head has was punched out: it serves if the other one is damaged. */
static bool check_other(int fd, const struct log_head *head, const struct disk *history,
			unsigned int round)
{
	unsigned int slot = (head->sequence + 1) % LOG_HEADS;
	void *block = aligned_alloc(COPY_ALIGN, IMAGE_BLOCK);
	struct log_head other;
	char *error;
	bool good;

	if (pread(fd, block, IMAGE_BLOCK, slot * IMAGE_BLOCK) != IMAGE_BLOCK)
		abort();
	error = log_get_head(&other, block, slot);
	good = error || check_all(fd, &other, history, round);
	free(error);
	free(block);
	return good;
}

/* After a power cut, the image has the last state that was synced, or the next one. */
static void test_power_cuts(void)
{
	struct disk history[KEPT_MAX + 1], disk = make_disk(600);
	size_t done[20], cuts = 0, at, again;
	struct log_head head = { 0 };
	unsigned int round, i;
	int fd = scratch_file(), cut;
	bool good = true;
	uint64_t taken;
	char *error;

	for (i = 0; i <= KEPT_MAX; i++)
		history[i] = make_disk(disk.pages);
	recording = true;
	for (round = 1; good && round < 12; round++) {
		spoil(&disk, 40, 12, round);
		good = save(fd, &head, &disk, round == 1, 0, 2);
		copy_disk(&history[round % (KEPT_MAX + 1)], &disk);
		done[round] = nr_steps;
		good = good && clean(fd, &head, &taken);
		recording = false;
		for (at = round > 1 ? done[round - 1] : 0; good && at <= nr_steps; at++) {
			for (again = 0; good && again < 3; again++) {
				struct image_start start;

				cut = power_cut(at);
				cuts++;
				start = start_of(cut, &error);
				/* The first save is to a file that has no name yet. */
				if (error || !start.log) {
					good = error && round == 1 && at < done[1];
				} else {
					good = log_newest(&start.head)->number >=
					       round - (at < done[round]) &&
					       check_all(cut, &start.head, history, round) &&
					       check_other(cut, &start.head, history, round);
				}
				free(error);
				close(cut);
			}
		}
		recording = true;
	}
	recording = false;
	tap_ok(good && cuts > 500, "%zu power cuts leave a whole image", cuts);
	for (at = 0; at < nr_steps; at++)
		free(steps[at].data);
	for (i = 0; i <= KEPT_MAX; i++)
		free_disk(&history[i]);
	free_disk(&disk);
	close(fd);
}

/* A full file system at each block. */
static void test_no_space(void)
{
	struct disk history[KEPT_MAX + 1], disk = make_disk(2000);
	struct log_head head = { 0 };
	int fd = scratch_file();
	bool good = true, failed = false;
	unsigned int i;
	char *error;

	for (i = 0; i <= KEPT_MAX; i++)
		history[i] = make_disk(disk.pages);
	spoil(&disk, 100, 30, 1);
	good = save(fd, &head, &disk, true, 0, 1);
	copy_disk(&history[1], &disk);
	spoil(&disk, 30, 5, 2);
	for (i = 0; good && !failed; i++) {
		room = i * IMAGE_BLOCK;
		failed = save(fd, &head, &disk, false, 0, 1);
		room = -1;
		if (!failed) {
			struct image_start start = start_of(fd, &error);

			good = !error && check_all(fd, &start.head, history, i);
			free(error);
		}
	}
	copy_disk(&history[2], &disk);
	tap_ok(good && i > 20 && check_all(fd, &head, history, i),
	       "without space, the image stays: %u times", i);
	for (i = 0; i <= KEPT_MAX; i++)
		free_disk(&history[i]);
	free_disk(&disk);
	close(fd);
}

/* Count the bytes of all pages that the kept generations have, each version of a page once. */
static uint64_t data_of(const struct log_head *head, const struct disk *history)
{
	const struct disk *disk, *before = NULL;
	uint64_t pages = 0;
	uint32_t i, page;

	for (i = 0; i < head->count; i++, before = disk) {
		disk = &history[head->generations[i].number % (KEPT_MAX + 1)];
		for (page = 0; page < disk->pages; page++)
			pages += disk->versions[page] &&
				 (!before || before->versions[page] != disk->versions[page]);
	}
	return pages * IMAGE_PAGE;
}

/* Updates write little, and the file is short after each of them. */
static void test_bounds(uint32_t pages, uint32_t runs, uint32_t length, unsigned int keep)
{
	struct disk history[KEPT_MAX + 1], disk = make_disk(pages);
	unsigned int round, i, nr, cleaned = 0, rewritten = 0, most = 0, percent;
	struct log_head head = { 0 };
	int fd = scratch_file();
	bool good = true, small = true;
	uint64_t before, changed, data, taken;

	for (i = 0; i <= KEPT_MAX; i++)
		history[i] = make_disk(disk.pages);
	for (i = 0; i < disk.pages; i++)
		disk.versions[i] = 1;
	good = save(fd, &head, &disk, true, 0, keep);
	copy_disk(&history[1], &disk);
	for (round = 2; good && round <= 101; round++) {
		memset(disk.changed, 0, disk.pages);
		/* For some updates, everything changes: what was needed then is not any more. */
		nr = round > 50 && round <= 50 + keep ? pages : runs * length;
		for (i = 0, changed = 0; i < nr; i++) {
			static uint32_t page;

			page = nr == pages || i % length ? (page + 1) % pages : any(pages);
			changed += disk.changed[page] ? 0 : IMAGE_PAGE;
			disk.changed[page] = true;
			disk.versions[page] = 2 * round + 1;
		}
		before = written;
		good = save(fd, &head, &disk, false, 0, keep);
		copy_disk(&history[log_newest(&head)->number % (KEPT_MAX + 1)], &disk);
		small &= written - before <= changed + changed / 10 + (64 << 10);
		if (good && generations_need_cleaning(&head)) {
			good = clean(fd, &head, &taken);
			cleaned++;
			if (good && generations_need_rewriting(&head, taken)) {
				good = rewrite_file(&fd, &head, 0);
				rewritten++;
			}
		}
		data = data_of(&head, history) + (2 + 3 * head.count) * IMAGE_BLOCK;
		if (used(fd) <= data)
			continue;
		percent = (used(fd) - data) * 100 / (data < 3 << 19 ? 3 << 19 : data);
		if (percent > most)
			most = percent;
	}
	tap_ok(small, "%u runs of %u pages: an update writes at most 1.1 times that and 64 KiB", runs,
	       length);
	tap_ok(good && most < 20 && rewritten < 8,
	       "%u of %u pages, %u kept: the file takes at most %u %% more than the data during 100 updates, cleaned %u times, rewritten %u times",
	       runs * length, pages, keep, most, cleaned, rewritten);
	tap_ok(good && check_all(fd, &head, history, round),
	       "all kept generations are there");
	for (i = 0; i <= KEPT_MAX; i++)
		free_disk(&history[i]);
	free_disk(&disk);
	close(fd);
}

/* What is damaged is an error, or was not needed. */
static void test_damage(int level)
{
	struct disk history[KEPT_MAX + 1], disk = make_disk(300);
	struct log_head head = { 0 };
	size_t at, found = 0, harmless = 0, wrong = 0;
	struct image_start start;
	int fd = scratch_file();
	unsigned int round, i;
	bool good = true;
	uint8_t byte, bad;
	char *error;

	for (i = 0; i <= KEPT_MAX; i++)
		history[i] = make_disk(disk.pages);
	for (round = 1; good && round <= 4; round++) {
		spoil(&disk, 10, 8, round);
		good = save(fd, &head, &disk, round == 1, level, 2);
		copy_disk(&history[round], &disk);
	}
	for (at = 0; good && at < head.end; at += at % IMAGE_BLOCK < 200 ? 7 : 501) {
		if (pread(fd, &byte, 1, at) != 1)
			abort();
		bad = byte ^ 1 << any(8);
		if (__real_pwrite64(fd, &bad, 1, at) != 1)
			abort();
		start = start_of(fd, &error);
		if (!error && start.log) {
			error = compare(fd, &start.head, log_newest(&start.head),
					&history[log_newest(&start.head)->number]);
			wrong += error && strncmp(error, "is ", 3);
			if (!error)
				harmless++;
		}
		found += !!error;
		free(error);
		if (__real_pwrite64(fd, &byte, 1, at) != 1)
			abort();
	}
	tap_ok(good && !wrong && found > 100, "level %d: of damage, %zu are found, %zu harmless, %zu not",
	       level, found, harmless, wrong);
	for (i = 0; i <= KEPT_MAX; i++)
		free_disk(&history[i]);
	free_disk(&disk);
	close(fd);
}

int main(void)
{
	test_model(0, 3000, 600);
	test_model(1, 3000, 600);
	test_model(0, 20000, 30);
	test_power_cuts();
	test_no_space();
	test_bounds(16 << 10, 800, 1, 1);
	test_bounds(16 << 10, 10, 64, 3);
	test_bounds(16 << 10, 1, 1, 2);
	test_bounds(1 << 10, 1, 256, 1);
	test_bounds(1 << 10, 8, 1, 1);
	test_bounds(1 << 10, 1, 1, 1);
	test_bounds(1 << 10, 30, 8, 5);
	test_bounds(500, 1, 40, 1);
	test_bounds(10, 1, 10, 24);
	test_bounds(640, 1, 10, 24);
	test_bounds(1 << 10, 1, 256, 3);
	test_damage(0);
	test_damage(1);
	return tap_end();
}
