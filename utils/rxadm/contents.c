// SPDX-License-Identifier: GPL-2.0-only
/*
 * How far the partitions and the file system on a device reach, used or not.
 */
#include <blkid/blkid.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contents.h"

/* libblkid tells the sizes of file systems since 2.39. */
#ifndef BLKID_SUBLKS_FSINFO
#define BLKID_SUBLKS_FSINFO	0
#endif

#define SECTOR_SHIFT		9

#define EXT_SUPERBLOCK		1024
#define EXT_BLOCKS_LO		0x04
#define EXT_LOG_BLOCK_SIZE	0x18
#define EXT_INCOMPAT		0x60
#define EXT_INCOMPAT_64BIT	0x80
#define EXT_BLOCKS_HI		0x150
#define EXT_SUPERBLOCK_SIZE	1024

#define XFS_BLOCK_SIZE		4
#define XFS_BLOCKS		8
#define XFS_SUPERBLOCK_SIZE	16

#define SWAP_LAST_PAGE		1028

static uint32_t get32(const uint8_t *data)
{
	uint32_t value;

	memcpy(&value, data, sizeof(value));
	return value;
}

static bool read_all(int fd, void *data, size_t size, off_t pos)
{
	return pread(fd, data, size, pos) == (ssize_t)size;
}

static uint64_t ext_size(int fd)
{
	uint8_t sb[EXT_SUPERBLOCK_SIZE];
	uint64_t blocks;
	uint32_t shift;

	if (!read_all(fd, sb, sizeof(sb), EXT_SUPERBLOCK))
		return 0;
	blocks = le32toh(get32(sb + EXT_BLOCKS_LO));
	if (le32toh(get32(sb + EXT_INCOMPAT)) & EXT_INCOMPAT_64BIT)
		blocks |= (uint64_t)le32toh(get32(sb + EXT_BLOCKS_HI)) << 32;
	shift = le32toh(get32(sb + EXT_LOG_BLOCK_SIZE));
	return shift > 6 ? 0 : blocks << (10 + shift);
}

static uint64_t xfs_size(int fd)
{
	uint8_t sb[XFS_SUPERBLOCK_SIZE];
	uint64_t blocks;

	if (!read_all(fd, sb, sizeof(sb), 0))
		return 0;
	memcpy(&blocks, sb + XFS_BLOCKS, sizeof(blocks));
	return be64toh(blocks) * be32toh(get32(sb + XFS_BLOCK_SIZE));
}

static uint64_t swap_size(int fd)
{
	uint8_t last[sizeof(uint32_t)];

	if (!read_all(fd, last, sizeof(last), SWAP_LAST_PAGE))
		return 0;
	return ((uint64_t)get32(last) + 1) * sysconf(_SC_PAGESIZE);
}

/* The size that a superblock tells, where libblkid is too old to know. */
static uint64_t own_size(int fd, const char *type)
{
	if (!strcmp(type, "ext2") || !strcmp(type, "ext3") || !strcmp(type, "ext4"))
		return ext_size(fd);
	if (!strcmp(type, "xfs"))
		return xfs_size(fd);
	if (!strcmp(type, "swap"))
		return swap_size(fd);
	return 0;
}

static uint64_t value_of(blkid_probe probe, const char *name)
{
	const char *text;

	if (blkid_probe_lookup_value(probe, name, &text, NULL))
		return 0;
	return strtoull(text, NULL, 10);
}

static void note(struct contents *contents, uint64_t end, char *name)
{
	if (end <= contents->end && contents->last) {
		free(name);
		return;
	}
	free(contents->last);
	contents->last = name;
	contents->end = end;
}

static void note_partitions(struct contents *contents, blkid_probe probe)
{
	blkid_partlist list = blkid_probe_get_partitions(probe);
	int count = list ? blkid_partlist_numof_partitions(list) : 0;
	blkid_partition partition;
	uint64_t end;
	int i;

	for (i = 0; i < count; i++) {
		partition = blkid_partlist_get_partition(list, i);
		end = blkid_partition_get_start(partition) + blkid_partition_get_size(partition);
		note(contents, end << SECTOR_SHIFT,
		     format_text("partition %d", blkid_partition_get_partno(partition)));
	}
}

static void note_file_system(struct contents *contents, blkid_probe probe)
{
	const char *type;
	uint64_t size;

	if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL))
		return;
	size = value_of(probe, "FSLASTBLOCK") * value_of(probe, "FSBLOCKSIZE");
	if (!size)
		size = own_size(blkid_probe_get_fd(probe), type);
	if (size)
		note(contents, size, copy_text(type));
	else
		append_text(&contents->unknown, "%s%s", contents->unknown ? ", " : "", type);
}

/**
 * contents_read - find out what a device holds, or report that it cannot be read
 * @dev: the device
 * @contents: out: to be released by contents_release()
 */
enum exit_code contents_read(const struct device *dev, struct contents *contents)
{
	blkid_probe probe;
	int found;

	*contents = (struct contents){ 0 };
	probe = blkid_new_probe_from_filename(dev->path);
	if (!probe)
		return report(exit_code_of(errno), "%s '%s': cannot look for a file system: %s",
			      dev->what, dev->path, strerror(errno));

	note_partitions(contents, probe);
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_FSINFO);
	while (!(found = blkid_do_probe(probe)))
		note_file_system(contents, probe);
	blkid_free_probe(probe);
	if (found > 0)
		return EXIT_OK;
	contents_release(contents);
	return report(EXIT_DEVICE, "%s '%s': cannot be read to look for a file system", dev->what,
		      dev->path);
}

void contents_release(struct contents *contents)
{
	free(contents->last);
	free(contents->unknown);
	*contents = (struct contents){ 0 };
}
