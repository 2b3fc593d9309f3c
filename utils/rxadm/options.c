// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading of options and operands that several subcommands share.
 */
#include <ctype.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "options.h"
#include "values.h"

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
 * dry_run_option - read the options of a command that has --dry-run and --help only
 * @argc: number of arguments
 * @argv: the arguments
 * @dry_run: set if it was given
 * @help: set if it was; the arguments after it are not looked at
 */
enum exit_code dry_run_option(int argc, char **argv, bool *dry_run, bool *help)
{
	static const struct option options[] = {
		{ "dry-run",	no_argument, NULL, OPT_DRY_RUN },
		{ "help",	no_argument, NULL, 'h' },
		{ }
	};
	int opt;

	while (!*help && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_DRY_RUN:
			*dry_run = true;
			break;
		case 'h':
			*help = true;
			break;
		default:
			return option_error(opt, argv);
		}
	}
	return EXIT_OK;
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

/* Report what is wrong with a value, and free that text. */
static enum exit_code judge(const char *what, const char *text, char *error)
{
	enum exit_code ret;

	if (!error)
		return EXIT_OK;
	ret = report(EXIT_PARAMETERS, "%s '%s': %s", what, text, error);
	free(error);
	return ret;
}

enum exit_code number_argument(const char *what, const char *text, unsigned int min,
			       unsigned int max, unsigned int *value)
{
	return judge(what, text, value_number(text, min, max, value));
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

enum exit_code size_argument(const char *what, const char *text, uint64_t *bytes)
{
	return judge(what, text, value_size(text, machine_ram(), bytes));
}

enum exit_code block_size_argument(const char *text, uint64_t *bytes)
{
	return judge("block size", text, value_block_size(text, machine_ram(), bytes));
}

enum exit_code logical_block_size_argument(const char *text, unsigned int *bytes)
{
	return judge("logical block size", text, value_logical_block_size(text, bytes));
}

enum exit_code folio_size_argument(const char *text, uint32_t *bytes)
{
	return judge("folio size", text, value_folio_size(text, machine_ram(), bytes));
}

enum exit_code node_argument(const char *text, int32_t *node)
{
	return judge("node", text, value_node(text, node));
}

enum exit_code uuid_argument(const char *text, uint8_t *uuid)
{
	return judge("UUID", text, value_uuid(text, uuid));
}

enum exit_code mode_argument(const char *text)
{
	return judge("mode", text, value_mode(text));
}

enum exit_code seq_cutoff_argument(const char *text, uint64_t *bytes)
{
	return judge("sequential cut-off", text, value_seq_cutoff(text, machine_ram(), bytes));
}

enum exit_code transport_argument(const char *text)
{
	return judge("transport", text, value_transport(text));
}

enum exit_code address_argument(const char *text)
{
	return judge("address", text, value_address(text));
}

enum exit_code port_argument(const char *text, unsigned int *port)
{
	return judge("port", text, value_port(text, port));
}

enum exit_code nqn_argument(const char *what, const char *text)
{
	return judge(what, text, value_nqn(text));
}
