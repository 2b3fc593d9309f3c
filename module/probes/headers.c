// SPDX-License-Identifier: GPL-2.0-only
/* Test that the kernel headers compile. Otherwise the other probes mean nothing. */
#include <linux/module.h>
#include <linux/blkdev.h>

int probe;
