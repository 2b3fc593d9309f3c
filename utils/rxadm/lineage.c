// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which images a RAM disk may replace: the one that it was loaded from, and those that
 * it was saved to since. A file in /run/rxadm holds their ids, a line each. It is named
 * after the number that the kernel gives to no other disk until the next boot, so it
 * never speaks of a later disk that has the same UUID. A disk without a file may replace
 * none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "lineage.h"
#include "record.h"

#define ID_TEXT	19	/* two newlines, 16 digits, NUL */

/**
 * lineage_path - the file of a RAM disk
 * @disk: its device number
 *
 * Return: allocated path, or NULL if the disk is gone.
 */
char *lineage_path(dev_t disk)
{
	char *number = sysfs_read(disk, "diskseq");
	char *path = number ? format_text(RECORD_FOLDER "/disk-%s", number) : NULL;

	free(number);
	return path;
}

static int write_id(const char *path, uint64_t id, int flags)
{
	char text[ID_TEXT];
	ssize_t done;
	int err = 0;
	int fd;

	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (fd < 0)
		return errno;
	/* What a line before it may lack, of one that was killed, or while /run was full. */
	snprintf(text, sizeof(text), "\n%016llx\n", (unsigned long long)id);
	done = write(fd, text, ID_TEXT - 1);
	if (done != ID_TEXT - 1)
		err = done < 0 ? errno : ENOSPC;
	if (close(fd) && !err)
		err = errno;
	return err;
}

static enum exit_code note_id(dev_t disk, uint64_t id, int flags)
{
	char *path = lineage_path(disk);
	int err = path ? record_make_folder() : ENODEV;
	enum exit_code ret = EXIT_OK;

	if (!err)
		err = write_id(path, id, flags);
	if (err)
		ret = report(exit_code_of(err), "cannot write %s: %s",
			     path ? path : "in " RECORD_FOLDER, strerror(err));
	free(path);
	return ret;
}

/**
 * lineage_set - note that all that a RAM disk holds comes from an image
 * @disk: its device number
 * @id: the image
 */
enum exit_code lineage_set(dev_t disk, uint64_t id)
{
	return note_id(disk, id, O_TRUNC);
}

/**
 * lineage_add - note that an image is a state of a RAM disk
 * @disk: its device number
 * @id: the image
 */
enum exit_code lineage_add(dev_t disk, uint64_t id)
{
	return note_id(disk, id, O_APPEND);
}

/* Where it is while the disk is being emptied. */
static char *kept_path(const char *path)
{
	return path ? format_text("%s-kept", path) : NULL;
}

/**
 * lineage_forget - note that a RAM disk begins anew, and may replace no image
 * @disk: its device number
 */
enum exit_code lineage_forget(dev_t disk)
{
	char *path = lineage_path(disk);
	char *kept = kept_path(path);
	enum exit_code ret = EXIT_OK;

	if (path && unlink(path) && errno != ENOENT)
		ret = report(exit_code_of(errno), "cannot remove %s: %s", path, strerror(errno));
	if (path)
		unlink(kept);
	free(kept);
	free(path);
	return ret;
}

/**
 * lineage_suspend - note that a RAM disk is about to be emptied, and may replace no image
 * @disk: its device number
 *
 * To be ended by lineage_forget(), or by lineage_restore(). So that whoever is killed in
 * between leaves no empty disk that may replace an image.
 */
enum exit_code lineage_suspend(dev_t disk)
{
	char *path = lineage_path(disk);
	char *kept = kept_path(path);
	enum exit_code ret = EXIT_OK;

	if (path && rename(path, kept) && errno != ENOENT)
		ret = report(exit_code_of(errno), "cannot rename %s: %s", path, strerror(errno));
	free(kept);
	free(path);
	return ret;
}

/**
 * lineage_restore - note that a RAM disk was not emptied after all
 * @disk: its device number
 */
void lineage_restore(dev_t disk)
{
	char *path = lineage_path(disk);
	char *kept = kept_path(path);

	/* What was saved meanwhile counts. */
	if (path && (!link(kept, path) || errno == EEXIST))
		unlink(kept);
	free(kept);
	free(path);
}

/* Whether an image is an older state of a RAM disk, or the same. */
bool lineage_has(dev_t disk, uint64_t id)
{
	char *path = lineage_path(disk);
	FILE *file = path ? fopen(path, "re") : NULL;
	unsigned long long other;
	bool found = false;

	while (file && !found && fscanf(file, "%16llx", &other) == 1)
		found = other == id;
	if (file)
		fclose(file);
	free(path);
	return found;
}
