// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replace files atomically, create the folder in /run, and protect changes by locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/system.h"
#include "base/text.h"
#include "copy/file.h"

#define LOCK_FILE	"/run/rxadm.lock"

/* Never closed: closing it would release all locks of the process. */
static int lock_fd = -1;

static enum exit_code open_locks(void)
{
	if (lock_fd < 0)
		lock_fd = open(LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return lock_fd < 0 ? report(exit_code_of(errno), "cannot open " LOCK_FILE ": %s",
				    strerror(errno)) : EXIT_OK;
}

static enum exit_code lock_error(int err)
{
	return report(EXIT_DEVICE, "cannot lock " LOCK_FILE ": %s", strerror(err));
}

/* Each lock is a byte of one file, so that no lock needs a file of its own. */
static enum exit_code lock_byte(off_t at, const char *what)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = at, .l_len = 1 };
	struct flock holder = lock;
	unsigned int round = 0;
	enum exit_code ret = open_locks();

	if (ret)
		return ret;
	while (fcntl(lock_fd, F_SETLK, &lock)) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR)
			return lock_error(errno);
		if (wait_is_told(round++) && !fcntl(lock_fd, F_GETLK, &holder) &&
		    holder.l_type != F_UNLCK)
			report(EXIT_OK, "waiting for process %d, which is changing %s",
			       (int)holder.l_pid, what);
		pause_briefly();
		/* signals_allow() then ends the program. */
		if (signals_are_blocked() && signals_pending())
			return EXIT_BUSY;
	}
	return EXIT_OK;
}

static void unlock_byte(off_t at)
{
	struct flock lock = { .l_type = F_UNLCK, .l_start = at, .l_len = 1 };

	fcntl(lock_fd, F_SETLK, &lock);
}

/* Byte 0 is for lock_take(). Consecutive keys, such as device numbers, get different bytes. */
static off_t byte_of(uint64_t key)
{
	return key % (INT64_MAX - 1) + 1;
}

/**
 * lock_take - wait until no other rxadm changes a RAM disk or a cache
 *
 * The lock is held until lock_give(), or until the process ends. Do not hold it in operations
 * that may take long or wait for a disk: use lock_take_one() there.
 */
enum exit_code lock_take(void)
{
	return lock_byte(0, "a RAM disk or a cache");
}

void lock_give(void)
{
	unlock_byte(0);
}

/**
 * lock_take_one - wait until no other rxadm changes an object
 * @key: a number that identifies it
 * @what: its name
 *
 * The lock is held until lock_give_one(), or until the process ends.
 */
enum exit_code lock_take_one(uint64_t key, const char *what)
{
	return lock_byte(byte_of(key), what);
}

/**
 * lock_try_one - take a lock unless another process has it
 * @key: as for lock_take_one()
 * @taken: out: false if another process has it
 *
 * A lock that this process has counts as taken, and lock_give_one() then releases it.
 */
enum exit_code lock_try_one(uint64_t key, bool *taken)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = byte_of(key), .l_len = 1 };
	enum exit_code ret = open_locks();

	*taken = false;
	if (ret)
		return ret;
	*taken = !fcntl(lock_fd, F_SETLK, &lock);
	return *taken || errno == EAGAIN || errno == EACCES ? EXIT_OK : lock_error(errno);
}

void lock_give_one(uint64_t key)
{
	unlock_byte(byte_of(key));
}

/**
 * lock_is_held - find out whether another process has a lock
 * @key: as for lock_take_one()
 * @holder: out: the process, or 0 if its PID is not known here; -1 if this user may not know it
 */
bool lock_is_held(uint64_t key, pid_t *holder)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = byte_of(key), .l_len = 1 };
	/* If the file does not exist, no process has a lock. */
	int fd = lock_fd < 0 ? open(LOCK_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : lock_fd;
	bool held = fd >= 0 && !fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK;

	*holder = held ? lock.l_pid : fd < 0 && errno != ENOENT ? -1 : 0;
	/* This process has no lock that closing it would release. */
	if (fd >= 0 && fd != lock_fd)
		close(fd);
	return held;
}

/* Return: 0 or an errno. */
int run_folder_make(void)
{
	return mkdir(RUN_FOLDER, 0700) && errno != EEXIST ? errno : 0;
}

/**
 * path_make_absolute - return a path that does not depend on the working directory
 * @path: the path
 *
 * Return: allocated text; @path itself if the working directory is unknown.
 */
char *path_make_absolute(const char *path)
{
	char *folder = *path == '/' ? NULL : getcwd(NULL, 0);
	char *text = folder ? format_text("%s/%s", folder, path) : copy_text(path);

	free(folder);
	return text;
}

/**
 * file_replace_error - report why a file cannot be replaced
 * @what: its role in the command
 * @path: the file
 * @err: what output_open() or output_commit() returned
 */
enum exit_code file_replace_error(const char *what, const char *path, int err)
{
	if (err == ENOTSUP && output_is_lost_link(path))
		return report(EXIT_PARAMETERS,
			      "%s '%s': is a symbolic link to a missing file; give the path of that file, or remove the link",
			      what, path);
	if (err == ENOTSUP)
		return report(EXIT_PARAMETERS, "%s '%s': exists, and is not a regular file", what,
			      path);
	if (err == ENOLINK)
		return report(EXIT_PERMISSION,
			      "%s '%s': its path contains a symbolic link of another user, which root does not follow; give the path that the link points to",
			      what, path);
	return report(err == EISDIR ? EXIT_PARAMETERS : exit_code_of(err), "%s '%s': %s", what,
		      path, strerror(err));
}

/* Return: 0 or an errno. */
static int write_all(int fd, void (*fill)(FILE *file, const void *data), const void *data)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	FILE *file = copy < 0 ? NULL : fdopen(copy, "w");
	int err = 0;

	if (!file) {
		err = errno;
		if (copy >= 0)
			close(copy);
		return err;
	}
	fill(file, data);
	if (fflush(file) || ferror(file))
		err = errno ? errno : EIO;
	if (fclose(file) && !err)
		err = errno;
	return err;
}

/**
 * file_replace - write a new file to the disk, then rename it over the old one
 * @what: its role in the command
 * @path: the file
 * @mode: its permissions
 * @fill: function that writes the content
 * @data: argument of @fill
 */
enum exit_code file_replace(const char *what, const char *path, mode_t mode,
			    void (*fill)(FILE *file, const void *data), const void *data)
{
	struct output output;
	int err;

	signals_block();
	err = output_open(&output, path, false);
	if (!err) {
		err = write_all(output.fd, fill, data);
		if (!err)
			err = output_commit(&output, mode, true);
		output_discard(&output);
	}
	signals_allow();
	return err ? file_replace_error(what, path, err) : EXIT_OK;
}
