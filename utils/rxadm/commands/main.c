// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm: manage RAM disks and RAM disk caches.
 * This file holds the table of subcommands, and the subcommands completion and help.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/system.h"
#include "commands/command.h"
#include "commands/options.h"
#include "copy/signals.h"

static const char completion_usage[] =
	"Usage: rxadm completion bash|zsh|fish\n"
	"\n"
	"Print the completion script for a shell.\n"
	"\n"
	"Options:\n"
	" -h, --help   print this help\n";

static const struct {
	const char *shell;
	const char *script;
} scripts[] = {
	{ "bash", completion_bash },
	{ "zsh", completion_zsh },
	{ "fish", completion_fish },
};

static enum exit_code run_completion(int argc, char **argv)
{
	bool help = false;
	enum exit_code ret;
	size_t i;

	ret = help_option(argc, argv, completion_usage, &help);
	if (ret || help)
		return ret;
	ret = operands(argc, argv, 1, "bash|zsh|fish");
	if (ret)
		return ret;
	for (i = 0; i < ARRAY_SIZE(scripts); i++) {
		if (strcmp(argv[optind], scripts[i].shell))
			continue;
		fputs(scripts[i].script, stdout);
		return EXIT_OK;
	}
	return report(EXIT_PARAMETERS, "shell '%s': must be bash, zsh or fish", argv[optind]);
}

const struct command command_completion = {
	.name = "completion",
	.summary = "print the completion script for a shell",
	.run = run_completion,
};

static const struct command *const commands[] = {
	&command_create,
	&command_clone,
	&command_resize,
	&command_limit,
	&command_clear,
	&command_reset,
	&command_remove,
	&command_list,
	&command_info,
	&command_extents,
	&command_diff,
	&command_save,
	&command_load,
	&command_map,
	&command_unmap,
	&command_mode,
	&command_set,
	&command_status,
	&command_stats,
	&command_advise,
	&command_top,
	&command_metrics,
	&command_hotlist,
	&command_warm,
	&command_export,
	&command_unexport,
	&command_apply,
	&command_completion,
	&command_help,
};

static void print_help(void)
{
	size_t i;

	puts("Usage: rxadm [--verbose] COMMAND [OPTION...]\n"
	     "       rxadm --help | --version\n"
	     "\n"
	     "Manage RAM disks and RAM disk caches.\n"
	     "\n"
	     "Commands:");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		printf(" %-10s %s\n", commands[i]->name, commands[i]->summary);
	puts("\n"
	     "Options:\n"
	     " -v, --verbose   before the command: report what it waits for, and how long\n"
	     "                 writes were held\n"
	     " -V, --version   print the version\n"
	     " -h, --help      print this help\n"
	     "\n"
	     "'rxadm help COMMAND' prints the options of a command. A size is a number of bytes,\n"
	     "a number with a suffix K, M, G, T, P or E (powers of 1024), or a percentage of the\n"
	     "memory: 4096, 1.5G, 10%.\n"
	     "\n"
	     "Exit status: 0 success, 1 invalid parameters or image, 2 permission denied,\n"
	     "3 out of memory, 4 device missing, unsuitable or failing, 5 device exists, is busy or\n"
	     "holds unsaved data.");
}

static const struct command *find_command(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static enum exit_code unknown_command(const char *name)
{
	struct suggestion suggestion = suggest_begin(name);
	bool option = *name == '-';
	enum exit_code ret;
	char *text;
	size_t i;

	if (option) {
		suggest_try(&suggestion, "help");
		suggest_try(&suggestion, "verbose");
		suggest_try(&suggestion, "version");
	}
	for (i = 0; !option && i < ARRAY_SIZE(commands); i++)
		suggest_try(&suggestion, commands[i]->name);
	text = did_you_mean(option ? "--" : "", &suggestion);
	ret = report(EXIT_PARAMETERS, "unknown %s '%s'%s 'rxadm --help' lists all",
		     option ? "option" : "command", name, text);
	free(text);
	return ret;
}

static const char help_usage[] =
	"Usage: rxadm help [COMMAND]\n"
	"\n"
	"Print the help of a command, as 'rxadm COMMAND --help' does, or list all commands.\n"
	"\n"
	"Options:\n"
	" -h, --help   print this help\n";

static enum exit_code run_help(int argc, char **argv)
{
	char *wanted[3] = { NULL };
	const struct command *command;
	bool help = false;
	enum exit_code ret;

	ret = help_option(argc, argv, help_usage, &help);
	if (ret || help)
		return ret;
	if (optind == argc) {
		print_help();
		return EXIT_OK;
	}
	ret = operands(argc, argv, 1, "[COMMAND]");
	if (ret)
		return ret;
	command = find_command(argv[optind]);
	if (!command)
		return unknown_command(argv[optind]);
	wanted[0] = argv[optind];
	wanted[1] = "--help";
	/* Reset getopt. */
	optind = 0;
	return command->run(ARRAY_SIZE(wanted) - 1, wanted);
}

const struct command command_help = {
	.name = "help",
	.summary = "print the help of a command",
	.run = run_help,
};

static enum exit_code run(int argc, char **argv)
{
	const struct command *command;

	if (argc > 1 && (!strcmp(argv[1], "--verbose") || !strcmp(argv[1], "-v"))) {
		waits_tell();
		argc--;
		argv++;
	}
	if (argc < 2)
		return report(EXIT_PARAMETERS, "a command is missing; 'rxadm --help' lists all");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help();
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("rxadm " RXADM_VERSION);
		return EXIT_OK;
	}
	command = find_command(argv[1]);
	if (!command)
		return unknown_command(argv[1]);

	report_command(command->name);
	opterr = 0;
	return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	enum exit_code ret;

	copy_start();
	ret = run(argc, argv);
	if (fflush(stdout) || ferror(stdout))
		return report(EXIT_DEVICE, "cannot write the output: %s", strerror(errno));
	return ret;
}
