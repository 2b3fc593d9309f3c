// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read options that several subcommands share, and report errors in the values of options.
 */
#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/system.h"
#include "base/values.h"
#include "commands/options.h"

/* Print what --help prints, and tell the caller that there is nothing else to do. */
enum exit_code print_usage(const char *usage, bool *help)
{
	fputs(usage, stdout);
	*help = true;
	return EXIT_OK;
}

/**
 * flag_options - read the options of a subcommand whose options have no values
 * @argc: number of arguments
 * @argv: the arguments
 * @usage: what --help prints
 * @flags: the other options, at most FLAGS_MAX; the last element has no name
 * @help: set if the usage was printed; the arguments after --help are not read
 */
enum exit_code flag_options(int argc, char **argv, const char *usage, const struct flag *flags,
			    bool *help)
{
	struct option options[FLAGS_MAX + 2] = { 0 };
	size_t i;
	int opt;

	for (i = 0; flags[i].name; i++) {
		assert(i < FLAGS_MAX);
		options[i] = (struct option){ flags[i].name, no_argument, NULL, OPT_FIRST + i };
	}
	options[i] = (struct option){ "help", no_argument, NULL, 'h' };
	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt == 'h')
			return print_usage(usage, help);
		if (opt < OPT_FIRST)
			return option_error(opt, argv, options);
		*flags[opt - OPT_FIRST].set = true;
	}
	return EXIT_OK;
}

/* Read the options of a subcommand that has only --help. */
enum exit_code help_option(int argc, char **argv, const char *usage, bool *help)
{
	const struct flag flags[] = { { } };

	return flag_options(argc, argv, usage, flags, help);
}

/* Read the options of a subcommand that has only --dry-run and --help. */
enum exit_code dry_run_option(int argc, char **argv, const char *usage, bool *dry_run, bool *help)
{
	const struct flag flags[] = { { "dry-run", dry_run }, { } };

	return flag_options(argc, argv, usage, flags, help);
}

/**
 * operands - check how many arguments follow the options
 * @argc: number of arguments
 * @argv: the arguments
 * @wanted: the required number
 * @names: their names in the synopsis
 */
enum exit_code operands(int argc, char **argv, int wanted, const char *names)
{
	if (argc - optind > wanted)
		return report(EXIT_PARAMETERS, "unexpected argument '%s'; usage: rxadm %s %s",
			      argv[optind + wanted], argv[0], names);
	if (argc - optind < wanted)
		return report(EXIT_PARAMETERS, "missing argument; usage: rxadm %s %s", argv[0],
			      names);
	return EXIT_OK;
}

/* Report the error in a value, if there is one, and free its text. */
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

	/* Accept only decimal numbers; strtod() also reads "inf" and hexadecimal. */
	*seconds = strtod(text, &end);
	if (text[strspn(text, "0123456789.")] || *end || end == text || *seconds < min ||
	    *seconds > max)
		return report(EXIT_PARAMETERS, "%s '%s': must be a number of seconds from %g to %g",
			      what, text, min, max);
	return EXIT_OK;
}

enum exit_code size_argument(const char *what, const char *text, uint64_t *bytes)
{
	return judge(what, text, value_size(text, system_ram(), bytes));
}

/**
 * size_change_argument - read the new size of a RAM disk
 * @text: what the user wrote: a size, or an amount to add or subtract
 * @change: out: the size or the amount
 */
enum exit_code size_change_argument(const char *text, struct size_change *change)
{
	return judge("size", text, value_size_change(text, system_ram(), change));
}

/**
 * size_change_result - calculate the new size of a RAM disk
 * @text: what the user wrote
 * @change: the result of size_change_argument()
 * @old: the old size
 * @bytes: out: the new size
 */
enum exit_code size_change_result(const char *text, const struct size_change *change,
				  uint64_t old, uint64_t *bytes)
{
	return judge("size", text, value_new_size(change, system_ram(), old, bytes));
}

enum exit_code size_range_argument(const char *text, struct size_range *range)
{
	return judge("size", text, value_size_range(text, system_ram(), range));
}

enum exit_code block_size_argument(const char *text, uint64_t *bytes)
{
	return judge("block size", text, value_block_size(text, system_ram(), bytes));
}

enum exit_code logical_block_size_argument(const char *text, unsigned int *bytes)
{
	return judge("logical block size", text, value_logical_block_size(text, bytes));
}

enum exit_code folio_size_argument(const char *text, uint32_t *bytes)
{
	return judge("folio size", text, value_folio_size(text, system_ram(), bytes));
}

enum exit_code node_argument(const char *text, int32_t *node)
{
	return judge("node", text, value_node(text, node));
}

enum exit_code uuid_argument(const char *text, uint8_t *uuid)
{
	return judge("UUID", text, value_uuid(text, uuid));
}

enum exit_code name_argument(const char *text)
{
	return judge("name", text, value_name(text));
}

enum exit_code mode_argument(const char *text)
{
	return judge("mode", text, value_mode(text));
}

enum exit_code seq_cutoff_argument(const char *text, uint64_t *bytes)
{
	return judge("sequential cut-off", text, value_seq_cutoff(text, system_ram(), bytes));
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
