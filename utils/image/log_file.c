// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open and lock the file of an image that is to be updated.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/system.h"
#include "copy/file.h"
#include "image/generations.h"
#include "image/log_file.h"
#include "image/names.h"

/**
 * log_lock - wait until no other rxadm updates or reads an image
 * @fd: the image
 * @path: its path
 * @shared: others may read it
 *
 * The lock is held until @fd is closed.
 */
enum exit_code log_lock(int fd, const char *path, bool shared)
{
	unsigned int round = 0;

	while (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return report(exit_code_of(errno), "image '%s': cannot be locked: %s", path,
				      strerror(errno));
		pause_for(round++, "until '%s' is no longer in use by another rxadm", path);
	}
	return EXIT_OK;
}

/**
 * log_tell_damage - report that one of the heads of an image is damaged
 * @fd: the image
 * @path: its path
 * @head: the other head
 */
void log_tell_damage(int fd, const char *path, const struct log_head *head)
{
	const struct log_generation *generation = log_newest(head);
	char text[64];
	struct stat st;
	bool more;

	/* A newer generation, which only the damaged head names, is beyond the end of this head. */
	more = fstat(fd, &st) || (uint64_t)st.st_size > head->end;
	generation_time(generation, false, text, sizeof(text));
	report(EXIT_OK,
	       "note: image '%s': one of its two heads is damaged; its newest generation is now %llu, saved %s%s",
	       path, (unsigned long long)generation->number, text,
	       more ? "; a newer one may be lost" : "");
}

/*
 * Check whether another user has put the file into a folder such as /tmp. This user could read what
 * is written to it.
 */
static bool is_foreign(const struct log_file *file, int folder_fd)
{
	struct stat folder;

	return fstat(folder_fd, &folder) ||
	       (folder.st_mode & S_ISVTX && file->st.st_uid != geteuid() &&
		file->st.st_uid != folder.st_uid);
}

/* Begin a new image if the file has another path, which may be a backup, or if it is foreign. */
void log_check_replace(struct log_file *file)
{
	const bool linked = file->st.st_nlink > 1;

	if (!linked && !file->foreign)
		return;
	if (file->start.log)
		report(EXIT_OK, "note: file '%s': is replaced by an image with one generation; %s",
		       file->path, linked ?
		       "it has another hard link, which keeps the older ones" :
		       "it belongs to another user, in a directory with the sticky bit");
	file->start.log = false;
}

/* Open the file that the path leads to. Return: 0 or an errno. */
static int open_file(struct log_file *file)
{
	struct output place;
	int err, flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

	err = output_find(&place, file->path, false);
	if (err)
		return err;
	file->full = image_beside_path(place.folder_fd, place.name);
	if (place.old.st_mode) {
		file->fd = openat(place.folder_fd, place.name, flags | O_DIRECT);
		if (file->fd < 0 && errno == EINVAL)
			file->fd = openat(place.folder_fd, place.name, flags);
		if (file->fd < 0 || fstat(file->fd, &file->st))
			err = errno;
		else if (!S_ISREG(file->st.st_mode))
			err = ENOTSUP;
		else
			file->foreign = is_foreign(file, place.folder_fd);
	}
	output_discard(&place);
	return err;
}

/* Check whether a file, which may have been waited for, still has its path. */
bool log_has_path(int fd, const char *path)
{
	struct stat there, file;

	return !stat(path, &there) && !fstat(fd, &file) && there.st_dev == file.st_dev &&
	       there.st_ino == file.st_ino;
}

static enum exit_code read_start(struct log_file *file)
{
	enum exit_code ret = EXIT_OK;
	char *error;
	int err;

	err = image_read_start(file->fd, &file->start, &error);
	if (err)
		ret = report(exit_code_of(err), "file '%s': cannot be read: %s", file->path,
			     strerror(err));
	else if (error)
		ret = report(EXIT_PARAMETERS, "file '%s': cannot be updated: it %s", file->path,
			     file->start.length ? error : "is empty");
	free(error);
	return ret;
}

/**
 * log_file_open - open and lock the image that is to be updated, if there is one
 * @file: out: to be closed by log_file_close(), also after an error
 * @path: the file
 */
enum exit_code log_file_open(struct log_file *file, const char *path)
{
	enum exit_code ret = EXIT_OK;
	int err;

	*file = (struct log_file){ .fd = -1 };
	for (;;) {
		file->path = path;
		err = open_file(file);
		if (err)
			return file_replace_error("file", path, err);
		if (file->fd < 0)
			return EXIT_OK;
		ret = log_lock(file->fd, path, false);
		if (ret)
			return ret;
		/* The one that had the lock may have written to it. */
		if (log_has_path(file->fd, file->full) && !fstat(file->fd, &file->st))
			return read_start(file);
		log_file_close(file);
	}
}

void log_file_close(struct log_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	free(file->full);
	*file = (struct log_file){ .fd = -1 };
}
