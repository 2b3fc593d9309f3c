/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_DM_H
#define DEVICE_DM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define LINEAR_TARGET	"linear"

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
void dm_end(void);

enum exit_code mapping_read(const char *name, enum mapping_line line, struct mapping *mapping);
void mapping_release(struct mapping *mapping);
enum exit_code mapping_names(char ***names);
void mapping_names_free(char **names);

bool target_has_version(const char *target, uint32_t major, uint32_t minor);

enum exit_code mapping_name_check(const char *name);
enum exit_code mapping_create(const char *name, const char *uuid, uint64_t sectors,
			      const char *target, const char *params, dev_t *number);
enum exit_code mapping_create_linear(const char *name, const char *prefix, const char *what,
				     const char *path);
enum exit_code mapping_remove(const char *name);
enum exit_code mapping_check_replaceable(const char *name, bool *read_only);
enum exit_code mapping_replace(const char *name, uint64_t sectors, const char *target,
			       const char *params, const char *old);
int mapping_ask(const char *name, const char *message, char **answer);
enum exit_code mapping_refused(const char *name, const char *target, int err, int kmsg);

#endif /* DEVICE_DM_H */
