// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print messages, and choose the exit code.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "copy/printable.h"

static const char *command;
static bool configured;
static void (*before)(void);

/**
 * report_command - set the subcommand that messages begin with
 * @name: a string that stays valid, or NULL
 */
void report_command(const char *name)
{
	command = name;
}

const char *report_command_name(void)
{
	return command;
}

/**
 * report_before - set a function to be called before a message is printed
 * @prepare: the function, or NULL for none
 */
void report_before(void (*prepare)(void))
{
	before = prepare;
}

/**
 * report_configured - make advice() name keys of the configuration instead of options
 */
void report_configured(void)
{
	configured = true;
}

/**
 * advice - choose the part of a message that says what the user should write
 * @option: the advice for a command line
 * @key: the advice for a configuration
 */
const char *advice(const char *option, const char *key)
{
	return configured ? key : option;
}

/* Print that memory is lacking, and end the program. */
void end_without_memory(void)
{
	if (before)
		before();
	fputs("rxadm: out of memory\n", stderr);
	exit(EXIT_MEMORY);
}

/**
 * report - print an error as one line
 * @code: the exit code that the caller returns
 * @format: message, without newline
 *
 * Return: @code.
 */
enum exit_code report(enum exit_code code, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		end_without_memory();
	va_end(args);

	make_printable(text);
	if (before)
		before();
	fflush(stdout);
	if (command)
		fprintf(stderr, "rxadm: %s: %s\n", command, text);
	else
		fprintf(stderr, "rxadm: %s\n", text);
	free(text);
	return code;
}

/**
 * exit_code_of - return the exit code for an errno
 * @err: positive errno
 */
enum exit_code exit_code_of(int err)
{
	switch (err) {
	case EPERM:
	case EACCES:
		return EXIT_PERMISSION;
	case ENOMEM:
		return EXIT_MEMORY;
	case EBUSY:
	case EEXIST:
	case ESTALE:
		return EXIT_BUSY;
	case EINVAL:
	case ERANGE:
	case EFBIG:
		return EXIT_PARAMETERS;
	default:
		return EXIT_DEVICE;
	}
}
