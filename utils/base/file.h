/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"

char *path_make_absolute(const char *path);
enum exit_code file_replace_error(const char *what, const char *path, int err);
enum exit_code file_replace(const char *what, const char *path, mode_t mode,
			    void (*fill)(FILE *file, const void *data), const void *data);

/* /run is normally a tmpfs, so that these files are lost together with the RAM disks. */
#define RUN_FOLDER	"/run/rxadm"

int run_folder_make(void);

enum exit_code lock_take(void);
void lock_give(void);
enum exit_code lock_take_one(uint64_t key, const char *what);
enum exit_code lock_try_one(uint64_t key, bool *taken);
void lock_give_one(uint64_t key);
bool lock_is_held(uint64_t key, pid_t *holder);

#endif /* BASE_FILE_H */
