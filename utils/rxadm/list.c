// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm list
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns/table.h"
#include "command.h"
#include "device.h"
#include "nvmet.h"
#include "options.h"

#define SYS_BLOCK	"/sys/block"
#define SECTOR		512

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

/* Where sysfs says it: to everybody, not only to root as the control node does. */
static const char *const attributes[] = {
	[COL_SIZE]	= "size",
	[COL_USED]	= "rxd/mem_used",
	[COL_MAX_USED]	= "rxd/mem_max_used",
	[COL_LIMIT]	= "rxd/mem_limit",
	[COL_LOGICAL_BLOCK_SIZE] = "queue/logical_block_size",
	[COL_STATE]	= "rxd/state",
	[COL_NOSPC]	= "rxd/nospc",
	[COL_DISCARDS]	= "rxd/discards",
	[COL_METADATA]	= "rxd/mem_index",
	[COL_USED_64K]	= "rxd/mem_64k",
	[COL_USED_2M]	= "rxd/mem_2m",
	[COL_FOLIO_SIZE] = "rxd/folio_size",
	[COL_NODE]	= "rxd/node",
	[COL_UUID]	= "rxd/uuid",
	[COL_EXPORT]	= NULL,
};

/* Return: false if the disk is gone. */
static bool read_values(dev_t number, char **values)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (!attributes[i])
			continue;
		values[i] = sysfs_read(number, attributes[i]);
		if (!values[i])
			return false;
	}
	return true;
}

static void set_value(struct table *table, size_t column, const char *text)
{
	uint64_t number = strtoull(text, NULL, 10);

	if (columns[column].kind == COLUMN_TEXT)
		table_set_text(table, column, text);
	else if (column == COL_SIZE)
		table_set_number(table, column, number * SECTOR);
	else if (column == COL_LIMIT && !number && !table_wants_bytes(table))
		table_set_text(table, column, "none");
	else
		table_set_number(table, column, number);
}

static void add_line(struct table *table, const char *name, dev_t number, char **values)
{
	char *device = format_text("/dev/%s", name);
	char *export = nvmet_exports_of(number);
	size_t i;

	table_add_line(table);
	table_set_text(table, COL_DEVICE, device);
	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		if (values[i])
			set_value(table, i, values[i]);
	if (export)
		table_set_text(table, COL_EXPORT, export);
	free(export);
	free(device);
}

/* One that is removed meanwhile is not listed. */
static void add_disk(struct table *table, const char *name)
{
	char *values[ARRAY_SIZE(attributes)] = { 0 };
	dev_t number;
	size_t i;

	if (sysfs_number_of(name, &number) && read_values(number, values))
		add_line(table, name, number, values);
	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		free(values[i]);
}

static int is_ramdisk(const struct dirent *entry)
{
	unsigned int index;
	char end;

	return sscanf(entry->d_name, "rxd%u%c", &index, &end) == 1;
}

/* Without the module there are none. */
static enum exit_code fill(struct table *table)
{
	struct dirent **entries;
	int count;
	int i;

	count = scandir(SYS_BLOCK, &entries, is_ramdisk, versionsort);
	if (count < 0)
		return report(exit_code_of(errno), "cannot read " SYS_BLOCK ": %s",
			      strerror(errno));
	for (i = 0; i < count; i++) {
		add_disk(table, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return EXIT_OK;
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
