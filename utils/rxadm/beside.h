/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_BESIDE_H
#define RXADM_BESIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* What was saved beside an image. */
struct beside {
	char *name;		/* of the newest; NULL: there is none */
	struct timespec time;	/* when that was written */
	size_t count;
};

int beside_choose(int folder_fd, const char *image, char **name);
int beside_find(int folder_fd, const char *image, struct beside *beside);
bool beside_is_newer(const struct beside *beside, const struct timespec *image);
char *beside_path(int folder_fd, const char *name);

#endif /* RXADM_BESIDE_H */
