// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm export, unexport
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/signals.h"
#include "base/suggest.h"
#include "base/system.h"
#include "base/text.h"
#include "commands/command.h"
#include "commands/options.h"
#include "kernel/nvmet_disk.h"
#include "kernel/nvmet_export.h"

static const char export_usage[] =
	"Usage: rxadm export DEVICE --transport tcp|loop [OPTION...]\n"
	"\n"
	"Export a RAM disk or a cached disk to other machines over NVMe-oF, and print the NQN\n"
	"that they connect to. Either --allow-host or --allow-any-host is required.\n"
	"\n"
	"Options:\n"
	"     --transport tcp|loop   export over the network, or to this machine itself\n"
	"     --address IP           listen on this address of this machine; 0.0.0.0 or ::\n"
	"                            for all addresses; required for tcp\n"
	"     --port N               listen on this TCP port (default: 4420)\n"
	"     --nqn NQN              name that hosts connect to (default: derived from the\n"
	"                            device)\n"
	"     --allow-host NQN       allow this host to connect; may be given several times\n"
	"     --allow-any-host       allow all hosts to connect\n"
	"     --dhchap-key FILE      file with the secret that the allowed hosts must know, as\n"
	"                            'nvme gen-dhchap-key' prints it; requires --allow-host\n"
	"     --dry-run              print what would be done; change nothing\n"
	" -h, --help                 print this help\n";

static enum exit_code check_hosts(const struct export_request *request)
{
	enum exit_code ret = EXIT_OK;
	size_t i, k;

	if (request->allow_any_host && request->host_count)
		return report(EXIT_PARAMETERS,
			      "options --allow-host and --allow-any-host exclude each other");
	if (!request->allow_any_host && !request->host_count)
		return report(EXIT_PARAMETERS,
			      "option --allow-host or --allow-any-host is missing; give --allow-host with the NQN of each host (see its /etc/nvme/hostnqn), or --allow-any-host");
	if (request->key_path && !request->host_count)
		return report(EXIT_PARAMETERS,
			      "option --dhchap-key: requires --allow-host");
	for (i = 0; !ret && i < request->host_count; i++) {
		for (k = 0; !ret && k < i; k++)
			if (!strcmp(request->hosts[i], request->hosts[k]))
				ret = report(EXIT_PARAMETERS, "host '%s': is given twice",
					     request->hosts[i]);
	}
	return ret;
}

/* Check options that depend on each other. */
static enum exit_code check_export(const struct export_request *request)
{
	if (!request->transport)
		return report(EXIT_PARAMETERS,
			      "option --transport is missing; give tcp or loop");
	if (!strcmp(request->transport, "tcp") && !request->address)
		return report(EXIT_PARAMETERS,
			      "option --address is missing; give the IP address to listen on, or 0.0.0.0 for all");
	if (strcmp(request->transport, "tcp") && (request->address || request->port))
		return report(EXIT_PARAMETERS, "option %s: requires --transport tcp",
			      request->address ? "--address" : "--port");
	return check_hosts(request);
}

/* A growing array of host NQNs. */
struct hosts {
	const char **list;
	size_t count;
};

static enum exit_code parse_export(int argc, char **argv, struct export_request *request,
				   struct hosts *hosts, bool *help)
{
	static const struct option options[] = {
		{ "address",		required_argument, NULL, OPT_ADDRESS },
		{ "allow-any-host",	no_argument,	   NULL, OPT_ALLOW_ANY_HOST },
		{ "allow-host",		required_argument, NULL, OPT_ALLOW_HOST },
		{ "dhchap-key",		required_argument, NULL, OPT_DHCHAP_KEY },
		{ "dry-run",		no_argument,	   NULL, OPT_DRY_RUN },
		{ "nqn",		required_argument, NULL, OPT_NQN },
		{ "port",		required_argument, NULL, OPT_PORT },
		{ "transport",		required_argument, NULL, OPT_TRANSPORT },
		{ "help",		no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_ADDRESS:
			request->address = optarg;
			ret = address_argument(optarg);
			break;
		case OPT_ALLOW_ANY_HOST:
			request->allow_any_host = true;
			break;
		case OPT_ALLOW_HOST:
			hosts->list = resize_array(hosts->list, hosts->count + 1,
						   sizeof(*hosts->list));
			hosts->list[hosts->count++] = optarg;
			ret = nqn_argument("host", optarg);
			break;
		case OPT_DHCHAP_KEY:
			request->key_path = optarg;
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_NQN:
			request->nqn = optarg;
			ret = nqn_argument("NQN", optarg);
			break;
		case OPT_PORT:
			ret = port_argument(optarg, &request->port);
			break;
		case OPT_TRANSPORT:
			request->transport = optarg;
			ret = transport_argument(optarg);
			break;
		case 'h':
			return print_usage(export_usage, help);
		default:
			return option_error(opt, argv, options);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 1, "DEVICE --transport tcp|loop [OPTION...]");
	if (ret)
		return ret;
	request->device = argv[optind];
	request->hosts = hosts->list;
	request->host_count = hosts->count;
	return check_export(request);
}

static enum exit_code make_export(const struct export_request *request)
{
	enum exit_code ret;
	char *nqn;

	ret = privilege_check();
	if (ret)
		return ret;

	/* Block signals until the NQN of the new export is printed. */
	signals_block();
	ret = export_device(request, &nqn);
	if (!ret && !request->dry_run)
		puts(nqn);
	fflush(stdout);
	signals_allow();
	free(nqn);
	return ret;
}

static enum exit_code run_export(int argc, char **argv)
{
	struct export_request request = { 0 };
	struct hosts hosts = { 0 };
	bool help = false;
	enum exit_code ret;

	ret = parse_export(argc, argv, &request, &hosts, &help);
	if (!ret && !help)
		ret = make_export(&request);
	free(hosts.list);
	return ret;
}

const struct command command_export = {
	.name = "export",
	.summary = "export a device to other machines over NVMe-oF",
	.run = run_export,
};

static const char unexport_usage[] =
	"Usage: rxadm unexport DEVICE|NQN... [--dry-run]\n"
	"\n"
	"End the exports of devices. Connected hosts lose the devices. If one of the devices is\n"
	"not exported by rxadm, no export ends.\n"
	"\n"
	"Options:\n"
	"     --dry-run   print what would be done; change nothing\n"
	" -h, --help      print this help\n";

static enum exit_code run_unexport(int argc, char **argv)
{
	bool dry_run = false;
	bool help = false;
	enum exit_code ret;

	ret = dry_run_option(argc, argv, unexport_usage, &dry_run, &help);
	if (ret || help)
		return ret;
	if (optind == argc)
		ret = operands(argc, argv, 1, "DEVICE|NQN... [--dry-run]");
	if (!ret)
		ret = privilege_check();
	if (ret)
		return ret;

	signals_block();
	ret = unexport_devices(argv + optind, false, dry_run);
	signals_allow();
	return ret;
}

const struct command command_unexport = {
	.name = "unexport",
	.summary = "end exports of devices",
	.run = run_unexport,
};
