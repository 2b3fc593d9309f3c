// SPDX-License-Identifier: GPL-2.0-only
/*
 * The size of a cache: check and change it, with its RAM disk if need be. For 'rxadm map --size',
 * make a RAM disk of this size with the cache, and remove it with the cache.
 */
#include <linux/rxd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/system.h"
#include "base/text.h"
#include "base/values.h"
#include "device/device.h"
#include "device/dm.h"
#include "kernel/attributes.h"
#include "kernel/cache_size.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/discard.h"
#include "kernel/disk_state.h"
#include "kernel/ramdisk.h"

#define SECTOR	512

/**
 * cache_check_minimum - report if the target does not know minimums, or this one is too small
 * @text: the sizes as the user wrote them
 * @min: the minimum in bytes; 0: there is none
 * @block_size: size of a cache block in bytes
 */
enum exit_code cache_check_minimum(const char *text, uint64_t min, uint64_t block_size)
{
	char has[SIZE_TEXT_MAX], block[SIZE_TEXT_MAX], least[SIZE_TEXT_MAX];

	if (min && !target_can(VERSION_MIN_SIZE))
		return report(EXIT_DEVICE,
			      "size '%s': the loaded target rxcache is older than version 1.5.0, and cannot lend memory; unmap all caches and load the new module",
			      text);
	if (!min || min / block_size >= RXCACHE_BLOCKS_MIN)
		return EXIT_OK;
	return report(EXIT_PARAMETERS,
		      "size '%s': the minimum, %s, is fewer than %d cache blocks of %s; must be at least %s",
		      text, size_format(min, has), RXCACHE_BLOCKS_MIN,
		      size_format(block_size, block),
		      size_format(RXCACHE_BLOCKS_MIN * block_size, least));
}

/**
 * cache_check_share - report if the minimum of a new cache exceeds what is left of memory_share
 * @control: the control node
 * @request: the cache
 *
 * The target asks the driver, too, but only after the RAM disk was made.
 */
enum exit_code cache_check_share(int control, const struct map_request *request)
{
	if (request->overcommit || request->min_size <= control_share_left(control, -1))
		return EXIT_OK;
	return control_share_error(control, request->size_text, request->min_size, -1, NULL);
}

/**
 * cache_check_promise - report if a new minimum exceeds what is left of memory_share
 * @text: the sizes as the user wrote them
 * @bytes: the minimum; the size of the RAM disk if the cache is not elastic any more
 * @disk: the RAM disk of the cache
 */
enum exit_code cache_check_promise(const char *text, uint64_t bytes, dev_t disk)
{
	struct rxd_query query;
	enum exit_code ret;
	int control, next;

	ret = control_open(&control);
	if (ret)
		return ret;
	for (next = 0; !control_query(control, next, RXD_QUERY_NEXT, &query);
	     next = query.index + 1) {
		if (makedev(query.major, query.minor) != disk)
			continue;
		/* For other RAM disks, it makes no difference. */
		if (!(query.state & RXD_STATE_ELASTIC))
			break;
		if (bytes > query.promised && bytes > control_share_left(control, query.index))
			ret = control_share_error(control, text, bytes, query.index,
						  "remove another RAM disk");
		break;
	}
	close(control);
	return ret;
}

/**
 * cache_minimum - return the minimum that a cache has if this one is given, in bytes
 * @min: the minimum
 * @status: status of the cache
 */
uint64_t cache_minimum(uint64_t min, const struct rxcache_status *status)
{
	uint64_t block = status->block_size * SECTOR, least = rxcache_least_blocks(status) * block;

	min -= min % block;
	return min && min < least ? least : min;
}

static enum exit_code find_ramdisk(const char *name, struct rxcache_table *table, uint64_t *size)
{
	const struct cache *cache;
	struct caches caches;
	enum exit_code ret = cache_find(name, &caches, &cache);
	char *sectors;

	if (!ret) {
		*table = cache->table;
		sectors = sysfs_read(table->cache, "size");
		*size = sectors ? strtoull(sectors, NULL, 10) * SECTOR : 0;
		free(sectors);
	}
	caches_free(&caches);
	return ret;
}

static enum exit_code size_error(const char *name, uint64_t size, uint64_t least, bool is_minimum)
{
	char has[SIZE_TEXT_MAX], least_text[SIZE_TEXT_MAX], most_text[SIZE_TEXT_MAX];

	return report(EXIT_PARAMETERS,
		      "cache '%s': its limit cannot be %s; must be from %s%s to %s, the memory of the machine",
		      name, size_format(size, has), size_format(least, least_text),
		      is_minimum ? ", its minimum," : "", size_format(system_ram(), most_text));
}

static enum exit_code too_old(const char *name, const char *what, const char *version)
{
	return report(EXIT_DEVICE,
		      "cache '%s': %s, because the loaded target rxcache is older than version %s; unmap all caches and load the new module",
		      name, what, version);
}

static enum exit_code replace(const char *name, const struct mapping *mapping,
			      const struct size_range *sizes, bool dry_run)
{
	struct rxcache_table table;
	enum exit_code ret = EXIT_OK;
	char *error, *line;

	error = mapping->target && !strcmp(mapping->target, RXCACHE_TARGET) ?
		rxcache_parse_table(mapping->params, &table) : copy_text("it is not a cache");
	if (error) {
		ret = report(EXIT_DEVICE, "mapping '%s': its table is not understood: %s", name,
			     error);
		free(error);
		return ret;
	}
	if (sizes) {
		table.features.size = sizes->max;
		table.features.min_size = sizes->min;
	}
	line = rxcache_format_table(&table);
	if (dry_run) {
		printf("dmsetup load %s --table '0 %llu " RXCACHE_TARGET " %s'\n", name,
		       (unsigned long long)mapping->sectors, line);
		printf("dmsetup resume --nolockfs %s\n", name);
	} else {
		signals_block();
		ret = mapping_replace(name, mapping->sectors, RXCACHE_TARGET, line,
				      mapping->params);
		signals_allow();
	}
	free(line);
	return ret;
}

static enum exit_code check_grown(const char *name)
{
	struct rxcache_status status;
	struct rxcache_table table;
	uint64_t size, sectors;
	enum exit_code ret = find_ramdisk(name, &table, &size);

	ret = ret ? ret : cache_status(name, &status, &sectors);
	if (!ret && rxcache_is_outgrown(&status, size))
		ret = report(EXIT_MEMORY, "cache '%s': keeps its size; see the kernel log", name);
	return ret;
}

/**
 * cache_reload - have a cache use all of its RAM disk, which has grown, and keep its blocks
 * @name: the cache, whose target has VERSION_MIN_SIZE
 * @origin: its origin
 * @sizes: its limit and its minimum from then on; 0: none; NULL: as before
 * @dry_run: only print what would be done
 *
 * Waits for I/O to the origin. If the kernel refuses it, nothing has changed. The target keeps its
 * size, and resumes, if memory for the larger one is short.
 */
enum exit_code cache_reload(const char *name, dev_t origin, const struct size_range *sizes,
			    bool dry_run)
{
	enum exit_code ret = cache_lock_origin(origin);
	struct mapping mapping;

	if (ret)
		return ret;
	ret = mapping_read(name, MAPPING_TABLE, &mapping);
	if (!ret)
		ret = replace(name, &mapping, sizes, dry_run);
	mapping_release(&mapping);
	cache_unlock_origin(origin);
	return ret || dry_run ? ret : check_grown(name);
}

/* What a cache shall have: a larger part of its RAM disk, which grows if need be. */
struct growth {
	const struct rxcache_table *table;
	uint64_t from;	/* size of the RAM disk */
	uint64_t max;	/* the limit */
	uint64_t min;	/* the minimum; 0: none */
};

/* A RAM disk in use cannot shrink again if the last step fails. Its new size takes no memory. */
static enum exit_code grow(const char *name, const char *text,
			   const struct rxcache_status *status, const struct growth *growth,
			   bool dry_run)
{
	const struct resize_request request = {
		.size_text = text,
		.size = growth->max,
		.grow = true,
		.dry_run = dry_run,
		.for_cache = true,
	};
	const bool is_beyond = growth->max > growth->from;
	struct size_range sizes = { .max = growth->max < growth->from ? growth->max : 0 };
	const uint64_t block = status->block_size * SECTOR;
	struct rxcache_status then = *status;
	char size[SIZE_TEXT_MAX];
	enum exit_code ret;
	bool read_only;

	then.total = (is_beyond ? growth->max : growth->from) / block;
	sizes.min = cache_minimum(growth->min, &then);
	if (sizes.max && sizes.max < rxcache_least_blocks(&then) * block)
		return size_error(name, sizes.max, rxcache_least_blocks(&then) * block, false);
	if (!target_can(VERSION_MIN_SIZE))
		return too_old(name, "would lose its blocks if it grew", "1.5.0");
	ret = mapping_check_replaceable(name, &read_only);
	if (!ret && sizes.min)
		ret = cache_check_promise(text, sizes.min, growth->table->cache);
	if (!ret && is_beyond)
		ret = ramdisk_grow(growth->table->cache, &request);
	if (ret)
		return ret;
	ret = cache_reload(name, growth->table->origin, &sizes, dry_run);
	if (ret && is_beyond && !dry_run)
		report(EXIT_OK,
		       "note: cache '%s': its RAM disk keeps its new size, %s, until the cache is unmapped; 'rxadm resize %s none' tries again to use it",
		       name, size_format(growth->max, size), name);
	return ret;
}

static enum exit_code send_size(const char *name, const char *key, uint64_t bytes, bool dry_run)
{
	char *message = format_text("%s %llu", key, (unsigned long long)bytes);
	enum exit_code ret = cache_message(name, message, dry_run);

	free(message);
	return ret;
}

/**
 * cache_resize - limit the memory that the data of a cache may occupy
 * @name: the cache, which cache_lock() has locked
 * @text: the sizes as the user wrote them
 * @status: its status
 * @wanted: the limit, 0: none, and the minimum, 0: as before. They are rounded down to whole blocks
 * @dry_run: only print what would be done
 *
 * The target refuses a limit below the minimum, also for a moment.
 */
enum exit_code cache_resize(const char *name, const char *text,
			    const struct rxcache_status *status, const struct size_range *wanted,
			    bool dry_run)
{
	uint64_t block = status->block_size * SECTOR, least = rxcache_least_blocks(status) * block;
	const struct rxcache_features *has = &status->features;
	const bool has_minimum = !wanted->min && has->min_size > least;
	uint64_t min = cache_minimum(wanted->min, status), most;
	uint64_t max = wanted->max - wanted->max % block;
	const bool max_first = !wanted->min || max >= has->min_size;
	struct rxcache_table table;
	enum exit_code ret;

	if (!target_can(VERSION_SIZE))
		return too_old(name, "cannot be resized", "1.3.0");
	ret = find_ramdisk(name, &table, &most);
	if (ret)
		return ret;
	if (has_minimum)
		least = has->min_size;
	if (wanted->max && (max < least || wanted->max > system_ram()))
		return size_error(name, wanted->max, least, has_minimum);
	if (max > most || (rxcache_is_outgrown(status, most) &&
			   (!max || max > status->total * block)))
		return grow(name, text, status, &(struct growth){
			.table = &table, .from = most, .max = max ? max : most,
			.min = wanted->min ? wanted->min : has->min_size }, dry_run);
	if (wanted->min)
		ret = cache_check_promise(text, min, table.cache);
	if (ret)
		return ret;
	if (max_first)
		ret = send_size(name, "size", max, dry_run);
	if (!ret && wanted->min)
		ret = send_size(name, "min_size", min, dry_run);
	if (!ret && !max_first)
		ret = send_size(name, "size", max, dry_run);
	/* What was sent first is undone. */
	if (ret && !dry_run && wanted->min)
		send_size(name, max_first ? "size" : "min_size",
			  max_first ? has->size : has->min_size, false);
	return ret;
}

/* The RAM disk that 'map --size' makes for an origin is known by its UUID. */
static void made_uuid(dev_t origin, uint8_t *uuid)
{
	char *name = format_text("map/%u:%u", major(origin), minor(origin));

	uuid_derive(name, uuid);
	free(name);
}

static enum exit_code check_unmapped(const struct device *origin)
{
	struct caches caches;
	enum exit_code ret = caches_read(&caches);

	if (!ret)
		ret = caches_check_unmapped(&caches, origin);
	caches_free(&caches);
	return ret;
}

static enum exit_code make_and_map(int control, const struct map_request *request,
				   const struct create_request *create, char **path)
{
	struct map_request map = *request;
	enum exit_code ret;
	char *device;
	int index;

	ret = ramdisk_create(control, create, &index);
	if (ret)
		return ret;
	if (request->dry_run)
		return cache_map(control, &map, path);
	disk_unfinished_end(create->uuid);
	device = format_text("/dev/rxd%d", index);
	map.cache = device;
	map.uuid = create->uuid;
	ret = cache_map(control, &map, path);
	if (ret)
		ramdisk_remove_made(control, create->uuid);
	free(device);
	return ret;
}

/**
 * cache_map_sized - make a RAM disk and map a cache that uses it, or report why not
 * @control: the control node of the RAM disks
 * @request: what to map, with the size of the RAM disk
 * @path: out: as that of cache_map()
 */
enum exit_code cache_map_sized(int control, const struct map_request *request, char **path)
{
	struct create_request create = {
		.size_text = request->size_text,
		.size = request->size,
		.node = RXD_NODE_LOCAL,
		.flags = request->overcommit ? RXD_CREATE_OVERCOMMIT :
			 request->min_size ? RXD_CREATE_ELASTIC : 0,
		.dry_run = request->dry_run,
	};
	struct device origin;
	enum exit_code ret;
	char *uuid;

	*path = NULL;
	ret = cache_check_minimum(request->size_text, request->min_size, request->block_size);
	if (!ret)
		ret = cache_check_size("size", request->size_text, request->size,
				       request->block_size);
	if (!ret)
		ret = cache_check_share(control, request);
	if (!ret)
		ret = device_find_named("origin", request->origin, &origin);
	if (ret)
		return ret;
	made_uuid(origin.number, create.uuid);
	uuid = ramdisk_uuid(create.uuid);
	create.uuid_text = uuid;
	ret = check_unmapped(&origin);
	device_release(&origin);
	if (!ret) {
		signals_block();
		ret = make_and_map(control, request, &create, path);
		signals_allow();
	}
	free(uuid);
	return ret;
}

/* Return: the path of the RAM disk that 'map --size' made for a cache; NULL: it did not. */
static char *made_disk(const char *name, char **diskseq)
{
	struct rxcache_table table;
	struct mapping mapping;
	char *has = NULL, *text = NULL, *path = NULL, *error;
	uint8_t uuid[16];

	if (mapping_read(name, MAPPING_TABLE, &mapping))
		return NULL;
	if (mapping.target && !strcmp(mapping.target, RXCACHE_TARGET)) {
		error = rxcache_parse_table(mapping.params, &table);
		if (!error) {
			made_uuid(table.origin, uuid);
			text = ramdisk_uuid(uuid);
			*diskseq = disk_sequence(table.cache);
			has = sysfs_read(table.cache, "rxd/uuid");
		}
		if (has && !strcmp(has, text))
			path = device_path(table.cache);
		free(error);
	}
	free(text);
	free(has);
	mapping_release(&mapping);
	return path;
}

static enum exit_code unmap_sized(const char *name, bool dry_run)
{
	char *diskseq = NULL;
	char *disk = made_disk(name, &diskseq);
	enum exit_code ret = cache_unmap(name, dry_run);

	if (!ret && disk && dry_run)
		printf("rxadm remove %s\n", disk);
	else if (!ret && disk)
		ret = ramdisk_remove_same(disk, diskseq);
	free(diskseq);
	free(disk);
	return ret;
}

/**
 * cache_unmap_these - remove unused caches, or none if one of them cannot be removed
 * @names: their names or paths, terminated by NULL
 * @dry_run: only check, and print what would be done
 *
 * RAM disks that 'map --size' made are removed, too.
 *
 * Return: the exit code of the first error.
 */
enum exit_code cache_unmap_these(char *const *names, bool dry_run)
{
	enum exit_code first = EXIT_OK, ret;
	const char *name;
	size_t i, j;

	for (i = 0; names[i]; i++) {
		name = mapping_name(names[i]);
		ret = cache_unmap_check(name);
		for (j = 0; !ret && j < i; j++)
			if (!strcmp(name, mapping_name(names[j])))
				ret = report(EXIT_PARAMETERS, "cache '%s': is given more than once",
					     name);
		first = first ? first : ret;
	}
	if (first)
		return first;
	for (i = 0; names[i]; i++) {
		ret = unmap_sized(mapping_name(names[i]), dry_run);
		first = first ? first : ret;
	}
	return first;
}
