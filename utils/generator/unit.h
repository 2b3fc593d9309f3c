/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef GENERATOR_UNIT_H
#define GENERATOR_UNIT_H

#include "config/config.h"

/* Make parts of the text of a unit. */
char *unit_begin(const struct config_section *section);
char *unit_name_of_path(const char *path, const char *suffix);

void unit_write(const char *folder, const char *name, char *text);
void unit_want(const char *folder, const char *target, const char *name, const char *file);

#endif /* GENERATOR_UNIT_H */
