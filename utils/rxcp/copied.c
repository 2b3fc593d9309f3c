// SPDX-License-Identifier: GPL-2.0-only
/*
 * Remember what was written. Two names of a folder may be one file or device: by symbolic links,
 * and on file systems that ignore case. Of two devices, one may be a partition of the other.
 */
#include <search.h>
#include <stdlib.h>

#include "copied.h"
#include "volume.h"

/* A file or device that was written. */
struct place {
	struct stat st;
	const char *source;
	struct place *next;	/* of the devices */
};

static int compare(const void *a, const void *b)
{
	const struct place *one = a, *two = b;

	if (one->st.st_dev != two->st.st_dev)
		return one->st.st_dev > two->st.st_dev ? 1 : -1;
	return (one->st.st_ino > two->st.st_ino) - (one->st.st_ino < two->st.st_ino);
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
	*place = (struct place){ .st = *st, .source = source };
	if (S_ISBLK(st->st_mode)) {
		place->next = copied->devices;
		copied->devices = place;
		return true;
	}
	node = tsearch(place, &copied->files, compare);
	if (!node || *(struct place **)node != place)
		free(place);
	return node;
}

/**
 * copied_from - find out whether a file or blocks of a device were written before
 * @copied: what was written so far
 * @st: the file or device
 *
 * Return: the path of the source, or NULL.
 */
const char *copied_from(const struct copied *copied, const struct stat *st)
{
	const struct place wanted = { .st = *st };
	struct place *const *found;
	const struct place *place;

	for (place = copied->devices; place; place = place->next)
		if (has_blocks_of(&place->st, st))
			return place->source;
	found = tfind(&wanted, &copied->files, compare);
	return found ? (*found)->source : NULL;
}

void copied_free(struct copied *copied)
{
	struct place *place;

	while ((place = copied->devices)) {
		copied->devices = place->next;
		free(place);
	}
	tdestroy(copied->files, free);
	copied->files = NULL;
}
