/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_CONFIG_H
#define RXADM_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdio.h>

#include "config/config_keys.h"

#define CONFIG_FILE	"/etc/rxd.conf"
#define CONFIG_VENDOR	"/usr/lib/rxd.conf.d"

const char *config_vendor(const char *path);
void config_read(struct config *config, const char *path, FILE *file, unsigned int lines);
struct config_section *config_section_find(const struct config *config, enum config_kind kind,
					   const char *name);
bool config_read_file(struct config *config, const char *path);
int config_read_folder(struct config *config, const char *folder, const char *masks);
void config_replace(struct config *config, struct config *others);
void config_truncate(struct config *config, size_t count);
void config_free(struct config *config);

__printf(2, 3)
void config_error(struct config *config, const char *format, ...);
void config_section_error(struct config *config, struct config_section *section,
			  unsigned int line, char *text);

#endif /* RXADM_CONFIG_CONFIG_H */
