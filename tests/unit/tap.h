/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static unsigned int tap_count;
static unsigned int tap_failed;

/* One line of TAP: "ok N - NAME", or "not ok N - NAME". */
__attribute__((format(printf, 2, 3)))
static inline bool tap_ok(bool ok, const char *format, ...)
{
	va_list args;

	printf("%sok %u - ", ok ? "" : "not ", ++tap_count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	tap_failed += !ok;
	return ok;
}

/* The plan, and the exit code of the program. */
static inline int tap_end(void)
{
	printf("1..%u\n", tap_count);
	return tap_failed != 0;
}

#endif /* TAP_H */
