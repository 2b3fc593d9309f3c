/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

char *whole_file(const char *path);
char *first_line(const char *path);

uint64_t system_ram(void);
uint64_t system_ram_available(void);
char *system_nodes(void);
bool system_has_node(int node);

enum exit_code privilege_check(void);
bool path_is_same(const char *path, const char *other);
bool module_is_loaded(const char *name);
enum exit_code module_load(const char *name);

void pause_briefly(void);
void waits_tell(void);
bool waits_are_told(void);
void waits_share(void);
bool wait_is_over(unsigned int round);
bool wait_is_told(unsigned int round);
__printf(2, 3)
void pause_for(unsigned int round, const char *format, ...);

int kmsg_open(void);
char *kmsg_target_error(int fd, const char *target);

char *program_find(const char *name);
char *program_run(char *const argv[]);

#endif /* BASE_SYSTEM_H */
