/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CACHES_H
#define RXADM_CACHES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "rxcache.h"

struct cache {
	char *name;
	dev_t number;
	struct rxcache_table table;
};

struct caches {
	struct cache *list;
	size_t count;
};

enum exit_code caches_read(struct caches *caches);
void caches_free(struct caches *caches);
enum exit_code cache_find(const char *name, struct caches *caches, const struct cache **cache);

enum exit_code cache_status(const char *name, struct rxcache_status *status, uint64_t *sectors);

const char *mapping_name(const char *text);

#endif /* RXADM_CACHES_H */
