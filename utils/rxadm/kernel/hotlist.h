/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_HOTLIST_H
#define RXADM_KERNEL_HOTLIST_H

#include <stdbool.h>

#include "base/error.h"

enum exit_code hotlist_save(const char *name, const char *path);
enum exit_code hotlist_warm(const char *name, const char *path, bool background);

#endif /* RXADM_KERNEL_HOTLIST_H */
