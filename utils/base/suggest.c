// SPDX-License-Identifier: GPL-2.0-only
/*
 * Suggest a known word for an unknown one, and report options that are unknown.
 */
#include <ctype.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "base/text.h"

#define SUGGEST_MAX	32	/* no suggestions for longer words */

/**
 * suggest_begin - begin to search for the known word that is nearest to an unknown word
 * @word: the unknown word; dashes before it and "=VALUE" after it are ignored
 */
struct suggestion suggest_begin(const char *word)
{
	word += strspn(word, "-");
	return (struct suggestion){ .word = word, .length = strcspn(word, "=") };
}

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Count the letters to insert, delete, replace, or swap with the next to turn @a into @b. */
static unsigned int edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned int rows[3][SUGGEST_MAX + 1];
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
 * suggest_try - compare an unknown word with a known word
 * @suggestion: the search
 * @name: the known word, a string that stays valid
 */
void suggest_try(struct suggestion *suggestion, const char *name)
{
	size_t length = strlen(name);
	unsigned int distance;

	if (!suggestion->length || suggestion->length > SUGGEST_MAX || length > SUGGEST_MAX)
		return;
	if (!strncasecmp(name, suggestion->word, suggestion->length))
		suggestion->longer = suggestion->begins++ ? NULL : name;
	distance = edit_distance(suggestion->word, suggestion->length, name, length);
	if (!suggestion->name || distance < suggestion->distance) {
		suggestion->name = name;
		suggestion->distance = distance;
	}
}

/* Return the only word that begins with the unknown one, else the nearest, or NULL. */
static const char *suggest_end(const struct suggestion *suggestion)
{
	unsigned int allowed = (suggestion->length + 1) / 3;

	if (suggestion->longer)
		return suggestion->longer;
	return suggestion->name && suggestion->distance <= allowed ? suggestion->name : NULL;
}

/**
 * did_you_mean - format the suggestion that follows "unknown WHAT 'WORD'" in a message
 * @dashes: the prefix of the suggested word
 * @suggestion: the search, after suggest_try() for all known words
 *
 * Return: allocated text.
 */
char *did_you_mean(const char *dashes, const struct suggestion *suggestion)
{
	const char *name = suggest_end(suggestion);

	return name ? format_text("; did you mean '%s%s'?", dashes, name) : copy_text(";");
}

static enum exit_code unknown_option(const char *word, const struct option *options)
{
	struct suggestion suggestion = suggest_begin(word);
	const struct option *option;
	char *text = NULL;
	enum exit_code ret;

	for (option = options; option->name; option++) {
		suggest_try(&suggestion, option->name);
		if (!strncasecmp(option->name, suggestion.word, suggestion.length))
			append_text(&text, "%s--%s", text ? ", " : "", option->name);
	}
	if (suggestion.begins > 1) {
		ret = report(EXIT_PARAMETERS, "ambiguous option '%s'; could be %s", word, text);
	} else {
		free(text);
		text = did_you_mean("--", &suggestion);
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
			      optopt ? "-v" : word, report_command_name());
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
