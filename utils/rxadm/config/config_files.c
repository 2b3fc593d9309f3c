// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files of a configuration, and the checks after all are read.
 *
 * A configuration consists of FILE, the .conf files in the folder FILE.d, and the vendor defaults.
 * These come last: if they contradict FILE, the error counts as theirs.
 *
 * A record is a copy of a section that apply has started. Each is a file in /run/rxadm. Stopping
 * and saving follow the records, because the configuration may have changed since. The first line
 * describes the record, the others are a section in the format of rxd.conf(5):
 *
 *	rxadm-record 1 ORDER FOLDER CONFIGURATION
 *
 * ORDER is the section's place among the others, FOLDER the device number of the file
 * system that the image is on, or 0. rxd-generator reads the records, too.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/rxd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/file.h"
#include "base/system.h"
#include "base/text.h"
#include "config/config.h"
#include "config/config_files.h"
#include "config/config_keys.h"

/* Messages about keys that are missing or contradict each other. */
#define RULE_NOAUTO \
	"device '%s': has noauto, so its export must have it, too"
#define RULE_CIRCLE \
	"%s '%s': lies on '%s' of [%s %s] (%s:%u), which itself depends on '%s' of this section"
#define RULE_MOUNTED \
	"device '%s': is mounted on '%s'; a device cannot be both mounted and exported"
#define RULE_NO_ADDRESS \
	"key 'address': is missing; give the IP address to listen on, or 0.0.0.0 for all"
#define RULE_NO_HOST \
	"key 'allow-host': is missing; give the NQN of each host (see its /etc/nvme/hostnqn), or allow-any-host = yes"
#define RULE_RESERVE \
	"reserve and detect-zeroes exclude each other: detect-zeroes frees pages, reserve keeps them"

static bool is_below(const char *path, const char *folder)
{
	size_t length = folder ? strlen(folder) : 0;

	return path && length && !strncmp(path, folder, length) && path[length] == '/';
}

/*
 * Return: the image or the mount point of a section if it lies on the RAM disk of another, which
 * must be mounted first; NULL if not.
 */
static const char *need_of(const struct config_section *section,
			   const struct config_section *other, enum config_key *key)
{
	const char *mount = other->values[CONFIG_MOUNT].text;

	*key = is_below(section->values[CONFIG_IMAGE].text, mount) ? CONFIG_IMAGE : CONFIG_MOUNT;
	return is_below(section->values[*key].text, mount) ? section->values[*key].text : NULL;
}

/* Mark the sections that must be mounted before this one. */
static void mark_needed(const struct config *config, const struct config_section *section,
			bool *needed)
{
	enum config_key key;
	size_t i;

	for (i = 0; i < config->count; i++) {
		if (needed[i] || !need_of(section, config->sections[i], &key))
			continue;
		needed[i] = true;
		mark_needed(config, config->sections[i], needed);
	}
}

/* A vendor default with an error is not mounted, so the administrator's sections ignore it. */
static bool is_out_of(const struct config_section *section, const struct config_section *other)
{
	return other->vendor && other->broken && !section->vendor;
}

/* Return: whether a section needs another. Skip the sections that the other ignores. */
static bool needs(const struct config *config, const struct config_section *section,
		  const struct config_section *other)
{
	bool *needed = zeroed_array(config->count, sizeof(*needed));
	bool found = false;
	size_t i;

	for (i = 0; i < config->count; i++)
		needed[i] = is_out_of(other, config->sections[i]);
	mark_needed(config, section, needed);
	for (i = 0; i < config->count; i++)
		found |= needed[i] && config->sections[i] == other;
	free(needed);
	return found;
}

/*
 * Refuse sections that wait for each other: they would never start, and never be saved. Vendor
 * defaults are checked before the others, so their errors are known.
 */
static char *check_circle(const struct config *config, const struct config_section *section)
{
	const struct config_section *other;
	enum config_key key;
	const char *path;
	size_t i;

	for (i = 0; i < config->count; i++) {
		other = config->sections[i];
		path = need_of(section, other, &key);
		if (path && other != section && !is_out_of(section, other) &&
		    needs(config, other, section))
			return format_text(RULE_CIRCLE, config_keys[key].name, path,
					   other->values[CONFIG_MOUNT].text,
					   config_kind_name(other->kind), other->name, other->file,
					   other->line, section->values[CONFIG_MOUNT].text);
	}
	return NULL;
}

/* Check keys that depend on each other. */
static char *check_ramdisk(const struct config *config, const struct config_section *section)
{
	static const enum config_key of_image[] = { CONFIG_COMPRESS, CONFIG_AUTOSAVE, CONFIG_KEEP };
	const struct config_value *values = section->values;
	const char *mount = values[CONFIG_MOUNT].text;
	const char *image = values[CONFIG_IMAGE].text;
	size_t i;

	if (mount && !values[CONFIG_FS].text && !image)
		return format_text("mount '%s': requires the key fs or image",
				   mount);
	if (values[CONFIG_OPTIONS].text && !mount)
		return format_text("options '%s': require the key mount",
				   values[CONFIG_OPTIONS].text);
	for (i = 0; i < ARRAY_SIZE(of_image); i++)
		if (values[of_image[i]].text && !image)
			return format_text("%s '%s': requires the key image",
					   config_keys[of_image[i]].name, values[of_image[i]].text);
	if (is_below(image, mount))
		return format_text("image '%s': lies on the RAM disk itself, mounted on '%s'",
				   image, mount);
	if (section->disk.flags & RXD_CREATE_RESERVE &&
	    section->disk.flags & RXD_CREATE_DETECT_ZEROES)
		return copy_text(RULE_RESERVE);
	if (section->disk.flags & RXD_CREATE_RESERVE && values[CONFIG_MEM_LIMIT].text &&
	    section->disk.mem_limit < section->disk.size)
		return format_text("mem-limit '%s': must be at least the size '%s' with reserve",
				   values[CONFIG_MEM_LIMIT].text, values[CONFIG_SIZE].text);
	return check_circle(config, section);
}

/* Apply the rules that 'rxadm export' has for its options. */
static char *check_access(const struct config_section *section)
{
	const struct export_request *export = &section->export;
	bool tcp = !strcmp(export->transport, "tcp");

	if (tcp && !export->address)
		return copy_text(RULE_NO_ADDRESS);
	if (!tcp && export->address)
		return format_text("address '%s': requires transport tcp", export->address);
	if (!tcp && export->port)
		return format_text("port '%u': requires transport tcp", export->port);
	if (export->allow_any_host && export->host_count)
		return copy_text("allow-host and allow-any-host exclude each other");
	if (!export->allow_any_host && !export->host_count)
		return copy_text(RULE_NO_HOST);
	if (export->key_path && !export->host_count)
		return format_text("dhchap-key '%s': requires the key allow-host",
				   export->key_path);
	return NULL;
}

static char *check_export(const struct config *config, const struct config_section *section)
{
	const char *device = section->values[CONFIG_DEVICE].text;
	const struct config_section *disk = config_find(config, device);

	if (!disk)
		return format_text("device '%s': there is no such section", device);
	if (disk->broken)
		return format_text("device '%s': there is an error in its section, at %s:%u",
				   device, disk->file, disk->line);
	if (disk->values[CONFIG_MOUNT].text)
		return format_text(RULE_MOUNTED, device, disk->values[CONFIG_MOUNT].text);
	if (disk->noauto && !section->noauto)
		return format_text(RULE_NOAUTO, device);
	return check_access(section);
}

/* config_check() calls these in this order: an export needs the result for its device. */
static char *(*const checks[CONFIG_KINDS])(const struct config *config,
					   const struct config_section *section) = {
	[CONFIG_RAMDISK] = check_ramdisk,
	[CONFIG_EXPORT] = check_export,
};

static void check_required(struct config *config, struct config_section *section)
{
	size_t i;

	for (i = 0; i < CONFIG_KEYS; i++)
		if (config_keys[i].required & IN(section->kind) && !section->values[i].text)
			config_section_error(config, section, section->line,
					     format_text("key '%s': is missing",
							 config_keys[i].name));
}

/* Find the first earlier section that has this value in a key of the same @unique number. */
static const struct config_section *find_value(const struct config *config, size_t before,
					       enum config_key wanted, const char *text)
{
	const struct config_value *value;
	size_t i, key;

	for (i = 0; i < before; i++) {
		for (key = 0; key < CONFIG_KEYS; key++) {
			value = &config->sections[i]->values[key];
			if (config_keys[key].unique == config_keys[wanted].unique && value->text &&
			    !strcmp(value->text, text))
				return config->sections[i];
		}
	}
	return NULL;
}

static void check_unique(struct config *config, size_t number)
{
	struct config_section *section = config->sections[number];
	const struct config_section *other;
	const struct config_value *value;
	size_t key;

	for (key = 0; key < CONFIG_KEYS; key++) {
		value = &section->values[key];
		if (!config_keys[key].unique || !value->text)
			continue;
		other = find_value(config, number, key, value->text);
		if (other)
			config_section_error(config, section, value->line,
					     format_text("%s '%s': [%s %s] at %s:%u has it already",
							 config_keys[key].name, value->text,
							 config_kind_name(other->kind), other->name,
							 other->file, other->line));
	}
}

/* Get the UUID of a section's RAM disk. Return: false if it has no RAM disk or no valid UUID. */
static bool get_uuid(const struct config_section *section, uint8_t *uuid)
{
	config_section_uuid(section, uuid);
	return config_keys[CONFIG_UUID].kinds & IN(section->kind) && !uuid_is_null(uuid);
}

/* Refuse two sections with the same UUID: each would stop the RAM disk of the other. */
static void check_uuid(struct config *config, size_t number)
{
	struct config_section *section = config->sections[number];
	const struct config_value *value = &section->values[CONFIG_UUID];
	const struct config_section *other;
	char text[UUID_STR_LEN];
	uint8_t uuid[16], had[16];
	size_t i;

	if (!get_uuid(section, uuid))
		return;
	uuid_unparse_lower(uuid, text);
	for (i = 0; i < number; i++) {
		other = config->sections[i];
		if (!get_uuid(other, had) || memcmp(uuid, had, sizeof(uuid)))
			continue;
		config_section_error(config, section, value->text ? value->line : section->line,
				     format_text("uuid '%s'%s: [%s %s] at %s:%u has it already",
						 value->text ? value->text : text,
						 value->text ? "" : ", derived from its name",
						 config_kind_name(other->kind), other->name,
						 other->file, other->line));
		return;
	}
}

/* Vendor defaults are checked first, so that a contradiction counts as their error. */
static void check_kind(struct config *config, enum config_kind kind, bool vendor)
{
	struct config_section *section;
	char *error;
	size_t i;

	for (i = 0; checks[kind] && i < config->count; i++) {
		section = config->sections[i];
		if (section->kind != kind || section->vendor != vendor || section->broken)
			continue;
		error = checks[kind](config, section);
		if (error)
			config_section_error(config, section, section->line, error);
	}
}

/**
 * config_check - check for missing keys and contradictions, after all files are read
 * @config: the configuration
 */
void config_check(struct config *config)
{
	enum config_kind kind;
	size_t i;

	for (i = 0; i < config->count; i++) {
		check_required(config, config->sections[i]);
		check_unique(config, i);
		check_uuid(config, i);
	}
	for (kind = 0; kind < CONFIG_KINDS; kind++) {
		check_kind(config, kind, true);
		check_kind(config, kind, false);
	}
}

/**
 * config_load - read a configuration and check it
 * @config: all zero except @ram; gets the errors, too
 * @path: the first file
 * @vendor: the folder of the vendor defaults, or NULL
 *
 * Return: whether there is a configuration. If not, an error says so.
 */
bool config_load(struct config *config, const char *path, const char *vendor)
{
	char *folder = format_text("%s.d", path);
	bool found;

	found = config_read_file(config, path);
	found |= config_read_folder(config, folder, NULL) >= 0;
	config->vendor = true;
	if (vendor)
		found |= config_read_folder(config, vendor, folder) > 0;
	config->vendor = false;
	if (!found)
		config_error(config, "%s: %s", path, strerror(ENOENT));
	config_check(config);
	free(folder);
	return found;
}

/* Return: the path of a record's configuration, allocated; NULL if the first line is invalid. */
static char *read_head(FILE *file, size_t *order, unsigned long long *folder)
{
	char *path = NULL;
	char *line = NULL;
	size_t size = 0;
	int at = 0;

	if (getline(&line, &size, file) > 0 &&
	    sscanf(line, "rxadm-record 1 %zu %llu %n", order, folder, &at) == 2 &&
	    line[at] == '/' && strchr(line, '\n'))
		path = format_text("%.*s", (int)strcspn(line + at, "\n"), line + at);
	free(line);
	return path;
}

/* Check what was read from a record. Return: why it cannot be used, allocated; or NULL. */
static char *find_damage(const struct config *config, size_t before, FILE *file, const char *name)
{
	const struct config_section *section = config->count == before + 1 ?
					       config->sections[before] : NULL;
	char *own = section ? format_text("/%s-%s", config_kind_name(section->kind),
					  section->name) : NULL;
	bool right = own && !strcmp(strrchr(name, '/'), own);

	free(own);
	if (!right)
		return copy_text("it does not hold the one section that its name says");
	if (fseek(file, -1, SEEK_END) || getc(file) != '\n')
		return copy_text("its last line is incomplete");
	return config_section_damage(section);
}

/* Read the section of a record. Leave out one that cannot be stopped as it was started. */
static void read_section(struct config *config, const char *name, FILE *file, size_t order,
			 dev_t folder)
{
	size_t before = config->count;
	char *damage;

	config_read(config, name, file, 1);
	damage = find_damage(config, before, file, name);
	if (damage) {
		config_error(config, "%s: is ignored, because %s", name, damage);
		config_truncate(config, before);
	} else {
		config->sections[before]->order = order;
		config->sections[before]->folder = folder;
	}
	free(damage);
}

static void read_record(struct config *config, const char *name, const char *path)
{
	FILE *file = fopen(name, "re");
	unsigned long long folder;
	size_t order;
	char *of;

	/* Another rxadm may have stopped the section meanwhile. */
	if (!file && errno == ENOENT)
		return;
	if (!file) {
		config_error(config, "%s: %s", name, strerror(errno));
		return;
	}
	of = read_head(file, &order, &folder);
	if (!of)
		config_error(config, "%s:1: is not a record that this rxadm understands", name);
	else if (!path || path_is_same(of, path))
		read_section(config, name, file, order, folder);
	free(of);
	fclose(file);
}

char *config_record_path(const struct config_section *section)
{
	return format_text(RUN_FOLDER "/%s-%s", config_kind_name(section->kind),
			   section->name);
}

/**
 * config_record_other - find the record of a section of this name in another configuration
 * @section: the section
 * @path: the first file of its configuration
 *
 * Return: the first file of the other one, allocated; NULL if there is no such record.
 */
char *config_record_other(const struct config_section *section, const char *path)
{
	char *name = config_record_path(section);
	FILE *file = fopen(name, "re");
	unsigned long long folder;
	char *of = NULL;
	size_t order;

	if (file) {
		of = read_head(file, &order, &folder);
		fclose(file);
	}
	if (of && path_is_same(of, path)) {
		free(of);
		of = NULL;
	}
	free(name);
	return of;
}

static int is_record(const struct dirent *entry)
{
	enum config_kind kind;
	char *word = format_text("%.*s", (int)strcspn(entry->d_name, "-"), entry->d_name);
	bool found = config_find_kind(word, &kind) && entry->d_name[strlen(word)] == '-';

	free(word);
	return found;
}

/**
 * config_record_read_all - read the records of the sections that were started
 * @config: all zero except @ram; gets the sections and the errors
 * @folder: where the records are
 * @path: the first file of the configuration; NULL: all configurations
 */
void config_record_read_all(struct config *config, const char *folder, const char *path)
{
	struct dirent **entries;
	char *name;
	int count, i;

	count = scandir(folder, &entries, is_record, alphasort);
	if (count < 0) {
		if (errno != ENOENT)
			config_error(config, "%s: %s", folder, strerror(errno));
		return;
	}
	for (i = 0; i < count; i++) {
		name = format_text("%s/%s", folder, entries[i]->d_name);
		read_record(config, name, path);
		free(name);
		free(entries[i]);
	}
	free(entries);
}
