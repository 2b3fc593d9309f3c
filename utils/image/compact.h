/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_COMPACT_H
#define IMAGE_COMPACT_H

#include <stdint.h>
#include <sys/stat.h>

#include "copy/copy.h"
#include "image/log_format.h"

/**
 * struct compact - an image that was just updated, and may have become too long
 * @path: absolute path
 * @name: its path for messages
 * @fd: the file, which is locked
 * @level: compression level of zstd; 0: do not compress
 * @signals: blocked by the caller
 * @mode: how to show the progress
 * @head: its head
 * @signal: out: the signal that interrupted it, or 0
 * @written: out: bytes written to a new file, also if that failed
 * @rewritten: out: the new file, if the image was written again; otherwise zeros
 */
struct compact {
	const char *path;
	const char *name;
	int fd;
	int level;
	const struct copy_signals *signals;
	enum progress_mode mode;
	struct log_head head;
	int signal;
	uint64_t written;
	struct stat rewritten;
};

void compact_image(struct compact *compact);

/**
 * struct rewrite - an image whose generations are written to a new file
 * @from: the image
 * @to: the new file, which is empty
 * @level: compression level of zstd; 0: do not compress
 * @signals: blocked by the caller; NULL: copy_run() blocks them
 * @mode: how to show the progress
 * @head: in: of the image; out: of the new file
 * @written: out: bytes, also after an error
 * @error: out: NULL, or allocated text that says what is wrong with the image
 * @err: out: errno of a failed write, or 0
 * @signal: out: the signal that interrupted it, or 0
 */
struct rewrite {
	int from;
	int to;
	int level;
	const struct copy_signals *signals;
	enum progress_mode mode;
	struct log_head head;
	uint64_t written;
	char *error;
	int err;
	int signal;
};

enum copy_result rewrite_image(struct rewrite *rewrite);

#endif /* IMAGE_COMPACT_H */
