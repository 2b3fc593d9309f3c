// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find the free blocks of the file systems on a disk, whose contents need not be copied. A
 * file system that is unknown or not clean counts as fully used.
 */
#include <blkid/blkid.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unused.h"
#include "volume.h"

#define SECTOR		512	/* unit of libblkid for all disks */

/* A boot record: the entries of its table, and the type and the first sector in an entry. */
#define ENTRIES_AT	446
#define ENTRIES_END	510
#define ENTRY		16
#define TYPE_AT		4
#define START_AT	8
#define SIZE_AT		12
#define RECORDS_MAX	256

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

static int by_start(const void *a, const void *b)
{
	const struct range *one = a;
	const struct range *two = b;

	return (one->start > two->start) - (one->start < two->start);
}

/*
 * Find the type of a volume and its partitions: NULL if there are none. If it has both, one may
 * be stale, or the volume may be a member of a RAID and show the table of that.
 */
static bool identify(blkid_probe probe, const struct volume *volume, const char **type,
		     blkid_partlist *list)
{
	const char *table;
	bool is_mbr;

	*type = NULL;
	*list = NULL;
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE);
	blkid_probe_enable_partitions(probe, 1);
	if (blkid_probe_set_device(probe, volume->fd, volume->offset, volume->size) ||
	    blkid_do_safeprobe(probe))
		return false;
	blkid_probe_lookup_value(probe, "TYPE", type, NULL);
	if (blkid_probe_lookup_value(probe, "PTTYPE", &table, NULL))
		return true;
	is_mbr = !strcmp(table, "dos");
	*list = blkid_probe_get_partitions(probe);
	if (!*list)
		return false;
	if (blkid_partlist_numof_partitions(*list))
		return !*type;
	*list = NULL;
	/* Boot code of a file system may look like an MBR without partitions. */
	return !*type || is_mbr;
}

/* Record the unused ranges of a volume, or none if they are not certain. */
static void look_into(const struct volume *volume, const char *type)
{
	size_t before = volume->unused->count;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(type, kinds[i].type) && !kinds[i].find(volume))
			volume->unused->count = before;
}

static void look_into_partition(const struct volume *volume)
{
	blkid_probe probe = blkid_new_probe();
	blkid_partlist list;
	const char *type;

	if (probe && identify(probe, volume, &type, &list) && type)
		look_into(volume, type);
	blkid_free_probe(probe);
}

static bool contains(blkid_partition one, blkid_partition two)
{
	return blkid_partition_is_extended(one) && blkid_partition_is_logical(two);
}

static bool is_in_partition(blkid_partlist list, uint64_t sector)
{
	int i, count = blkid_partlist_numof_partitions(list);
	blkid_partition partition;
	uint64_t start;

	for (i = 0; i < count; i++) {
		partition = blkid_partlist_get_partition(list, i);
		start = blkid_partition_get_start(partition);
		if (!blkid_partition_is_extended(partition) && sector >= start &&
		    sector - start < (uint64_t)blkid_partition_get_size(partition))
			return true;
	}
	return false;
}

/* Find the entry of a boot record that leads to the next one. */
static const unsigned char *find_link(const unsigned char record[SECTOR])
{
	const unsigned char no_size[ENTRY - SIZE_AT] = { 0 };
	const unsigned char *entry;

	for (entry = record + ENTRIES_AT; entry < record + ENTRIES_END; entry += ENTRY)
		if ((entry[TYPE_AT] == 0x05 || entry[TYPE_AT] == 0x0f ||
		     entry[TYPE_AT] == 0x85) && memcmp(entry + SIZE_AT, no_size, sizeof(no_size)))
			return entry;
	return NULL;
}

/*
 * Check for a partition that contains the boot record of another, logical one. libblkid does not
 * tell where these records are: each says how many sectors after the first one the next is.
 */
static bool has_record(const struct volume *disk, blkid_partlist list, uint64_t first)
{
	unsigned char record[SECTOR];
	const unsigned char *link;
	uint64_t at = first;
	uint32_t after;
	unsigned int i;

	for (i = 0; i < RECORDS_MAX; i++) {
		if (is_in_partition(list, at) ||
		    !volume_read(disk, record, sizeof(record), at * SECTOR))
			return true;
		link = find_link(record);
		if (!link)
			return false;
		memcpy(&after, link + START_AT, sizeof(after));
		at = first + (uint64_t)le32toh(after) * (disk->sector / SECTOR);
	}
	return true;
}

/*
 * Check for overlapping partitions: a block unused in one may be used in another, or have the
 * boot record of one.
 */
static bool overlap(const struct volume *disk, blkid_partlist list, int count)
{
	blkid_partition one, two;
	int i, j;

	for (i = 0; i < count; i++) {
		one = blkid_partlist_get_partition(list, i);
		if (blkid_partition_is_extended(one) &&
		    has_record(disk, list, blkid_partition_get_start(one)))
			return true;
		for (j = 0; j < i; j++) {
			two = blkid_partlist_get_partition(list, j);
			if (contains(one, two) || contains(two, one))
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

	if (overlap(disk, list, count))
		return;
	for (i = 0; i < count; i++) {
		partition = blkid_partlist_get_partition(list, i);
		volume = *disk;
		volume.offset = (uint64_t)blkid_partition_get_start(partition) * SECTOR;
		volume.size = (uint64_t)blkid_partition_get_size(partition) * SECTOR;
		if (!blkid_partition_is_extended(partition) && volume.offset <= disk->size &&
		    volume.size <= disk->size - volume.offset)
			look_into_partition(&volume);
	}
}

/*
 * A mounted or swapping partition holds its disk, too: an exclusive open of that fails. What is
 * open exclusively cannot be mounted, and its blocks stay unused until unused_close().
 */
static void hold(struct volume *disk)
{
	struct stat st;

	if (fstat(disk->fd, &st))
		return;
	if (S_ISBLK(st.st_mode))
		disk->unused->held = open(disk->path, O_RDONLY | O_EXCL | O_CLOEXEC);
	disk->in_use = (S_ISBLK(st.st_mode) && disk->unused->held < 0) || is_backing(&st);
}

static void look_at(struct unused *unused, const char *path)
{
	struct volume disk = { .path = path, .size = unused->size, .unused = unused };
	blkid_partlist list;
	blkid_probe probe;
	const char *type;

	disk.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (disk.fd < 0)
		return;
	hold(&disk);
	/* Drop the page cache of the disk: it does not see writes to partitions. */
	posix_fadvise(disk.fd, 0, 0, POSIX_FADV_DONTNEED);
	probe = blkid_new_probe();
	if (probe && identify(probe, &disk, &type, &list)) {
		disk.sector = blkid_probe_get_sectorsize(probe);
		if (list)
			look_into_all(&disk, list);
		else if (type)
			look_into(&disk, type);
	}
	blkid_free_probe(probe);
	close(disk.fd);
}

/**
 * unused_open - find the unused ranges of a disk
 * @fd: the device or image; it stays open until unused_close()
 * @size: its size in bytes
 *
 * Return: the ranges for unused_next(); NULL if everything counts as used.
 */
struct unused *unused_open(int fd, uint64_t size)
{
	struct unused *unused = calloc(1, sizeof(*unused));
	char path[40];

	if (!unused)
		return NULL;
	unused->size = size;
	unused->held = -1;
	/* The name that opened @fd may be that of another disk by now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	look_at(unused, path);
	if (!unused->count) {
		unused_close(unused);
		return NULL;
	}
	qsort(unused->ranges, unused->count, sizeof(*unused->ranges), by_start);
	return unused;
}

/**
 * unused_next - find the next used range
 * @unused: the unused ranges
 * @from: offset to start at; it must not decrease from call to call
 * @start: out: where it begins; the size of the disk if there is none
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
	if (unused->held >= 0)
		close(unused->held);
	free(unused->ranges);
	free(unused);
}
