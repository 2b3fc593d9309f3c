/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_UNFINISHED_H
#define RXADM_UNFINISHED_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

enum exit_code unfinished_begin(const uint8_t *uuid);
void unfinished_end(const uint8_t *uuid);
bool unfinished(const uint8_t *uuid);

#endif /* RXADM_UNFINISHED_H */
