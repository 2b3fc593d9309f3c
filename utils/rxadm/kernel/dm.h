/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_DM_H
#define RXADM_KERNEL_DM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct mapping {
	bool exists;
	dev_t number;
	unsigned int open_count;
	uint64_t sectors;	/* of its only segment */
	char *uuid;
	char *target;	/* of its only segment; NULL: none, or several */
	char *params;	/* the segment's table or status line */
};

enum mapping_line {
	MAPPING_TABLE,
	MAPPING_STATUS,
};

enum exit_code dm_connect(void);
enum exit_code dm_begin(void);
void dm_end(void);

enum exit_code mapping_read(const char *name, enum mapping_line line, struct mapping *mapping);
void mapping_release(struct mapping *mapping);
enum exit_code mapping_names(char ***names);
void mapping_names_free(char **names);

bool target_has_version(const char *target, uint32_t major, uint32_t minor);

/* What follows the name of a cache. */
#define ADVICE_TOO_OLD \
	"the loaded target rxcache is older than version 1.4.0; unmap all caches and load the new module"

bool target_can_advise(void);
bool cache_can_advise(const char *name);

enum exit_code mapping_name_check(const char *name);
enum exit_code mapping_create(const char *name, const char *uuid, uint64_t sectors,
			      const char *target, const char *params, dev_t *number);
enum exit_code mapping_remove(const char *name);
int mapping_ask(const char *name, const char *message, char **answer);
enum exit_code mapping_message(const char *name, const char *message, char **answer);

#endif /* RXADM_KERNEL_DM_H */
