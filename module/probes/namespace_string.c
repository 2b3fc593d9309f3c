// SPDX-License-Identifier: GPL-2.0-only
/* cdd30ebb1b9f ("module: Convert symbol namespace to string literal") */
#include <linux/module.h>

/* Older kernels turn the argument into a string: "\"RXD\"" is two bytes longer. */
#undef MODULE_INFO
#define MODULE_INFO(tag, info) char tag##_probe[sizeof(info) == sizeof("RXD") ? 1 : -1]
MODULE_IMPORT_NS("RXD");
