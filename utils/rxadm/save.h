/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SAVE_H
#define RXADM_SAVE_H

#include <stdbool.h>
#include <sys/types.h>

#include "../copy/progress.h"
#include "error.h"

/**
 * struct save_args - a RAM disk to be saved
 * @device: the disk, as the user calls it
 * @file: the image; an old one is replaced once the new one is whole
 * @compress: with zstd
 * @level: of zstd
 * @progress: how to show the progress
 * @keep: replace nothing but an image that this disk was loaded from or saved to, but
 *	save beside what else is there
 * @apart: with @keep: save beside in any case
 * @folder: with @keep: the file system that the image was on, or is expected on; 0: any
 * @beside: out: with @keep: allocated path of the image if it is not @file, or NULL
 * @signal: out: the signal that interrupted it, or 0
 */
struct save_args {
	const char *device;
	const char *file;
	bool compress;
	int level;
	enum progress_mode progress;
	bool keep;
	bool apart;
	dev_t folder;
	char *beside;
	int signal;
};

enum exit_code save(struct save_args *args);
bool save_may_replace(dev_t disk, int folder_fd, const char *name);

#endif /* RXADM_SAVE_H */
