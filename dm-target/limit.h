/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_LIMIT_H
#define RXC_LIMIT_H

#include <linux/gfp.h>
#include <linux/types.h>

struct rxcache;

void rxc_limit_init(struct rxcache *c);
char *rxc_limit_check(const struct rxcache *c, u64 bytes, unsigned long least);
char *rxc_limit_check_min(const struct rxcache *c, u64 bytes, u64 size, unsigned long least);
unsigned long rxc_limit_most(const struct rxcache *c);
unsigned long rxc_limit_lent(const struct rxcache *c);
void rxc_limit_count_taken(struct rxcache *c);
gfp_t rxc_limit_gfp(struct rxcache *c, unsigned long nr, gfp_t gfp);
char *rxc_limit_set(struct rxcache *c, u64 bytes);
char *rxc_limit_set_min(struct rxcache *c, u64 bytes);
void rxc_limit_begin(struct rxcache *c);
void rxc_limit_take_over(struct rxcache *c, struct rxcache *old);
void rxc_limit_resume(struct rxcache *c);
void rxc_limit_suspend(struct rxcache *c);
void rxc_limit_end(struct rxcache *c);

#endif /* RXC_LIMIT_H */
