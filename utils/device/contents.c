// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find the signatures on a block device, and where the contents that they describe end.
 */
#include <blkid/blkid.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "base/text.h"
#include "device/contents.h"

/**
 * signature_check - report if a device has a signature, such as that of a file system
 * @what: the device's role in the command
 * @path: the device
 */
enum exit_code signature_check(const char *what, const char *path)
{
	enum exit_code ret = EXIT_OK;
	const char *type = NULL;
	blkid_probe probe;

	probe = blkid_new_probe_from_filename(path);
	if (!probe)
		return report(exit_code_of(errno), "%s '%s': cannot look for a file system: %s",
			      what, path, strerror(errno));
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE);
	blkid_probe_enable_partitions(probe, 1);

	switch (blkid_do_safeprobe(probe)) {
	case 1:
		break;
	case 0:
		if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL))
			blkid_probe_lookup_value(probe, "PTTYPE", &type, NULL);
		ret = report(EXIT_BUSY,
			     "%s '%s': holds data (%s) that would be lost; save it with 'rxadm save', then repeat the command with --force, which discards it",
			     what, path, type ? type : "unknown");
		break;
	case -2:
		ret = report(EXIT_BUSY,
			     "%s '%s': holds data of several kinds that would be lost; save it with 'rxadm save', then repeat the command with --force, which discards it",
			     what, path);
		break;
	default:
		ret = report(EXIT_DEVICE, "%s '%s': cannot be read to look for a file system",
			     what, path);
	}
	blkid_free_probe(probe);
	return ret;
}

/* Return true for signatures of devices that other software may start to use by itself. */
static bool is_member(blkid_probe probe, const char **type)
{
	const char *usage = "";

	if (blkid_probe_lookup_value(probe, "TYPE", type, NULL))
		return false;
	blkid_probe_lookup_value(probe, "USAGE", &usage, NULL);
	return !strcmp(usage, "raid") || !strcmp(*type, "swap") || !strcmp(*type, "swsuspend") ||
	       !strcmp(*type, "bcache");
}

/**
 * member_check - report if a device is a member of md, LVM or the like, or swap space,
 * even if it is not in use now
 * @what: the device's role in the command
 * @path: the device
 * @option: the option or key that overrides this check
 */
enum exit_code member_check(const char *what, const char *path, const char *option)
{
	enum exit_code ret = EXIT_OK;
	const char *type = NULL;
	blkid_probe probe;
	int found;

	probe = blkid_new_probe_from_filename(path);
	if (!probe)
		return report(exit_code_of(errno), "%s '%s': cannot look for a signature: %s",
			      what, path, strerror(errno));
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE);
	while (!ret && !(found = blkid_do_probe(probe)))
		if (is_member(probe, &type))
			ret = report(EXIT_DEVICE,
				     "%s '%s': is %s (%s), so other software may use it directly and bypass the cache; %s overrides this",
				     what, path,
				     !strncmp(type, "sw", 2) ? "swap space" :
				     "a member of another device", type, option);
	if (!ret && found < 0)
		ret = report(EXIT_DEVICE, "%s '%s': cannot be read to look for a signature", what,
			     path);
	blkid_free_probe(probe);
	return ret;
}

/* libblkid reports the sizes of file systems since version 2.39. */
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
#define XFS_IN_PROGRESS		126	/* mkfs.xfs clears it last */

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

/* Read the size from the superblock, for versions of libblkid that do not report it. */
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

/* The contents of a device according to its signatures. */
struct contents {
	char *last;	/* what ends last: "ext4", "partition 2"; NULL: nothing known */
	uint64_t end;	/* where @last ends, in bytes */
	char *unknown;	/* types of unknown size: "LVM2_member"; NULL: none */
};

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
	int fd = blkid_probe_get_fd(probe);
	const char *type;
	uint64_t size;
	uint8_t flag;

	if (blkid_probe_lookup_value(probe, "TYPE", &type, NULL))
		return;
	if (!strcmp(type, "xfs") && read_all(fd, &flag, sizeof(flag), XFS_IN_PROGRESS) && flag)
		return;
	size = value_of(probe, "FSLASTBLOCK") * value_of(probe, "FSBLOCKSIZE");
	if (!size)
		size = own_size(fd, type);
	if (size)
		note(contents, size, copy_text(type));
	else
		append_text(&contents->unknown, "%s%s", contents->unknown ? ", " : "", type);
}

static void contents_release(struct contents *contents)
{
	free(contents->last);
	free(contents->unknown);
	*contents = (struct contents){ 0 };
}

static enum exit_code contents_read(const struct device *dev, struct contents *contents)
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

/* Check whether a device has partitions, or a file system that was made completely. */
enum exit_code contents_find(const struct device *dev, bool *found)
{
	struct contents contents;
	enum exit_code ret = contents_read(dev, &contents);

	*found = contents.last || contents.unknown;
	contents_release(&contents);
	return ret;
}

/**
 * contents_check - report a partition or file system that ends beyond the new end of a device
 * @dev: the device
 * @size: its new size in bytes
 * @size_text: its new size as the user wrote it
 * @unknown: out: allocated names of contents of unknown size, or NULL
 *
 * The driver finds data beyond the new end, but a partition or a file system may also extend over
 * blocks that were never written. Only its metadata shows that.
 */
enum exit_code contents_check(const struct device *dev, uint64_t size, const char *size_text,
			      char **unknown)
{
	struct contents contents;
	char text[SIZE_TEXT_MAX];
	enum exit_code ret;

	ret = contents_read(dev, &contents);
	if (ret)
		return ret;
	if (contents.last && contents.end > size) {
		size_format(contents.end, text);
		ret = report(EXIT_BUSY,
			     "%s '%s': %s ends at %s (%llu bytes), beyond the new end '%s' (%llu bytes); shrink it first, or %s",
			     dev->what, dev->path, contents.last, text,
			     (unsigned long long)contents.end, size_text,
			     (unsigned long long)size,
			     advice("give --force", "run 'rxadm resize --force'"));
	} else {
		*unknown = contents.unknown;
		contents.unknown = NULL;
	}
	contents_release(&contents);
	return ret;
}
