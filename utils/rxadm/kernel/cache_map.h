/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_CACHE_MAP_H
#define RXADM_KERNEL_CACHE_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct map_request {
	const char *cache;	/* NULL, in a dry run: a RAM disk that would be made */
	const unsigned char *uuid;	/* that the RAM disk must have, or NULL */
	const char *origin;
	const char *name;	/* NULL: derive it from the origin */
	const char *mode;
	uint64_t block_size;
	uint64_t seq_cutoff;
	const char *size_text;	/* of an elastic cache, or of a RAM disk to be made, for messages */
	uint64_t size;		/* of the RAM disk to be made for the cache, with @cache NULL */
	uint64_t min_size;	/* memory beyond it is lent; 0: none is */
	bool overcommit;	/* do not count the RAM disk towards the share of memory */
	bool advise;
	bool force;
	const char *force_text;	/* how the user sets @force, for messages */
	bool dry_run;		/* only check, and print what would be done */
};

enum exit_code cache_check_size(const char *what, const char *name, uint64_t size,
				uint64_t block_size);
enum exit_code cache_lock_origin(dev_t origin);
void cache_unlock_origin(dev_t origin);
enum exit_code cache_lock(const char *name);
enum exit_code cache_map(int control, const struct map_request *request, char **path);

enum exit_code cache_closed_check(const char *name);
enum exit_code cache_unmap_check(const char *name);
enum exit_code cache_unmap(const char *name, bool dry_run);

#endif /* RXADM_KERNEL_CACHE_MAP_H */
