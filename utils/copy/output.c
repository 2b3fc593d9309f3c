// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files that are replaced whole or not at all. While it is written, the new one has
 * no name where the file system can do that, so that nothing is left of a process
 * that was killed. Else, and while it takes the place of another, it has a name of its
 * own: who writes it has signals wait.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

#define TRIES		100
#define LINKS_MAX	40	/* as the kernel */

/* A way along a path, link by link. */
struct walk {
	int folder;		/* where it has come to */
	bool lent;		/* and that is the caller's to close */
	char *rest;		/* the path from there */
	unsigned int links;	/* followed so far */
};

static int walk_into(struct walk *walk, int folder)
{
	if (folder < 0)
		return errno;
	if (walk->folder >= 0 && !walk->lent)
		close(walk->folder);
	walk->folder = folder;
	walk->lent = false;
	return 0;
}

static int walk_from_top(struct walk *walk, const char *path)
{
	return walk_into(walk, open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

static void walk_give_up(struct walk *walk)
{
	if (walk->folder >= 0 && !walk->lent)
		close(walk->folder);
	free(walk->rest);
}

/*
 * Put what a link says in the place of its name. Who made it can have it lead root
 * anywhere: fs.protected_symlinks, which may be off, knows only folders such as /tmp.
 */
static int walk_link(struct walk *walk, const char *name, const char *after)
{
	char target[PATH_MAX] = "";
	char *rest;
	struct stat st;
	int err = 0;
	int fd;

	fd = openat(walk->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		err = errno;
	else if (!S_ISLNK(st.st_mode))
		err = ENOTDIR;
	else if (!geteuid() && st.st_uid)
		err = ENOLINK;
	else if (++walk->links > LINKS_MAX)
		err = ELOOP;
	else if (readlinkat(fd, "", target, sizeof(target) - 1) < 0)
		err = errno;
	if (fd >= 0)
		close(fd);
	if (err)
		return err;
	if (asprintf(&rest, "%s%s%s", target, *after ? "/" : "", after) < 0)
		return ENOMEM;
	free(walk->rest);
	walk->rest = rest;
	return *target == '/' ? walk_into(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

/* Go to the folder of the last name. */
static int walk_on(struct walk *walk)
{
	char *name, *end, *after;
	int err = 0;
	int fd;

	while (!err) {
		name = walk->rest + strspn(walk->rest, "/");
		end = name + strcspn(name, "/");
		after = end + strspn(end, "/");
		if (!*after) {
			err = *name && !*end ? 0 : EISDIR;
			memmove(walk->rest, name, strlen(name) + 1);
			break;
		}
		*end = '\0';
		/* Without O_DIRECTORY nothing would be mounted on demand. */
		fd = openat(walk->folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0) {
			err = errno == ENOTDIR ? walk_link(walk, name, after) : errno;
		} else {
			err = walk_into(walk, fd);
			memmove(walk->rest, after, strlen(after) + 1);
		}
	}
	return err;
}

/* See what has the last name. What a symbolic link leads to is replaced, not the link. */
static int walk_end(struct walk *walk, struct stat *st, bool devices)
{
	bool linked = false;
	int err;

	for (;;) {
		err = walk_on(walk);
		if (!err && fstatat(walk->folder, walk->rest, st, AT_SYMLINK_NOFOLLOW)) {
			err = errno;
			if (err == ENOENT && !linked) {
				st->st_mode = 0;
				return 0;
			}
		}
		if (err)
			return err == ENOENT && linked ? ENOTSUP : err;
		if (!S_ISLNK(st->st_mode))
			break;
		err = walk_link(walk, walk->rest, "");
		if (err)
			return err;
		linked = true;
	}
	if (S_ISDIR(st->st_mode))
		return EISDIR;
	return S_ISREG(st->st_mode) || (devices && S_ISBLK(st->st_mode)) ? 0 : ENOTSUP;
}

/**
 * output_folder - open a folder for several files, by the same links as output_find()
 * @path: the path
 * @fd: out: the folder, open such that it can be synced, for output_find_in()
 *
 * Return: 0 or an errno, as output_find().
 */
int output_folder(const char *path, int *fd)
{
	struct walk walk = { .folder = -1 };
	int err = *path ? 0 : ENOENT;

	*fd = -1;
	/* All but the last name is a folder. */
	if (asprintf(&walk.rest, "%s/.", path) < 0)
		return ENOMEM;
	if (!err)
		err = walk_from_top(&walk, path);
	if (!err)
		err = walk_on(&walk);
	if (!err) {
		*fd = openat(walk.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = *fd < 0 ? errno : 0;
	}
	walk_give_up(&walk);
	return err;
}

static int find(struct output *output, struct walk *walk, bool devices)
{
	int err = walk_end(walk, &output->old, devices);

	if (err)
		return err;
	output->folder_fd = walk->folder;
	output->lent = walk->lent;
	output->name = walk->rest;
	return 0;
}

/**
 * output_find_in - find the place of a name in a folder, without making anything
 * @output: out: as for output_find()
 * @folder: the folder, by output_folder(); open until @output is ended
 * @name: the name, which may be a symbolic link that leads elsewhere
 * @devices: as for output_find()
 *
 * Return: 0 or an errno, as output_find().
 */
int output_find_in(struct output *output, int folder, const char *name, bool devices)
{
	struct walk walk = { .folder = folder, .lent = true, .rest = strdup(name) };
	int err;

	*output = (struct output){ .folder_fd = -1, .fd = -1 };
	if (!walk.rest)
		return ENOMEM;
	err = find(output, &walk, devices);
	if (err)
		walk_give_up(&walk);
	return err;
}

/**
 * output_find - find the place that a path leads to, without making anything
 * @output: out: for output_begin(), or output_discard(); its folder is open with O_PATH
 * @path: the path
 * @devices: it may lead to a block device, which is for the caller to open
 *
 * Return: 0 or an errno: EISDIR; ENOTSUP if what has the name is no file; ENOLINK if the
 * way is a symbolic link of another user, which root does not follow; ...
 */
int output_find(struct output *output, const char *path, bool devices)
{
	struct walk walk = { .folder = -1, .rest = strdup(path) };
	int err = *path ? 0 : ENOENT;

	*output = (struct output){ .folder_fd = -1, .fd = -1 };
	if (!walk.rest)
		return ENOMEM;
	if (!err)
		err = walk_from_top(&walk, path);
	if (!err)
		err = find(output, &walk, devices);
	if (err)
		walk_give_up(&walk);
	return err;
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

/* Open the folder once more, and not with O_PATH. */
static int make_syncable(struct output *output)
{
	int folder = output->folder_fd;
	int err = 0;

	output->folder_fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (output->folder_fd < 0)
		err = errno;
	close(folder);
	return err;
}

/**
 * output_begin - begin to write a file
 * @output: its place, by output_find(); to be ended by output_commit() or output_discard()
 * @direct: past the page cache, if it can be
 *
 * The caller has signals wait until it has ended it, or one may leave a file behind.
 *
 * Return: 0 or an errno; then there is nothing left to be ended.
 */
int output_begin(struct output *output, bool direct)
{
	int err = output->lent ? 0 : make_syncable(output);

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

/**
 * output_open - find a place, and begin to write a file there
 * @output: out: as for output_begin()
 * @path: its name once it is whole
 * @direct: past the page cache, if it can be
 *
 * Return: 0 or an errno, as output_find() and output_begin().
 */
int output_open(struct output *output, const char *path, bool direct)
{
	int err = output_find(output, path, false);

	return err ? err : output_begin(output, direct);
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

/* From the name of its own to the other. */
static int rename_temporary(const struct output *output)
{
	const char *from = output->temporary, *to = output->name;
	int folder = output->folder_fd;

	if (output->exclusive) {
		if (!renameat2(folder, from, folder, to, RENAME_NOREPLACE))
			return 0;
		/* NFS, for one, has no such flag. */
		if (errno != EINVAL)
			return errno;
	}
	return renameat(folder, from, folder, to) ? errno : 0;
}

/* Take the name, in the place of an old one if there is one. */
static int take_name(struct output *output)
{
	int err = output->temporary ? EEXIST : link_as(output, output->name);

	if (err != EEXIST || (output->exclusive && !output->temporary))
		return err;
	/* By way of a name that nobody else has. */
	err = output->temporary ? 0 : link_temporary(output);
	if (!err)
		err = rename_temporary(output);
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
	if (output->folder_fd >= 0 && !output->lent)
		close(output->folder_fd);
	free(output->temporary);
	free(output->name);
	*output = (struct output){ .folder_fd = -1, .fd = -1 };
}
