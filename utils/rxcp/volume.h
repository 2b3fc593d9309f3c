/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_VOLUME_H
#define RXCP_VOLUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* An unused range of a disk, in bytes. */
struct range {
	uint64_t start;
	uint64_t end;
};

/* All unused ranges of a disk. */
struct unused {
	uint64_t size;		/* of the disk */
	int held;		/* the disk, open exclusively, or -1 */
	struct range *ranges;
	size_t count;
	size_t room;
	size_t next;		/* first range that may end after the last @from */
};

/**
 * struct volume - a partition, or a disk without partitions
 * @path: the disk or image, below /proc/self/fd
 * @fd: the disk or image, open for reading through the page cache
 * @offset: offset of the volume on the disk
 * @size: size of the volume in bytes
 * @sector: bytes of a logical block of the disk
 * @in_use: the disk or a partition of it is open exclusively, or is_backing()
 * @unused: where to record unused ranges
 */
struct volume {
	const char *path;
	int fd;
	uint64_t offset;
	uint64_t size;
	unsigned int sector;
	bool in_use;
	struct unused *unused;
};

bool volume_read(const struct volume *volume, void *data, size_t length, uint64_t offset);
bool volume_unused(const struct volume *volume, uint64_t start, uint64_t end);

bool has_blocks_of(const struct stat *one, const struct stat *two);
bool have_common_blocks(const struct stat *one, uint64_t size_one, const struct stat *two,
			uint64_t size_two);
bool is_backing(const struct stat *st);

bool ext_unused(const struct volume *volume);
bool swap_unused(const struct volume *volume);
bool xfs_unused(const struct volume *volume);

#endif /* RXCP_VOLUME_H */
