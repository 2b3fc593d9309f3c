/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_HOTLIST_H
#define RXADM_HOTLIST_H

#include "error.h"

enum exit_code hotlist_save(const char *name, const char *path);

#endif /* RXADM_HOTLIST_H */
