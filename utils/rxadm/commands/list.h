/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_COMMANDS_LIST_H
#define RXADM_COMMANDS_LIST_H

#include <stddef.h>

#include "kernel/caches.h"
#include "output/table.h"

void cache_columns_fill(struct table *table, size_t origin, size_t metadata, size_t counters,
			const struct cache *cache, const struct rxcache_status *status);

#endif /* RXADM_COMMANDS_LIST_H */
