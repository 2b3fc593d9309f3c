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
	"\n"
	"Options:\n"
	"     --mode MODE         writethrough, writearound or passthrough\n"
	"     --seq-cutoff SIZE   do not cache sequential I/O beyond this length; 0: cache\n"
	"                         all\n"
	"     --latency on|off    measure anew how long I/O takes, or end it\n"
	" -h, --help              print this help\n";

struct request {
	const char *name;
	const char *mode;	/* NULL: leave it */
	bool has_seq_cutoff;
	uint64_t seq_cutoff;
	const char *latency;	/* NULL: leave it */
};

static enum exit_code parse(int argc, char **argv, struct request *request, bool *help)
{
	static const struct option options[] = {
		{ "latency",	required_argument, NULL, OPT_LATENCY },
		{ "mode",	required_argument, NULL, OPT_MODE },
		{ "seq-cutoff",	required_argument, NULL, OPT_SEQ_CUTOFF },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_LATENCY:
			request->latency = optarg;
			if (strcmp(optarg, "on") && strcmp(optarg, "off"))
				ret = report(EXIT_PARAMETERS, "latency '%s': must be on or off",
					     optarg);
			break;
		case OPT_MODE:
			request->mode = optarg;
			ret = mode_argument(optarg);
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
	if (!request->mode && !request->has_seq_cutoff && !request->latency)
		return report(EXIT_PARAMETERS,
			      "an option is missing: --mode, --seq-cutoff or --latency");
	return mapping_name_check(request->name);
}

/* Send "KEY VALUE", and free the value. */
static enum exit_code send(const char *name, const char *key, char *value)
{
	char *message = format_text("%s %s", key, value);
	enum exit_code ret;

	ret = mapping_message(name, message, NULL);
	free(message);
	free(value);
	return ret;
}

static enum exit_code set(const struct request *request)
{
	const struct cache *cache;
	struct caches caches;
	enum exit_code ret;

	ret = cache_find(request->name, &caches, &cache);
	if (!ret && request->mode)
		ret = send(request->name, "mode", copy_text(request->mode));
	if (!ret && request->has_seq_cutoff)
		ret = send(request->name, "seq_cutoff",
			   format_text("%llu", (unsigned long long)request->seq_cutoff));
	if (!ret && request->latency)
		ret = latency_measure(request->name, !strcmp(request->latency, "on"));
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
	ret = set(&request);
	dm_end();
	return ret;
}

const struct command command_set = {
	.name = "set",
	.summary = "change what a cache does",
	.run = run,
};
