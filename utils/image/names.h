/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_NAMES_H
#define IMAGE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/error.h"
#include "copy/file.h"
#include "image/block.h"

/* Images that were saved beside an image. */
struct image_beside {
	char *name;		/* of the newest; NULL: there is none */
	struct timespec time;	/* when it was written */
	size_t count;
};

int image_find_beside(int folder_fd, const char *image, struct image_beside *beside);
bool image_beside_is_newer(const struct image_beside *beside, const struct timespec *image);
char *image_beside_path(int folder_fd, const char *name);

struct image_header image_peek(const char *file);
uint64_t image_id(int folder_fd, const char *name);
bool image_is_of(int folder_fd, const char *name, const uint8_t *uuid);
unsigned int image_old_generations(const struct output *output);
enum exit_code image_check_loop(const char *file);
bool image_is_no_file(int err);
int image_find_apart(struct output *output, const char *path, int err);
int image_open(struct output *output, const char *path, bool *apart);
int image_name_beside(struct output *output, char **path);
int image_keep_old(struct output *output, char **beside, char **old);
void image_drop_old(const struct output *output, char **old);
int image_commit(struct output *output, char **beside, char **path);

#endif /* IMAGE_NAMES_H */
