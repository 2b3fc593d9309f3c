// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find the users of a block device: mounts, swap, stacked devices and exports.
 */
#include <dirent.h>
#include <libmount/libmount.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "device/device.h"
#include "device/device_users.h"
#include "device/nvmet.h"
#include "device/nvmet_locks.h"

static bool is_source(struct libmnt_fs *fs, const struct disk_family *family)
{
	const char *source = mnt_fs_get_srcpath(fs);
	struct stat st;

	if (disk_family_has(family, mnt_fs_get_devno(fs)))
		return true;
	/* btrfs mounts have an anonymous device number: look at the source, too. */
	return source && *source == '/' && !stat(source, &st) && S_ISBLK(st.st_mode) &&
	       disk_family_has(family, st.st_rdev);
}

/* Lists have one element per line: replace newlines in a name. */
static void add(char **list, const char *name)
{
	char *copy = copy_text(name);
	char *c;

	for (c = copy; *c; c++)
		if (*c == '\n')
			*c = '?';
	append_text(list, "%s%s", *list ? "\n" : "", copy);
	free(copy);
}

static void read_mounts(char **mounts, const struct disk_family *family)
{
	struct libmnt_table *table = mnt_new_table_from_file("/proc/self/mountinfo");
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;

	while (table && iter && !mnt_table_next_fs(table, iter, &fs))
		if (is_source(fs, family))
			add(mounts, mnt_fs_get_target(fs));
	mnt_free_iter(iter);
	mnt_unref_table(table);
}

static void read_swaps(char **swaps, const struct disk_family *family)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_table *table = mnt_new_table();
	struct libmnt_fs *fs;

	if (table && iter && !mnt_table_parse_swaps(table, NULL))
		while (!mnt_table_next_fs(table, iter, &fs))
			if (is_source(fs, family))
				add(swaps, mnt_fs_get_source(fs));
	mnt_free_iter(iter);
	mnt_unref_table(table);
}

/* Return: whether a list has an element; NULL is an empty list. */
static bool has(const char *list, const char *element)
{
	const size_t length = strlen(element);
	const char *at;

	for (at = list; at; at = strchr(at, '\n'), at += !!at)
		if (!strncmp(at, element, length) && (!at[length] || at[length] == '\n'))
			return true;
	return false;
}

static void read_holders(char **holders, dev_t number, const char *ended)
{
	DIR *dir = sysfs_open(number, "holders");
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
			if (!has(ended, path))
				add(holders, path);
			free(path);
		} else {
			add(holders, entry->d_name);
		}
		free(attribute);
	}
	closedir(dir);
}

/* Return: whether another tool than rxadm exports a device. */
static bool is_foreign(dev_t number)
{
	struct nvmet_exports exports;
	bool found = false;
	size_t i;

	nvmet_exports_read(&exports);
	for (i = 0; i < exports.count; i++)
		found |= !exports.list[i].ours && nvmet_export_is_of(&exports.list[i], number);
	nvmet_exports_free(&exports);
	return found;
}

static void read_exports(char **exports, dev_t number, const char *ended)
{
	char *path = device_path(number);
	bool gone = has(ended, path) && !is_foreign(number);
	char *export = gone ? NULL : nvmet_exports_of(number);

	if (export)
		append_text(exports, "%s%s, which 'rxadm unexport %s' ends",
			    *exports ? "\n" : "", export, path);
	free(export);
	free(path);
}

static struct users read_all(dev_t number, const struct users *ended)
{
	struct disk_family family = disk_family_of(number);
	struct users users = { 0 };
	size_t i;

	read_mounts(&users.mounts, &family);
	read_swaps(&users.swaps, &family);
	for (i = 0; i < family.count; i++) {
		read_holders(&users.holders, family.numbers[i], ended->holders);
		read_exports(&users.exports, family.numbers[i], ended->exports);
	}
	disk_family_release(&family);
	return users;
}

/**
 * users_read - find the users of a block device, its partitions, or its whole disk
 * @number: the device
 *
 * Return: the users except processes, which device_openers() finds; to be released by
 * users_release().
 */
struct users users_read(dev_t number)
{
	return read_all(number, &(struct users){ 0 });
}

void users_release(struct users *users)
{
	free(users->mounts);
	free(users->swaps);
	free(users->holders);
	free(users->exports);
	*users = (struct users){ 0 };
}

/* Append each element of a list to the text, with its kind of use before it. */
static void tell(char **text, const char *how, char *list)
{
	const char *name;

	while ((name = strsep(&list, "\n")))
		append_text(text, "%s%s%s", *text ? ", " : "", how, name);
}

/**
 * users_left - describe the users that a block device will have, as users_of() does
 * @number: the device
 * @ended: what will be gone: holders, and the devices whose exports by rxadm will end
 */
char *users_left(dev_t number, const struct users *ended)
{
	struct users users = read_all(number, ended);
	char *text = NULL;

	tell(&text, "mounted on ", users.mounts);
	tell(&text, "swap on ", users.swaps);
	tell(&text, "held by ", users.holders);
	tell(&text, "exported as ", users.exports);
	users_release(&users);
	return text;
}

/**
 * users_of - describe the users of a block device, its partitions, or its whole disk
 * @number: the device
 *
 * Return: allocated text, such as "mounted on /mnt, held by /dev/mapper/x", or NULL if there is
 * no known user. It does not include processes, which openers_of() describes.
 */
char *users_of(dev_t number)
{
	return users_left(number, &(struct users){ 0 });
}
