// SPDX-License-Identifier: GPL-2.0-only
/*
 * What nobody will ever read of a disk: the free blocks of its file systems. They may
 * hold anything. What is not known, or not clean, is in use.
 */
#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../copy/file.h"
#include "unused.h"
#include "volume.h"

#define SECTOR		512	/* of libblkid, whatever the disk has */
#define ROOM_FIRST	64

struct range {
	uint64_t start;
	uint64_t end;
};

struct unused {
	uint64_t size;		/* of the disk */
	struct range *ranges;
	size_t count;
	size_t room;
	size_t next;		/* the first that may end after what was asked for last */
};

static const struct {
	const char *type;
	bool (*find)(const struct volume *volume);
} kinds[] = {
	{ "ext2", ext_unused },
	{ "ext3", ext_unused },
	{ "ext4", ext_unused },
	{ "swap", swap_unused },
	{ "xfs", xfs_unused },
};

/**
 * volume_read - read a part of a volume
 * @volume: the volume
 * @data: out
 * @length: bytes
 * @offset: from this byte of the volume on
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
 * volume_unused - note that a part of a volume is not used
 * @volume: the volume
 * @start: its first byte
 * @end: where it ends
 *
 * Return: false if there is no such part, or no memory.
 */
bool volume_unused(const struct volume *volume, uint64_t start, uint64_t end)
{
	struct unused *unused = volume->unused;
	struct range *ranges = unused->ranges;

	if (start >= end || end > volume->size)
		return false;
	if (unused->count == unused->room) {
		unused->room = unused->room ? 2 * unused->room : ROOM_FIRST;
		ranges = reallocarray(ranges, unused->room, sizeof(*ranges));
		if (!ranges)
			return false;
		unused->ranges = ranges;
	}
	ranges[unused->count++] = (struct range){
		.start = volume->offset + start,
		.end = volume->offset + end,
	};
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct range *one = a;
	const struct range *two = b;

	return (one->start > two->start) - (one->start < two->start);
}

/* All that a volume does not use, or nothing if that is not certain. */
static void look_into(const struct volume *volume)
{
	size_t before = volume->unused->count;
	const char *type;
	blkid_probe probe;
	size_t i;

	probe = blkid_new_probe();
	if (!probe)
		return;
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE);
	if (!blkid_probe_set_device(probe, volume->fd, volume->offset, volume->size) &&
	    !blkid_do_safeprobe(probe) && !blkid_probe_lookup_value(probe, "TYPE", &type, NULL)) {
		for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
			if (!strcmp(type, kinds[i].type) && !kinds[i].find(volume))
				volume->unused->count = before;
	}
	blkid_free_probe(probe);
}

/* Two that share a byte: what one does not use the other may. */
static bool overlap(blkid_partlist list, int count)
{
	blkid_partition one, two;
	int i, j;

	for (i = 0; i < count; i++) {
		one = blkid_partlist_get_partition(list, i);
		for (j = 0; j < i; j++) {
			two = blkid_partlist_get_partition(list, j);
			if (blkid_partition_is_extended(one) || blkid_partition_is_extended(two))
				continue;
			if (blkid_partition_get_start(one) < blkid_partition_get_start(two) +
							     blkid_partition_get_size(two) &&
			    blkid_partition_get_start(two) < blkid_partition_get_start(one) +
							     blkid_partition_get_size(one))
				return true;
		}
	}
	return false;
}

static void look_into_all(const struct volume *disk, blkid_partlist list)
{
	int i, count = blkid_partlist_numof_partitions(list);
	blkid_partition partition;
	struct volume volume;

	if (overlap(list, count))
		return;
	for (i = 0; i < count; i++) {
		partition = blkid_partlist_get_partition(list, i);
		volume = *disk;
		volume.offset = (uint64_t)blkid_partition_get_start(partition) * SECTOR;
		volume.size = (uint64_t)blkid_partition_get_size(partition) * SECTOR;
		if (!blkid_partition_is_extended(partition) && volume.offset <= disk->size &&
		    volume.size <= disk->size - volume.offset)
			look_into(&volume);
	}
}

/* Who has mounted a partition, or swaps to one, has a part of the disk. */
static bool is_held(const char *path, int fd)
{
	struct stat st;
	int exclusive;

	if (fstat(fd, &st) || !S_ISBLK(st.st_mode))
		return false;
	exclusive = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (exclusive < 0)
		return true;
	close(exclusive);
	return false;
}

static void look_at(struct unused *unused, const char *path)
{
	struct volume disk = { .path = path, .size = unused->size, .unused = unused };
	blkid_partlist list = NULL;
	blkid_probe probe;

	disk.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (disk.fd < 0)
		return;
	disk.in_use = is_held(path, disk.fd);
	/* What a partition was written meanwhile is not in the cache of its disk. */
	posix_fadvise(disk.fd, 0, 0, POSIX_FADV_DONTNEED);
	probe = blkid_new_probe();
	if (probe && !blkid_probe_set_device(probe, disk.fd, 0, 0)) {
		blkid_probe_enable_partitions(probe, 1);
		list = blkid_probe_get_partitions(probe);
	}
	if (list && blkid_partlist_numof_partitions(list))
		look_into_all(&disk, list);
	else
		look_into(&disk);
	blkid_free_probe(probe);
	close(disk.fd);
}

/**
 * unused_open - find out what of a disk is not used
 * @path: the device or image
 * @size: its bytes
 *
 * Return: what unused_next() takes; NULL if all must be taken for used.
 */
struct unused *unused_open(const char *path, uint64_t size)
{
	struct unused *unused = calloc(1, sizeof(*unused));

	if (!unused)
		return NULL;
	unused->size = size;
	look_at(unused, path);
	if (!unused->count) {
		unused_close(unused);
		return NULL;
	}
	qsort(unused->ranges, unused->count, sizeof(*unused->ranges), by_start);
	return unused;
}

/**
 * unused_next - find what is used
 * @unused: of which disk
 * @from: from this byte on, not before that of the last call
 * @start: out: its first byte; the size of all, if there is nothing more
 * @end: out: where it ends
 */
void unused_next(struct unused *unused, uint64_t from, uint64_t *start, uint64_t *end)
{
	const struct range *range;

	*end = unused->size;
	for (; unused->next < unused->count; unused->next++) {
		range = &unused->ranges[unused->next];
		if (range->start > from) {
			*end = range->start;
			break;
		}
		if (range->end > from)
			from = range->end;
	}
	*start = from;
}

void unused_close(struct unused *unused)
{
	if (!unused)
		return;
	free(unused->ranges);
	free(unused);
}
