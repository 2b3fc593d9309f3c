// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm remove, rxadm clear: what wants nobody to use the device.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "control.h"
#include "device.h"
#include "lineage.h"
#include "machine.h"
#include "options.h"
#include "rehearse.h"
#include "remove.h"
#include "unfinished.h"

static const char remove_usage[] =
	"Usage: rxadm remove DEVICE [--dry-run]\n"
	"\n"
	"Remove a RAM disk and free its memory. What it holds is lost.\n"
	"\n"
	"Options:\n"
	"     --dry-run   check all, print the call that would be made, and change nothing\n"
	" -h, --help      print this help\n";

static const char clear_usage[] =
	"Usage: rxadm clear DEVICE [--dry-run]\n"
	"\n"
	"Forget all that a RAM disk holds and free that memory. The disk stays.\n"
	"\n"
	"Options:\n"
	"     --dry-run   check all, print the call that would be made, and change nothing\n"
	" -h, --help      print this help\n";

struct action {
	const char *usage;
	enum exit_code (*act)(int fd, const struct device *dev, int index, bool dry_run);
};

/**
 * ramdisk_remove - remove a RAM disk that nobody uses, or report who does
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 * @dry_run: only check, and print what would be done
 */
enum exit_code ramdisk_remove(int fd, const struct device *dev, int index, bool dry_run)
{
	const struct rxd_remove arg = { .version = control_abi(), .index = index };
	struct rxd_query query;
	enum exit_code ret;
	char *images;
	bool known;

	if (!dry_run) {
		known = !control_query(fd, index, 0, &query);
		images = lineage_path(dev->number);
		ret = control_idle(fd, RXD_REMOVE, &arg, dev);
		if (!ret && images)
			unlink(images);
		if (!ret && known)
			unfinished_end(query.uuid);
		free(images);
		return ret;
	}
	ret = control_idle_check(fd, index, dev);
	if (!ret)
		rehearse_remove(&arg);
	return ret;
}

/**
 * ramdisk_clear - forget all data of a RAM disk that nobody uses, or report who does
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 */
enum exit_code ramdisk_clear(int fd, const struct device *dev, int index)
{
	const struct rxd_clear arg = { .version = RXD_ABI_VERSION, .index = index };
	enum exit_code ret;

	ret = lineage_suspend(dev->number);
	if (ret)
		return ret;
	ret = control_idle(fd, RXD_CLEAR, &arg, dev);
	if (!ret)
		return lineage_forget(dev->number);
	lineage_restore(dev->number);
	return ret;
}

static bool is_read_only(const struct device *dev)
{
	char *text = sysfs_read(dev->number, "ro");
	bool read_only = text && !strcmp(text, "1");

	free(text);
	return read_only;
}

static enum exit_code clear_device(int fd, const struct device *dev, int index, bool dry_run)
{
	const struct rxd_clear arg = { .version = RXD_ABI_VERSION, .index = index };
	enum exit_code ret;

	if (!dry_run)
		return ramdisk_clear(fd, dev, index);
	ret = control_idle_check(fd, index, dev);
	if (!ret && is_read_only(dev))
		ret = control_error(EROFS, dev->path);
	if (!ret)
		rehearse_clear(&arg);
	return ret;
}

static enum exit_code run(int argc, char **argv, const struct action *action)
{
	static const struct option options[] = {
		{ "dry-run",	no_argument, NULL, OPT_DRY_RUN },
		{ "help",	no_argument, NULL, 'h' },
		{ }
	};
	bool dry_run = false;
	struct device dev;
	enum exit_code ret;
	int index;
	int opt;
	int fd;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_DRY_RUN:
			dry_run = true;
			break;
		case 'h':
			fputs(action->usage, stdout);
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	ret = operands(argc, argv, 1, "DEVICE [--dry-run]");
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = lock_take();
	if (!ret)
		ret = control_open(&fd);
	if (ret)
		return ret;
	ret = device_find_rxd("device", argv[optind], &dev, &index);
	if (!ret) {
		ret = action->act(fd, &dev, index, dry_run);
		device_release(&dev);
	}
	close(fd);
	return ret;
}

static enum exit_code run_remove(int argc, char **argv)
{
	static const struct action action = {
		.usage = remove_usage,
		.act = ramdisk_remove,
	};

	return run(argc, argv, &action);
}

static enum exit_code run_clear(int argc, char **argv)
{
	static const struct action action = {
		.usage = clear_usage,
		.act = clear_device,
	};

	return run(argc, argv, &action);
}

const struct command command_remove = {
	.name = "remove",
	.summary = "remove a RAM disk and free its memory",
	.run = run_remove,
};

const struct command command_clear = {
	.name = "clear",
	.summary = "forget all that a RAM disk holds",
	.run = run_clear,
};
