// SPDX-License-Identifier: GPL-2.0-only
/*
 * The configuration: the RAM disks, caches and exports that apply creates.
 *
 *	# comment
 *	[KIND NAME]
 *	KEY = VALUE	# comment
 *
 * The reader collects all errors and reports none. It accesses no devices.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/rxd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/suggest.h"
#include "base/system.h"
#include "base/text.h"
#include "config/config.h"
#include "config/config_keys.h"
#include "kernel/rxcache.h"

#define LINE_MAX_LENGTH	4096

static void add_error(struct config *config, char *text)
{
	config->errors = resize_array(config->errors, config->error_count + 1,
				      sizeof(*config->errors));
	config->errors[config->error_count++] = text;
}

/**
 * config_error - add an error that belongs to no section
 * @config: the configuration
 * @format: the message, without newline
 */
void config_error(struct config *config, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_error(config, format_list(format, args));
	va_end(args);
	config->unclear = true;
}

/**
 * config_section_error - add an error of a section, prefixed with file and line
 * @config: the configuration
 * @section: the section
 * @line: the line
 * @text: the message, which is freed
 */
void config_section_error(struct config *config, struct config_section *section,
			  unsigned int line, char *text)
{
	add_error(config, format_text("%s:%u: [%s %s]: %s", section->file, line,
				      config_kind_name(section->kind), section->name, text));
	section->broken = true;
	free(text);
}

static void section_free(struct config_section *section)
{
	size_t i;

	for (i = 0; i < CONFIG_KEYS; i++)
		free(section->values[i].text);
	free(section->export.hosts);
	free(section->host_names);
	free(section->name);
	free(section->file);
	free(section);
}

/* Return: the section of a kind and a name, or NULL. */
struct config_section *config_section_find(const struct config *config, enum config_kind kind,
					   const char *name)
{
	size_t i;

	for (i = 0; i < config->count; i++)
		if (config->sections[i]->kind == kind &&
		    !strcmp(config->sections[i]->name, name))
			return config->sections[i];
	return NULL;
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
		.vendor = config->vendor,
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

	text += strspn(text, CONFIG_BLANKS);
	for (end = text + strlen(text); end > text && strchr(CONFIG_BLANKS, end[-1]); end--)
		end[-1] = '\0';
	return text;
}

/* Parse "[KIND NAME]". Return: the section, or NULL if it is replaced or invalid. */
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
	rest += strspn(rest, CONFIG_BLANKS);
	word = rest;
	rest += strcspn(rest, CONFIG_BLANKS);
	if (*rest)
		*rest++ = '\0';
	name = trim(rest);

	if (!config_find_kind(word, &kind)) {
		for (i = 0; i < CONFIG_KINDS; i++)
			append_text(&names, "%s[%s NAME]",
				    !i ? "" : i < CONFIG_KINDS - 1 ? ", " : " or ",
				    config_kind_name(i));
		config_error(config, "%s:%u: section '%s': must be %s", path, line, word, names);
		free(names);
		return NULL;
	}
	if (!config_name_is_allowed(name)) {
		config_error(config,
			     "%s:%u: [%s %s]: name '%s': must be 1 to %d letters, digits or characters of -_. and begin with a letter or a digit",
			     path, line, word, name, name, CONFIG_NAME_MAX);
		return NULL;
	}
	first = config_section_find(config, kind, name);
	if (first && config->vendor && !first->vendor)
		return NULL;
	if (first) {
		add_error(config, format_text("%s:%u: [%s %s]: is defined already, at %s:%u", path,
					      line, word, name, first->file, first->line));
		return NULL;
	}
	return add_section(config, path, line, kind, name);
}

static void unknown_key(struct config *config, struct config_section *section,
			unsigned int line, const char *name)
{
	struct suggestion suggestion = suggest_begin(name);
	char *names = NULL;
	char *meant;
	size_t i;

	for (i = 0; i < CONFIG_KEYS; i++)
		if (config_keys[i].kinds & IN(section->kind)) {
			suggest_try(&suggestion, config_keys[i].name);
			append_text(&names, "%s%s", names ? ", " : "", config_keys[i].name);
		}
	meant = did_you_mean("", &suggestion);
	config_section_error(config, section, line,
			     format_text("key '%s': is unknown%s there are %s", name, meant,
					 names));
	section->unclear = true;
	free(meant);
	free(names);
}

static void set_key(struct config *config, struct config_section *section, unsigned int line,
		    const char *name, const char *text)
{
	struct config_value *value;
	char *error;
	size_t i;

	for (i = 0; i < CONFIG_KEYS; i++)
		if (config_keys[i].kinds & IN(section->kind) && !strcmp(config_keys[i].name, name))
			break;
	if (i == CONFIG_KEYS) {
		unknown_key(config, section, line, name);
		return;
	}
	value = &section->values[i];
	if (value->text) {
		config_section_error(config, section, line,
				     format_text("key '%s': is given already, on line %u", name,
						 value->line));
		return;
	}
	*value = (struct config_value){ .text = copy_text(text), .line = line };
	error = config_keys[i].read(config, section, value->text);
	if (error) {
		config_section_error(config, section, line,
				     format_text("%s '%s': %s", name, text, error));
		free(error);
	}
}

/* Cut off a comment. It begins with # or ;, at the start of the line or after a blank. */
static char *cut_comment(char *line)
{
	size_t at = strcspn(line, "#;");

	while (line[at] && at && !strchr(CONFIG_BLANKS, line[at - 1]))
		at += 1 + strcspn(line + at + 1, "#;");
	line[at] = '\0';
	return line;
}

/* The position of the reader in a file. */
struct reader {
	struct config *config;
	const char *path;
	unsigned int line;
	struct config_section *section;
	bool skip;		/* the section is replaced, or its heading is invalid */
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
		reader->section->unclear = true;
		config_section_error(reader->config, reader->section, reader->line,
				     format_text("'%s': must be KEY = VALUE", text));
		return;
	}
	*value++ = '\0';
	set_key(reader->config, reader->section, reader->line, trim(text), trim(value));
}

static bool is_heading(const char *line, size_t length)
{
	while (length && (!*line || strchr(CONFIG_BLANKS, *line))) {
		line++;
		length--;
	}
	return length && *line == '[';
}

/* After an unreadable heading, skip the lines up to the next one: their section is unknown. */
static void line_error(struct reader *reader, const char *line, size_t length, const char *text)
{
	if (is_heading(line, length)) {
		reader->section = NULL;
		reader->skip = true;
	}
	if (reader->section) {
		reader->section->unclear = true;
		config_section_error(reader->config, reader->section, reader->line,
				     copy_text(text));
	} else {
		config_error(reader->config, "%s:%u: %s", reader->path, reader->line, text);
	}
}

/**
 * config_read - add the sections of a file to a configuration
 * @config: the configuration, all zero but @ram at first
 * @path: name of the file in messages
 * @file: the open file
 * @lines: number of lines that were read already
 */
void config_read(struct config *config, const char *path, FILE *file, unsigned int lines)
{
	struct reader reader = { .config = config, .path = path, .line = lines };
	char *line = NULL;
	size_t size = 0;
	ssize_t length;

	while ((length = getline(&line, &size, file)) >= 0) {
		reader.line++;
		if (length > LINE_MAX_LENGTH)
			line_error(&reader, line, length, "the line is longer than 4096 bytes");
		else if (strlen(line) != (size_t)length)
			line_error(&reader, line, length,
				   "the line holds a NUL byte; must be text");
		else
			read_line(&reader, line);
	}
	if (ferror(file))
		config_error(config, "%s: %s", path, strerror(errno));
	free(line);
}

/* Return: whether a path does not exist. A dangling symbolic link exists. */
static bool is_missing(const char *path)
{
	struct stat st;

	return lstat(path, &st) && errno == ENOENT;
}

static bool read_part(struct config *config, const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	config_read(config, path, file, 0);
	fclose(file);
	return true;
}

/**
 * config_read_file - add the sections of a file that may be missing
 * @config: the configuration
 * @path: the file
 *
 * Return: whether the file exists.
 */
bool config_read_file(struct config *config, const char *path)
{
	if (is_missing(path))
		return false;
	if (!read_part(config, path))
		config_error(config, "%s: %s", path, strerror(errno));
	return true;
}

static int is_part(const struct dirent *entry)
{
	const char *end = strrchr(entry->d_name, '.');

	return *entry->d_name != '.' && end && !strcmp(end, ".conf");
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Return: whether a folder has an entry; true if that cannot be determined. */
static bool has_entry(struct config *config, const char *folder, const char *name)
{
	char *path = format_text("%s/%s", folder, name);
	struct stat st;
	int err = lstat(path, &st) ? errno : 0;

	if (err && err != ENOENT)
		config_error(config, "%s: %s", path, strerror(err));
	free(path);
	return err != ENOENT;
}

/**
 * config_read_folder - add the sections of the files in a folder, in the order of their names
 * @config: the configuration
 * @folder: the folder
 * @masks: a folder, or NULL. A file is left out if this folder has one of the same name. After
 *	an error that belongs to no section, all are left out: it may hide what replaces them
 *
 * Return: the number of files, or 1 after an error; -1 if there is no such folder.
 */
int config_read_folder(struct config *config, const char *folder, const char *masks)
{
	bool unclear = masks && config->unclear;
	struct dirent **entries;
	int count;
	char *path;
	int i;

	if (is_missing(folder))
		return -1;
	count = scandir(folder, &entries, is_part, by_bytes);
	if (count < 0) {
		config_error(config, "%s: %s", folder, strerror(errno));
		return 1;
	}
	if (unclear && count)
		config_error(config,
			     "%s: is ignored, because an earlier file has an error outside of all sections",
			     folder);
	for (i = 0; i < count; i++) {
		path = format_text("%s/%s", folder, entries[i]->d_name);
		if (!unclear && !(masks && has_entry(config, masks, entries[i]->d_name)) &&
		    !read_part(config, path))
			config_error(config, "%s: %s", path, strerror(errno));
		free(path);
		free(entries[i]);
	}
	free(entries);
	return count;
}

/**
 * config_vendor - get the folder of a configuration's vendor defaults
 * @path: the first file of the configuration
 *
 * Return: the folder, or NULL if there are none.
 */
const char *config_vendor(const char *path)
{
	return path_is_same(path, CONFIG_FILE) ? CONFIG_VENDOR : NULL;
}

/**
 * config_replace - add sections, and replace those of the same kind and name
 * @config: the configuration to change
 * @others: the sections to add; empty afterwards
 */
void config_replace(struct config *config, struct config *others)
{
	struct config_section *section;
	size_t i, at;

	for (i = 0; i < others->count; i++) {
		section = others->sections[i];
		for (at = 0; at < config->count; at++)
			if (config->sections[at]->kind == section->kind &&
			    !strcmp(config->sections[at]->name, section->name))
				break;
		if (at < config->count) {
			section_free(config->sections[at]);
		} else {
			config->sections = resize_array(config->sections, at + 1,
							sizeof(*config->sections));
			config->count++;
		}
		config->sections[at] = section;
	}
	others->count = 0;
	config_free(others);
}

/* Free the sections after the first @count. */
void config_truncate(struct config *config, size_t count)
{
	while (config->count > count)
		section_free(config->sections[--config->count]);
}

/**
 * config_free - free the contents of a configuration
 * @config: the configuration; its @ram is kept
 */
void config_free(struct config *config)
{
	size_t i;

	config_truncate(config, 0);
	for (i = 0; i < config->error_count; i++)
		free(config->errors[i]);
	free(config->sections);
	free(config->errors);
	*config = (struct config){ .ram = config->ram };
}
