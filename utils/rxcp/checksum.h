/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_CHECKSUM_H
#define RXCP_CHECKSUM_H

#include <gcrypt.h>
#include <stdbool.h>
#include <stddef.h>

/* Checksum of the data of a copy, in the order of its bytes. */
struct checksum {
	gcry_md_hd_t handle;	/* NULL: none is wanted */
	int algorithm;
};

bool checksum_begin(struct checksum *checksum, const char *name);
void checksum_add(struct checksum *checksum, const void *data, size_t length);
void checksum_print(struct checksum *checksum, const char *path);
void checksum_free(struct checksum *checksum);

#endif /* RXCP_CHECKSUM_H */
