// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm create
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "command.h"
#include "control.h"
#include "create.h"
#include "device.h"
#include "machine.h"
#include "options.h"
#include "rehearse.h"
#include "unfinished.h"

static const char usage[] =
	"Usage: rxadm create --size SIZE [OPTION...]\n"
	"\n"
	"Make a RAM disk and print its path. Memory is taken as data is written.\n"
	"\n"
	"Options:\n"
	"     --size SIZE              capacity: 64M, 1.5G, 10% of the memory\n"
	"     --index N                make /dev/rxdN; without it, the lowest free number\n"
	"     --logical-block-size N   512 or 4096 bytes; without it, 512\n"
	"     --mem-limit SIZE         memory that the data may take; without it, the capacity\n"
	"     --overcommit             allow more than the share of memory for RAM disks\n"
	"     --reserve                take all the memory now, so that no write lacks any\n"
	"     --folio-size SIZE        largest piece of memory that a long write asks for: 4K,\n"
	"                              64K or 2M; without it, 4K\n"
	"     --node NODE              take memory from this NUMA node, or: local, that of the\n"
	"                              writer; interleave, all in turn; without it, local\n"
	"     --uuid UUID              identity in /dev/disk/by-id; without it, a random one\n"
	"     --detect-zeroes          store no pages that hold zeros only\n"
	"     --dry-run                check all, print the call that would be made, and change\n"
	"                              nothing\n"
	" -h, --help                   print this help\n";

/* What the options must be together. */
static enum exit_code check(const struct create_request *request)
{
	if (!request->size_text)
		return report(EXIT_PARAMETERS, "option --size is missing; it takes the capacity");
	if (!(request->flags & RXD_CREATE_RESERVE))
		return EXIT_OK;
	if (request->flags & RXD_CREATE_DETECT_ZEROES)
		return report(EXIT_PARAMETERS,
			      "options --reserve and --detect-zeroes exclude each other: one keeps the memory that the other gives back");
	if (request->mem_limit_text && request->mem_limit < request->size)
		return report(EXIT_PARAMETERS,
			      "memory limit '%s': must be at least the size '%s' with --reserve",
			      request->mem_limit_text, request->size_text);
	return EXIT_OK;
}

static enum exit_code parse(int argc, char **argv, struct create_request *request, bool *help)
{
	static const struct option options[] = {
		{ "detect-zeroes",	no_argument,	   NULL, OPT_DETECT_ZEROES },
		{ "dry-run",		no_argument,	   NULL, OPT_DRY_RUN },
		{ "folio-size",		required_argument, NULL, OPT_FOLIO_SIZE },
		{ "index",		required_argument, NULL, OPT_INDEX },
		{ "logical-block-size",	required_argument, NULL, OPT_LOGICAL_BLOCK_SIZE },
		{ "mem-limit",		required_argument, NULL, OPT_MEM_LIMIT },
		{ "node",		required_argument, NULL, OPT_NODE },
		{ "overcommit",		no_argument,	   NULL, OPT_OVERCOMMIT },
		{ "reserve",		no_argument,	   NULL, OPT_RESERVE },
		{ "size",		required_argument, NULL, OPT_SIZE },
		{ "uuid",		required_argument, NULL, OPT_UUID },
		{ "help",		no_argument,	   NULL, 'h' },
		{ }
	};
	enum exit_code ret = EXIT_OK;
	int opt;

	while (!ret && (opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_DETECT_ZEROES:
			request->flags |= RXD_CREATE_DETECT_ZEROES;
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_FOLIO_SIZE:
			ret = folio_size_argument(optarg, &request->folio_size);
			break;
		case OPT_INDEX:
			request->has_index = true;
			ret = number_argument("index", optarg, 0, RXD_INDEX_MAX, &request->index);
			break;
		case OPT_LOGICAL_BLOCK_SIZE:
			ret = logical_block_size_argument(optarg, &request->logical_block_size);
			break;
		case OPT_MEM_LIMIT:
			request->mem_limit_text = optarg;
			ret = size_argument("memory limit", optarg, &request->mem_limit);
			break;
		case OPT_NODE:
			request->node_text = optarg;
			ret = node_argument(optarg, &request->node);
			break;
		case OPT_OVERCOMMIT:
			request->flags |= RXD_CREATE_OVERCOMMIT;
			break;
		case OPT_RESERVE:
			request->flags |= RXD_CREATE_RESERVE;
			break;
		case OPT_SIZE:
			request->size_text = optarg;
			ret = size_argument("size", optarg, &request->size);
			break;
		case OPT_UUID:
			request->uuid_text = optarg;
			ret = uuid_argument(optarg, request->uuid);
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	if (!ret)
		ret = operands(argc, argv, 0, "--size SIZE [OPTION...]");
	return ret ? ret : check(request);
}

static enum exit_code exists_error(int fd, const struct create_request *request)
{
	struct rxd_query query;

	if (request->has_index && !control_query(fd, request->index, 0, &query))
		return report(EXIT_BUSY,
			      "index '%u': /dev/rxd%u exists; leave out %s to get a free one",
			      request->index, request->index, advice("--index", "the key index"));
	return report(EXIT_BUSY,
		      "UUID '%s': another RAM disk has it; 'rxadm list -o +UUID' shows which",
		      request->uuid_text ? request->uuid_text : "");
}

static enum exit_code node_error(const struct create_request *request)
{
	char *nodes = machine_nodes();
	enum exit_code ret;

	ret = report(EXIT_PARAMETERS,
		     "node '%s': has no memory or does not exist; nodes with memory: %s",
		     request->node_text ? request->node_text : "local", nodes ? nodes : "none");
	free(nodes);
	return ret;
}

/**
 * create_error - report why a RAM disk could not be made
 * @fd: the control node
 * @err: errno of RXD_CREATE
 * @request: what was wanted
 */
enum exit_code create_error(int fd, int err, const struct create_request *request)
{
	char *object;
	enum exit_code ret;

	switch (err) {
	case EEXIST:
		return exists_error(fd, request);
	case ERANGE:
		return control_share_error(fd, request->size_text, request->size, -1);
	case ENOSPC:
		if (request->flags & RXD_CREATE_RESERVE)
			return control_reserve_error(request->size_text);
		return report(EXIT_BUSY, "no device number from 0 to %d is free", RXD_INDEX_MAX);
	case ENXIO:
		return node_error(request);
	case EINVAL:
		/* A number beyond those that this kernel is built for. */
		if (request->node >= 0)
			return node_error(request);
		break;
	}
	object = format_text("size '%s'", request->size_text);
	ret = control_error(err, object);
	free(object);
	return ret;
}

/**
 * create_wait - wait for the node of a new RAM disk
 * @fd: the control node
 * @index: device number
 * @path: the node
 */
enum exit_code create_wait(int fd, int index, const char *path)
{
	struct rxd_query query;
	int err;

	err = control_query(fd, index, 0, &query);
	if (!err && device_wait(path, makedev(query.major, query.minor)))
		return EXIT_OK;
	if (err)
		return control_error(err, path);
	return report(EXIT_DEVICE,
		      "'%s': the node did not appear; is devtmpfs mounted on /dev?", path);
}

/**
 * create_argument - what RXD_CREATE takes
 * @request: what is wanted
 */
struct rxd_create create_argument(const struct create_request *request)
{
	struct rxd_create arg = {
		.version = RXD_ABI_VERSION,
		.flags = request->flags,
		.index = request->has_index ? (int)request->index : RXD_INDEX_ANY,
		.logical_block_size = request->logical_block_size,
		.size = request->size,
		.mem_limit = request->mem_limit,
		.folio_size = request->folio_size,
		.node = request->node,
	};

	memcpy(arg.uuid, request->uuid, sizeof(arg.uuid));
	return arg;
}

static bool has_uuid(int fd, const uint8_t *uuid)
{
	struct rxd_query query;
	int next;

	for (next = 0; !control_query(fd, next, RXD_QUERY_NEXT, &query); next = query.index + 1)
		if (!memcmp(query.uuid, uuid, sizeof(query.uuid)))
			return true;
	return false;
}

/**
 * ramdisk_create - make a RAM disk, with its node in /dev, or report why not
 * @fd: the control node
 * @request: what to make
 * @index: out: its device number, unless @request is for a dry run; RXD_INDEX_ANY: the
 *	first choice is taken, which is not reported
 */
enum exit_code ramdisk_create(int fd, const struct create_request *request, int *index)
{
	struct rxd_remove remove = { .version = RXD_ABI_VERSION };
	struct rxd_create arg = create_argument(request);
	enum exit_code ret;
	char *path;
	int err;

	if (request->dry_run) {
		err = rehearse_create(fd, &arg);
		return err ? create_error(fd, err, request) : EXIT_OK;
	}
	if (ioctl(fd, RXD_CREATE, &arg)) {
		err = errno;
		if (err == EEXIST && request->first_choice && !has_uuid(fd, request->uuid)) {
			*index = RXD_INDEX_ANY;
			return EXIT_BUSY;
		}
		return create_error(fd, err, request);
	}
	path = format_text("/dev/rxd%d", arg.index);
	ret = create_wait(fd, arg.index, path);
	remove.index = arg.index;
	if (ret)
		ioctl(fd, RXD_REMOVE, &remove);
	free(path);
	*index = arg.index;
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct create_request request = { .node = RXD_NODE_LOCAL };
	bool help = false;
	enum exit_code ret;
	int index;
	int fd = -1;

	ret = parse(argc, argv, &request, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}

	/* No lock: the kernel gives a number and a UUID to one disk alone. */
	ret = privilege_check();
	if (!ret && !request.dry_run && !module_is_loaded("rxd"))
		ret = module_load("rxd");
	if (!ret && (!request.dry_run || module_is_loaded("rxd")))
		ret = control_open(&fd);
	if (ret)
		return ret;

	/* Once made, the device must not lose its name to a signal. */
	signals_block();
	ret = ramdisk_create(fd, &request, &index);
	if (!ret && !request.dry_run) {
		unfinished_end(request.uuid);
		printf("/dev/rxd%d\n", index);
	}
	fflush(stdout);
	signals_allow();
	if (fd >= 0)
		close(fd);
	return ret;
}

const struct command command_create = {
	.name = "create",
	.summary = "make a RAM disk",
	.run = run,
};
