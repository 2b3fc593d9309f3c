// SPDX-License-Identifier: GPL-2.0-only
/*
 * Remember what was written. Two names of a folder may be one file or device: by symbolic links,
 * and on file systems that ignore case.
 */
#include <search.h>
#include <stdlib.h>

#include "copied.h"

struct place {
	bool is_device;
	dev_t device;
	ino_t inode;		/* of a file */
	const char *source;
};

static struct place place_of(const struct stat *st)
{
	if (S_ISBLK(st->st_mode))
		return (struct place){ .is_device = true, .device = st->st_rdev };
	return (struct place){ .device = st->st_dev, .inode = st->st_ino };
}

static int compare(const void *a, const void *b)
{
	const struct place *one = a, *two = b;

	if (one->is_device != two->is_device)
		return one->is_device ? 1 : -1;
	if (one->device != two->device)
		return one->device > two->device ? 1 : -1;
	return (one->inode > two->inode) - (one->inode < two->inode);
}

/**
 * copied_add - remember a file or device that is written
 * @copied: what was written so far
 * @st: the file or device
 * @source: the path of the source, which must stay valid
 *
 * Return: false if memory is short.
 */
bool copied_add(struct copied *copied, const struct stat *st, const char *source)
{
	struct place *place = malloc(sizeof(*place));
	void *node;

	if (!place)
		return false;
	*place = place_of(st);
	place->source = source;
	node = tsearch(place, &copied->tree, compare);
	if (!node || *(struct place **)node != place)
		free(place);
	return node;
}

/**
 * copied_from - find out whether a file or device was written before
 * @copied: what was written so far
 * @st: the file or device
 *
 * Return: the path of the source, or NULL.
 */
const char *copied_from(const struct copied *copied, const struct stat *st)
{
	struct place wanted = place_of(st);
	struct place *const *found = tfind(&wanted, &copied->tree, compare);

	return found ? (*found)->source : NULL;
}

void copied_free(struct copied *copied)
{
	tdestroy(copied->tree, free);
	copied->tree = NULL;
}
