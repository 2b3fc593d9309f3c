/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_PROGRESS_H
#define RXADM_PROGRESS_H

#include "../copy/progress.h"
#include "error.h"

enum exit_code progress_argument(const char *text, enum progress_mode *mode);

#endif /* RXADM_PROGRESS_H */
