// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sizes: what is read, what is refused and why, what is written.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/common.h"
#include "base/size.h"
#include "tap.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define EIB (UINT64_C(1) << 60)

static const struct size_rule pages = {
	.ram = 24 * GIB + 12345,
	.multiple = 4096,
	.max = 256 * TIB,
};

static const struct size_rule any = { .ram = UINT64_MAX, .multiple = 1, .max = UINT64_MAX };

static const struct {
	const struct size_rule *rule;
	const char *text;
	enum size_error error;
	uint64_t bytes;
} parses[] = {
	{ &pages, "4096", SIZE_OK, 4096 },
	{ &pages, "4096B", SIZE_OK, 4096 },
	{ &pages, "04096", SIZE_OK, 4096 },
	{ &pages, "4K", SIZE_OK, 4096 },
	{ &pages, "4k", SIZE_OK, 4096 },
	{ &pages, "4KB", SIZE_OK, 4096 },
	{ &pages, "4KiB", SIZE_OK, 4096 },
	{ &pages, "4kib", SIZE_OK, 4096 },
	{ &pages, "64M", SIZE_OK, 64 * MIB },
	{ &pages, "1.5G", SIZE_OK, 1536 * MIB },
	{ &pages, "1.500000000000000G", SIZE_OK, 1536 * MIB },
	{ &pages, "1.0G", SIZE_OK, GIB },
	{ &pages, "0.5M", SIZE_OK, 512 * KIB },
	{ &pages, "1T", SIZE_OK, TIB },
	{ &pages, "256T", SIZE_OK, 256 * TIB },
	{ &pages, "0.25P", SIZE_OK, 256 * TIB },
	{ &pages, "100%", SIZE_OK, 24 * GIB + 12288 },
	{ &pages, "50%", SIZE_OK, 12 * GIB + 4096 },
	{ &pages, "12.5%", SIZE_OK, 3 * GIB },
	{ &pages, "200%", SIZE_OK, 48 * GIB + 24576 },
	{ &any, "1", SIZE_OK, 1 },
	{ &any, "1.5K", SIZE_OK, 1536 },
	{ &any, "15E", SIZE_OK, 15 * EIB },
	{ &any, "15.999999E", SIZE_BROKEN_BYTE, 0 },
	{ &any, "15.5E", SIZE_OK, 15 * EIB + EIB / 2 },
	{ &any, "18446744073709551615", SIZE_OK, UINT64_MAX },
	{ &any, "100%", SIZE_OK, UINT64_MAX },

	{ &pages, "", SIZE_EMPTY, 0 },
	{ &pages, "0", SIZE_ZERO, 0 },
	{ &pages, "0.0G", SIZE_ZERO, 0 },
	{ &pages, "0%", SIZE_ZERO, 0 },
	{ &pages, "0.000001%", SIZE_ZERO, 0 },
	{ &pages, "-1", SIZE_NEGATIVE, 0 },
	{ &pages, "-1G", SIZE_NEGATIVE, 0 },
	{ &pages, "-0", SIZE_NEGATIVE, 0 },
	{ &pages, "abc", SIZE_TEXT, 0 },
	{ &pages, "G", SIZE_TEXT, 0 },
	{ &pages, "%", SIZE_TEXT, 0 },
	{ &pages, "+1G", SIZE_TEXT, 0 },
	{ &pages, " 1G", SIZE_TEXT, 0 },
	{ &pages, ".5G", SIZE_TEXT, 0 },
	{ &pages, "1.", SIZE_TEXT, 0 },
	{ &pages, "1.G", SIZE_TEXT, 0 },
	{ &pages, "1 G", SIZE_SUFFIX, 0 },
	{ &pages, "1G ", SIZE_SUFFIX, 0 },
	{ &pages, "1X", SIZE_SUFFIX, 0 },
	{ &pages, "1Gi", SIZE_SUFFIX, 0 },
	{ &pages, "1GiBB", SIZE_SUFFIX, 0 },
	{ &pages, "1iB", SIZE_SUFFIX, 0 },
	{ &pages, "1%%", SIZE_SUFFIX, 0 },
	{ &pages, "1.5.5G", SIZE_SUFFIX, 0 },
	{ &pages, "1,5G", SIZE_SUFFIX, 0 },
	{ &pages, "0x1000", SIZE_SUFFIX, 0 },
	{ &pages, "1e6", SIZE_SUFFIX, 0 },
	{ &pages, "1.1234567G", SIZE_DECIMALS, 0 },
	{ &pages, "0.1G", SIZE_BROKEN_BYTE, 0 },
	{ &pages, "4096.5", SIZE_BROKEN_BYTE, 0 },
	{ &pages, "1", SIZE_MULTIPLE, 0 },
	{ &pages, "4095", SIZE_MULTIPLE, 0 },
	{ &pages, "4097", SIZE_MULTIPLE, 0 },
	{ &pages, "1.25K", SIZE_MULTIPLE, 0 },
	{ &pages, "257T", SIZE_TOO_LARGE, 0 },
	{ &pages, "1E", SIZE_TOO_LARGE, 0 },
	{ &pages, "16E", SIZE_TOO_LARGE, 0 },
	{ &pages, "18446744073709551615", SIZE_TOO_LARGE, 0 },
	{ &pages, "18446744073709551616", SIZE_TOO_LARGE, 0 },
	{ &pages, "340282366920938463463374607431768211457", SIZE_TOO_LARGE, 0 },
	{ &pages, "18446744073709551615%", SIZE_TOO_LARGE, 0 },
	{ &any, "16E", SIZE_TOO_LARGE, 0 },
	{ &any, "18446744073709551615K", SIZE_TOO_LARGE, 0 },
	{ &any, "101%", SIZE_TOO_LARGE, 0 },
	{ &any, "1000000%", SIZE_TOO_LARGE, 0 },
	{ &any, "999999.999999%", SIZE_TOO_LARGE, 0 },
};

static const struct {
	uint64_t bytes;
	const char *text;
} formats[] = {
	{ 0, "0B" },
	{ 1, "1B" },
	{ 1023, "1023B" },
	{ KIB, "1K" },
	{ 1536, "1.5K" },
	{ 4096, "4K" },
	{ MIB - 1, "1M" },
	{ MIB, "1M" },
	{ 1536 * MIB, "1.5G" },
	{ GIB - 1, "1G" },
	{ 24 * GIB + 12345, "24G" },
	{ 256 * TIB, "256T" },
	{ EIB, "1E" },
	{ UINT64_MAX, "16E" },
};

static void test_parse(void)
{
	const uint64_t untouched = 0x5a5a5a5a5a5a5a5a;
	enum size_error error;
	uint64_t bytes;
	char *message;
	size_t i;
	bool ok;

	for (i = 0; i < ARRAY_SIZE(parses); i++) {
		bytes = untouched;
		error = size_parse(parses[i].text, parses[i].rule, &bytes);
		ok = error == parses[i].error &&
		     bytes == (error ? untouched : parses[i].bytes);
		if (!tap_ok(ok, "size_parse: '%s'", parses[i].text))
			printf("# error %d, %" PRIu64 " bytes; expected error %d, %" PRIu64 "\n",
			       error, bytes, parses[i].error, parses[i].bytes);
		message = size_message(error, parses[i].rule);
		if (error)
			tap_ok(strlen(message) > 10 && !strchr(message, '\n'),
			       "size_message: one line for '%s'", parses[i].text);
		free(message);
	}
}

static const struct {
	const char *text;
	uint64_t old;
	uint64_t bytes;
	const char *words;	/* of the message; NULL: none is expected */
} changes[] = {
	{ "4M", GIB, 4 * MIB, NULL },
	{ "+4K", 4096, 8192, NULL },
	{ "+1.5G", GIB, 2560 * MIB, NULL },
	{ "+256T", 0, 256 * TIB, NULL },
	{ "+0.25P", 0, 256 * TIB, NULL },
	{ "+50%", GIB, 13 * GIB + 4096, NULL },
	{ "-4K", 8192, 4096, NULL },
	{ "-1G", 3 * GIB, 2 * GIB, NULL },
	{ "-0.5G", GIB, 512 * MIB, NULL },
	{ "-256T", 256 * TIB + 4096, 4096, NULL },

	{ "", GIB, 0, "is empty" },
	{ "0", GIB, 0, "must be greater than 0" },
	{ "4097", GIB, 0, "must be a multiple of 4096" },
	{ "+", GIB, 0, "the amount is empty" },
	{ "-", GIB, 0, "the amount is empty" },
	{ "+0", GIB, 0, "the amount must be greater than 0" },
	{ "-0", GIB, 0, "the amount must be greater than 0" },
	{ "-0.0K", GIB, 0, "the amount must be greater than 0" },
	{ "+-1G", GIB, 0, "the amount is negative" },
	{ "--1G", GIB, 0, "the amount is negative" },
	{ "-+1G", GIB, 0, "the amount is not a number" },
	{ "++1G", GIB, 0, "the amount is not a number" },
	{ "+ 1G", GIB, 0, "the amount is not a number" },
	{ "+G", GIB, 0, "the amount is not a number" },
	{ "1G+", GIB, 0, "has an unknown suffix" },
	{ "+1G+1G", GIB, 0, "the amount has an unknown suffix" },
	{ "+1", GIB, 0, "the amount must be a multiple of 4096" },
	{ "-257T", 256 * TIB, 0, "the amount is too large; must be at most 256T" },
	{ "+18446744073709551615", GIB, 0, "the amount is too large; must be at most 256T" },
	{ "+256T", 4096, 0, "at most 256T (281474976710656 bytes)" },
	{ "+4K", 256 * TIB, 0, "to add to 281474976710656 bytes" },
	{ "+4K", UINT64_MAX, 0, "at most 256T" },
	{ "-1G", GIB, 0, "to subtract from 1073741824 bytes; the size must be at least 4096" },
	{ "-4K", 4096, 0, "at least 4096" },
	{ "-4K", 0, 0, "at least 4096" },
	{ "-256T", GIB, 0, "at least 4096" },
	{ "-2G", GIB, 0, "at least 4096" },
};

static void test_change(void)
{
	const uint64_t untouched = 0x5a5a5a5a5a5a5a5a;
	struct size_change change;
	uint64_t bytes;
	char *message;
	size_t i;
	bool ok;

	for (i = 0; i < ARRAY_SIZE(changes); i++) {
		bytes = untouched;
		message = size_change_parse(changes[i].text, &pages, &change);
		if (!message)
			message = size_change_apply(&change, &pages, changes[i].old, &bytes);
		if (changes[i].words)
			ok = message && strstr(message, changes[i].words) &&
			     !strchr(message, '\n') && bytes == untouched;
		else
			ok = !message && bytes == changes[i].bytes;
		if (!tap_ok(ok, "size_change: '%s' of %" PRIu64, changes[i].text, changes[i].old))
			printf("# %" PRIu64 " bytes, '%s'; expected %" PRIu64 ", '%s'\n", bytes,
			       message ? message : "", changes[i].bytes,
			       changes[i].words ? changes[i].words : "");
		free(message);
	}
}

static void test_format(void)
{
	char buf[SIZE_TEXT_MAX];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(formats); i++) {
		size_format(formats[i].bytes, buf);
		if (!tap_ok(!strcmp(buf, formats[i].text), "size_format: %" PRIu64,
			    formats[i].bytes))
			printf("# '%s', expected '%s'\n", buf, formats[i].text);
	}
}

int main(void)
{
	test_parse();
	test_change();
	test_format();
	return tap_end();
}
