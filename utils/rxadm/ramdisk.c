// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the driver says of a RAM disk, made readable.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "error.h"
#include "ramdisk.h"

#define EXTENTS_AT_ONCE	4096

/* What rxd_query.state says, as words. */
char *ramdisk_state(uint32_t state)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} words[] = {
		{ RXD_STATE_OPEN, "open" },
		{ RXD_STATE_CACHE, "cache" },
		{ RXD_STATE_OVERCOMMIT, "overcommit" },
		{ RXD_STATE_READONLY, "readonly" },
		{ RXD_STATE_RESERVED, "reserved" },
		{ RXD_STATE_DETECT_ZEROES, "detect-zeroes" },
	};
	char *text = NULL;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(words); i++)
		if (state & words[i].bit)
			append_text(&text, "%s%s", text ? " " : "", words[i].word);
	return text ? text : copy_text("idle");
}

/* What rxd_query.node says, as a word. */
char *ramdisk_node(int32_t node)
{
	switch (node) {
	case RXD_NODE_LOCAL:
		return copy_text("local");
	case RXD_NODE_INTERLEAVE:
		return copy_text("interleave");
	default:
		return format_text("%d", node);
	}
}

char *ramdisk_uuid(const uint8_t *uuid)
{
	char *text = NULL;
	unsigned int i;

	for (i = 0; i < 16; i++)
		append_text(&text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			    uuid[i]);
	return text;
}

/**
 * ramdisk_extents - walk through the ranges of a RAM disk that hold data
 * @fd: the disk, open for reading
 * @each: called for each, in ascending order
 * @data: what @each is given
 *
 * Return: 0 or an errno; EBUSY: it is in use as a cache.
 */
int ramdisk_extents(int fd, void (*each)(void *data, const struct rxd_extent *extent),
		    void *data)
{
	struct rxd_extent *extents = resize_array(NULL, EXTENTS_AT_ONCE, sizeof(*extents));
	struct rxd_map arg = { .version = RXD_ABI_VERSION };
	uint64_t start = 0;
	int err = 0;
	uint32_t i;

	while (!err && start < RXD_SIZE_MAX) {
		arg.start = start;
		arg.length = RXD_SIZE_MAX - start;
		arg.extents = (uintptr_t)extents;
		arg.count = EXTENTS_AT_ONCE;
		arg.next = 0;
		if (ioctl(fd, RXD_MAP, &arg)) {
			err = errno;
			break;
		}
		for (i = 0; i < arg.count; i++)
			each(data, &extents[i]);
		start = arg.next;
	}
	free(extents);
	return err;
}
