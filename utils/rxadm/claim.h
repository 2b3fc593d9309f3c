/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CLAIM_H
#define RXADM_CLAIM_H

#include "control.h"

enum exit_code claim(int control, const struct device *dev, int index, int flags,
		     struct rxd_query *query, int *fd);

#endif /* RXADM_CLAIM_H */
