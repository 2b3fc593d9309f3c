// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm extents
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "columns/table.h"
#include "command.h"
#include "control.h"
#include "device.h"
#include "machine.h"
#include "options.h"
#include "ramdisk.h"

enum {
	COL_START,
	COL_LENGTH,
};

static const struct column columns[] = {
	[COL_START]	= { "START", COLUMN_NUMBER, true, "bytes from the beginning of the disk" },
	[COL_LENGTH]	= { "LENGTH", COLUMN_NUMBER, true, "bytes that hold data" },
};

static const struct table_spec spec = {
	.name = "extents",
	.usage = "Usage: rxadm extents DEVICE [OPTION...]\n"
		 "\n"
		 "Show which ranges of a RAM disk hold data. All others read as zeros.\n",
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

static enum exit_code map_error(int err, const struct device *dev)
{
	if (err == EBUSY)
		return report(EXIT_BUSY,
			      "%s '%s': is in use as a cache; 'rxadm status' shows what it holds",
			      dev->what, dev->path);
	return control_error(err, dev->path);
}

static void add_line(void *data, const struct rxd_extent *extent)
{
	struct table *table = data;

	table_add_line(table);
	table_set_number(table, COL_START, extent->start);
	table_set_number(table, COL_LENGTH, extent->length);
}

static enum exit_code add_lines(struct table *table, int fd, const struct device *dev)
{
	int err = ramdisk_extents(fd, add_line, table);

	return err ? map_error(err, dev) : EXIT_OK;
}

static enum exit_code fill(struct table *table, const char *name)
{
	struct device dev;
	enum exit_code ret;
	int index;
	int fd;

	ret = privilege_check();
	if (!ret)
		ret = device_find_rxd("device", name, &dev, &index);
	if (ret)
		return ret;
	fd = open(dev.path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		ret = report(exit_code_of(errno), "%s '%s': cannot be opened: %s", dev.what,
			     dev.path, strerror(errno));
	} else {
		ret = add_lines(table, fd, &dev);
		close(fd);
	}
	device_release(&dev);
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct table *table;
	enum exit_code ret;

	ret = table_options(argc, argv, &spec, &table);
	if (ret || !table)
		return ret;
	ret = operands(argc, argv, 1, "DEVICE [OPTION...]");
	if (!ret)
		ret = fill(table, argv[optind]);
	if (!ret)
		ret = table_print(table);
	table_free(table);
	return ret;
}

const struct command command_extents = {
	.name = "extents",
	.summary = "show which ranges of a RAM disk hold data",
	.run = run,
};
