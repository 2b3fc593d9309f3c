// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files and disks that are in use although nothing has opened them exclusively.
 */
#include <blkid/blkid.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "volume.h"

#define SECTOR		512	/* unit of sysfs for all disks */
#define LINE_ROOM	4096
#define LAYERS_MAX	16

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

/* A range of a file or of a block device. */
struct area {
	struct stat st;
	uint64_t start;
	uint64_t end;
};

/* Read a line about a block device in sysfs. */
static bool read_line(dev_t number, const char *name, char line[LINE_ROOM])
{
	char path[64];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(number), minor(number), name);
	file = fopen(path, "re");
	if (!file)
		return false;
	*line = 0;
	ok = fgets(line, LINE_ROOM, file);
	line[strcspn(line, "\n")] = 0;
	fclose(file);
	return ok;
}

/* Find where a partition lies on its disk, or a loop device in its file. */
static bool go_down(struct area *area)
{
	char line[LINE_ROOM];
	uint64_t start;
	dev_t disk;

	if (!S_ISBLK(area->st.st_mode) ||
	    blkid_devno_to_wholedisk(area->st.st_rdev, NULL, 0, &disk))
		return false;
	if (disk != area->st.st_rdev) {
		if (!read_line(area->st.st_rdev, "start", line))
			return false;
		start = strtoull(line, NULL, 10) * SECTOR;
		area->st.st_rdev = disk;
	} else {
		if (!read_line(disk, "loop/offset", line))
			return false;
		start = strtoull(line, NULL, 10);
		if (!read_line(disk, "loop/backing_file", line) || stat(line, &area->st))
			return false;
	}
	area->start += start;
	area->end += start;
	return true;
}

static struct area lowest(const struct stat *st, uint64_t size)
{
	struct area area = { .st = *st, .end = size };
	unsigned int i;

	for (i = 0; i < LAYERS_MAX && go_down(&area); i++)
		;
	return area;
}

/**
 * have_common_blocks - check for blocks that two files or devices share, also below loop devices
 * @one: a file or a block device
 * @size_one: its size in bytes
 * @two: another one
 * @size_two: its size in bytes
 */
bool have_common_blocks(const struct stat *one, uint64_t size_one, const struct stat *two,
			uint64_t size_two)
{
	const struct area a = lowest(one, size_one), b = lowest(two, size_two);

	return has_blocks_of(&a.st, &b.st) && a.start < b.end && b.start < a.end;
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
