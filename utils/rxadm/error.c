// SPDX-License-Identifier: GPL-2.0-only
/*
 * The one way out for messages, and allocation that cannot fail but by exiting.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static const char *command;
static bool configured;
static void (*before)(void);

/**
 * report_command - name the subcommand that messages begin with
 * @name: a string that stays, or NULL
 */
void report_command(const char *name)
{
	command = name;
}

/**
 * report_before - have something done before an error is printed
 * @prepare: what; NULL: nothing any more
 */
void report_before(void (*prepare)(void))
{
	before = prepare;
}

/**
 * report_configured - what is done comes from a configuration, which has keys, not options
 */
void report_configured(void)
{
	configured = true;
}

/**
 * advice - the part of a message that tells what to write instead
 * @option: who has given options
 * @key: who has a configuration
 */
const char *advice(const char *option, const char *key)
{
	return configured ? key : option;
}

static void out_of_memory(void)
{
	if (before)
		before();
	fputs("rxadm: out of memory\n", stderr);
	exit(EXIT_MEMORY);
}

char *format_list(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		out_of_memory();
	return text;
}

/**
 * report - print an error as one line
 * @code: what the caller is going to exit with
 * @format: message, without newline
 *
 * Return: @code.
 */
enum exit_code report(enum exit_code code, const char *format, ...)
{
	va_list args;
	char *text;
	char *c;

	va_start(args, format);
	text = format_list(format, args);
	va_end(args);

	/* The user's text may hold newlines and escapes: keep to one line. */
	for (c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';

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
 * exit_code_of - the exit code that belongs to an errno
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
		return EXIT_BUSY;
	case EINVAL:
	case ERANGE:
	case EFBIG:
		return EXIT_PARAMETERS;
	default:
		return EXIT_DEVICE;
	}
}

char *format_text(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = format_list(format, args);
	va_end(args);
	return text;
}

char *copy_text(const char *text)
{
	return format_text("%s", text);
}

/**
 * append_text - add to an allocated text
 * @text: the text, which is replaced; NULL counts as empty
 * @format: what to add
 */
void append_text(char **text, const char *format, ...)
{
	va_list args;
	char *more;
	char *all;

	va_start(args, format);
	more = format_list(format, args);
	va_end(args);
	all = format_text("%s%s", *text ? *text : "", more);
	free(more);
	free(*text);
	*text = all;
}

void *resize_array(void *array, size_t count, size_t size)
{
	array = reallocarray(array, count, size);
	if (!array)
		out_of_memory();
	return array;
}

/**
 * zeroed_array - an array of zeros
 * @count: elements
 * @size: bytes of one
 *
 * For what only the kernel writes, too: valgrind does not know all ioctls.
 */
void *zeroed_array(size_t count, size_t size)
{
	void *array = calloc(count, size);

	if (!array)
		out_of_memory();
	return array;
}
