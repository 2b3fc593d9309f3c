// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plans for sections [export NAME].
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "identity.h"
#include "machine.h"
#include "plan.h"

static const struct config_section *disk_section(const struct plan *plan)
{
	return config_find(plan->config, plan->section->values[CONFIG_DEVICE].text);
}

/* The device of the section that the export names, or NULL if it is not there. */
static char *find_device(struct plan *plan)
{
	const struct config_section *disk = disk_section(plan);
	char *path = NULL;

	/* What was started may be of a section that is gone by now. */
	if (!disk)
		return NULL;
	if (disk->kind == CONFIG_CACHE) {
		path = format_text("/dev/mapper/%s", disk->name);
		if (access(path, F_OK)) {
			free(path);
			path = NULL;
		}
		return path;
	}
	section_uuid(disk, plan->uuid);
	return plan_find_disk(plan) ? format_text("/dev/rxd%d", plan->disk.index) : NULL;
}

static enum exit_code no_device(const struct plan *plan)
{
	const char *device = plan->section->values[CONFIG_DEVICE].text;

	return report(EXIT_DEVICE, "device '%s': is not there; 'rxadm apply %s' makes it",
		      device, device);
}

static enum exit_code make_export(struct plan *plan)
{
	struct export_request request = plan->section->export;
	char *device = find_device(plan);
	enum exit_code ret;
	char *nqn;

	if (!device)
		return no_device(plan);
	request.device = device;
	signals_block();
	ret = export_device(&request, &nqn);
	signals_allow();
	free(nqn);
	free(device);
	return ret;
}

static enum exit_code end_export(struct plan *plan)
{
	char *device = find_device(plan);
	enum exit_code ret;

	if (!device)
		return no_device(plan);
	signals_block();
	ret = unexport_device(device, false);
	signals_allow();
	free(device);
	return ret;
}

static void plan_export(struct plan *plan)
{
	char *address = export_address(&plan->section->export);

	plan_step(plan, make_export, "export %s (%s)", plan->section->values[CONFIG_DEVICE].text,
		  address);
	free(address);
}

/**
 * plan_start_export - plan to have a device exported as its section says
 * @plan: the plan
 */
enum exit_code plan_start_export(struct plan *plan)
{
	struct export_request request = plan->section->export;
	struct export_state state;
	enum exit_code ret;
	char *device;

	device = find_device(plan);
	if (!device && !(plan->dry_run && plan_is_chosen(disk_section(plan), plan->names)))
		return no_device(plan);
	if (!device) {
		plan_export(plan);
		return EXIT_OK;
	}
	request.device = device;
	ret = export_compare(&request, &state);
	if (!ret && state.nqn && !state.ours)
		ret = report(EXIT_BUSY,
			     "device '%s': is exported already, as %s, and not by rxadm; whoever made that must end it first",
			     device, state.nqn);
	else if (!ret && !state.nqn)
		plan_export(plan);
	else if (!ret && state.key)
		ret = plan_fixed(plan, state.key, state.has, state.wants);
	export_state_release(&state);
	free(device);
	return ret;
}

/* A section that nobody knows, or is not understood, tells nothing about its disk. */
static enum exit_code stop_without_device(const struct plan *plan)
{
	const char *device = plan->section->values[CONFIG_DEVICE].text;
	const struct config_section *disk = disk_section(plan);

	if (disk && disk->kind == CONFIG_RAMDISK && (plan->control_error || plan->query_error))
		return plan->control_error ? plan->control_error : plan->query_error;
	if ((disk && !disk->broken) || !export_is_made(plan->section->export.nqn))
		return EXIT_OK;
	return report(EXIT_DEVICE,
		      "device '%s': its section is %s, so the export '%s' cannot be found; mend the configuration, or run 'rxadm unexport NQN'",
		      device, disk ? "broken" : "missing", plan->section->name);
}

/**
 * plan_stop_export - plan to export a device no more
 * @plan: the plan
 */
enum exit_code plan_stop_export(struct plan *plan)
{
	char *device = find_device(plan);
	struct export_state state;
	enum exit_code ret;

	if (!device)
		return stop_without_device(plan);
	ret = export_find(device, &state);
	if (!ret && (state.left || (state.nqn && state.ours)))
		plan_step(plan, end_export, "end the export of %s",
			  plan->section->values[CONFIG_DEVICE].text);
	export_state_release(&state);
	free(device);
	return ret;
}
