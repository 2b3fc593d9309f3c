// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/rxd-control, sentences for the errors of its ioctls, and what the driver says of a
 * RAM disk, made readable; which RAM disk a user means.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <uuid/uuid.h>

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

/* udev looks into a device that was just written: let it finish, for a while. */
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
 * control_shrink_error - report who uses a RAM disk that cannot shrink
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
 * control_reserve_error - report a size that there is no memory for
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
	size_format(system_ram(), ram_text);
	size_format(size, size_text);
	return report(EXIT_PARAMETERS,
		      "size '%s': %s exceeds the %s that are left of the share for RAM disks, which is %s (%u %% of %s memory); choose a smaller size, or give %s",
		      text, size_text, left_text, share_text, memory_share(), ram_text,
		      advice("--overcommit", "overcommit = yes"));
}

#define EXTENTS_AT_ONCE	4096

/* What rxd_query.state says, as words. */
char *ramdisk_state(uint32_t state)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} words[] = {
		{ RXD_STATE_OPEN, "open" },
		{ RXD_STATE_CACHE, "cache" },
		{ RXD_STATE_OVERCOMMIT, "overcommit" },
		{ RXD_STATE_READONLY, "readonly" },
		{ RXD_STATE_RESERVED, "reserved" },
		{ RXD_STATE_DETECT_ZEROES, "detect-zeroes" },
	};
	char *text = NULL;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (state & words[i].bit)
			append_text(&text, "%s%s", text ? " " : "", words[i].word);
	return text ? text : copy_text("idle");
}

/* What rxd_query.node says, as a word. */
char *ramdisk_node(int32_t node)
{
	switch (node) {
	case RXD_NODE_LOCAL:
		return copy_text("local");
	case RXD_NODE_INTERLEAVE:
		return copy_text("interleave");
	default:
		return format_text("%d", node);
	}
}

char *ramdisk_uuid(const uint8_t *uuid)
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	return copy_text(text);
}

/**
 * ramdisk_name - the name that a RAM disk was given
 * @number: the disk
 *
 * Return: allocated name, or NULL.
 */
char *ramdisk_name(dev_t number)
{
	char *name = sysfs_read(number, "rxd/name");

	if (name && *name)
		return name;
	free(name);
	return NULL;
}

/**
 * ramdisk_by_name - find the RAM disk that was given a name
 * @name: the name
 *
 * Return: allocated path, or NULL.
 */
char *ramdisk_by_name(const char *name)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;
	char *path = NULL;
	dev_t number;
	char *other;

	while (!path && dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "rxd", 3) || !sysfs_number_of(entry->d_name, &number))
			continue;
		other = ramdisk_name(number);
		if (other && !strcmp(other, name))
			path = format_text("/dev/%s", entry->d_name);
		free(other);
	}
	if (dir)
		closedir(dir);
	return path;
}

/**
 * ramdisk_named - find the RAM disk that a user calls by its name
 * @name: what the user wrote, which is no such name if it is a path, or that of a node in /dev
 *
 * Return: allocated path, or NULL.
 */
char *ramdisk_named(const char *name)
{
	char *node = format_text("/dev/%s", name);
	bool is_node = !*name || strchr(name, '/') || !access(node, F_OK);

	free(node);
	return is_node ? NULL : ramdisk_by_name(name);
}

/* Only RAM disks have this folder. Their numbers are those of many other disks. */
static bool is_rxd(dev_t number)
{
	DIR *dir = sysfs_open(number, "rxd");

	if (!dir)
		return false;
	closedir(dir);
	return true;
}

/**
 * device_find_rxd - find a RAM disk, or report why it is none
 * @what: its part in the command
 * @name: a path, a name in /dev, or the name that a RAM disk was given
 * @dev: out: the device, to be released by device_release()
 * @index: out: its rxd device number
 */
enum exit_code device_find_rxd(const char *what, const char *name, struct device *dev,
			       int *index)
{
	char *path = ramdisk_named(name);
	enum exit_code ret;
	dev_t disk;
	char end;

	ret = device_find(what, path ? path : name, dev);
	free(path);
	if (ret)
		return ret;

	if (sysfs_read_number(dev->number, "../dev", &disk) && is_rxd(disk))
		ret = report(EXIT_DEVICE,
			     "%s '%s': is a partition of a RAM disk; give the whole disk", what,
			     dev->path);
	else if (!is_rxd(dev->number) ||
		 sscanf(dev->kernel_name, "rxd%d%c", index, &end) != 1)
		ret = report(EXIT_DEVICE,
			     "%s '%s': is not an rxd RAM disk; 'rxadm list' shows all", what,
			     dev->path);
	if (ret)
		device_release(dev);
	return ret;
}

/**
 * ramdisk_extents - walk through the ranges of a RAM disk that hold data
 * @fd: the disk, open for reading
 * @each: called for each, in ascending order
 * @data: what @each is given
 *
 * Return: 0 or an errno; EBUSY: it is in use as a cache.
 */
int ramdisk_extents(int fd, void (*each)(void *data, const struct rxd_extent *extent),
		    void *data)
{
	struct rxd_extent *extents = resize_array(NULL, EXTENTS_AT_ONCE, sizeof(*extents));
	struct rxd_map arg = { .version = RXD_ABI_VERSION };
	uint64_t start = 0;
	int err = 0;
	uint32_t i;

	while (!err && start < RXD_SIZE_MAX) {
		arg.start = start;
		arg.length = RXD_SIZE_MAX - start;
		arg.extents = (uintptr_t)extents;
		arg.count = EXTENTS_AT_ONCE;
		arg.next = 0;
		if (ioctl(fd, RXD_MAP, &arg)) {
			err = errno;
			break;
		}
		for (i = 0; i < arg.count; i++)
			each(data, &extents[i]);
		start = arg.next;
	}
	free(extents);
	return err;
}
