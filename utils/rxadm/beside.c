// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is saved beside an image that is not to be replaced: NAME.new-DATE, or
 * NAME.new-DATE-2 and so on. NAME is the image's, without its end if there is no room.
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
#include <unistd.h>

#include "beside.h"
#include "error.h"

#define MARK		".new-"
#define DATE		"%Y%m%dT%H%M%SZ"
#define DATE_DIGITS	"########T######Z"

/* How much of a name is left without its last letter, which may be several bytes. */
static int shorten(const char *name, int length)
{
	do
		length--;
	while (length > 0 && (name[length] & 0xc0) == 0x80);
	return length;
}

/* The bytes of the letter that a text begins with. */
static size_t letter_length(const char *text)
{
	size_t length = 1;

	while ((text[length] & 0xc0) == 0x80)
		length++;
	return length;
}

/**
 * beside_choose - find a name beside an image that nobody has, with the time
 * @folder_fd: where the image is
 * @image: its name there
 * @name: out: allocated name
 *
 * Return: 0 or an errno.
 */
int beside_choose(int folder_fd, const char *image, char **name)
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
		*name = format_text(again > 1 ? "%.*s" MARK "%s-%u" : "%.*s" MARK "%s", keep,
				    image, text, again);
		err = fstatat(folder_fd, *name, &st, AT_SYMLINK_NOFOLLOW) ? errno : 0;
		if (!err)
			again++;
		else if (err == ENAMETOOLONG)
			keep = shorten(image, keep);
	} while (!err || (err == ENAMETOOLONG && keep > 0));
	return err == ENOENT ? 0 : err;
}

/* Whether a text is a date, and perhaps a number after it. */
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

/* Whether beside_choose() can have given a name. */
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

/* Whether what was saved beside an image was written after it. */
bool beside_is_newer(const struct beside *beside, const struct timespec *image)
{
	if (beside->time.tv_sec != image->tv_sec)
		return beside->time.tv_sec > image->tv_sec;
	return beside->time.tv_nsec > image->tv_nsec;
}

static void look_at(int folder_fd, const char *name, struct beside *beside)
{
	struct stat st;

	if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return;
	if (!beside->count++ || !beside_is_newer(beside, &st.st_mtim)) {
		free(beside->name);
		beside->name = copy_text(name);
		beside->time = st.st_mtim;
	}
}

/**
 * beside_find - find what was saved beside an image
 * @folder_fd: where the image is; may be open with O_PATH
 * @image: its name there
 * @beside: out: its name is to be freed
 *
 * Return: 0 or an errno.
 */
int beside_find(int folder_fd, const char *image, struct beside *beside)
{
	int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	*beside = (struct beside){ 0 };
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
 * beside_path - the path of a file, where symbolic links led to
 * @folder_fd: where it is
 * @name: its name there
 *
 * Return: allocated path.
 */
char *beside_path(int folder_fd, const char *name)
{
	char folder[PATH_MAX];
	ssize_t length;
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", folder_fd);
	length = readlink(link, folder, sizeof(folder) - 1);
	folder[length < 0 ? 0 : length] = '\0';
	return format_text("%s/%s", strcmp(folder, "/") ? folder : "", name);
}
