/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IMAGE_BLOCK_H
#define IMAGE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The common parts of all blocks of images. All numbers are little-endian; reserved bytes
 * are zero. Each block ends with the checksum of its preceding bytes.
 */
#define IMAGE_MAGIC		"RXDIMAGE"
#define IMAGE_BLOCK		4096
#define IMAGE_PAGE		4096		/* extents are multiples of it */
#define BLOCK_MAGIC		8

/* In image_header.disk_flags */
#define IMAGE_DISK_RESERVE		(1U << 0)
#define IMAGE_DISK_DETECT_ZEROES	(1U << 1)

/* Properties of the saved disk. The id is repeated in each frame. */
struct image_header {
	uint64_t id;
	uint64_t size;
	uint64_t mem_limit;
	uint32_t logical_block_size;
	uint32_t folio_size;
	uint32_t disk_flags;
	uint8_t uuid[16];
};

/* The first bytes of each block that describes a disk. */
struct block_start {
	char magic[BLOCK_MAGIC];
	uint32_t version;
	uint32_t disk_flags;
	uint64_t id;
	uint64_t size;
	uint64_t mem_limit;
	uint32_t logical_block_size;
	uint32_t folio_size;
	uint8_t uuid[16];
};

bool block_is_intact(const void *block);
bool block_is_clear(const void *data, size_t size);
void block_seal(void *block, const char *magic);
bool block_has_magic(const void *block, const char *magic);
uint64_t block_digest(uint64_t digest, const void *block);

void block_put_start(struct block_start *out, uint32_t version, const struct image_header *header);
const char *block_get_start(const struct block_start *in, struct image_header *header);

#endif /* IMAGE_BLOCK_H */
