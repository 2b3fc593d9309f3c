// SPDX-License-Identifier: GPL-2.0-only
/*
 * Complete reads and writes, with O_DIRECT if it is supported.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

static_assert(sizeof(off_t) == sizeof(uint64_t), "_FILE_OFFSET_BITS must be 64");

/**
 * file_open - open a file or device
 * @path: its path
 * @flags: of open(2)
 * @direct: use O_DIRECT if it is supported
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
 * file_size - get the size of a file or block device
 * @fd: the open file or device
 * @size: out: size in bytes
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
 * file_next_data - find the next data of a file after a hole
 * @fd: the file
 * @from: offset to start at
 * @size: size of the file in bytes
 * @start: out: where the data begins; @size if there is none
 * @end: out: where the data ends
 */
void file_next_data(int fd, uint64_t from, uint64_t size, uint64_t *start, uint64_t *end)
{
	off_t data = lseek(fd, from, SEEK_DATA);
	off_t hole = -1;

	*start = size;
	*end = size;
	/* Ignore data beyond @size in a file that has grown meanwhile. */
	if (data < 0 ? errno == ENXIO : (uint64_t)data >= size)
		return;
	if (data >= 0)
		hole = lseek(fd, data, SEEK_HOLE);
	/* Without SEEK_DATA and SEEK_HOLE, everything is data. */
	*start = hole < 0 ? from : (uint64_t)data;
	if (hole >= 0 && (uint64_t)hole < size)
		*end = hole;
}

/**
 * file_was_written - check whether a file was written to or truncated
 * @fd: the file
 * @before: an earlier result of fstat()
 */
bool file_was_written(int fd, const struct stat *before)
{
	struct stat st;

	return fstat(fd, &st) || st.st_size != before->st_size ||
	       st.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	       st.st_mtim.tv_nsec != before->st_mtim.tv_nsec;
}

/**
 * file_flush - have the errors reported that NFS and others report on close() only
 * @fd: the file, which stays open
 *
 * Return: 0 or an errno.
 */
int file_flush(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 || close(copy) ? errno : 0;
}

/* After EINVAL, turn off O_DIRECT. Return: whether to try again. */
static bool no_longer_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return errno == EINVAL && flags >= 0 && flags & O_DIRECT &&
	       !fcntl(fd, F_SETFL, flags & ~O_DIRECT);
}

/**
 * file_read - read all bytes of a range, up to the end of the file
 * @fd: the file
 * @data: buffer
 * @length: number of bytes
 * @offset: offset of the first byte
 * @done: out: number of bytes read
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
 * file_write - write all bytes of a range
 * @fd: the file
 * @data: the data
 * @length: number of bytes
 * @offset: offset of the first byte
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
