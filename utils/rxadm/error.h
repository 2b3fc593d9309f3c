/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_ERROR_H
#define RXADM_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#include "common.h"

/* Exit codes, with the meaning that cryptsetup gives them. */
enum exit_code {
	EXIT_OK		= 0,
	EXIT_PARAMETERS	= 1,	/* wrong parameters */
	EXIT_PERMISSION	= 2,	/* no permission */
	EXIT_MEMORY	= 3,	/* out of memory */
	EXIT_DEVICE	= 4,	/* missing or wrong device, or an error of it */
	EXIT_BUSY	= 5,	/* device exists already, or is busy */
};

void report_command(const char *name);
void report_before(void (*prepare)(void));
void report_configured(void);
const char *advice(const char *option, const char *key);
__printf(2, 3)
enum exit_code report(enum exit_code code, const char *format, ...);
enum exit_code exit_code_of(int err);

__printf(1, 0)
char *format_list(const char *format, va_list args);
__printf(1, 2)
char *format_text(const char *format, ...);
__printf(2, 3)
void append_text(char **text, const char *format, ...);
char *copy_text(const char *text);
void *resize_array(void *array, size_t count, size_t size);
void *zeroed_array(size_t count, size_t size);

#endif /* RXADM_ERROR_H */
