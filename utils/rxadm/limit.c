// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm limit
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "command.h"
#include "device.h"
#include "limit.h"
#include "machine.h"
#include "options.h"
#include "size.h"
#include "values.h"

static const char usage[] =
	"Usage: rxadm limit DEVICE SIZE|none [--dry-run]\n"
	"\n"
	"Set how much memory the data of a RAM disk may take. What it holds stays.\n"
	"\n"
	"Options:\n"
	"     --dry-run   check all, print what would be written, and change nothing\n"
	" -h, --help      print this help\n";

/* What is reserved is taken already: a lower limit would limit nothing. */
static enum exit_code check_reserved(const struct device *dev, const char *text, uint64_t limit)
{
	char *state = sysfs_read(dev->number, "rxd/state");
	char *sectors = sysfs_read(dev->number, "size");
	uint64_t size = sectors ? strtoull(sectors, NULL, 10) << 9 : 0;
	enum exit_code ret = EXIT_OK;
	char size_text[SIZE_TEXT_MAX];

	if (limit && limit < size && state && strstr(state, "reserved"))
		ret = report(EXIT_PARAMETERS,
			     "memory limit '%s': must be at least %s, the size of %s, whose memory is reserved, or none",
			     text, size_format(size, size_text), dev->path);
	free(sectors);
	free(state);
	return ret;
}

/**
 * ramdisk_limit - set the memory that the data of a RAM disk may take
 * @dev: the RAM disk
 * @text: the limit as the user wrote it
 * @limit: bytes; 0: none but the capacity
 * @dry_run: only print what would be done
 */
enum exit_code ramdisk_limit(const struct device *dev, const char *text, uint64_t limit,
			     bool dry_run)
{
	enum exit_code ret;
	char *path, *value;
	int fd;

	ret = check_reserved(dev, text, limit);
	if (ret)
		return ret;
	path = format_text("/sys/dev/block/%u:%u/rxd/mem_limit", major(dev->number),
			   minor(dev->number));
	value = format_text("%llu", (unsigned long long)limit);

	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && dry_run)
		printf("echo '%s' > '%s'\n", value, path);
	else if (fd < 0 || write(fd, value, strlen(value)) < 0)
		ret = report(exit_code_of(errno), "%s '%s': the memory limit '%s': %s", dev->what,
			     dev->path, text, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(value);
	free(path);
	return ret;
}

static enum exit_code parse_limit(const char *text, uint64_t *limit)
{
	enum exit_code ret = EXIT_OK;
	char *error;

	if (!strcmp(text, "none"))
		return EXIT_OK;
	error = value_size(text, machine_ram(), limit);
	if (error)
		ret = report(EXIT_PARAMETERS, "memory limit '%s': %s, or none", text, error);
	free(error);
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	bool dry_run = false;
	bool help = false;
	uint64_t limit = 0;
	struct device dev;
	enum exit_code ret;
	int index;

	ret = dry_run_option(argc, argv, &dry_run, &help);
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}
	if (!ret)
		ret = operands(argc, argv, 2, "DEVICE SIZE|none [--dry-run]");
	if (!ret)
		ret = parse_limit(argv[optind + 1], &limit);
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = lock_take();
	if (!ret)
		ret = device_find_rxd("device", argv[optind], &dev, &index);
	if (ret)
		return ret;
	ret = ramdisk_limit(&dev, argv[optind + 1], limit, dry_run);
	device_release(&dev);
	return ret;
}

const struct command command_limit = {
	.name = "limit",
	.summary = "set how much memory a RAM disk may take",
	.run = run,
};
