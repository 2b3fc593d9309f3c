// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keep the records of a RAM disk in /run/rxadm, which is normally empty after a reboot.
 *
 * disk-DISKSEQ lists the IDs of images that the disk may replace, one per line: the image that it
 * was loaded from, and those that it was saved to since. The kernel does not reuse a diskseq until
 * the next boot, so the file never applies to a later disk that has the same UUID. A disk without
 * this file may not replace any image. If the disk is emptied, the file is removed, so that a save
 * that still writes to it has no effect.
 *
 * saved-DISKSEQ has the driver's number of the state that was saved last, and what identifies the
 * image. The disk counts as not saved if the file is missing, if the driver's number is different
 * now, or if the image was removed, replaced or changed.
 *
 * unfinished-UUID exists while the disk is being filled. If the file exists and no process has the
 * disk open, the filling was interrupted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/common.h"
#include "base/file.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"

#define ID_TEXT	19	/* two newlines, 16 digits, NUL */

/**
 * disk_sequence - return the diskseq of a disk, which the kernel does not reuse until a reboot
 * @disk: its device number
 *
 * Return: allocated text, or NULL if the disk is gone.
 */
char *disk_sequence(dev_t disk)
{
	return sysfs_read(disk, "diskseq");
}

/* Return: 0; ENODEV: the disk is gone; EBUSY: another disk has its device number. */
static int compare_sequence(dev_t disk, const char *sequence)
{
	char *now = disk_sequence(disk);
	int err = !now || !sequence ? ENODEV : strcmp(now, sequence) ? EBUSY : 0;

	free(now);
	return err;
}

/* Return: whether a disk has an earlier result of disk_sequence(). */
bool disk_is_same(dev_t disk, const char *sequence)
{
	return !compare_sequence(disk, sequence);
}

/**
 * disk_check_same - report if a disk is gone, or if another disk has its device number
 * @dev: the disk
 * @sequence: an earlier result of disk_sequence()
 */
enum exit_code disk_check_same(const struct device *dev, const char *sequence)
{
	switch (compare_sequence(dev->number, sequence)) {
	case 0:
		return EXIT_OK;
	case ENODEV:
		return control_error(ENODEV, dev->path);
	default:
		return report(EXIT_BUSY,
			      "%s '%s': was replaced meanwhile; the new one is kept",
			      dev->what, dev->path);
	}
}

static char *path_of(const char *what, const char *sequence)
{
	return sequence ? format_text(RUN_FOLDER "/%s-%s", what, sequence) : NULL;
}

/* Return: the allocated path of the record of images of a RAM disk; NULL if @sequence is. */
char *disk_images_path(const char *sequence)
{
	return path_of("disk", sequence);
}

/* Frees the path, which is NULL if the disk is gone. Return: a descriptor, or a negative errno. */
static int open_record(char *path, int flags)
{
	int err = path ? run_folder_make() : ENODEV;
	int fd = -1;

	if (!err)
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	if (!err && fd < 0)
		err = errno;
	free(path);
	return err ? -err : fd;
}

/**
 * disk_images_open - open the record of images of a RAM disk, for a state that is to be saved
 * @sequence: its disk_sequence()
 *
 * Call this before anything that waits, and before the state is read. If the disk is emptied or
 * loaded later, it has another record, and what is added to this one has no effect.
 *
 * Return: a descriptor for disk_images_add(), or a negative errno.
 */
int disk_images_open(const char *sequence)
{
	return open_record(disk_images_path(sequence), O_APPEND);
}

/* Return true if the record that disk_images_open() has opened is of earlier data. */
bool disk_images_are_old(const char *sequence, int record)
{
	char *path = disk_images_path(sequence);
	struct stat st, now;
	bool old = record >= 0 && path && !fstat(record, &st) &&
		   (stat(path, &now) || now.st_dev != st.st_dev || now.st_ino != st.st_ino);

	free(path);
	return old;
}

/**
 * disk_images_add - record that an image is a state of a RAM disk
 * @record: result of disk_images_open()
 * @id: the image
 */
enum exit_code disk_images_add(int record, uint64_t id)
{
	int err = record < 0 ? -record : 0;
	char text[ID_TEXT];
	ssize_t done;

	/* End the line before it, which is incomplete if rxadm was killed or /run was full. */
	snprintf(text, sizeof(text), "\n%016llx\n", (unsigned long long)id);
	done = err ? 0 : write(record, text, ID_TEXT - 1);
	if (!err && done != ID_TEXT - 1)
		err = done < 0 ? errno : ENOSPC;
	return err ? report(exit_code_of(err), "cannot write in " RUN_FOLDER ": %s",
			    strerror(err)) : EXIT_OK;
}

/* Record that all data of a RAM disk comes from the image with this ID. */
enum exit_code disk_images_set(const char *sequence, uint64_t id)
{
	int record = open_record(disk_images_path(sequence), O_TRUNC);
	enum exit_code ret = disk_images_add(record, id);

	if (record >= 0)
		close(record);
	return ret;
}

/* Return the path of the record while the disk is being emptied. */
static char *kept_path(const char *path)
{
	return path ? format_text("%s-kept", path) : NULL;
}

/* Record that a RAM disk was emptied, and may not replace any image. */
enum exit_code disk_images_forget(const char *sequence)
{
	char *path = disk_images_path(sequence);
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
 * disk_images_suspend - record that a RAM disk is about to be emptied
 * @sequence: its disk_sequence()
 *
 * For disk_empty_begin(), which excludes others. The caller ends this by disk_images_forget() or
 * disk_images_restore(). If rxadm is killed before that, the disk may be empty, and may not replace
 * any image.
 */
enum exit_code disk_images_suspend(const char *sequence)
{
	char *path = disk_images_path(sequence);
	char *kept = kept_path(path);
	enum exit_code ret = EXIT_OK;

	/* Without a record, the one that a kill left is of older data: remove it. */
	if (path && rename(path, kept) && (errno != ENOENT || (unlink(kept) && errno != ENOENT)))
		ret = report(exit_code_of(errno), "cannot rename %s: %s", path, strerror(errno));
	free(kept);
	free(path);
	return ret;
}

static void append_file(const char *path, const char *added)
{
	char *text = whole_file(added);
	int record = text ? open_record(copy_text(path), O_APPEND) : -1;

	if (record >= 0 && write(record, text, strlen(text)) < 0)
		report(EXIT_OK, "note: cannot write in " RUN_FOLDER ": %s", strerror(errno));
	if (record >= 0)
		close(record);
	free(text);
}

/**
 * disk_images_restore - record that a RAM disk was not emptied after all
 * @sequence: its disk_sequence()
 */
void disk_images_restore(const char *sequence)
{
	char *path = disk_images_path(sequence);
	char *kept = kept_path(path);

	/*
	 * Other saves may have this file open, so it must stay the same file. Append what was
	 * recorded meanwhile to it.
	 */
	if (path && !access(kept, F_OK)) {
		append_file(kept, path);
		rename(kept, path);
	}
	free(kept);
	free(path);
}

/* Return true if an image contains a state of a RAM disk, now or earlier. */
bool disk_images_has(const char *sequence, uint64_t id)
{
	char *path = disk_images_path(sequence);
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

/**
 * disk_generation - return the driver's number of the state of a RAM disk
 * @disk: its device number
 *
 * Return: allocated text, which is the same as before if the data has not changed since; NULL if an
 * older module does not have this attribute.
 */
char *disk_generation(dev_t disk)
{
	return sysfs_read(disk, "rxd/changes");
}

/**
 * disk_note - note what tells the state of a RAM disk from others
 * @sequence: its disk_sequence(), or NULL
 * @generation: result of disk_generation() before anything was read, or NULL
 * @seen: out: both numbers
 */
void disk_note(const char *sequence, const char *generation, struct disk_seen *seen)
{
	seen->diskseq = sequence ? strtoull(sequence, NULL, 10) : 0;
	seen->changes = generation ? strtoull(generation, NULL, 10) : RXD_CHANGES_ANY;
}

/* Add the boot ID: /run may survive a reboot, after which both numbers are used again. */
static char *state_text(const char *generation)
{
	char *boot = first_line("/proc/sys/kernel/random/boot_id");
	char *text = boot ? format_text("%s %s ", generation, boot) : NULL;

	free(boot);
	return text;
}

/* Return: the identity of an image. Its path is last: it may contain any character but NUL. */
static char *image_text(const char *path, struct stat *st)
{
	return stat(path, st) ? NULL :
	       format_text("%llx %llx %llx %lld.%09ld\n%s", (unsigned long long)st->st_dev,
			   (unsigned long long)st->st_ino, (unsigned long long)st->st_size,
			   (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, path);
}

static void fill_saved(FILE *file, const void *data)
{
	const char *const *texts = data;

	fprintf(file, "%s%s", texts[0], texts[1]);
}

/**
 * disk_saved_set - record that a RAM disk was saved
 * @sequence: its disk_sequence() when it was read
 * @generation: result of disk_generation() before the first byte was read
 * @path: absolute path of the image
 * @written: the file that was written; another process may have replaced it already
 */
enum exit_code disk_saved_set(const char *sequence, const char *generation, const char *path,
			      const struct stat *written)
{
	struct stat st;
	char *image = image_text(path, &st);
	bool same = image && st.st_dev == written->st_dev && st.st_ino == written->st_ino;
	char *state = same && generation ? state_text(generation) : NULL;
	char *record = state ? path_of("saved", sequence) : NULL;
	enum exit_code ret = EXIT_OK;

	errno = record ? run_folder_make() : 0;
	if (errno)
		ret = report(exit_code_of(errno), "cannot create " RUN_FOLDER ": %s",
			     strerror(errno));
	else if (record)
		ret = file_replace("record", record, 0600, fill_saved,
				   (const char *[]){ state, image });
	free(record);
	free(state);
	free(image);
	return ret;
}

/* Return: why a state does not count as saved, as allocated text; NULL if it does. */
static char *why_not_saved(const char *sequence, const char *generation)
{
	char *state = generation ? state_text(generation) : NULL;
	char *record = state ? path_of("saved", sequence) : NULL;
	char *text = record ? whole_file(record) : NULL;
	char *then = text && !strncmp(text, state, strlen(state)) ? text + strlen(state) : NULL;
	char *path = then ? strchr(then, '\n') : NULL;
	struct stat st;
	char *now = path ? image_text(path + 1, &st) : NULL;
	char *why = NULL;

	if (!path)
		why = copy_text("was not saved to a file since it was loaded or last written");
	else if (!now || strcmp(then, now))
		why = format_text("was saved to '%s', but that file %s", path + 1,
				  now ? "was replaced or changed" : "is missing");
	free(now);
	free(text);
	free(record);
	free(state);
	return why;
}

/* Data counts as not saved if that is unknown. */
static enum exit_code check_saved(const struct device *dev, const struct rxd_query *query,
				  const char *sequence, const char *generation)
{
	enum exit_code ret = EXIT_OK;
	char text[SIZE_TEXT_MAX];
	char *why;

	if (!query->mem_used || query->state & RXD_STATE_LOST)
		return EXIT_OK;
	/* Generation 0 of reserved memory has no data, but the memory counts as used. */
	why = query->state & RXD_STATE_RESERVED && generation && !strcmp(generation, "0") ? NULL :
	      why_not_saved(sequence, generation);
	if (why)
		ret = report(EXIT_BUSY,
			     "%s '%s': holds %s of data that %s; 'rxadm save' keeps it, %s discards it",
			     dev->what, dev->path, size_format(query->mem_used, text), why,
			     advice("--force", "'rxadm clear --force'"));
	free(why);
	return ret;
}

/* Return: the allocated path of the file that exists while a RAM disk is unfinished. */
char *disk_unfinished_path(const uint8_t *uuid)
{
	char text[UUID_STR_LEN];

	uuid_unparse_lower(uuid, text);
	return format_text(RUN_FOLDER "/unfinished-%s", text);
}

/**
 * disk_unfinished_begin - record that a RAM disk is going to be filled
 * @uuid: the RAM disk
 * @begun: out: no other task, such as 'rxadm apply', had recorded it before
 */
enum exit_code disk_unfinished_begin(const uint8_t *uuid, bool *begun)
{
	int fd = open_record(disk_unfinished_path(uuid), O_EXCL);

	*begun = fd >= 0;
	if (*begun)
		close(fd);
	return *begun || fd == -EEXIST ? EXIT_OK :
	       report(exit_code_of(-fd), "cannot write in " RUN_FOLDER ": %s", strerror(-fd));
}

/* Record that a RAM disk is filled, or gone. */
void disk_unfinished_end(const uint8_t *uuid)
{
	char *path = disk_unfinished_path(uuid);

	unlink(path);
	free(path);
}

bool disk_is_unfinished(const uint8_t *uuid)
{
	char *path = disk_unfinished_path(uuid);
	bool found = !access(path, F_OK);

	free(path);
	return found;
}

/**
 * disk_state_forget - remove all records of a RAM disk that is gone
 * @diskseq: its diskseq, or NULL
 * @uuid: its UUID
 */
void disk_state_forget(const char *diskseq, const uint8_t *uuid)
{
	/* One that was killed may have left "-kept". */
	static const char *const records[][2] = { {"disk", ""}, {"disk", "-kept"}, {"saved", ""},
					      {"saves", ""} };
	char *path;
	size_t i;

	for (i = 0; diskseq && i < ARRAY_SIZE(records); i++) {
		path = format_text(RUN_FOLDER "/%s-%s%s", records[i][0], diskseq, records[i][1]);
		unlink(path);
		free(path);
	}
	disk_unfinished_end(uuid);
}

/**
 * disk_check_saved - report if a RAM disk holds data that was not saved
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its number
 * @force: do not report it
 * @seen: out: what the answer is based on
 */
enum exit_code disk_check_saved(int fd, const struct device *dev, int index, bool force,
				struct disk_seen *seen)
{
	/* Read the number before the properties, so that it changes if these do not apply. */
	char *generation = force ? NULL : disk_generation(dev->number);
	char *sequence = disk_sequence(dev->number);
	enum exit_code ret = EXIT_OK;
	int err;

	disk_note(sequence, generation, seen);
	err = control_query(fd, index, 0, &seen->query);
	if (err)
		ret = control_error(err, dev->path);
	else if (!force)
		ret = check_saved(dev, &seen->query, sequence, generation);
	free(sequence);
	free(generation);
	return ret;
}

/**
 * disk_check_discard - report why the data of a RAM disk must not be discarded
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its number
 * @force: discard data that was not saved
 * @seen: out: what the answer is based on
 */
enum exit_code disk_check_discard(int fd, const struct device *dev, int index, bool force,
				  struct disk_seen *seen)
{
	enum exit_code ret = control_idle_check(fd, index, dev);

	return ret ? ret : disk_check_saved(fd, dev, index, force, seen);
}
