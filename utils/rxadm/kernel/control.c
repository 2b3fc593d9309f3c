// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open and query /dev/rxd-control, and report the errors of its ioctls. For --dry-run, let the
 * driver check an ioctl without executing it, and print the call.
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

#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/device_users.h"
#include "lib/error.h"
#include "lib/size.h"
#include "lib/system.h"

#define BUSY_ROUNDS	20	/* of pause_briefly(): one second */
#define CONTROL_NODE	"/dev/" RXD_CONTROL_NAME
#define SHARE_PARAMETER	"/sys/module/rxd/parameters/memory_share"

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

/* udev probes a device that was just written: wait for it, at most BUSY_ROUNDS. */
static bool is_worth_waiting(const struct device *dev, unsigned int *round, enum exit_code *ret)
{
	char *users = users_of(dev->number);
	bool wait = !users && *round + 1 < BUSY_ROUNDS;

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
	const struct rxd_remove plain = { .version = arg->version, .index = arg->index };

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
		if (!is_worth_waiting(dev, &round, &ret))
			return ret;
	}
}

/**
 * control_shrink_error - report the users of a RAM disk that cannot shrink
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 */
enum exit_code control_shrink_error(int fd, const struct device *dev, int index)
{
	char *openers = openers_of(dev->number);
	char *users = users_of(dev->number);
	struct rxd_query query;
	enum exit_code ret;

	if (!control_query(fd, index, 0, &query) && query.state & RXD_STATE_CACHE)
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
	return system_ram() / 100 * memory_share();
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
		if (query.index != index && !(query.state & RXD_STATE_OVERCOMMIT))
			promised += query.size;
	return promised < share ? share - promised : 0;
}

/**
 * control_share_error - report a size that exceeds the machine-wide share
 * @fd: the control node
 * @text: the size as the user wrote it
 * @size: the size in bytes
 * @index: the device to be resized, which is not counted, or -1
 */
enum exit_code control_share_error(int fd, const char *text, uint64_t size, int index)
{
	char share_text[SIZE_TEXT_MAX], left_text[SIZE_TEXT_MAX];
	char ram_text[SIZE_TEXT_MAX], size_text[SIZE_TEXT_MAX];

	size_format(memory_share_bytes(), share_text);
	size_format(control_share_left(fd, index), left_text);
	size_format(system_ram(), ram_text);
	size_format(size, size_text);
	return report(EXIT_PARAMETERS,
		      "size '%s': %s exceeds the %s that are left of the share for RAM disks, which is %s (%u %% of %s memory); choose a smaller size, or give %s",
		      text, size_text, left_text, share_text, memory_share(), ram_text,
		      advice("--overcommit", "overcommit = yes"));
}

/* Print the names of the bits that are set. @names is in the order of the bits. */
static void print_flags(uint32_t flags, const char *const *names, size_t count)
{
	const char *separator = "";
	size_t i;

	if (!flags)
		putchar('0');
	for (i = 0; i < count; i++) {
		if (!(flags & 1U << i))
			continue;
		printf("%s%s", separator, names[i]);
		separator = "|";
	}
}

static void print_begin(const char *request, uint32_t version)
{
	printf("ioctl(/dev/" RXD_CONTROL_NAME ", %s, {version=%u, flags=", request, version);
}

static void print_create(const struct rxd_create *arg)
{
	static const char *const flags[] = {
		"RXD_CREATE_OVERCOMMIT", "RXD_CREATE_RESERVE", "RXD_CREATE_DETECT_ZEROES",
	};
	char *uuid = ramdisk_uuid(arg->uuid);

	print_begin("RXD_CREATE", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", index=%d, logical_block_size=%u, size=%llu, mem_limit=%llu", arg->index,
	       arg->logical_block_size, (unsigned long long)arg->size,
	       (unsigned long long)arg->mem_limit);
	printf(", folio_size=%u, node=%d, uuid=%s})\n", arg->folio_size, arg->node, uuid);
	free(uuid);
}

/* A module that does not know RXD_DRY_RUN refuses it, whether the disk exists or not. */
static bool can_ask(int fd)
{
	/* The ioctl waits for operations on the disk: use the number that is most likely free. */
	const struct rxd_remove arg = {
		.version = control_abi(),
		.flags = RXD_DRY_RUN,
		.index = RXD_INDEX_MAX,
	};

	return fd >= 0 && (!ioctl(fd, RXD_REMOVE, &arg) || errno != EINVAL);
}

static int ask(int fd, unsigned long request, const void *arg)
{
	return ioctl(fd, request, arg) ? errno : 0;
}

/* Print the note only once, even if several calls are printed. */
static void note_not_asked(int fd)
{
	static bool noted;

	if (!noted)
		report(EXIT_OK, "note: the driver was not asked, because the module rxd %s",
		       fd < 0 ? "is not loaded" : "is older than rxadm");
	noted = true;
}

/* Check a creation as far as possible without the driver. Return: 0 or an errno. */
static int guess_create(int fd, const struct rxd_create *arg)
{
	if (!(arg->flags & RXD_CREATE_OVERCOMMIT) && arg->size > control_share_left(fd, -1))
		return ERANGE;
	if (arg->node >= 0 && !system_has_node(arg->node))
		return ENXIO;
	if (arg->flags & RXD_CREATE_RESERVE && arg->size > system_ram_available())
		return ENOSPC;
	return 0;
}

/**
 * dry_run_create - check whether a RAM disk can be created, and print the ioctl
 * @fd: the control node; -1: the module is not loaded
 * @arg: the argument
 *
 * Return: 0, or the errno of RXD_CREATE.
 */
int dry_run_create(int fd, const struct rxd_create *arg)
{
	struct rxd_create question = *arg;
	bool asked = can_ask(fd);
	int err;

	question.flags |= RXD_DRY_RUN;
	err = asked ? ask(fd, RXD_CREATE, &question) : guess_create(fd, arg);
	if (err)
		return err;
	if (!asked)
		note_not_asked(fd);
	if (fd < 0)
		puts("modprobe rxd");
	print_create(arg);
	return 0;
}

/**
 * dry_run_resize - check whether a RAM disk can be resized, and print the ioctl
 * @fd: the control node
 * @arg: the argument
 *
 * Return: 0, or the errno of RXD_RESIZE.
 */
int dry_run_resize(int fd, const struct rxd_resize *arg)
{
	static const char *const flags[] = { "RXD_RESIZE_FORCE", "RXD_RESIZE_OVERCOMMIT" };
	struct rxd_resize question = *arg;
	bool asked = can_ask(fd);
	int err;

	question.flags |= RXD_DRY_RUN;
	err = asked ? ask(fd, RXD_RESIZE, &question) : 0;
	if (err)
		return err;
	if (!asked)
		note_not_asked(fd);
	print_begin("RXD_RESIZE", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", index=%d, size=%llu})\n", arg->index, (unsigned long long)arg->size);
	return 0;
}

/* Wait and report errors as a real removal or clearing does. */
static enum exit_code ask_idle(int fd, unsigned long request, const void *arg,
			       const struct device *dev, int index)
{
	unsigned int round = 0;
	enum exit_code ret;

	if (!can_ask(fd)) {
		ret = control_idle_check(fd, index, dev);
		if (!ret)
			note_not_asked(fd);
		return ret;
	}
	while (ioctl(fd, request, arg)) {
		if (errno != EBUSY)
			return control_error(errno, dev->path);
		if (!is_worth_waiting(dev, &round, &ret))
			return ret;
	}
	return EXIT_OK;
}

/**
 * dry_run_discard - check whether a RAM disk can be removed or cleared, and print the ioctl, or
 *	report why not
 * @fd: the control node
 * @dev: the RAM disk
 * @command: RXD_REMOVE or RXD_CLEAR
 * @arg: its argument, see control_discard()
 */
enum exit_code dry_run_discard(int fd, const struct device *dev, unsigned long command,
			       const struct rxd_remove *arg)
{
	static const char *const flags[] = { "RXD_IF_SAME" };
	const struct rxd_remove question = {
		.version = arg->version,
		.flags = RXD_DRY_RUN,
		.index = arg->index,
	};
	enum exit_code ret = ask_idle(fd, command, &question, dev, arg->index);

	if (ret)
		return ret;
	print_begin(command == RXD_REMOVE ? "RXD_REMOVE" : "RXD_CLEAR", arg->version);
	print_flags(arg->flags, flags, ARRAY_SIZE(flags));
	printf(", index=%d, diskseq=%llu, changes=", arg->index,
	       (unsigned long long)arg->diskseq);
	if (arg->changes == RXD_CHANGES_ANY)
		puts("RXD_CHANGES_ANY})");
	else
		printf("%llu})\n", (unsigned long long)arg->changes);
	return EXIT_OK;
}
