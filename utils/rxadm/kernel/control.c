// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open and query /dev/rxd-control, and report the errors of its ioctls.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device_users.h"
#include "device/openers.h"
#include "kernel/attributes.h"
#include "kernel/control.h"

#define CONTROL_NODE	"/dev/" RXD_CONTROL_NAME

static uint32_t abi = RXD_ABI_VERSION;

/*
 * Find the ABI version of the module, which may be older than rxadm: an upgrade does not replace
 * a module that has RAM disks. Fail if rxadm does not support it, instead of showing no RAM disks.
 */
static enum exit_code find_abi(int fd)
{
	struct rxd_query query;

	while (control_query(fd, 0, RXD_QUERY_NEXT, &query) == EPROTONOSUPPORT) {
		if (abi == CONTROL_ABI_OLDEST) {
			abi = RXD_ABI_VERSION;
			return control_error(EPROTONOSUPPORT, CONTROL_NODE);
		}
		abi--;
	}
	return EXIT_OK;
}

/**
 * control_abi - return the ABI version of the module, for RXD_QUERY, RXD_MAP and RXD_REMOVE
 *
 * The arguments of these ioctls, which save and remove RAM disks, have not changed since
 * CONTROL_ABI_OLDEST. All other ioctls require a module of this release.
 */
uint32_t control_abi(void)
{
	return abi;
}

/**
 * control_open - open the control node
 * @fd: out: the descriptor
 */
enum exit_code control_open(int *fd)
{
	enum exit_code ret;

	*fd = open(CONTROL_NODE, O_RDWR | O_CLOEXEC);
	if (*fd >= 0) {
		ret = find_abi(*fd);
		if (ret) {
			close(*fd);
			*fd = -1;
		}
		return ret;
	}
	if (errno == ENOENT && !module_is_loaded("rxd"))
		return report(EXIT_DEVICE, "the module rxd is not loaded; run 'modprobe rxd'");
	return report(exit_code_of(errno), "cannot open " CONTROL_NODE ": %s", strerror(errno));
}

/**
 * control_query - query the driver for a RAM disk
 * @fd: the control node
 * @index: device number
 * @flags: RXD_QUERY_* bits
 * @query: out: the answer
 *
 * Return: 0 or an errno.
 */
int control_query(int fd, int index, uint32_t flags, struct rxd_query *query)
{
	int err;

	do {
		*query = (struct rxd_query) {
			.version = abi,
			.flags = flags,
			.index = index,
		};
		err = ioctl(fd, RXD_QUERY, query) ? errno : 0;
	} while (err == EINTR);
	return err;
}

/* Return true if a RAM disk was given up when memory was short. */
bool control_is_lost(int fd, int index)
{
	struct rxd_query query;

	return !control_query(fd, index, 0, &query) && query.state & RXD_STATE_LOST;
}

/* Return true if there is a device number for another RAM disk. */
bool control_has_free_index(int fd)
{
	struct rxd_query query;
	int index = 0;

	while (index <= RXD_INDEX_MAX && !control_query(fd, index, 0, &query))
		index++;
	return index <= RXD_INDEX_MAX;
}

/**
 * control_count_shared - count the data of a RAM disk that other disks share
 * @fd: the control node
 * @query: the disk, as control_query() has found it
 * @diskseq: its diskseq, or 0
 * @shared: out: number of bytes
 *
 * Return: 0 or an errno; ENOTTY: the module is older.
 */
int control_count_shared(int fd, const struct rxd_query *query, uint64_t diskseq, uint64_t *shared)
{
	struct rxd_count_shared arg;
	uint64_t at = 0;
	int err = 0;

	*shared = 0;
	while (at < query->size && (!err || err == EINTR)) {
		arg = (struct rxd_count_shared) {
			.version = RXD_ABI_VERSION,
			.index = query->index,
			.diskseq = diskseq,
			.start = at,
			.length = query->size - at,
		};
		err = ioctl(fd, RXD_COUNT_SHARED, &arg) ? errno : 0;
		if (!err) {
			*shared += arg.shared;
			at = arg.next;
		}
	}
	return err;
}

/**
 * control_error - report an error that every ioctl may return
 * @err: errno
 * @object: what the error concerns
 */
enum exit_code control_error(int err, const char *object)
{
	switch (err) {
	case EPERM:
		return report(EXIT_PERMISSION,
			      "%s: the kernel requires the privilege CAP_SYS_ADMIN; run rxadm as root",
			      object);
	case EPROTONOSUPPORT:
	case ENOTTY:
		return report(EXIT_DEVICE,
			      "%s: the module rxd is not from the same release as rxadm %s; install both from the same release",
			      object, RXADM_VERSION);
	case ENODEV:
		return report(EXIT_DEVICE,
			      "%s: there is no such RAM disk; 'rxadm list' shows all", object);
	case EROFS:
		return report(EXIT_DEVICE,
			      "%s: is read-only; 'blockdev --setrw' makes it writable", object);
	case ESTALE:
		return report(EXIT_BUSY,
			      "RAM disk '%s': its data is kept, because a program keeps writing to it; stop that program first",
			      object);
	case ENOMEM:
		return report(EXIT_MEMORY, "%s: the kernel does not have enough memory", object);
	case EIO:
		return report(EXIT_DEVICE,
			      "%s: %s; if 'rxadm list' shows it as lost, it was given up when memory was short, and can only be removed",
			      object, strerror(err));
	default:
		return report(exit_code_of(err), "%s: %s", object, strerror(err));
	}
}

static enum exit_code in_use_error(const struct device *dev, const char *users)
{
	char *openers = users ? NULL : openers_of(dev->number);
	enum exit_code ret;

	ret = report(EXIT_BUSY, "%s '%s': is in use (%s); release it there first", dev->what,
		     dev->path,
		     users ? users : openers ? openers : "a process has it open");
	free(openers);
	return ret;
}

/**
 * control_wait_idle - wait a moment for a device that is open, or report its users
 * @dev: the device
 * @round: number of earlier waits, which the call increments
 * @ret: out: the error, if it is not worth waiting any longer
 *
 * Wait for a process that may close the device soon, such as udev.
 */
bool control_wait_idle(const struct device *dev, unsigned int *round, enum exit_code *ret)
{
	char *users = users_of(dev->number);
	bool wait = !users && !wait_is_over(*round + 1);

	if (wait)
		pause_for((*round)++, "until '%s' is closed", dev->path);
	else
		*ret = in_use_error(dev, users);
	free(users);
	return wait;
}

static_assert(sizeof(struct rxd_remove) == sizeof(struct rxd_clear), "see control_discard()");

/**
 * control_discard - issue RXD_REMOVE or RXD_CLEAR
 * @fd: the control node
 * @command: the ioctl
 * @arg: its argument; the arguments of both have the same members
 *
 * An older module does not know RXD_IF_SAME, and discards the data without comparing anything.
 *
 * Return: 0 or an errno.
 */
int control_discard(int fd, unsigned long command, const struct rxd_remove *arg)
{
	const struct rxd_remove plain = { .version = arg->version, .index = arg->index,
					  .flags = arg->flags & ~RXD_IF_SAME };

	if (!ioctl(fd, command, arg))
		return 0;
	if (errno != EINVAL)
		return errno;
	return ioctl(fd, command, &plain) ? errno : 0;
}

/**
 * control_idle_check - report the users of a device that must be idle
 * @fd: the control node
 * @index: its number
 * @dev: the device
 */
enum exit_code control_idle_check(int fd, int index, const struct device *dev)
{
	struct rxd_query query;
	unsigned int round = 0;
	enum exit_code ret;
	int err;

	for (;;) {
		err = control_query(fd, index, 0, &query);
		if (err)
			return control_error(err, dev->path);
		if (!(query.state & (RXD_STATE_OPEN | RXD_STATE_CACHE)))
			return EXIT_OK;
		if (!control_wait_idle(dev, &round, &ret))
			return ret;
	}
}

/**
 * control_resize_busy - report the users of a RAM disk that cannot be resized
 * @fd: the control node
 * @dev: the RAM disk
 * @arg: the argument of RXD_RESIZE
 */
enum exit_code control_resize_busy(int fd, const struct device *dev, const struct rxd_resize *arg)
{
	char *openers = openers_of(dev->number);
	char *users = users_of(dev->number);
	struct rxd_query query = { 0 };
	enum exit_code ret;
	bool known;

	known = !control_query(fd, arg->index, 0, &query);
	if (known && !(query.state & RXD_STATE_CACHE) &&
	    (query.size < arg->size || arg->flags & RXD_RESIZE_FORCE ||
	     (query.state & RXD_STATE_RESERVED && !(query.state & RXD_STATE_OPEN))))
		ret = report(EXIT_BUSY,
			     "%s '%s': cannot be resized while it is cloned or saved; try again later",
			     dev->what, dev->path);
	else if (known && query.state & RXD_STATE_CACHE)
		ret = report(EXIT_BUSY,
			     "%s '%s': cannot shrink while it is in use as a cache%s%s; run 'rxadm unmap' first",
			     dev->what, dev->path, users ? ", " : "", users ? users : "");
	else
		ret = report(EXIT_BUSY,
			     "%s '%s': cannot shrink while it is open (%s%s%s); close it first, or %s",
			     dev->what, dev->path, users ? users : "",
			     users && openers ? ", " : "",
			     openers ? openers : users ? "" : "by a process",
			     advice("give --force", "run 'rxadm resize --force'"));
	free(openers);
	free(users);
	return ret;
}

/**
 * control_clone_error - report an error of RXD_CLONE or RXD_RESET that others do not return, or
 *	that a RAM disk was given up (EIO)
 * @err: errno
 * @dev: the RAM disk that it concerns
 * @what: what cannot be done
 */
enum exit_code control_clone_error(int err, const struct device *dev, const char *what)
{
	switch (err) {
	case EIO:
		return report(EXIT_DEVICE,
			      "%s '%s': cannot be %s, because it was given up when memory was short (see --expendable); its data is lost; 'rxadm remove' removes it",
			      dev->what, dev->path, what);
	case ENOTTY:
		return report(EXIT_DEVICE,
			      "%s '%s': cannot be %s, because the loaded module rxd is older than rxadm %s; install both from the same release",
			      dev->what, dev->path, what, RXADM_VERSION);
	default:
		return control_error(err, dev->path);
	}
}

/**
 * control_reserve_forbids - ask the driver whether it refuses a clone because of reserved memory
 * @fd: the control node
 * @index: the RAM disk, whose memory is reserved, or that shares data with such a disk
 * @flags: of the clone: 0 or RXD_CLONE_EXPENDABLE
 */
bool control_reserve_forbids(int fd, int index, uint32_t flags)
{
	struct rxd_clone arg;
	int err;

	do {
		arg = (struct rxd_clone) {
			.version = RXD_ABI_VERSION,
			.flags = flags | RXD_CREATE_OVERCOMMIT | RXD_CLONE_NO_FREEZE | RXD_DRY_RUN,
			.source = index,
			.index = RXD_INDEX_ANY,
		};
		err = ioctl(fd, RXD_CLONE, &arg) ? errno : 0;
	} while (err == EINTR);
	return err == EOPNOTSUPP;
}

/**
 * control_reserved_error - report what cannot be done because of reserved memory
 * @dev: the RAM disk
 * @own: the memory is that of the disk, and not that of another one, with which it shares data
 * @rule: what cannot be done, and what can
 */
enum exit_code control_reserved_error(const struct device *dev, bool own, const char *rule)
{
	return report(EXIT_DEVICE, "%s '%s': %s: %s", dev->what, dev->path,
		      own ? "its memory is reserved" :
			    "shares data with a RAM disk whose memory is reserved", rule);
}

/**
 * control_reserve_error - report that there is not enough memory to reserve a size
 * @text: the size as the user wrote it
 */
enum exit_code control_reserve_error(const char *text)
{
	char left[SIZE_TEXT_MAX];

	size_format(system_ram_available(), left);
	return report(EXIT_MEMORY,
		      "size '%s': cannot be reserved; %s of memory are available, a part of which is kept free for the system",
		      text, left);
}

static uint64_t memory_share_bytes(void)
{
	return system_ram() / 100 * ramdisk_memory_share();
}

static uint64_t promised_by(const struct rxd_query *query)
{
	const bool may_be_older = !(query->state & (RXD_STATE_OVERCOMMIT | RXD_STATE_ELASTIC));

	return !query->promised && may_be_older ? query->size : query->promised;
}

/**
 * control_share_left - return how much of the machine-wide share is left
 * @fd: the control node; -1: there is no RAM disk
 * @index: the device that is not counted, or -1
 */
uint64_t control_share_left(int fd, int index)
{
	uint64_t share = memory_share_bytes();
	struct rxd_query query;
	uint64_t promised = 0;
	int next;

	for (next = 0; !control_query(fd, next, RXD_QUERY_NEXT, &query); next = query.index + 1)
		if (query.index != index)
			promised += promised_by(&query);
	return promised < share ? share - promised : 0;
}

/* Return: what is left of the share, as allocated text. */
static char *left_of_share(int fd, int index)
{
	char share[SIZE_TEXT_MAX], left[SIZE_TEXT_MAX];

	size_format(memory_share_bytes(), share);
	size_format(control_share_left(fd, index), left);
	return format_text("RAM disks may have %s in all (%u %% of memory), of which %s is left",
			   share, ramdisk_memory_share(), left);
}

/**
 * control_share_error - report a size that exceeds the machine-wide share
 * @fd: the control node
 * @text: the size as the user wrote it
 * @size: the size in bytes
 * @index: the device to be resized, which is not counted, or -1
 * @remedy: what else the user can do; NULL: overcommit
 */
enum exit_code control_share_error(int fd, const char *text, uint64_t size, int index,
				   const char *remedy)
{
	char *left = left_of_share(fd, index);
	char size_text[SIZE_TEXT_MAX];
	enum exit_code ret;

	size_format(size, size_text);
	ret = report(EXIT_PARAMETERS,
		     "size '%s': %s%sis too large: %s; choose a smaller size, or %s", text,
		     strcmp(text, size_text) ? size_text : "",
		     strcmp(text, size_text) ? " " : "", left,
		     remedy ? remedy : advice("give --overcommit", "give overcommit = yes"));
	free(left);
	return ret;
}

/**
 * control_clone_share_error - report clones that exceed the machine-wide share
 * @fd: the control node
 * @source: the RAM disk that is cloned
 * @size: its size in bytes
 * @count: number of clones
 */
enum exit_code control_clone_share_error(int fd, const struct device *source, uint64_t size,
					 unsigned int count)
{
	char *left = left_of_share(fd, -1);
	char size_text[SIZE_TEXT_MAX];
	enum exit_code ret;

	size_format(size, size_text);
	if (count == 1)
		ret = report(EXIT_PARAMETERS,
			     "%s '%s': a clone of %s is too large: %s; remove another RAM disk, or give --overcommit",
			     source->what, source->path, size_text, left);
	else
		ret = report(EXIT_PARAMETERS,
			     "%s '%s': %u clones of %s are too large: %s; make fewer clones, or give --overcommit",
			     source->what, source->path, count, size_text, left);
	free(left);
	return ret;
}

/**
 * control_has_uuid - check whether a RAM disk has a UUID
 * @fd: the control node
 * @uuid: the UUID
 */
bool control_has_uuid(int fd, const uint8_t *uuid)
{
	struct rxd_query query;
	int next;

	for (next = 0; !control_query(fd, next, RXD_QUERY_NEXT, &query); next = query.index + 1)
		if (!memcmp(query.uuid, uuid, sizeof(query.uuid)))
			return true;
	return false;
}
