// SPDX-License-Identifier: GPL-2.0-only
/*
 * Blocks that an ext2, ext3 or ext4 file system does not use. They may hold anything,
 * which nobody will ever read.
 */
#include <ext2fs/ext2fs.h>
#include <stdlib.h>

#include "unused.h"

struct unused {
	ext2_filsys fs;
	uint64_t size;		/* of the file or device, which may be larger */
	uint64_t begin;		/* before it is no block of the file system */
	uint64_t end;		/* nor from here on */
};

/* What is in use, or was not unmounted, may be more than its bitmap says. */
static int is_settled(ext2_filsys fs)
{
	return fs->super->s_state & EXT2_VALID_FS && !(fs->super->s_state & EXT2_ERROR_FS) &&
	       !ext2fs_has_feature_journal_needs_recovery(fs->super) &&
	       !ext2fs_has_feature_journal_dev(fs->super);
}

/**
 * unused_open - read the block bitmap of a file system
 * @path: the device or image
 * @size: its bytes
 *
 * Return: what unused_next() takes; NULL if there is no such file system, or its
 * bitmap cannot be trusted.
 */
struct unused *unused_open(const char *path, uint64_t size)
{
	struct unused *unused = calloc(1, sizeof(*unused));
	ext2_filsys fs;

	if (!unused)
		return NULL;
	if (ext2fs_open(path, EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs)) {
		free(unused);
		return NULL;
	}
	unused->fs = fs;
	unused->size = size;
	unused->begin = (uint64_t)fs->super->s_first_data_block * fs->blocksize;
	unused->end = ext2fs_blocks_count(fs->super) * fs->blocksize;
	if (!is_settled(fs) || unused->end > size || ext2fs_read_block_bitmap(fs)) {
		unused_close(unused);
		return NULL;
	}
	return unused;
}

/**
 * unused_next - find what is used
 * @unused: the file system
 * @from: from this byte on
 * @start: out: its first byte; the size of all, if there is nothing more
 * @end: out: where it ends
 */
void unused_next(struct unused *unused, uint64_t from, uint64_t *start, uint64_t *end)
{
	ext2fs_block_bitmap map = unused->fs->block_map;
	uint64_t blocksize = unused->fs->blocksize;
	blk64_t last = unused->end / blocksize - 1;
	blk64_t block;

	*start = from;
	*end = unused->size;
	if (from >= unused->end)
		return;
	if (from < unused->begin) {
		*end = unused->begin;
		return;
	}
	if (ext2fs_find_first_set_block_bitmap2(map, from / blocksize, last, &block)) {
		*start = unused->end;
		return;
	}
	if (block * blocksize > from)
		*start = block * blocksize;
	if (ext2fs_find_first_zero_block_bitmap2(map, block, last, &block))
		*end = unused->end;
	else
		*end = block * blocksize;
}

void unused_close(struct unused *unused)
{
	if (!unused)
		return;
	ext2fs_free(unused->fs);
	free(unused);
}
