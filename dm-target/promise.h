/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_PROMISE_H
#define RXC_PROMISE_H

#include <linux/types.h>

struct rxc_index;
struct rxcache;

void rxc_promise_init(struct rxcache *c);
char *rxc_promise_table(struct rxcache *c);
bool rxc_promise_growth(struct rxcache *c, const struct rxc_index *larger);
void rxc_promise_resume(struct rxcache *c);
char *rxc_promise_min(struct rxcache *c, u64 bytes);
void rxc_promise_end(struct rxcache *c);

#endif /* RXC_PROMISE_H */
