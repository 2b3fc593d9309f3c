/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

__printf(1, 0)
char *format_list(const char *format, va_list args);
__printf(1, 2)
char *format_text(const char *format, ...);
__printf(2, 3)
void append_text(char **text, const char *format, ...);
char *copy_text(const char *text);
char *unit_escape(const char *text);
char *unit_writable(const char *file);
bool text_has_word(const char *words, const char *word);
void *resize_array(void *array, size_t count, size_t size);
void *zeroed_array(size_t count, size_t size);

#endif /* BASE_TEXT_H */
