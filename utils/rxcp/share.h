/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_SHARE_H
#define RXCP_SHARE_H

#include <stdbool.h>

#include "source.h"
#include "target.h"

bool share_data(const struct target *target, const struct source *source, int *err);

#endif /* RXCP_SHARE_H */
