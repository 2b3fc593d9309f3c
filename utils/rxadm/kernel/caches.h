/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_CACHES_H
#define RXADM_KERNEL_CACHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "device/device.h"
#include "kernel/rxcache.h"

struct cache {
	char *name;
	dev_t number;
	struct rxcache_table table;
};

struct caches {
	struct cache *list;
	size_t count;
};

/* Minor versions of the target that have a message. */
#define VERSION_SIZE	3
#define VERSION_ADVISE	4
#define VERSION_MIN_SIZE	5

/* What follows the name of a cache. */
#define ADVICE_TOO_OLD \
	"the loaded target rxcache is older than version 1.4.0; unmap all caches and load the new module"

enum exit_code dm_begin(void);
bool target_can(unsigned int minor);
bool cache_can_advise(const char *name);
enum exit_code mapping_message(const char *name, const char *message, char **answer);

enum exit_code caches_read(struct caches *caches);
void caches_free(struct caches *caches);
enum exit_code caches_check_unmapped(const struct caches *caches, const struct device *dev);
enum exit_code cache_find(const char *name, struct caches *caches, const struct cache **cache);

enum exit_code cache_status(const char *name, struct rxcache_status *status, uint64_t *sectors);
enum exit_code cache_query(const char *name, struct rxcache_status *status, uint64_t *sectors);

enum exit_code cache_message(const char *name, const char *message, bool dry_run);
enum exit_code cache_set(const char *name, const uint64_t *seq_cutoff, const bool *advise,
			 const bool *measure, bool dry_run);
enum exit_code caches_reset_stats(char *const *names, bool dry_run);

const char *mapping_name(const char *text);

enum exit_code latency_read(const char *name, struct latency *latency);
void latency_note_off(const char *name);

#endif /* RXADM_KERNEL_CACHES_H */
