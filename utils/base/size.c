// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parse and format sizes, and parse intervals, as users write them. These functions do not query
 * the system.
 *
 *	SIZE   = NUMBER [UNIT] | NUMBER "%"
 *	NUMBER = DIGITS ["." DIGITS]
 *	UNIT   = "B" | LETTER ["B" | "iB"], LETTER one of K M G T P E
 *
 *	CHANGE = ["+" | "-"] SIZE
 *
 * Units are powers of 1024, in upper or lower case. A size that is not a whole number of bytes is
 * rejected; a percentage is rounded down to the multiple of the rule.
 *
 *	INTERVAL = (DIGITS UNIT)..., UNIT one of s min h d; blanks may separate them
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/common.h"
#include "base/error.h"
#include "base/size.h"
#include "base/text.h"

static const char letters[] = "KMGTPE";

/* value = digits / 10^decimals */
struct number {
	unsigned __int128 digits;
	unsigned int decimals;
};

/* Keep every product below 128 bits: 19 + 6 digits, times 2^64 or less. */
#define MAX_DECIMALS	6
#define MAX_PERCENT	1000000

#define INTERVAL_MIN	10
#define INTERVAL_MAX	(365U * 24 * 60 * 60)

#define RULE_ADD \
	"is too much to add to %llu bytes; the size must be at most %s (%llu bytes)"
#define RULE_INTERVAL \
	"must be a whole number with s, min, h or d, such as 10min or 1h 30min, or no"
#define RULE_TAKE \
	"is too much to subtract from %llu bytes; the size must be at least %llu bytes"

static uint64_t power_of_ten(unsigned int exponent)
{
	uint64_t power = 1;

	while (exponent--)
		power *= 10;
	return power;
}

static enum size_error parse_number(const char **text, struct number *number)
{
	const char *c = *text;
	const char *end;

	if (*c == '-')
		return SIZE_NEGATIVE;
	if (!isdigit((unsigned char)*c))
		return SIZE_TEXT;

	*number = (struct number){ 0 };
	for (; isdigit((unsigned char)*c); c++) {
		number->digits = number->digits * 10 + (*c - '0');
		if (number->digits > UINT64_MAX)
			return SIZE_TOO_LARGE;
	}
	if (*c == '.') {
		if (!isdigit((unsigned char)*++c))
			return SIZE_TEXT;
		end = c + strspn(c, "0123456789");
		*text = end;
		while (end[-1] == '0')
			end--;
		for (; c < end; c++) {
			if (++number->decimals > MAX_DECIMALS)
				return SIZE_DECIMALS;
			number->digits = number->digits * 10 + (*c - '0');
		}
	} else {
		*text = c;
	}
	return SIZE_OK;
}

/* Return the exponent of two of a unit, or -1. */
static int parse_unit(const char *unit)
{
	const char *letter;

	if (!*unit || !strcasecmp(unit, "B"))
		return 0;
	letter = strchr(letters, toupper((unsigned char)*unit));
	if (!letter)
		return -1;
	unit++;
	if (*unit && strcasecmp(unit, "B") && strcasecmp(unit, "iB"))
		return -1;
	return 10 * (letter - letters + 1);
}

static enum size_error percent_of_ram(const struct number *number,
				      const struct size_rule *rule, uint64_t *bytes)
{
	uint64_t divisor = 100 * power_of_ten(number->decimals);
	unsigned __int128 value;

	if (number->digits / power_of_ten(number->decimals) > MAX_PERCENT)
		return SIZE_TOO_LARGE;
	value = number->digits * rule->ram / divisor;
	if (value > UINT64_MAX)
		return SIZE_TOO_LARGE;
	*bytes = value - value % rule->multiple;
	return SIZE_OK;
}

static enum size_error units(const struct number *number, int shift, uint64_t *bytes)
{
	uint64_t divisor = power_of_ten(number->decimals);
	unsigned __int128 value;

	/* This check keeps the shifted digits below 2^85. */
	if (number->digits / divisor > UINT64_MAX >> shift)
		return SIZE_TOO_LARGE;
	value = number->digits << shift;
	if (value % divisor)
		return SIZE_BROKEN_BYTE;
	*bytes = value / divisor;
	return SIZE_OK;
}

/**
 * size_parse - read a size
 * @text: what the user wrote
 * @rule: the allowed sizes
 * @bytes: out: the size, set only on success
 */
enum size_error size_parse(const char *text, const struct size_rule *rule, uint64_t *bytes)
{
	struct number number;
	enum size_error error;
	uint64_t value;
	int shift;

	if (!*text)
		return SIZE_EMPTY;
	error = parse_number(&text, &number);
	if (error)
		return error;
	if (!strcmp(text, "%")) {
		error = percent_of_ram(&number, rule, &value);
	} else {
		shift = parse_unit(text);
		if (shift < 0)
			return SIZE_SUFFIX;
		error = units(&number, shift, &value);
	}
	if (error)
		return error;

	if (!value)
		return SIZE_ZERO;
	if (value > rule->max)
		return SIZE_TOO_LARGE;
	if (value % rule->multiple)
		return SIZE_MULTIPLE;
	*bytes = value;
	return SIZE_OK;
}

/**
 * size_message - describe what is wrong with a size and what is allowed
 * @error: the error of size_parse(), not SIZE_OK
 * @rule: the rule that size_parse() used
 *
 * Return: allocated text that follows "size 'TEXT': ".
 */
char *size_message(enum size_error error, const struct size_rule *rule)
{
	static const char form[] =
		"must be a number of bytes, a number with K, M, G, T, P or E, or a percentage";
	char max[SIZE_TEXT_MAX];

	size_format(rule->max, max);
	switch (error) {
	case SIZE_EMPTY:
		return format_text("is empty; %s", form);
	case SIZE_NEGATIVE:
		return format_text("is negative; must be greater than 0, up to %s", max);
	case SIZE_TEXT:
		return format_text("is not a number; %s", form);
	case SIZE_SUFFIX:
		return format_text("has an unknown suffix; %s", form);
	case SIZE_DECIMALS:
		return format_text("has more than %d decimals", MAX_DECIMALS);
	case SIZE_BROKEN_BYTE:
		return format_text("is not a whole number of bytes; must be a multiple of %llu",
				   (unsigned long long)rule->multiple);
	case SIZE_ZERO:
		return format_text("must be greater than 0, and a multiple of %llu bytes",
				   (unsigned long long)rule->multiple);
	case SIZE_TOO_LARGE:
		return format_text("is too large; must be at most %s", max);
	case SIZE_MULTIPLE:
	case SIZE_OK:
		break;
	}
	return format_text("must be a multiple of %llu bytes",
			   (unsigned long long)rule->multiple);
}

/**
 * size_change_parse - read a size, or an amount to add to a size or to subtract from it
 * @text: what the user wrote
 * @rule: the allowed sizes and amounts
 * @change: out: the size or the amount, set only on success
 *
 * Return: NULL, or allocated text that follows "size 'TEXT': ".
 */
char *size_change_parse(const char *text, const struct size_rule *rule,
			struct size_change *change)
{
	char sign = *text == '+' || *text == '-' ? *text : 0;
	enum size_error error;
	uint64_t bytes;
	char *message;
	char *all;

	error = size_parse(text + !!sign, rule, &bytes);
	if (!error) {
		*change = (struct size_change){ .sign = sign, .bytes = bytes };
		return NULL;
	}
	message = size_message(error, rule);
	if (!sign)
		return message;
	all = format_text("the amount %s", message);
	free(message);
	return all;
}

/**
 * size_change_apply - calculate a size after a change
 * @change: the change
 * @rule: the allowed sizes; the smallest is one multiple
 * @old: the size to be changed
 * @bytes: out: the new size, set only on success
 *
 * Return: NULL, or allocated text that follows "size 'TEXT': ".
 */
char *size_change_apply(const struct size_change *change, const struct size_rule *rule,
			uint64_t old, uint64_t *bytes)
{
	char text[SIZE_TEXT_MAX];

	if (change->sign == '+' && (old > rule->max || change->bytes > rule->max - old))
		return format_text(RULE_ADD, (unsigned long long)old,
				   size_format(rule->max, text), (unsigned long long)rule->max);
	if (change->sign == '-' && (change->bytes > old || old - change->bytes < rule->multiple))
		return format_text(RULE_TAKE, (unsigned long long)old,
				   (unsigned long long)rule->multiple);
	*bytes = change->bytes;
	if (change->sign)
		*bytes = change->sign == '+' ? old + change->bytes : old - change->bytes;
	return NULL;
}

/* Add a number with a unit to the seconds. Return: whether there was one. */
static bool interval_part(const char **text, uint64_t *seconds, bool *has_unit)
{
	static const struct {
		const char *name;
		unsigned int seconds;
	} units[] = { {"s", 1}, {"min", 60}, {"h", 60 * 60}, {"d", 24 * 60 * 60} };
	const char *unit = *text + strspn(*text, "0123456789");
	unsigned long number;
	size_t length, i;

	if (unit == *text)
		return false;
	/* A number that is too large is ULONG_MAX. */
	number = strtoul(*text, NULL, 10);
	unit += strspn(unit, " \t");
	length = strspn(unit, "abcdefghijklmnopqrstuvwxyz");
	*text = unit + length + strspn(unit + length, " \t");
	*has_unit = length || **text;
	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (length == strlen(units[i].name) && !strncmp(unit, units[i].name, length))
			break;
	if (i == ARRAY_SIZE(units))
		return false;
	*seconds += (number <= INTERVAL_MAX ? number : INTERVAL_MAX + 1UL) * units[i].seconds;
	return true;
}

/**
 * interval_parse - read the interval between two saves
 * @text: what the user wrote
 * @seconds: out: the interval, set only on success
 *
 * Return: NULL, or allocated text that follows "WHAT 'TEXT': ".
 */
char *interval_parse(const char *text, unsigned int *seconds)
{
	bool has_unit = true;
	uint64_t sum = 0;
	bool found;

	do {
		found = interval_part(&text, &sum, &has_unit);
	} while (found && *text && sum <= INTERVAL_MAX);
	if (!has_unit)
		return copy_text("has no unit; " RULE_INTERVAL);
	if (!found)
		return copy_text(RULE_INTERVAL);
	if (sum < INTERVAL_MIN)
		return format_text("is too short; must be at least %ds", INTERVAL_MIN);
	if (sum > INTERVAL_MAX)
		return format_text("is too long; must be at most %ud", INTERVAL_MAX / 86400);
	*seconds = sum;
	return NULL;
}

/**
 * size_format - format a size for users, with one decimal
 * @bytes: the size
 * @buf: SIZE_TEXT_MAX bytes
 *
 * Return: @buf.
 */
const char *size_format(uint64_t bytes, char *buf)
{
	unsigned int unit = 0;
	unsigned int tenths;
	uint64_t whole;

	while (unit < strlen(letters) && bytes >> (10 * (unit + 1)))
		unit++;
	if (!unit) {
		snprintf(buf, SIZE_TEXT_MAX, "%lluB", (unsigned long long)bytes);
		return buf;
	}

	/* Shift first: ten times the size could overflow. */
	whole = bytes >> (10 * unit);
	bytes = bytes >> (10 * (unit - 1)) & 1023;
	tenths = (bytes * 10 + 512) >> 10;
	if (tenths == 10) {
		whole++;
		tenths = 0;
	}
	if (whole == 1024 && unit < strlen(letters)) {
		whole = 1;
		unit++;
	}
	if (tenths)
		snprintf(buf, SIZE_TEXT_MAX, "%llu.%u%c", (unsigned long long)whole, tenths,
			 letters[unit - 1]);
	else
		snprintf(buf, SIZE_TEXT_MAX, "%llu%c", (unsigned long long)whole,
			 letters[unit - 1]);
	return buf;
}
