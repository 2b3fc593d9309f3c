// SPDX-License-Identifier: GPL-2.0-only
/*
 * The copy engine: order, errors of either side, signals; and files that appear whole.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy.h"
#include "file.h"
#include "tap.h"

#define ROOM	8192
#define NEVER	(~0U)

/* Numbers go from the reader to the writer. */
struct numbers {
	struct copy_job copy;
	struct progress progress;
	unsigned int next;		/* of the reader */
	unsigned int wanted;		/* of the writer */
	unsigned int total;
	unsigned int read_fails;	/* at this number */
	unsigned int write_fails;
	unsigned int signals;
	bool finish_fails;
	bool wrong;
	bool finished;
};

static enum copy_step read_number(void *context, struct copy_chunk *chunk)
{
	struct numbers *numbers = context;

	if (numbers->next == numbers->read_fails)
		return COPY_FAILED;
	if (numbers->next == numbers->total)
		return COPY_END;
	if (numbers->next == numbers->signals)
		kill(getpid(), SIGTERM);
	memset(chunk->data, numbers->next, ROOM);
	*(unsigned int *)chunk->note = numbers->next;
	chunk->offset = numbers->next++;
	chunk->length = ROOM;
	return COPY_MORE;
}

static enum copy_step write_number(void *context, const struct copy_chunk *chunk)
{
	struct numbers *numbers = context;
	const unsigned char *data = chunk->data;

	if (numbers->wanted == numbers->write_fails)
		return COPY_FAILED;
	if (chunk->offset != numbers->wanted || *(unsigned int *)chunk->note != numbers->wanted ||
	    data[0] != (unsigned char)numbers->wanted || data[ROOM - 1] != data[0] ||
	    (uintptr_t)data % COPY_ALIGN)
		numbers->wrong = true;
	numbers->wanted++;
	copy_count(&numbers->copy.counts.copied, chunk->length);
	/* Give the signal time to arrive. */
	if (numbers->signals != NEVER)
		usleep(1000);
	return COPY_MORE;
}

static enum copy_step finish_numbers(void *context)
{
	struct numbers *numbers = context;

	numbers->finished = true;
	return numbers->finish_fails ? COPY_FAILED : COPY_END;
}

static bool light;

static void prepare(struct numbers *numbers, unsigned int total, unsigned int chunks)
{
	*numbers = (struct numbers){
		.copy = {
			.read = read_number,
			.write = write_number,
			.finish = finish_numbers,
			.context = numbers,
			.room = ROOM,
			.note_size = sizeof(unsigned int),
			.chunks = chunks,
			.light = light,
			.timed = true,
			.progress = &numbers->progress,
		},
		.progress = { .mode = PROGRESS_NONE },
		.total = total,
		.read_fails = NEVER,
		.write_fails = NEVER,
		.signals = NEVER,
	};
}

static void test_order(void)
{
	static const unsigned int totals[] = { 0, 1, 2, 5, 1000 };
	struct numbers numbers;
	unsigned int i, chunks;
	bool ok = true;

	for (i = 0; i < sizeof(totals) / sizeof(*totals); i++) {
		for (chunks = 2; chunks <= COPY_CHUNKS_MAX; chunks += 7) {
			prepare(&numbers, totals[i], chunks);
			if (copy_run(&numbers.copy) != COPY_DONE || numbers.wrong ||
			    numbers.wanted != totals[i] || !numbers.finished ||
			    numbers.copy.counts.copied != (uint64_t)totals[i] * ROOM)
				ok = false;
		}
	}
	tap_ok(ok, "all chunks arrive in their order");
	tap_ok(numbers.copy.times.elapsed >= numbers.copy.times.read &&
	       numbers.copy.times.elapsed >= numbers.copy.times.write, "the times are sensible");
}

static void test_errors(void)
{
	struct numbers numbers;

	prepare(&numbers, 100, 4);
	numbers.read_fails = 50;
	tap_ok(copy_run(&numbers.copy) == COPY_ERROR && !numbers.finished,
	       "an error of the reader");
	prepare(&numbers, 100, 4);
	numbers.read_fails = 0;
	tap_ok(copy_run(&numbers.copy) == COPY_ERROR && !numbers.wanted,
	       "an error at the beginning");
	prepare(&numbers, 100, 4);
	numbers.write_fails = 50;
	tap_ok(copy_run(&numbers.copy) == COPY_ERROR && !numbers.finished && numbers.next < 100,
	       "an error of the writer ends the reader");
	prepare(&numbers, 3, 4);
	numbers.finish_fails = true;
	tap_ok(copy_run(&numbers.copy) == COPY_ERROR, "an error at the end");
}

static void test_signals(void)
{
	struct numbers numbers;
	/* The kernel fills only a part of a set. */
	sigset_t before = { 0 }, set = { 0 };

	sigprocmask(SIG_SETMASK, NULL, &before);
	prepare(&numbers, 100000, 4);
	numbers.signals = 20;
	tap_ok(copy_run(&numbers.copy) == COPY_INTERRUPTED && numbers.copy.signal == SIGTERM &&
	       !numbers.finished && numbers.wanted < 100000, "a signal interrupts");
	sigprocmask(SIG_SETMASK, NULL, &set);
	tap_ok(!memcmp(&before, &set, sizeof(set)), "the mask is as it was");

	/* Signals that the caller has blocked stay blocked. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	prepare(&numbers, 50, 4);
	numbers.signals = 20;
	tap_ok(copy_run(&numbers.copy) == COPY_DONE && !numbers.copy.signal,
	       "a signal that is blocked does not");
	sigpending(&set);
	tap_ok(sigismember(&set, SIGTERM), "and waits");
	signal(SIGTERM, SIG_IGN);
	sigprocmask(SIG_SETMASK, &before, NULL);
	prepare(&numbers, 50, 4);
	numbers.signals = 20;
	tap_ok(copy_run(&numbers.copy) == COPY_DONE, "nor one that is ignored");
	signal(SIGTERM, SIG_DFL);
}

static void test_held_signals(void)
{
	struct copy_signals signals;
	struct numbers numbers;
	int status = 0;
	pid_t child;

	/* A shell without job control starts background processes with this signal ignored. */
	signal(SIGINT, SIG_DFL);
	tap_ok(!copy_signals_hold(&signals) && !copy_signals_take(&signals), "no signal waits");
	raise(SIGINT);
	prepare(&numbers, 1000, 4);
	numbers.copy.signals = &signals;
	tap_ok(copy_run(&numbers.copy) == COPY_INTERRUPTED && numbers.copy.signal == SIGINT &&
	       !numbers.wanted, "one that came before interrupts");
	raise(SIGINT);
	tap_ok(copy_signals_take(&signals) == SIGINT && !copy_signals_take(&signals),
	       "one that comes after waits, too");
	copy_signals_release(&signals);

	child = fork();
	if (!child) {
		copy_signals_hold(&signals);
		raise(SIGTERM);
		copy_signals_release(&signals);
		_exit(0);
	}
	waitpid(child, &status, 0);
	tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "until none need wait any more");
}

static void test_waits(void)
{
	struct numbers numbers;

	prepare(&numbers, 1000, 4);
	tap_ok(copy_run(&numbers.copy) == COPY_DONE && !numbers.copy.times.get_full,
	       "without waits there are no threads");
	prepare(&numbers, 100, 4);
	numbers.signals = 1000;
	tap_ok(copy_run(&numbers.copy) == COPY_DONE && !numbers.wrong && numbers.wanted == 100 &&
	       numbers.finished && numbers.copy.times.get_full, "with waits there are");
}

static void test_zeros(void)
{
	unsigned char data[300] = { 0 };
	size_t length, i;
	bool ok = true;

	for (length = 0; length <= sizeof(data); length++)
		ok = ok && copy_is_zero(data, length);
	tap_ok(ok, "zeros are zeros");
	for (length = 1; length <= sizeof(data); length++) {
		for (i = 0; i < length; i++) {
			data[i] = 1;
			ok = ok && !copy_is_zero(data, length) && copy_is_zero(data, i) &&
			     copy_is_zero(data + i + 1, length - i - 1);
			data[i] = 0;
		}
	}
	tap_ok(ok, "one byte that is not is seen, one beyond is not");
}

static unsigned int count_files(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned int count = 0;

	while (dir && readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static bool has(const char *path, const char *content)
{
	FILE *file = fopen(path, "re");
	char text[64] = "";
	bool same;

	if (!file)
		return false;
	same = (fgets(text, sizeof(text), file) || feof(file)) && !strcmp(text, content);
	fclose(file);
	return same;
}

static void test_folder(void)
{
	struct output output;
	int folder;

	tap_ok(!mkdir("into", 0700) && !symlink("into", "way") && !symlink("../file", "into/link"),
	       "a folder, and links");
	tap_ok(output_folder("file", true, &folder) == ENOTDIR &&
	       output_folder("", true, &folder) == ENOENT &&
	       output_folder("none", true, &folder) == ENOENT && folder < 0, "what is no folder");
	if (!tap_ok(!output_folder("way/", true, &folder), "a folder for several files"))
		return;
	tap_ok(!output_find_in(&output, folder, "one", false) && !output_begin(&output, false) &&
	       !file_write(output.fd, "one", 3, 0) && !output_commit(&output, 0600, true) &&
	       has("into/one", "one"), "the first of them");
	tap_ok(!output_find_in(&output, folder, "link", false) && !output_begin(&output, false) &&
	       !file_write(output.fd, "elsewhere", 9, 0) && !output_commit(&output, 0600, true) &&
	       has("file", "elsewhere"), "a link of one leads elsewhere");
	tap_ok(output_find_in(&output, folder, "", false) == EISDIR &&
	       output_find_in(&output, folder, "..", false) == EISDIR, "what is no file");
	tap_ok(!output_find_in(&output, folder, "two", false) && !output_begin(&output, false) &&
	       !rename("into", "away") && !output_commit(&output, 0600, false) && has("away/two", ""),
	       "all go to the same folder");
	tap_ok(!close(folder), "which is the caller's to close");
	unlink("away/one");
	unlink("away/two");
	unlink("away/link");
	unlink("way");
	rmdir("away");
}

int __real_openat64(int folder, const char *path, int flags, ...);
int __real_renameat2(int folder, const char *from, int folder_to, const char *to,
		     unsigned int flags);
int __real_linkat(int folder, const char *from, int folder_to, const char *to, int flags);

/* A file system that does not support O_TMPFILE and RENAME_NOREPLACE, such as NFS. */
static bool plain;
/* Nor links. */
static bool without_links;

int __wrap_openat64(int folder, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	if (!plain || (flags & O_TMPFILE) != O_TMPFILE)
		return __real_openat64(folder, path, flags, mode);
	errno = EOPNOTSUPP;
	return -1;
}

int __wrap_renameat2(int folder, const char *from, int folder_to, const char *to,
		     unsigned int flags)
{
	if (!plain || !flags)
		return __real_renameat2(folder, from, folder_to, to, flags);
	errno = EINVAL;
	return -1;
}

int __wrap_linkat(int folder, const char *from, int folder_to, const char *to, int flags)
{
	if (!without_links)
		return __real_linkat(folder, from, folder_to, to, flags);
	errno = EPERM;
	return -1;
}

static void test_exclusive(void)
{
	struct output output;

	output_open(&output, "file", false);
	output.exclusive = true;
	file_write(output.fd, "five", 4, 0);
	tap_ok(output_commit(&output, 0600, false) == EEXIST && has("file", "four"),
	       "a plain file system replaces nothing either");
	unlink("file");
	tap_ok(!output_commit(&output, 0600, false) && has("file", "five") && count_files(".") == 2,
	       "and leaves one name");
	output_discard(&output);
	unlink("file");
	without_links = true;
	output_open(&output, "file", false);
	output.exclusive = true;
	file_write(output.fd, "four", 4, 0);
	tap_ok(!output_commit(&output, 0600, false) && has("file", "four") && count_files(".") == 2,
	       "nor does it need links");
	output_discard(&output);
	without_links = false;
}

static void test_output(void)
{
	char folder[] = "/tmp/copy-test-XXXXXX";
	struct output output;
	struct stat st;

	if (!tap_ok(mkdtemp(folder) && !chdir(folder), "a folder"))
		return;
	tap_ok(!output_open(&output, "file", false) && !file_write(output.fd, "new", 3, 0),
	       "a new file");
	output_discard(&output);
	tap_ok(!count_files("."), "is not there if it is given up");

	output_open(&output, "file", true);
	file_write(output.fd, "one", 3, 0);
	tap_ok(access("file", F_OK) && !output_commit(&output, 0640, true) && has("file", "one") &&
	       !stat("file", &st) && (st.st_mode & 0777) == 0640, "is there when it is whole");
	output_discard(&output);

	output_open(&output, "file", false);
	file_write(output.fd, "two", 3, 0);
	tap_ok(has("file", "one") && !output_commit(&output, 0600, true) && has("file", "two") &&
	       count_files(".") == 1, "and takes the place of an old one");
	output_discard(&output);

	tap_ok(!symlink("file", "link") && !output_open(&output, "link", false) &&
	       !file_write(output.fd, "three", 5, 0) && !output_commit(&output, 0600, false) &&
	       has("file", "three") && !lstat("link", &st) && S_ISLNK(st.st_mode),
	       "a symbolic link stays");
	output_discard(&output);

	output_open(&output, "file", false);
	output.exclusive = true;
	file_write(output.fd, "four", 4, 0);
	tap_ok(output_commit(&output, 0600, false) == EEXIST && has("file", "three"),
	       "what is exclusive replaces nothing");
	unlink("file");
	tap_ok(!output_commit(&output, 0600, false) && has("file", "four"),
	       "and takes its name once that is free");
	output_discard(&output);
	plain = true;
	test_exclusive();
	plain = false;

	tap_ok(output_open(&output, "/dev/null", false) == ENOTSUP, "a device is no file");
	tap_ok(output_open(&output, ".", false) == EISDIR, "nor is a folder");
	tap_ok(output_open(&output, "new/", false) == EISDIR, "nor what ends with a slash");
	tap_ok(output_open(&output, "none/new", false) == ENOENT, "a folder that is not there");
	tap_ok(output_open(&output, "", false) == ENOENT, "no name at all");
	tap_ok(count_files(".") == 2, "nothing is left");
	test_folder();
	unlink("link");
	unlink("file");
	if (chdir("/") || rmdir(folder))
		perror(folder);
}

int main(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		light = i;
		test_order();
		test_errors();
		test_signals();
		test_held_signals();
	}
	test_waits();
	test_zeros();
	test_output();
	return tap_end();
}
