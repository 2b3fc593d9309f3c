/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IMAGE_LOAD_H
#define RXADM_IMAGE_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "copy/progress.h"
#include "lib/error.h"

/**
 * struct load_args - an image to be loaded
 * @file: the image
 * @stream: from standard input instead
 * @raw: a plain disk image, of which all but the data and the size are as those of
 *	'rxadm create'; no @stream
 * @into: an empty RAM disk that nobody uses, or NULL: one is made, as the image
 *	says but for what follows
 * @has_index: @index is given
 * @index: number of the new disk
 * @node_text: text of @node, or NULL: it is not given
 * @node: as in struct rxd_create
 * @uuid_text: text of @uuid, or NULL: it is the image's
 * @uuid: of the new disk; all zero: a random one
 * @overcommit: beyond the share of memory for RAM disks
 * @progress: how to show the progress
 * @signal: out: the signal that interrupted it, or 0
 */
struct load_args {
	const char *file;
	bool stream;
	bool raw;
	const char *into;
	bool has_index;
	unsigned int index;
	const char *node_text;
	int32_t node;
	const char *uuid_text;
	uint8_t uuid[16];
	bool overcommit;
	enum progress_mode progress;
	int signal;
};

enum exit_code image_load(struct load_args *args, char **path);

#endif /* RXADM_IMAGE_LOAD_H */
