// SPDX-License-Identifier: GPL-2.0-only
/*
 * Format texts, also those of the units of systemd, and allocate memory. A failed allocation ends
 * the program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

char *format_list(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		end_without_memory();
	return text;
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
 * append_text - append to an allocated text
 * @text: the text, which is reallocated; NULL counts as empty
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

/* Double percent signs: in the units of systemd, one begins a specifier. */
char *unit_escape(const char *text)
{
	char *escaped = copy_text("");

	for (; *text; text++)
		append_text(&escaped, *text == '%' ? "%%%%" : "%c", *text);
	return escaped;
}

/* Return: the line of a drop-in that lets the service of a section save a file; allocated. */
char *unit_writable(const char *file)
{
	const char *end = strrchr(file, '/');
	char *folder = format_text("%.*s", (int)(end == file ? 1 : end - file), file);
	char *escaped = unit_escape(folder);
	char *line = format_text("ReadWritePaths=-%s\n", escaped);

	free(escaped);
	free(folder);
	return line;
}

/* Return: whether a text, of words separated by spaces, has this word. */
bool text_has_word(const char *words, const char *word)
{
	size_t len = strlen(word);
	size_t part;

	for (; *words; words += part + strspn(words + part, " ")) {
		part = strcspn(words, " ");
		if (part == len && !strncmp(words, word, len))
			return true;
	}
	return false;
}

void *resize_array(void *array, size_t count, size_t size)
{
	array = reallocarray(array, count, size);
	if (!array)
		end_without_memory();
	return array;
}

/**
 * zeroed_array - allocate an array of zeros
 * @count: number of elements
 * @size: bytes per element
 *
 * Use it for memory that an ioctl fills, too: valgrind does not know all ioctls.
 */
void *zeroed_array(size_t count, size_t size)
{
	void *array = calloc(count, size);

	if (!array)
		end_without_memory();
	return array;
}
