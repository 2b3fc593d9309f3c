// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's headers compile at all: without this no other probe means anything. */
#include <linux/module.h>
#include <linux/blkdev.h>

int probe;
