/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

#include "base/error.h"

struct option;

/* The search for the known word that is nearest to an unknown word. */
struct suggestion {
	const char *word;
	size_t length;		/* of @word without "=VALUE" */
	const char *name;	/* the nearest known word so far */
	unsigned int distance;	/* of @name */
	const char *longer;	/* known word that begins with @word; NULL: none, or several */
	unsigned int begins;	/* number of known words that begin with @word */
};

struct suggestion suggest_begin(const char *word);
void suggest_try(struct suggestion *suggestion, const char *name);
char *did_you_mean(const char *dashes, const struct suggestion *suggestion);

const char *negative_argument(int opt, char **argv);
enum exit_code option_error(int opt, char **argv, const struct option *options);

#endif /* BASE_SUGGEST_H */
