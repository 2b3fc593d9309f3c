// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm mode
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "caches.h"
#include "command.h"
#include "dm.h"
#include "machine.h"
#include "options.h"

static const char usage[] =
	"Usage: rxadm mode NAME [MODE] [--dry-run]\n"
	"\n"
	"Change what is cached, while the cache is in use. It lasts until the cache is removed.\n"
	"Without MODE, print the present one.\n"
	"\n"
	" writethrough   what is read and what is written\n"
	" writearound    what is read; what is written leaves the cache\n"
	" passthrough    nothing\n"
	"\n"
	"Options:\n"
	"     --dry-run   check all, print the message that would be sent, and change nothing\n"
	" -h, --help      print this help\n";

struct request {
	const char *name;
	const char *mode;	/* NULL: print it */
	bool dry_run;
};

static enum exit_code parse(int argc, char **argv, struct request *request, bool *help)
{
	enum exit_code ret;

	ret = dry_run_option(argc, argv, &request->dry_run, help);
	if (ret || *help)
		return ret;
	ret = operands(argc, argv, argc - optind == 1 ? 1 : 2, "NAME [MODE]");
	if (ret)
		return ret;
	request->name = mapping_name(argv[optind]);
	if (argc - optind == 2)
		request->mode = argv[optind + 1];
	ret = mapping_name_check(request->name);
	if (!ret && request->mode)
		ret = mode_argument(request->mode);
	return ret;
}

static enum exit_code mode(const struct request *request)
{
	struct rxcache_status status;
	enum exit_code ret;
	uint64_t sectors;
	char *message;

	ret = cache_query(request->name, &status, &sectors);
	if (ret)
		return ret;
	if (!request->mode) {
		puts(status.features.mode);
		return EXIT_OK;
	}
	message = format_text("mode %s", request->mode);
	ret = cache_message(request->name, message, request->dry_run);
	free(message);
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct request request = { 0 };
	bool help = false;
	enum exit_code ret;

	ret = parse(argc, argv, &request, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}

	ret = privilege_check();
	if (!ret && request.mode)
		ret = lock_take();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = mode(&request);
	dm_end();
	return ret;
}

const struct command command_mode = {
	.name = "mode",
	.summary = "change what is cached, or print the mode",
	.run = run,
};
