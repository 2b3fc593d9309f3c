/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_SAY_H
#define RXCP_SAY_H

#include <stdbool.h>

__attribute__((format(printf, 1, 2)))
bool complain(const char *format, ...);

#endif /* RXCP_SAY_H */
