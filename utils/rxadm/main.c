// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm: RAM disks, and RAM disks that cache slow disks.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

static const struct command *const commands[] = {
	&command_create,
	&command_resize,
	&command_limit,
	&command_clear,
	&command_remove,
	&command_list,
	&command_info,
	&command_extents,
	&command_save,
	&command_load,
	&command_map,
	&command_unmap,
	&command_mode,
	&command_set,
	&command_status,
	&command_stats,
	&command_top,
	&command_metrics,
	&command_hotlist,
	&command_warm,
	&command_export,
	&command_unexport,
	&command_apply,
	&command_completion,
};

static void print_help(void)
{
	size_t i;

	puts("Usage: rxadm COMMAND [OPTION...]\n"
	     "       rxadm --help | --version\n"
	     "\n"
	     "Make RAM disks, and let them cache slow disks.\n"
	     "\n"
	     "Commands:");
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		printf(" %-10s %s\n", commands[i]->name, commands[i]->summary);
	puts("\n"
	     "'rxadm COMMAND --help' lists a command's options. Sizes are bytes, or have a\n"
	     "suffix K, M, G, T, P or E (1024-based), or are a percentage of the memory: 1.5G,\n"
	     "10%.\n"
	     "\n"
	     "Exit codes: 0 done, 1 wrong parameters, 2 no permission, 3 out of memory,\n"
	     "4 device missing, wrong or failing, 5 device exists or is busy.");
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
	return report(EXIT_PARAMETERS,
		      "unknown %s '%s'; 'rxadm --help' lists all",
		      *name == '-' ? "option" : "command", name);
}

static enum exit_code run(int argc, char **argv)
{
	const struct command *command;

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
	enum exit_code ret = run(argc, argv);

	if (fflush(stdout) || ferror(stdout))
		return report(EXIT_DEVICE, "cannot write the output: %s", strerror(errno));
	return ret;
}
