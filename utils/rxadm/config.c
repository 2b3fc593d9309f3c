// SPDX-License-Identifier: GPL-2.0-only
/*
 * The configuration: which RAM disks and caches there shall be.
 *
 *	# comment
 *	[KIND NAME]
 *	KEY = VALUE	# comment
 *
 * A new kind of section is a line in kinds[], and its keys are lines in keys[].
 * All errors are collected. Nothing here looks at the machine.
 */
#include <ctype.h>
#include <errno.h>
#include <linux/rxd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "rxcache.h"
#include "values.h"

#define BLANKS		" \t\r\n\v\f"
#define NAME_MAX_LENGTH	64
#define FS_MAX_LENGTH	31
#define LINE_MAX_LENGTH	4096
#define BY_LABEL	"/dev/disk/by-label/"
#define BY_UUID		"/dev/disk/by-uuid/"
#define IN(kind)	(1U << (kind))
#define RAMDISK		IN(CONFIG_RAMDISK)
#define CACHE		IN(CONFIG_CACHE)

/* What is allowed, for messages. */
#define RULE_PATH \
	"must be an absolute path without blanks, quotes, backslashes, '//' and parts '.' or '..'"
#define RULE_FS \
	"must be the name of a file system such as ext4: 1 to %d lower-case letters, digits or _"
#define RULE_OPTIONS \
	"must be mount options with commas between them, without blanks, quotes and backslashes"
#define RULE_NO_NAME \
	"names what is on the disk, which the cached disk has, too; take a path in /dev/disk/by-id"
#define RULE_RESERVE \
	"reserve and detect-zeroes exclude each other: one keeps the memory that the other gives back"

struct kind {
	const char *name;
	char *(*check)(const struct config_section *section);
};

struct key {
	const char *name;
	unsigned int kinds;		/* the kinds of sections that it is for */
	unsigned int required;		/* those that cannot do without it */
	unsigned int unique;		/* keys of one number share no value; 0: they may */
	char *(*read)(const struct config *config, struct config_section *section,
		      const char *text);
};

static char *check_ramdisk(const struct config_section *section);
static char *check_cache(const struct config_section *section);

static const struct kind kinds[CONFIG_KINDS] = {
	[CONFIG_RAMDISK] = { "ramdisk", check_ramdisk },
	[CONFIG_CACHE] = { "cache", check_cache },
};

static char *read_flag(const char *text, uint32_t bit, uint32_t *flags)
{
	if (!strcmp(text, "yes"))
		*flags |= bit;
	else if (strcmp(text, "no"))
		return copy_text("must be yes or no");
	return NULL;
}

/* Paths go into units and tables as they are, so they hold nothing to be quoted. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~' || strchr("\"'\\", *text))
			return false;
	return true;
}

static char *read_path(const char *text)
{
	const char *part;

	if (*text != '/' || !text[1] || !is_plain(text))
		goto wrong;
	for (part = text; part; part = strchr(part + 1, '/'))
		if (!part[1] || part[1] == '/' || !strcmp(part, "/.") || !strcmp(part, "/..") ||
		    !strncmp(part, "/./", 3) || !strncmp(part, "/../", 4))
			goto wrong;
	return NULL;
wrong:
	return copy_text(RULE_PATH);
}

static char *read_block_size(const struct config *config, struct config_section *section,
			     const char *text)
{
	return value_block_size(text, config->ram, &section->map.block_size);
}

static char *read_detect_zeroes(const struct config *config __always_unused,
				struct config_section *section, const char *text)
{
	return read_flag(text, RXD_CREATE_DETECT_ZEROES, &section->disk.flags);
}

static char *read_folio_size(const struct config *config, struct config_section *section,
			     const char *text)
{
	return value_folio_size(text, config->ram, &section->disk.folio_size);
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
	return read_path(text);
}

static char *read_index(const struct config *config __always_unused,
			struct config_section *section, const char *text)
{
	section->disk.has_index = true;
	return value_number(text, RXD_INDEX_MAX, &section->disk.index);
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

static char *read_node(const struct config *config __always_unused,
		       struct config_section *section, const char *text)
{
	section->disk.node_text = text;
	return value_node(text, &section->disk.node);
}

static char *read_options(const struct config *config __always_unused,
			  struct config_section *section __always_unused, const char *text)
{
	if (*text && is_plain(text))
		return NULL;
	return copy_text(RULE_OPTIONS);
}

static char *read_origin(const struct config *config __always_unused,
			 struct config_section *section, const char *text)
{
	char *error = read_path(text);

	if (!error && strncmp(text, "/dev/", 5))
		error = copy_text("must be a path below /dev, best one in /dev/disk/by-id");
	else if (!error && (!strncmp(text, BY_UUID, strlen(BY_UUID)) ||
			    !strncmp(text, BY_LABEL, strlen(BY_LABEL))))
		error = copy_text(RULE_NO_NAME);
	section->map.origin = text;
	return error;
}

static char *read_overcommit(const struct config *config __always_unused,
			     struct config_section *section, const char *text)
{
	return read_flag(text, RXD_CREATE_OVERCOMMIT, &section->disk.flags);
}

static char *read_reserve(const struct config *config __always_unused,
			  struct config_section *section, const char *text)
{
	return read_flag(text, RXD_CREATE_RESERVE, &section->disk.flags);
}

static char *read_seq_cutoff(const struct config *config, struct config_section *section,
			     const char *text)
{
	return value_seq_cutoff(text, config->ram, &section->map.seq_cutoff);
}

static char *read_size(const struct config *config, struct config_section *section,
		       const char *text)
{
	section->disk.size_text = text;
	return value_size(text, config->ram, &section->disk.size);
}

static char *read_uuid(const struct config *config __always_unused,
		       struct config_section *section, const char *text)
{
	section->disk.uuid_text = text;
	return value_uuid(text, section->disk.uuid);
}

static const struct key keys[CONFIG_KEYS] = {
	[CONFIG_BLOCK_SIZE] = { "block-size", CACHE, 0, 0, read_block_size },
	[CONFIG_DETECT_ZEROES] = { "detect-zeroes", RAMDISK, 0, 0, read_detect_zeroes },
	[CONFIG_FOLIO_SIZE] = { "folio-size", RAMDISK | CACHE, 0, 0, read_folio_size },
	[CONFIG_FS] = { "fs", RAMDISK, 0, 0, read_fs },
	[CONFIG_HOTLIST] = { "hotlist", CACHE, 0, 1, read_file },
	[CONFIG_IMAGE] = { "image", RAMDISK, 0, 1, read_file },
	[CONFIG_INDEX] = { "index", RAMDISK | CACHE, 0, 2, read_index },
	[CONFIG_LOGICAL_BLOCK_SIZE] = { "logical-block-size", RAMDISK, 0, 0,
					read_logical_block_size },
	[CONFIG_MEM_LIMIT] = { "mem-limit", RAMDISK | CACHE, 0, 0, read_mem_limit },
	[CONFIG_MODE] = { "mode", CACHE, 0, 0, read_mode },
	[CONFIG_MOUNT] = { "mount", RAMDISK, 0, 3, read_file },
	[CONFIG_NODE] = { "node", RAMDISK | CACHE, 0, 0, read_node },
	[CONFIG_OPTIONS] = { "options", RAMDISK, 0, 0, read_options },
	[CONFIG_ORIGIN] = { "origin", CACHE, CACHE, 4, read_origin },
	[CONFIG_OVERCOMMIT] = { "overcommit", RAMDISK | CACHE, 0, 0, read_overcommit },
	[CONFIG_RESERVE] = { "reserve", RAMDISK, 0, 0, read_reserve },
	[CONFIG_SEQ_CUTOFF] = { "seq-cutoff", CACHE, 0, 0, read_seq_cutoff },
	[CONFIG_SIZE] = { "size", RAMDISK | CACHE, RAMDISK | CACHE, 0, read_size },
	[CONFIG_UUID] = { "uuid", RAMDISK | CACHE, 0, 5, read_uuid },
};

/* What the keys of a section must be together. */
static char *check_ramdisk(const struct config_section *section)
{
	const struct config_value *values = section->values;
	const char *mount = values[CONFIG_MOUNT].text;
	const char *image = values[CONFIG_IMAGE].text;

	if (mount && !values[CONFIG_FS].text && !image)
		return format_text("mount '%s': there is nothing to mount; give fs or image, too",
				   mount);
	if (values[CONFIG_OPTIONS].text && !mount)
		return format_text("options '%s': are of no use without mount",
				   values[CONFIG_OPTIONS].text);
	if (mount && image && !strncmp(image, mount, strlen(mount)) &&
	    image[strlen(mount)] == '/')
		return format_text("image '%s': lies on the RAM disk itself, mounted on '%s'",
				   image, mount);
	if (!(section->disk.flags & RXD_CREATE_RESERVE))
		return NULL;
	if (section->disk.flags & RXD_CREATE_DETECT_ZEROES)
		return copy_text(RULE_RESERVE);
	if (values[CONFIG_MEM_LIMIT].text && section->disk.mem_limit < section->disk.size)
		return format_text("mem-limit '%s': must be at least the size '%s' with reserve",
				   values[CONFIG_MEM_LIMIT].text, values[CONFIG_SIZE].text);
	return NULL;
}

static char *check_cache(const struct config_section *section __always_unused)
{
	return NULL;
}

const char *config_kind_name(enum config_kind kind)
{
	return kinds[kind].name;
}

/**
 * config_error - add an error to those of a configuration
 * @config: the configuration
 * @format: the message, without newline
 */
void config_error(struct config *config, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = format_list(format, args);
	va_end(args);
	config->errors = resize_array(config->errors, config->error_count + 1,
				      sizeof(*config->errors));
	config->errors[config->error_count++] = text;
}

/* An error of a section that begins with the line it is on; frees @text. */
static void section_error(struct config *config, struct config_section *section,
			  unsigned int line, char *text)
{
	config_error(config, "%s:%u: [%s %s]: %s", section->file, line,
		     kinds[section->kind].name, section->name, text);
	section->broken = true;
	free(text);
}

static void section_free(struct config_section *section)
{
	size_t i;

	for (i = 0; i < CONFIG_KEYS; i++)
		free(section->values[i].text);
	free(section->name);
	free(section->file);
	free(section);
}

static struct config_section *find_section(const struct config *config, enum config_kind kind,
					   const char *name)
{
	size_t i;

	for (i = 0; i < config->count; i++)
		if (config->sections[i]->kind == kind &&
		    !strcmp(config->sections[i]->name, name))
			return config->sections[i];
	return NULL;
}

static bool name_is_allowed(const char *name)
{
	static const char allowed[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
	size_t length = strlen(name);

	return isalnum((unsigned char)*name) && length <= NAME_MAX_LENGTH &&
	       strspn(name, allowed) == length;
}

static bool find_kind(const char *name, enum config_kind *kind)
{
	unsigned int i;

	for (i = 0; i < CONFIG_KINDS; i++) {
		if (!strcmp(kinds[i].name, name)) {
			*kind = i;
			return true;
		}
	}
	return false;
}

static struct config_section *add_section(struct config *config, const char *path,
					  unsigned int line, enum config_kind kind,
					  const char *name)
{
	struct config_section *section = resize_array(NULL, 1, sizeof(*section));

	*section = (struct config_section) {
		.kind = kind,
		.name = copy_text(name),
		.file = copy_text(path),
		.line = line,
		.disk.node = RXD_NODE_LOCAL,
		.map.mode = RXCACHE_DEFAULT_MODE,
		.map.block_size = RXCACHE_DEFAULT_BLOCK_SIZE,
	};
	section->map.name = section->name;
	config->sections = resize_array(config->sections, config->count + 1,
					sizeof(*config->sections));
	config->sections[config->count++] = section;
	return section;
}

static char *trim(char *text)
{
	char *end;

	text += strspn(text, BLANKS);
	for (end = text + strlen(text); end > text && strchr(BLANKS, end[-1]); end--)
		end[-1] = '\0';
	return text;
}

/* "[KIND NAME]". Return: the section, or NULL after an error. */
static struct config_section *begin_section(struct config *config, const char *path,
					    unsigned int line, char *text)
{
	const struct config_section *first;
	char *rest = text + 1;
	enum config_kind kind;
	char *names = NULL;
	char *word;
	char *name;
	char *end;
	unsigned int i;

	end = strchr(text, ']');
	if (!end || end[1]) {
		config_error(config, "%s:%u: '%s': must be [KIND NAME]", path, line, text);
		return NULL;
	}
	*end = '\0';
	rest += strspn(rest, BLANKS);
	word = rest;
	rest += strcspn(rest, BLANKS);
	if (*rest)
		*rest++ = '\0';
	name = trim(rest);

	if (!find_kind(word, &kind)) {
		for (i = 0; i < CONFIG_KINDS; i++)
			append_text(&names, "%s[%s NAME]", i ? " or " : "", kinds[i].name);
		config_error(config, "%s:%u: section '%s': must be %s", path, line, word, names);
		free(names);
		return NULL;
	}
	if (!name_is_allowed(name)) {
		config_error(config,
			     "%s:%u: [%s %s]: name '%s': must be 1 to %d letters, digits or -_. and begin with a letter or a digit",
			     path, line, word, name, name, NAME_MAX_LENGTH);
		return NULL;
	}
	first = find_section(config, kind, name);
	if (first) {
		config_error(config, "%s:%u: [%s %s]: is there already, at %s:%u", path, line,
			     word, name, first->file, first->line);
		return NULL;
	}
	return add_section(config, path, line, kind, name);
}

static char *key_names(enum config_kind kind)
{
	char *names = NULL;
	size_t i;

	for (i = 0; i < CONFIG_KEYS; i++)
		if (keys[i].kinds & IN(kind))
			append_text(&names, "%s%s", names ? ", " : "", keys[i].name);
	return names;
}

static void set_key(struct config *config, struct config_section *section, unsigned int line,
		    const char *name, const char *text)
{
	struct config_value *value;
	char *error;
	size_t i;

	for (i = 0; i < CONFIG_KEYS; i++)
		if (keys[i].kinds & IN(section->kind) && !strcmp(keys[i].name, name))
			break;
	if (i == CONFIG_KEYS) {
		error = key_names(section->kind);
		section_error(config, section, line,
			      format_text("key '%s': is unknown; must be one of %s", name, error));
		free(error);
		return;
	}
	value = &section->values[i];
	if (value->text) {
		section_error(config, section, line,
			      format_text("key '%s': is there already, on line %u", name,
					  value->line));
		return;
	}
	*value = (struct config_value){ .text = copy_text(text), .line = line };
	error = keys[i].read(config, section, value->text);
	if (error) {
		section_error(config, section, line,
			      format_text("%s '%s': %s", name, text, error));
		free(error);
	}
}

/* Cut a comment off: what begins with one of these after a blank, or a line. */
static char *cut_comment(char *line)
{
	size_t at = strcspn(line, "#;");

	while (line[at] && at && !strchr(BLANKS, line[at - 1]))
		at += 1 + strcspn(line + at + 1, "#;");
	line[at] = '\0';
	return line;
}

/* Where the reader is in a file. */
struct reader {
	struct config *config;
	const char *path;
	unsigned int line;
	struct config_section *section;
	bool skip;		/* the section's heading is wrong */
};

static void read_line(struct reader *reader, char *line)
{
	char *text = trim(cut_comment(line));
	char *value;

	if (!*text)
		return;
	if (*text == '[') {
		reader->section = begin_section(reader->config, reader->path, reader->line, text);
		reader->skip = !reader->section;
		return;
	}
	if (reader->skip)
		return;
	if (!reader->section) {
		config_error(reader->config, "%s:%u: '%s': comes before the first [KIND NAME]",
			     reader->path, reader->line, text);
		return;
	}
	value = strchr(text, '=');
	if (!value) {
		section_error(reader->config, reader->section, reader->line,
			      format_text("'%s': must be KEY = VALUE", text));
		return;
	}
	*value++ = '\0';
	set_key(reader->config, reader->section, reader->line, trim(text), trim(value));
}

static void line_error(struct reader *reader, const char *text)
{
	if (reader->section)
		section_error(reader->config, reader->section, reader->line, copy_text(text));
	else
		config_error(reader->config, "%s:%u: %s", reader->path, reader->line, text);
}

/**
 * config_read - add the sections of a file to a configuration
 * @config: the configuration, all zero but @ram at first
 * @path: what messages call the file
 * @file: its text
 */
void config_read(struct config *config, const char *path, FILE *file)
{
	struct reader reader = { .config = config, .path = path };
	char *line = NULL;
	size_t size = 0;
	ssize_t length;

	while ((length = getline(&line, &size, file)) >= 0) {
		reader.line++;
		if (length > LINE_MAX_LENGTH)
			line_error(&reader, "the line is longer than 4096 bytes");
		else if (strlen(line) != (size_t)length)
			line_error(&reader, "the line holds a NUL byte; must be text");
		else
			read_line(&reader, line);
	}
	if (ferror(file))
		config_error(config, "%s: %s", path, strerror(errno));
	free(line);
}

static void check_required(struct config *config, struct config_section *section)
{
	size_t i;

	for (i = 0; i < CONFIG_KEYS; i++)
		if (keys[i].required & IN(section->kind) && !section->values[i].text)
			section_error(config, section, section->line,
				      format_text("key '%s': is missing", keys[i].name));
}

/* The first of the earlier sections that gives one of such keys the same value. */
static const struct config_section *find_value(const struct config *config, size_t before,
					       enum config_key wanted, const char *text)
{
	int (*compare)(const char *, const char *) = wanted == CONFIG_UUID ? strcasecmp : strcmp;
	const struct config_value *value;
	size_t i, key;

	for (i = 0; i < before; i++) {
		for (key = 0; key < CONFIG_KEYS; key++) {
			value = &config->sections[i]->values[key];
			if (keys[key].unique == keys[wanted].unique && value->text &&
			    !compare(value->text, text))
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
		if (!keys[key].unique || !value->text)
			continue;
		other = find_value(config, number, key, value->text);
		if (other)
			section_error(config, section, value->line,
				      format_text("%s '%s': [%s %s] at %s:%u has it already",
						  keys[key].name, value->text,
						  kinds[other->kind].name, other->name,
						  other->file, other->line));
	}
}

/**
 * config_check - look for what is missing or contradicts itself, when all is read
 * @config: the configuration
 */
void config_check(struct config *config)
{
	struct config_section *section;
	char *error;
	size_t i;

	for (i = 0; i < config->count; i++) {
		section = config->sections[i];
		check_required(config, section);
		check_unique(config, i);
		error = section->broken ? NULL : kinds[section->kind].check(section);
		if (error)
			section_error(config, section, section->line, error);
	}
}

/**
 * config_free - forget a configuration
 * @config: the configuration; its @ram stays
 */
void config_free(struct config *config)
{
	size_t i;

	for (i = 0; i < config->count; i++)
		section_free(config->sections[i]);
	for (i = 0; i < config->error_count; i++)
		free(config->errors[i]);
	free(config->sections);
	free(config->errors);
	*config = (struct config){ .ram = config->ram };
}
