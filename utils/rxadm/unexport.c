// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm unexport
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "device.h"
#include "export.h"
#include "machine.h"
#include "nvmet.h"
#include "options.h"

static const char usage[] =
	"Usage: rxadm unexport DEVICE|NQN [OPTION...]\n"
	"\n"
	"Offer a device no more. Hosts that use it lose it.\n"
	"\n"
	"Options:\n"
	"     --dry-run   only print what would be done\n"
	" -h, --help      print this help\n";

/**
 * export_clean_up - remove what an rxadm that was killed left
 * @nqn: an export that the caller looks for, or NULL
 * @device: path of a device that the caller looks for, or NULL
 * @dry_run: only print what would be done
 * @found: out: whether one of them was among it
 */
enum exit_code export_clean_up(const char *nqn, const char *device, bool dry_run,
			       bool *found)
{
	struct steps plan = { 0 };
	const struct step *failed;
	enum exit_code ret;
	int err;

	ret = nvmet_plan_stale(&plan, nqn, device, found);
	if (ret) {
		steps_free(&plan);
		return ret;
	}
	if (dry_run) {
		steps_print(&plan);
	} else {
		err = steps_run(&plan, &failed);
		if (err)
			ret = report(exit_code_of(err),
				     "'%s': was left by an rxadm that was killed, and cannot be removed: %s",
				     failed->path, strerror(err));
	}
	steps_free(&plan);
	return ret;
}

/**
 * export_take_back - remove an export of ours, whole or half made
 * @nqn: the export
 */
enum exit_code export_take_back(const char *nqn)
{
	enum exit_code ret = EXIT_OK;
	struct steps plan = { 0 };
	const struct step *failed;
	int err;

	nvmet_plan_removal(&plan, nqn);
	err = steps_run(&plan, &failed);
	if (err)
		ret = report(exit_code_of(err), "NQN '%s': '%s' cannot be removed: %s", nqn,
			     failed->path, strerror(err));
	steps_free(&plan);
	return ret;
}

static enum exit_code remove_export(const char *nqn, bool dry_run)
{
	enum exit_code ret = EXIT_OK;
	struct steps plan = { 0 };

	if (dry_run) {
		nvmet_plan_removal(&plan, nqn);
		steps_print(&plan);
		steps_free(&plan);
	} else {
		ret = export_take_back(nqn);
	}
	return ret;
}

static enum exit_code not_exported(const char *name, const struct nvmet_export *foreign)
{
	if (foreign)
		return report(EXIT_DEVICE,
			      "'%s': was not exported by rxadm; whoever made '%s' must end it, as with 'nvmetcli'",
			      name, foreign->nqn);
	return report(EXIT_DEVICE, "'%s': is not exported; 'rxadm list -o +EXPORT' shows what is",
		      name);
}

static enum exit_code find_and_remove(const char *name, const struct device *dev, bool found,
				      bool dry_run)
{
	const struct nvmet_export *foreign = NULL;
	const struct nvmet_export *export;
	struct nvmet_exports exports;
	enum exit_code ret = EXIT_OK;
	size_t i;

	nvmet_exports_read(&exports);
	for (i = 0; !ret && i < exports.count; i++) {
		export = &exports.list[i];
		if (dev ? !nvmet_export_is_of(export, dev->number) : strcmp(export->nqn, name))
			continue;
		if (!export->ours) {
			foreign = export;
			continue;
		}
		found = true;
		ret = remove_export(export->nqn, dry_run);
	}
	if (!ret && !found)
		ret = not_exported(name, foreign);
	nvmet_exports_free(&exports);
	return ret;
}

/**
 * unexport_device - offer a device no more
 * @name: the device, or its NQN
 * @dry_run: only print what would be done
 *
 * The caller has the privilege and the lock, and blocks signals.
 */
enum exit_code unexport_device(const char *name, bool dry_run)
{
	bool is_nqn = !strncmp(name, "nqn.", 4) && !strchr(name, '/');
	struct device dev = { 0 };
	enum exit_code ret;
	char *path = NULL;
	bool found;

	ret = is_nqn ? nqn_argument("NQN", name) : device_find("device", name, &dev);
	if (ret)
		return ret;
	if (!is_nqn)
		path = device_path(dev.number);
	ret = export_clean_up(is_nqn ? name : NULL, path, dry_run, &found);
	if (!ret)
		ret = find_and_remove(name, is_nqn ? NULL : &dev, found, dry_run);
	free(path);
	device_release(&dev);
	return ret;
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
		ret = operands(argc, argv, 1, "DEVICE|NQN");
	if (!ret)
		ret = privilege_check();
	if (!ret)
		ret = lock_take();
	if (ret)
		return ret;

	signals_block();
	ret = unexport_device(argv[optind], dry_run);
	signals_allow();
	return ret;
}

const struct command command_unexport = {
	.name = "unexport",
	.summary = "offer a device no more",
	.run = run,
};
