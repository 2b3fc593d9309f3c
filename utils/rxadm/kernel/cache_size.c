// SPDX-License-Identifier: GPL-2.0-only
/*
 * The size of a cache: check and change it. For 'rxadm map --size', make a RAM disk of this size
 * with the cache, and remove it with the cache.
 */
#include <linux/rxd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/signals.h"
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
 * @min: the minimum in bytes; 0: the cache is not elastic any more, so its RAM disk counts
 * @disk: the RAM disk of the cache
 */
enum exit_code cache_check_promise(const char *text, uint64_t min, dev_t disk)
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
		min = min ? min : query.size;
		if (min > query.promised && min > control_share_left(control, query.index))
			ret = control_share_error(control, text, min, query.index,
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

static enum exit_code find_ramdisk(const char *name, dev_t *disk, uint64_t *size)
{
	const struct cache *cache;
	struct caches caches;
	enum exit_code ret;
	char *sectors;

	*disk = 0;
	*size = 0;
	ret = cache_find(name, &caches, &cache);
	if (!ret) {
		*disk = cache->table.cache;
		sectors = sysfs_read(*disk, "size");
		*size = sectors ? strtoull(sectors, NULL, 10) * SECTOR : 0;
		free(sectors);
	}
	caches_free(&caches);
	return ret;
}

static enum exit_code size_error(const char *name, uint64_t size, uint64_t least, bool is_minimum,
				 uint64_t most)
{
	char has[SIZE_TEXT_MAX], least_text[SIZE_TEXT_MAX], most_text[SIZE_TEXT_MAX];

	return report(EXIT_PARAMETERS,
		      "cache '%s': its limit cannot be %s; must be from %s%s to %s, the size of its RAM disk",
		      name, size_format(size, has), size_format(least, least_text),
		      is_minimum ? ", its minimum," : "", size_format(most, most_text));
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
 * @name: the cache
 * @text: the sizes as the user wrote them
 * @status: its status
 * @wanted: the limit, 0: none, and the minimum, 0: as before. They are rounded down to whole blocks
 * @dry_run: only print what would be sent
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
	enum exit_code ret;
	dev_t disk;

	if (!target_can(VERSION_SIZE))
		return report(EXIT_DEVICE,
			      "cache '%s': cannot be resized, because the loaded target rxcache is older than version 1.3.0; unmap all caches and load the new module",
			      name);
	ret = find_ramdisk(name, &disk, &most);
	if (ret)
		return ret;
	if (has_minimum)
		least = has->min_size;
	if (wanted->max && (max < least || wanted->max > most))
		return size_error(name, wanted->max, least, has_minimum, most);
	if (wanted->min)
		ret = cache_check_promise(text, min, disk);
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
	enum exit_code ret;

	ret = caches_read(&caches);
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
	char *has = NULL, *text = NULL;
	char *path = NULL;
	uint8_t uuid[16];
	char *error;

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

static enum exit_code remove_made(const char *path, const char *diskseq)
{
	const struct discard_request request = { .diskseq = diskseq };
	struct device dev;
	enum exit_code ret;
	int control, index;

	ret = control_open(&control);
	if (ret)
		return ret;
	ret = device_find_rxd("RAM disk", path, &dev, &index);
	if (!ret) {
		ret = disk_lock(&dev, diskseq, DISK_LOCK_DATA);
		if (!ret) {
			ret = ramdisk_remove(control, &dev, index, &request);
			disk_unlock(diskseq, DISK_LOCK_DATA);
		}
		device_release(&dev);
	}
	close(control);
	return ret;
}

static enum exit_code unmap_sized(const char *name, bool dry_run)
{
	char *diskseq = NULL;
	char *disk = made_disk(name, &diskseq);
	enum exit_code ret = cache_unmap(name, dry_run);

	if (!ret && disk && dry_run)
		printf("rxadm remove %s\n", disk);
	else if (!ret && disk)
		ret = remove_made(disk, diskseq);
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
