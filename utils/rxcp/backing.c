// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files and disks that are in use although nothing has opened them exclusively.
 */
#include <blkid/blkid.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume.h"

#define LOOPS	"/sys/block/loop*/loop/backing_file"
#define SWAPS	"/proc/swaps"
#define EXPORTS	"/sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path"

/* Replace the octal escapes of /proc/swaps. */
static void unescape(char *text)
{
	unsigned int byte;
	char *to = text;

	for (; *text; text++) {
		if (sscanf(text, "\\%3o", &byte) == 1) {
			*to++ = byte;
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = 0;
}

/* Check for a disk and itself or one of its partitions. */
static bool holds(dev_t disk, dev_t part)
{
	dev_t whole;

	return part == disk ||
	       (!blkid_devno_to_wholedisk(part, NULL, 0, &whole) && whole == disk);
}

/**
 * has_blocks_of - check for the same file, or for disks or partitions that have blocks in common
 * @one: a file or a block device
 * @two: another one
 */
bool has_blocks_of(const struct stat *one, const struct stat *two)
{
	if (S_ISBLK(one->st_mode))
		return S_ISBLK(two->st_mode) && (holds(one->st_rdev, two->st_rdev) ||
						 holds(two->st_rdev, one->st_rdev));
	return one->st_dev == two->st_dev && one->st_ino == two->st_ino;
}

/* Check for a line that names the file, before a character that ends the name. */
static bool is_listed(const char *list, char end, const struct stat *st)
{
	FILE *file = fopen(list, "re");
	struct stat named;
	bool found = false;
	char *line = NULL;
	size_t room = 0;

	while (file && !found && getline(&line, &room, file) > 0) {
		*strchrnul(line, end) = 0;
		if (end == ' ')
			unescape(line);
		found = !stat(line, &named) && has_blocks_of(st, &named);
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* Check for a list of these names that names the file. */
static bool is_in_any(const char *lists, const struct stat *st)
{
	bool found = false;
	glob_t paths;
	size_t i;

	/* What cannot be read is no error: configfs may be for root only. */
	if (glob(lists, 0, NULL, &paths))
		return false;
	for (i = 0; i < paths.gl_pathc && !found; i++)
		found = is_listed(paths.gl_pathv[i], '\n', st);
	globfree(&paths);
	return found;
}

/**
 * is_backing - check for a swap area, a loop device or an NVMe export in a file or part of a disk
 * @st: the file or the disk
 */
bool is_backing(const struct stat *st)
{
	return is_listed(SWAPS, ' ', st) || is_in_any(LOOPS, st) || is_in_any(EXPORTS, st);
}
