/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_LINEAGE_H
#define RXADM_LINEAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

enum exit_code lineage_set(dev_t disk, uint64_t id);
enum exit_code lineage_add(dev_t disk, uint64_t id);
enum exit_code lineage_forget(dev_t disk);
enum exit_code lineage_suspend(dev_t disk);
void lineage_restore(dev_t disk);
bool lineage_has(dev_t disk, uint64_t id);
char *lineage_path(dev_t disk);

#endif /* RXADM_LINEAGE_H */
