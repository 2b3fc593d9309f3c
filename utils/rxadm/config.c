// SPDX-License-Identifier: GPL-2.0-only
/*
 * The configuration: which RAM disks, caches and exports there shall be.
 *
 *	# comment
 *	[KIND NAME]
 *	KEY = VALUE	# comment
 *
 * All errors are collected. Nothing here looks at the machine.
 */
#include <errno.h>
#include <linux/rxd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config_keys.h"
#include "rxcache.h"

#define LINE_MAX_LENGTH	4096

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
		     config_kinds[section->kind].name, section->name, text);
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

	text += strspn(text, CONFIG_BLANKS);
	for (end = text + strlen(text); end > text && strchr(CONFIG_BLANKS, end[-1]); end--)
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
				    config_kinds[i].name);
		config_error(config, "%s:%u: section '%s': must be %s", path, line, word, names);
		free(names);
		return NULL;
	}
	if (!config_name_is_allowed(name)) {
		config_error(config,
			     "%s:%u: [%s %s]: name '%s': must be 1 to %d letters, digits or -_. and begin with a letter or a digit",
			     path, line, word, name, name, CONFIG_NAME_MAX);
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
		if (config_keys[i].kinds & IN(kind))
			append_text(&names, "%s%s", names ? ", " : "", config_keys[i].name);
	return names;
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
	error = config_keys[i].read(config, section, value->text);
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

	while (line[at] && at && !strchr(CONFIG_BLANKS, line[at - 1]))
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
		if (config_keys[i].required & IN(section->kind) && !section->values[i].text)
			section_error(config, section, section->line,
				      format_text("key '%s': is missing", config_keys[i].name));
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
			if (config_keys[key].unique == config_keys[wanted].unique && value->text &&
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
		if (!config_keys[key].unique || !value->text)
			continue;
		other = find_value(config, number, key, value->text);
		if (other)
			section_error(config, section, value->line,
				      format_text("%s '%s': [%s %s] at %s:%u has it already",
						  config_keys[key].name, value->text,
						  config_kinds[other->kind].name, other->name,
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
	enum config_kind kind;
	char *error;
	size_t i;

	for (i = 0; i < config->count; i++) {
		check_required(config, config->sections[i]);
		check_unique(config, i);
	}
	for (kind = 0; kind < CONFIG_KINDS; kind++) {
		for (i = 0; i < config->count; i++) {
			section = config->sections[i];
			if (section->kind != kind || section->broken)
				continue;
			error = config_kinds[kind].check(config, section);
			if (error)
				section_error(config, section, section->line, error);
		}
	}
}

/**
 * config_replace - put sections in the place of those that are called the same
 * @config: the configuration that gets them
 * @others: whose sections they are; it is empty afterwards
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
