// SPDX-License-Identifier: GPL-2.0-only
/*
 * The caches there are: the mappings whose target is rxcache.
 */
#include <stdlib.h>
#include <string.h>

#include "caches.h"
#include "dm.h"

#define MAPPER	"/dev/mapper/"

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

/* Why there is no cache of this name. */
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

/**
 * cache_find - find a cache by its name, or report why there is none
 * @name: the name
 * @caches: out: all caches, to be freed by caches_free() also after an error
 * @cache: out: the cache, one of them
 */
enum exit_code cache_find(const char *name, struct caches *caches, const struct cache **cache)
{
	enum exit_code ret;
	size_t i;

	ret = caches_read(caches);
	if (ret)
		return ret;
	for (i = 0; i < caches->count; i++) {
		*cache = &caches->list[i];
		if (!strcmp((*cache)->name, name))
			return EXIT_OK;
	}
	return missing(name);
}

/**
 * cache_status - read the status line of a mapping that was a cache just now
 * @name: the mapping
 * @status: out: what the line says
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
			     "mapping '%s': its status '%s' is not understood: %s; are rxadm and the module dm-rxcache of one release?",
			     name, mapping.params, error);
	free(error);
	mapping_release(&mapping);
	return ret;
}

/* A mapping's name, of which the user may have given the path. */
const char *mapping_name(const char *text)
{
	return strncmp(text, MAPPER, strlen(MAPPER)) ? text : text + strlen(MAPPER);
}
