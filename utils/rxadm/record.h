/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_RECORD_H
#define RXADM_RECORD_H

#include "config.h"
#include "error.h"

/* Like the RAM disks, what is in it is gone after a reboot. */
#define RECORD_FOLDER	"/run/rxadm"

int record_make_folder(void);
enum exit_code record_write(const struct config_section *section, dev_t folder,
			    const char *path);
void record_remove(const struct config_section *section);
char *record_path(const struct config_section *section);
char *record_other(const struct config_section *section, const char *path);
char *record_absolute(const char *path);
void record_read_all(struct config *config, const char *folder, const char *path);

#endif /* RXADM_RECORD_H */
