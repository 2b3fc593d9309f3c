// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm set
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caches.h"
#include "command.h"
#include "dm.h"
#include "latency.h"
#include "machine.h"
#include "options.h"

static const char usage[] =
	"Usage: rxadm set NAME OPTION...\n"
	"\n"
	"Change what a cache does, while it is in use. It lasts until the cache is removed.\n"
	"Its mode changes by 'rxadm mode'.\n"
	"\n"
	"Options:\n"
	"     --seq-cutoff SIZE   do not cache sequential I/O beyond this length; 0: cache\n"
	"                         all\n"
	"     --latency on|off    measure anew how long I/O takes, or end it\n"
	"     --dry-run           check all, print what would be sent, and change nothing\n"
	" -h, --help              print this help\n";

struct request {
	const char *name;
	bool has_seq_cutoff;
	uint64_t seq_cutoff;
	const char *latency;	/* NULL: leave it */
	bool dry_run;
};

static enum exit_code parse(int argc, char **argv, struct request *request, bool *help)
{
	static const struct option options[] = {
		{ "dry-run",	no_argument,	   NULL, OPT_DRY_RUN },
		{ "latency",	required_argument, NULL, OPT_LATENCY },
		{ "seq-cutoff",	required_argument, NULL, OPT_SEQ_CUTOFF },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_LATENCY:
			request->latency = optarg;
			if (strcmp(optarg, "on") && strcmp(optarg, "off"))
				ret = report(EXIT_PARAMETERS, "latency '%s': must be on or off",
					     optarg);
			break;
		case OPT_SEQ_CUTOFF:
			request->has_seq_cutoff = true;
			ret = seq_cutoff_argument(optarg, &request->seq_cutoff);
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 1, "NAME OPTION...");
	if (ret)
		return ret;
	request->name = mapping_name(argv[optind]);
	if (!request->has_seq_cutoff && !request->latency)
		return report(EXIT_PARAMETERS,
			      "an option is missing: --seq-cutoff or --latency");
	return mapping_name_check(request->name);
}

static enum exit_code send_seq_cutoff(const struct request *request, uint64_t bytes)
{
	char *message = format_text("seq_cutoff %llu", (unsigned long long)bytes);
	enum exit_code ret;

	ret = cache_message(request->name, message, request->dry_run);
	free(message);
	return ret;
}

static enum exit_code set(const struct request *request)
{
	const struct cache *cache;
	struct caches caches;
	uint64_t old = 0;
	enum exit_code ret;

	ret = cache_find(request->name, &caches, &cache);
	if (!ret)
		old = cache->table.features.seq_cutoff;
	caches_free(&caches);
	if (!ret && request->has_seq_cutoff)
		ret = send_seq_cutoff(request, request->seq_cutoff);
	if (ret || !request->latency)
		return ret;
	ret = latency_measure(request->name, !strcmp(request->latency, "on"), request->dry_run);
	/* Both or none: what was measured could not be had back, the cut-off can. */
	if (ret && request->has_seq_cutoff && !request->dry_run)
		send_seq_cutoff(request, old);
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
	ret = set(&request);
	dm_end();
	return ret;
}

const struct command command_set = {
	.name = "set",
	.summary = "change what a cache does",
	.run = run,
};
