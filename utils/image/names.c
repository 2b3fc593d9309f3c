// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names for images that are saved beside an image that must not be replaced: NAME.new-DATE,
 * or NAME.new-DATE-2 and so on. NAME is the image's name, shortened if the result is too long.
 * Also: read the header of an image, and the size of its disk.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "copy/file.h"
#include "image/log_read.h"
#include "image/names.h"

#define MARK		".new-"
#define MARK_OLD	".old-"
#define DATE		"%Y%m%dT%H%M%SZ"
#define DATE_DIGITS	"########T######Z"

/* Remove the last UTF-8 character of a name. Return: the new length in bytes. */
static int shorten(const char *name, int length)
{
	do
		length--;
	while (length > 0 && (name[length] & 0xc0) == 0x80);
	return length;
}

/* Return: length in bytes of the first UTF-8 character. */
static size_t letter_length(const char *text)
{
	size_t length = 1;

	while ((text[length] & 0xc0) == 0x80)
		length++;
	return length;
}

/* Find an unused name beside an image, with the current time. Return: 0 or an errno. */
static int choose_name(int folder_fd, const char *image, const char *mark, char **name)
{
	int keep = strlen(image);
	time_t now = time(NULL);
	unsigned int again = 1;
	struct stat st;
	char text[32];
	struct tm tm;
	int err;

	*name = NULL;
	strftime(text, sizeof(text), DATE, gmtime_r(&now, &tm));
	do {
		free(*name);
		*name = format_text(again > 1 ? "%.*s%s%s-%u" : "%.*s%s%s", keep, image, mark,
				    text, again);
		err = fstatat(folder_fd, *name, &st, AT_SYMLINK_NOFOLLOW) ? errno : 0;
		if (!err)
			again++;
		else if (err == ENAMETOOLONG)
			keep = shorten(image, keep);
	} while (!err || (err == ENAMETOOLONG && keep > 0));
	return err == ENOENT ? 0 : err;
}

/* Check whether a text is a date, with an optional number after it. */
static bool is_date(const char *text)
{
	const char *c;

	for (c = DATE_DIGITS; *c; c++, text++)
		if (*c == '#' ? !isdigit((unsigned char)*text) : *text != *c)
			return false;
	if (*text == '-' && text[1])
		text += 1 + strspn(text + 1, "0123456789");
	return !*text;
}

/* Check whether choose_name() can have made a name. */
static bool is_beside(const char *name, const char *image)
{
	const char *mark = NULL, *next;
	size_t keep;

	for (next = strstr(name, MARK); next; next = strstr(next + 1, MARK))
		mark = next;
	if (!mark || !is_date(mark + strlen(MARK)))
		return false;
	keep = mark - name;
	if (keep > strlen(image) || strncmp(name, image, keep))
		return false;
	return !image[keep] || strlen(name) + letter_length(image + keep) > NAME_MAX;
}

/* Check whether the newest image saved beside another is newer than that one. */
bool image_beside_is_newer(const struct image_beside *beside, const struct timespec *image)
{
	if (beside->time.tv_sec != image->tv_sec)
		return beside->time.tv_sec > image->tv_sec;
	return beside->time.tv_nsec > image->tv_nsec;
}

static void look_at(int folder_fd, const char *name, struct image_beside *beside)
{
	struct stat st;

	if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return;
	if (!beside->count++ || !image_beside_is_newer(beside, &st.st_mtim)) {
		free(beside->name);
		beside->name = copy_text(name);
		beside->time = st.st_mtim;
	}
}

/**
 * image_find_beside - find the images that were saved beside an image
 * @folder_fd: the folder of the image; may be open with O_PATH
 * @image: name of the image in the folder
 * @beside: out: the newest, and their number; the caller frees the name
 *
 * Return: 0 or an errno.
 */
int image_find_beside(int folder_fd, const char *image, struct image_beside *beside)
{
	int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	*beside = (struct image_beside){ 0 };
	if (!folder) {
		int err = errno;

		if (fd >= 0)
			close(fd);
		return err;
	}
	while ((entry = readdir(folder)))
		if (is_beside(entry->d_name, image))
			look_at(folder_fd, entry->d_name, beside);
	closedir(folder);
	return 0;
}

/**
 * image_beside_path - get the path of a file, with symbolic links resolved
 * @folder_fd: the folder of the file
 * @name: its name in the folder
 *
 * Return: allocated path.
 */
char *image_beside_path(int folder_fd, const char *name)
{
	char folder[PATH_MAX];
	ssize_t length;
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", folder_fd);
	length = readlink(link, folder, sizeof(folder) - 1);
	folder[length < 0 ? 0 : length] = '\0';
	return format_text("%s/%s", strcmp(folder, "/") ? folder : "", name);
}

/* Read the header of an image. The size is 0 if the file has no valid header. */
static struct image_header read_header(int fd)
{
	struct image_start start;
	struct image_header header;
	char *error;

	if (image_read_start(fd, &start, &error) || error)
		header = (struct image_header){ 0 };
	else
		header = start.log ? start.head.header : start.image.header;
	free(error);
	return header;
}

/**
 * image_peek - read the properties of the saved disk from an image
 * @file: the image
 *
 * Return: the header; its size is 0 if it cannot be read. image_load() reports the reason.
 */
struct image_header image_peek(const char *file)
{
	struct image_header header = { 0 };
	int fd;

	if (!file_open(file, O_RDONLY | O_NONBLOCK, false, &fd)) {
		header = read_header(fd);
		close(fd);
	}
	return header;
}

/**
 * image_id - read the identity of an image in a folder
 * @folder_fd: the folder
 * @name: the image
 *
 * Return: the identity, or 0 if the file has no valid header.
 */
uint64_t image_id(int folder_fd, const char *name)
{
	int fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct image_header header = { 0 };

	if (fd >= 0) {
		header = read_header(fd);
		close(fd);
	}
	return header.size ? header.id : 0;
}

/* Return: whether the file is an image. */
static bool read_start(int folder_fd, const char *name, struct image_start *start)
{
	int fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char *error;
	bool good;

	if (fd < 0)
		return false;
	good = !image_read_start(fd, start, &error) && !error;
	free(error);
	close(fd);
	return good;
}

/**
 * image_is_of - check whether an image in a folder is of a disk
 * @folder_fd: the folder
 * @name: the image
 * @uuid: of the disk
 */
bool image_is_of(int folder_fd, const char *name, const uint8_t *uuid)
{
	struct image_start start;

	return read_start(folder_fd, name, &start) &&
	       !memcmp(start.log ? start.head.header.uuid : start.image.header.uuid, uuid,
		       sizeof(start.head.header.uuid));
}

/* Return: how many generations the image has that a new one is to replace. */
unsigned int image_old_generations(const struct output *output)
{
	struct image_start start;

	return read_start(output->folder_fd, output->name, &start) && start.log ?
	       start.head.count : 0;
}

/* Return: whether output_find() has failed because the path cannot lead to an image at all. */
bool image_is_no_file(int err)
{
	return err == ENOTSUP || err == EISDIR || err == ENOLINK;
}

/**
 * image_find_apart - find the folder for an image beside a path that cannot lead to one
 * @output: out: as for output_find_folder()
 * @path: the path
 * @err: how output_find() has failed
 *
 * An image beside a device would be in memory, too.
 *
 * Return: 0 or an errno; @err if the image cannot be there.
 */
int image_find_apart(struct output *output, const char *path, int err)
{
	struct stat st;

	if (!image_is_no_file(err) ||
	    (!stat(path, &st) && (S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode))))
		return err;
	return output_find_folder(output, path);
}

/**
 * image_open - begin to write an image
 * @output: out: as for output_begin()
 * @path: its path
 * @apart: out: set if the path cannot lead to an image, and @output is in the folder of the path as
 *	it is written; the caller then calls image_name_beside(). NULL: that is an error
 *
 * Return: 0 or an errno, like output_open().
 */
int image_open(struct output *output, const char *path, bool *apart)
{
	int err = output_find(output, path, false);

	if (err && apart) {
		err = image_find_apart(output, path, err);
		*apart = true;
	}
	return err ? err : output_begin(output, true);
}

/**
 * image_name_beside - give a new image an unused name beside its own, with the current time
 * @output: the image
 * @path: out: allocated path
 *
 * Return: 0 or an errno.
 */
int image_name_beside(struct output *output, char **path)
{
	char *name;
	int err;

	err = choose_name(output->folder_fd, output->name, MARK, &name);
	free(output->name);
	output->name = name;
	output->exclusive = true;
	*path = image_beside_path(output->folder_fd, name);
	return err;
}

/**
 * image_keep_old - keep an image that has generations under another name, before it is replaced
 * @output: the new image
 * @beside: out: if that fails, allocated path beside the old image, which the new one gets
 * @old: out: allocated path of the old image; NULL: it has no generations
 *
 * Return: 0 or an errno.
 */
int image_keep_old(struct output *output, char **beside, char **old)
{
	struct image_start start;
	char *name;
	int err;

	if (!read_start(output->folder_fd, output->name, &start) || !start.log)
		return 0;
	err = choose_name(output->folder_fd, output->name, MARK_OLD, &name);
	if (!err && linkat(output->folder_fd, output->name, output->folder_fd, name, 0))
		err = errno;
	if (!err)
		*old = image_beside_path(output->folder_fd, name);
	free(name);
	/* Some file systems have no hard links. */
	return err ? image_name_beside(output, beside) : 0;
}

/**
 * image_drop_old - undo image_keep_old(), unless the old image has no other name by now
 * @output: the new image
 * @old: allocated path of the old image, or NULL; out: NULL if it was removed
 */
void image_drop_old(const struct output *output, char **old)
{
	struct stat st, kept;

	if (!*old || stat(*old, &kept) ||
	    fstatat(output->folder_fd, output->name, &st, AT_SYMLINK_NOFOLLOW) ||
	    st.st_dev != kept.st_dev || st.st_ino != kept.st_ino)
		return;
	unlink(*old);
	free(*old);
	*old = NULL;
}

/**
 * image_commit - give a new image its name, or one beside it if that name is no longer unused
 * @output: the image, which ends if this succeeds
 * @beside: in and out: path of the image if it is saved beside another; NULL: it is not
 * @path: out: allocated path of the image
 *
 * Return: 0 or an errno.
 */
int image_commit(struct output *output, char **beside, char **path)
{
	int err;

	*path = image_beside_path(output->folder_fd, output->name);
	err = output_commit(output, 0600, true);
	if (err != EEXIST || !output->exclusive || *beside)
		return err;
	err = image_name_beside(output, beside);
	free(*path);
	*path = copy_text(*beside);
	return err ? err : output_commit(output, 0600, true);
}

/* Check whether a loop device uses this file; @attribute is its backing_file in sysfs. */
static bool is_backing_file(const char *attribute, const struct stat *file)
{
	FILE *stream = fopen(attribute, "re");
	struct stat st;
	char *path = NULL;
	size_t size = 0;
	bool is_same = false;

	if (!stream)
		return false;
	if (getline(&path, &size, stream) > 0) {
		path[strcspn(path, "\n")] = '\0';
		is_same = !stat(path, &st) && st.st_dev == file->st_dev &&
			  st.st_ino == file->st_ino;
	}
	fclose(stream);
	free(path);
	return is_same;
}

/**
 * image_check_loop - report an error if a loop device uses a file that would be replaced
 * @file: the file, which need not exist
 *
 * Later writes to the device would go to the old file, and be lost.
 */
enum exit_code image_check_loop(const char *file)
{
	enum exit_code ret = EXIT_OK;
	struct stat st;
	glob_t found;
	size_t i;

	if (stat(file, &st) || glob("/sys/block/loop*/loop/backing_file", 0, NULL, &found))
		return EXIT_OK;
	for (i = 0; !ret && i < found.gl_pathc; i++)
		if (is_backing_file(found.gl_pathv[i], &st))
			ret = report(EXIT_BUSY,
				     "file '%s': is in use by a loop device; detach it first",
				     file);
	globfree(&found);
	return ret;
}
