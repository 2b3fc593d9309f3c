// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm diff: the ranges in which two RAM disks differ
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "commands/command.h"
#include "commands/options.h"
#include "copy/copy.h"
#include "copy/file.h"
#include "device/device.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/extents.h"
#include "output/table.h"

/* --compare reads this many bytes at once, and compares blocks of the size COMPARE_BLOCK. */
#define COMPARE_AT_ONCE	((size_t)1 << 20)
#define COMPARE_BLOCK	4096

enum {
	COL_START,
	COL_LENGTH,
};

static const struct column columns[] = {
	[COL_START]	= { "START", COLUMN_NUMBER, true, "offset in bytes" },
	[COL_LENGTH]	= { "LENGTH", COLUMN_NUMBER, true, "length in bytes" },
};

static const char usage[] =
	"Usage: rxadm diff DEVICE --base BASE [OPTION...]\n"
	"\n"
	"Show the ranges of the RAM disk DEVICE that it does not share with the RAM disk BASE.\n"
	"If one of them is a clone of the other, these are the ranges that were changed since.\n"
	"No data is read, unless --compare is given.\n";

static const struct table_spec spec = {
	.name = "diff",
	.usage = usage,
	.columns = columns,
	.count = ARRAY_SIZE(columns),
};

struct request {
	const char *base;
	bool compare;
};

struct disk {
	struct device dev;
	int index;
	int fd;
	char *data;	/* buffer for --compare */
};

struct diff {
	struct disk disk;
	struct disk base;
	bool compare;
	struct table *table;
	struct rxd_extent found;	/* is not in the table yet; length 0: none */
	bool any;			/* a range was found */
	enum exit_code ret;
};

static void list_found(struct diff *diff)
{
	if (!diff->found.length)
		return;
	table_add_line(diff->table);
	table_set_number(diff->table, COL_START, diff->found.start);
	table_set_number(diff->table, COL_LENGTH, diff->found.length);
	diff->any = true;
}

static void add_range(struct diff *diff, uint64_t start, uint64_t length)
{
	if (diff->found.length && diff->found.start + diff->found.length == start) {
		diff->found.length += length;
		return;
	}
	list_found(diff);
	diff->found = (struct rxd_extent){ start, length };
}

/* Fill the part beyond the end of the smaller disk with zeros. */
static enum exit_code read_part(struct disk *disk, uint64_t start, size_t length)
{
	size_t done;
	int err;

	err = file_read(disk->fd, disk->data, length, start, &done);
	if (err)
		return report(exit_code_of(err), "%s '%s': cannot be read: %s", disk->dev.what,
			      disk->dev.path, strerror(err));
	memset(disk->data + done, 0, length - done);
	return EXIT_OK;
}

static enum exit_code compare_part(struct diff *diff, uint64_t start, size_t length)
{
	enum exit_code ret;
	size_t at;

	ret = read_part(&diff->disk, start, length);
	if (!ret)
		ret = read_part(&diff->base, start, length);
	for (at = 0; !ret && at < length; at += COMPARE_BLOCK)
		if (memcmp(diff->disk.data + at, diff->base.data + at, COMPARE_BLOCK))
			add_range(diff, start + at, COMPARE_BLOCK);
	return ret;
}

static bool add_extent(void *data, const struct rxd_extent *extent)
{
	uint64_t start = extent->start, end = start + extent->length, part;
	struct diff *diff = data;

	if (!diff->compare)
		add_range(diff, start, extent->length);
	for (; diff->compare && !diff->ret && start < end; start += part) {
		part = end - start < COMPARE_AT_ONCE ? end - start : COMPARE_AT_ONCE;
		diff->ret = compare_part(diff, start, part);
	}
	return !diff->ret;
}

static bool is_lost(const struct device *dev)
{
	char *state = sysfs_read(dev->number, "rxd/state");
	bool lost = state && strstr(state, "lost");

	free(state);
	return lost;
}

static enum exit_code diff_error(int err, const struct diff *diff)
{
	const struct device *dev = &diff->disk.dev, *base = &diff->base.dev;

	if (err == EIO && is_lost(base))
		dev = base;
	if (err == EBUSY)
		return report(EXIT_BUSY,
			      "%s '%s' or %s '%s': is in use as a cache; 'rxadm list' shows which",
			      dev->what, dev->path, base->what, base->path);
	return control_clone_error(err, dev, "compared with another one");
}

static enum exit_code add_lines(struct diff *diff)
{
	uint64_t shared;
	int err;

	err = extents_diff(diff->disk.fd, diff->base.fd, add_extent, diff, &shared);
	if (err)
		return diff_error(err, diff);
	if (diff->ret)
		return diff->ret;
	list_found(diff);
	if (!diff->compare && diff->any && !shared)
		report(EXIT_OK,
		       "%s '%s': shares no memory with %s '%s', so all data of both is listed; --compare lists what differs",
		       diff->disk.dev.what, diff->disk.dev.path, diff->base.dev.what,
		       diff->base.dev.path);
	return EXIT_OK;
}

static enum exit_code open_disk(struct disk *disk, const char *what, const char *name,
				bool compare)
{
	enum exit_code ret;

	ret = device_find_rxd(what, name, &disk->dev, &disk->index);
	if (ret)
		return ret;
	/* Read what is on the disk, past the page cache. */
	disk->fd = open(disk->dev.path, O_RDONLY | O_CLOEXEC | (compare ? O_DIRECT : 0));
	if (disk->fd < 0)
		return report(exit_code_of(errno), "%s '%s': cannot be opened: %s", what,
			      disk->dev.path, strerror(errno));
	disk->data = compare ? aligned_alloc(COPY_ALIGN, COMPARE_AT_ONCE) : NULL;
	return compare && !disk->data ? report(EXIT_MEMORY, "out of memory") : EXIT_OK;
}

static void close_disk(struct disk *disk)
{
	if (disk->fd >= 0)
		close(disk->fd);
	free(disk->data);
	device_release(&disk->dev);
}

static enum exit_code fill(struct table *table, const char *name, const struct request *request)
{
	struct diff diff = {
		.disk.fd = -1,
		.base.fd = -1,
		.compare = request->compare,
		.table = table,
	};
	enum exit_code ret;

	ret = privilege_check();
	if (!ret)
		ret = open_disk(&diff.disk, "device", name, diff.compare);
	if (!ret)
		ret = open_disk(&diff.base, "base", request->base, diff.compare);
	if (!ret && diff.disk.index == diff.base.index)
		ret = report(EXIT_PARAMETERS,
			     "base '%s': is the RAM disk to be compared; give another one",
			     diff.base.dev.path);
	if (!ret)
		ret = add_lines(&diff);
	close_disk(&diff.disk);
	close_disk(&diff.base);
	return ret;
}

static const struct option options[] = {
	{ "base",	required_argument, NULL, OPT_BASE },
	{ "compare",	no_argument,	   NULL, OPT_COMPARE },
	{ }
};

static void set_option(void *data, int opt)
{
	struct request *request = data;

	if (opt == OPT_BASE)
		request->base = optarg;
	else
		request->compare = true;
}

static enum exit_code run(int argc, char **argv)
{
	struct request request = { 0 };
	const struct table_extra extra = {
		.options = options,
		.help = "     --base BASE        the RAM disk to compare with\n"
			"     --compare          read these ranges, and show only those that differ\n",
		.set = set_option,
		.data = &request,
	};
	struct table *table;
	enum exit_code ret;

	ret = table_options_with(argc, argv, &spec, &extra, &table);
	if (ret || !table)
		return ret;
	ret = operands(argc, argv, 1, "DEVICE --base BASE [OPTION...]");
	if (!ret && !request.base)
		ret = report(EXIT_PARAMETERS,
			     "option --base is missing; give the RAM disk to compare with");
	if (!ret)
		ret = fill(table, argv[optind], &request);
	if (!ret)
		ret = table_print(table);
	table_free(table);
	return ret;
}

const struct command command_diff = {
	.name = "diff",
	.summary = "show the ranges in which two RAM disks differ",
	.run = run,
};
