/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_VALUES_H
#define BASE_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/size.h"

/*
 * Each reads one kind of value. It returns NULL, or allocated text that says what
 * is wrong and what is allowed, and follows "WHAT 'TEXT': ".
 */
char *value_number(const char *text, unsigned int min, unsigned int max, unsigned int *value);
char *value_size(const char *text, uint64_t ram, uint64_t *bytes);
char *value_size_change(const char *text, uint64_t ram, struct size_change *change);
char *value_new_size(const struct size_change *change, uint64_t ram, uint64_t old,
		     uint64_t *bytes);
const char *size_range_max(const char *text);
char *value_size_range(const char *text, uint64_t ram, struct size_range *range);
char *value_block_size(const char *text, uint64_t ram, uint64_t *bytes);
char *value_logical_block_size(const char *text, unsigned int *bytes);
char *value_folio_size(const char *text, uint64_t ram, uint32_t *bytes);
char *value_node(const char *text, int32_t *node);
char *value_uuid(const char *text, uint8_t *uuid);
void uuid_derive(const char *name, uint8_t *uuid);
char *value_name(const char *text);
char *value_mode(const char *text);
char *value_seq_cutoff(const char *text, uint64_t ram, uint64_t *bytes);
char *value_transport(const char *text);
char *value_address(const char *text);
char *value_port(const char *text, unsigned int *port);
char *value_nqn(const char *text);
char *value_compress(const char *text, int *level);
bool value_is_no(const char *text);
char *value_flag(const char *text, bool *value);
char *value_path(const char *text);
char *value_options(const char *text);

#endif /* BASE_VALUES_H */
