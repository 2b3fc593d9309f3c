// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arguments that subcommands share: what is taken is in its range, what is not is
 * reported in one line, and UUIDs and numbers come back from their text.
 */
#include <ctype.h>
#include <linux/rxd.h>

#include "base/system.h"
#include "base/values.h"
#include "commands/options.h"
#include "fuzz.h"

#define RAM		(3ULL << 30)
#define NODE_MAX	1023

static FILE *messages;
static char *message;
static size_t message_size;

/* Replaces machine.c: the same on every machine. */
uint64_t system_ram(void)
{
	return RAM;
}

int fuzz_begin(int *argc __always_unused, char ***argv __always_unused)
{
	messages = open_memstream(&message, &message_size);
	must(messages);
	stderr = messages;
	return 0;
}

/* Either no line was reported, or one. */
static int is_ok(enum exit_code ret)
{
	const char *c;

	must(!fflush(messages));
	if (ret) {
		must(ret == EXIT_PARAMETERS);
		must(message_size > 1 && message[message_size - 1] == '\n');
		for (c = message; c < message + message_size - 1; c++)
			must((unsigned char)*c >= ' ' && *c != 0x7f);
	} else {
		must(!message_size);
	}
	rewind(messages);
	return !ret;
}

/* Compare the number with the text, without leading zeros. */
static void check_number(const char *text, unsigned long long number)
{
	char again[24];

	while (*text == '0' && text[1])
		text++;
	snprintf(again, sizeof(again), "%llu", number);
	must(!strcmp(text, again));
}

static void check_uuid(const char *text)
{
	char again[37];
	unsigned int at = 0;
	uint8_t uuid[16];
	unsigned int i;

	if (!is_ok(uuid_argument(text, uuid)))
		return;
	for (i = 0; i < sizeof(uuid); i++)
		at += snprintf(again + at, sizeof(again) - at, "%s%02x",
			       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	must(at == strlen(text));
	for (i = 0; i < at; i++)
		must(tolower((unsigned char)text[i]) == again[i]);
}

static void check_numbers(const char *text)
{
	static const unsigned int limits[] = { 0, 4096, RXD_INDEX_MAX, UINT32_MAX };
	unsigned int value;
	int32_t node;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		if (is_ok(number_argument("number", text, 0, limits[i], &value))) {
			must(value <= limits[i]);
			check_number(text, value);
		}
		if (is_ok(number_argument("number", text, limits[i], UINT32_MAX, &value))) {
			must(value >= limits[i]);
			check_number(text, value);
		}
	}
	if (!is_ok(node_argument(text, &node)))
		return;
	if (node == RXD_NODE_LOCAL) {
		must(!strcmp(text, "local"));
	} else if (node == RXD_NODE_INTERLEAVE) {
		must(!strcmp(text, "interleave"));
	} else {
		must(node >= 0 && node <= NODE_MAX);
		check_number(text, node);
	}
}

static void check_sizes(const char *text)
{
	struct size_range range;
	uint64_t bytes;
	uint32_t folio;

	if (is_ok(size_argument("size", text, &bytes)))
		must(bytes && bytes <= RXD_SIZE_MAX && !(bytes % 4096));
	if (size_range_max(text) && is_ok(size_range_argument(text, &range)))
		must(range.min && range.min <= range.max && range.max <= RAM);
	if (is_ok(block_size_argument(text, &bytes)))
		must(bytes >= 4096 && bytes <= 1 << 20 && !(bytes & (bytes - 1)));
	if (is_ok(folio_size_argument(text, &folio)))
		must(folio == 1 << 12 || folio == 1 << 16 || folio == 1 << 21);
	if (is_ok(seq_cutoff_argument(text, &bytes)))
		must(bytes <= 1ULL << 40 && !(bytes % 512) && (bytes || !strcmp(text, "0")));
	is_ok(mode_argument(text));
}

int fuzz_input(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	check_uuid(text);
	check_numbers(text);
	check_sizes(text);
	free(text);
	return 0;
}
