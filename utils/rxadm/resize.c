// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm resize
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"
#include "contents.h"
#include "control.h"
#include "device.h"
#include "machine.h"
#include "options.h"
#include "rehearse.h"
#include "resize.h"
#include "size.h"
#include "users.h"

static const char usage[] =
	"Usage: rxadm resize DEVICE SIZE [OPTION...]\n"
	"\n"
	"Grow or shrink a RAM disk.\n"
	"\n"
	"Options:\n"
	"     --force        shrink although the device is open, or data, a partition or a\n"
	"                    file system reaches beyond its new end; that part is lost\n"
	"     --overcommit   allow more than the share of memory for RAM disks\n"
	"     --dry-run      check all, print the call that would be made, and change nothing\n"
	" -h, --help         print this help\n";

static enum exit_code parse(int argc, char **argv, struct resize_request *request, bool *help)
{
	static const struct option options[] = {
		{ "dry-run",	no_argument, NULL, OPT_DRY_RUN },
		{ "force",	no_argument, NULL, OPT_FORCE },
		{ "overcommit",	no_argument, NULL, OPT_OVERCOMMIT },
		{ "help",	no_argument, NULL, 'h' },
		{ }
	};
	enum exit_code ret;
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_FORCE:
			request->flags |= RXD_RESIZE_FORCE;
			break;
		case OPT_OVERCOMMIT:
			request->flags |= RXD_RESIZE_OVERCOMMIT;
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	ret = operands(argc, argv, 2, "DEVICE SIZE [OPTION...]");
	if (ret)
		return ret;
	request->device = argv[optind];
	request->size_text = argv[optind + 1];
	return size_argument("size", request->size_text, &request->size);
}

static enum exit_code busy_error(int fd, const struct device *dev, int index)
{
	char *openers = openers_of(dev->number);
	char *users = users_of(dev->number);
	struct rxd_query query;
	enum exit_code ret;

	if (!control_query(fd, index, 0, &query) && query.state & RXD_STATE_CACHE)
		ret = report(EXIT_BUSY,
			     "%s '%s': cannot shrink while it is in use as a cache%s%s; run 'rxadm unmap' first",
			     dev->what, dev->path, users ? ", " : "", users ? users : "");
	else
		ret = report(EXIT_BUSY,
			     "%s '%s': cannot shrink while it is open (%s%s%s); close it first, or %s",
			     dev->what, dev->path, users ? users : "",
			     users && openers ? ", " : "",
			     openers ? openers : users ? "" : "by a process",
			     advice("give --force", "run 'rxadm resize --force'"));
	free(openers);
	free(users);
	return ret;
}

/*
 * The kernel knows which parts hold data; what a partition or a file system counts
 * as its own, written or not, only their tables tell.
 */
static enum exit_code check_contents(int fd, const struct device *dev, int index,
				     const struct resize_request *request, char **unknown)
{
	struct contents contents;
	char text[SIZE_TEXT_MAX];
	struct rxd_query query;
	enum exit_code ret;

	if (request->flags & RXD_RESIZE_FORCE ||
	    control_query(fd, index, 0, &query) || query.state & RXD_STATE_CACHE ||
	    request->size >= query.size)
		return EXIT_OK;
	ret = contents_read(dev, &contents);
	if (ret)
		return ret;

	if (contents.last && contents.end > request->size) {
		size_format(contents.end, text);
		ret = report(EXIT_BUSY,
			     "%s '%s': %s ends at %s (%llu bytes), beyond the new end '%s'; shrink it first, or %s",
			     dev->what, dev->path, contents.last, text,
			     (unsigned long long)contents.end, request->size_text,
			     advice("give --force", "run 'rxadm resize --force'"));
	} else {
		*unknown = contents.unknown;
		contents.unknown = NULL;
	}
	contents_release(&contents);
	return ret;
}

static enum exit_code resize(int fd, const struct device *dev, int index,
			     const struct resize_request *request)
{
	struct rxd_resize arg = {
		.version = RXD_ABI_VERSION,
		.flags = request->flags,
		.index = index,
		.size = request->size,
	};
	int err;

	if (request->dry_run)
		err = rehearse_resize(fd, dev, &arg);
	else
		err = ioctl(fd, RXD_RESIZE, &arg) ? errno : 0;
	switch (err) {
	case 0:
		return EXIT_OK;
	case EBUSY:
		return busy_error(fd, dev, index);
	case ENOTEMPTY:
		return report(EXIT_BUSY,
			      "%s '%s': holds data beyond the new end '%s'; %s throws it away",
			      dev->what, dev->path, request->size_text,
			      advice("--force", "'rxadm resize --force'"));
	case ERANGE:
		return control_share_error(fd, request->size_text, request->size, index);
	case ENOSPC:
		return control_reserve_error(request->size_text);
	default:
		return control_error(err, dev->path);
	}
}

static void note_cache(int fd, const struct device *dev, int index)
{
	struct rxd_query query;
	char *users;

	if (control_query(fd, index, 0, &query) || !(query.state & RXD_STATE_CACHE))
		return;
	users = users_of(dev->number);
	report(EXIT_OK,
	       "note: %s '%s': is a cache%s%s%s, which takes up the new size, and starts empty, after 'dmsetup suspend' and 'dmsetup resume'",
	       dev->what, dev->path, users ? " (" : "", users ? users : "", users ? ")" : "");
	free(users);
}

/**
 * ramdisk_resize - grow or shrink a RAM disk, or report why not
 * @fd: the control node
 * @dev: the RAM disk
 * @index: its device number
 * @request: what it is to be
 */
enum exit_code ramdisk_resize(int fd, const struct device *dev, int index,
			      const struct resize_request *request)
{
	char *unknown = NULL;
	struct rxd_query old;
	enum exit_code ret;
	bool same;

	same = !control_query(fd, index, 0, &old) && old.size == request->size;
	ret = check_contents(fd, dev, index, request, &unknown);
	if (!ret)
		ret = resize(fd, dev, index, request);
	if (!ret && !same && !request->dry_run)
		note_cache(fd, dev, index);
	if (!ret && unknown)
		report(EXIT_OK,
		       "note: %s '%s': holds %s, whose size is not known here; only data beyond the new end would have stopped this",
		       dev->what, dev->path, unknown);
	free(unknown);
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct resize_request request = { 0 };
	struct device dev;
	bool help = false;
	enum exit_code ret;
	int index;
	int fd;

	ret = parse(argc, argv, &request, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}

	ret = privilege_check();
	if (!ret)
		ret = control_open(&fd);
	if (ret)
		return ret;
	ret = device_find_rxd("device", request.device, &dev, &index);
	if (!ret) {
		ret = lock_take_one(dev.number, dev.path);
		if (!ret)
			ret = ramdisk_resize(fd, &dev, index, &request);
		device_release(&dev);
	}
	close(fd);
	return ret;
}

const struct command command_resize = {
	.name = "resize",
	.summary = "grow or shrink a RAM disk",
	.run = run,
};
