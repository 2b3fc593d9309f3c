// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rxd-control, and sentences for the errors of its ioctls.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "control.h"
#include "machine.h"
#include "size.h"
#include "users.h"

#define BUSY_ROUNDS	20	/* of pause_briefly(): one second */
#define CONTROL_NODE	"/dev/" RXD_CONTROL_NAME
#define SHARE_PARAMETER	"/sys/module/rxd/parameters/memory_share"

static uint32_t abi = RXD_ABI_VERSION;

/*
 * An older module stays loaded while its RAM disks are there, also if rxadm is renewed.
 * One that is not understood must not look like one that has no RAM disks.
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
 * control_abi - the ABI version of the module, for RXD_QUERY, RXD_MAP and RXD_REMOVE
 *
 * What saves a RAM disk and removes it has the same arguments in all versions from
 * CONTROL_ABI_OLDEST on. All else is for modules of this release alone.
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
 * control_query - ask for a RAM disk
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

/**
 * control_error - report an error that every ioctl may return
 * @err: errno
 * @object: what it was about
 */
enum exit_code control_error(int err, const char *object)
{
	switch (err) {
	case EPERM:
		return report(EXIT_PERMISSION,
			      "%s: the kernel wants the privilege CAP_SYS_ADMIN; run rxadm as root",
			      object);
	case EPROTONOSUPPORT:
	case ENOTTY:
		return report(EXIT_DEVICE,
			      "%s: the module rxd is not of the release of rxadm %s; install both from one",
			      object, RXADM_VERSION);
	case ENODEV:
		return report(EXIT_DEVICE,
			      "%s: there is no such RAM disk; 'rxadm list' shows all", object);
	case EROFS:
		return report(EXIT_DEVICE,
			      "%s: is read-only; 'blockdev --setrw' makes it writable", object);
	case ENOMEM:
		return report(EXIT_MEMORY, "%s: the kernel has not enough memory", object);
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

/* udev looks into a device that was just written: let it finish, for a while. */
static bool is_worth_waiting(const struct device *dev, unsigned int *round, enum exit_code *ret)
{
	char *users = users_of(dev->number);
	bool wait = !users && ++*round < BUSY_ROUNDS;

	if (wait)
		pause_briefly();
	else
		*ret = in_use_error(dev, users);
	free(users);
	return wait;
}

/**
 * control_idle - issue an ioctl that wants its device idle, or report who uses it
 * @fd: the control node
 * @request: the ioctl
 * @arg: its argument
 * @dev: the device it is about
 */
enum exit_code control_idle(int fd, unsigned long request, const void *arg,
			    const struct device *dev)
{
	unsigned int round = 0;
	enum exit_code ret;

	while (ioctl(fd, request, arg)) {
		if (errno != EBUSY)
			return control_error(errno, dev->path);
		if (!is_worth_waiting(dev, &round, &ret))
			return ret;
	}
	return EXIT_OK;
}

/**
 * control_idle_check - report who uses a device that must be idle
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
		if (!is_worth_waiting(dev, &round, &ret))
			return ret;
	}
}

/**
 * control_reserve_error - report a size that there is no memory for
 * @text: the size as the user wrote it
 */
enum exit_code control_reserve_error(const char *text)
{
	char left[SIZE_TEXT_MAX];

	size_format(machine_available(), left);
	return report(EXIT_MEMORY,
		      "size '%s': cannot be reserved; %s of memory are available, and a part of it stays with the machine",
		      text, left);
}

static unsigned int memory_share(void)
{
	unsigned int percent = 100;
	FILE *file;

	file = fopen(SHARE_PARAMETER, "re");
	if (!file)
		return percent;
	if (fscanf(file, "%u", &percent) != 1)
		percent = 100;
	fclose(file);
	return percent;
}

static uint64_t memory_share_bytes(void)
{
	return machine_ram() / 100 * memory_share();
}

/**
 * control_share_left - how much the machine-wide share has left
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
		if (query.index != index && !(query.state & RXD_STATE_OVERCOMMIT))
			promised += query.size;
	return promised < share ? share - promised : 0;
}

/**
 * control_share_error - report a size beyond the machine-wide share
 * @fd: the control node
 * @text: the size as the user wrote it
 * @size: the size in bytes
 * @index: the device that would get this size, not counted, or -1
 */
enum exit_code control_share_error(int fd, const char *text, uint64_t size, int index)
{
	char share_text[SIZE_TEXT_MAX], left_text[SIZE_TEXT_MAX];
	char ram_text[SIZE_TEXT_MAX], size_text[SIZE_TEXT_MAX];

	size_format(memory_share_bytes(), share_text);
	size_format(control_share_left(fd, index), left_text);
	size_format(machine_ram(), ram_text);
	size_format(size, size_text);
	return report(EXIT_PARAMETERS,
		      "size '%s': %s is more than the %s left of the %s (%u %% of %s memory) that RAM disks may promise; choose less, or give %s",
		      text, size_text, left_text, share_text, memory_share(), ram_text,
		      advice("--overcommit", "overcommit = yes"));
}
