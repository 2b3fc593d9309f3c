/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_KEYS_H
#define RXADM_CONFIG_KEYS_H

#include "config.h"

#define CONFIG_BLANKS	" \t\r\n\v\f"
#define CONFIG_NAME_MAX	64
#define IN(kind)	(1U << (kind))

struct config_kind_rule {
	const char *name;
	char *(*check)(const struct config *config, const struct config_section *section);
};

struct config_key_rule {
	const char *name;
	unsigned int kinds;		/* the kinds of sections that it is for */
	unsigned int required;		/* those that cannot do without it */
	unsigned int unique;		/* keys of one number share no value; 0: they may */
	char *(*read)(const struct config *config, struct config_section *section,
		      const char *text);
};

extern const struct config_kind_rule config_kinds[CONFIG_KINDS];
extern const struct config_key_rule config_keys[CONFIG_KEYS];

bool config_name_is_allowed(const char *name);
bool config_find_kind(const char *name, enum config_kind *kind);

#endif /* RXADM_CONFIG_KEYS_H */
