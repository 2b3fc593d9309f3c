/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_LAYERS_H
#define DEVICE_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct libmnt_fs;

/* A device that is the disk, a part of it, or on top of it. */
struct layer {
	dev_t number;
	bool stacked;		/* neither the disk nor one of its partitions */
	bool used;		/* what uses it is known, or will be frozen */
};

/* The disk is the first one. */
struct layers {
	struct layer *list;
	size_t count;
};

void layers_begin(struct layers *layers, dev_t disk);
void layers_end(struct layers *layers);
struct layer *layers_find(const struct layers *layers, dev_t number);
bool layers_have(struct layers *layers, struct libmnt_fs *fs);
bool mount_has_file(int fd, struct libmnt_fs *fs);

#endif /* DEVICE_LAYERS_H */
