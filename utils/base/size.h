/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stdint.h>

/* The allowed sizes. */
struct size_rule {
	uint64_t ram;		/* the size that is 100 % */
	uint64_t multiple;	/* must divide the size */
	uint64_t max;
};

enum size_error {
	SIZE_OK,
	SIZE_EMPTY,
	SIZE_NEGATIVE,
	SIZE_TEXT,
	SIZE_SUFFIX,
	SIZE_DECIMALS,
	SIZE_BROKEN_BYTE,
	SIZE_ZERO,
	SIZE_TOO_LARGE,
	SIZE_MULTIPLE,
};

/* A size, or an amount to add to a size or to subtract from it. */
struct size_change {
	char sign;	/* '+' or '-'; 0: a size */
	uint64_t bytes;
};

/* The sizes of an elastic cache. */
struct size_range {
	uint64_t min;	/* what is beyond it is lent; 0: nothing is */
	uint64_t max;
};

#define SIZE_TEXT_MAX	32	/* longest text of size_format(), with its NUL */

enum size_error size_parse(const char *text, const struct size_rule *rule, uint64_t *bytes);
char *size_message(enum size_error error, const struct size_rule *rule);
char *size_change_parse(const char *text, const struct size_rule *rule,
			struct size_change *change);
char *size_change_apply(const struct size_change *change, const struct size_rule *rule,
			uint64_t old, uint64_t *bytes);
char *interval_parse(const char *text, unsigned int *seconds);
const char *size_format(uint64_t bytes, char *buf);

#endif /* BASE_SIZE_H */
