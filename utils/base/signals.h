/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <stdbool.h>

void signals_block(void);
void signals_allow(void);
bool signals_are_blocked(void);
bool signals_pending(void);

#endif /* BASE_SIGNALS_H */
