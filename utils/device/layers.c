// SPDX-License-Identifier: GPL-2.0-only
/*
 * The devices that are on a disk: its partitions, and those of device-mapper, md and loop devices
 * on top. Also: find out whether the file system of a mount is on one of them.
 */
#include <dirent.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "device/layers.h"

#define BTRFS_FOLDER	"/sys/fs/btrfs"

struct layer *layers_find(const struct layers *layers, dev_t number)
{
	size_t i;

	for (i = 0; i < layers->count; i++)
		if (layers->list[i].number == number)
			return &layers->list[i];
	return NULL;
}

/* Add a device and its partitions. */
static void add_layers(struct layers *layers, dev_t number, bool stacked)
{
	struct disk_family family = disk_family_of(number);
	size_t i;

	for (i = 0; i < family.count; i++) {
		if (layers_find(layers, family.numbers[i]))
			continue;
		layers->list = resize_array(layers->list, layers->count + 1,
					    sizeof(*layers->list));
		layers->list[layers->count++] = (struct layer){
			.number = family.numbers[i],
			.stacked = stacked,
		};
	}
	disk_family_release(&family);
}

static void add_holders(struct layers *layers, size_t layer)
{
	dev_t holder, number = layers->list[layer].number;
	DIR *dir = sysfs_open(number, "holders");
	struct dirent *entry;
	char *attribute;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		attribute = format_text("holders/%s/dev", entry->d_name);
		if (sysfs_read_number(number, attribute, &holder)) {
			add_layers(layers, holder, true);
			layers->list[layer].used = true;
		}
		free(attribute);
	}
	if (dir)
		closedir(dir);
}

static bool is_loop_on(const char *name, dev_t number)
{
	char *path = format_text("/sys/block/%s/loop/backing_file", name);
	char *file = first_line(path);
	struct stat st;
	bool found;

	found = file && !stat(file, &st) && S_ISBLK(st.st_mode) && st.st_rdev == number;
	free(file);
	free(path);
	return found;
}

/* sysfs does not list loop devices as holders. */
static void add_loops(struct layers *layers, size_t layer)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;
	dev_t loop;

	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "loop", 4) ||
		    !is_loop_on(entry->d_name, layers->list[layer].number) ||
		    !sysfs_number_of(entry->d_name, &loop))
			continue;
		add_layers(layers, loop, true);
		layers->list[layer].used = true;
	}
	if (dir)
		closedir(dir);
}

/**
 * layers_begin - find the devices on a disk
 * @layers: out: to be released by layers_end()
 * @disk: the disk
 */
void layers_begin(struct layers *layers, dev_t disk)
{
	size_t i;

	*layers = (struct layers){ 0 };
	add_layers(layers, disk, false);
	for (i = 0; i < layers->count; i++) {
		add_holders(layers, i);
		add_loops(layers, i);
	}
}

void layers_end(struct layers *layers)
{
	free(layers->list);
	*layers = (struct layers){ 0 };
}

/*
 * If a device is a member of this btrfs file system, mark the layers that are members. Return:
 * whether there is such a layer.
 */
static bool is_btrfs_with(struct layers *layers, const char *uuid, dev_t with)
{
	char *folder = format_text(BTRFS_FOLDER "/%s/devices", uuid);
	bool member = false, found = false;
	struct dirent *entry;
	struct layer *layer;
	unsigned int round;
	dev_t number;
	DIR *dir;

	dir = opendir(folder);
	for (round = 0; dir && round < 2; round++, rewinddir(dir)) {
		while ((entry = readdir(dir))) {
			if (!sysfs_number_of(entry->d_name, &number))
				continue;
			member = member || number == with;
			layer = round && member ? layers_find(layers, number) : NULL;
			if (layer)
				layer->used = true;
			found = found || layer;
		}
	}
	if (dir)
		closedir(dir);
	free(folder);
	return found;
}

static bool is_on_btrfs(struct layers *layers, dev_t source)
{
	DIR *dir = opendir(BTRFS_FOLDER);
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			found = is_btrfs_with(layers, entry->d_name, source);
	if (dir)
		closedir(dir);
	return found;
}

/* Return true if the file system of a mount is on one of the layers, and mark these. */
bool layers_have(struct layers *layers, struct libmnt_fs *fs)
{
	const char *source = mnt_fs_get_srcpath(fs);
	const char *type = mnt_fs_get_fstype(fs);
	dev_t number = mnt_fs_get_devno(fs);
	struct layer *layer = layers_find(layers, number);
	struct stat st;

	/*
	 * btrfs has an anonymous device number: look at the source. Of other file systems, this
	 * may be any text.
	 */
	if (!layer && type && !strcmp(type, "btrfs") && source && *source == '/' &&
	    !stat(source, &st) && S_ISBLK(st.st_mode))
		return is_on_btrfs(layers, st.st_rdev);
	if (layer)
		layer->used = true;
	return layer;
}

/* Return true if a file is in a mount. It may be hidden by another mount. */
bool mount_has_file(int fd, struct libmnt_fs *fs)
{
	struct statx st;

	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MNT_ID,
		      &st) && st.stx_mask & STATX_MNT_ID &&
	       st.stx_mnt_id == (uint64_t)mnt_fs_get_id(fs) &&
	       (S_ISDIR(st.stx_mode) || S_ISREG(st.stx_mode));
}
