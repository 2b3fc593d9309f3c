/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_OPENERS_H
#define RXADM_OPENERS_H

#include <sys/types.h>

char *openers_read(dev_t number);

#endif /* RXADM_OPENERS_H */
