/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SAVE_H
#define RXADM_SAVE_H

#include <stdbool.h>

#include "../copy/progress.h"
#include "error.h"

/**
 * struct save_args - a RAM disk to be saved
 * @device: the disk, as the user calls it
 * @file: the image; an old one is replaced once the new one is whole
 * @compress: with zstd
 * @level: of zstd
 * @progress: how to show the progress
 * @signal: out: the signal that interrupted it, or 0
 */
struct save_args {
	const char *device;
	const char *file;
	bool compress;
	int level;
	enum progress_mode progress;
	int signal;
};

enum exit_code save(struct save_args *args);

#endif /* RXADM_SAVE_H */
