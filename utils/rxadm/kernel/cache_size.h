/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_CACHE_SIZE_H
#define RXADM_KERNEL_CACHE_SIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/size.h"
#include "kernel/cache_map.h"
#include "kernel/rxcache.h"

enum exit_code cache_check_minimum(const char *text, uint64_t min, uint64_t block_size);
enum exit_code cache_check_share(int control, const struct map_request *request);
enum exit_code cache_check_promise(const char *text, uint64_t bytes, dev_t disk);
uint64_t cache_minimum(uint64_t min, const struct rxcache_status *status);
enum exit_code cache_reload(const char *name, dev_t origin, const struct size_range *sizes,
			    bool dry_run);
enum exit_code cache_resize(const char *name, const char *text,
			    const struct rxcache_status *status, const struct size_range *wanted,
			    bool dry_run);

enum exit_code cache_map_sized(int control, const struct map_request *request, char **path);
enum exit_code cache_unmap_these(char *const *names, bool dry_run);

#endif /* RXADM_KERNEL_CACHE_SIZE_H */
