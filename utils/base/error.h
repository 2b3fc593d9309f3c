/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/common.h"

/* Exit codes with the same meaning as those of cryptsetup. */
enum exit_code {
	EXIT_OK		= 0,
	EXIT_PARAMETERS	= 1,	/* wrong parameters */
	EXIT_PERMISSION	= 2,	/* no permission */
	EXIT_MEMORY	= 3,	/* out of memory */
	EXIT_DEVICE	= 4,	/* missing or wrong device, or a device error */
	EXIT_BUSY	= 5,	/* device exists already, or is busy */
};

void report_command(const char *name);
const char *report_command_name(void);
void report_before(void (*prepare)(void));
void report_configured(void);
const char *advice(const char *option, const char *key);
__printf(2, 3)
enum exit_code report(enum exit_code code, const char *format, ...);
enum exit_code exit_code_of(int err);
__noreturn
void end_without_memory(void);

#endif /* BASE_ERROR_H */
