// SPDX-License-Identifier: GPL-2.0-only
/*
 * Saving the RAM disks of sections [ramdisk NAME]: to their images, or beside those that must
 * be kept. Also: the RAM disks and caches that belong to no section; and saving the hot lists of
 * caches.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/common.h"
#include "base/file.h"
#include "base/system.h"
#include "base/text.h"
#include "config/config.h"
#include "config/config_files.h"
#include "config/plan.h"
#include "copy/file.h"
#include "image/names.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"
#include "kernel/hotlist.h"
#include "kernel/saves.h"
#include "save/disk_access.h"
#include "save/save.h"

#define GENERATED	"/run/systemd/generator"

/* Return: the section that a RAM disk belongs to, or NULL. */
const struct config_section *plan_section_of(const struct config *config,
					     const struct rxd_query *disk)
{
	uint8_t uuid[16];
	size_t i;

	for (i = 0; i < config->count; i++) {
		config_section_uuid(config->sections[i], uuid);
		if (!memcmp(uuid, disk->uuid, sizeof(uuid)))
			return config->sections[i];
	}
	return NULL;
}

/* Return: whether a section exports the device of the plan's section. */
bool plan_is_exported(const struct plan *plan)
{
	const char *device;
	size_t i;

	for (i = 0; i < plan->config->count; i++) {
		device = plan->config->sections[i]->values[CONFIG_DEVICE].text;
		if (device && config_is_called(plan->section, device))
			return true;
	}
	return false;
}

static enum exit_code print_other_caches(const struct config *config)
{
	struct caches caches;
	enum exit_code ret = caches_read(&caches);
	size_t i;

	for (i = 0; !ret && i < caches.count; i++)
		if (!config_section_find(config, CONFIG_CACHE, caches.list[i].name))
			printf("/dev/mapper/%s: is not in the configuration and is left alone\n",
			       caches.list[i].name);
	caches_free(&caches);
	return ret;
}

/* List RAM disks and caches that are not in the configuration; apply does not change them. */
enum exit_code plan_print_others(const struct plan *plan)
{
	enum exit_code first = EXIT_OK, second = EXIT_OK;
	struct rxd_query disk;
	int err = ENODEV;
	int next;

	for (next = 0; plan->control >= 0; next = disk.index + 1) {
		err = control_query(plan->control, next, RXD_QUERY_NEXT, &disk);
		if (err)
			break;
		if (!plan_section_of(plan->config, &disk))
			printf("/dev/rxd%d: is not in the configuration and is left alone\n",
			       disk.index);
	}
	if (err != ENODEV)
		first = control_error(err, "/dev/" RXD_CONTROL_NAME);
	if (plan->has_target)
		second = print_other_caches(plan->config);
	return first ? first : second;
}

/**
 * plan_keeps_disk - check whether 'rxadm remove --all' must keep a RAM disk, and report why
 * @disk: the RAM disk
 *
 * A section is recorded before its disk is created, so the disk is found in the records. If a
 * record cannot be read, the disk is kept.
 */
bool plan_keeps_disk(const struct rxd_query *disk)
{
	struct config started = { .ram = system_ram() };
	const struct config_section *section;
	bool kept = true;

	config_record_read_all(&started, RUN_FOLDER, NULL);
	section = plan_section_of(&started, disk);
	if (section)
		report(EXIT_OK,
		       "note: /dev/rxd%d: 'rxadm apply' started it; 'rxadm apply --stop %s/%s' removes it",
		       disk->index, config_kind_name(section->kind), section->name);
	else if (started.error_count)
		report(EXIT_OK, "note: /dev/rxd%d: 'rxadm apply' may have started it: %s",
		       disk->index, started.errors[0]);
	else if (disk_is_unfinished(disk->uuid))
		report(EXIT_OK,
		       "note: /dev/rxd%d: was not started completely; 'rxadm remove /dev/rxd%d' removes it",
		       disk->index, disk->index);
	else
		kept = false;
	config_free(&started);
	return kept;
}

static const char *image_of(const struct plan *plan)
{
	return plan->section->values[CONFIG_IMAGE].text;
}

/* Without its record, only the configuration tells the image: keep a disk that has none there. */
enum exit_code plan_check_unsaved(const struct plan *plan)
{
	int index = plan->disk.index;

	if (!plan->has_disk || plan->section->kind != CONFIG_RAMDISK || image_of(plan))
		return EXIT_OK;
	return report(EXIT_BUSY,
		      "/dev/rxd%d: is kept, because its record is damaged, which may have had an image; save it if necessary, and run 'rxadm remove /dev/rxd%d'",
		      index, index);
}

static enum exit_code save(struct plan *plan, struct save_args *args)
{
	char *device = format_text("/dev/rxd%d", plan->disk.index);
	enum exit_code ret;

	args->device = device;
	args->compress = plan->section->compress;
	args->level = plan->section->compress;
	args->progress = PROGRESS_NONE;
	ret = image_save(args);
	plan->signal = args->signal;
	plan->saved = args->seen;
	free(device);
	return ret;
}

/* Save a disk that is not in use. */
static enum exit_code save_whole(struct plan *plan, bool apart, bool keep_old, char **beside)
{
	struct save_args args = {
		.file = image_of(plan),
		.keep = true,
		.apart = apart,
		.keep_old = keep_old,
		.folder = plan->section->folder,
	};
	enum exit_code ret = save(plan, &args);

	if (args.old)
		report(EXIT_OK,
		       "note: image '%s': contains only the newest state; its older generations are kept in '%s'",
		       image_of(plan), args.old);
	free(args.old);
	*beside = args.beside;
	return ret;
}

/*
 * Choose a name beside an image that must be kept. Use that of the last save again: otherwise,
 * regular saves would fill the file system.
 */
static int choose_beside(struct output *output, const char *sequence, char **beside)
{
	struct image_beside last;
	int err = image_find_beside(output->folder_fd, output->name, &last);

	if (err)
		return err;
	if (last.name && image_may_be_replaced(sequence, output->folder_fd, last.name))
		*beside = image_beside_path(output->folder_fd, last.name);
	else
		err = image_name_beside(output, beside);
	free(last.name);
	return err;
}

/*
 * Find out where a disk is saved. @beside is NULL if that is its image, which it is never if @apart
 * is set.
 */
static enum exit_code find_place(const struct plan *plan, const char *sequence, bool apart,
				 char **beside)
{
	struct output output;
	int err;

	*beside = NULL;
	err = output_find(&output, image_of(plan), false);
	if (err) {
		err = image_find_apart(&output, image_of(plan), err);
		apart = true;
	}
	apart = apart || !image_may_take_name(&output, sequence, plan->section->folder);
	if (!err && apart)
		err = choose_beside(&output, sequence, beside);
	output_discard(&output);
	return err ? file_replace_error("image", image_of(plan), err) : EXIT_OK;
}

static bool has_updates(const struct plan *plan)
{
	return plan->section->autosave || plan->section->keep;
}

/* Save a disk that may be in use; with @apart: all of it, beside the image. */
static enum exit_code save_meanwhile(struct plan *plan, bool apart, char **beside)
{
	unsigned int keep = plan->section->keep;
	struct save_args args = {
		.update = has_updates(plan) && !apart,
		.generations = keep ? keep : 1,
		.terse = true,
		.own = true,
	};
	char *sequence = disk_sequence(makedev(plan->disk.major, plan->disk.minor));
	enum exit_code ret = find_place(plan, sequence, apart, beside);

	if (ret)
		save_cost_add(sequence, false, 0, 0);
	free(sequence);
	if (ret)
		return ret;
	args.file = *beside ? *beside : image_of(plan);
	args.folder = *beside ? 0 : plan->section->folder;
	args.instead = *beside;
	ret = save(plan, &args);
	if (args.beside) {
		free(*beside);
		*beside = args.beside;
	}
	return ret;
}

/* At a start, save the data beside the image. The user must decide whether it is of use. */
enum exit_code plan_save_unfinished(struct plan *plan)
{
	enum exit_code ret;
	char *beside;

	ret = save_whole(plan, true, false, &beside);
	if (!ret)
		report(EXIT_OK,
		       "note: /dev/rxd%d: was not started completely, but held data, which is saved as '%s'",
		       plan->disk.index, beside);
	free(beside);
	return ret;
}

/* Return: why a disk was saved beside its image, and not to it. */
static const char *cause_of_beside(const struct plan *plan, bool apart)
{
	const char *image = image_of(plan);
	struct output output;
	char *sequence;
	bool may;
	int err;

	if (apart)
		return "the RAM disk was not started completely";
	err = output_find(&output, image, false);
	output_discard(&output);
	if (image_is_no_file(err))
		return err == ENOLINK ? "its path contains a symbolic link of another user" :
		       output_is_lost_link(image) ? "it is a symbolic link to a missing file" :
						    "it is not a regular file";
	if (!image_id(AT_FDCWD, image))
		return "it is not a valid image";
	sequence = disk_sequence(makedev(plan->disk.major, plan->disk.minor));
	may = image_may_be_replaced(sequence, AT_FDCWD, image);
	free(sequence);
	if (may)
		return "a hard link, which would keep its generations, cannot be created";
	return "the RAM disk was never loaded from or saved to it, or was emptied or reset later";
}

static enum exit_code tell_of_saved(const struct plan *plan, bool apart, const char *beside)
{
	const char *image = image_of(plan);
	int index = plan->disk.index;
	struct stat st;

	if (!apart && lstat(image, &st))
		return report(EXIT_BUSY,
			      "image '%s': does not exist, and its directory is on another file system than when /dev/rxd%d was started; the RAM disk is saved as '%s'",
			      image, index, beside);
	return report(EXIT_BUSY,
		      "image '%s': is kept, because %s; /dev/rxd%d is saved as '%s'",
		      image, cause_of_beside(plan, apart), index, beside);
}

/* A disk that was saved beside its image need not stay, but the user must learn of it. */
static enum exit_code end_save(struct plan *plan, enum exit_code ret, bool apart, char *beside)
{
	if (!ret && beside) {
		ret = tell_of_saved(plan, apart, beside);
		plan->go_on = true;
	}
	free(beside);
	return ret;
}

static void save_used(struct plan *plan, bool apart)
{
	char *beside;
	enum exit_code ret = save_meanwhile(plan, apart, &beside);

	/* If an update fails, the whole disk may still be saved. */
	if (ret && !apart && has_updates(plan) && !plan->signal) {
		free(beside);
		ret = save_meanwhile(plan, true, &beside);
	}
	if (!ret)
		report(EXIT_OK, "note: /dev/rxd%d: stays; what it holds now is saved as '%s'",
		       plan->disk.index, beside ? beside : image_of(plan));
	free(beside);
}

/*
 * At a stop, save a disk that stays because it is in use: at shutdown, nothing saves it later.
 * Return: the error that the stop ends with.
 */
enum exit_code plan_save_used(struct plan *plan)
{
	save_used(plan, false);
	return EXIT_BUSY;
}

/* Save a disk before its removal. If an update fails, the whole disk may still be saved. */
enum exit_code plan_save_image(struct plan *plan)
{
	bool apart = disk_is_unfinished(plan->uuid);
	enum exit_code ret = EXIT_OK;
	char *beside = NULL;
	bool whole = apart || !has_updates(plan);

	if (!whole)
		ret = save_meanwhile(plan, false, &beside);
	if (ret && !plan->signal) {
		report(EXIT_OK,
		       "note: /dev/rxd%d: the update failed; saving the whole disk instead",
		       plan->disk.index);
		free(beside);
		whole = true;
	}
	/* An update would have kept older generations: do not lose them by its failure. */
	if (whole)
		ret = save_whole(plan, apart, plan->section->keep > 1, &beside);
	/* A program has the disk open, or writes to it. */
	if (ret == EXIT_BUSY && whole && !apart && !plan->signal)
		save_used(plan, has_updates(plan));
	return end_save(plan, ret, apart, beside);
}

/* From now on, a timer should save the disk. */
void plan_begin_autosave(struct plan *plan)
{
	if (plan->section->autosave && plan_find_disk(plan))
		save_cost_begin(makedev(plan->disk.major, plan->disk.minor));
}

static bool has_line(FILE *file, const char *wanted)
{
	bool found = false;
	char *line = NULL;
	size_t size = 0;

	while (!found && getline(&line, &size, file) >= 0)
		found = !strcmp(line, wanted);
	free(line);
	return found;
}

/* Return: whether the service of a section may save a file, or the section has no service. */
static bool service_may_save(const char *service, const char *path)
{
	static const char * const drop_ins[] = { CONFIG_DROP_IN, CONFIG_DROP_IN_STARTED };
	bool found = false, has_service = false;
	char *wanted = unit_writable(path);
	char *name;
	FILE *file;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(drop_ins); i++) {
		name = format_text(GENERATED "/%s.d/%s", service, drop_ins[i]);
		file = fopen(name, "re");
		free(name);
		if (!file)
			continue;
		has_service = true;
		found |= has_line(file, wanted);
		fclose(file);
	}
	free(wanted);
	return found || !has_service;
}

/*
 * Report that the service of a section cannot save there: systemd has loaded it for another image
 * or hot list. The stop follows the record of the section, but the sandbox does not.
 */
void plan_check_service(const struct plan *plan)
{
	const struct config_section *section = plan->section;
	enum config_key key = section->kind == CONFIG_RAMDISK ? CONFIG_IMAGE : CONFIG_HOTLIST;
	const char *path = section->values[key].text;
	char *service;

	if (!path)
		return;
	service = format_text("rxd-%s@%s.service", config_kind_name(section->kind), section->name);
	if (!service_may_save(service, path))
		report(EXIT_OK,
		       "note: %s '%s': %s was loaded for another directory and cannot save there; run 'systemctl daemon-reload'",
		       config_keys[key].name, path, service);
	free(service);
}

static enum exit_code save_now(struct plan *plan)
{
	char *beside;
	enum exit_code ret = save_meanwhile(plan, false, &beside);

	return end_save(plan, ret, false, beside);
}

/**
 * plan_save_ramdisk - plan to save a RAM disk, which may be in use
 * @plan: the plan
 */
enum exit_code plan_save_ramdisk(struct plan *plan)
{
	int index = plan->disk.index;

	if (!plan->has_disk || !image_of(plan))
		return EXIT_OK;
	if (disk_is_unfinished(plan->uuid))
		return report(EXIT_BUSY,
			      "/dev/rxd%d: was not started completely, and is not saved; 'rxadm apply ramdisk/%s' starts it again",
			      index, plan->section->name);
	plan_step(plan, save_now, "save /dev/rxd%d to '%s'", index, image_of(plan));
	plan->steps[plan->count - 1].told = has_updates(plan);
	return EXIT_OK;
}

static enum exit_code save_hotlist(struct plan *plan)
{
	return hotlist_save(plan->section->name, plan->section->values[CONFIG_HOTLIST].text);
}

/* Plan to save the hot list of a cache, if its section has one. */
void plan_save_hotlist(struct plan *plan)
{
	const char *hotlist = plan->section->values[CONFIG_HOTLIST].text;

	if (!hotlist)
		return;
	plan_step(plan, save_hotlist, "save the hot list to '%s'", hotlist);
	plan_optional(plan);
}
