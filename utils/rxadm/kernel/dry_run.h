/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_DRY_RUN_H
#define RXADM_KERNEL_DRY_RUN_H

#include <linux/rxd.h>
#include <stdbool.h>

void dry_run_begin(void);
int dry_run_check_create(int fd, const struct rxd_create *arg);
int dry_run_create(int fd, const struct rxd_create *arg);
int dry_run_clone(int fd, const struct rxd_clone *arg);
int dry_run_reset(int fd, const struct rxd_reset *arg);
int dry_run_resize(int fd, const struct rxd_resize *arg, bool quiet);
int dry_run_discard(int fd, unsigned long command, const struct rxd_remove *arg);

#endif /* RXADM_KERNEL_DRY_RUN_H */
