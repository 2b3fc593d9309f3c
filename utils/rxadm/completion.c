// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm completion
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "completion.h"
#include "options.h"

static const char usage[] =
	"Usage: rxadm completion bash|zsh|fish\n"
	"\n"
	"Print the script by which a shell completes the arguments of rxadm.\n"
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

static enum exit_code run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	enum exit_code ret;
	size_t i;
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt != 'h')
			return option_error(opt, argv);
		fputs(usage, stdout);
		return EXIT_OK;
	}
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
	.summary = "print the completion script of a shell",
	.run = run,
};
