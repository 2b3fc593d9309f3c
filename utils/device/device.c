// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block devices: convert the names of users to those of the kernel and back, and read sysfs for
 * attributes, partitions and I/O counters.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/common.h"
#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device.h"

#define RXD_NODE	"/dev/rxd"
#define WAIT_ROUNDS	100	/* of pause_briefly(): five seconds */

/**
 * sysfs_open - open a folder of a block device in sysfs
 * @number: the device
 * @folder: its name, or "." for the folder of the device
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
	char *text = first_line(path);

	free(path);
	return text;
}

/**
 * sysfs_write - write a value to a file in sysfs
 * @path: the file
 * @value: the text
 * @dry_run: only open it, and print what would be done
 *
 * Return: 0 or an errno.
 */
int sysfs_write(const char *path, const char *value, bool dry_run)
{
	char *line = format_text("%s\n", value);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd >= 0 && dry_run)
		printf("echo '%s' > '%s'\n", value, path);
	else if (fd < 0 || write(fd, line, strlen(line)) < 0)
		err = errno;
	if (fd >= 0)
		close(fd);
	free(line);
	return err;
}

/**
 * device_announce - tell udev that an empty disk has contents now
 * @number: the disk, which is closed
 *
 * LVM and mdadm scan a disk only at the event of a new disk, when it was still empty: send that
 * event again. It is no error if that fails: the contents can be activated by hand.
 */
void device_announce(dev_t number)
{
	char *path = format_text("/sys/dev/block/%u:%u/uevent", major(number), minor(number));

	sysfs_write(path, "add", false);
	free(path);
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
 * @name: an entry of /sys/class/block
 * @number: out: the device
 */
bool sysfs_number_of(const char *name, dev_t *number)
{
	char *path = format_text("/sys/class/block/%s/dev", name);
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
			      "%s '%s': does not exist, because the module rxd is not loaded; run 'modprobe rxd'",
			      dev->what, dev->path);
	return report(EXIT_DEVICE, "%s '%s': does not exist; 'rxadm list' shows all RAM disks",
		      dev->what, dev->path);
}

/**
 * device_find - find a block device, or report why it is not one
 * @what: its role in the command
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
		report(ret, "%s '%s': no driver handles its device number %u:%u", what, dev->path,
		       major(st.st_rdev), minor(st.st_rdev));
	}
	device_release(dev);
	return ret;
}

void device_release(struct device *dev)
{
	free(dev->path);
	dev->path = NULL;
}

/**
 * device_path - return the path that users know a device by
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
 * device_wait - wait until the node of a device exists
 * @path: the node
 * @number: the device it must be
 *
 * Return: true if it appeared.
 */
bool device_wait(const char *path, dev_t number)
{
	unsigned int round;
	struct stat st;

	for (round = 0; round < WAIT_ROUNDS; round++) {
		if (!stat(path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == number)
			return true;
		pause_for(round, "for '%s' to appear", path);
	}
	return false;
}

/**
 * device_open_unused - open a device exclusively, or report that it is in use
 * @dev: the device
 * @fd: out: the descriptor, for reading, or -1
 *
 * This also finds users that users_of() cannot see, such as mounts in other namespaces.
 */
enum exit_code device_open_unused(const struct device *dev, int *fd)
{
	*fd = open(dev->path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (*fd >= 0)
		return EXIT_OK;
	if (errno == EBUSY)
		return report(EXIT_BUSY,
			      "%s '%s': is in use by the kernel, perhaps mounted in another namespace; release it there first",
			      dev->what, dev->path);
	return report(exit_code_of(errno), "%s '%s': %s", dev->what, dev->path, strerror(errno));
}

static void disk_family_add(struct disk_family *family, dev_t number)
{
	family->numbers = resize_array(family->numbers, family->count + 1,
				       sizeof(*family->numbers));
	family->numbers[family->count++] = number;
}

bool disk_family_has(const struct disk_family *family, dev_t number)
{
	size_t i;

	for (i = 0; i < family->count; i++)
		if (family->numbers[i] == number)
			return true;
	return false;
}

/**
 * disk_family_of - return a device with its partitions, or with its whole disk
 * @number: the device
 *
 * Return: the device first, then its partitions or its whole disk, to be released by
 * disk_family_release().
 */
struct disk_family disk_family_of(dev_t number)
{
	struct disk_family family = { 0 };
	struct dirent *entry;
	char *attribute;
	char *partition;
	dev_t relative;
	DIR *dir;

	disk_family_add(&family, number);
	partition = sysfs_read(number, "partition");
	if (partition && sysfs_read_number(number, "../dev", &relative))
		disk_family_add(&family, relative);
	free(partition);

	dir = sysfs_open(number, ".");
	if (!dir)
		return family;
	while ((entry = readdir(dir))) {
		attribute = format_text("%s/partition", entry->d_name);
		partition = entry->d_name[0] == '.' ? NULL : sysfs_read(number, attribute);
		free(attribute);
		if (!partition)
			continue;
		free(partition);
		attribute = format_text("%s/dev", entry->d_name);
		if (sysfs_read_number(number, attribute, &relative))
			disk_family_add(&family, relative);
		free(attribute);
	}
	closedir(dir);
	return family;
}

void disk_family_release(struct disk_family *family)
{
	free(family->numbers);
	*family = (struct disk_family){ 0 };
}

#define SECTOR	512

/* Reads, writes and discards have four fields each: requests, merges, sectors, time. */
enum {
	FIELD_READ	= 0,
	FIELD_WRITE	= 4,
	FIELD_IN_FLIGHT	= 8,
	FIELD_BUSY	= 9,
	FIELD_DISCARD	= 11,
	FIELD_FLUSH	= 15,
	FIELD_FLUSH_MS	= 16,
	FIELDS		= 17,
};

/**
 * iostat_parse - read the attribute "stat" of a disk
 * @text: its content; newer kernels may add fields at the end
 * @iostat: out: the counters
 *
 * Return: true if @text is valid.
 */
bool iostat_parse(const char *text, struct iostat *iostat)
{
	static const struct {
		enum io_operation operation;
		unsigned int field;
	} groups[] = {
		{ IO_READ, FIELD_READ },
		{ IO_WRITE, FIELD_WRITE },
		{ IO_DISCARD, FIELD_DISCARD },
	};
	unsigned long long field[FIELDS];
	unsigned int i;
	char *end;

	for (i = 0; i < FIELDS; i++) {
		while (*text == ' ')
			text++;
		if (!isdigit((unsigned char)*text))
			return false;
		field[i] = strtoull(text, &end, 10);
		text = end;
	}
	*iostat = (struct iostat) {
		.requests[IO_FLUSH] = field[FIELD_FLUSH],
		.ms[IO_FLUSH] = field[FIELD_FLUSH_MS],
		.in_flight = field[FIELD_IN_FLIGHT],
		.busy_ms = field[FIELD_BUSY],
	};
	for (i = 0; i < ARRAY_SIZE(groups); i++) {
		iostat->requests[groups[i].operation] = field[groups[i].field];
		iostat->bytes[groups[i].operation] = field[groups[i].field + 2] * SECTOR;
		iostat->ms[groups[i].operation] = field[groups[i].field + 3];
	}
	return true;
}

/**
 * iostat_read - read the I/O counters of a disk
 * @number: the disk
 * @iostat: out: the counters
 *
 * Return: false if the disk is gone, or has no counters.
 */
bool iostat_read(dev_t number, struct iostat *iostat)
{
	char *text = sysfs_read(number, "stat");
	bool ok = text && iostat_parse(text, iostat);

	free(text);
	return ok;
}

/* Return true if the devices are the same, or one is a partition of the other. */
bool devices_overlap(dev_t a, dev_t b)
{
	dev_t disk;

	return a == b || (sysfs_read_number(a, "../dev", &disk) && disk == b) ||
	       (sysfs_read_number(b, "../dev", &disk) && disk == a);
}
