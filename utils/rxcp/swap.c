// SPDX-License-Identifier: GPL-2.0-only
/*
 * Swap areas, of which only the header is used while nobody swaps to them.
 */
#include <string.h>

#include "volume.h"

#define PAGE_MIN	4096
#define PAGE_MAX	65536
#define VERSION_AT	1024	/* boot code is before it */
#define LAST_PAGE_AT	1028

/**
 * swap_unused - note what a swap area does not use
 * @volume: the volume
 *
 * Return: false if it is in use, or holds a hibernated system, which has another
 * signature.
 */
bool swap_unused(const struct volume *volume)
{
	static const char signature[] = "SWAPSPACE2";
	const size_t length = sizeof(signature) - 1;
	uint32_t version, last_page;
	char header[PAGE_MAX];
	uint64_t page;

	if (volume->in_use || !volume_read(volume, header, sizeof(header), 0))
		return false;
	for (page = PAGE_MIN; page <= PAGE_MAX; page *= 2)
		if (!memcmp(header + page - length, signature, length))
			break;
	memcpy(&version, header + VERSION_AT, sizeof(version));
	memcpy(&last_page, header + LAST_PAGE_AT, sizeof(last_page));
	return page <= PAGE_MAX && version == 1 &&
	       volume_unused(volume, page, (last_page + UINT64_C(1)) * page);
}
