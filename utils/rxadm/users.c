// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who uses a block device: file systems, swap, drivers on top of it, other machines; and what it
 * holds for somebody who may come back.
 */
#include <blkid/blkid.h>
#include <dirent.h>
#include <errno.h>
#include <libmount/libmount.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "device.h"
#include "nvmet.h"
#include "users.h"

/* Devices whose users count: a disk with its partitions, a partition with its disk. */
struct family {
	dev_t *numbers;
	size_t count;
};

static void family_add(struct family *family, dev_t number)
{
	family->numbers = resize_array(family->numbers, family->count + 1,
				       sizeof(*family->numbers));
	family->numbers[family->count++] = number;
}

static bool family_has(const struct family *family, dev_t number)
{
	size_t i;

	for (i = 0; i < family->count; i++)
		if (family->numbers[i] == number)
			return true;
	return false;
}

static DIR *open_sysfs(dev_t number, const char *folder)
{
	char *path = format_text("/sys/dev/block/%u:%u/%s", major(number), minor(number), folder);
	DIR *dir = opendir(path);

	free(path);
	return dir;
}

static struct family family_of(dev_t number)
{
	struct family family = { 0 };
	struct dirent *entry;
	char *attribute;
	char *partition;
	dev_t relative;
	DIR *dir;

	family_add(&family, number);
	partition = sysfs_read(number, "partition");
	if (partition && sysfs_read_number(number, "../dev", &relative))
		family_add(&family, relative);
	free(partition);

	dir = open_sysfs(number, ".");
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
			family_add(&family, relative);
		free(attribute);
	}
	closedir(dir);
	return family;
}

static bool is_source(struct libmnt_fs *fs, const struct family *family)
{
	const char *source = mnt_fs_get_srcpath(fs);
	struct stat st;

	if (family_has(family, mnt_fs_get_devno(fs)))
		return true;
	/* btrfs shows a number of its own */
	return source && *source == '/' && !stat(source, &st) && S_ISBLK(st.st_mode) &&
	       family_has(family, st.st_rdev);
}

static void add_user(char **users, const char *how, const char *name)
{
	append_text(users, "%s%s%s", *users ? ", " : "", how, name);
}

static void add_mounts(char **users, const struct family *family)
{
	struct libmnt_table *table = mnt_new_table_from_file("/proc/self/mountinfo");
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;

	while (table && iter && !mnt_table_next_fs(table, iter, &fs))
		if (is_source(fs, family))
			add_user(users, "mounted on ", mnt_fs_get_target(fs));
	mnt_free_iter(iter);
	mnt_unref_table(table);
}

static void add_swaps(char **users, const struct family *family)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_table *table = mnt_new_table();
	struct libmnt_fs *fs;

	if (table && iter && !mnt_table_parse_swaps(table, NULL))
		while (!mnt_table_next_fs(table, iter, &fs))
			if (is_source(fs, family))
				add_user(users, "swap on ", mnt_fs_get_source(fs));
	mnt_free_iter(iter);
	mnt_unref_table(table);
}

static void add_holders(char **users, dev_t number)
{
	DIR *dir = open_sysfs(number, "holders");
	struct dirent *entry;
	char *attribute;
	dev_t holder;
	char *path;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		attribute = format_text("holders/%s/dev", entry->d_name);
		if (sysfs_read_number(number, attribute, &holder)) {
			path = device_path(holder);
			add_user(users, "held by ", path);
			free(path);
		} else {
			add_user(users, "held by ", entry->d_name);
		}
		free(attribute);
	}
	closedir(dir);
}

static void add_exports(char **users, dev_t number)
{
	char *exports = nvmet_exports_of(number);
	char *path;

	if (!exports)
		return;
	path = device_path(number);
	append_text(&exports, ", which 'rxadm unexport %s' ends", path);
	add_user(users, "exported as ", exports);
	free(path);
	free(exports);
}

/**
 * users_of - say who uses a block device, its partitions, or its whole disk
 * @number: the device
 *
 * Return: allocated text, such as "mounted on /mnt, held by /dev/mapper/x", or
 * NULL if nobody is known. A process that has it open is not found.
 */
char *users_of(dev_t number)
{
	struct family family = family_of(number);
	char *users = NULL;
	size_t i;

	add_mounts(&users, &family);
	add_swaps(&users, &family);
	for (i = 0; i < family.count; i++)
		add_holders(&users, family.numbers[i]);
	for (i = 0; i < family.count; i++)
		add_exports(&users, family.numbers[i]);
	free(family.numbers);
	return users;
}

/**
 * signature_check - report if a device holds a file system or the like
 * @what: the device's part in the command
 * @path: the device
 */
enum exit_code signature_check(const char *what, const char *path)
{
	enum exit_code ret = EXIT_OK;
	const char *type = NULL;
	blkid_probe probe;

	probe = blkid_new_probe_from_filename(path);
	if (!probe)
		return report(exit_code_of(errno), "%s '%s': cannot look for a file system: %s",
			      what, path, strerror(errno));
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE);
	blkid_probe_enable_partitions(probe, 1);

	switch (blkid_do_safeprobe(probe)) {
	case 1:
		break;
	case 0:
		if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL))
			blkid_probe_lookup_value(probe, "PTTYPE", &type, NULL);
		ret = report(EXIT_DEVICE,
			     "%s '%s': holds data (%s) that would be lost; --force takes it all the same",
			     what, path, type ? type : "unknown");
		break;
	case -2:
		ret = report(EXIT_DEVICE,
			     "%s '%s': holds data of several kinds that would be lost; --force takes it all the same",
			     what, path);
		break;
	default:
		ret = report(EXIT_DEVICE, "%s '%s': cannot be read to look for a file system",
			     what, path);
	}
	blkid_free_probe(probe);
	return ret;
}
