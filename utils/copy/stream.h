/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_STREAM_H
#define COPY_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "copy.h"

int stream_read(struct copy_job *job, int fd, void *data, size_t length, size_t *done);
int stream_write(struct copy_job *job, int fd, const void *data, size_t length);
int stream_write_zeros(struct copy_job *job, int fd, uint64_t length);

#endif /* COPY_STREAM_H */
