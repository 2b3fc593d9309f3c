/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef GENERATOR_MESSAGE_H
#define GENERATOR_MESSAGE_H

#include "base/common.h"

void say_to_kernel_log(void);
__printf(1, 2)
void complain(const char *format, ...);

#endif /* GENERATOR_MESSAGE_H */
