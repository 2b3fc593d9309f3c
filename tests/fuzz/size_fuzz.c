// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sizes: what is taken keeps the rule, means the same in either case, and comes
 * back from the text that is printed of it.
 */
#include <ctype.h>

#include "base/common.h"
#include "base/size.h"
#include "fuzz.h"

#define UNSET	0x5a5a5a5a5a5a5a5aULL

static const struct size_rule rules[] = {
	{ .ram = 1ULL << 32, .multiple = 4096, .max = 1ULL << 48 },
	{ .ram = 12345678901ULL, .multiple = 1, .max = UINT64_MAX },
	{ .ram = UINT64_MAX, .multiple = 512, .max = 1ULL << 40 },
};

static void check_message(enum size_error error, const struct size_rule *rule)
{
	char *message = size_message(error, rule);

	must(*message && !strchr(message, '\n'));
	free(message);
}

static void check_exact(uint64_t bytes)
{
	uint64_t again;
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	must(size_parse(text, &rules[1], &again) == SIZE_OK && again == bytes);
}

/* One decimal is printed, so the size that is read again differs by at most half a tenth. */
static void check_printed(uint64_t bytes)
{
	char text[SIZE_TEXT_MAX], text_again[SIZE_TEXT_MAX];
	uint64_t again, off;
	enum size_error error;

	must(strlen(size_format(bytes, text)) < 8);
	error = size_parse(text, &rules[1], &again);
	if (error) {
		must(error == SIZE_BROKEN_BYTE || (error == SIZE_TOO_LARGE && bytes >> 59));
		return;
	}
	must(!strcmp(size_format(again, text_again), text));
	off = again > bytes ? again - bytes : bytes - again;
	must(off <= bytes / 19);
	must(bytes >= 1024 || !off);
}

static void check_rule(const char *text, const struct size_rule *rule)
{
	enum size_error error, error_again;
	uint64_t bytes = UNSET;
	uint64_t again = UNSET;
	char *upper;
	char *c;

	error = size_parse(text, rule, &bytes);
	if (error) {
		must(bytes == UNSET);
		check_message(error, rule);
	} else {
		must(bytes && bytes <= rule->max && !(bytes % rule->multiple));
		check_exact(bytes);
		check_printed(bytes);
	}

	upper = fuzz_text((const uint8_t *)text, strlen(text));
	for (c = upper; *c; c++)
		*c = toupper((unsigned char)*c);
	error_again = size_parse(upper, rule, &again);
	must(error == error_again && bytes == again);
	free(upper);
}

int fuzz_input(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	uint64_t bytes;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rules); i++)
		check_rule(text, &rules[i]);
	free(text);

	if (size >= sizeof(bytes)) {
		memcpy(&bytes, data, sizeof(bytes));
		if (bytes) {
			check_exact(bytes);
			check_printed(bytes);
		}
	}
	return 0;
}
