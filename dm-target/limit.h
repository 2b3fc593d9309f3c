/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_LIMIT_H
#define RXC_LIMIT_H

#include <linux/types.h>

struct rxcache;

void rxc_limit_init(struct rxcache *c);
char *rxc_limit_check(const struct rxcache *c, u64 bytes, unsigned long least);
void rxc_limit_set(struct rxcache *c, u64 bytes);
void rxc_limit_apply(struct rxcache *c);
void rxc_limit_resume(struct rxcache *c);
void rxc_limit_suspend(struct rxcache *c);

#endif /* RXC_LIMIT_H */
