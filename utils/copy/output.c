// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files that are replaced whole or not at all. While it is written, the new one has
 * no name where the file system can do that, so that nothing is left of a process
 * that was killed. Else, and while it takes the place of another, it has a name of its
 * own: who writes it has signals wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

#define TRIES	100

/* Open the folder and see what has the name: a file, a link, or nothing. */
static int look_up(struct output *output, const char *path, bool *link)
{
	char *copy = strdup(path);
	struct stat st;

	*link = false;
	if (copy) {
		output->name = strdup(basename(copy));
		output->folder_fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	free(copy);
	if (!copy || !output->name)
		return ENOMEM;
	if (output->folder_fd < 0)
		return errno;
	if (fstatat(output->folder_fd, output->name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	*link = S_ISLNK(st.st_mode);
	return S_ISREG(st.st_mode) || *link ? 0 : ENOTSUP;
}

static void forget(struct output *output)
{
	if (output->folder_fd >= 0)
		close(output->folder_fd);
	free(output->name);
	output->folder_fd = -1;
	output->name = NULL;
}

/* What a symbolic link leads to is replaced, not the link. */
static int find_place(struct output *output, const char *path)
{
	bool link;
	int err = look_up(output, path, &link);
	char *real;

	if (err || !link)
		return err;
	forget(output);
	real = realpath(path, NULL);
	if (!real)
		return errno == ENOENT ? ENOTSUP : errno;
	err = look_up(output, real, &link);
	free(real);
	return link ? ENOTSUP : err;
}

/* A name that nobody has, or NULL. */
static char *random_name(void)
{
	unsigned int number;
	char *name;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number) ||
	    asprintf(&name, ".rxd-%08x", number) < 0)
		return NULL;
	return name;
}

static int open_nameless(struct output *output, int flags)
{
	/* Nobody can open it before it has a name. */
	output->fd = openat(output->folder_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0666);
	return output->fd < 0 ? errno : 0;
}

static int open_named(struct output *output, int flags)
{
	unsigned int i;

	for (i = 0; i < TRIES; i++) {
		output->temporary = random_name();
		if (!output->temporary)
			return ENOMEM;
		output->fd = openat(output->folder_fd, output->temporary,
				    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags,
				    0600);
		if (output->fd >= 0)
			return 0;
		free(output->temporary);
		output->temporary = NULL;
		if (errno != EEXIST)
			return errno;
	}
	return EEXIST;
}

static int open_temporary(struct output *output, int flags)
{
	int err = open_nameless(output, flags);

	if (err == EOPNOTSUPP || err == EISDIR || err == ENOENT)
		err = open_named(output, flags);
	return err;
}

/**
 * output_open - begin to write a file
 * @output: out: to be ended by output_commit() or output_discard()
 * @path: its name once it is whole
 * @direct: past the page cache, if it can be
 *
 * The caller has signals wait until it has ended it, or one may leave a file behind.
 *
 * Return: 0 or an errno: EISDIR, ENOTSUP if what has the name is no file, ...
 */
int output_open(struct output *output, const char *path, bool direct)
{
	int err;

	*output = (struct output){ .folder_fd = -1, .fd = -1 };
	if (!*path)
		err = ENOENT;
	else
		err = path[strlen(path) - 1] == '/' ? EISDIR : find_place(output, path);
	if (!err) {
		err = open_temporary(output, direct ? O_DIRECT : 0);
		if (err == EINVAL && direct)
			err = open_temporary(output, 0);
	}
	if (!err && fstat(output->fd, &output->st))
		err = errno;
	if (err)
		output_discard(output);
	return err;
}

/* Give a file without a name this one, which nobody has. */
static int link_as(const struct output *output, const char *name)
{
	char path[64];

	/* The shorter way is open to who may read all, and from Linux 6.10 on. */
	if (!linkat(output->fd, "", output->folder_fd, name, AT_EMPTY_PATH))
		return 0;
	if (errno != ENOENT)
		return errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", output->fd);
	return linkat(AT_FDCWD, path, output->folder_fd, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

/* Give it a name of its own. */
static int link_temporary(struct output *output)
{
	unsigned int i;
	int err;

	for (i = 0; i < TRIES; i++) {
		output->temporary = random_name();
		if (!output->temporary)
			return ENOMEM;
		err = link_as(output, output->temporary);
		if (!err)
			return 0;
		free(output->temporary);
		output->temporary = NULL;
		if (err != EEXIST)
			return err;
	}
	return EEXIST;
}

/* Take the name, in the place of an old one if there is one. */
static int take_name(struct output *output)
{
	int err = output->temporary ? EEXIST : link_as(output, output->name);

	if (err != EEXIST)
		return err;
	/* By way of a name that nobody else has. */
	err = output->temporary ? 0 : link_temporary(output);
	if (!err && renameat(output->folder_fd, output->temporary, output->folder_fd, output->name))
		err = errno;
	if (err)
		return err;
	free(output->temporary);
	output->temporary = NULL;
	return 0;
}

/**
 * output_commit - let the new file take its name, in the place of an old one
 * @output: the file
 * @mode: its permissions
 * @sync: only once it is on the disk, and then see that the name is
 *
 * Return: 0 or an errno; then output_discard() is still to be called.
 */
int output_commit(struct output *output, mode_t mode, bool sync)
{
	int err;

	if (((output->st.st_mode & 07777) != mode && fchmod(output->fd, mode)) ||
	    (sync && fsync(output->fd)))
		return errno;
	err = take_name(output);
	if (err)
		return err;
	/* From here on there is no way back: the new file has the name. */
	if (sync && fsync(output->folder_fd))
		err = errno;
	if (close(output->fd) && !err)
		err = errno;
	output->fd = -1;
	if (!err)
		output_discard(output);
	return err;
}

/**
 * output_discard - give up what has not been committed
 * @output: the file
 */
void output_discard(struct output *output)
{
	if (output->temporary)
		unlinkat(output->folder_fd, output->temporary, 0);
	if (output->fd >= 0)
		close(output->fd);
	free(output->temporary);
	forget(output);
	*output = (struct output){ .folder_fd = -1, .fd = -1 };
}
