// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading of options and operands that several subcommands share.
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "machine.h"
#include "options.h"
#include "size.h"

#define BLOCK_SIZE_MIN	4096
#define BLOCK_SIZE_MAX	(1024 * 1024)
#define NODE_MAX	1023	/* the most nodes that a kernel can be built for */
#define SEQ_CUTOFF_MAX	(1ULL << 40)
#define SECTOR		512

/**
 * option_error - report what getopt_long() did not accept
 * @opt: '?' or ':', its option string began with ':'
 * @argv: the arguments it read
 */
enum exit_code option_error(int opt, char **argv)
{
	const char *word = argv[optind - 1];

	if (opt == ':')
		return report(EXIT_PARAMETERS, "option '%s' needs a value", word);
	if (optopt >= OPT_FIRST)
		return report(EXIT_PARAMETERS, "option '%s': no value is allowed here", word);
	if (!optopt)
		return report(EXIT_PARAMETERS, "unknown or ambiguous option '%s'; --help lists all",
			      word);
	if (isdigit(optopt)) {
		/* A negative number: getopt is past it, unless it has more digits. */
		if (word[0] != '-' || word[1] != optopt)
			word = argv[optind];
		return report(EXIT_PARAMETERS, "'%s': is negative; must be greater than 0", word);
	}
	return report(EXIT_PARAMETERS, "unknown option '-%c'; --help lists all", optopt);
}

/**
 * operands - check how many arguments follow the options
 * @argc: number of arguments
 * @argv: the arguments
 * @wanted: how many there must be
 * @names: their names in the synopsis
 */
enum exit_code operands(int argc, char **argv, int wanted, const char *names)
{
	if (argc - optind > wanted)
		return report(EXIT_PARAMETERS, "unexpected argument '%s'; usage: %s %s",
			      argv[optind + wanted], argv[0], names);
	if (argc - optind < wanted)
		return report(EXIT_PARAMETERS, "missing argument; usage: %s %s", argv[0], names);
	return EXIT_OK;
}

/**
 * number_argument - read a decimal number
 * @what: the option it belongs to
 * @text: what the user wrote
 * @max: largest value allowed
 * @value: out: the number
 */
enum exit_code number_argument(const char *what, const char *text, unsigned int max,
			       unsigned int *value)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || number > max)
		return report(EXIT_PARAMETERS, "%s '%s': must be a number from 0 to %u", what,
			      text, max);
	*value = number;
	return EXIT_OK;
}

/**
 * seconds_argument - read a time
 * @what: the option it belongs to
 * @text: what the user wrote, with or without decimals
 * @min: shortest time allowed
 * @max: longest time allowed
 * @seconds: out: the time
 */
enum exit_code seconds_argument(const char *what, const char *text, double min, double max,
				double *seconds)
{
	char *end;

	/* strtod() knows far more than people mean. */
	*seconds = strtod(text, &end);
	if (text[strspn(text, "0123456789.")] || *end || end == text || *seconds < min ||
	    *seconds > max)
		return report(EXIT_PARAMETERS, "%s '%s': must be a number of seconds from %g to %g",
			      what, text, min, max);
	return EXIT_OK;
}

static enum exit_code parse(const char *what, const char *text, const struct size_rule *rule,
			    uint64_t *bytes)
{
	enum size_error error = size_parse(text, rule, bytes);
	enum exit_code ret;
	char *message;

	if (!error)
		return EXIT_OK;
	message = size_message(error, rule);
	ret = report(EXIT_PARAMETERS, "%s '%s': %s", what, text, message);
	free(message);
	return ret;
}

/**
 * size_argument - read the size of a RAM disk, or of a part of its memory
 * @what: the option or operand
 * @text: what the user wrote
 * @bytes: out: the size
 */
enum exit_code size_argument(const char *what, const char *text, uint64_t *bytes)
{
	struct size_rule rule = { .ram = machine_ram(), .multiple = 4096, .max = RXD_SIZE_MAX };
	long page = sysconf(_SC_PAGESIZE);

	if (page > (long)rule.multiple)
		rule.multiple = page;
	return parse(what, text, &rule, bytes);
}

/**
 * block_size_argument - read the block size of a cache
 * @text: what the user wrote
 * @bytes: out: the block size
 */
enum exit_code block_size_argument(const char *text, uint64_t *bytes)
{
	const struct size_rule rule = {
		.ram = machine_ram(),
		.multiple = BLOCK_SIZE_MIN,
		.max = BLOCK_SIZE_MAX,
	};
	enum exit_code ret;

	ret = parse("block size", text, &rule, bytes);
	if (ret)
		return ret;
	if (*bytes & (*bytes - 1))
		return report(EXIT_PARAMETERS,
			      "block size '%s': must be a power of two from 4K to 1M", text);
	return EXIT_OK;
}

/**
 * folio_size_argument - read the largest piece of memory to ask for
 * @text: what the user wrote
 * @bytes: out: the size
 */
enum exit_code folio_size_argument(const char *text, uint32_t *bytes)
{
	const struct size_rule rule = { .ram = machine_ram(), .multiple = 1, .max = 1 << 21 };
	uint64_t size;

	if (size_parse(text, &rule, &size) ||
	    (size != 1 << 12 && size != 1 << 16 && size != 1 << 21))
		return report(EXIT_PARAMETERS, "folio size '%s': must be 4K, 64K or 2M", text);
	*bytes = size;
	return EXIT_OK;
}

/**
 * node_argument - read where memory is to come from
 * @text: what the user wrote
 * @node: out: a NUMA node, RXD_NODE_LOCAL or RXD_NODE_INTERLEAVE
 */
enum exit_code node_argument(const char *text, int32_t *node)
{
	unsigned long number;
	char *end;

	if (!strcmp(text, "local")) {
		*node = RXD_NODE_LOCAL;
		return EXIT_OK;
	}
	if (!strcmp(text, "interleave")) {
		*node = RXD_NODE_INTERLEAVE;
		return EXIT_OK;
	}
	errno = 0;
	number = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || number > NODE_MAX)
		return report(EXIT_PARAMETERS,
			      "node '%s': must be local, interleave or a number from 0 to %d",
			      text, NODE_MAX);
	*node = number;
	return EXIT_OK;
}

static int hex_digit(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	c = tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_uuid(const char *text, uint8_t *uuid)
{
	unsigned int i;
	int digits[2];

	for (i = 0; i < 16; i++) {
		if ((i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
			return false;
		digits[0] = hex_digit(text[0]);
		digits[1] = digits[0] < 0 ? -1 : hex_digit(text[1]);
		if (digits[1] < 0)
			return false;
		uuid[i] = digits[0] << 4 | digits[1];
		text += 2;
	}
	return !*text;
}

/**
 * uuid_argument - read a UUID
 * @text: what the user wrote
 * @uuid: out: its 16 bytes
 */
enum exit_code uuid_argument(const char *text, uint8_t *uuid)
{
	static const uint8_t nil[16];

	if (!parse_uuid(text, uuid))
		return report(EXIT_PARAMETERS,
			      "UUID '%s': must be hexadecimal digits in groups of 8, 4, 4, 4 and 12, with minuses between them",
			      text);
	if (!memcmp(uuid, nil, sizeof(nil)))
		return report(EXIT_PARAMETERS, "UUID '%s': must not be zero", text);
	return EXIT_OK;
}

/**
 * mode_argument - check the mode of a cache
 * @text: what the user wrote
 */
enum exit_code mode_argument(const char *text)
{
	static const char *const modes[] = { "writethrough", "writearound", "passthrough" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(modes); i++)
		if (!strcmp(text, modes[i]))
			return EXIT_OK;
	return report(EXIT_PARAMETERS,
		      "mode '%s': must be writethrough, writearound or passthrough", text);
}

/**
 * seq_cutoff_argument - read the length from which on sequential I/O is not cached
 * @text: what the user wrote; "0": all is cached
 * @bytes: out: the length
 */
enum exit_code seq_cutoff_argument(const char *text, uint64_t *bytes)
{
	const struct size_rule rule = {
		.ram = machine_ram(),
		.multiple = SECTOR,
		.max = SEQ_CUTOFF_MAX,
	};

	*bytes = 0;
	if (!strcmp(text, "0"))
		return EXIT_OK;
	return parse("sequential cut-off", text, &rule, bytes);
}
