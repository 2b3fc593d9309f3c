// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plans for sections [cache NAME] and [export NAME].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/size.h"
#include "base/text.h"
#include "config/plan.h"
#include "device/dm.h"
#include "kernel/cache_map.h"
#include "kernel/cache_size.h"
#include "kernel/caches.h"
#include "kernel/nvmet_export.h"
#include "kernel/rxcache.h"

#define SECTOR_SHIFT	9

static enum exit_code map_cache(struct plan *plan)
{
	struct map_request request = plan->section->map;
	char *device = format_text("/dev/rxd%d", plan->disk.index);
	enum exit_code ret;
	char *path;

	request.cache = device;
	request.uuid = plan->uuid;
	request.force_text = "'force = yes'";
	ret = cache_map(plan->control, &request, &path);
	if (path)
		signals_allow();
	free(path);
	free(device);
	return ret;
}

static enum exit_code unmap_cache(struct plan *plan)
{
	return cache_unmap(plan->section->name, false);
}

static enum exit_code send_freed(const struct plan *plan, char *message)
{
	enum exit_code ret = cache_lock_origin(plan->origin);

	ret = ret ? ret : mapping_message(plan->section->name, message, NULL);
	cache_unlock_origin(plan->origin);
	free(message);
	return ret;
}

static enum exit_code set_mode(struct plan *plan)
{
	return send_freed(plan, format_text("mode %s", plan->section->map.mode));
}

static enum exit_code set_seq_cutoff(struct plan *plan)
{
	return send_freed(plan, format_text("seq_cutoff %llu",
					    (unsigned long long)plan->section->map.seq_cutoff));
}

static enum exit_code set_advise(struct plan *plan)
{
	return send_freed(plan, format_text("advise %s", plan->section->map.advise ? "on" : "off"));
}

static enum exit_code set_min_size(struct plan *plan)
{
	return send_freed(plan, format_text("min_size %llu", (unsigned long long)plan->min_size));
}

static enum exit_code use_growth(struct plan *plan)
{
	return cache_reload(plan->section->name, plan->origin, NULL, false);
}

/* Refuse changes that need a new mapping. */
static enum exit_code check_fixed(const struct plan *plan, const struct rxcache_table *table,
				  const struct device *origin)
{
	char has_text[SIZE_TEXT_MAX], wants_text[SIZE_TEXT_MAX];
	uint64_t block_size = table->features.block_size << SECTOR_SHIFT;
	enum exit_code ret = EXIT_OK;
	char *path;

	if (table->origin != origin->number) {
		path = device_path(table->origin);
		ret = plan_fixed(plan, "origin", path, plan->section->map.origin);
		free(path);
	} else if (!plan->has_disk ||
		   table->cache != makedev(plan->disk.major, plan->disk.minor)) {
		path = device_path(table->cache);
		ret = report(EXIT_BUSY,
			     "mapping '%s': its RAM disk %s is not that of the configuration; run 'rxadm unmap %s' first",
			     plan->section->name, path, plan->section->name);
		free(path);
	} else if (block_size != plan->section->map.block_size) {
		ret = plan_fixed(plan, "block-size", size_format(block_size, has_text),
				 size_format(plan->section->map.block_size, wants_text));
	}
	return ret;
}

/* The minimum that the cache will have, which must fit into the size that it has then. */
static enum exit_code wanted_minimum(struct plan *plan, const struct rxcache_features *has)
{
	const struct map_request *wants = &plan->section->map;
	uint64_t sectors, size = plan_size(plan), limit = has->size ? has->size : size;
	struct rxcache_status status = { .block_size = has->block_size };
	enum exit_code ret = cache_status(plan->section->name, &status, &sectors);
	char text[SIZE_TEXT_MAX];

	plan->grows = !ret && rxcache_is_outgrown(&status, size) && target_can(VERSION_MIN_SIZE);
	status.total = plan->grows ? size / wants->block_size : status.total;
	plan->min_size = ret ? 0 : cache_minimum(wants->min_size, &status);
	return plan->min_size <= limit ? ret :
	       plan_fixed(plan, "size", size_format(limit, text), wants->size_text);
}

static enum exit_code plan_changes(struct plan *plan, const struct mapping *mapping,
				   const struct device *origin)
{
	const struct map_request *wants = &plan->section->map;
	char from[SIZE_TEXT_MAX], to[SIZE_TEXT_MAX];
	struct rxcache_table table;
	enum exit_code ret;
	bool read_only;
	char *error;

	if (strcmp(mapping->target, RXCACHE_TARGET))
		return report(EXIT_BUSY,
			      "mapping '%s': exists already, and is not a cache (its target is %s)",
			      plan->section->name, mapping->target);
	error = rxcache_parse_table(mapping->params, &table);
	if (error) {
		ret = report(EXIT_DEVICE, "mapping '%s': its table '%s' is not understood: %s",
			     plan->section->name, mapping->params, error);
		free(error);
		return ret;
	}
	ret = check_fixed(plan, &table, origin);
	if (!ret)
		ret = wanted_minimum(plan, &table.features);
	if (!ret && table.features.min_size != plan->min_size)
		ret = cache_check_promise(wants->size_text,
					  plan->min_size ? plan->min_size : plan_size(plan),
					  table.cache);
	if (!ret && plan->grows)
		ret = mapping_check_replaceable(plan->section->name, &read_only);
	if (!ret)
		ret = plan_disk(plan);
	if (ret)
		return ret;
	if (plan->grows)
		plan_step(plan, use_growth, "have the cache use the new size");
	if (strcmp(table.features.mode, wants->mode))
		plan_step(plan, set_mode, "change the mode from %s to %s", table.features.mode,
			  wants->mode);
	if (table.features.seq_cutoff != wants->seq_cutoff)
		plan_step(plan, set_seq_cutoff,
			  "change the cut-off of sequential I/O from %s to %s",
			  size_format(table.features.seq_cutoff, from),
			  size_format(wants->seq_cutoff, to));
	if (table.features.min_size != plan->min_size)
		plan_step(plan, set_min_size, "change the minimum from %s to %s",
			  size_format(table.features.min_size, from),
			  size_format(plan->min_size, to));
	if (table.features.advise != wants->advise &&
	    (table.features.advise || cache_can_advise(plan->section->name)))
		plan_step(plan, set_advise, "switch the advice %s", wants->advise ? "on" : "off");
	return EXIT_OK;
}

/* Return: whether the mapping has our UUID prefix but no table: a killed rxadm leaves such. */
static bool is_stump(const struct mapping *mapping)
{
	return !mapping->target && !strncmp(mapping->uuid, RXCACHE_UUID, strlen(RXCACHE_UUID));
}

/* Return: whether the mapping is the slow disk alone, under the name of the cache. */
static bool is_uncached(const struct mapping *mapping)
{
	return mapping->target && !strcmp(mapping->target, LINEAR_TARGET) &&
	       !strncmp(mapping->uuid, RXCACHE_UUID, strlen(RXCACHE_UUID));
}

/* Refuse another origin: the name is in use and must not lead to a different disk. */
static enum exit_code check_uncached(const struct plan *plan, const struct mapping *mapping,
				     const struct device *origin)
{
	unsigned int major, minor;
	enum exit_code ret;
	char *path;

	if (sscanf(mapping->params, "%u:%u", &major, &minor) != 2)
		return report(EXIT_DEVICE, "mapping '%s': its table '%s' is not understood",
			      plan->section->name, mapping->params);
	if (makedev(major, minor) == origin->number)
		return EXIT_OK;
	path = device_path(makedev(major, minor));
	ret = plan_fixed(plan, "origin", path, plan->section->map.origin);
	free(path);
	return ret;
}

/* Map the slow disk alone, under the name of the cache. */
static enum exit_code map_alone(const struct plan *plan, const char *origin)
{
	return mapping_create_linear(plan->section->name, RXCACHE_UUID, "origin", origin);
}

static enum exit_code map_uncached(struct plan *plan)
{
	return map_alone(plan, plan->section->map.origin);
}

/* Map the cache in place of the slow disk alone. If that fails, map the slow disk alone again. */
static enum exit_code replace_uncached(struct plan *plan)
{
	char *slow_disk = device_path(plan->origin);
	enum exit_code ret;

	signals_block();
	ret = unmap_cache(plan);
	if (!ret) {
		ret = map_cache(plan);
		if (ret)
			map_alone(plan, slow_disk);
	}
	signals_allow();
	free(slow_disk);
	return ret;
}

/**
 * plan_start_cache - plan to create or change a cache as its section says
 * @plan: the plan
 */
enum exit_code plan_start_cache(struct plan *plan)
{
	const struct config_section *section = plan->section;
	struct mapping mapping = { 0 };
	struct device origin;
	enum exit_code ret;

	ret = cache_check_size("size", section->disk.size_text, plan_size(plan),
			       section->map.block_size);
	if (!ret)
		ret = cache_check_minimum(section->map.size_text, section->map.min_size,
					  section->map.block_size);
	if (!ret && !plan->has_disk && !(section->disk.flags & RXD_CREATE_OVERCOMMIT))
		ret = cache_check_share(plan->control, &section->map);
	if (!ret)
		ret = device_find("origin", section->map.origin, &origin);
	if (ret)
		return ret;
	plan->origin = origin.number;
	if (plan->has_target)
		ret = mapping_read(section->name, MAPPING_TABLE, &mapping);
	if (!ret && is_uncached(&mapping)) {
		ret = check_uncached(plan, &mapping, &origin);
		if (!ret)
			ret = plan_disk(plan);
		plan_step(plan, replace_uncached, "map '%s' as /dev/mapper/%s, which had no cache",
			  section->map.origin, section->name);
	} else if (!ret && mapping.exists && !is_stump(&mapping)) {
		ret = mapping.target ? plan_changes(plan, &mapping, &origin) :
		      report(EXIT_BUSY, "mapping '%s': exists already, and is not a cache",
			     section->name);
	} else if (!ret) {
		if (mapping.exists)
			plan_step(plan, unmap_cache, "remove the mapping '%s', which has no table",
				  section->name);
		ret = plan_disk(plan);
		plan_step(plan, map_cache, "map '%s' as /dev/mapper/%s", section->map.origin,
			  section->name);
	}
	mapping_release(&mapping);
	device_release(&origin);
	return ret;
}

/**
 * plan_start_uncached - plan to map the slow disk alone, under the name of the cache
 * @plan: the plan
 *
 * The slow disk holds all data. A file system that is mounted by the name of the cache is thus
 * available even if the modules are not built for the running kernel.
 */
enum exit_code plan_start_uncached(struct plan *plan)
{
	const char *name = plan->section->name;
	struct mapping mapping = { 0 };
	struct device origin;
	enum exit_code ret;

	if (!plan->has_dm)
		return plan->target_error ? plan->target_error : plan->control_error;
	ret = device_find("origin", plan->section->map.origin, &origin);
	if (ret)
		return ret;
	ret = mapping_read(name, MAPPING_TABLE, &mapping);
	if (!ret && is_uncached(&mapping))
		ret = check_uncached(plan, &mapping, &origin);
	if (ret || is_uncached(&mapping))
		goto out;
	if (mapping.exists && !is_stump(&mapping)) {
		ret = report(EXIT_BUSY, "mapping '%s': exists already", name);
		goto out;
	}
	if (mapping.exists)
		plan_step(plan, unmap_cache, "remove the mapping '%s', which has no table", name);
	plan_step(plan, map_uncached, "map '%s' as /dev/mapper/%s without a cache",
		  plan->section->map.origin, name);
out:
	mapping_release(&mapping);
	device_release(&origin);
	return ret;
}

/**
 * plan_stop_cache - plan to save a cache's hot list, and to remove the cache and its RAM disk
 * @plan: the plan
 */
enum exit_code plan_stop_cache(struct plan *plan)
{
	const char *name = plan->section->name;
	struct mapping mapping = { 0 };
	enum exit_code ret = EXIT_OK;
	char *users = NULL;

	if (plan->has_dm)
		ret = mapping_read(name, MAPPING_TABLE, &mapping);
	if (!ret && mapping.exists)
		users = users_left(mapping.number, &plan->ended);
	if (users) {
		ret = report(EXIT_BUSY, "mapping '%s': is in use (%s); release it there first",
			     name, users);
	} else if (!ret && mapping.exists) {
		if (mapping.target && !is_uncached(&mapping))
			plan_save_hotlist(plan);
		plan_step(plan, unmap_cache, "remove the mapping '%s'", name);
	}
	if (!ret && plan->has_disk)
		plan_step(plan, plan_remove_disk, "remove /dev/rxd%d", plan->disk.index);
	free(users);
	mapping_release(&mapping);
	return ret;
}

static const struct config_section *disk_section(const struct plan *plan)
{
	return config_find(plan->config, plan->section->values[CONFIG_DEVICE].text);
}

/* Return: the path of the device to export, allocated; NULL if it does not exist. */
static char *find_device(struct plan *plan)
{
	const struct config_section *disk = disk_section(plan);
	char *path = NULL;

	/* The section of a recorded export's device may have been deleted since. */
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
	config_section_uuid(disk, plan->uuid);
	return plan_find_disk(plan) ? format_text("/dev/rxd%d", plan->disk.index) : NULL;
}

static enum exit_code no_device(const struct plan *plan)
{
	const char *device = plan->section->values[CONFIG_DEVICE].text;

	return report(EXIT_DEVICE, "device '%s': does not exist; 'rxadm apply %s' creates it",
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
	request.may_exist = true;
	signals_block();
	ret = export_device(&request, &nqn);
	signals_allow();
	free(nqn);
	free(device);
	return ret;
}

static enum exit_code end_export(struct plan *plan)
{
	char *devices[2] = { find_device(plan) };
	enum exit_code ret;

	if (!*devices)
		return no_device(plan);
	signals_block();
	ret = unexport_devices(devices, true, false);
	signals_allow();
	free(*devices);
	return ret;
}

static enum exit_code plan_export(struct plan *plan)
{
	char *address = export_address(&plan->section->export);

	plan_step(plan, make_export, "export %s (%s)", plan->section->values[CONFIG_DEVICE].text,
		  address);
	free(address);
	return EXIT_OK;
}

/**
 * plan_start_export - plan to export a device as its section says
 * @plan: the plan
 */
enum exit_code plan_start_export(struct plan *plan)
{
	struct export_request request = plan->section->export;
	char *device = find_device(plan);
	struct export_state state;
	enum exit_code ret;

	if (!device && !(plan->dry_run && plan_is_chosen(disk_section(plan), plan->names)))
		return no_device(plan);
	if (!device)
		return plan_export(plan);
	request.device = device;
	request.dry_run = plan->dry_run;
	ret = export_compare(&request, &state);
	if (!ret && state.nqn && !state.ours)
		ret = report(EXIT_BUSY,
			     "device '%s': is exported already, as %s, and not by rxadm; remove that export first",
			     device, state.nqn);
	else if (!ret && !state.nqn)
		ret = plan_export(plan);
	else if (!ret && state.key)
		ret = plan_fixed(plan, state.key, state.has, state.wants);
	export_state_release(&state);
	free(device);
	return ret;
}

/* Without a valid section of its device, an export cannot be found: report it if it exists. */
static enum exit_code stop_without_device(const struct plan *plan)
{
	const char *device = plan->section->values[CONFIG_DEVICE].text;
	const struct config_section *disk = disk_section(plan);

	if (disk && disk->kind == CONFIG_RAMDISK && (plan->control_error || plan->query_error))
		return plan->control_error ? plan->control_error : plan->query_error;
	if ((disk && !disk->broken) || !export_is_made(plan->section->export.nqn))
		return EXIT_OK;
	return report(EXIT_DEVICE,
		      "device '%s': its section is %s, so the export '%s' cannot be found; correct the configuration, or run 'rxadm unexport NQN'",
		      device, disk ? "invalid" : "missing", plan->section->name);
}

/**
 * plan_stop_export - plan to end the export of a device
 * @plan: the plan
 */
enum exit_code plan_stop_export(struct plan *plan)
{
	char *device = find_device(plan);
	struct export_state state;
	enum exit_code ret;

	if (!device)
		return stop_without_device(plan);
	ret = export_find(device, !plan->dry_run, &state);
	if (!ret && (state.left || (state.nqn && state.ours)))
		plan_step(plan, end_export, "end the export of %s",
			  plan->section->values[CONFIG_DEVICE].text);
	export_state_release(&state);
	free(device);
	return ret;
}
