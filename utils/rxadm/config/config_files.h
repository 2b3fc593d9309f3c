/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_CONFIG_FILES_H
#define RXADM_CONFIG_CONFIG_FILES_H

#include <stdbool.h>

#include "config/config_keys.h"

/* What rxd-generator adds to the service of a section, and to that of one that was started. */
#define CONFIG_DROP_IN		"50-rxd.conf"
#define CONFIG_DROP_IN_STARTED	"60-rxd-started.conf"
bool config_load(struct config *config, const char *path, const char *vendor);
void config_check(struct config *config);

char *config_record_path(const struct config_section *section);
char *config_record_other(const struct config_section *section, const char *path);
void config_record_read_all(struct config *config, const char *folder, const char *path);

#endif /* RXADM_CONFIG_CONFIG_FILES_H */
