/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_H
#define RXADM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "create.h"
#include "export.h"
#include "map.h"

#define CONFIG_FILE	"/etc/rxd.conf"

enum config_kind {
	CONFIG_RAMDISK,
	CONFIG_CACHE,
	CONFIG_EXPORT,
	CONFIG_KINDS
};

enum config_key {
	CONFIG_ADDRESS,
	CONFIG_ALLOW_ANY_HOST,
	CONFIG_ALLOW_HOST,
	CONFIG_BLOCK_SIZE,
	CONFIG_COMPRESS,
	CONFIG_DETECT_ZEROES,
	CONFIG_DEVICE,
	CONFIG_DHCHAP_KEY,
	CONFIG_FOLIO_SIZE,
	CONFIG_FORCE,
	CONFIG_FS,
	CONFIG_HOTLIST,
	CONFIG_IMAGE,
	CONFIG_INDEX,
	CONFIG_LOGICAL_BLOCK_SIZE,
	CONFIG_MEM_LIMIT,
	CONFIG_MODE,
	CONFIG_MOUNT,
	CONFIG_NOAUTO,
	CONFIG_NODE,
	CONFIG_NQN,
	CONFIG_OPTIONS,
	CONFIG_ORIGIN,
	CONFIG_OVERCOMMIT,
	CONFIG_PORT,
	CONFIG_RESERVE,
	CONFIG_SEQ_CUTOFF,
	CONFIG_SIZE,
	CONFIG_TRANSPORT,
	CONFIG_UUID,
	CONFIG_KEYS
};

/* What a key was given: NULL if it was not. */
struct config_value {
	char *text;
	unsigned int line;
};

struct config_section {
	enum config_kind kind;
	char *name;
	char *file;
	unsigned int line;
	bool broken;		/* there is an error in it */
	bool noauto;		/* it counts only where it is named */
	int compress;		/* level for the image, or 0 */
	size_t order;		/* its place among the sections */
	dev_t folder;		/* the file system that the image is on, or 0 */
	struct config_value values[CONFIG_KEYS];
	struct create_request disk;
	struct map_request map;	/* of a cache; without its cache device */
	struct export_request export;	/* without its device */
	char *host_names;	/* what the hosts of the export point into */
};

struct config {
	uint64_t ram;		/* what percentages refer to; the caller sets it */
	struct config_section **sections;
	size_t count;
	char **errors;		/* each begins with FILE:LINE, or FILE */
	size_t error_count;
};

void config_read(struct config *config, const char *path, FILE *file);
void config_check(struct config *config);
void config_replace(struct config *config, struct config *others);
void config_free(struct config *config);
__printf(2, 3)
void config_error(struct config *config, const char *format, ...);

const char *config_kind_name(enum config_kind kind);
bool config_is_called(const struct config_section *section, const char *name);
const struct config_section *config_find(const struct config *config, const char *name);

void config_load(struct config *config, const char *path);

#endif /* RXADM_CONFIG_H */
