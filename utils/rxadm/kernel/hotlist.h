/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_HOTLIST_H
#define RXADM_KERNEL_HOTLIST_H

#include <stdbool.h>

#include "base/error.h"
#include "kernel/rxcache.h"

enum exit_code hotlist_save(const char *name, const char *path);
enum exit_code hotlist_warm(const char *name, const char *path, bool background);

enum exit_code advice_read(const char *name, struct advice *advice);

#endif /* RXADM_KERNEL_HOTLIST_H */
