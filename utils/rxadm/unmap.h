/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_UNMAP_H
#define RXADM_UNMAP_H

#include <stdbool.h>

#include "error.h"

enum exit_code cache_closed_check(const char *name);
enum exit_code cache_unmap(const char *name, bool dry_run);

#endif /* RXADM_UNMAP_H */
