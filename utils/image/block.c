// SPDX-License-Identifier: GPL-2.0-only
/*
 * The common parts of all blocks of images: magic, checksum, and the properties of the disk.
 */
#include <endian.h>
#include <string.h>
#include <xxhash.h>

#include "image/block.h"

#define SIZE_MAX_DISK	(1ULL << 48)
#define CHECKSUM_AT	(IMAGE_BLOCK - sizeof(uint64_t))

static uint64_t stored_checksum(const void *block)
{
	uint64_t checksum;

	memcpy(&checksum, (const char *)block + CHECKSUM_AT, sizeof(checksum));
	return le64toh(checksum);
}

bool block_is_intact(const void *block)
{
	return stored_checksum(block) == XXH3_64bits(block, CHECKSUM_AT);
}

bool block_has_magic(const void *block, const char *magic)
{
	return !memcmp(block, magic, BLOCK_MAGIC);
}

bool block_is_clear(const void *data, size_t size)
{
	const char *c = data;

	return !size || (!*c && !memcmp(c, c + 1, size - 1));
}

/* Complete a block with its magic and its checksum. */
void block_seal(void *block, const char *magic)
{
	uint64_t checksum;

	memcpy(block, magic, BLOCK_MAGIC);
	checksum = htole64(XXH3_64bits(block, CHECKSUM_AT));
	memcpy((char *)block + CHECKSUM_AT, &checksum, sizeof(checksum));
}

/* Extend a digest by a block. */
uint64_t block_digest(uint64_t digest, const void *block)
{
	uint64_t checksum = htole64(stored_checksum(block));

	return XXH3_64bits_withSeed(&checksum, sizeof(checksum), digest);
}

void block_put_start(struct block_start *out, uint32_t version, const struct image_header *header)
{
	*out = (struct block_start){
		.version = htole32(version),
		.disk_flags = htole32(header->disk_flags),
		.id = htole64(header->id),
		.size = htole64(header->size),
		.mem_limit = htole64(header->mem_limit),
		.logical_block_size = htole32(header->logical_block_size),
		.folio_size = htole32(header->folio_size),
	};
	memcpy(out->uuid, header->uuid, sizeof(out->uuid));
}

/**
 * block_get_start - read the properties of a disk
 * @in: the start of the block
 * @header: out: the properties
 *
 * Return: NULL, or what is wrong.
 */
const char *block_get_start(const struct block_start *in, struct image_header *header)
{
	*header = (struct image_header){
		.id = le64toh(in->id),
		.size = le64toh(in->size),
		.mem_limit = le64toh(in->mem_limit),
		.logical_block_size = le32toh(in->logical_block_size),
		.folio_size = le32toh(in->folio_size),
		.disk_flags = le32toh(in->disk_flags),
	};
	memcpy(header->uuid, in->uuid, sizeof(header->uuid));
	if (!header->size || header->size % IMAGE_PAGE || header->size > SIZE_MAX_DISK)
		return "the size of the disk is not one that a RAM disk can have";
	if (header->logical_block_size != 512 && header->logical_block_size != 4096)
		return "the logical block size is neither 512 nor 4096";
	if (header->folio_size != 1 << 12 && header->folio_size != 1 << 16 &&
	    header->folio_size != 1 << 21)
		return "the folio size is not 4K, 64K or 2M";
	if (header->mem_limit % IMAGE_PAGE)
		return "the memory limit is not a multiple of 4096";
	if (header->disk_flags & ~(IMAGE_DISK_RESERVE | IMAGE_DISK_DETECT_ZEROES))
		return "it has unknown flags";
	return NULL;
}
