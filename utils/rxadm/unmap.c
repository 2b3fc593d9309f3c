// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm unmap
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caches.h"
#include "command.h"
#include "dm.h"
#include "machine.h"
#include "options.h"
#include "unmap.h"
#include "users.h"

#define OPEN_ROUNDS	20	/* of pause_briefly(): one second */

static const char usage[] =
	"Usage: rxadm unmap NAME [--dry-run]\n"
	"\n"
	"Remove a cache. The slow disk keeps all data; the RAM disk becomes empty and idle.\n"
	"\n"
	"Options:\n"
	"     --dry-run   check all, print what would be done, and change nothing\n"
	" -h, --help      print this help\n";

/*
 * rxadm killed at the wrong moment leaves one of ours without a table; where the modules
 * are missing, apply makes one that is the slow disk alone.
 */
static bool is_ours(const struct mapping *mapping)
{
	return (mapping->target && !strcmp(mapping->target, RXCACHE_TARGET)) ||
	       !strncmp(mapping->uuid, RXCACHE_UUID, strlen(RXCACHE_UUID));
}

static enum exit_code check(const char *name, const struct mapping *mapping)
{
	enum exit_code ret = EXIT_OK;
	char *users;

	if (!mapping->exists)
		return report(EXIT_DEVICE,
			      "mapping '%s': does not exist; 'rxadm status' lists all", name);
	if (!is_ours(mapping))
		return report(EXIT_DEVICE,
			      "mapping '%s': is not a cache (its target is %s); 'dmsetup remove' removes it",
			      name, mapping->target ? mapping->target : "none or several");
	users = users_of(mapping->number);
	if (users)
		ret = report(EXIT_BUSY, "mapping '%s': is in use (%s); release it there first",
			     name, users);
	free(users);
	return ret;
}

static enum exit_code open_error(const char *name, dev_t number)
{
	char *openers = openers_of(number);
	enum exit_code ret;

	ret = report(EXIT_BUSY, "mapping '%s': is %s; close it first", name,
		     openers ? openers : "open in a process");
	free(openers);
	return ret;
}

/**
 * cache_closed_check - report who has a cache open
 * @name: its name
 */
enum exit_code cache_closed_check(const char *name)
{
	struct mapping mapping;
	unsigned int open_count;
	enum exit_code ret;
	unsigned int round;
	dev_t number = 0;

	/* udev looks into a device that was just written: let it finish. */
	for (round = 0; round < OPEN_ROUNDS; round++) {
		ret = mapping_read(name, MAPPING_TABLE, &mapping);
		open_count = mapping.open_count;
		number = mapping.number;
		mapping_release(&mapping);
		if (ret || !open_count)
			return ret;
		pause_briefly();
	}
	return open_error(name, number);
}

/**
 * cache_unmap - remove a cache that nobody uses, or report who does
 * @name: its name
 * @dry_run: only check, and print what would be done
 */
enum exit_code cache_unmap(const char *name, bool dry_run)
{
	struct mapping mapping;
	enum exit_code ret;

	ret = mapping_read(name, MAPPING_TABLE, &mapping);
	if (!ret)
		ret = check(name, &mapping);
	mapping_release(&mapping);
	if (!ret)
		ret = cache_closed_check(name);
	if (ret)
		return ret;
	if (dry_run) {
		printf("dmsetup remove %s\n", name);
		return EXIT_OK;
	}

	signals_block();
	ret = mapping_remove(name);
	signals_allow();
	return ret;
}

/* What stands in for a cache needs no target. */
static enum exit_code begin(const char *name)
{
	struct mapping mapping;
	enum exit_code ret;
	bool exists;

	if (module_is_loaded("dm_rxcache") || !module_is_loaded("dm_mod"))
		return dm_begin();
	ret = dm_connect();
	if (ret)
		return ret;
	ret = mapping_read(name, MAPPING_TABLE, &mapping);
	exists = mapping.exists;
	mapping_release(&mapping);
	if (ret || !exists)
		dm_end();
	return ret || exists ? ret : dm_begin();
}

static enum exit_code run(int argc, char **argv)
{
	bool dry_run = false;
	bool help = false;
	enum exit_code ret;

	ret = dry_run_option(argc, argv, &dry_run, &help);
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}
	if (!ret)
		ret = operands(argc, argv, 1, "NAME [--dry-run]");
	if (!ret)
		ret = mapping_name_check(mapping_name(argv[optind]));
	if (!ret)
		ret = privilege_check();
	/* No lock: the origin may hang, and device-mapper removes a mapping once. */
	if (!ret)
		ret = begin(mapping_name(argv[optind]));
	if (ret)
		return ret;
	ret = cache_unmap(mapping_name(argv[optind]), dry_run);
	dm_end();
	return ret;
}

const struct command command_unmap = {
	.name = "unmap",
	.summary = "remove a cache",
	.run = run,
};
