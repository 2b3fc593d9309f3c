/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_LOAD_ARGS_H
#define IMAGE_LOAD_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "copy/progress.h"

/**
 * struct load_args - an image to be loaded
 * @file: the image
 * @stream: read from standard input instead
 * @raw: the file is a plain disk image: a new disk gets its size, and otherwise the
 *	defaults of 'rxadm create'; not with @stream
 * @generation: of an image with several states, the number of the one to be loaded; 0: the newest
 * @into: an empty RAM disk that is not in use; NULL: create one with the properties in
 *	the image, except those below
 * @has_index: @index is given
 * @index: number of the new disk
 * @node_text: text of @node; NULL: not given
 * @node: as in struct rxd_create
 * @uuid_text: text of @uuid; NULL: use the UUID in the image
 * @uuid: of the new disk; all zero: a random one
 * @name: of the new disk; NULL: none
 * @overcommit: allow more than the share of memory for RAM disks
 * @progress: how to show the progress
 * @signal: out: the signal that interrupted it, or 0
 */
struct load_args {
	const char *file;
	bool stream;
	bool raw;
	uint64_t generation;
	const char *into;
	bool has_index;
	unsigned int index;
	const char *node_text;
	int32_t node;
	const char *uuid_text;
	uint8_t uuid[16];
	const char *name;
	bool overcommit;
	enum progress_mode progress;
	int signal;
};

#endif /* IMAGE_LOAD_ARGS_H */
