/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_ADVISE_H
#define RXC_ADVISE_H

#include <linux/types.h>

struct rxcache;

int rxc_advise(struct rxcache *c, bool on);
void rxc_advise_adjust(struct rxcache *c);

#endif /* RXC_ADVISE_H */
