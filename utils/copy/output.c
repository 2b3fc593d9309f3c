// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files that are replaced completely or not at all. If the file system has O_TMPFILE, the new
 * file has no name while it is written, so that a killed process leaves nothing behind.
 * Otherwise, and while it replaces an old file, it has a temporary name, and the caller must
 * block signals.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "file.h"

#define TRIES		100
#define LINKS_MAX	40	/* as in the kernel */

/* State of resolving a path, name by name. */
struct walk {
	int folder;		/* the folder reached so far */
	bool lent;		/* the caller closes the folder */
	char *rest;		/* the path from there on */
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
 * Replace the name of a link by its target. Root follows no link of another user, who could
 * point it anywhere. fs.protected_symlinks may be off, and covers only folders such as /tmp.
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

/* Walk to the folder of the last name. */
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
		/* O_DIRECTORY triggers automounts; O_PATH alone does not. */
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

/* Look up the last name. If it is a symbolic link, its target is replaced, not the link. */
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
 * output_is_lost_link - find out why output_find() has returned ENOTSUP
 * @path: the path
 *
 * Return: true: it is a symbolic link to a missing file.
 */
bool output_is_lost_link(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISLNK(st.st_mode) && stat(path, &st) && errno == ENOENT;
}

/**
 * output_folder - open a folder for several files, following links like output_find()
 * @path: the path
 * @sync: open it without O_PATH, so that it can be synced
 * @fd: out: the folder for output_find_in()
 *
 * Return: 0 or an errno, like output_find().
 */
int output_folder(const char *path, bool sync, int *fd)
{
	const int flags = (sync ? O_RDONLY : O_PATH) | O_DIRECTORY | O_CLOEXEC;
	struct walk walk = { .folder = -1 };
	int err = *path ? 0 : ENOENT;

	*fd = -1;
	/* walk_on() stops at the folder of the last name: append a name. */
	if (asprintf(&walk.rest, "%s/.", path) < 0)
		return ENOMEM;
	if (!err)
		err = walk_from_top(&walk, path);
	if (!err)
		err = walk_on(&walk);
	if (!err) {
		*fd = openat(walk.folder, ".", flags);
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
 * output_find_in - find the destination of a name in a folder, without creating it
 * @output: out: as for output_find()
 * @folder: the folder, from output_folder(); must stay open until @output ends
 * @name: the name, which may be a symbolic link that leads elsewhere
 * @devices: as for output_find()
 *
 * Return: 0 or an errno, like output_find().
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
 * output_find - find the destination of a path, without creating it
 * @output: out: for output_begin(), or output_discard(); its folder is open with O_PATH
 * @path: the path
 * @devices: allow a block device, which the caller opens
 *
 * Return: 0 or an errno. EISDIR; ENOTSUP: not a regular file; ENOLINK: the path has a symbolic
 * link of another user, which root does not follow; ...
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

/**
 * output_find_folder - find only the folder of a path, for another name in it
 * @output: out: as for output_find(); the caller replaces its name by an unused one
 * @path: the path, whose last name may be that of anything
 *
 * Return: 0 or an errno, like output_find().
 */
int output_find_folder(struct output *output, const char *path)
{
	struct walk walk = { .folder = -1, .rest = strdup(path) };
	int err = walk.rest ? walk_from_top(&walk, path) : ENOMEM;

	*output = (struct output){ .folder_fd = -1, .fd = -1 };
	if (!err)
		err = walk_on(&walk);
	if (err) {
		walk_give_up(&walk);
		return err;
	}
	output->folder_fd = walk.folder;
	output->name = walk.rest;
	return 0;
}

/* Make a random name. Return: NULL on failure. */
static char *random_name(void)
{
	unsigned int number;
	char *name;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number) ||
	    asprintf(&name, ".rxd-%08x", number) < 0)
		return NULL;
	return name;
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
	/* Mode 0666 is safe: no other process can open the file before it has a name. */
	output->fd = openat(output->folder_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0666);
	if (output->fd >= 0)
		return 0;
	if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)
		return open_named(output, flags);
	return errno;
}

/* Open the folder again without O_PATH, so that it can be synced. */
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
 * @output: the destination, from output_find(); output_commit() or output_discard() ends it
 * @direct: use O_DIRECT if it is supported
 *
 * The caller blocks signals until the end, or one may leave a temporary file behind.
 *
 * Return: 0 or an errno; on an error, @output has ended.
 */
int output_begin(struct output *output, bool direct)
{
	int err = output->lent || output->unsynced ? 0 : make_syncable(output);

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
 * output_open - find the destination of a path, and begin to write a file there
 * @output: out: as for output_begin()
 * @path: path of the file once it is complete
 * @direct: use O_DIRECT if it is supported
 *
 * Return: 0 or an errno, like output_find() and output_begin().
 */
int output_open(struct output *output, const char *path, bool direct)
{
	int err = output_find(output, path, false);

	return err ? err : output_begin(output, direct);
}

/* Give a file without name this name. Return: 0 or an errno; EEXIST if the name exists. */
static int link_as(const struct output *output, const char *name)
{
	char path[64];

	/* Before Linux 6.10, AT_EMPTY_PATH needs CAP_DAC_READ_SEARCH and fails with ENOENT. */
	if (!linkat(output->fd, "", output->folder_fd, name, AT_EMPTY_PATH))
		return 0;
	if (errno != ENOENT)
		return errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", output->fd);
	return linkat(AT_FDCWD, path, output->folder_fd, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

/* Give a file without name a temporary name. */
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

/* Rename the file from its temporary name to its final one. */
static int rename_temporary(const struct output *output)
{
	const char *from = output->temporary, *to = output->name;
	int folder = output->folder_fd;

	if (output->exclusive) {
		if (!renameat2(folder, from, folder, to, RENAME_NOREPLACE))
			return 0;
		if (errno != EINVAL)
			return errno;
		/* NFS and others do not support RENAME_NOREPLACE, but have links. */
		if (!linkat(folder, from, folder, to, 0)) {
			unlinkat(folder, from, 0);
			return 0;
		}
		/* Where links do not work, the name was at least unused a moment ago. */
		if (errno == EEXIST)
			return EEXIST;
	}
	return renameat(folder, from, folder, to) ? errno : 0;
}

/* Give the file its final name, replacing an old file. */
static int take_name(struct output *output)
{
	int err = output->temporary ? EEXIST : link_as(output, output->name);

	if (err != EEXIST || (output->exclusive && !output->temporary))
		return err;
	/* linkat() cannot replace a file: link a temporary name, and rename it. */
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
 * output_commit - give the new file its name, replacing an old file
 * @output: the file
 * @mode: its permissions
 * @sync: sync the file before, and its folder after
 *
 * Return: 0 or an errno; on an error, the caller calls output_discard().
 */
int output_commit(struct output *output, mode_t mode, bool sync)
{
	int err = 0;

	if (((output->st.st_mode & 07777) != mode && fchmod(output->fd, mode)) ||
	    (sync && fsync(output->fd)))
		return errno;
	/*
	 * Fail before the file has its name, and before the old one is lost. On a disk a new file
	 * saves these calls: what fails there is reported before.
	 */
	if (output->temporary || output->old.st_mode || !major(output->st.st_dev))
		err = file_flush(output->fd);
	if (!err)
		err = take_name(output);
	if (err)
		return err;
	/* The new file has its name: this cannot be undone. */
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
 * output_discard - discard a file that was not committed
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
