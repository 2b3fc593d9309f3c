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
#include "family.h"
#include "nvmet.h"
#include "openers.h"
#include "users.h"

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

/* Lists have an element a line: a newline in one would make it two. */
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

static void read_mounts(char **mounts, const struct family *family)
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

static void read_swaps(char **swaps, const struct family *family)
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

static void read_holders(char **holders, dev_t number)
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
			add(holders, path);
			free(path);
		} else {
			add(holders, entry->d_name);
		}
		free(attribute);
	}
	closedir(dir);
}

static void read_exports(char **exports, dev_t number)
{
	char *export = nvmet_exports_of(number);
	char *path;

	if (!export)
		return;
	path = device_path(number);
	append_text(exports, "%s%s, which 'rxadm unexport %s' ends", *exports ? "\n" : "",
		    export, path);
	free(path);
	free(export);
}

/**
 * users_read - find out who uses a block device, its partitions, or its whole disk
 * @number: the device
 *
 * Return: what is known, to be released by users_release(). Processes are left to
 * openers_read().
 */
struct users users_read(dev_t number)
{
	struct family family = family_of(number);
	struct users users = { 0 };
	size_t i;

	read_mounts(&users.mounts, &family);
	read_swaps(&users.swaps, &family);
	for (i = 0; i < family.count; i++) {
		read_holders(&users.holders, family.numbers[i]);
		read_exports(&users.exports, family.numbers[i]);
	}
	family_release(&family);
	return users;
}

void users_release(struct users *users)
{
	free(users->mounts);
	free(users->swaps);
	free(users->holders);
	free(users->exports);
	*users = (struct users){ 0 };
}

/* Take the list apart, and say of each element how it is a user. */
static void tell(char **text, const char *how, char *list)
{
	const char *name;

	while ((name = strsep(&list, "\n")))
		append_text(text, "%s%s%s", *text ? ", " : "", how, name);
}

/**
 * users_of - say who uses a block device, its partitions, or its whole disk
 * @number: the device
 *
 * Return: allocated text, such as "mounted on /mnt, held by /dev/mapper/x", or
 * NULL if nobody is known. Processes are left to openers_of().
 */
char *users_of(dev_t number)
{
	struct users users = users_read(number);
	char *text = NULL;

	tell(&text, "mounted on ", users.mounts);
	tell(&text, "swap on ", users.swaps);
	tell(&text, "held by ", users.holders);
	tell(&text, "exported as ", users.exports);
	users_release(&users);
	return text;
}

/**
 * openers_of - say which processes have a block device open
 * @number: the device
 *
 * Return: allocated text, such as "open in process 1234 (dd)", or NULL.
 */
char *openers_of(dev_t number)
{
	char *openers = openers_read(number);
	char *text = NULL;

	tell(&text, "open in process ", openers);
	free(openers);
	return text;
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

/* What others assemble from its parts when they find them, or put to use unasked. */
static bool is_member(blkid_probe probe, const char **type)
{
	const char *usage = "";

	if (blkid_probe_lookup_value(probe, "TYPE", type, NULL))
		return false;
	blkid_probe_lookup_value(probe, "USAGE", &usage, NULL);
	return !strcmp(usage, "raid") || !strcmp(*type, "swap") || !strcmp(*type, "swsuspend") ||
	       !strcmp(*type, "bcache");
}

/**
 * member_check - report if a device belongs to md, LVM or the like, or is swap space,
 * even if it is not in use now
 * @what: the device's part in the command
 * @path: the device
 * @option: what has it taken all the same
 */
enum exit_code member_check(const char *what, const char *path, const char *option)
{
	enum exit_code ret = EXIT_OK;
	const char *type = NULL;
	blkid_probe probe;
	int found;

	probe = blkid_new_probe_from_filename(path);
	if (!probe)
		return report(exit_code_of(errno), "%s '%s': cannot look for a signature: %s",
			      what, path, strerror(errno));
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE);
	while (!ret && !(found = blkid_do_probe(probe)))
		if (is_member(probe, &type))
			ret = report(EXIT_DEVICE,
				     "%s '%s': is %s (%s), so others may use it directly, behind the cache's back; %s takes it all the same",
				     what, path,
				     !strncmp(type, "sw", 2) ? "swap space" :
				     "a member of another device", type, option);
	if (!ret && found < 0)
		ret = report(EXIT_DEVICE, "%s '%s': cannot be read to look for a signature", what,
			     path);
	blkid_free_probe(probe);
	return ret;
}
