// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads and writes that are whole, past the page cache where that works.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

/**
 * file_open - open a file or device
 * @path: its path
 * @flags: of open(2)
 * @direct: past the page cache, if it can be
 * @fd: out: the descriptor
 *
 * Return: 0 or an errno.
 */
int file_open(const char *path, int flags, bool direct, int *fd)
{
	*fd = open(path, flags | O_CLOEXEC | (direct ? O_DIRECT : 0));
	if (*fd < 0 && direct && errno == EINVAL)
		*fd = open(path, flags | O_CLOEXEC);
	return *fd < 0 ? errno : 0;
}

/**
 * file_size - how long a file or block device is
 * @fd: it, open
 * @size: out: bytes
 *
 * Return: 0 or an errno.
 */
int file_size(int fd, uint64_t *size)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;
	if (S_ISBLK(st.st_mode))
		return ioctl(fd, BLKGETSIZE64, size) ? errno : 0;
	*size = st.st_size;
	return 0;
}

/* Whether it is worth to try again without O_DIRECT, which is off then. */
static bool no_longer_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return errno == EINVAL && flags >= 0 && flags & O_DIRECT &&
	       !fcntl(fd, F_SETFL, flags & ~O_DIRECT);
}

/**
 * file_read - read until there is enough, or the end
 * @fd: where from
 * @data: where to
 * @length: bytes wanted
 * @offset: where they begin
 * @done: out: how many there were
 *
 * Return: 0 or an errno.
 */
int file_read(int fd, void *data, size_t length, uint64_t offset, size_t *done)
{
	ssize_t ret;

	for (*done = 0; *done < length; *done += ret) {
		ret = pread(fd, (char *)data + *done, length - *done, offset + *done);
		if (!ret)
			return 0;
		if (ret > 0)
			continue;
		if (errno != EINTR && !no_longer_direct(fd))
			return errno;
		ret = 0;
	}
	return 0;
}

/**
 * file_write - write all
 * @fd: where to
 * @data: what
 * @length: bytes of it
 * @offset: where they begin
 *
 * Return: 0 or an errno.
 */
int file_write(int fd, const void *data, size_t length, uint64_t offset)
{
	size_t done;
	ssize_t ret;

	for (done = 0; done < length; done += ret) {
		ret = pwrite(fd, (const char *)data + done, length - done, offset + done);
		if (ret > 0)
			continue;
		if (!ret)
			return EIO;
		if (errno != EINTR && !no_longer_direct(fd))
			return errno;
		ret = 0;
	}
	return 0;
}
