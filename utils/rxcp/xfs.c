// SPDX-License-Identifier: GPL-2.0-only
/*
 * Free blocks of xfs. Each allocation group has a B+tree of them, which is up to date if the
 * log ends with an unmount record. Version 4 has no checksums, so that damage would not be seen.
 */
#include <endian.h>
#include <ext2fs/ext2fs.h>
#include <stdlib.h>
#include <string.h>

#include "volume.h"

#define SB_MAGIC	0x58465342	/* XFSB */
#define AGF_MAGIC	0x58414746	/* XAGF */
#define BNOBT_MAGIC	0x41423342	/* AB3B */
#define LOG_MAGIC	0xfeedbabe
#define NO_BLOCK	0xffffffff

#define VERSION		5
#define SB_CRC		224
#define AGF_CRC		216
#define BNOBT_CRC	52
#define BNOBT_HEAD	56

#define BASIC_BLOCK	512		/* unit of the addresses in blocks */
#define BLOCK_MIN	512
#define BLOCK_MAX	65536
#define LEVELS_MAX	16
#define LOG_BLOCK	512
#define LOG_HEADER	32768		/* bytes of a record that one block of its header covers */
#define LOG_PIECE	(1 << 20)
#define LOG_VERSION_2	2
#define LOG_UNMOUNT	0x20

/* Features that do not change the format of the free space trees; others are refused. */
#define RO_COMPAT	0x0f		/* finobt, rmapbt, reflink, inobtcount */
#define INCOMPAT	0xef		/* not: needsrepair, metadir, zoned and later ones */
#define META_UUID	0x04		/* all but the superblock and the log keep the first UUID */

#define UUID		16

struct xfs {
	const struct volume *volume;
	uint64_t blocksize;
	uint64_t blocks;
	uint64_t sector;
	uint32_t group_blocks;
	uint32_t groups;
	uint64_t log;		/* its first byte */
	uint64_t log_blocks;	/* of LOG_BLOCK bytes */
	unsigned char uuid[UUID];
	unsigned char meta_uuid[UUID];
	unsigned char *block;	/* the last that was read: a sector, or a block of the tree */
};

static uint16_t get16(const void *data, size_t at)
{
	uint16_t value;

	memcpy(&value, (const char *)data + at, sizeof(value));
	return be16toh(value);
}

static uint32_t get32(const void *data, size_t at)
{
	uint32_t value;

	memcpy(&value, (const char *)data + at, sizeof(value));
	return be32toh(value);
}

static uint64_t get64(const void *data, size_t at)
{
	uint64_t value;

	memcpy(&value, (const char *)data + at, sizeof(value));
	return be64toh(value);
}

/* Check that a block is of this file system, and not left over from one before. */
static bool is_own(const struct xfs *fs, size_t uuid_at)
{
	return !memcmp(fs->block + uuid_at, fs->meta_uuid, UUID);
}

/* Read a sector or a block, and check its checksum; that itself counts as 0. */
static bool read_checked(const struct xfs *fs, uint64_t offset, size_t length, size_t crc_at)
{
	uint32_t crc;

	if (!volume_read(fs->volume, fs->block, length, offset))
		return false;
	memcpy(&crc, fs->block + crc_at, sizeof(crc));
	memset(fs->block + crc_at, 0, sizeof(crc));
	return le32toh(crc) == ~ext2fs_crc32c_le(~0U, fs->block, length);
}

static bool read_superblock(struct xfs *fs)
{
	const unsigned int version_at = 100, sector_at = 102, log2_group_at = 124;
	const unsigned char *sb = fs->block;
	uint64_t log, group;

	if (!volume_read(fs->volume, fs->block, BLOCK_MIN, 0) || get32(sb, 0) != SB_MAGIC ||
	    (get16(sb, version_at) & 0xf) != VERSION)
		return false;
	fs->sector = get16(sb, sector_at);
	if (fs->sector < BLOCK_MIN || !read_checked(fs, 0, fs->sector, SB_CRC))
		return false;
	fs->blocksize = get32(sb, 4);
	fs->blocks = get64(sb, 8);
	log = get64(sb, 48);
	fs->group_blocks = get32(sb, 84);
	fs->groups = get32(sb, 88);
	fs->log_blocks = get32(sb, 96) * (fs->blocksize / LOG_BLOCK);
	memcpy(fs->uuid, sb + 32, UUID);
	memcpy(fs->meta_uuid, sb + (get32(sb, 216) & META_UUID ? 248 : 32), UUID);
	/* Refuse a realtime device, an external log, and an incomplete mkfs or repair. */
	if (get64(sb, 16) || !log || sb[126] ||
	    get32(sb, 212) & ~RO_COMPAT || get32(sb, 216) & ~INCOMPAT)
		return false;
	if (fs->blocksize < BLOCK_MIN || fs->blocksize > BLOCK_MAX ||
	    fs->blocksize & (fs->blocksize - 1) || fs->sector > fs->blocksize ||
	    !fs->log_blocks || !fs->group_blocks || !fs->groups ||
	    fs->blocks > fs->volume->size / fs->blocksize ||
	    fs->blocks > (uint64_t)fs->groups * fs->group_blocks ||
	    fs->blocks <= (uint64_t)(fs->groups - 1) * fs->group_blocks || sb[log2_group_at] > 31)
		return false;
	group = log >> sb[log2_group_at];
	log &= (UINT64_C(1) << sb[log2_group_at]) - 1;
	if (group >= fs->groups)
		return false;
	fs->log = (group * fs->group_blocks + log) * fs->blocksize;
	return true;
}

/* State of scanning the log. */
struct log {
	uint32_t first;		/* cycle of its first block */
	uint64_t head;		/* where that cycle ends */
	uint64_t record;	/* the last header before the head; the log may wrap between them */
	bool has_record;
	bool is_before;		/* the record is before the head without a wrap */
};

/* Blocks before the head have the current cycle, blocks after it the previous one. */
static bool add_block(struct log *log, const unsigned char *block, uint64_t at)
{
	bool is_header = get32(block, 0) == LOG_MAGIC;
	uint32_t cycle = get32(block, is_header ? 4 : 0);
	bool is_before;

	if (!at)
		log->first = cycle;
	is_before = cycle == log->first && log->head == at;
	if (is_before)
		log->head++;
	if (is_header && (is_before || !log->is_before)) {
		log->record = at;
		log->has_record = true;
		log->is_before = is_before;
	}
	return is_before || cycle + 1 == log->first;
}

static bool scan_log(const struct xfs *fs, struct log *log)
{
	uint64_t at, size = fs->log_blocks * LOG_BLOCK;
	unsigned char *piece = malloc(LOG_PIECE);
	bool ok = piece;
	size_t length, i;

	for (at = 0; ok && at < size; at += length) {
		length = size - at < LOG_PIECE ? size - at : LOG_PIECE;
		ok = volume_read(fs->volume, piece, length, fs->log + at);
		for (i = 0; ok && i < length; i += LOG_BLOCK)
			ok = add_block(log, piece + i, (at + i) / LOG_BLOCK);
	}
	free(piece);
	return ok && log->has_record;
}

/* Check that the log ends with an unmount record: then there is nothing to replay. */
static bool was_unmounted(const struct xfs *fs)
{
	unsigned char header[LOG_BLOCK], operation[LOG_BLOCK];
	struct log log = { 0 };
	uint64_t blocks = 1, size, at;

	if (!scan_log(fs, &log))
		return false;
	at = log.record;
	if (!volume_read(fs->volume, header, sizeof(header), fs->log + at * LOG_BLOCK) ||
	    memcmp(header + 304, fs->uuid, UUID))
		return false;
	size = get32(header, 320);
	if (get32(header, 8) & LOG_VERSION_2 && size > LOG_HEADER)
		blocks = (size + LOG_HEADER - 1) / LOG_HEADER;
	at += blocks;
	if (!volume_read(fs->volume, operation, sizeof(operation),
			 fs->log + at % fs->log_blocks * LOG_BLOCK))
		return false;
	at += (get32(header, 12) + LOG_BLOCK - 1) / LOG_BLOCK;
	return get32(header, 40) == 1 && operation[9] & LOG_UNMOUNT &&
	       at % fs->log_blocks == log.head % fs->log_blocks;
}

/* Read and check a block of a group's tree. */
static bool read_block(const struct xfs *fs, uint32_t group, uint32_t block, uint32_t level)
{
	uint64_t at = (uint64_t)group * fs->group_blocks + block;

	return block < fs->group_blocks &&
	       read_checked(fs, at * fs->blocksize, fs->blocksize, BNOBT_CRC) &&
	       get32(fs->block, 0) == BNOBT_MAGIC && get16(fs->block, 4) == level &&
	       get64(fs->block, 16) == at * (fs->blocksize / BASIC_BLOCK) && is_own(fs, 32) &&
	       get32(fs->block, 48) == group;
}

/* Add the records of a leaf: first block and number of blocks, in ascending order. */
static bool add_leaf(const struct xfs *fs, uint32_t group, uint64_t *after, uint64_t *sum)
{
	size_t i, count = get16(fs->block, 6);
	uint64_t base = (uint64_t)group * fs->group_blocks;
	uint64_t start, length;

	if (count > (fs->blocksize - BNOBT_HEAD) / 8)
		return false;
	for (i = 0; i < count; i++) {
		start = get32(fs->block, BNOBT_HEAD + i * 8);
		length = get32(fs->block, BNOBT_HEAD + i * 8 + 4);
		if (start < *after || start + length > fs->group_blocks ||
		    base + start + length > fs->blocks ||
		    !volume_unused(fs->volume, (base + start) * fs->blocksize,
				   (base + start + length) * fs->blocksize))
			return false;
		*after = start + length;
		*sum += length;
	}
	return true;
}

static bool add_group(const struct xfs *fs, uint32_t group)
{
	const size_t first = BNOBT_HEAD + (fs->blocksize - BNOBT_HEAD) / 12 * 8;
	uint64_t at = (uint64_t)group * fs->group_blocks * fs->blocksize + fs->sector;
	uint64_t after = 0, sum = 0;
	uint32_t block, level, total;

	if (!read_checked(fs, at, fs->sector, AGF_CRC) || get32(fs->block, 0) != AGF_MAGIC ||
	    get32(fs->block, 8) != group || !is_own(fs, 64))
		return false;
	block = get32(fs->block, 16);
	level = get32(fs->block, 28);
	total = get32(fs->block, 52);
	if (!level || level > LEVELS_MAX)
		return false;
	/* Descend to the first leaf, then follow the links from leaf to leaf. */
	while (--level) {
		if (!read_block(fs, group, block, level))
			return false;
		block = get32(fs->block, first);
	}
	while (block != NO_BLOCK) {
		/* Later leaves must have later blocks, so the loop ends. */
		if (!read_block(fs, group, block, 0) ||
		    !add_leaf(fs, group, &after, &sum))
			return false;
		block = get16(fs->block, 6) ? get32(fs->block, 12) : NO_BLOCK;
	}
	return sum == total;
}

/**
 * xfs_unused - record the unused blocks of a file system
 * @volume: the volume
 *
 * Return: false if it was not cleanly unmounted, is damaged, or has unknown features.
 */
bool xfs_unused(const struct volume *volume)
{
	struct xfs fs = { .volume = volume, .block = malloc(BLOCK_MAX) };
	uint32_t group;
	bool ok;

	ok = fs.block && !volume->in_use && read_superblock(&fs) && was_unmounted(&fs);
	for (group = 0; ok && group < fs.groups; group++)
		ok = add_group(&fs, group);
	free(fs.block);
	return ok;
}
