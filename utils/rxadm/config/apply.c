// SPDX-License-Identifier: GPL-2.0-only
/*
 * Apply a configuration: start its sections, or stop what was started from it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/system.h"
#include "base/text.h"
#include "config/apply.h"
#include "config/config.h"
#include "config/config_files.h"
#include "config/config_keys.h"
#include "config/plan.h"
#include "copy/copy.h"
#include "device/dm.h"
#include "kernel/control.h"

struct record {
	const struct config_section *section;
	dev_t folder;
	const char *path;
};

static void fill_record(FILE *file, const void *data)
{
	const struct record *record = data;
	const struct config_section *section = record->section;
	size_t i;

	fprintf(file, "rxadm-record 1 %zu %llu %s\n", section->order,
		(unsigned long long)record->folder, record->path);
	fprintf(file, "[%s %s]\n", config_kind_name(section->kind), section->name);
	/* Put no blanks around '=': config_read() limits the length of a line. */
	for (i = 0; i < CONFIG_KEYS; i++)
		if (section->values[i].text)
			fprintf(file, "%s=%s\n", config_keys[i].name, section->values[i].text);
}

/* Write the record of a section, before it is started or changed. */
static enum exit_code write_record(const struct config_section *section, dev_t folder,
				   const char *path)
{
	struct record record = { .section = section, .folder = folder };
	char *name, *text;
	int err = run_folder_make();
	enum exit_code ret;

	if (err)
		return report(exit_code_of(err), "cannot create " RUN_FOLDER ": %s",
			      strerror(err));
	name = config_record_path(section);
	/* The record may be read from another folder. */
	text = path_make_absolute(path);
	record.path = text;
	/* A stop would not find its section. */
	if (*text != '/' || strchr(text, '\n'))
		ret = report(EXIT_PARAMETERS,
			     "configuration '%s': its absolute path is unknown, or has a newline",
			     text);
	else
		ret = file_replace("record", name, 0600, fill_record, &record);
	free(text);
	free(name);
	return ret;
}

/* Remove the record of a section of which nothing is left. */
static enum exit_code remove_record(const struct config_section *section)
{
	char *path = config_record_path(section);
	enum exit_code ret = EXIT_OK;

	if (unlink(path) && errno != ENOENT)
		ret = report(exit_code_of(errno), "cannot remove %s: %s", path, strerror(errno));
	free(path);
	return ret;
}

typedef enum exit_code (*planner)(struct plan *plan);

static const struct {
	planner start;
	planner stop;
	planner save;
} planners[CONFIG_KINDS] = {
	[CONFIG_RAMDISK] = { plan_start_ramdisk, plan_stop_ramdisk, plan_save_ramdisk },
	[CONFIG_CACHE] = { plan_start_cache, plan_stop_cache },
	[CONFIG_EXPORT] = { plan_start_export, plan_stop_export },
};

static enum exit_code prepare(struct plan *plan, const struct apply_request *request)
{
	enum config_kind kind = plan->section->kind;

	if (kind != CONFIG_EXPORT && request->stop && plan->control_error)
		return plan->control_error;
	if (kind == CONFIG_CACHE && request->stop && plan->target_error)
		return plan->target_error;
	if (request->stop)
		return request->save ? planners[kind].save(plan) : planners[kind].stop(plan);
	if (kind == CONFIG_CACHE && (plan->control_error || plan->target_error))
		return plan_start_uncached(plan);
	if (kind == CONFIG_RAMDISK && plan->control_error)
		return plan->control_error;
	return planners[kind].start(plan);
}

/* Write the record first, so that --stop finds what a killed rxadm leaves. */
static enum exit_code make_recorded(struct plan *plan, const struct apply_request *request,
				    bool had_record, const char *name)
{
	bool keep_record = had_record || plan->has_disk;
	enum exit_code ret = EXIT_OK, removed = EXIT_OK;

	if (!request->stop)
		ret = write_record(plan->section, plan->folder, request->path);
	if (ret)
		return ret;
	ret = plan_make_steps(plan, name);
	if (!ret && !request->stop) {
		plan_begin_autosave(plan);
		plan_check_service(plan);
	}
	if (request->stop ? plan->whole && !request->save :
	    !plan->whole && !keep_record && !plan_find_disk(plan) && !plan->query_error)
		removed = remove_record(plan->section);
	return ret ? ret : removed;
}

/*
 * Refuse to change the UUID while the RAM disk with the old one exists: apply would no longer
 * find that disk, and never save it.
 */
static enum exit_code check_identity(struct plan *plan, const struct config_section *before)
{
	const char *text = plan->section->values[CONFIG_UUID].text;
	enum exit_code ret = EXIT_OK;
	uint8_t uuid[16];

	memcpy(uuid, plan->uuid, sizeof(uuid));
	config_section_uuid(before, plan->uuid);
	if (memcmp(plan->uuid, uuid, sizeof(uuid)))
		ret = plan_find_disk(plan) ?
		      plan_fixed(plan, "uuid", "another", text ? text : "derived from its name") :
		      plan->query_error;
	memcpy(plan->uuid, uuid, sizeof(uuid));
	return ret;
}

/* Find out whether the export of a section exists. */
static enum exit_code find_export(struct plan *plan, const struct config *config,
				  const struct config_section *section, bool *found)
{
	const struct config_section *now = plan->section;
	const struct config *all = plan->config;
	enum exit_code ret;

	plan->section = section;
	plan->config = config;
	ret = plan_stop_export(plan);
	*found = plan->count;
	plan_release_steps(plan);
	plan->config = all;
	plan->section = now;
	return ret;
}

/*
 * Refuse to change the device while the export of the old one exists: apply would no longer find
 * that export, which keeps the old device in use and prevents saving it.
 */
static enum exit_code check_device(struct plan *plan, const struct config *started,
				   const struct config_section *before)
{
	const char *wants = plan->section->values[CONFIG_DEVICE].text;
	const char *has = before->values[CONFIG_DEVICE].text;
	enum exit_code ret;
	bool exported;

	if (!has || !strcmp(has, wants))
		return EXIT_OK;
	ret = find_export(plan, config_find(started, has) ? started : plan->config, before,
			  &exported);
	return exported ? plan_fixed(plan, "device", has, wants) : ret;
}

/* Find out whether the export or the RAM disk of a section exists. */
static enum exit_code is_up(const struct plan *plan, const struct config *config,
			    const struct config_section *section, bool *found)
{
	const char *device = section->values[CONFIG_DEVICE].text;
	struct plan look = *plan;

	if (section->kind == CONFIG_EXPORT)
		return find_export(&look, config_find(config, device) ? config : plan->config,
				   section, found);
	config_section_uuid(section, look.uuid);
	*found = plan_find_disk(&look);
	return look.query_error;
}

/* Return: why the record of a section cannot be used, or NULL. */
static const char *find_error(const struct config *started, const struct config_section *section)
{
	char *path = config_record_path(section);
	const char *found = NULL;
	size_t i;

	for (i = 0; i < started->error_count; i++)
		if (!strncmp(started->errors[i], path, strlen(path)) &&
		    started->errors[i][strlen(path)] == ':')
			found = started->errors[i];
	free(path);
	return found;
}

/*
 * Fail if a section of this name exists that another configuration started. A start would replace
 * its record, which says where its RAM disk is to be saved. A stop would remove that RAM disk.
 */
static enum exit_code check_others(const struct plan *plan, const char *path)
{
	const struct config_section *section = plan->section;
	const char *kind = config_kind_name(section->kind);
	struct config others = { .ram = plan->config->ram };
	char *other = config_record_other(section, path);
	const struct config_section *before;
	enum exit_code ret = EXIT_OK;
	const char *error;
	bool found = false;

	if (!other)
		return EXIT_OK;
	config_record_read_all(&others, RUN_FOLDER, other);
	before = config_section_find(&others, section->kind, section->name);
	error = before ? NULL : find_error(&others, section);
	if (before || error)
		ret = is_up(plan, &others, before ? before : section, &found);
	if (!ret && found && error)
		ret = report(EXIT_BUSY,
			     "may have been started from another configuration, '%s': %s; save and remove the device, and then that file",
			     other, error);
	else if (!ret && found)
		ret = report(EXIT_BUSY,
			     "was started from another configuration, '%s'; 'rxadm apply --config %s --stop %s/%s' stops it",
			     other, other, kind, section->name);
	config_free(&others);
	free(other);
	return ret;
}

/* The UUID selects the lock. Another rxadm may have changed it before the lock was taken. */
static enum exit_code take_started(struct plan *plan, const struct config_section *before)
{
	uint8_t uuid[16];

	config_section_uuid(before, uuid);
	if (memcmp(plan->uuid, uuid, sizeof(uuid)))
		return report(EXIT_BUSY, "another rxadm started it with another UUID; try again");
	plan->section = before;
	return EXIT_OK;
}

/*
 * Keep the recorded file system if the image is missing. The image's file system may be unmounted,
 * and the one below its mount point must not be recorded as the place to save to.
 */
static void keep_folder(struct plan *plan, const struct config_section *before)
{
	const char *image = plan->section->values[CONFIG_IMAGE].text;
	const char *had = before->values[CONFIG_IMAGE].text;

	if (!plan->has_disk || !before->folder || !image || !had || strcmp(image, had) ||
	    !access(image, F_OK))
		return;
	if (plan->folder && plan->folder != before->folder)
		report(EXIT_OK,
		       "note: image '%s': its directory is on another file system than when /dev/rxd%d was started; 'rxadm apply --stop' and shutdown will save the RAM disk as '%s.new-DATE'",
		       image, plan->disk.index, image);
	plan->folder = before->folder;
}

/* In a dry run, sections that are stopped later are checked as if this one were stopped. */
static void note_ended(struct plan *plan)
{
	const char *device = plan->section->values[CONFIG_DEVICE].text;
	const struct config_section *disk = device ? config_find(plan->config, device) :
						     plan->section;
	char **list = device ? &plan->ended.exports : &plan->ended.holders;

	if (disk->kind == CONFIG_CACHE)
		append_text(list, "%s/dev/mapper/%s", *list ? "\n" : "", disk->name);
	else
		append_text(list, "%s/dev/rxd%d", *list ? "\n" : "", plan->disk.index);
}

static enum exit_code apply_locked(struct plan *plan, const struct apply_request *request,
				   const char *name)
{
	struct config started = { .ram = plan->config->ram };
	const struct config_section *section = plan->section;
	const struct config_section *before;
	enum exit_code ret = EXIT_OK;
	const char *error;

	config_record_read_all(&started, RUN_FOLDER, request->path);
	before = config_section_find(&started, section->kind, section->name);
	error = before ? NULL : find_error(&started, section);
	/* A start replaces a record that cannot be used. A stop has reported it already. */
	if (error && !request->stop)
		report(EXIT_OK, "note: %s", error);
	/* Two configurations may contain the same export. Only the one with the record stops it. */
	if (request->stop ? !before : section->kind != CONFIG_EXPORT)
		ret = check_others(plan, request->path);
	if (!ret && before)
		ret = request->stop ? take_started(plan, before) :
		      section->kind == CONFIG_EXPORT ? check_device(plan, &started, before) :
						       check_identity(plan, before);
	if (!ret && !plan_find_disk(plan))
		ret = plan->query_error;
	if (!ret && error && request->stop)
		ret = plan_check_unsaved(plan);
	plan->made = false;
	plan->folder = 0;
	plan->image_size = 0;
	if (!ret)
		ret = prepare(plan, request);
	if (!ret && before && !request->stop)
		keep_folder(plan, before);
	if (!ret && request->dry_run)
		ret = plan_print_steps(plan, name);
	else if (!ret)
		ret = make_recorded(plan, request, before, name);
	if (!ret && request->dry_run && request->stop && plan->count)
		note_ended(plan);
	plan_release_steps(plan);
	plan->section = section;
	config_free(&started);
	return ret;
}

/*
 * Lock only this section, so that others can change: by its name for its record, which is the same
 * if its UUID has changed, and by the UUID for the RAM disk.
 */
static enum exit_code lock_section(const uint64_t *keys, const char *name)
{
	enum exit_code ret = lock_take_one(keys[0], name);

	if (ret)
		return ret;
	ret = lock_take_one(keys[1], name);
	if (ret)
		lock_give_one(keys[0]);
	return ret;
}

static enum exit_code apply_section(struct plan *plan, const struct apply_request *request)
{
	const struct config_section *section = plan->section;
	const struct config_section named = { .kind = section->kind, .name = section->name };
	char *name = config_section_title(section);
	char *command = format_text("apply: %s", name);
	enum exit_code ret;
	uint64_t keys[2], derived[2];

	report_command(command);
	config_section_uuid(section, plan->uuid);
	/* Take another half than that of the UUID, which may be derived from the name, too. */
	config_section_uuid(&named, (uint8_t *)derived);
	keys[0] = derived[1];
	memcpy(&keys[1], plan->uuid, sizeof(keys[1]));
	ret = lock_section(keys, name);
	if (!ret) {
		/* What cannot be saved at shutdown is lost: wait for longer. */
		if (request->stop && !request->save)
			waits_share();
		ret = apply_locked(plan, request, name);
		lock_give_one(keys[1]);
		lock_give_one(keys[0]);
	}
	report_command("apply");
	free(command);
	free(name);
	return ret;
}

static enum exit_code apply_sections(struct plan *plan, const struct apply_request *request,
				     bool exports)
{
	const struct config *config = plan->config;
	enum exit_code first = EXIT_OK;
	enum exit_code ret;
	bool is_export;
	size_t i;

	for (i = 0; i < config->count && !plan->signal; i++) {
		plan->section = config->sections[request->stop ? config->count - 1 - i : i];
		is_export = plan->section->kind == CONFIG_EXPORT;
		if (is_export != exports || plan->section->broken ||
		    (request->save && !planners[plan->section->kind].save) ||
		    !plan_is_chosen(plan->section, request->names))
			continue;
		ret = apply_section(plan, request);
		if (!first)
			first = ret;
	}
	return first;
}

/* Create devices before their exports. Remove them in the opposite order. */
static enum exit_code apply_all(struct plan *plan, const struct apply_request *request)
{
	enum exit_code first, second, others = EXIT_OK;

	first = apply_sections(plan, request, request->stop);
	second = apply_sections(plan, request, !request->stop);
	if (request->dry_run && !request->stop && !*request->names)
		others = plan_print_others(plan);
	return first ? first : second ? second : others;
}

static bool wants_cache(const struct config *config, char **names)
{
	size_t i;

	for (i = 0; i < config->count; i++)
		if (config->sections[i]->kind == CONFIG_CACHE &&
		    plan_is_chosen(config->sections[i], names))
			return true;
	return false;
}

static enum exit_code reach_ramdisks(struct plan *plan, bool load)
{
	enum exit_code ret = EXIT_OK;

	if (load && !module_is_loaded("rxd"))
		ret = module_load("rxd");
	if (!ret && module_is_loaded("rxd"))
		ret = control_open(&plan->control);
	return ret;
}

static enum exit_code reach_target(struct plan *plan, bool load)
{
	enum exit_code ret = EXIT_OK;
	enum exit_code err;

	if (load && !module_is_loaded("dm_rxcache"))
		ret = module_load("dm-rxcache");
	/* A linear mapping stands in for a cache if the target is missing. */
	if (module_is_loaded("dm_mod") || ret) {
		err = dm_connect();
		plan->has_dm = !err;
		ret = ret ? ret : err;
	}
	plan->has_target = plan->has_dm && module_is_loaded("dm_rxcache");
	return ret;
}

/**
 * config_apply - apply a configuration, or stop what was started from it
 * @config: the configuration; for a stop, with the sections as they were started
 * @request: which sections to start or stop, and how
 */
enum exit_code config_apply(const struct config *config, const struct apply_request *request)
{
	struct plan plan = {
		.config = config,
		.names = request->names,
		.dry_run = request->dry_run,
		.control = -1,
	};
	/* Load modules only to create devices. A stop and a dry run use those that are loaded. */
	bool load = config->count && !request->stop && !request->dry_run;
	enum exit_code ret;

	report_configured();
	plan.control_error = reach_ramdisks(&plan, load);
	if (request->dry_run || wants_cache(config, request->names))
		plan.target_error = reach_target(&plan, load);
	ret = apply_all(&plan, request);
	users_release(&plan.ended);
	if (plan.has_dm)
		dm_end();
	if (plan.control >= 0)
		close(plan.control);
	if (plan.signal)
		copy_interrupt(plan.signal);
	return ret;
}
