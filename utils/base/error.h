/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#include "base/common.h"

struct option;

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
void report_before(void (*prepare)(void));
void report_configured(void);
const char *advice(const char *option, const char *key);
__printf(2, 3)
enum exit_code report(enum exit_code code, const char *format, ...);
enum exit_code exit_code_of(int err);

/* The search for the known word that is nearest to an unknown word. */
struct guess {
	const char *word;
	size_t length;		/* of @word without "=VALUE" */
	const char *name;	/* the nearest known word so far */
	unsigned int distance;	/* of @name */
	const char *longer;	/* known word that begins with @word; NULL: none, or several */
	unsigned int begins;	/* number of known words that begin with @word */
};

struct guess guess_begin(const char *word);
void guess_try(struct guess *guess, const char *name);
char *did_you_mean(const char *dashes, const struct guess *guess);

const char *negative_argument(int opt, char **argv);
enum exit_code option_error(int opt, char **argv, const struct option *options);

__printf(1, 0)
char *format_list(const char *format, va_list args);
__printf(1, 2)
char *format_text(const char *format, ...);
__printf(2, 3)
void append_text(char **text, const char *format, ...);
char *copy_text(const char *text);
void *resize_array(void *array, size_t count, size_t size);
void *zeroed_array(size_t count, size_t size);

#endif /* BASE_ERROR_H */
