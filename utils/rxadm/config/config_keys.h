/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_CONFIG_KEYS_H
#define RXADM_CONFIG_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "kernel/cache_map.h"
#include "kernel/create.h"
#include "kernel/nvmet_disk.h"

enum config_kind {
	CONFIG_RAMDISK,
	CONFIG_CACHE,
	CONFIG_EXPORT,
	CONFIG_KINDS
};

enum config_key {
	CONFIG_ADDRESS,
	CONFIG_ADVISE,
	CONFIG_ALLOW_ANY_HOST,
	CONFIG_ALLOW_HOST,
	CONFIG_AUTOSAVE,
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
	CONFIG_KEEP,
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

/* The value of a key. @text is NULL if the key is not given. */
struct config_value {
	char *text;
	unsigned int line;
};

struct config_section {
	enum config_kind kind;
	char *name;
	char *file;
	unsigned int line;
	bool vendor;		/* is a vendor default */
	bool broken;		/* has an error */
	bool unclear;		/* has a line that is not understood */
	bool noauto;		/* is selected only by its name */
	bool remote;		/* needs the network; set by rxd-generator only */
	int compress;		/* level for the image, or 0 */
	unsigned int autosave;	/* seconds between two saves to the image, or 0 */
	unsigned int keep;	/* states in the image; 0: not given */
	size_t order;		/* its place among the sections */
	dev_t folder;		/* the file system that the image is on, or 0 */
	struct config_value values[CONFIG_KEYS];
	struct create_request disk;
	struct map_request map;	/* of a cache; @cache is not set */
	struct export_request export;	/* @device is not set */
	char *host_names;	/* the text that export.hosts points into */
};

struct config {
	uint64_t ram;		/* bytes that percentages refer to; set by the caller */
	bool vendor;		/* the vendor defaults are being read */
	struct config_section **sections;
	size_t count;
	char **errors;		/* each begins with FILE:LINE, or FILE */
	size_t error_count;
	bool unclear;		/* an error belongs to no section */
};

#define CONFIG_BLANKS	" \t\r\n\v\f"
#define CONFIG_NAME_MAX	64
#define IN(kind)	(1U << (kind))

struct config_key_rule {
	const char *name;
	unsigned int kinds;		/* kinds of sections that may have it */
	unsigned int required;		/* kinds of sections that must have it */
	unsigned int unique;		/* keys of the same number share no value; 0: no rule */
	char *(*read)(const struct config *config, struct config_section *section,
		      const char *text);
};

extern const struct config_key_rule config_keys[CONFIG_KEYS];

bool config_name_is_allowed(const char *name);
bool config_find_kind(const char *name, enum config_kind *kind);

const char *config_kind_name(enum config_kind kind);
char *config_section_title(const struct config_section *section);
void config_section_uuid(const struct config_section *section, uint8_t *uuid);
char *config_section_damage(const struct config_section *section);
bool config_is_called(const struct config_section *section, const char *name);
const struct config_section *config_find(const struct config *config, const char *name);

#endif /* RXADM_CONFIG_CONFIG_KEYS_H */
