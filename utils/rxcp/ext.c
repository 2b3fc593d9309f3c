// SPDX-License-Identifier: GPL-2.0-only
/*
 * Free blocks of ext2, ext3 and ext4.
 */
#include <ext2fs/ext2fs.h>
#include <inttypes.h>
#include <stdio.h>

#include "volume.h"

/* Trust the bitmap only after a clean unmount: no errors, and no journal to replay. */
static int is_settled(ext2_filsys fs)
{
	return fs->super->s_state & EXT2_VALID_FS && !(fs->super->s_state & EXT2_ERROR_FS) &&
	       !ext2fs_has_feature_journal_needs_recovery(fs->super) &&
	       !ext2fs_has_feature_journal_dev(fs->super);
}

static bool add_free(const struct volume *volume, ext2_filsys fs)
{
	blk64_t used = fs->super->s_first_data_block, last = ext2fs_blocks_count(fs->super) - 1;
	blk64_t unused;

	while (used <= last &&
	       !ext2fs_find_first_zero_block_bitmap2(fs->block_map, used, last, &unused)) {
		if (ext2fs_find_first_set_block_bitmap2(fs->block_map, unused, last, &used))
			used = last + 1;
		if (!volume_unused(volume, unused * fs->blocksize, used * fs->blocksize))
			return false;
	}
	return true;
}

/**
 * ext_unused - record the unused blocks of a file system
 * @volume: the volume
 *
 * Return: false if its bitmap cannot be trusted.
 */
bool ext_unused(const struct volume *volume)
{
	char options[40];
	ext2_filsys fs;
	bool ok;

	snprintf(options, sizeof(options), "offset=%" PRIu64, volume->offset);
	if (ext2fs_open2(volume->path, options, EXT2_FLAG_64BITS, 0, 0, unix_io_manager, &fs))
		return false;
	ok = is_settled(fs) &&
	     ext2fs_blocks_count(fs->super) <= volume->size / fs->blocksize &&
	     !ext2fs_read_block_bitmap(fs) && add_free(volume, fs);
	ext2fs_free(fs);
	return ok;
}
