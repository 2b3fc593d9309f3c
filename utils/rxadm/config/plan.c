// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plans: the steps from the current state to that of the configuration, and the steps that
 * sections [ramdisk NAME] and [cache NAME] have in common.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "base/values.h"
#include "config/plan.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/discard.h"
#include "kernel/disk_state.h"
#include "kernel/dry_run.h"
#include "kernel/ramdisk.h"

/**
 * plan_is_chosen - check whether a section is selected
 * @section: the section
 * @names: the selection, as NAME or KIND/NAME; ends with NULL. If empty, all sections without
 *	noauto are selected
 */
bool plan_is_chosen(const struct config_section *section, char **names)
{
	if (!*names)
		return !section->noauto;
	for (; *names; names++)
		if (config_is_called(section, *names))
			return true;
	return false;
}

/**
 * plan_step - add a step to a plan
 * @plan: the plan
 * @make: the function that executes it
 * @format: its description for the user
 */
void plan_step(struct plan *plan, enum exit_code (*make)(struct plan *plan),
	       const char *format, ...)
{
	struct plan_step *step;
	va_list args;

	plan->steps = resize_array(plan->steps, plan->count + 1, sizeof(*plan->steps));
	step = &plan->steps[plan->count++];
	*step = (struct plan_step){ .make = make };
	va_start(args, format);
	step->text = format_list(format, args);
	va_end(args);
}

/* Make the last step optional: the steps after it do not depend on it. */
void plan_optional(struct plan *plan)
{
	plan->steps[plan->count - 1].optional = true;
}

/* Find the RAM disk with the plan's UUID. If the search fails, set query_error. */
bool plan_find_disk(struct plan *plan)
{
	int err = ENODEV;
	int next;

	plan->query_error = EXIT_OK;
	plan->has_disk = false;
	for (next = 0; plan->control >= 0; next = plan->disk.index + 1) {
		err = control_query(plan->control, next, RXD_QUERY_NEXT, &plan->disk);
		if (err)
			break;
		if (!memcmp(plan->disk.uuid, plan->uuid, sizeof(plan->uuid))) {
			plan->has_disk = true;
			return true;
		}
	}
	if (err != ENODEV)
		plan->query_error = control_error(err, "/dev/" RXD_CONTROL_NAME);
	return false;
}

/**
 * plan_device - get the device of the plan's RAM disk
 * @plan: the plan, whose RAM disk exists
 * @dev: out: the device, to be released by device_release()
 * @index: out: its number
 */
enum exit_code plan_device(const struct plan *plan, struct device *dev, int *index)
{
	char *path = format_text("/dev/rxd%d", plan->disk.index);
	enum exit_code ret = device_find_rxd("RAM disk", path, dev, index);

	free(path);
	return ret;
}

/* Report that a key cannot be changed while the device exists. */
enum exit_code plan_fixed(const struct plan *plan, const char *key, const char *has,
			  const char *wants)
{
	const char *kind = config_kind_name(plan->section->kind);
	const char *name = plan->section->name;

	return report(EXIT_BUSY,
		      "%s '%s': is %s on the existing device, and cannot be changed; 'rxadm apply --stop %s/%s' and 'rxadm apply %s/%s' recreate the device",
		      key, wants, has, kind, name, kind, name);
}

static enum exit_code fixed_number(const struct plan *plan, const char *key, uint64_t has,
				   uint64_t wants)
{
	char has_text[SIZE_TEXT_MAX], wants_text[SIZE_TEXT_MAX];

	if (has == wants)
		return EXIT_OK;
	return plan_fixed(plan, key, size_format(has, has_text), size_format(wants, wants_text));
}

static enum exit_code fixed_flag(const struct plan *plan, const char *key, uint32_t state,
				 uint32_t flag)
{
	bool has = plan->disk.state & state;
	bool wants = plan->section->disk.flags & flag;

	if (has == wants)
		return EXIT_OK;
	return plan_fixed(plan, key, has ? "yes" : "no", wants ? "yes" : "no");
}

/* Frees both texts. */
static enum exit_code fixed_text(const struct plan *plan, const char *key, char *has, char *wants)
{
	enum exit_code ret = plan_fixed(plan, key, has, wants);

	free(wants);
	free(has);
	return ret;
}

static enum exit_code check_fixed(const struct plan *plan)
{
	const struct create_request *wants = &plan->section->disk;
	const struct rxd_query *has = &plan->disk;
	enum exit_code ret;

	ret = fixed_number(plan, "logical-block-size", has->logical_block_size,
			   wants->logical_block_size ? wants->logical_block_size : 512);
	if (!ret)
		ret = fixed_number(plan, "folio-size", has->folio_size,
				   wants->folio_size ? wants->folio_size : 4096);
	if (!ret)
		ret = fixed_flag(plan, "reserve", RXD_STATE_RESERVED, RXD_CREATE_RESERVE);
	if (!ret)
		ret = fixed_flag(plan, "detect-zeroes", RXD_STATE_DETECT_ZEROES,
				 RXD_CREATE_DETECT_ZEROES);
	if (!ret && has->node != wants->node)
		ret = fixed_text(plan, "node", ramdisk_node(has->node), ramdisk_node(wants->node));
	if (!ret && wants->has_index && (int)wants->index != has->index)
		ret = fixed_text(plan, "index", format_text("%d", has->index),
				 format_text("%u", wants->index));
	return ret;
}

static bool is_wanted(const struct config *config, unsigned int index)
{
	const struct create_request *disk;
	size_t i;

	for (i = 0; i < config->count; i++) {
		disk = &config->sections[i]->disk;
		if (disk->has_index && disk->index == index)
			return true;
	}
	return false;
}

/* Return: the lowest free number, from @index on, that no section asks for. */
static unsigned int free_index(const struct plan *plan, unsigned int index)
{
	struct rxd_query query;

	while (index < RXD_INDEX_MAX && (is_wanted(plan->config, index) ||
					 !control_query(plan->control, index, 0, &query)))
		index++;
	return index;
}

/*
 * The size of the memory differs slightly from boot to boot and between kernels. If the size is a
 * percentage of it, keep a disk or an image that differs by no more than 1/SHARE_SLACK.
 */
#define SHARE_SLACK	50

uint64_t plan_size(const struct plan *plan)
{
	const struct create_request *wants = &plan->section->disk;
	uint64_t has = plan->has_disk ? plan->disk.size : plan->image_size;
	uint64_t differs = has > wants->size ? has - wants->size : wants->size - has;

	return strchr(wants->size_text, '%') && differs <= wants->size / SHARE_SLACK ?
	       has : wants->size;
}

/*
 * Start over after so many collisions. Other processes may be creating disks with these numbers,
 * or with this UUID.
 */
#define TAKEN_MAX	16

/*
 * Name the disk after its section if the name is allowed for disks and not taken. Older modules do
 * not support names.
 */
static void name_disk(const struct plan *plan)
{
	const char *name = plan->section->name;
	char *disk = format_text("rxd%d", plan->disk.index);
	char *file = format_text("/sys/block/%s/rxd/name", disk);
	char *error = value_name(name);
	char *owner = error ? NULL : ramdisk_by_name(name);

	if (access(file, F_OK))
		;
	else if (error)
		report(EXIT_OK, "note: /dev/%s: has no name, because '%s' is not allowed: it %s",
		       disk, name, error);
	else if (owner)
		report(EXIT_OK, "note: /dev/%s: has no name, because %s has the name '%s'", disk,
		       owner, name);
	else
		ramdisk_rename(disk, name, false);
	free(file);
	free(owner);
	free(error);
	free(disk);
}

static struct create_request request_of(const struct plan *plan)
{
	struct create_request request = plan->section->disk;

	request.size = plan_size(plan);
	if (plan->section->map.min_size && !(request.flags & RXD_CREATE_OVERCOMMIT))
		request.flags |= RXD_CREATE_ELASTIC;
	memcpy(request.uuid, plan->uuid, sizeof(request.uuid));
	return request;
}

static enum exit_code ask_about_new(struct plan *plan)
{
	const struct create_request request = request_of(plan);
	const struct rxd_create arg = ramdisk_create_argument(&request);
	int err = dry_run_check_create(plan->control, &arg);

	return err ? ramdisk_create_error(plan->control, err, &request) : EXIT_OK;
}

static enum exit_code make_disk(struct plan *plan)
{
	struct create_request request = request_of(plan);
	unsigned int taken = 0, from = 0;
	enum exit_code ret;
	bool begun;
	int index;

	request.first_choice = !request.has_index;
	request.has_index = true;
	ret = disk_unfinished_begin(plan->uuid, &begun);
	if (ret)
		return ret;
	signals_block();
	for (;;) {
		if (request.first_choice)
			request.index = free_index(plan, from);
		index = request.index;
		ret = ramdisk_create(plan->control, &request, &index);
		if (!ret || index != RXD_INDEX_ANY)
			break;
		/* Try the next number: the other disk takes long if its memory is reserved. */
		from = request.index + 1;
		if (++taken % TAKEN_MAX == 0) {
			from = 0;
			pause_briefly();
		}
	}
	if (ret && begun)
		disk_unfinished_end(plan->uuid);
	signals_allow();
	plan->made = !ret;
	if (!ret && !plan_find_disk(plan))
		ret = report(EXIT_DEVICE, "/dev/rxd%d: was removed by another process", index);
	else if (!ret && plan->section->kind == CONFIG_RAMDISK)
		name_disk(plan);
	return ret;
}

static enum exit_code change_size(struct plan *plan)
{
	const struct resize_request request = {
		.size_text = plan->section->disk.size_text,
		.size = plan->section->disk.size,
		.flags = plan->section->disk.flags & RXD_CREATE_OVERCOMMIT ?
			 RXD_RESIZE_OVERCOMMIT : 0,
		.dry_run = plan->dry_run,
		.quiet = true,
		.for_cache = plan->grows,
	};
	enum exit_code ret;
	struct device dev;
	char *sequence;
	int index;

	ret = plan_device(plan, &dev, &index);
	if (ret)
		return ret;
	/* Exclude 'rxadm resize', which takes this lock to read the size and add to it. */
	sequence = disk_sequence(dev.number);
	ret = disk_lock(&dev, sequence, DISK_LOCK_SIZE);
	if (!ret) {
		ret = ramdisk_resize(plan->control, &dev, index, &request);
		disk_unlock(sequence, DISK_LOCK_SIZE);
	}
	free(sequence);
	device_release(&dev);
	return ret;
}

static enum exit_code change_limit(struct plan *plan)
{
	const char *text = plan->section->disk.mem_limit_text;
	enum exit_code ret;
	struct device dev;
	int index;

	ret = plan_device(plan, &dev, &index);
	if (ret)
		return ret;
	ret = ramdisk_limit(&dev, text ? text : "none", plan->section->disk.mem_limit,
			    false);
	device_release(&dev);
	return ret;
}

static void plan_limit(struct plan *plan)
{
	const struct create_request *wants = &plan->section->disk;

	if (plan->disk.mem_limit != wants->mem_limit)
		plan_step(plan, change_limit, "set the memory limit of /dev/rxd%d to %s",
			  plan->disk.index,
			  wants->mem_limit_text ? wants->mem_limit_text : "none");
}

/**
 * plan_disk - plan to create the RAM disk of a section, or to change the existing one
 * @plan: the plan
 */
enum exit_code plan_disk(struct plan *plan)
{
	const struct create_request *wants = &plan->section->disk;
	char from[SIZE_TEXT_MAX], to[SIZE_TEXT_MAX];
	uint64_t size = plan_size(plan);
	enum exit_code ret;

	size_format(size, to);
	if (!plan->has_disk) {
		plan_step(plan, make_disk, "create a RAM disk of %s", to);
		plan->steps[plan->count - 1].ask = ask_about_new;
		return EXIT_OK;
	}
	ret = check_fixed(plan);
	if (ret)
		return ret;
	if (plan->disk.size > size && plan->disk.state & RXD_STATE_CACHE)
		return plan_fixed(plan, "size", size_format(plan->disk.size, from),
				  wants->size_text);
	/* Reserved memory must fit into the limit: raise the limit first, but lower it last. */
	if (plan->disk.size < size)
		plan_limit(plan);
	if (plan->disk.size != size) {
		plan_step(plan, change_size, "resize /dev/rxd%d from %s to %s", plan->disk.index,
			  size_format(plan->disk.size, from), to);
		plan->steps[plan->count - 1].ask = change_size;
		plan->steps[plan->count - 1].frees = plan->disk.size > size ||
						     wants->flags & RXD_CREATE_OVERCOMMIT;
	}
	if (plan->disk.size >= size)
		plan_limit(plan);
	return EXIT_OK;
}

/* Remove the plan's RAM disk. If it is not as @saved, which may be NULL, set @changed instead. */
enum exit_code plan_remove_same(struct plan *plan, const struct disk_seen *saved, bool *changed)
{
	struct discard_request request = { .force = true, .saved = saved, .changed = changed };
	struct rxd_query query;
	enum exit_code ret;
	struct device dev;
	char *diskseq;
	int index;

	ret = plan_device(plan, &dev, &index);
	if (ret)
		return ret;
	/* Another disk may have this number now. Read the diskseq before the UUID. */
	diskseq = disk_sequence(dev.number);
	request.diskseq = diskseq;
	if (control_query(plan->control, index, 0, &query) ||
	    memcmp(query.uuid, plan->uuid, sizeof(query.uuid)))
		ret = report(EXIT_BUSY, "%s '%s': was removed or replaced", dev.what, dev.path);
	else
		ret = ramdisk_remove(plan->control, &dev, index, &request);
	free(diskseq);
	device_release(&dev);
	return ret;
}

/* Remove a RAM disk without data that is to be kept, also to undo a failed start. */
enum exit_code plan_remove_disk(struct plan *plan)
{
	return plan_remove_same(plan, NULL, NULL);
}

enum exit_code plan_make_steps(struct plan *plan, const char *name)
{
	enum exit_code first = EXIT_OK;
	enum exit_code ret = EXIT_OK;
	struct plan_step *step;

	for (step = plan->steps; !ret && step < plan->steps + plan->count; step++) {
		ret = step->make(plan);
		if (!ret && !step->told)
			printf("%s: %s\n", name, step->text);
		fflush(stdout);
		if (!first)
			first = plan->late ? plan->late : ret;
		if ((step->optional || plan->go_on) && !plan->signal)
			ret = EXIT_OK;
		plan->go_on = false;
	}
	plan->whole = !ret;
	if (plan->made && ret)
		plan_remove_disk(plan);
	else if (plan->made)
		disk_unfinished_end(plan->uuid);
	return first;
}

/* Let the driver check a step, unless the result depends on an earlier one. */
static enum exit_code ask_driver(struct plan *plan, const struct plan_step *step, bool limited)
{
	if (!plan->pending && !limited)
		return step->ask(plan);
	return report(EXIT_OK,
		      "note: the driver did not check '%s', because it depends on an earlier step",
		      step->text);
}

/* Print the steps of a dry run, up to the first that the driver would refuse. */
enum exit_code plan_print_steps(struct plan *plan, const char *name)
{
	const struct plan_step *step;
	enum exit_code ret = EXIT_OK;
	bool limited = false;

	dry_run_begin();
	for (step = plan->steps; !ret && step < plan->steps + plan->count; step++) {
		ret = step->ask ? ask_driver(plan, step, limited) : EXIT_OK;
		if (!ret)
			printf("%s: %s\n", name, step->text);
		plan->pending |= step->frees;
		limited |= step->make == change_limit;
	}
	return ret ? ret : plan->late;
}

void plan_release_steps(struct plan *plan)
{
	size_t i;

	for (i = 0; i < plan->count; i++)
		free(plan->steps[i].text);
	free(plan->steps);
	plan->steps = NULL;
	plan->saved.diskseq = 0;
	plan->late = EXIT_OK;
	plan->save = NULL;
	plan->grows = false;
	plan->count = 0;
}
