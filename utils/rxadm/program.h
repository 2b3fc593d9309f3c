/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_PROGRAM_H
#define RXADM_PROGRAM_H

#include "error.h"

char *program_find(const char *name);
char *program_run(char *const argv[]);

#endif /* RXADM_PROGRAM_H */
