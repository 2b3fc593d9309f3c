// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access device-mapper through libdevmapper, and report the first error of its log.
 */
#include <errno.h>
#include <libdevmapper.h>
#include <linux/dm-ioctl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "device/dm.h"

/* libdevmapper's log levels are not in its header. */
#define LOG_LEVEL_ERROR	3
#define LOG_LEVEL_MASK	7

#define UDEV_ROUNDS	400	/* of pause_briefly(): 20 seconds */

/*
 * The first error that libdevmapper logged for the current task, and its errno. The library
 * loses the errno when it rolls back a failed creation.
 */
static char log_text[512];
static int log_errno;

__printf(5, 6)
static void log_message(int level, const char *file __always_unused, int line __always_unused,
			int dm_errno __always_unused, const char *format, ...)
{
	int err = errno;
	va_list args;

	if ((level & LOG_LEVEL_MASK) > LOG_LEVEL_ERROR || *log_text)
		return;
	va_start(args, format);
	vsnprintf(log_text, sizeof(log_text), format, args);
	va_end(args);
	log_errno = err;
}

static struct dm_task *new_task(int type, const char *name)
{
	struct dm_task *task;

	*log_text = '\0';
	log_errno = 0;
	task = dm_task_create(type);
	if (task && name && !dm_task_set_name(task, name)) {
		dm_task_destroy(task);
		task = NULL;
	}
	return task;
}

static int task_errno(struct dm_task *task)
{
	int err = task ? dm_task_get_errno(task) : ENOMEM;

	return err ? err : log_errno;
}

static enum exit_code task_error(const char *name, int err)
{
	if (!err)
		return report(EXIT_DEVICE, "mapping '%s': %s", name,
			      *log_text ? log_text : "libdevmapper failed and gave no reason");
	return report(exit_code_of(err), "mapping '%s': %s", name,
		      *log_text ? log_text : strerror(err));
}

/**
 * dm_connect - connect to device-mapper, or report why not
 *
 * The caller calls dm_end() later.
 */
enum exit_code dm_connect(void)
{
	struct dm_task *task;
	int ok;

	dm_log_with_errno_init(log_message);
	/* mapping_name_check() allows only characters that need no escaping. */
	dm_set_name_mangling_mode(DM_STRING_MANGLING_NONE);

	task = new_task(DM_DEVICE_VERSION, NULL);
	ok = task && dm_task_run(task);
	if (task)
		dm_task_destroy(task);
	if (ok)
		return EXIT_OK;
	dm_lib_exit();
	return report(EXIT_DEVICE, "device-mapper does not answer: %s", log_text);
}

void dm_end(void)
{
	dm_lib_exit();
}

static void read_segment(struct dm_task *task, struct mapping *mapping)
{
	char *target, *params;
	uint64_t start, length;
	void *next;

	next = dm_get_next_target(task, NULL, &start, &length, &target, &params);
	if (next || !target)
		return;
	mapping->sectors = length;
	mapping->target = copy_text(target);
	mapping->params = copy_text(params ? params : "");
}

/**
 * mapping_read - read the properties of a mapping
 * @name: the mapping
 * @line: which line of its segment to read
 * @mapping: out: the properties, to be released by mapping_release()
 */
enum exit_code mapping_read(const char *name, enum mapping_line line, struct mapping *mapping)
{
	struct dm_info info = { 0 };
	struct dm_task *task;
	int err;

	*mapping = (struct mapping){ 0 };
	task = new_task(line == MAPPING_TABLE ? DM_DEVICE_TABLE : DM_DEVICE_STATUS, name);
	if (!task)
		return task_error(name, ENOMEM);
	if (!dm_task_no_flush(task) || !dm_task_run(task) || !dm_task_get_info(task, &info)) {
		err = task_errno(task);
		dm_task_destroy(task);
		/* DM_DEVICE_TABLE fails if there is no mapping; DM_DEVICE_STATUS does not. */
		return err == ENXIO ? EXIT_OK : task_error(name, err);
	}
	if (info.exists) {
		mapping->exists = true;
		mapping->number = makedev(info.major, info.minor);
		mapping->open_count = info.open_count;
		mapping->uuid = copy_text(dm_task_get_uuid(task));
		read_segment(task, mapping);
	}
	dm_task_destroy(task);
	return EXIT_OK;
}

void mapping_release(struct mapping *mapping)
{
	free(mapping->uuid);
	free(mapping->target);
	free(mapping->params);
	*mapping = (struct mapping){ 0 };
}

/**
 * mapping_names - list all mappings
 * @names: out: array that ends with NULL, to be freed by mapping_names_free()
 */
enum exit_code mapping_names(char ***names)
{
	enum exit_code ret = EXIT_OK;
	struct dm_names *entry;
	struct dm_task *task;
	size_t count = 0;

	*names = resize_array(NULL, 1, sizeof(**names));
	task = new_task(DM_DEVICE_LIST, NULL);
	entry = task && dm_task_run(task) ? dm_task_get_names(task) : NULL;
	if (entry) {
		/* An empty list has one entry whose device number is 0. */
		while (entry->dev) {
			(*names)[count++] = copy_text(entry->name);
			*names = resize_array(*names, count + 1, sizeof(**names));
			if (!entry->next)
				break;
			entry = (struct dm_names *)((char *)entry + entry->next);
		}
	} else {
		ret = report(EXIT_DEVICE, "cannot list the mappings: %s", log_text);
	}
	(*names)[count] = NULL;
	if (task)
		dm_task_destroy(task);
	return ret;
}

void mapping_names_free(char **names)
{
	size_t i;

	for (i = 0; names[i]; i++)
		free(names[i]);
	free(names);
}

/**
 * target_has_version - check whether a loaded target has at least a version
 * @target: its name
 * @major: the major version, which must be equal
 * @minor: the minor version
 */
bool target_has_version(const char *target, uint32_t major, uint32_t minor)
{
	struct dm_task *task = new_task(DM_DEVICE_LIST_VERSIONS, NULL);
	struct dm_versions *found = NULL;
	bool has = false;

	if (task && dm_task_run(task))
		found = dm_task_get_versions(task);
	while (found && !has) {
		has = !strcmp(found->name, target) && found->version[0] == major &&
		      found->version[1] >= minor;
		found = found->next ? (void *)((char *)found + found->next) : NULL;
	}
	if (task)
		dm_task_destroy(task);
	return has;
}

/**
 * mapping_name_check - report if a name is not valid for a mapping
 * @name: the name
 */
enum exit_code mapping_name_check(const char *name)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789#+-.:=@_";
	size_t len = strlen(name);

	if (len && len < DM_NAME_LEN && strspn(name, allowed) == len && *name != '-' &&
	    strcmp(name, ".") && strcmp(name, "..") && strcmp(name, "control"))
		return EXIT_OK;
	return report(EXIT_PARAMETERS,
		      "name '%s': must be 1 to %d letters, digits or #+-.:=@_; must not begin with '-' or be '.', '..' or 'control'",
		      name, DM_NAME_LEN - 1);
}

/*
 * Wait until udev has created or removed the nodes. Without udev there is no cookie, and
 * libdevmapper creates the nodes. If udev does not answer in UDEV_ROUNDS, complete the cookie for
 * it, which counts the requests to udev, and let libdevmapper update the nodes.
 */
static void wait_for_udev(uint32_t cookie)
{
	unsigned int round;
	int ready = !cookie;

	for (round = 0; !ready; round++) {
		if (!dm_udev_wait_immediate(cookie, &ready))
			break;
		if (!ready && round >= UDEV_ROUNDS)
			dm_udev_complete(cookie);
		if (!ready)
			pause_for(round, "for udev to finish with /dev/mapper");
	}
	dm_task_update_nodes();
}

/**
 * mapping_refused - report what a target has refused, with the reason from the kernel log
 * @name: the mapping
 * @target: the target
 * @err: the errno
 * @kmsg: what kmsg_open() returned before
 */
enum exit_code mapping_refused(const char *name, const char *target, int err, int kmsg)
{
	char *reason = kmsg_target_error(kmsg, target);
	enum exit_code ret;

	if (!reason)
		return task_error(name, err);
	ret = report(exit_code_of(err), "mapping '%s': the kernel says: %s (%s)", name, reason,
		     strerror(err));
	free(reason);
	return ret;
}

/**
 * mapping_create - create a mapping of one segment; an error leaves none
 * @name: its name
 * @uuid: its UUID
 * @sectors: its length
 * @target: target of the segment
 * @params: table line of the segment
 * @number: out: its device number
 */
enum exit_code mapping_create(const char *name, const char *uuid, uint64_t sectors,
			      const char *target, const char *params, dev_t *number)
{
	enum exit_code ret = EXIT_OK;
	int kmsg = kmsg_open();
	struct dm_task *task;
	struct dm_info info;
	uint32_t cookie = 0;

	task = new_task(DM_DEVICE_CREATE, name);
	if (task && dm_task_set_uuid(task, uuid) &&
	    dm_task_add_target(task, 0, sectors, target, params) &&
	    dm_task_set_cookie(task, &cookie, 0) && dm_task_run(task) &&
	    dm_task_get_info(task, &info)) {
		*number = makedev(info.major, info.minor);
	} else {
		ret = mapping_refused(name, target, task_errno(task), kmsg);
	}
	wait_for_udev(cookie);
	if (task)
		dm_task_destroy(task);
	if (kmsg >= 0)
		close(kmsg);
	return ret;
}

/**
 * mapping_remove - remove a mapping
 * @name: its name
 */
enum exit_code mapping_remove(const char *name)
{
	struct dm_task *task = new_task(DM_DEVICE_REMOVE, name);
	enum exit_code ret = EXIT_OK;
	uint32_t cookie = 0;

	if (!task || !dm_task_set_cookie(task, &cookie, 0) || !dm_task_run(task))
		ret = task_error(name, task_errno(task));
	wait_for_udev(cookie);
	if (task)
		dm_task_destroy(task);
	return ret;
}

/* Load a table, as read-only as the live one. Return: 0 or an errno. */
static int load_table(const char *name, bool read_only, uint64_t sectors, const char *target,
		      const char *params)
{
	struct dm_task *task = new_task(DM_DEVICE_RELOAD, name);
	bool done = task && (!read_only || dm_task_set_ro(task)) &&
		    dm_task_add_target(task, 0, sectors, target, params) && dm_task_run(task);
	int err = done ? 0 : task_errno(task);

	if (task)
		dm_task_destroy(task);
	return done || err ? err : EIO;
}

/* Suspend a mapping, swap its tables, and resume it. Freeze no file system: its data stays. */
static int swap_tables(const char *name)
{
	struct dm_task *task = new_task(DM_DEVICE_RESUME, name);
	uint32_t cookie = 0;
	bool done = task && dm_task_skip_lockfs(task) && dm_task_set_cookie(task, &cookie, 0) &&
		    dm_task_run(task);
	int err = done ? 0 : task_errno(task);

	wait_for_udev(cookie);
	if (task)
		dm_task_destroy(task);
	return done || err ? err : EIO;
}

/**
 * mapping_check_replaceable - report if another table must not be loaded for a mapping
 * @name: the mapping
 * @read_only: out: the table is read-only
 */
enum exit_code mapping_check_replaceable(const char *name, bool *read_only)
{
	struct dm_task *task = new_task(DM_DEVICE_INFO, name);
	struct dm_info info = { 0 };
	enum exit_code ret = EXIT_OK;

	if (!task || !dm_task_run(task) || !dm_task_get_info(task, &info))
		ret = task_error(name, task_errno(task));
	else if (info.suspended)
		ret = report(EXIT_BUSY, "mapping '%s': is suspended; 'dmsetup resume %s' ends that",
			     name, name);
	else if (info.inactive_table)
		ret = report(EXIT_BUSY,
			     "mapping '%s': another table was loaded for it; 'dmsetup clear %s' removes that table",
			     name, name);
	*read_only = info.read_only;
	if (task)
		dm_task_destroy(task);
	return ret;
}

/**
 * mapping_replace - give a mapping of one segment another table, while it is in use
 * @name: the mapping
 * @sectors: its length
 * @target: target of the segment
 * @params: table line of the segment
 * @old: the present one, which an error brings back
 */
enum exit_code mapping_replace(const char *name, uint64_t sectors, const char *target,
			       const char *params, const char *old)
{
	bool read_only, loaded;
	enum exit_code ret;
	int kmsg, err;

	ret = mapping_check_replaceable(name, &read_only);
	if (ret)
		return ret;
	kmsg = kmsg_open();
	err = load_table(name, read_only, sectors, target, params);
	loaded = !err;
	if (loaded)
		err = swap_tables(name);
	if (err)
		ret = mapping_refused(name, target, err, kmsg);
	/* The mapping may be suspended, with either table. */
	if (err && loaded && !load_table(name, read_only, sectors, target, old))
		swap_tables(name);
	if (kmsg >= 0)
		close(kmsg);
	return ret;
}

/**
 * mapping_create_linear - map the whole of an unused device
 * @name: name of the mapping
 * @prefix: what its UUID begins with; the number of the device follows
 * @what: role of the device, for messages
 * @device: the device
 */
enum exit_code mapping_create_linear(const char *name, const char *prefix, const char *what,
				     const char *device)
{
	char *path = format_text("/dev/mapper/%s", name);
	char *sectors = NULL, *params, *uuid;
	enum exit_code ret;
	struct device dev;
	dev_t number;
	int fd;

	ret = device_find(what, device, &dev);
	if (ret)
		goto out;
	params = format_text("%u:%u 0", major(dev.number), minor(dev.number));
	uuid = format_text("%s%u:%u", prefix, major(dev.number), minor(dev.number));
	ret = device_open_unused(&dev, &fd);
	if (!ret) {
		sectors = sysfs_read(dev.number, "size");
		close(fd);
	}
	signals_block();
	if (!ret)
		ret = mapping_create(name, uuid, sectors ? strtoull(sectors, NULL, 10) : 0,
				     LINEAR_TARGET, params, &number);
	if (!ret && !device_wait(path, number)) {
		mapping_remove(name);
		ret = report(EXIT_DEVICE,
			     "'%s': the node did not appear, so the mapping was removed", path);
	}
	signals_allow();
	free(sectors);
	free(params);
	free(uuid);
	device_release(&dev);
out:
	free(path);
	return ret;
}

/**
 * mapping_ask - send a message to the target at the beginning of a mapping
 * @name: the mapping
 * @message: the message
 * @answer: out: allocated text, or NULL if there is none; the argument may be NULL
 *
 * Return: 0 or an errno, which is not reported.
 */
int mapping_ask(const char *name, const char *message, char **answer)
{
	struct dm_task *task = new_task(DM_DEVICE_TARGET_MSG, name);
	const char *text = NULL;
	int err = 0;

	if (!task || !dm_task_set_sector(task, 0) || !dm_task_set_message(task, message) ||
	    !dm_task_run(task)) {
		err = task_errno(task);
		err = err ? err : EIO;
	} else {
		text = dm_task_get_message_response(task);
	}
	if (answer)
		*answer = text ? copy_text(text) : NULL;
	if (task)
		dm_task_destroy(task);
	return err;
}
