/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_GUARD_H
#define RXADM_GUARD_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * A process of its own that undoes what this one leaves half done, however this one
 * ends: it makes a RAM disk and removes it, or clears one that was empty.
 */
struct guard {
	int control;
	int socket;
	pid_t process;
	int index;
	bool made;	/* it is to be removed, else cleared */
};

int guard_create(struct guard *guard, int control, struct rxd_create *arg);
int guard_empty(struct guard *guard, int control, int index);
void guard_keep(struct guard *guard);
void guard_undo(struct guard *guard);

#endif /* RXADM_GUARD_H */
