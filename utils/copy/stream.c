// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sequential reads and writes, also of pipes and sockets. The other end may take any time:
 * a job that must stop does not wait for it.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stream.h"

#define LOOK_EVERY	100	/* milliseconds between checks whether to stop */

/* Wait until the descriptor is ready. Return: 0, ECANCELED if the job must stop, or an errno. */
static int wait_for(struct copy_job *job, int fd, short events)
{
	struct pollfd pollfd = { .fd = fd, .events = events };
	int ret = 0;

	while (!ret) {
		if (copy_stopped(job))
			return ECANCELED;
		ret = poll(&pollfd, 1, LOOK_EVERY);
		if (ret < 0 && errno == EINTR)
			ret = 0;
	}
	return ret < 0 ? errno : 0;
}

/**
 * stream_read - read the next bytes, up to the end of the stream
 * @job: the job, which may be stopped
 * @fd: the stream
 * @data: buffer
 * @length: number of bytes
 * @done: out: number of bytes read
 *
 * Return: 0, ECANCELED if the job must stop, or an errno.
 */
int stream_read(struct copy_job *job, int fd, void *data, size_t length, size_t *done)
{
	ssize_t ret;
	int err;

	for (*done = 0; *done < length; *done += ret) {
		err = wait_for(job, fd, POLLIN);
		if (err)
			return err;
		ret = read(fd, (char *)data + *done, length - *done);
		if (!ret)
			return 0;
		if (ret > 0)
			continue;
		if (errno != EINTR && errno != EAGAIN)
			return errno;
		ret = 0;
	}
	return 0;
}

/* Return: how many bytes a descriptor that is ready takes without blocking. */
static size_t write_at_once(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) ? PIPE_BUF :
										    SSIZE_MAX;
}

/**
 * stream_write - write all bytes
 * @job: the job, which may be stopped
 * @fd: the stream
 * @data: the data
 * @length: number of bytes
 *
 * Return: 0, ECANCELED if the job must stop, or an errno.
 */
int stream_write(struct copy_job *job, int fd, const void *data, size_t length)
{
	size_t most = write_at_once(fd);
	size_t done, part;
	ssize_t ret;
	int err;

	for (done = 0; done < length; done += ret) {
		err = wait_for(job, fd, POLLOUT);
		if (err)
			return err;
		part = length - done < most ? length - done : most;
		ret = write(fd, (const char *)data + done, part);
		if (ret > 0)
			continue;
		if (!ret)
			return EIO;
		if (errno != EINTR && errno != EAGAIN)
			return errno;
		ret = 0;
	}
	return 0;
}

/**
 * stream_write_zeros - write zeros
 * @job: the job, which may be stopped
 * @fd: the stream
 * @length: number of bytes
 *
 * Return: as stream_write().
 */
int stream_write_zeros(struct copy_job *job, int fd, uint64_t length)
{
	static const char zeros[64 * 1024];
	size_t part;
	int err = 0;

	for (; !err && length; length -= part) {
		part = length < sizeof(zeros) ? length : sizeof(zeros);
		err = stream_write(job, fd, zeros, part);
	}
	return err;
}
