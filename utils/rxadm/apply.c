// SPDX-License-Identifier: GPL-2.0-only
/*
 * rxadm apply
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../copy/copy.h"
#include "caches.h"
#include "command.h"
#include "config.h"
#include "control.h"
#include "dm.h"
#include "identity.h"
#include "machine.h"
#include "options.h"
#include "plan.h"
#include "record.h"
#include "unfinished.h"

static const char usage[] =
	"Usage: rxadm apply [OPTION...] [NAME...]\n"
	"\n"
	"Make the RAM disks, caches and exports of the configuration, and change those that\n"
	"are otherwise; of all sections but those with noauto, or of those called NAME or\n"
	"KIND/NAME. What is not in the configuration stays.\n"
	"\n"
	"Options:\n"
	"     --config FILE   read FILE and FILE.d/*.conf; without it, " CONFIG_FILE "\n"
	"     --dry-run       say what would be done, and change nothing\n"
	"     --stop          save images and hot lists, and remove exports, caches and RAM\n"
	"                     disks, all as they were started\n"
	" -h, --help          print this help\n";

struct request {
	const char *path;
	bool dry_run;
	bool stop;
	char **names;		/* NULL after the last; none: all sections */
};

typedef enum exit_code (*planner)(struct plan *plan);

static const struct {
	planner start;
	planner stop;
} planners[CONFIG_KINDS] = {
	[CONFIG_RAMDISK] = { plan_start_ramdisk, plan_stop_ramdisk },
	[CONFIG_CACHE] = { plan_start_cache, plan_stop_cache },
	[CONFIG_EXPORT] = { plan_start_export, plan_stop_export },
};

static enum exit_code parse(int argc, char **argv, struct request *request, bool *help)
{
	static const struct option options[] = {
		{ "config",	required_argument, NULL, OPT_CONFIG },
		{ "dry-run",	no_argument,	   NULL, OPT_DRY_RUN },
		{ "stop",	no_argument,	   NULL, OPT_STOP },
		{ "help",	no_argument,	   NULL, 'h' },
		{ }
	};
	int opt;

	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_CONFIG:
			request->path = optarg;
			break;
		case OPT_DRY_RUN:
			request->dry_run = true;
			break;
		case OPT_STOP:
			request->stop = true;
			break;
		case 'h':
			*help = true;
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	request->names = argv + optind;
	return EXIT_OK;
}

static const char *find_unknown(const struct config *config, char **names)
{
	size_t i;

	for (; *names; names++) {
		for (i = 0; i < config->count; i++)
			if (config_is_called(config->sections[i], *names))
				break;
		if (i == config->count)
			return *names;
	}
	return NULL;
}

/* An error stops everything, unless it is one of a section that is not asked for. */
static enum exit_code check_config(const struct config *config, const struct request *request)
{
	const char *unknown = find_unknown(config, request->names);
	bool broken = unknown || !*request->names;
	size_t i;

	for (i = 0; i < config->count; i++)
		broken |= config->sections[i]->broken &&
			  plan_is_chosen(config->sections[i], request->names);
	if (broken)
		for (i = 0; i < config->error_count; i++)
			report(EXIT_PARAMETERS, "%s", config->errors[i]);
	if (unknown)
		return report(EXIT_PARAMETERS, "'%s': there is no such section in %s and %s.d",
			      unknown, request->path, request->path);
	return broken && config->error_count ? EXIT_PARAMETERS : EXIT_OK;
}

static enum exit_code make_steps(struct plan *plan, const char *name)
{
	enum exit_code first = EXIT_OK;
	enum exit_code ret = EXIT_OK;
	struct step *step;

	for (step = plan->steps; !ret && step < plan->steps + plan->count; step++) {
		ret = step->make(plan);
		if (!ret)
			printf("%s: %s\n", name, step->text);
		fflush(stdout);
		if (ret && !first)
			first = ret;
		if ((step->optional || plan->go_on) && !plan->signal)
			ret = EXIT_OK;
		plan->go_on = false;
	}
	plan->whole = !ret;
	if (plan->made && ret)
		plan_remove_disk(plan);
	else if (plan->made)
		unfinished_end(plan->uuid);
	return first;
}

static void print_steps(const struct plan *plan, const char *name)
{
	size_t i;

	for (i = 0; i < plan->count; i++)
		printf("%s: %s\n", name, plan->steps[i].text);
}

static void release_steps(struct plan *plan)
{
	size_t i;

	for (i = 0; i < plan->count; i++)
		free(plan->steps[i].text);
	free(plan->steps);
	plan->steps = NULL;
	plan->count = 0;
}

static enum exit_code prepare(struct plan *plan, const struct request *request)
{
	enum config_kind kind = plan->section->kind;

	if (kind != CONFIG_EXPORT && request->stop && plan->control_error)
		return plan->control_error;
	if (kind == CONFIG_CACHE && request->stop && plan->target_error)
		return plan->target_error;
	if (request->stop)
		return planners[kind].stop(plan);
	if (kind == CONFIG_CACHE && (plan->control_error || plan->target_error))
		return plan_start_uncached(plan);
	if (kind == CONFIG_RAMDISK && plan->control_error)
		return plan->control_error;
	return planners[kind].start(plan);
}

/* The record comes first, so that whatever a kill leaves can be stopped. */
static enum exit_code make_recorded(struct plan *plan, const struct request *request,
				    const char *name)
{
	bool was_there = plan->has_disk;
	enum exit_code ret = EXIT_OK;

	if (!request->stop)
		ret = record_write(plan->section, plan->folder, request->path);
	if (ret)
		return ret;
	ret = make_steps(plan, name);
	if (request->stop ? plan->whole :
	    !plan->whole && !was_there && !plan_find_disk(plan) && !plan->query_error)
		record_remove(plan->section);
	return ret;
}

/* A RAM disk that was started with another UUID would be forgotten, and never saved. */
static enum exit_code check_identity(struct plan *plan, const struct config_section *before)
{
	const char *text = plan->section->values[CONFIG_UUID].text;
	enum exit_code ret = EXIT_OK;
	uint8_t uuid[16];

	memcpy(uuid, plan->uuid, sizeof(uuid));
	section_uuid(before, plan->uuid);
	if (memcmp(plan->uuid, uuid, sizeof(uuid)))
		ret = plan_find_disk(plan) ?
		      plan_fixed(plan, "uuid", "another", text ? text : "that of its name") :
		      plan->query_error;
	memcpy(plan->uuid, uuid, sizeof(uuid));
	return ret;
}

/* Whether the export of a section is there. */
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
	release_steps(plan);
	plan->config = all;
	plan->section = now;
	return ret;
}

/* So would the export of another device, and what it keeps in use would not be saved. */
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

static enum exit_code check_started(struct plan *plan, const struct config *started,
				    const struct config_section *before)
{
	if (plan->section->kind == CONFIG_EXPORT)
		return check_device(plan, started, before);
	return check_identity(plan, before);
}

static const struct config_section *find_started(const struct config *started,
						 const struct config_section *section)
{
	size_t i;

	for (i = 0; i < started->count; i++)
		if (started->sections[i]->kind == section->kind &&
		    !strcmp(started->sections[i]->name, section->name))
			return started->sections[i];
	return NULL;
}

/* Whether what a section was started for is there. */
static enum exit_code is_up(const struct plan *plan, const struct config *config,
			    const struct config_section *section, bool *found)
{
	const char *device = section->values[CONFIG_DEVICE].text;
	struct plan look = *plan;

	if (section->kind == CONFIG_EXPORT)
		return find_export(&look, config_find(config, device) ? config : plan->config,
				   section, found);
	section_uuid(section, look.uuid);
	*found = plan_find_disk(&look);
	return look.query_error;
}

/*
 * The record of another configuration's section of that name would be lost, and with it
 * where its RAM disk is to be saved; or its RAM disk, if this is a stop.
 */
static enum exit_code check_others(const struct plan *plan, const char *path)
{
	const struct config_section *section = plan->section;
	const char *kind = config_kind_name(section->kind);
	struct config others = { .ram = plan->config->ram };
	char *other = record_other(section, path);
	const struct config_section *before;
	enum exit_code ret = EXIT_OK;
	bool found = false;

	if (!other)
		return EXIT_OK;
	record_read_all(&others, RECORD_FOLDER, other);
	before = find_started(&others, section);
	if (before)
		ret = is_up(plan, &others, before, &found);
	if (!ret && found)
		ret = report(EXIT_BUSY,
			     "was started of another configuration, '%s'; 'rxadm apply --config %s --stop %s/%s' ends that",
			     other, other, kind, section->name);
	config_free(&others);
	free(other);
	return ret;
}

/* Another may have changed it before this one had the lock. */
static enum exit_code take_started(struct plan *plan, const struct config_section *before)
{
	uint8_t uuid[16];

	section_uuid(before, uuid);
	if (memcmp(plan->uuid, uuid, sizeof(uuid)))
		return report(EXIT_BUSY, "was started with another uuid meanwhile; try again");
	plan->section = before;
	return EXIT_OK;
}

/*
 * While the image's file system is not mounted, that of the folder below is none to save
 * to: what was recorded stays, unless the image is there.
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
		       "note: image '%s': its folder is on another file system than when /dev/rxd%d was started; 'rxadm apply --stop' and the shutdown are going to save the RAM disk as '%s.new-DATE'",
		       image, plan->disk.index, image);
	plan->folder = before->folder;
}

static enum exit_code apply_locked(struct plan *plan, const struct request *request,
				   const char *name)
{
	struct config started = { .ram = plan->config->ram };
	const struct config_section *section = plan->section;
	const struct config_section *before;
	enum exit_code ret = EXIT_OK;

	record_read_all(&started, RECORD_FOLDER, request->path);
	before = find_started(&started, section);
	/* Two configurations may have the same export; but one of them ends it. */
	if (request->stop ? !before : section->kind != CONFIG_EXPORT)
		ret = check_others(plan, request->path);
	if (!ret && before)
		ret = request->stop ? take_started(plan, before) :
				      check_started(plan, &started, before);
	if (!ret && !plan_find_disk(plan))
		ret = plan->query_error;
	plan->made = false;
	plan->folder = 0;
	if (!ret)
		ret = prepare(plan, request);
	if (before && !request->stop)
		keep_folder(plan, before);
	if (!ret && request->dry_run)
		print_steps(plan, name);
	else if (!ret)
		ret = make_recorded(plan, request, name);
	release_steps(plan);
	plan->section = section;
	config_free(&started);
	return ret;
}

/* Whoever changes another section goes on meanwhile, but for exports: they share ports. */
static enum exit_code lock_section(const struct config_section *section, uint64_t key,
				   const char *name)
{
	return section->kind == CONFIG_EXPORT ? lock_take() : lock_take_one(key, name);
}

static void unlock_section(const struct config_section *section, uint64_t key)
{
	if (section->kind == CONFIG_EXPORT)
		lock_give();
	else
		lock_give_one(key);
}

static enum exit_code apply_section(struct plan *plan, const struct request *request)
{
	const struct config_section *section = plan->section;
	char *name = format_text("%s %s", config_kind_name(section->kind), section->name);
	char *command = format_text("apply: %s", name);
	enum exit_code ret;
	uint64_t key;

	report_command(command);
	section_uuid(section, plan->uuid);
	memcpy(&key, plan->uuid, sizeof(key));
	ret = lock_section(section, key, name);
	if (!ret) {
		ret = apply_locked(plan, request, name);
		unlock_section(section, key);
	}
	report_command("apply");
	free(command);
	free(name);
	return ret;
}

static bool has_section(const struct config *config, const struct rxd_query *disk)
{
	uint8_t uuid[16];
	size_t i;

	for (i = 0; i < config->count; i++) {
		section_uuid(config->sections[i], uuid);
		if (!memcmp(uuid, disk->uuid, sizeof(uuid)))
			return true;
	}
	return false;
}

static bool has_cache(const struct config *config, const char *name)
{
	size_t i;

	for (i = 0; i < config->count; i++)
		if (config->sections[i]->kind == CONFIG_CACHE &&
		    !strcmp(config->sections[i]->name, name))
			return true;
	return false;
}

static enum exit_code print_other_caches(const struct config *config)
{
	struct caches caches;
	enum exit_code ret;
	size_t i;

	ret = caches_read(&caches);
	for (i = 0; !ret && i < caches.count; i++)
		if (!has_cache(config, caches.list[i].name))
			printf("/dev/mapper/%s: is not in the configuration, and stays\n",
			       caches.list[i].name);
	caches_free(&caches);
	return ret;
}

/* What is not in the configuration is no business of ours, but worth to be known. */
static enum exit_code print_others(const struct plan *plan)
{
	struct rxd_query disk;
	int next;

	for (next = 0; plan->control >= 0 &&
	     !control_query(plan->control, next, RXD_QUERY_NEXT, &disk); next = disk.index + 1)
		if (!has_section(plan->config, &disk))
			printf("/dev/rxd%d: is not in the configuration, and stays\n", disk.index);
	return plan->has_target ? print_other_caches(plan->config) : EXIT_OK;
}

static enum exit_code apply_sections(struct plan *plan, const struct request *request,
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
		    !plan_is_chosen(plan->section, request->names))
			continue;
		ret = apply_section(plan, request);
		if (!first)
			first = ret;
	}
	return first;
}

/* What is exported comes before its export; removed is in the opposite order. */
static enum exit_code apply_all(struct plan *plan, const struct request *request)
{
	enum exit_code first, second, others = EXIT_OK;

	first = apply_sections(plan, request, request->stop);
	second = apply_sections(plan, request, !request->stop);
	if (request->dry_run && !request->stop && !*request->names)
		others = print_others(plan);
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
	/* Without the target, there may be or shall be what stands in for a cache. */
	if (module_is_loaded("dm_mod") || ret) {
		err = dm_connect();
		plan->has_dm = !err;
		ret = ret ? ret : err;
	}
	plan->has_target = plan->has_dm && module_is_loaded("dm_rxcache");
	return ret;
}

static enum exit_code apply(const struct config *config, const struct request *request)
{
	struct plan plan = {
		.config = config,
		.names = request->names,
		.dry_run = request->dry_run,
		.control = -1,
	};
	/* What removes, or only looks, needs no module that is not there. */
	bool load = config->count && !request->stop && !request->dry_run;
	enum exit_code ret;

	report_configured();
	plan.control_error = reach_ramdisks(&plan, load);
	if (request->dry_run || wants_cache(config, request->names))
		plan.target_error = reach_target(&plan, load);
	ret = apply_all(&plan, request);
	if (plan.has_dm)
		dm_end();
	if (plan.control >= 0)
		close(plan.control);
	if (plan.signal)
		copy_interrupt(plan.signal);
	return ret;
}

static void number_sections(struct config *config)
{
	size_t i;

	for (i = 0; i < config->count; i++)
		config->sections[i]->order = i;
}

static enum exit_code read_config(struct config *config, const struct request *request)
{
	config_load(config, request->path);
	number_sections(config);
	return check_config(config, request);
}

static int by_order(const void *a, const void *b)
{
	const struct config_section *const *one = a, *const *two = b;

	return (*one)->order < (*two)->order ? -1 : (*one)->order > (*two)->order;
}

/*
 * What is to be stopped: all that was started, as it was started. The configuration counts,
 * too: an export may have a record, and its disk none. But no error in it keeps from being
 * saved what was started.
 */
static enum exit_code read_started(struct config *config, const struct request *request,
				   enum exit_code *late)
{
	struct config started = { .ram = config->ram };
	enum exit_code ret = EXIT_OK;
	bool known, wrong;
	size_t i;

	record_read_all(&started, RECORD_FOLDER, request->path);
	wrong = started.error_count;
	known = *request->names && !find_unknown(&started, request->names);
	for (i = 0; i < started.error_count; i++)
		report(EXIT_DEVICE, "%s", started.errors[i]);
	for (i = 0; i < started.count; i++) {
		started.sections[i]->noauto = false;
		started.sections[i]->broken = false;
	}
	config_load(config, request->path);
	number_sections(config);
	config_replace(config, &started);
	if (config->count)
		qsort(config->sections, config->count, sizeof(*config->sections), by_order);
	if (*request->names && !known)
		ret = check_config(config, request);
	else if (!known)
		*late = check_config(config, request);
	if (wrong)
		*late = EXIT_DEVICE;
	return ret;
}

static enum exit_code run(int argc, char **argv)
{
	struct config config = { .ram = machine_ram() };
	struct request request = { .path = CONFIG_FILE };
	enum exit_code late = EXIT_OK;
	bool help = false;
	enum exit_code ret;

	ret = parse(argc, argv, &request, &help);
	if (ret)
		return ret;
	if (help) {
		fputs(usage, stdout);
		return EXIT_OK;
	}

	ret = privilege_check();
	if (!ret && request.stop)
		ret = read_started(&config, &request, &late);
	else if (!ret)
		ret = read_config(&config, &request);
	if (!ret)
		ret = apply(&config, &request);
	config_free(&config);
	return ret ? ret : late;
}

const struct command command_apply = {
	.name = "apply",
	.summary = "make what the configuration says",
	.run = run,
};
