// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm stats
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "caches.h"
#include "command.h"
#include "dm.h"
#include "machine.h"
#include "options.h"

static const char usage[] =
	"Usage: rxadm stats reset NAME|--all [--dry-run]\n"
	"\n"
	"Set the counters of a cache, or of all caches, to zero. 'rxadm status' shows them.\n"
	"\n"
	"Options:\n"
	"     --all       all caches\n"
	"     --dry-run   check all, print the messages that would be sent, and change nothing\n"
	" -h, --help      print this help\n";

struct request {
	const char *name;	/* NULL: all */
	bool all;
	bool dry_run;
};

static enum exit_code parse(int argc, char **argv, struct request *request, bool *help)
{
	static const struct option options[] = {
		{ "all",	no_argument, NULL, OPT_ALL },
		{ "dry-run",	no_argument, NULL, OPT_DRY_RUN },
		{ "help",	no_argument, NULL, 'h' },
		{ }
	};
	enum exit_code ret;
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_ALL:
			request->all = true;
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	if (optind < argc && strcmp(argv[optind], "reset"))
		return report(EXIT_PARAMETERS, "'%s': must be reset", argv[optind]);
	if (request->all)
		return operands(argc, argv, 1, "reset NAME|--all");
	ret = operands(argc, argv, 2, "reset NAME|--all");
	if (ret)
		return ret;
	request->name = mapping_name(argv[optind + 1]);
	return mapping_name_check(request->name);
}

static enum exit_code reset(const struct request *request)
{
	const struct cache *cache;
	struct caches caches;
	enum exit_code ret;
	size_t i;

	if (request->name)
		ret = cache_find(request->name, &caches, &cache);
	else
		ret = caches_read(&caches);
	for (i = 0; !ret && i < caches.count; i++) {
		cache = &caches.list[i];
		if (request->all || !strcmp(cache->name, request->name))
			ret = cache_message(cache->name, "reset_stats", request->dry_run);
	}
	caches_free(&caches);
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
	if (!ret)
		ret = lock_take();
	if (!ret)
		ret = dm_begin();
	if (ret)
		return ret;
	ret = reset(&request);
	dm_end();
	return ret;
}

const struct command command_stats = {
	.name = "stats",
	.summary = "set the counters of caches to zero",
	.run = run,
};
