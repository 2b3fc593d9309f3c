/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_LOAD_JOB_H
#define IMAGE_LOAD_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "copy/copy.h"
#include "copy/progress.h"
#include "image/log_read.h"

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
 * @exported: @into is for other machines: this one does not activate volumes or arrays on it
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
	bool exported;
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

/* An image that is being read, and the disk that it is written to. */
struct load_job {
	struct copy_job copy;
	struct progress progress;
	const struct load_args *args;
	struct image image;
	int image_fd;
	struct stat opened;	/* the image, when it was opened */
	bool log;		/* it has version 2 */
	struct log_head head;
	bool damaged;		/* the other head */
	struct log_reader reader;
	void *block;		/* the next block of the image */
	void *scratch;		/* decompressed data */
	uint64_t data_start;	/* plain disk image: data to read before the next hole */
	uint64_t data_end;
	const char *path;	/* of the disk */
	int fd;			/* the disk, or -1: only check the image */
	uint64_t reached;	/* of the disk */
	char *read_error;
	char *write_error;
	enum exit_code code;
};

enum copy_step load_wrong(struct load_job *job, char **error, char *reason);
enum copy_step load_read(void *context, struct copy_chunk *chunk);
enum exit_code load_open(struct load_job *job);
enum exit_code load_begin(struct load_job *job);

enum exit_code image_generations(const char *file, struct log_head *head);

#endif /* IMAGE_LOAD_JOB_H */
