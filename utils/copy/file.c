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

/**
 * file_next_data - find what of a file is no hole
 * @fd: the file
 * @from: from this byte on
 * @size: bytes of the file
 * @start: out: where it begins; @size if there is nothing more
 * @end: out: where it ends
 */
void file_next_data(int fd, uint64_t from, uint64_t size, uint64_t *start, uint64_t *end)
{
	off_t data = lseek(fd, from, SEEK_DATA);
	off_t hole = -1;

	*start = size;
	*end = size;
	/* Also what a file that grew meanwhile has beyond @size is nothing. */
	if (data < 0 ? errno == ENXIO : (uint64_t)data >= size)
		return;
	if (data >= 0)
		hole = lseek(fd, data, SEEK_HOLE);
	/* The file system cannot tell: then all is data. */
	*start = hole < 0 ? from : (uint64_t)data;
	if (hole >= 0 && (uint64_t)hole < size)
		*end = hole;
}

/**
 * file_was_written - whether a file was written to, or cut off
 * @fd: the file
 * @before: what fstat() told of it earlier
 */
bool file_was_written(int fd, const struct stat *before)
{
	struct stat st;

	return fstat(fd, &st) || st.st_size != before->st_size ||
	       st.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	       st.st_mtim.tv_nsec != before->st_mtim.tv_nsec;
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
