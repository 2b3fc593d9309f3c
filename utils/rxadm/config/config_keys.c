// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kinds of sections, and the parsers of their keys. A new key needs an entry in
 * config_keys[].
 */
#include <ctype.h>
#include <linux/rxd.h>
#include <stdlib.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "base/values.h"
#include "config/config_keys.h"

#define FS_MAX_LENGTH	31
#define KEEP_MAX	64	/* IMAGE_GENERATIONS_MAX */
#define BY_LABEL	"/dev/disk/by-label/"
#define BY_UUID		"/dev/disk/by-uuid/"
#define RAMDISK		IN(CONFIG_RAMDISK)
#define CACHE		IN(CONFIG_CACHE)
#define EXPORT		IN(CONFIG_EXPORT)

/* Messages about the values that are allowed. */
#define RULE_FS \
	"must be the name of a file system such as ext4: 1 to %d lower-case letters, digits or _"
#define RULE_COMPRESS	"must be zstd, zstd:LEVEL with a level from 1 to 22, or no"
#define RULE_NO_NAME \
	"refers to the contents, which the cached disk shares; give a path in /dev/disk/by-id"
#define RULE_DEVICE \
	"must be ramdisk/NAME or cache/NAME, the kind and name of another section"

static const char *const kind_names[CONFIG_KINDS] = {
	[CONFIG_RAMDISK] = "ramdisk",
	[CONFIG_CACHE] = "cache",
	[CONFIG_EXPORT] = "export",
};

/* Return: whether a section may have this name. */
bool config_name_is_allowed(const char *name)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
	size_t length = strlen(name);

	return isalnum((unsigned char)*name) && length <= CONFIG_NAME_MAX &&
	       strspn(name, allowed) == length;
}

bool config_find_kind(const char *name, enum config_kind *kind)
{
	unsigned int i;

	for (i = 0; i < CONFIG_KINDS; i++) {
		if (!strcmp(kind_names[i], name)) {
			*kind = i;
			return true;
		}
	}
	return false;
}

static char *read_bit(const char *text, uint32_t bit, uint32_t *flags)
{
	bool set;
	char *error = value_flag(text, &set);

	*flags |= set ? bit : 0;
	return error;
}

static char *read_address(const struct config *config __always_unused,
			  struct config_section *section, const char *text)
{
	section->export.address = text;
	return value_address(text);
}

static char *read_advise(const struct config *config __always_unused,
			 struct config_section *section, const char *text)
{
	return value_flag(text, &section->map.advise);
}

static char *read_allow_any_host(const struct config *config __always_unused,
				 struct config_section *section, const char *text)
{
	return value_flag(text, &section->export.allow_any_host);
}

static char *add_host(struct export_request *export, const char *host)
{
	char *error = value_nqn(host);
	char *text;
	size_t i;

	if (error) {
		text = format_text("'%s' %s", host, error);
		free(error);
		return text;
	}
	for (i = 0; i < export->host_count; i++)
		if (!strcmp(export->hosts[i], host))
			return format_text("'%s' is given twice", host);
	export->hosts = resize_array(export->hosts, export->host_count + 1,
				     sizeof(*export->hosts));
	export->hosts[export->host_count++] = host;
	return NULL;
}

static char *read_allow_host(const struct config *config __always_unused,
			     struct config_section *section, const char *text)
{
	char *error = NULL;
	char *rest = NULL;
	char *host;

	section->host_names = copy_text(text);
	for (host = strtok_r(section->host_names, CONFIG_BLANKS, &rest); host && !error;
	     host = strtok_r(NULL, CONFIG_BLANKS, &rest))
		error = add_host(&section->export, host);
	if (!error && !section->export.host_count)
		error = copy_text("must be the NQNs of hosts, separated by blanks");
	return error;
}

static char *read_autosave(const struct config *config __always_unused,
			   struct config_section *section, const char *text)
{
	return value_is_no(text) ? NULL : interval_parse(text, &section->autosave);
}

static char *read_block_size(const struct config *config, struct config_section *section,
			     const char *text)
{
	return value_block_size(text, config->ram, &section->map.block_size);
}

static char *read_compress(const struct config *config __always_unused,
			   struct config_section *section, const char *text)
{
	char *error;

	if (value_is_no(text))
		return NULL;
	error = value_compress(text, &section->compress);
	if (!error)
		return NULL;
	free(error);
	return copy_text(RULE_COMPRESS);
}

static char *read_detect_zeroes(const struct config *config __always_unused,
				struct config_section *section, const char *text)
{
	return read_bit(text, RXD_CREATE_DETECT_ZEROES, &section->disk.flags);
}

static char *read_device(const struct config *config __always_unused,
			 struct config_section *section __always_unused, const char *text)
{
	const char *name = strchr(text, '/');
	enum config_kind kind;
	char *word;
	bool right;

	word = format_text("%.*s", (int)strcspn(text, "/"), text);
	right = name && config_find_kind(word, &kind) && kind != CONFIG_EXPORT &&
		config_name_is_allowed(name + 1);
	free(word);
	return right ? NULL : copy_text(RULE_DEVICE);
}

static char *read_dhchap_key(const struct config *config __always_unused,
			     struct config_section *section, const char *text)
{
	section->export.key_path = text;
	return value_path(text);
}

static char *read_folio_size(const struct config *config, struct config_section *section,
			     const char *text)
{
	return value_folio_size(text, config->ram, &section->disk.folio_size);
}

static char *read_force(const struct config *config __always_unused,
			struct config_section *section, const char *text)
{
	return value_flag(text, &section->map.force);
}

static char *read_fs(const struct config *config __always_unused,
		     struct config_section *section __always_unused, const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");

	if (length && length <= FS_MAX_LENGTH && !text[length])
		return NULL;
	return format_text(RULE_FS, FS_MAX_LENGTH);
}

static char *read_file(const struct config *config __always_unused,
		       struct config_section *section __always_unused, const char *text)
{
	return value_path(text);
}

static char *read_index(const struct config *config __always_unused,
			struct config_section *section, const char *text)
{
	section->disk.has_index = true;
	return value_number(text, 0, RXD_INDEX_MAX, &section->disk.index);
}

static char *read_keep(const struct config *config __always_unused,
		       struct config_section *section, const char *text)
{
	return value_number(text, 1, KEEP_MAX, &section->keep);
}

static char *read_logical_block_size(const struct config *config __always_unused,
				     struct config_section *section, const char *text)
{
	return value_logical_block_size(text, &section->disk.logical_block_size);
}

static char *read_mem_limit(const struct config *config, struct config_section *section,
			    const char *text)
{
	section->disk.mem_limit_text = text;
	return value_size(text, config->ram, &section->disk.mem_limit);
}

static char *read_mode(const struct config *config __always_unused,
		       struct config_section *section, const char *text)
{
	section->map.mode = text;
	return value_mode(text);
}

static char *read_noauto(const struct config *config __always_unused,
			 struct config_section *section, const char *text)
{
	return value_flag(text, &section->noauto);
}

static char *read_node(const struct config *config __always_unused,
		       struct config_section *section, const char *text)
{
	section->disk.node_text = text;
	return value_node(text, &section->disk.node);
}

static char *read_nqn(const struct config *config __always_unused,
		      struct config_section *section, const char *text)
{
	section->export.nqn = text;
	return value_nqn(text);
}

static char *read_options(const struct config *config __always_unused,
			  struct config_section *section __always_unused, const char *text)
{
	return value_options(text);
}

static char *read_origin(const struct config *config __always_unused,
			 struct config_section *section, const char *text)
{
	char *error = value_path(text);

	if (!error && strncmp(text, "/dev/", 5))
		error = copy_text("must be a path below /dev, preferably in /dev/disk/by-id");
	else if (!error && (!strncmp(text, BY_UUID, strlen(BY_UUID)) ||
			    !strncmp(text, BY_LABEL, strlen(BY_LABEL))))
		error = copy_text(RULE_NO_NAME);
	section->map.origin = text;
	return error;
}

static char *read_overcommit(const struct config *config __always_unused,
			     struct config_section *section, const char *text)
{
	return read_bit(text, RXD_CREATE_OVERCOMMIT, &section->disk.flags);
}

static char *read_port(const struct config *config __always_unused,
		       struct config_section *section, const char *text)
{
	return value_port(text, &section->export.port);
}

static char *read_reserve(const struct config *config __always_unused,
			  struct config_section *section, const char *text)
{
	return read_bit(text, RXD_CREATE_RESERVE, &section->disk.flags);
}

static char *read_seq_cutoff(const struct config *config, struct config_section *section,
			     const char *text)
{
	return value_seq_cutoff(text, config->ram, &section->map.seq_cutoff);
}

static char *read_size(const struct config *config, struct config_section *section,
		       const char *text)
{
	const char *max = section->kind == CONFIG_CACHE ? size_range_max(text) : NULL;
	struct size_range range = { 0 };
	char *error;

	section->disk.size_text = max ? max : text;
	section->map.size_text = text;
	if (!max)
		return value_size(text, config->ram, &section->disk.size);
	error = value_size_range(text, config->ram, &range);
	section->map.min_size = range.min;
	section->disk.size = range.max;
	return error;
}

static char *read_transport(const struct config *config __always_unused,
			    struct config_section *section, const char *text)
{
	section->export.transport = text;
	return value_transport(text);
}

static char *read_uuid(const struct config *config __always_unused,
		       struct config_section *section, const char *text)
{
	section->disk.uuid_text = text;
	return value_uuid(text, section->disk.uuid);
}

const struct config_key_rule config_keys[CONFIG_KEYS] = {
	[CONFIG_ADDRESS] = { "address", EXPORT, 0, 0, read_address },
	[CONFIG_ADVISE] = { "advise", CACHE, 0, 0, read_advise },
	[CONFIG_ALLOW_ANY_HOST] = { "allow-any-host", EXPORT, 0, 0, read_allow_any_host },
	[CONFIG_ALLOW_HOST] = { "allow-host", EXPORT, 0, 0, read_allow_host },
	[CONFIG_AUTOSAVE] = { "autosave", RAMDISK, 0, 0, read_autosave },
	[CONFIG_BLOCK_SIZE] = { "block-size", CACHE, 0, 0, read_block_size },
	[CONFIG_COMPRESS] = { "compress", RAMDISK, 0, 0, read_compress },
	[CONFIG_DETECT_ZEROES] = { "detect-zeroes", RAMDISK, 0, 0, read_detect_zeroes },
	[CONFIG_DEVICE] = { "device", EXPORT, EXPORT, 5, read_device },
	[CONFIG_DHCHAP_KEY] = { "dhchap-key", EXPORT, 0, 0, read_dhchap_key },
	[CONFIG_FOLIO_SIZE] = { "folio-size", RAMDISK | CACHE, 0, 0, read_folio_size },
	[CONFIG_FORCE] = { "force", CACHE, 0, 0, read_force },
	[CONFIG_FS] = { "fs", RAMDISK, 0, 0, read_fs },
	[CONFIG_HOTLIST] = { "hotlist", CACHE, 0, 1, read_file },
	[CONFIG_IMAGE] = { "image", RAMDISK, 0, 1, read_file },
	[CONFIG_INDEX] = { "index", RAMDISK | CACHE, 0, 2, read_index },
	[CONFIG_KEEP] = { "keep", RAMDISK, 0, 0, read_keep },
	[CONFIG_LOGICAL_BLOCK_SIZE] = { "logical-block-size", RAMDISK, 0, 0,
					read_logical_block_size },
	[CONFIG_MEM_LIMIT] = { "mem-limit", RAMDISK | CACHE, 0, 0, read_mem_limit },
	[CONFIG_MODE] = { "mode", CACHE, 0, 0, read_mode },
	[CONFIG_MOUNT] = { "mount", RAMDISK, 0, 3, read_file },
	[CONFIG_NOAUTO] = { "noauto", RAMDISK | CACHE | EXPORT, 0, 0, read_noauto },
	[CONFIG_NODE] = { "node", RAMDISK | CACHE, 0, 0, read_node },
	[CONFIG_NQN] = { "nqn", EXPORT, 0, 7, read_nqn },
	[CONFIG_OPTIONS] = { "options", RAMDISK, 0, 0, read_options },
	[CONFIG_ORIGIN] = { "origin", CACHE, CACHE, 4, read_origin },
	[CONFIG_OVERCOMMIT] = { "overcommit", RAMDISK | CACHE, 0, 0, read_overcommit },
	[CONFIG_PORT] = { "port", EXPORT, 0, 0, read_port },
	[CONFIG_RESERVE] = { "reserve", RAMDISK, 0, 0, read_reserve },
	[CONFIG_SEQ_CUTOFF] = { "seq-cutoff", CACHE, 0, 0, read_seq_cutoff },
	[CONFIG_SIZE] = { "size", RAMDISK | CACHE, RAMDISK | CACHE, 0, read_size },
	[CONFIG_TRANSPORT] = { "transport", EXPORT, EXPORT, 0, read_transport },
	[CONFIG_UUID] = { "uuid", RAMDISK | CACHE, 0, 0, read_uuid },
};

const char *config_kind_name(enum config_kind kind)
{
	return kind_names[kind];
}

/**
 * config_section_title - get the name of a section for messages
 * @section: the section
 *
 * Return: "KIND NAME", and the file if it is a vendor default; allocated.
 */
char *config_section_title(const struct config_section *section)
{
	return format_text("%s %s%s%s%s", config_kind_name(section->kind), section->name,
			   section->vendor ? " (" : "", section->vendor ? section->file : "",
			   section->vendor ? ")" : "");
}

/**
 * config_section_uuid - get the UUID of a section's RAM disk
 * @section: the section
 * @uuid: out: its 16 bytes
 *
 * A section finds its RAM disk by UUID. Without the key uuid, the UUID is derived from the kind and
 * the name of the section.
 */
void config_section_uuid(const struct config_section *section, uint8_t *uuid)
{
	char *name;

	if (section->values[CONFIG_UUID].text) {
		memcpy(uuid, section->disk.uuid, sizeof(section->disk.uuid));
		return;
	}
	name = format_text("%s/%s", config_kind_name(section->kind), section->name);
	uuid_derive(name, uuid);
	free(name);
}

/* Return: whether a section cannot be stopped because of a key. */
static bool is_damaged(const struct config_section *section, enum config_key key)
{
	const char *text = section->values[key].text;

	if (!text)
		return config_keys[key].required & IN(section->kind);
	switch (key) {
	case CONFIG_DEVICE:
		return !strchr(text, '/');
	case CONFIG_HOTLIST:
	case CONFIG_IMAGE:
	case CONFIG_ORIGIN:
		return *text != '/' || !text[1];
	case CONFIG_UUID:
		return uuid_is_null(section->disk.uuid);
	default:
		return false;
	}
}

/**
 * config_section_damage - find out why a section that was started cannot be stopped as recorded
 * @section: the section
 *
 * Most errors do not matter: what was started is to be saved. But a stop must not crash, leave the
 * device behind without an error, or discard data that has an image. Without a required key, the
 * record is not complete, so that it may have lost other keys, too.
 *
 * Return: allocated text that follows "because", or NULL.
 */
char *config_section_damage(const struct config_section *section)
{
	enum config_key key;

	for (key = 0; key < CONFIG_KEYS; key++)
		if (is_damaged(section, key))
			return format_text("the key '%s' is missing or invalid",
					   config_keys[key].name);
	if (section->kind != CONFIG_RAMDISK || section->values[CONFIG_IMAGE].text)
		return NULL;
	if (section->autosave || section->keep || section->compress)
		return copy_text("the key 'image' is missing");
	if (section->unclear)
		return copy_text("a line that is not understood may be the key 'image'");
	return NULL;
}

/**
 * config_is_called - check whether a name refers to a section
 * @section: the section
 * @name: NAME, or KIND/NAME
 */
bool config_is_called(const struct config_section *section, const char *name)
{
	const char *kind = config_kind_name(section->kind);
	size_t length = strlen(kind);

	if (!strncmp(name, kind, length) && name[length] == '/')
		name += length + 1;
	return !strcmp(section->name, name);
}

/**
 * config_find - find a section
 * @config: the configuration
 * @name: KIND/NAME
 *
 * Return: the section, or NULL.
 */
const struct config_section *config_find(const struct config *config, const char *name)
{
	size_t i;

	for (i = 0; i < config->count; i++)
		if (config_is_called(config->sections[i], name))
			return config->sections[i];
	return NULL;
}
