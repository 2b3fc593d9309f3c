/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_USERS_H
#define RXADM_USERS_H

#include <sys/types.h>

#include "error.h"

char *users_of(dev_t number);
enum exit_code signature_check(const char *what, const char *path);

#endif /* RXADM_USERS_H */
