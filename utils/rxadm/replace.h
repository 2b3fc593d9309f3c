/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_REPLACE_H
#define RXADM_REPLACE_H

#include <stdio.h>
#include <sys/types.h>

#include "error.h"

enum exit_code replace_error(const char *what, const char *path, int err);
enum exit_code replace_file(const char *what, const char *path, mode_t mode,
			    void (*fill)(FILE *file, const void *data), const void *data);

#endif /* RXADM_REPLACE_H */
