// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm list
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "columns/table.h"
#include "command.h"
#include "control.h"
#include "machine.h"
#include "nvmet.h"
#include "options.h"
#include "ramdisk.h"

enum {
	COL_DEVICE,
	COL_SIZE,
	COL_USED,
	COL_MAX_USED,
	COL_LIMIT,
	COL_LOGICAL_BLOCK_SIZE,
	COL_STATE,
	COL_NOSPC,
	COL_DISCARDS,
	COL_METADATA,
	COL_USED_64K,
	COL_USED_2M,
	COL_FOLIO_SIZE,
	COL_NODE,
	COL_UUID,
	COL_EXPORT,
};

static const struct column columns[] = {
	[COL_DEVICE]	= { "DEVICE", COLUMN_TEXT, true, "path of the RAM disk" },
	[COL_SIZE]	= { "SIZE", COLUMN_SIZE, true, "capacity" },
	[COL_USED]	= { "USED", COLUMN_SIZE, true, "memory that holds data" },
	[COL_MAX_USED]	= { "MAX_USED", COLUMN_SIZE, false, "largest USED since creation" },
	[COL_LIMIT]	= { "LIMIT", COLUMN_SIZE, true,
			    "memory that data may take; none, or 0 as a number: the capacity" },
	[COL_LOGICAL_BLOCK_SIZE] = { "LOGICAL_BLOCK_SIZE", COLUMN_NUMBER, false,
				     "logical block size in bytes" },
	[COL_STATE]	= { "STATE", COLUMN_TEXT, true,
			    "idle, or: open cache overcommit readonly reserved detect-zeroes" },
	[COL_NOSPC]	= { "NOSPC", COLUMN_NUMBER, false, "writes that found no memory" },
	[COL_DISCARDS]	= { "DISCARDS", COLUMN_NUMBER, false,
			    "discards and write-zeroes that freed memory" },
	[COL_METADATA]	= { "METADATA", COLUMN_SIZE, false,
			    "memory that keeps track of the data, not part of USED" },
	[COL_USED_64K]	= { "USED_64K", COLUMN_SIZE, false,
			    "part of USED that came in pieces of 64K or more" },
	[COL_USED_2M]	= { "USED_2M", COLUMN_SIZE, false,
			    "part of USED that came in pieces of 2M" },
	[COL_FOLIO_SIZE] = { "FOLIO_SIZE", COLUMN_SIZE, false,
			     "largest piece of memory that a long write asks for" },
	[COL_NODE]	= { "NODE", COLUMN_TEXT, false,
			    "NUMA node that the memory comes from, local or interleave" },
	[COL_UUID]	= { "UUID", COLUMN_TEXT, false, "identity, as in /dev/disk/by-id" },
	[COL_EXPORT]	= { "EXPORT", COLUMN_TEXT, false,
			    "NQN and address by which hosts reach it" },
};

static const struct table_spec spec = {
	.name = "ramdisks",
	.usage = "Usage: rxadm list [OPTION...]\n"
		 "\n"
		 "List the RAM disks.\n",
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

static void add_line(struct table *table, const struct rxd_query *query)
{
	char *device = format_text("/dev/rxd%d", query->index);
	char *state = ramdisk_state(query->state);
	char *node = ramdisk_node(query->node);
	char *uuid = ramdisk_uuid(query->uuid);
	char *export = nvmet_exports_of(makedev(query->major, query->minor));

	table_add_line(table);
	table_set_text(table, COL_DEVICE, device);
	table_set_number(table, COL_SIZE, query->size);
	table_set_number(table, COL_USED, query->mem_used);
	table_set_number(table, COL_MAX_USED, query->mem_max_used);
	if (query->mem_limit || table_wants_bytes(table))
		table_set_number(table, COL_LIMIT, query->mem_limit);
	else
		table_set_text(table, COL_LIMIT, "none");
	table_set_number(table, COL_LOGICAL_BLOCK_SIZE, query->logical_block_size);
	table_set_text(table, COL_STATE, state);
	table_set_number(table, COL_NOSPC, query->nospc);
	table_set_number(table, COL_DISCARDS, query->discards);
	table_set_number(table, COL_METADATA, query->mem_index);
	table_set_number(table, COL_USED_64K, query->mem_64k);
	table_set_number(table, COL_USED_2M, query->mem_2m);
	table_set_number(table, COL_FOLIO_SIZE, query->folio_size);
	table_set_text(table, COL_NODE, node);
	table_set_text(table, COL_UUID, uuid);
	if (export)
		table_set_text(table, COL_EXPORT, export);
	free(export);
	free(uuid);
	free(node);
	free(state);
	free(device);
}

static enum exit_code fill(struct table *table)
{
	struct rxd_query query;
	enum exit_code ret;
	int next = 0;
	int err = 0;
	int fd;

	ret = privilege_check();
	if (!ret)
		ret = control_open(&fd);
	if (ret)
		return ret;
	while (next <= RXD_INDEX_MAX &&
	       !(err = control_query(fd, next, RXD_QUERY_NEXT, &query))) {
		add_line(table, &query);
		next = query.index + 1;
	}
	if (err && err != ENODEV)
		ret = control_error(err, "the list of RAM disks");
	close(fd);
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct table *table;
	enum exit_code ret;

	ret = table_options(argc, argv, &spec, &table);
	if (ret || !table)
		return ret;
	ret = operands(argc, argv, 0, "[OPTION...]");
	if (!ret)
		ret = fill(table);
	if (!ret)
		ret = table_print(table);
	table_free(table);
	return ret;
}

const struct command command_list = {
	.name = "list",
	.summary = "list the RAM disks",
	.run = run,
};
