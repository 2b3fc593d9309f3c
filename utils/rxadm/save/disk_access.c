// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access to the RAM disk that an image is saved from or loaded into: open it exclusively, compare
 * it with the image, and start a guard process that undoes an incomplete operation if rxadm is
 * killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/rxd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "copy/copy.h"
#include "copy/file.h"
#include "device/device_users.h"
#include "image/names.h"
#include "kernel/attributes.h"
#include "kernel/disk_state.h"
#include "kernel/extents.h"
#include "save/disk_access.h"

#define LOOK_AT		(1 << 20)	/* bytes */

static enum exit_code busy_error(const struct device *dev, const struct rxd_query *query,
				 const char *users)
{
	if (query->state & RXD_STATE_CACHE)
		return report(EXIT_BUSY,
			      "%s '%s': is in use as a cache%s%s; run 'rxadm unmap' first",
			      dev->what, dev->path, users ? ", " : "", users ? users : "");
	return report(EXIT_BUSY, "%s '%s': is in use (%s); release it there first", dev->what,
		      dev->path, users ? users : "a process has it open");
}

/**
 * disk_claim - open a RAM disk exclusively, so that it cannot be mounted meanwhile
 * @control: the control node
 * @dev: the disk
 * @index: its number
 * @flags: O_RDONLY or O_RDWR
 * @query: out: its properties
 * @fd: out: the descriptor, with O_DIRECT
 * @in_use: out: the disk is in use, but not as a cache, which is not reported; NULL: report it
 */
enum exit_code disk_claim(int control, const struct device *dev, int index, int flags,
			  struct rxd_query *query, int *fd, bool *in_use)
{
	unsigned int round = 0;
	enum exit_code ret;
	char *users;
	int err;

	for (;;) {
		err = control_query(control, index, 0, query);
		if (err)
			return control_error(err, dev->path);
		if (!(query->state & (RXD_STATE_OPEN | RXD_STATE_CACHE))) {
			*fd = open(dev->path, flags | O_EXCL | O_DIRECT | O_CLOEXEC);
			if (*fd >= 0)
				return EXIT_OK;
			if (errno != EBUSY)
				return control_error(errno, dev->path);
		}
		users = users_of(dev->number);
		if (users || query->state & RXD_STATE_CACHE || wait_is_over(++round)) {
			if (in_use)
				*in_use = !(query->state & RXD_STATE_CACHE);
			ret = in_use && *in_use ? EXIT_BUSY : busy_error(dev, query, users);
			free(users);
			return ret;
		}
		pause_for(round - 1, "until '%s' is closed", dev->path);
	}
}

/* Fill an image header with the properties of a RAM disk. The caller sets the id. */
void disk_describe(const struct rxd_query *query, struct image_header *header)
{
	*header = (struct image_header){
		.size = query->size,
		.mem_limit = query->mem_limit,
		.logical_block_size = query->logical_block_size,
		.folio_size = query->folio_size,
	};
	if (query->state & RXD_STATE_RESERVED)
		header->disk_flags |= IMAGE_DISK_RESERVE;
	if (query->state & RXD_STATE_DETECT_ZEROES)
		header->disk_flags |= IMAGE_DISK_DETECT_ZEROES;
	memcpy(header->uuid, query->uuid, sizeof(header->uuid));
}

/* Fill a request for a new RAM disk with the properties in an image header. */
void disk_request(const struct image_header *header, struct create_request *request)
{
	request->size = header->size;
	request->mem_limit = header->mem_limit;
	request->logical_block_size = header->logical_block_size;
	request->folio_size = header->folio_size;
	if (header->disk_flags & IMAGE_DISK_RESERVE)
		request->flags |= RXD_CREATE_RESERVE;
	/* RXD_CREATE refuses such a limit. It only prevents growth, as a limit of the size does. */
	if (request->flags & RXD_CREATE_RESERVE && request->mem_limit &&
	    request->mem_limit < request->size)
		request->mem_limit = request->size;
	if (header->disk_flags & IMAGE_DISK_DETECT_ZEROES)
		request->flags |= RXD_CREATE_DETECT_ZEROES;
}

/**
 * disk_check_fit - report an error if an image does not fit a RAM disk
 * @dev: the disk
 * @query: its properties
 * @image: the header of the image; a logical block size of 0 fits all disks
 */
enum exit_code disk_check_fit(const struct device *dev, const struct rxd_query *query,
			      const struct image_header *image)
{
	char has[SIZE_TEXT_MAX], wanted[SIZE_TEXT_MAX];

	if (query->size < image->size) {
		size_format(query->size, has);
		size_format(image->size, wanted);
		return report(EXIT_PARAMETERS,
			      "%s '%s': has %s (%llu bytes), but the saved disk has %s (%llu bytes); 'rxadm resize' grows it",
			      dev->what, dev->path, has, (unsigned long long)query->size, wanted,
			      (unsigned long long)image->size);
	}
	if (image->logical_block_size && query->logical_block_size != image->logical_block_size)
		return report(EXIT_PARAMETERS,
			      "%s '%s': has logical blocks of %u bytes, but the saved disk has %u; 'rxadm load' without --into creates such a disk",
			      dev->what, dev->path, query->logical_block_size,
			      image->logical_block_size);
	return EXIT_OK;
}

static enum exit_code not_empty(const struct device *dev)
{
	return report(EXIT_BUSY,
		      "%s '%s': holds data, which would be lost; 'rxadm clear' empties it",
		      dev->what, dev->path);
}

/* A search for data on a RAM disk. */
struct data_search {
	const struct device *dev;
	int fd;
	void *buffer;
	enum exit_code ret;
};

/* Allocated memory may still hold only zeros, as on a reserved disk. */
static bool check_zeros(void *data, const struct rxd_extent *extent)
{
	struct data_search *search = data;
	const struct device *dev = search->dev;
	uint64_t done;
	size_t got;
	int err;

	for (done = 0; !search->ret && done < extent->length; done += got) {
		got = extent->length - done;
		if (got > IMAGE_FRAME_MAX)
			got = IMAGE_FRAME_MAX;
		err = file_read(search->fd, search->buffer, got, extent->start + done, &got);
		if (err || !got)
			search->ret = report(exit_code_of(err ? err : EIO),
					     "%s '%s': cannot be read: %s", dev->what, dev->path,
					     strerror(err ? err : EIO));
		else if (!copy_is_zero(search->buffer, got))
			search->ret = not_empty(dev);
	}
	return !search->ret;
}

/**
 * disk_check_empty - report an error if a RAM disk holds anything but zeros
 * @dev: the disk
 * @fd: the disk, open with O_DIRECT
 * @buffer: IMAGE_FRAME_MAX bytes to read into
 */
enum exit_code disk_check_empty(const struct device *dev, int fd, void *buffer)
{
	struct data_search search = { .dev = dev, .fd = fd, .buffer = buffer };
	int err = extents_each(fd, check_zeros, &search);

	return err ? control_error(err, dev->path) : search.ret;
}

/* Return: 0 or an errno. */
static int look_for_data(int fd, uint64_t size, bool *empty)
{
	char *data = resize_array(NULL, LOOK_AT, 1);
	size_t got = 0;
	uint64_t done;
	int err = 0;

	*empty = true;
	for (done = 0; !err && *empty && done < size; done += got) {
		err = file_read(fd, data, LOOK_AT, done, &got);
		if (!err && !got)
			err = EIO;
		*empty = !err && copy_is_zero(data, got);
	}
	free(data);
	return err;
}

/**
 * disk_is_empty - look whether a RAM disk holds no data
 * @disk: the disk
 * @empty: out: it reads as zeros
 *
 * A reserved disk uses all its memory even without data, so read it.
 */
enum exit_code disk_is_empty(const struct rxd_query *disk, bool *empty)
{
	int err, fd = -1;
	char *device;

	*empty = !disk->mem_used;
	if (*empty || !(disk->state & RXD_STATE_RESERVED))
		return EXIT_OK;
	device = format_text("/dev/rxd%d", disk->index);
	err = file_open(device, O_RDONLY, false, &fd);
	if (!err) {
		err = look_for_data(fd, disk->size, empty);
		close(fd);
	}
	if (err)
		report(exit_code_of(err), "%s: cannot be read: %s", device, strerror(err));
	free(device);
	return err ? exit_code_of(err) : EXIT_OK;
}

#define UNDO_ROUNDS	100	/* of pause_briefly(): five seconds */

/* The guard's reply: an errno, and the result of RXD_CREATE if it created a disk. */
struct answer {
	int err;
	struct rxd_create arg;
};

static int undo_create(const struct disk_guard *guard)
{
	struct rxd_remove arg = { .version = RXD_ABI_VERSION, .index = guard->index };
	unsigned int round = 0;

	while (ioctl(guard->fd, RXD_REMOVE, &arg)) {
		if (errno == ENODEV)
			return 0;
		/* udev may be probing it: retry. */
		if (errno != EBUSY || ++round == UNDO_ROUNDS)
			return errno;
		pause_briefly();
	}
	return 0;
}

static int undo_fill(const struct disk_guard *guard)
{
	uint64_t range[] = { 0, guard->size };

	if (guard->record)
		unlink(guard->record);
	if (!fallocate(guard->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, guard->size) ||
	    !ioctl(guard->fd, BLKZEROOUT, range))
		return 0;
	return errno;
}

static int undo(const struct disk_guard *guard)
{
	int err = guard->size ? undo_fill(guard) : undo_create(guard);

	if (!err && guard->unfinished)
		unlink(guard->unfinished);
	return err;
}

/* Close all other inherited descriptors: they could keep a disk in use. */
static void close_others(int one, int two)
{
	int low = one < two ? one : two;
	int high = one < two ? two : one;

	if (low > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, low - 1, 0);
	if (high > low + 1)
		close_range(low + 1, high - 1, 0);
	close_range(high + 1, ~0U, 0);
}

/* Detach from the terminal and its signals, and close pipes whose readers wait for the end. */
static void detach(const struct disk_guard *guard)
{
	int null = open("/dev/null", O_RDWR);
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	setsid();
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	close_others(guard->fd, guard->socket);
}

static _Noreturn void stand_guard(struct disk_guard *guard, const struct rxd_create *create)
{
	struct answer answer = { 0 };
	ssize_t ret;
	char word;

	if (create) {
		answer.arg = *create;
		answer.err = ioctl(guard->fd, RXD_CREATE, &answer.arg) ? errno : 0;
		guard->index = answer.arg.index;
	}
	send(guard->socket, &answer, sizeof(answer), MSG_NOSIGNAL);
	if (answer.err) {
		if (guard->unfinished)
			unlink(guard->unfinished);
		_exit(0);
	}
	do {
		ret = recv(guard->socket, &word, sizeof(word), 0);
	} while (ret < 0 && errno == EINTR);
	/* Nothing received: the other process has ended without disk_guard_keep(). */
	_exit(ret == sizeof(word) ? 0 : undo(guard));
}

static int start(struct disk_guard *guard, struct rxd_create *create)
{
	struct answer answer;
	int sockets[2];
	ssize_t ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets))
		return errno;
	guard->process = fork();
	if (guard->process < 0) {
		close(sockets[0]);
		close(sockets[1]);
		return errno;
	}
	guard->socket = sockets[!guard->process];
	close(sockets[!!guard->process]);
	if (!guard->process) {
		detach(guard);
		stand_guard(guard, create);
	}

	do {
		ret = recv(guard->socket, &answer, sizeof(answer), 0);
	} while (ret < 0 && errno == EINTR);
	if (ret != sizeof(answer))
		answer.err = ECHILD;
	if (answer.err) {
		close(guard->socket);
		waitpid(guard->process, NULL, 0);
		return answer.err;
	}
	if (create) {
		*create = answer.arg;
		guard->index = answer.arg.index;
	}
	return 0;
}

/**
 * disk_guard_create - create a RAM disk, to be removed unless disk_guard_keep() is called
 * @guard: out
 * @control: the control node
 * @arg: in and out, as RXD_CREATE takes it
 * @unfinished: a file that is removed after the disk, or NULL
 *
 * Return: 0 or an errno.
 */
int disk_guard_create(struct disk_guard *guard, int control, struct rxd_create *arg,
		      const char *unfinished)
{
	*guard = (struct disk_guard){ .fd = control, .unfinished = unfinished };
	return start(guard, arg);
}

/**
 * disk_guard_empty - guard an empty RAM disk: empty it again unless disk_guard_keep() is called
 * @guard: out
 * @disk: the disk, opened exclusively; the guard keeps it open until it ends
 * @size: its size in bytes
 * @record: a file that describes the data, removed before the disk is emptied; or NULL
 * @unfinished: a file that is removed after the disk was emptied, or NULL
 *
 * Return: 0 or an errno.
 */
int disk_guard_empty(struct disk_guard *guard, int disk, uint64_t size, const char *record,
		     const char *unfinished)
{
	*guard = (struct disk_guard){
		.fd = disk,
		.size = size,
		.record = record,
		.unfinished = unfinished,
	};
	return start(guard, NULL);
}

/* Wait for the guard to end. Return: whether it succeeded. */
static bool end(struct disk_guard *guard)
{
	int status;

	close(guard->socket);
	while (waitpid(guard->process, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/**
 * disk_guard_keep - end the guard without undoing anything
 * @guard: the guard; it ends
 */
void disk_guard_keep(struct disk_guard *guard)
{
	char word = 1;

	send(guard->socket, &word, sizeof(word), MSG_NOSIGNAL);
	end(guard);
}

/**
 * disk_guard_undo - undo the operation now, and wait until that is done
 * @guard: the guard; it ends
 *
 * A disk to be removed must be closed before; a disk to be emptied must still be open.
 */
void disk_guard_undo(struct disk_guard *guard)
{
	if (!end(guard))
		undo(guard);
}

/**
 * image_may_be_replaced - check whether a RAM disk was loaded from an image, or saved to it
 * @sequence: the disk_sequence() of the RAM disk
 * @folder_fd: the folder of the image
 * @name: its name in the folder
 */
bool image_may_be_replaced(const char *sequence, int folder_fd, const char *name)
{
	uint64_t id = image_id(folder_fd, name);

	return id && disk_images_has(sequence, id);
}

/**
 * image_may_take_name - check whether a new image may get its name
 * @output: the image; out: exclusive is set if the name is unused, so that a file that
 *	appears later is not replaced
 * @sequence: the disk_sequence() of the RAM disk
 * @folder: the file system that the image was on, or is expected on; 0: any
 */
bool image_may_take_name(struct output *output, const char *sequence, dev_t folder)
{
	int err = 0;
	struct stat st;

	if (fstatat(output->folder_fd, output->name, &st, AT_SYMLINK_NOFOLLOW))
		err = errno;
	output->exclusive = err == ENOENT;
	if (err != ENOENT)
		return !err && image_may_be_replaced(sequence, output->folder_fd,
						     output->name);
	/* If that file system is not mounted, the image would be hidden by mounting it. */
	return !folder || (!fstat(output->folder_fd, &st) && st.st_dev == folder);
}

/* Report that a file is not replaced by a RAM disk whose data it may not have. */
enum exit_code image_kept_error(const char *file)
{
	return report(EXIT_BUSY,
		      "file '%s': was not saved, because during the save the file was replaced, its file system was unmounted, or the RAM disk was emptied, loaded or removed",
		      file);
}
