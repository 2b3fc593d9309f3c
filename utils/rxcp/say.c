// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print error messages.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "say.h"

/**
 * complain - print an error as one line
 * @format: message, without newline
 *
 * Return: false.
 */
bool complain(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	char *c;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);

	/* Names may contain newlines and escapes: replace them, to print one line. */
	for (c = text; c && *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	fflush(stdout);
	fprintf(stderr, "rxcp: %s\n", text ? text : "out of memory");
	free(text);
	return false;
}
