// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print messages, suggest a known word for an unknown one, and allocate memory. A failed
 * allocation ends the program.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define GUESS_MAX	32	/* no suggestions for longer words */

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
 * @code: the exit code that the caller returns
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

	/* Replace control characters in text of the user, such as newlines and escapes. */
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

void *resize_array(void *array, size_t count, size_t size)
{
	array = reallocarray(array, count, size);
	if (!array)
		out_of_memory();
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
		out_of_memory();
	return array;
}

/**
 * guess_begin - begin to search for the known word that is nearest to an unknown word
 * @word: the unknown word; dashes before it and "=VALUE" after it are ignored
 */
struct guess guess_begin(const char *word)
{
	word += strspn(word, "-");
	return (struct guess){ .word = word, .length = strcspn(word, "=") };
}

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Count the letters to insert, delete, replace, or swap with the next to turn @a into @b. */
static unsigned int edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned int rows[3][GUESS_MAX + 1];
	unsigned int *two_above, *above, *row;
	unsigned int best;
	size_t i, j;

	for (j = 0; j <= b_length; j++)
		rows[0][j] = j;
	for (i = 1; i <= a_length; i++) {
		two_above = rows[(i + 1) % 3];
		above = rows[(i - 1) % 3];
		row = rows[i % 3];
		row[0] = i;
		for (j = 1; j <= b_length; j++) {
			best = above[j - 1] + !same_letter(a[i - 1], b[j - 1]);
			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
			    same_letter(a[i - 2], b[j - 1]) && two_above[j - 2] + 1 < best)
				best = two_above[j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[a_length % 3][b_length];
}

/**
 * guess_try - compare an unknown word with a known word
 * @guess: the search
 * @name: the known word, a string that stays valid
 */
void guess_try(struct guess *guess, const char *name)
{
	size_t length = strlen(name);
	unsigned int distance;

	if (!guess->length || guess->length > GUESS_MAX || length > GUESS_MAX)
		return;
	if (!strncmp(name, guess->word, guess->length))
		guess->longer = guess->begins++ ? NULL : name;
	distance = edit_distance(guess->word, guess->length, name, length);
	if (!guess->name || distance < guess->distance) {
		guess->name = name;
		guess->distance = distance;
	}
}

/* Return the only word that begins with the unknown one, else the nearest, or NULL. */
static const char *guess_end(const struct guess *guess)
{
	if (guess->longer)
		return guess->longer;
	return guess->name && guess->distance <= (guess->length + 1) / 3 ? guess->name : NULL;
}

/**
 * did_you_mean - format the suggestion that follows "unknown WHAT 'WORD'" in a message
 * @dashes: the prefix of the suggested word
 * @guess: the search, after guess_try() for all known words
 *
 * Return: allocated text.
 */
char *did_you_mean(const char *dashes, const struct guess *guess)
{
	const char *name = guess_end(guess);

	return name ? format_text("; did you mean '%s%s'?", dashes, name) : copy_text(";");
}

static enum exit_code unknown_option(const char *word, const struct option *options)
{
	struct guess guess = guess_begin(word);
	const struct option *option;
	char *text = NULL;
	enum exit_code ret;

	for (option = options; option->name; option++) {
		guess_try(&guess, option->name);
		if (!strncmp(option->name, guess.word, guess.length))
			append_text(&text, "%s--%s", text ? ", " : "", option->name);
	}
	if (guess.begins > 1) {
		ret = report(EXIT_PARAMETERS, "ambiguous option '%s'; could be %s", word, text);
	} else {
		free(text);
		text = did_you_mean("--", &guess);
		ret = report(EXIT_PARAMETERS, "unknown option '%s'%s --help lists all", word,
			     text);
	}
	free(text);
	return ret;
}

/**
 * negative_argument - return the negative number that getopt_long() took for an option
 * @opt: its return value
 * @argv: its arguments
 *
 * Return: the number, or NULL if it was something else.
 */
const char *negative_argument(int opt, char **argv)
{
	int i;

	if (opt != '?' || !isdigit(optopt))
		return NULL;
	/* optind is after the number, unless the number has more digits. */
	for (i = optind - 1; i <= optind; i++)
		if (argv[i] && argv[i][0] == '-' && argv[i][1] == optopt)
			return argv[i];
	return NULL;
}

/**
 * option_error - report an option that getopt_long() rejected
 * @opt: its return value, '?' or ':'; the option string must begin with ':'
 * @argv: its arguments
 * @options: the known options
 */
enum exit_code option_error(int opt, char **argv, const struct option *options)
{
	const char *negative = negative_argument(opt, argv);
	const char *word = argv[optind - 1];
	const struct option *option;

	if (opt == ':')
		return report(EXIT_PARAMETERS, "option '%s' needs a value", word);
	if (optopt == 'v' || !strcmp(word, "--verbose"))
		return report(EXIT_PARAMETERS,
			      "unknown option '%s'; -v goes before the command: rxadm -v %s",
			      optopt ? "-v" : word, command);
	if (!optopt)
		return unknown_option(word, options);
	for (option = options; option->name; option++)
		if (option->val == optopt)
			return report(EXIT_PARAMETERS, "option '%s': no value is allowed here",
				      word);
	if (negative)
		return report(EXIT_PARAMETERS, "'%s': is negative; must be greater than 0",
			      negative);
	return report(EXIT_PARAMETERS, "unknown option '-%c'; --help lists all", optopt);
}
