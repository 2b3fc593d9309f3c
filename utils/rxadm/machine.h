/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_MACHINE_H
#define RXADM_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

uint64_t machine_ram(void);
uint64_t machine_available(void);
char *machine_nodes(void);

enum exit_code privilege_check(void);
bool module_is_loaded(const char *name);
enum exit_code module_load(const char *name);

enum exit_code lock_take(void);
void lock_give(void);
enum exit_code lock_take_one(uint64_t key, const char *what);
void lock_give_one(uint64_t key);
void signals_block(void);
void signals_allow(void);

void pause_briefly(void);

#endif /* RXADM_MACHINE_H */
