/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_GUARD_H
#define RXADM_GUARD_H

#include <linux/rxd.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A process of its own that undoes what this one leaves half done, however this one
 * ends: it makes a RAM disk and removes it, or empties one that was empty.
 */
struct guard {
	int fd;			/* the control node, or the disk to be emptied */
	int socket;
	pid_t process;
	int index;		/* of the disk to be removed */
	uint64_t size;		/* of the disk to be emptied, or 0 */
	const char *record;	/* to be removed before the disk is emptied, or NULL */
};

int guard_create(struct guard *guard, int control, struct rxd_create *arg);
int guard_empty(struct guard *guard, int disk, uint64_t size, const char *record);
void guard_keep(struct guard *guard);
void guard_undo(struct guard *guard);

#endif /* RXADM_GUARD_H */
