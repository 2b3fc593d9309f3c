/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IDENTITY_H
#define RXADM_IDENTITY_H

#include <stdint.h>

#include "config.h"

#define IDENTITY_TEXT	37	/* bytes of a UUID as text, with its NUL */

void section_uuid(const struct config_section *section, uint8_t *uuid);
const char *identity_text(const uint8_t *uuid, char *text);

#endif /* RXADM_IDENTITY_H */
