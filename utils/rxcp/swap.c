// SPDX-License-Identifier: GPL-2.0-only
/*
 * Swap areas. While one is not active, only its header is in use.
 */
#include <string.h>

#include "volume.h"

#define PAGE_MIN	4096
#define PAGE_MAX	65536
#define VERSION_AT	1024	/* after the boot code */
#define LAST_PAGE_AT	1028

/**
 * swap_unused - record the unused pages of a swap area
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
