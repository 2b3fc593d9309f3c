// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm remove, rxadm clear: what wants nobody to use the device.
 */
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

#include "command.h"
#include "control.h"
#include "device.h"
#include "machine.h"
#include "options.h"
#include "remove.h"

static const char remove_usage[] =
	"Usage: rxadm remove DEVICE\n"
	"\n"
	"Remove a RAM disk and free its memory. What it holds is lost.\n"
	"\n"
	"Options:\n"
	" -h, --help   print this help\n";

static const char clear_usage[] =
	"Usage: rxadm clear DEVICE\n"
	"\n"
	"Forget all that a RAM disk holds and free that memory. The disk stays.\n"
	"\n"
	"Options:\n"
	" -h, --help   print this help\n";

/**
 * ramdisk_remove - remove a RAM disk that nobody uses, or report who does
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 */
enum exit_code ramdisk_remove(int fd, const struct device *dev, int index)
{
	const struct rxd_remove arg = { .version = RXD_ABI_VERSION, .index = index };

	return control_idle(fd, RXD_REMOVE, &arg, dev);
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

	return control_idle(fd, RXD_CLEAR, &arg, dev);
}

static enum exit_code run(int argc, char **argv, const char *usage,
			  enum exit_code (*act)(int fd, const struct device *dev, int index))
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct device dev;
	enum exit_code ret;
	int index;
	int opt;
	int fd;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		if (opt != 'h')
			return option_error(opt, argv);
		fputs(usage, stdout);
		return EXIT_OK;
	}
	ret = operands(argc, argv, 1, "DEVICE");
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
		ret = act(fd, &dev, index);
		device_release(&dev);
	}
	close(fd);
	return ret;
}

static enum exit_code run_remove(int argc, char **argv)
{
	return run(argc, argv, remove_usage, ramdisk_remove);
}

static enum exit_code run_clear(int argc, char **argv)
{
	return run(argc, argv, clear_usage, ramdisk_clear);
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
