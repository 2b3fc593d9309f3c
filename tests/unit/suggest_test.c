// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is suggested instead of an unknown word.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/common.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/text.h"
#include "tap.h"

#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"	/* 32 letters, the most that are compared */

static const char *const names[] = {
	"create", "resize", "remove", "list", "limit", "load", "map", "unmap", "mode", "set",
	"status", "stats", "top", "logical-block-size", LONG,
};

static const struct {
	const char *word;
	const char *meant;	/* NULL: nothing is near */
} words[] = {
	/* A letter too many, one too few, another, two swapped. */
	{ "lisst", "list" },
	{ "llist", "list" },
	{ "lst", "list" },
	{ "lits", "list" },
	{ "lost", "list" },
	{ "ilst", "list" },
	{ "remvoe", "remove" },
	{ "rezise", "resize" },
	{ "un-map", "unmap" },
	{ "stat", "stats" },
	{ "LIST", "list" },
	{ "logical-blocksize", "logical-block-size" },
	{ "logicalblocksize", "logical-block-size" },
	{ "--lits", "list" },
	{ "-list", "list" },
	{ "--sett=4K", "set" },

	/* The only one that begins so. */
	{ "c", "create" },
	{ "CR", "create" },
	{ "logical", "logical-block-size" },
	{ "li", NULL },
	{ "s", NULL },

	{ "", NULL },
	{ "-", NULL },
	{ "--", NULL },
	{ "--=x", NULL },
	{ "x", NULL },
	{ "frobnicate", NULL },
	{ "abcd", NULL },
	{ LONG, LONG },
	{ LONG "a", NULL },
};

int main(void)
{
	struct suggestion suggestion;
	char *expected;
	char *text;
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(words); i++) {
		suggestion = suggest_begin(words[i].word);
		for (j = 0; j < ARRAY_SIZE(names); j++)
			suggest_try(&suggestion, names[j]);
		text = did_you_mean("--", &suggestion);
		expected = words[i].meant ?
			   format_text("; did you mean '--%s'?", words[i].meant) : copy_text(";");
		if (!tap_ok(!strcmp(text, expected), "suggestion: '%s'", words[i].word))
			printf("# '%s', expected '%s'\n", text, expected);
		free(expected);
		free(text);
	}
	return tap_end();
}
