/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_COPIED_H
#define RXCP_COPIED_H

#include <stdbool.h>
#include <sys/stat.h>

/* The files and devices that were written so far, and from which sources. */
struct copied {
	void *files;			/* a tree */
	struct place *devices;		/* a list */
};

bool copied_add(struct copied *copied, const struct stat *st, const char *source);
const char *copied_from(const struct copied *copied, const struct stat *st);
void copied_free(struct copied *copied);

#endif /* RXCP_COPIED_H */
