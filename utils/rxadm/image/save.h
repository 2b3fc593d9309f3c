/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IMAGE_SAVE_H
#define RXADM_IMAGE_SAVE_H

#include <stdbool.h>
#include <sys/types.h>

#include "copy/progress.h"
#include "lib/error.h"

/**
 * struct save_args - a RAM disk to be saved
 * @device: the disk, as the user calls it
 * @file: the image; an old one is replaced once the new one is whole
 * @stream: to standard output instead
 * @raw: a plain disk image, which @compress and @keep do not go with
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
	bool stream;
	bool raw;
	bool compress;
	int level;
	enum progress_mode progress;
	bool keep;
	bool apart;
	dev_t folder;
	char *beside;
	int signal;
};

enum exit_code image_save(struct save_args *args);

#endif /* RXADM_IMAGE_SAVE_H */
