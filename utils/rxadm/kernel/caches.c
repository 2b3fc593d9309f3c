// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find, query and control caches, which are the mappings whose target is rxcache. dm-stats
 * keeps their latency histograms in a region that rxadm creates.
 */
#include <libdevmapper.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "device/dm.h"
#include "kernel/caches.h"
#include "kernel/rxcache.h"

#define MAPPER	"/dev/mapper/"

/**
 * dm_begin - connect to device-mapper if dm-rxcache is loaded, or report why not
 */
enum exit_code dm_begin(void)
{
	if (!module_is_loaded("dm_rxcache"))
		return report(EXIT_DEVICE,
			      "the module dm-rxcache is not loaded; run 'modprobe dm-rxcache'");
	return dm_connect();
}

/* Return: whether the target has a minor version, or will be loaded, and then has it. */
bool target_can(unsigned int minor)
{
	return !module_is_loaded("dm_rxcache") || target_has_version(RXCACHE_TARGET, 1, minor);
}

/**
 * cache_can_advise - check whether a cache can have the advice that it wants, and note if not
 * @name: the cache
 */
bool cache_can_advise(const char *name)
{
	bool can = target_can(VERSION_ADVISE);

	if (!can)
		report(EXIT_OK, "note: cache '%s': its advice stays off: " ADVICE_TOO_OLD, name);
	return can;
}

/**
 * mapping_message - send a message, or report why not
 * @name: the mapping
 * @message: the message
 * @answer: out: as that of mapping_ask()
 */
enum exit_code mapping_message(const char *name, const char *message, char **answer)
{
	int kmsg = kmsg_open();
	int err = mapping_ask(name, message, answer);
	enum exit_code ret = err ? mapping_refused(name, RXCACHE_TARGET, err, kmsg) : EXIT_OK;

	if (kmsg >= 0)
		close(kmsg);
	return ret;
}

static enum exit_code add_if_cache(struct caches *caches, const char *name)
{
	struct rxcache_table table;
	struct mapping mapping;
	enum exit_code ret;
	char *error;

	ret = mapping_read(name, MAPPING_TABLE, &mapping);
	if (ret)
		return ret;
	if (!mapping.target || strcmp(mapping.target, RXCACHE_TARGET)) {
		mapping_release(&mapping);
		return EXIT_OK;
	}

	error = rxcache_parse_table(mapping.params, &table);
	if (error) {
		ret = report(EXIT_DEVICE, "mapping '%s': its table '%s' is not understood: %s",
			     name, mapping.params, error);
		free(error);
	} else {
		caches->list = resize_array(caches->list, caches->count + 1,
					    sizeof(*caches->list));
		caches->list[caches->count++] = (struct cache) {
			.name = copy_text(name),
			.number = mapping.number,
			.table = table,
		};
	}
	mapping_release(&mapping);
	return ret;
}

/**
 * caches_read - list all caches
 * @caches: out: the list, to be freed by caches_free() also after an error
 */
enum exit_code caches_read(struct caches *caches)
{
	enum exit_code ret;
	char **names;
	size_t i;

	*caches = (struct caches){ 0 };
	ret = mapping_names(&names);
	for (i = 0; !ret && names[i]; i++)
		ret = add_if_cache(caches, names[i]);
	mapping_names_free(names);
	return ret;
}

void caches_free(struct caches *caches)
{
	size_t i;

	for (i = 0; i < caches->count; i++)
		free(caches->list[i].name);
	free(caches->list);
	*caches = (struct caches){ 0 };
}

/* Report why there is no cache of this name. */
static enum exit_code missing(const char *name)
{
	struct mapping mapping;
	enum exit_code ret;

	ret = mapping_read(name, MAPPING_TABLE, &mapping);
	if (!ret && mapping.exists)
		ret = report(EXIT_DEVICE, "mapping '%s': is not a cache; 'rxadm status' lists all",
			     name);
	else if (!ret)
		ret = report(EXIT_DEVICE, "mapping '%s': does not exist; 'rxadm status' lists all",
			     name);
	mapping_release(&mapping);
	return ret;
}

static enum exit_code mapped_error(const struct device *dev, const char *role, dev_t member,
				   const char *name)
{
	return report(EXIT_BUSY, "%s '%s': %s the %s of '%s'; run 'rxadm unmap %s' first",
		      dev->what, dev->path,
		      dev->number == member ? "is already" : "shares a disk with", role, name,
		      name);
}

/* Report a device that belongs to one of the caches. */
enum exit_code caches_check_unmapped(const struct caches *caches, const struct device *dev)
{
	const struct cache *cache;
	size_t i;

	for (i = 0; i < caches->count; i++) {
		cache = &caches->list[i];
		if (devices_overlap(dev->number, cache->table.origin))
			return mapped_error(dev, "origin", cache->table.origin, cache->name);
		if (devices_overlap(dev->number, cache->table.cache))
			return mapped_error(dev, "cache", cache->table.cache, cache->name);
	}
	return EXIT_OK;
}

static const struct cache *find_named(const struct caches *caches, const char *name)
{
	size_t i;

	for (i = 0; i < caches->count; i++)
		if (!strcmp(caches->list[i].name, name))
			return &caches->list[i];
	return NULL;
}

/**
 * cache_find - find a cache by its name, or report why there is none
 * @name: the name
 * @caches: out: all caches, to be freed by caches_free() also after an error
 * @cache: out: the cache, one of them
 */
enum exit_code cache_find(const char *name, struct caches *caches, const struct cache **cache)
{
	enum exit_code ret;

	ret = caches_read(caches);
	if (ret)
		return ret;
	*cache = find_named(caches, name);
	return *cache ? EXIT_OK : missing(name);
}

/**
 * cache_status - read the status line of a mapping that was found to be a cache
 * @name: the mapping
 * @status: out: the values in the line
 * @sectors: out: length of the cache; 0: it was removed meanwhile
 */
enum exit_code cache_status(const char *name, struct rxcache_status *status, uint64_t *sectors)
{
	struct mapping mapping;
	enum exit_code ret;
	char *error = NULL;

	*sectors = 0;
	ret = mapping_read(name, MAPPING_STATUS, &mapping);
	if (ret)
		return ret;
	if (mapping.target && !strcmp(mapping.target, RXCACHE_TARGET)) {
		error = rxcache_parse_status(mapping.params, status);
		*sectors = mapping.sectors;
	}
	if (error)
		ret = report(EXIT_DEVICE,
			     "mapping '%s': its status '%s' is not understood: %s; are rxadm and the module dm-rxcache from the same release?",
			     name, mapping.params, error);
	free(error);
	mapping_release(&mapping);
	return ret;
}

/**
 * cache_query - find a cache by its name and read its status line, or report why not
 * @name: the name
 * @status: out: the values in the line
 * @sectors: out: length of the cache
 */
enum exit_code cache_query(const char *name, struct rxcache_status *status, uint64_t *sectors)
{
	const struct cache *cache;
	struct caches caches;
	enum exit_code ret;

	ret = cache_find(name, &caches, &cache);
	caches_free(&caches);
	if (!ret)
		ret = cache_status(name, status, sectors);
	if (!ret && !*sectors)
		ret = missing(name);
	return ret;
}

/**
 * cache_message - send a message that has no answer
 * @name: the cache
 * @message: the message
 * @dry_run: only print what would be sent
 */
enum exit_code cache_message(const char *name, const char *message, bool dry_run)
{
	if (!dry_run)
		return mapping_message(name, message, NULL);
	printf("dmsetup message %s 0 %s\n", name, message);
	return EXIT_OK;
}

/* Return the name of a mapping, which the user may have given as a path. */
const char *mapping_name(const char *text)
{
	return strncmp(text, MAPPER, strlen(MAPPER)) ? text : text + strlen(MAPPER);
}

/* Return: the error of the first name that is not that of a cache, or that is given twice. */
static enum exit_code check_names(const struct caches *caches, char *const *names)
{
	enum exit_code first = EXIT_OK, ret;
	const char *name;
	size_t i, j;

	for (i = 0; names[i]; i++) {
		name = mapping_name(names[i]);
		ret = find_named(caches, name) ? EXIT_OK : missing(name);
		for (j = 0; !ret && j < i; j++)
			if (!strcmp(name, mapping_name(names[j])))
				ret = report(EXIT_PARAMETERS, "cache '%s': is given more than once",
					     name);
		first = first ? first : ret;
	}
	return first;
}

/**
 * caches_reset_stats - set the counters of caches to zero, or of none if one does not exist
 * @names: their names or paths, terminated by NULL; NULL: all caches
 * @dry_run: only print what would be sent
 */
enum exit_code caches_reset_stats(char *const *names, bool dry_run)
{
	struct caches caches;
	enum exit_code ret;
	size_t i;

	ret = caches_read(&caches);
	if (!ret && names)
		ret = check_names(&caches, names);
	for (i = 0; !ret && (names ? !!names[i] : i < caches.count); i++)
		ret = cache_message(names ? mapping_name(names[i]) : caches.list[i].name,
				    "reset_stats", dry_run);
	caches_free(&caches);
	return ret;
}

#define PROGRAM	"rxadm"
#define USEC	1000ULL

static enum exit_code stats_error(const char *name)
{
	return report(EXIT_DEVICE, "mapping '%s': its latency statistics cannot be accessed", name);
}

static enum exit_code stats_begin(const char *name, struct dm_stats **stats)
{
	*stats = dm_stats_create(PROGRAM);
	if (*stats && dm_stats_bind_name(*stats, name) && dm_stats_list(*stats, PROGRAM))
		return EXIT_OK;
	if (*stats)
		dm_stats_destroy(*stats);
	return stats_error(name);
}

/* Find the region that rxadm created. There is at most one. */
static bool find_region(struct dm_stats *stats, uint64_t *region)
{
	if (!dm_stats_get_nr_regions(stats))
		return false;
	dm_stats_foreach_region(stats) {
		*region = dm_stats_get_current_region(stats);
		return true;
	}
	return false;
}

static bool create_region(struct dm_stats *stats)
{
	struct dm_histogram *histogram = dm_histogram_bounds_from_uint64(latency_bounds);
	uint64_t region;
	bool ok;

	if (!histogram)
		return false;
	ok = dm_stats_create_region(stats, &region, 0, 0, -1, 1, histogram, PROGRAM, "");
	dm_histogram_bounds_destroy(histogram);
	return ok;
}

/* Print the dmsetup command that corresponds to create_region(). */
static void print_region(const char *name)
{
	unsigned int bin;

	printf("dmsetup stats create --programid " PROGRAM " --bounds ");
	for (bin = 0; latency_bounds[bin]; bin++)
		printf("%s%lluus", bin ? "," : "", (unsigned long long)latency_bounds[bin] / USEC);
	printf(" %s\n", name);
}

static bool replace_region(struct dm_stats *stats, const char *name, bool on, bool dry_run)
{
	uint64_t region;
	bool there = find_region(stats, &region);

	if (!dry_run)
		return (!there || dm_stats_delete_region(stats, region)) &&
		       (!on || create_region(stats));
	if (there)
		printf("dmsetup stats delete --programid " PROGRAM " --regionid %llu %s\n",
		       (unsigned long long)region, name);
	if (on)
		print_region(name);
	return true;
}

static enum exit_code latency_measure(const char *name, bool on, bool dry_run)
{
	struct dm_stats *stats;
	enum exit_code ret;

	ret = stats_begin(name, &stats);
	if (ret)
		return ret;
	if (!replace_region(stats, name, on, dry_run))
		ret = stats_error(name);
	dm_stats_destroy(stats);
	return ret;
}

static enum exit_code send_seq_cutoff(const char *name, uint64_t bytes, bool dry_run)
{
	char *message = format_text("seq_cutoff %llu", (unsigned long long)bytes);
	enum exit_code ret;

	ret = cache_message(name, message, dry_run);
	free(message);
	return ret;
}

static enum exit_code send_advise(const char *name, bool on, bool dry_run)
{
	return cache_message(name, on ? "advise on" : "advise off", dry_run);
}

/**
 * cache_set - change the settings of a cache
 * @name: the cache
 * @seq_cutoff: the length from which sequential I/O is not cached; NULL: as before
 * @advise: switch the advice on or off; NULL: as before
 * @measure: restart the measurement of latencies, or stop it; NULL: neither
 * @dry_run: only print what would be done
 */
enum exit_code cache_set(const char *name, const uint64_t *seq_cutoff, const bool *advise,
			 const bool *measure, bool dry_run)
{
	const struct cache *cache;
	struct caches caches;
	struct rxcache_features old = { 0 };
	enum exit_code ret;

	ret = cache_find(name, &caches, &cache);
	if (!ret && advise && !target_can(VERSION_ADVISE))
		ret = report(EXIT_DEVICE, "cache '%s': " ADVICE_TOO_OLD, name);
	if (!ret)
		old = cache->table.features;
	caches_free(&caches);
	if (!ret && seq_cutoff)
		ret = send_seq_cutoff(name, *seq_cutoff, dry_run);
	if (ret)
		return ret;
	/* What cannot be undone comes last: statistics of the latency, and what advice knows. */
	if (advise && *advise)
		ret = send_advise(name, true, dry_run);
	if (!ret && measure)
		ret = latency_measure(name, *measure, dry_run);
	if (!ret && advise && !*advise)
		ret = send_advise(name, false, dry_run);
	if (ret && !dry_run && advise && *advise && !old.advise)
		send_advise(name, false, dry_run);
	if (ret && !dry_run && seq_cutoff)
		send_seq_cutoff(name, old.seq_cutoff, dry_run);
	return ret;
}

/**
 * latency_note_off - tell why there is no histogram, which is no error
 * @name: the mapping
 */
void latency_note_off(const char *name)
{
	report(EXIT_OK,
	       "note: latency of '%s' is not measured; 'rxadm set %s --latency on' measures it",
	       name, name);
}

/**
 * latency_read - read the latency histogram of a mapping
 * @name: the mapping
 * @latency: out: the histogram, with measured unset if there is no region
 */
enum exit_code latency_read(const char *name, struct latency *latency)
{
	struct dm_stats *stats;
	enum exit_code ret;
	uint64_t region;
	char *error;
	char *text;

	*latency = (struct latency){ 0 };
	ret = stats_begin(name, &stats);
	if (ret)
		return ret;
	if (find_region(stats, &region)) {
		text = dm_stats_print_region(stats, region, 0, 0, 0);
		error = text ? latency_parse(text, latency) : NULL;
		if (!text)
			ret = stats_error(name);
		else if (error)
			ret = report(EXIT_DEVICE,
				     "mapping '%s': its latency statistics are not understood: %s",
				     name, error);
		free(error);
		dm_stats_buffer_destroy(stats, text);
	}
	dm_stats_destroy(stats);
	return ret;
}
