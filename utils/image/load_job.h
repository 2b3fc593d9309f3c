/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_LOAD_JOB_H
#define IMAGE_LOAD_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "copy/copy.h"
#include "image/load_args.h"
#include "image/log_read.h"

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
