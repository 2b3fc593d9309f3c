/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_NVMET_LOCKS_H
#define DEVICE_NVMET_LOCKS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "device/nvmet.h"

enum exit_code exports_lock(void);
void exports_unlock(void);
enum exit_code export_lock(const char *nqn);
void export_unlock(const char *nqn);
enum exit_code export_wait(const char *nqn, const char *device);

enum exit_code exports_read(struct nvmet_exports *exports);
void export_undo(const char *nqn);
enum exit_code export_take_back(const char *nqn, bool dry_run);
enum exit_code export_end(const char *nqn, const char *record, bool dry_run);
enum exit_code export_clean_up(const char *nqn);
enum exit_code exports_clean_up(const char *device);
enum exit_code exports_clean_up_shared(void);
enum exit_code export_find_left(const char *nqn, const char *device, bool *busy, bool *left);
char *nvmet_exports_of(dev_t number);

#endif /* DEVICE_NVMET_LOCKS_H */
