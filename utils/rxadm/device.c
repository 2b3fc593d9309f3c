// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block devices: from the user's name to the kernel's, and back.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device.h"
#include "machine.h"

#define RXD_NODE	"/dev/rxd"
#define WAIT_ROUNDS	100	/* of pause_briefly(): five seconds */

/**
 * sysfs_open - open a folder of a block device in sysfs
 * @number: the device
 * @folder: its name, "." for the device's own
 *
 * Return: the open folder, or NULL.
 */
DIR *sysfs_open(dev_t number, const char *folder)
{
	char *path = format_text("/sys/dev/block/%u:%u/%s", major(number), minor(number), folder);
	DIR *dir = opendir(path);

	free(path);
	return dir;
}

/**
 * sysfs_read - read an attribute of a block device
 * @number: the device
 * @attribute: file in its sysfs folder
 *
 * Return: allocated text without its newline, or NULL.
 */
char *sysfs_read(dev_t number, const char *attribute)
{
	char *path = format_text("/sys/dev/block/%u:%u/%s", major(number), minor(number),
				 attribute);
	char *text = NULL;
	size_t size = 0;
	FILE *file;

	file = fopen(path, "re");
	free(path);
	if (!file)
		return NULL;
	if (getline(&text, &size, file) < 0) {
		free(text);
		text = NULL;
	} else {
		text[strcspn(text, "\n")] = '\0';
	}
	fclose(file);
	return text;
}

/**
 * sysfs_read_number - read an attribute that is a device number
 * @device: the device
 * @attribute: file in its sysfs folder that says MAJOR:MINOR
 * @number: out: the number
 */
bool sysfs_read_number(dev_t device, const char *attribute, dev_t *number)
{
	char *text = sysfs_read(device, attribute);
	unsigned int major_number, minor_number;
	bool found;

	found = text && sscanf(text, "%u:%u", &major_number, &minor_number) == 2;
	free(text);
	if (found)
		*number = makedev(major_number, minor_number);
	return found;
}

/**
 * sysfs_number_of - find a block device by the kernel's name
 * @name: a folder of /sys/block
 * @number: out: the device
 */
bool sysfs_number_of(const char *name, dev_t *number)
{
	char *path = format_text("/sys/block/%s/dev", name);
	unsigned int major_number, minor_number;
	FILE *file = fopen(path, "re");
	bool found = false;

	free(path);
	if (file) {
		found = fscanf(file, "%u:%u", &major_number, &minor_number) == 2;
		fclose(file);
	}
	if (found)
		*number = makedev(major_number, minor_number);
	return found;
}

static bool find_kernel_name(struct device *dev)
{
	char *link = format_text("/sys/dev/block/%u:%u", major(dev->number), minor(dev->number));
	char target[PATH_MAX];
	ssize_t len;

	len = readlink(link, target, sizeof(target) - 1);
	free(link);
	if (len < 0)
		return false;
	target[len] = '\0';
	snprintf(dev->kernel_name, sizeof(dev->kernel_name), "%s", basename(target));
	return true;
}

static bool is_rxd_node(const char *path)
{
	return !strncmp(path, RXD_NODE, strlen(RXD_NODE)) &&
	       isdigit((unsigned char)path[strlen(RXD_NODE)]);
}

static enum exit_code stat_error(const struct device *dev, int err)
{
	if (err != ENOENT || !is_rxd_node(dev->path))
		return report(err == EACCES ? EXIT_PERMISSION : EXIT_DEVICE, "%s '%s': %s",
			      dev->what, dev->path, strerror(err));
	if (!module_is_loaded("rxd"))
		return report(EXIT_DEVICE,
			      "%s '%s': does not exist, for the module rxd is not loaded; run 'modprobe rxd'",
			      dev->what, dev->path);
	return report(EXIT_DEVICE, "%s '%s': does not exist; 'rxadm list' shows all RAM disks",
		      dev->what, dev->path);
}

/**
 * device_find - find a block device, or report why it is none
 * @what: its part in the command
 * @name: a path, or a name in /dev
 * @dev: out: the device, to be released by device_release()
 */
enum exit_code device_find(const char *what, const char *name, struct device *dev)
{
	enum exit_code ret = EXIT_DEVICE;
	struct stat st;

	*dev = (struct device){ .what = what };
	if (!*name)
		return report(EXIT_PARAMETERS, "%s '': must be the path of a block device", what);
	dev->path = strchr(name, '/') ? copy_text(name) : format_text("/dev/%s", name);

	if (stat(dev->path, &st)) {
		ret = stat_error(dev, errno);
	} else if (!S_ISBLK(st.st_mode)) {
		report(ret, "%s '%s': is not a block device", what, dev->path);
	} else {
		dev->number = st.st_rdev;
		if (find_kernel_name(dev))
			return EXIT_OK;
		report(ret, "%s '%s': no driver serves its number %u:%u", what, dev->path,
		       major(st.st_rdev), minor(st.st_rdev));
	}
	device_release(dev);
	return ret;
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
 * @name: a path, or a name in /dev
 * @dev: out: the device, to be released by device_release()
 * @index: out: its rxd device number
 */
enum exit_code device_find_rxd(const char *what, const char *name, struct device *dev,
			       int *index)
{
	enum exit_code ret;
	dev_t disk;
	char end;

	ret = device_find(what, name, dev);
	if (ret)
		return ret;

	if (sysfs_read_number(dev->number, "../dev", &disk) && is_rxd(disk))
		ret = report(EXIT_DEVICE,
			     "%s '%s': is a partition of a RAM disk; name the whole disk", what,
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

void device_release(struct device *dev)
{
	free(dev->path);
	dev->path = NULL;
}

/**
 * device_path - what users call a device
 * @number: the device
 *
 * Return: allocated path below /dev, or MAJOR:MINOR if the device is gone.
 */
char *device_path(dev_t number)
{
	char *name = sysfs_read(number, "dm/name");
	struct device dev = { .number = number };
	char *path;
	char *c;

	if (name) {
		path = format_text("/dev/mapper/%s", name);
	} else if (find_kernel_name(&dev)) {
		/* sysfs writes a slash in a device's name as an exclamation mark. */
		for (c = dev.kernel_name; *c; c++)
			if (*c == '!')
				*c = '/';
		path = format_text("/dev/%s", dev.kernel_name);
	} else {
		path = format_text("%u:%u", major(number), minor(number));
	}
	free(name);
	return path;
}

/**
 * device_wait - wait until a device's node is there
 * @path: the node
 * @number: the device it must be
 *
 * Return: whether it came.
 */
bool device_wait(const char *path, dev_t number)
{
	unsigned int round;
	struct stat st;

	for (round = 0; round < WAIT_ROUNDS; round++) {
		if (!stat(path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == number)
			return true;
		pause_briefly();
	}
	return false;
}
