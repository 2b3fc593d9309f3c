// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm export
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "export.h"
#include "machine.h"
#include "options.h"

#define NQN_MAX		223
#define NQN_DISCOVERY	"nqn.2014-08.org.nvmexpress.discovery"
#define PORT_MAX	65535

static const char usage[] =
	"Usage: rxadm export DEVICE --transport tcp|loop [OPTION...]\n"
	"\n"
	"Offer a RAM disk or a cached disk to other machines, as an NVMe namespace, and print\n"
	"the NQN that they connect to.\n"
	"\n"
	"Options:\n"
	"     --transport tcp|loop   over the network, or to this machine itself\n"
	"     --address IP           where to listen: an address of this machine, or 0.0.0.0\n"
	"                            or :: for all of them\n"
	"     --port N               TCP port; without it, 4420\n"
	"     --nqn NQN              name to be found by; without it, one of the device's own\n"
	"     --allow-host NQN       a host that may connect; may be given several times\n"
	"     --allow-any-host       let every host connect\n"
	"     --dhchap-key FILE      secret that the allowed hosts must know (DHHC-1:...)\n"
	"     --dry-run              only print what would be done\n"
	" -h, --help                 print this help\n";

/**
 * export_nqn_check - report what cannot be the name of a subsystem or a host
 * @what: its part in the command
 * @nqn: the name
 */
enum exit_code export_nqn_check(const char *what, const char *nqn)
{
	static const char form[] = "nqn.dddd-dd.";
	size_t length = strlen(nqn);
	size_t i;
	bool ok = length > strlen(form) && length <= NQN_MAX;

	for (i = 0; ok && i < length; i++) {
		if (i < strlen(form))
			ok = form[i] == 'd' ? isdigit((unsigned char)nqn[i]) : nqn[i] == form[i];
		else
			ok = nqn[i] > ' ' && nqn[i] <= '~' && !strchr("/\\'\"", nqn[i]);
	}
	if (ok && strcmp(nqn, NQN_DISCOVERY))
		return EXIT_OK;
	return report(EXIT_PARAMETERS,
		      "%s '%s': must be of the form nqn.YYYY-MM.DOMAIN:NAME, of at most %d printable characters without spaces, slashes and quotes",
		      what, nqn, NQN_MAX);
}

static enum exit_code check_hosts(const struct export_request *request)
{
	enum exit_code ret = EXIT_OK;
	size_t i, k;

	if (request->allow_any_host && request->host_count)
		return report(EXIT_PARAMETERS,
			      "options --allow-host and --allow-any-host exclude each other");
	if (!request->allow_any_host && !request->host_count)
		return report(EXIT_PARAMETERS,
			      "who may connect is missing: --allow-host NQN for each host (its /etc/nvme/hostnqn has it), or --allow-any-host");
	if (request->key_path && !request->host_count)
		return report(EXIT_PARAMETERS,
			      "option --dhchap-key: is for hosts that --allow-host names");
	for (i = 0; !ret && i < request->host_count; i++) {
		ret = export_nqn_check("host", request->hosts[i]);
		for (k = 0; !ret && k < i; k++)
			if (!strcmp(request->hosts[i], request->hosts[k]))
				ret = report(EXIT_PARAMETERS, "host '%s': is given twice",
					     request->hosts[i]);
	}
	return ret;
}

static enum exit_code check_address(const struct export_request *request)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (!request->address)
		return report(EXIT_PARAMETERS,
			      "option --address is missing; it takes the IP address to listen at, or 0.0.0.0 for all");
	if (inet_pton(AF_INET, request->address, address) != 1 &&
	    inet_pton(AF_INET6, request->address, address) != 1)
		return report(EXIT_PARAMETERS,
			      "address '%s': must be an IP address such as 192.0.2.1 or 2001:db8::1",
			      request->address);
	if (request->port > PORT_MAX)
		return report(EXIT_PARAMETERS, "port '%u': must be a number from 1 to %d",
			      request->port, PORT_MAX);
	return EXIT_OK;
}

/**
 * export_check - report what is wrong with a request, without a look at the machine
 * @request: the request
 */
enum exit_code export_check(const struct export_request *request)
{
	enum exit_code ret;

	if (!request->transport)
		return report(EXIT_PARAMETERS,
			      "option --transport is missing; it takes tcp or loop");
	if (!strcmp(request->transport, "tcp")) {
		ret = check_address(request);
		if (ret)
			return ret;
	} else if (strcmp(request->transport, "loop")) {
		return report(EXIT_PARAMETERS, "transport '%s': must be tcp or loop",
			      request->transport);
	} else if (request->address || request->port) {
		return report(EXIT_PARAMETERS, "option %s: is for --transport tcp only",
			      request->address ? "--address" : "--port");
	}
	ret = check_hosts(request);
	if (!ret && request->nqn)
		ret = export_nqn_check("NQN", request->nqn);
	return ret;
}

/* An array that grows. */
struct hosts {
	const char **list;
	size_t count;
};

static enum exit_code port_argument(const char *text, unsigned int *port)
{
	enum exit_code ret = number_argument("port", text, PORT_MAX, port);

	if (!ret && !*port)
		ret = report(EXIT_PARAMETERS, "port '%s': must be a number from 1 to %d", text,
			     PORT_MAX);
	return ret;
}

static enum exit_code parse(int argc, char **argv, struct export_request *request,
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
			break;
		case OPT_ALLOW_ANY_HOST:
			request->allow_any_host = true;
			break;
		case OPT_ALLOW_HOST:
			hosts->list = resize_array(hosts->list, hosts->count + 1,
						   sizeof(*hosts->list));
			hosts->list[hosts->count++] = optarg;
			break;
		case OPT_DHCHAP_KEY:
			request->key_path = optarg;
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_NQN:
			request->nqn = optarg;
			break;
		case OPT_PORT:
			ret = port_argument(optarg, &request->port);
			break;
		case OPT_TRANSPORT:
			request->transport = optarg;
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 1, "DEVICE --transport tcp|loop [OPTION...]");
	if (ret)
		return ret;
	request->device = argv[optind];
	request->hosts = hosts->list;
	request->host_count = hosts->count;
	return export_check(request);
}

static enum exit_code make(const struct export_request *request)
{
	enum exit_code ret;
	char *nqn;

	ret = privilege_check();
	if (!ret)
		ret = lock_take();
	if (ret)
		return ret;

	/* Once made, the export must not lose its name to a signal. */
	signals_block();
	ret = export_device(request, &nqn);
	if (!ret && !request->dry_run)
		puts(nqn);
	fflush(stdout);
	signals_allow();
	free(nqn);
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct export_request request = { 0 };
	struct hosts hosts = { 0 };
	bool help = false;
	enum exit_code ret;

	ret = parse(argc, argv, &request, &hosts, &help);
	if (!ret && help)
		fputs(usage, stdout);
	else if (!ret)
		ret = make(&request);
	free(hosts.list);
	return ret;
}

const struct command command_export = {
	.name = "export",
	.summary = "offer a device to other machines over NVMe-oF",
	.run = run,
};
