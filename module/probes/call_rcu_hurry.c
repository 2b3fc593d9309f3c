// SPDX-License-Identifier: GPL-2.0-only
/* 7651d6b25086 ("rcu: Make call_rcu() lazy to save power") */
#include <linux/rcupdate.h>

void probe(struct rcu_head *head, rcu_callback_t func);
void probe(struct rcu_head *head, rcu_callback_t func)
{
	call_rcu_hurry(head, func);
}
