// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find the RAM disk that a user names, format its properties, and change its attributes, which
 * are its name and its memory limit.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/rxd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "kernel/attributes.h"

#define SHARE_PARAMETER	"/sys/module/rxd/parameters/memory_share"
#define SHARE_DEFAULT	75	/* percent */

/* Return the bits of rxd_query.state as words. */
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
		{ RXD_STATE_EXPENDABLE, "expendable" },
		{ RXD_STATE_LOST, "lost" },
		{ RXD_STATE_ELASTIC, "elastic" },
	};
	char *text = NULL;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (state & words[i].bit)
			append_text(&text, "%s%s", text ? " " : "", words[i].word);
	return text ? text : copy_text("idle");
}

/* Return rxd_query.node as a word or a number. */
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
 * ramdisk_name - return the name that was given to a RAM disk
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
 * ramdisk_parent - return the UUID of the RAM disk that the data was cloned from
 * @number: the disk
 *
 * Return: allocated text; NULL if there is none, or if an older module has no such attribute.
 */
char *ramdisk_parent(dev_t number)
{
	char *parent = sysfs_read(number, "rxd/parent");

	if (parent && *parent)
		return parent;
	free(parent);
	return NULL;
}

/**
 * ramdisk_by_name - find a RAM disk by the name that was given to it
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

/* Neither a path, nor the name of a node in /dev. */
static bool may_be_name(const char *text)
{
	char *node = format_text("/dev/%s", text);
	bool is_node = !*text || strchr(text, '/') || !access(node, F_OK);

	free(node);
	return !is_node;
}

/**
 * ramdisk_named - find the RAM disk that a user calls by the name that was given to it
 * @name: what the user wrote; paths and names of nodes in /dev are not looked up
 *
 * Return: allocated path, or NULL.
 */
char *ramdisk_named(const char *name)
{
	return may_be_name(name) ? ramdisk_by_name(name) : NULL;
}

/* Only RAM disks have this folder. Other drivers use the same major number. */
static bool is_rxd(dev_t number)
{
	DIR *dir = sysfs_open(number, "rxd");

	if (!dir)
		return false;
	closedir(dir);
	return true;
}

/**
 * device_find_named - find a block device that may be a RAM disk, or report why it is not one
 * @what: its role in the command
 * @name: a path, a name in /dev, or the name that was given to a RAM disk
 * @dev: out: the device, to be released by device_release()
 */
enum exit_code device_find_named(const char *what, const char *name, struct device *dev)
{
	char *path = ramdisk_named(name);
	enum exit_code ret;
	int index;

	*dev = (struct device){ .what = what };
	if (!path && may_be_name(name) && sscanf(name, "rxd%d", &index) != 1) {
		if (module_is_loaded("rxd"))
			return report(EXIT_DEVICE,
				      "%s '%s': is neither a device in /dev nor the name of a RAM disk; 'rxadm list' shows all names",
				      what, name);
		return report(EXIT_DEVICE,
			      "%s '%s': is no device in /dev, and there are no RAM disks, because the module rxd is not loaded; run 'modprobe rxd'",
			      what, name);
	}
	ret = device_find(what, path ? path : name, dev);
	free(path);
	return ret;
}

/**
 * device_find_rxd - find a RAM disk, or report why the device is not one
 * @what: its role in the command
 * @name: a path, a name in /dev, or the name that was given to a RAM disk
 * @dev: out: the device, to be released by device_release()
 * @index: out: its rxd device number
 */
enum exit_code device_find_rxd(const char *what, const char *name, struct device *dev,
			       int *index)
{
	enum exit_code ret = device_find_named(what, name, dev);
	dev_t disk;
	char end;

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
 * ramdisk_name_check - report if a RAM disk has a name already
 * @name: the name
 */
enum exit_code ramdisk_name_check(const char *name)
{
	char *owner = ramdisk_by_name(name);
	enum exit_code ret = EXIT_OK;

	if (owner)
		ret = report(EXIT_BUSY, "name '%s': %s has it; choose another name", name, owner);
	free(owner);
	return ret;
}

/**
 * ramdisk_rename - give a RAM disk another name
 * @disk: its kernel name
 * @name: the name; empty: none
 * @dry_run: only print what would be done
 */
enum exit_code ramdisk_rename(const char *disk, const char *name, bool dry_run)
{
	char *path = format_text("/sys/block/%s/rxd/name", disk);
	enum exit_code ret = EXIT_OK;
	int err = sysfs_write(path, name, dry_run);

	if (err == EEXIST)
		ret = report(EXIT_BUSY,
			     "name '%s': another RAM disk has it; 'rxadm list' shows which",
			     name);
	else if (err)
		ret = report(exit_code_of(err), "RAM disk '/dev/%s': the name '%s': %s", disk, name,
			     strerror(err));
	free(path);
	return ret;
}

/**
 * ramdisk_set_name - give a RAM disk another name, or report why not
 * @disk: the disk, as the user named it
 * @name: the name, which it may have already; empty: none
 * @dry_run: only print what would be done
 */
enum exit_code ramdisk_set_name(const char *disk, const char *name, bool dry_run)
{
	struct device dev;
	enum exit_code ret;
	int index;
	char *owner;

	ret = device_find_rxd("device", disk, &dev, &index);
	if (ret)
		return ret;
	owner = ramdisk_by_name(name);
	if (owner && strcmp(owner + strlen("/dev/"), dev.kernel_name))
		ret = ramdisk_name_check(name);
	if (!ret)
		ret = ramdisk_rename(dev.kernel_name, name, dry_run);
	free(owner);
	device_release(&dev);
	return ret;
}

/* Reject a limit below the size of a reserved disk: its memory is allocated already. */
static enum exit_code check_reserved(const struct device *dev, const char *text, uint64_t limit)
{
	char *state = sysfs_read(dev->number, "rxd/state");
	char *sectors = sysfs_read(dev->number, "size");
	uint64_t size = sectors ? strtoull(sectors, NULL, 10) << 9 : 0;
	enum exit_code ret = EXIT_OK;
	char size_text[SIZE_TEXT_MAX];

	if (limit && limit < size && state && strstr(state, "reserved"))
		ret = report(EXIT_PARAMETERS,
			     "memory limit '%s': must be none, or at least %s, the size of %s, whose memory is reserved",
			     text, size_format(size, size_text), dev->path);
	free(sectors);
	free(state);
	return ret;
}

/**
 * ramdisk_limit - limit the memory for the data of a RAM disk
 * @dev: the RAM disk
 * @text: the limit as the user wrote it
 * @limit: bytes; 0: no limit but the capacity
 * @dry_run: only print what would be done
 */
enum exit_code ramdisk_limit(const struct device *dev, const char *text, uint64_t limit,
			     bool dry_run)
{
	enum exit_code ret;
	char *path, *value;
	int err;

	ret = check_reserved(dev, text, limit);
	if (ret)
		return ret;
	path = format_text("/sys/dev/block/%u:%u/rxd/mem_limit", major(dev->number),
			   minor(dev->number));
	value = format_text("%llu", (unsigned long long)limit);
	err = sysfs_write(path, value, dry_run);
	if (err)
		ret = report(exit_code_of(err), "%s '%s': the memory limit '%s': %s", dev->what,
			     dev->path, text, strerror(err));
	free(value);
	free(path);
	return ret;
}

/*
 * Return how much of the memory RAM disks may promise, in percent. If the parameter cannot be read,
 * the module is not loaded: return the module's default.
 */
unsigned int ramdisk_memory_share(void)
{
	unsigned int percent = SHARE_DEFAULT;
	FILE *file;

	file = fopen(SHARE_PARAMETER, "re");
	if (!file)
		return percent;
	if (fscanf(file, "%u", &percent) != 1)
		percent = SHARE_DEFAULT;
	fclose(file);
	return percent;
}
