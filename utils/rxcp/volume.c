// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read a volume, and record its unused ranges.
 */
#include <stdlib.h>

#include "../copy/file.h"
#include "volume.h"

#define ROOM_FIRST	64

/**
 * volume_read - read a part of a volume
 * @volume: the volume
 * @data: out
 * @length: number of bytes
 * @offset: offset in the volume
 *
 * Return: false if not all of it can be read.
 */
bool volume_read(const struct volume *volume, void *data, size_t length, uint64_t offset)
{
	size_t done;

	if (length > volume->size || offset > volume->size - length)
		return false;
	return !file_read(volume->fd, data, length, volume->offset + offset, &done) &&
	       done == length;
}

/**
 * volume_unused - record an unused range of a volume
 * @volume: the volume
 * @start: its first byte
 * @end: where it ends
 *
 * Return: false if the range is invalid, or memory is short.
 */
bool volume_unused(const struct volume *volume, uint64_t start, uint64_t end)
{
	struct unused *unused = volume->unused;
	struct range *ranges = unused->ranges;
	size_t room;

	if (start >= end || end > volume->size)
		return false;
	if (unused->count == unused->room) {
		room = unused->room ? 2 * unused->room : ROOM_FIRST;
		ranges = reallocarray(ranges, room, sizeof(*ranges));
		if (!ranges)
			return false;
		unused->ranges = ranges;
		unused->room = room;
	}
	ranges[unused->count++] = (struct range){
		.start = volume->offset + start,
		.end = volume->offset + end,
	};
	return true;
}
