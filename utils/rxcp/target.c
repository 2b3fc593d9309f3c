// SPDX-License-Identifier: GPL-2.0-only
/*
 * The destination of a copy: a file, which appears when it is complete, or a block device.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "target.h"
#include "volume.h"

/* The attribute that is a POSIX access control list. */
#define LIST		"system.posix_acl_access"

/* Some disks write zeros to discard, and signals wait meanwhile. */
#define DISCARD_MAX	(UINT64_C(1) << 30)

/* Open the device that was found; fail if its name now has another. Return: 0 or an errno. */
static int open_found(struct target *target)
{
	const struct output *place = &target->output;
	const int flags = O_RDWR | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
	struct stat st;

	target->fd = openat(place->folder_fd, place->name, flags | O_DIRECT);
	if (target->fd < 0 && errno == EINVAL)
		target->fd = openat(place->folder_fd, place->name, flags);
	if (target->fd < 0 || fstat(target->fd, &st))
		return errno;
	return S_ISBLK(st.st_mode) && st.st_rdev == target->old.st_rdev ? 0 : ENOTSUP;
}

static bool refuse(const char *path, int err)
{
	if (err == ENOTSUP && output_is_lost_link(path))
		return complain("destination '%s': is a symbolic link to a missing file", path);
	if (err == ENOTSUP)
		return complain("destination '%s': exists, and is not a regular file", path);
	if (err == ENOLINK)
		return complain("destination '%s': its path has a symbolic link of another user",
				path);
	return complain("destination '%s': %s", path, strerror(err));
}

static bool refuse_overlap(const struct source *source, const struct target *target)
{
	return complain("'%s' and '%s' have blocks in common", source->path, target->path);
}

static bool open_device(struct target *target, const struct source *source)
{
	uint64_t size;
	int err;

	if (S_ISBLK(source->st.st_mode) && source->st.st_rdev == target->old.st_rdev)
		return complain("'%s' and '%s' are the same device", source->path, target->path);
	if (S_ISBLK(source->st.st_mode) && has_blocks_of(&source->st, &target->old))
		return refuse_overlap(source, target);
	/* O_EXCL fails if the device is mounted, and prevents that it is mounted meanwhile. */
	err = open_found(target);
	/* Neither a loop device nor an NVMe export claims the device below it. */
	if (!err && is_backing(&target->old))
		err = EBUSY;
	if (err == EBUSY)
		return complain("destination '%s': is in use; unmount, unexport or close it first",
				target->path);
	if (!err)
		err = file_size(target->fd, &size);
	if (err)
		return refuse(target->path, err);
	if (size < source->size)
		return complain("destination '%s': is too small: %llu bytes; '%s' has %llu",
				target->path, (unsigned long long)size, source->path,
				(unsigned long long)source->size);
	if (have_common_blocks(&source->st, source->size, &target->old, size))
		return refuse_overlap(source, target);
	return true;
}

static bool is_same_file(const struct stat *one, const struct stat *two)
{
	return one->st_dev == two->st_dev && one->st_ino == two->st_ino;
}

/*
 * Hold the file that is going to be replaced: its inode number cannot become that of another file
 * then. Return: 0 or an errno.
 */
static int hold_old(struct target *target)
{
	const struct output *place = &target->output;
	struct stat st;

	target->old_fd = openat(place->folder_fd, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (target->old_fd < 0)
		return errno == ENOENT ? 0 : errno;
	if (fstat(target->old_fd, &st))
		return errno;
	if (is_same_file(&st, &target->old))
		return 0;
	close(target->old_fd);
	target->old_fd = -1;
	return 0;
}

static void release_old(struct target *target)
{
	if (target->old_fd >= 0)
		close(target->old_fd);
	target->old_fd = -1;
}

static bool open_file(struct target *target, const struct source *source)
{
	int err;

	if (target->replaces && is_same_file(&target->old, &source->st))
		return complain("'%s' and '%s' are the same file", source->path, target->path);
	target->output.unsynced = !target->sync;
	err = target->replaces ? hold_old(target) : 0;
	if (!err)
		err = output_begin(&target->output, false);
	if (err)
		return refuse(target->path, err);
	target->fd = target->output.fd;
	return true;
}

/**
 * target_folder - open a folder for several copies, or print an error
 * @path: the folder
 * @sync: they are synced
 * @folder: out
 */
bool target_folder(const char *path, bool sync, int *folder)
{
	int err = output_folder(path, sync, folder);

	return err ? refuse(path, err) : true;
}

/**
 * target_open - open the destination of a copy, or print an error
 * @target: out
 * @path: a file, which need not exist, or a block device
 * @folder: the open folder that has the last name of @path; or -1
 * @sync: sync a file and its folder
 * @source: the source of the copy
 */
bool target_open(struct target *target, const char *path, int folder, bool sync,
		 const struct source *source)
{
	bool ok;
	int err;

	*target = (struct target){ .path = path, .sync = sync, .fd = -1, .old_fd = -1 };
	err = folder < 0 ? output_find(&target->output, path, true) :
			   output_find_in(&target->output, folder, basename(path), true);
	if (err)
		return refuse(target->path, err);
	target->old = target->output.old;
	target->replaces = target->old.st_mode;
	target->is_device = target->replaces && S_ISBLK(target->old.st_mode);
	ok = target->is_device ? open_device(target, source) : open_file(target, source);
	if (!ok)
		target_discard(target);
	return ok;
}

/**
 * target_block - get the smallest size of a hole
 * @target: the destination
 * @min: the smallest useful size, which divides @max
 * @max: the largest size
 */
uint64_t target_block(struct target *target, uint64_t min, uint64_t max)
{
	uint64_t block = max;

	if (target->is_device)
		return max;
	target->page = target->output.st.st_blksize;
	while (block > target->page && block > min)
		block /= 2;
	return block;
}

/**
 * target_skip - make the beginning of a range zeros without writing it
 * @target: the destination
 * @offset: offset of the first byte
 * @length: number of bytes
 *
 * Return: how many bytes are zeros now; 0 if they must be written.
 */
uint64_t target_skip(struct target *target, uint64_t offset, uint64_t length)
{
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	/* A new file has holes where nothing is written. */
	if (!target->is_device)
		return length;
	if (length > DISCARD_MAX - offset % DISCARD_MAX)
		length = DISCARD_MAX - offset % DISCARD_MAX;
	return fallocate(target->fd, mode, offset, length) ? 0 : length;
}

/**
 * target_leave - leave a hole behind what was written, before data follows or the file ends
 * @target: the destination; nothing is done for a device
 * @offset: where the last write ended
 * @length: number of bytes
 *
 * xfs allocates space beyond the end of a file that grows by writes, and keeps what the file then
 * grows past. A range that cannot be punched takes space, but reads as zeros, too.
 */
void target_leave(struct target *target, uint64_t offset, uint64_t length)
{
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	if (!target->is_device && !target->unpunched)
		target->unpunched = fallocate(target->fd, mode, offset, length);
}

/**
 * target_finish - set the size, and sync, after the last write
 * @target: the destination
 * @size: size of the source in bytes
 * @written: where the last write ended
 *
 * Return: 0 or an errno.
 */
int target_finish(struct target *target, uint64_t size, uint64_t written)
{
	/* Extend a file that ends with a hole. */
	if (!target->is_device && written < size) {
		target_leave(target, written, size - written);
		if (ftruncate(target->fd, size))
			return errno;
	}
	return (target->sync || target->is_device) && fsync(target->fd) ? errno : 0;
}

static mode_t new_mode(const struct source *source, mode_t mask)
{
	return (S_ISREG(source->st.st_mode) ? source->st.st_mode & 0777 : 0666) & ~mask;
}

static bool has_no_list(int err)
{
	return err == ENODATA || err == EOPNOTSUPP;
}

/*
 * Give the new file an access control list, or none: it may have inherited one. Return: 0 or an
 * errno.
 */
static int set_list(int fd, const char *list, size_t length)
{
	if (length)
		return fsetxattr(fd, LIST, list, length, 0) ? errno : 0;
	return !fremovexattr(fd, LIST) || has_no_list(errno) ? 0 : errno;
}

/* Without /proc, a list can be read only from a file that is open for reading. */
static ssize_t get_list_by_name(const struct target *target, char *list, size_t room)
{
	const struct output *place = &target->output;
	ssize_t length = -1;
	struct stat st;
	int fd;

	fd = openat(place->folder_fd, place->name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && is_same_file(&st, &target->old))
		length = fgetxattr(fd, LIST, list, room);
	else
		errno = ENOENT;
	close(fd);
	return length;
}

/* Get the list of the old file; *length is 0 if it has none. Return: 0 or an errno. */
static int get_list(const struct target *target, char *list, size_t room, ssize_t *length)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", target->old_fd);
	*length = getxattr(path, LIST, list, room);
	if (*length < 0 && errno == ENOENT)
		*length = get_list_by_name(target, list, room);
	if (*length >= 0)
		return 0;
	*length = 0;
	return has_no_list(errno) ? 0 : errno;
}

/* Check for another error than a refusal: a disk is full or broken, or memory is short. */
static bool is_failure(int err)
{
	return err == EIO || err == ENOMEM || err == ENOSPC || err == EDQUOT;
}

/*
 * Give the new file the owner, the group and the list of the file that it is about to replace.
 * Nobody else gets access if that is not permitted, or if the name has another file, or none,
 * meanwhile: the owner of another file may not be that of the old one.
 *
 * Return: 0 or an errno; *mode is the permissions for the new file.
 */
static int keep_access(const struct target *target, mode_t *mode)
{
	const struct output *place = &target->output;
	static char list[XATTR_SIZE_MAX];
	struct stat old = target->old, now;
	ssize_t length = 0;
	int err = ENOENT;

	if (target->old_fd >= 0 &&
	    !fstatat(place->folder_fd, place->name, &now, AT_SYMLINK_NOFOLLOW) &&
	    is_same_file(&now, &old)) {
		old = now;
		err = get_list(target, list, sizeof(list), &length);
	}
	/* The group may be that of the folder. */
	if (!is_failure(err) &&
	    (old.st_uid != place->st.st_uid || old.st_gid != place->st.st_gid) &&
	    fchown(target->fd, old.st_uid, old.st_gid))
		err = errno;
	if (!err)
		err = set_list(target->fd, list, length);
	*mode = old.st_mode & (err ? 0700 : 0777);
	return is_failure(err) ? err : 0;
}

/**
 * target_commit - give a file its name, or print an error
 * @target: the destination
 * @source: the source of the copy
 * @mask: permissions that a new file does not get
 */
bool target_commit(struct target *target, const struct source *source, mode_t mask)
{
	mode_t mode = new_mode(source, mask);
	int err = 0;

	if (target->is_device)
		return true;
	if (target->replaces)
		err = keep_access(target, &mode);
	/* The list has changed the mode. */
	if (!err && target->replaces && fstat(target->fd, &target->output.st))
		err = errno;
	/* NFS and AFS rename an open file before another takes its name: there is none then. */
	release_old(target);
	if (!err)
		err = output_commit(&target->output, mode, target->sync);
	if (err)
		return complain("destination '%s': %s", target->path, strerror(err));
	target->fd = -1;
	return true;
}

void target_discard(struct target *target)
{
	if (target->is_device && target->fd >= 0)
		close(target->fd);
	release_old(target);
	output_discard(&target->output);
	target->fd = -1;
}
