// SPDX-License-Identifier: GPL-2.0-only
/*
 * Map a cache in front of a disk, and unmap it.
 */
#include <errno.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "device/contents.h"
#include "device/device_users.h"
#include "device/dm.h"
#include "device/openers.h"
#include "kernel/attributes.h"
#include "kernel/cache_map.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"
#include "kernel/ramdisk.h"
#include "kernel/rxcache.h"

#define SECTOR_SHIFT	9

static enum exit_code check_unused(const struct device *dev)
{
	char *users = users_of(dev->number);
	enum exit_code ret = EXIT_OK;

	if (users)
		ret = report(EXIT_BUSY, "%s '%s': is in use (%s); release it there first",
			     dev->what, dev->path, users);
	free(users);
	return ret;
}

/**
 * cache_check_size - check that a RAM disk has enough blocks for a cache, and report it if not
 * @what: what @name is
 * @name: the RAM disk, or the text of its size
 * @size: its size in bytes
 * @block_size: size of a cache block in bytes
 *
 * The target checks this, too, but not in a dry run.
 */
enum exit_code cache_check_size(const char *what, const char *name, uint64_t size,
				uint64_t block_size)
{
	char has[SIZE_TEXT_MAX], block[SIZE_TEXT_MAX], least[SIZE_TEXT_MAX];

	if (size / block_size >= RXCACHE_BLOCKS_MIN)
		return EXIT_OK;
	return report(EXIT_DEVICE,
		      "%s '%s': %s is fewer than %d cache blocks of %s; must be at least %s", what,
		      name, size_format(size, has), RXCACHE_BLOCKS_MIN,
		      size_format(block_size, block),
		      size_format(RXCACHE_BLOCKS_MIN * block_size, least));
}

static enum exit_code check_fit(int control, const struct device *dev, int index,
				uint64_t block_size)
{
	struct rxd_query query;
	int err;

	err = control_query(control, index, 0, &query);
	if (err)
		return control_error(err, dev->path);
	if (query.state & RXD_STATE_READONLY)
		return report(EXIT_DEVICE, "%s '%s': is read-only; must be writable", dev->what,
			      dev->path);
	if (query.state & RXD_STATE_RESERVED)
		return control_reserved_error(dev, true,
					      "it cannot be a cache; must be a RAM disk created without --reserve");
	if (control_reserve_forbids(control, index, 0))
		return control_reserved_error(dev, false,
					      "it cannot be a cache; 'rxadm clear' empties it");
	return cache_check_size(dev->what, dev->path, query.size, block_size);
}

static enum exit_code check_cache(int control, const struct device *dev, int index,
				  const struct caches *caches, const struct map_request *request,
				  struct disk_seen *seen)
{
	enum exit_code ret;

	ret = caches_check_unmapped(caches, dev);
	if (!ret)
		ret = check_unused(dev);
	if (!ret)
		ret = control_idle_check(control, index, dev);
	if (!ret)
		ret = check_fit(control, dev, index, request->block_size);
	if (!ret && !request->force)
		ret = signature_check(dev->what, dev->path);
	/* Data may have no signature: check for unsaved data, too. */
	if (!ret)
		ret = disk_check_saved(control, dev, index, request->force, seen);
	return ret;
}

static enum exit_code read_origin(int fd, const struct device *dev, uint64_t *sectors)
{
	uint64_t bytes;
	int read_only;

	if (ioctl(fd, BLKROGET, &read_only) || ioctl(fd, BLKGETSIZE64, &bytes))
		return report(exit_code_of(errno), "%s '%s': %s", dev->what, dev->path,
			      strerror(errno));
	if (read_only)
		return report(EXIT_DEVICE, "%s '%s': is read-only; must be writable", dev->what,
			      dev->path);
	*sectors = bytes >> SECTOR_SHIFT;
	if (!*sectors)
		return report(EXIT_DEVICE, "%s '%s': has no capacity", dev->what, dev->path);
	return EXIT_OK;
}

static enum exit_code check_origin(const struct device *dev, const struct device *cache,
				   const struct caches *caches,
				   const struct map_request *request, uint64_t *sectors)
{
	enum exit_code ret;
	int fd;

	if (devices_overlap(dev->number, cache->number))
		return report(EXIT_PARAMETERS,
			      "%s '%s': is the cache device itself; must be another device",
			      dev->what, dev->path);
	ret = caches_check_unmapped(caches, dev);
	if (!ret)
		ret = check_unused(dev);
	if (ret)
		return ret;

	ret = device_open_unused(dev, &fd);
	if (ret)
		return ret;
	ret = read_origin(fd, dev, sectors);
	close(fd);
	if (!ret && !request->force)
		ret = member_check(dev->what, dev->path, request->force_text);
	return ret;
}

static enum exit_code check_name_is_free(const char *name)
{
	struct mapping mapping;
	enum exit_code ret;

	ret = mapping_read(name, MAPPING_STATUS, &mapping);
	if (!ret && mapping.exists)
		ret = report(EXIT_BUSY,
			     "name '%s': /dev/mapper/%s exists; %s, or remove it first",
			     name, name, advice("give another --name", "rename the section"));
	mapping_release(&mapping);
	return ret;
}

static char *table_of(const char *name, const struct map_request *request,
		      const struct device *origin, const struct device *cache,
		      const struct disk_seen *seen)
{
	struct rxcache_table table = {
		.origin = origin->number,
		.cache = cache->number,
		.unmade = !request->cache,
		.features.block_size = request->block_size >> SECTOR_SHIFT,
		.features.seq_cutoff = request->seq_cutoff,
		.features.min_size = request->min_size / request->block_size * request->block_size,
		.features.advise = request->advise && cache_can_advise(name),
	};

	if (!module_is_loaded("dm_rxcache") || target_has_version(RXCACHE_TARGET, 1, 2)) {
		table.diskseq = seen->diskseq;
		table.changes = seen->changes;
	}

	snprintf(table.features.mode, sizeof(table.features.mode), "%s", request->mode);
	return rxcache_format_table(&table);
}

static enum exit_code create(const char *name, const struct device *origin, uint64_t sectors,
			     const struct device *cache, const char *sequence,
			     const struct disk_seen *seen, const struct map_request *request,
			     char **path)
{
	char *table = table_of(name, request, origin, cache, seen);
	char *uuid = format_text(RXCACHE_UUID "%u:%u", major(origin->number),
				 minor(origin->number));
	enum exit_code ret = EXIT_OK;
	dev_t number;

	*path = NULL;
	if (request->dry_run) {
		if (!module_is_loaded("dm_rxcache"))
			puts("modprobe dm-rxcache");
		printf("dmsetup create %s --uuid %s --table '0 %llu " RXCACHE_TARGET " %s'\n",
		       name, uuid, (unsigned long long)sectors, table);
		goto out;
	}
	*path = format_text("/dev/mapper/%s", name);
	/* A signal must not leave a mapping without a table. */
	signals_block();
	/* Mapping empties the RAM disk: from then on it may not replace its images. */
	ret = disk_empty_begin(cache, sequence);
	if (!ret) {
		ret = mapping_create(name, uuid, sectors, RXCACHE_TARGET, table, &number);
		disk_empty_end(sequence, !ret);
	}
	if (!ret && !device_wait(*path, number)) {
		ret = mapping_remove(name);
		if (!ret)
			ret = report(EXIT_DEVICE,
				     "'%s': the device node did not appear, so the mapping was removed",
				     *path);
	}
	if (ret) {
		free(*path);
		*path = NULL;
		signals_allow();
	}
out:
	free(uuid);
	free(table);
	return ret;
}

/* Derive a name from the origin. sysfs writes '!' for a slash. */
static char *default_name(const struct device *origin)
{
	char *name = format_text("rxc-%s", origin->kernel_name);
	char *c;

	for (c = name; *c; c++)
		if (*c == '!')
			*c = '-';
	return name;
}

/* The path may lead to another device since the waits; the table is made of the number. */
static enum exit_code check_path(const struct device *origin)
{
	struct stat st;

	if (!stat(origin->path, &st) && S_ISBLK(st.st_mode) && st.st_rdev == origin->number)
		return EXIT_OK;
	return report(EXIT_BUSY, "%s '%s': was replaced meanwhile", origin->what, origin->path);
}

static enum exit_code map_devices(int control, const struct map_request *request,
				  const struct device *cache, int index, const char *sequence,
				  const struct device *origin, char **path)
{
	struct disk_seen seen = { .diskseq = 0 };
	struct caches caches;
	bool locked = false;
	enum exit_code ret;
	uint64_t sectors = 0;
	char *name;

	name = request->name ? copy_text(request->name) : default_name(origin);
	ret = caches_read(&caches);
	if (!ret)
		ret = mapping_name_check(name);
	if (!ret)
		ret = check_origin(origin, cache, &caches, request, &sectors);
	if (!ret && request->cache) {
		/* The origin may hang: do not keep others from the RAM disk meanwhile. */
		ret = disk_lock(cache, sequence, DISK_LOCK_DATA);
		locked = !ret;
	}
	if (locked)
		ret = check_cache(control, cache, index, &caches, request, &seen);
	if (!ret && locked)
		ret = disk_check_same(cache, sequence);
	if (!ret)
		ret = check_path(origin);
	if (!ret)
		ret = check_name_is_free(name);
	if (!ret)
		ret = create(name, origin, sectors, cache, sequence, &seen, request, path);
	if (locked)
		disk_unlock(sequence, DISK_LOCK_DATA);
	caches_free(&caches);
	free(name);
	return ret;
}

/* The disk that was found by its UUID may have been replaced since. */
static enum exit_code check_uuid(int control, const struct device *cache, int index,
				 const struct map_request *request)
{
	struct rxd_query query;

	if (!request->uuid)
		return EXIT_OK;
	if (!control_query(control, index, 0, &query) &&
	    !memcmp(query.uuid, request->uuid, sizeof(query.uuid)))
		return EXIT_OK;
	return report(EXIT_BUSY, "%s '%s': was replaced meanwhile", cache->what, cache->path);
}

/* Return the number of the whole disk, also for a partition. */
static uint64_t disk_of(dev_t number)
{
	dev_t disk;

	return sysfs_read_number(number, "../dev", &disk) ? disk : number;
}

/**
 * cache_lock_origin - wait until no other rxadm maps a disk, or replaces the table of a cache of it
 * @origin: the disk; device-mapper allows two mappings of one disk
 */
enum exit_code cache_lock_origin(dev_t origin)
{
	char *path = device_path(origin);
	enum exit_code ret = lock_take_one(disk_of(origin), path);

	free(path);
	return ret;
}

void cache_unlock_origin(dev_t origin)
{
	lock_give_one(disk_of(origin));
}

/**
 * cache_lock - do this for the origin of a cache, until the process ends
 * @name: the cache
 *
 * What a message changes is not lost then, because no table that was read before replaces it.
 */
enum exit_code cache_lock(const char *name)
{
	const struct cache *cache;
	struct caches caches;
	enum exit_code ret = cache_find(name, &caches, &cache);

	ret = ret ? ret : cache_lock_origin(cache->table.origin);
	caches_free(&caches);
	return ret;
}

/**
 * cache_map - map a cache, or report why not
 * @control: the control node of the RAM disks
 * @request: what to map
 * @path: out: allocated path of the mapping, with the user's signals blocked; NULL on failure
 *	and after a dry run
 */
enum exit_code cache_map(int control, const struct map_request *request, char **path)
{
	struct device cache = { 0 }, origin = { 0 };
	enum exit_code ret = EXIT_OK;
	char *sequence = NULL;
	int index = -1;

	*path = NULL;
	if (request->cache)
		ret = device_find_rxd("cache device", request->cache, &cache, &index);
	if (ret)
		return ret;
	/* Before the waits, in which another disk may get its number. */
	if (request->cache)
		sequence = disk_sequence(cache.number);
	ret = check_uuid(control, &cache, index, request);
	if (!ret)
		ret = device_find_named("origin", request->origin, &origin);
	if (!ret) {
		ret = cache_lock_origin(origin.number);
		if (!ret) {
			ret = map_devices(control, request, &cache, index, sequence, &origin,
					  path);
			cache_unlock_origin(origin.number);
		}
		device_release(&origin);
	}
	free(sequence);
	device_release(&cache);
	return ret;
}

#define OPEN_ROUNDS	20	/* of pause_briefly(): one second */

/*
 * The UUID identifies mappings that have another target or none: if the modules are missing,
 * apply maps the slow disk alone, and a killed rxadm may leave a mapping without a table.
 */
static bool is_ours(const struct mapping *mapping)
{
	return (mapping->target && !strcmp(mapping->target, RXCACHE_TARGET)) ||
	       !strncmp(mapping->uuid, RXCACHE_UUID, strlen(RXCACHE_UUID));
}

static enum exit_code check_unmap(const char *name, const struct mapping *mapping)
{
	enum exit_code ret = EXIT_OK;
	char *users;

	if (!mapping->exists)
		return report(EXIT_DEVICE,
			      "mapping '%s': does not exist; 'rxadm status' lists all", name);
	if (!is_ours(mapping))
		return report(EXIT_DEVICE,
			      "mapping '%s': is not a cache (its target is %s); 'dmsetup remove' removes it",
			      name, mapping->target ? mapping->target : "none or several");
	users = users_of(mapping->number);
	if (users)
		ret = report(EXIT_BUSY, "mapping '%s': is in use (%s); release it there first",
			     name, users);
	free(users);
	return ret;
}

static enum exit_code open_error(const char *name, dev_t number)
{
	char *openers = openers_of(number);
	enum exit_code ret;

	ret = report(EXIT_BUSY, "mapping '%s': is %s; close it first", name,
		     openers ? openers : "open by a process");
	free(openers);
	return ret;
}

/**
 * cache_closed_check - wait until a cache is closed, or report what has it open
 * @name: its name
 */
enum exit_code cache_closed_check(const char *name)
{
	struct mapping mapping;
	unsigned int open_count;
	enum exit_code ret;
	unsigned int round;
	dev_t number = 0;

	/* udev probes a device that was just written: wait for it to finish. */
	for (round = 0; round < OPEN_ROUNDS; round++) {
		ret = mapping_read(name, MAPPING_TABLE, &mapping);
		open_count = mapping.open_count;
		number = mapping.number;
		mapping_release(&mapping);
		if (ret || !open_count)
			return ret;
		pause_for(round, "until '/dev/mapper/%s' is closed", name);
	}
	return open_error(name, number);
}

/**
 * cache_unmap_check - report what keeps a cache from being removed
 * @name: its name
 */
enum exit_code cache_unmap_check(const char *name)
{
	struct mapping mapping;
	enum exit_code ret;

	ret = mapping_read(name, MAPPING_TABLE, &mapping);
	if (!ret)
		ret = check_unmap(name, &mapping);
	mapping_release(&mapping);
	return ret ? ret : cache_closed_check(name);
}

/**
 * cache_unmap - remove an unused cache, or report its users
 * @name: its name
 * @dry_run: only check, and print what would be done
 */
enum exit_code cache_unmap(const char *name, bool dry_run)
{
	enum exit_code ret = cache_unmap_check(name);

	if (ret)
		return ret;
	if (dry_run) {
		printf("dmsetup remove %s\n", name);
		return EXIT_OK;
	}

	signals_block();
	ret = mapping_remove(name);
	signals_allow();
	return ret;
}
