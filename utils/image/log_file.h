/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_LOG_FILE_H
#define IMAGE_LOG_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"
#include "image/log_read.h"

/* An image that is to be updated. No other rxadm updates or loads it meanwhile. */
struct log_file {
	const char *path;	/* as the user gave it */
	char *full;		/* absolute, and without links */
	int fd;			/* -1: there is no file */
	struct stat st;
	bool foreign;		/* another user could read what is written to it */
	struct image_start start;
};

enum exit_code log_lock(int fd, const char *path, bool shared);
void log_tell_damage(int fd, const char *path, const struct log_head *head);
bool log_has_path(int fd, const char *path);
enum exit_code log_file_open(struct log_file *file, const char *path);
void log_check_replace(struct log_file *file);
void log_file_close(struct log_file *file);

#endif /* IMAGE_LOG_FILE_H */
