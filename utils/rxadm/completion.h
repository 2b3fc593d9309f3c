/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_COMPLETION_H
#define RXADM_COMPLETION_H

/* The scripts, which the Makefile makes strings of. */
extern const char completion_bash[];
extern const char completion_fish[];
extern const char completion_zsh[];

#endif /* RXADM_COMPLETION_H */
