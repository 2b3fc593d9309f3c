/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_PROMISE_H
#define RXC_PROMISE_H

#include <linux/types.h>

struct rxcache;

void rxc_promise_init(struct rxcache *c);
char *rxc_promise_table(struct rxcache *c);
void rxc_promise_resume(struct rxcache *c);
char *rxc_promise_min(struct rxcache *c, u64 bytes);
void rxc_promise_end(struct rxcache *c);

#endif /* RXC_PROMISE_H */
