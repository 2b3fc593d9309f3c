// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading the records of what apply has started. rxd-generator does that, too.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_keys.h"
#include "record.h"

/* A path that is the same wherever it is called from. */
char *record_absolute(const char *path)
{
	char *folder = *path == '/' ? NULL : getcwd(NULL, 0);
	char *text = folder ? format_text("%s/%s", folder, path) : copy_text(path);

	free(folder);
	return text;
}

/* The configuration that a record is of, allocated; NULL if its first line is not understood. */
static char *read_head(FILE *file, size_t *order, unsigned long long *folder)
{
	char *path = NULL;
	char *line = NULL;
	size_t size = 0;
	int at = 0;

	if (getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "rxadm-record 1 %zu %llu %n", order, folder, &at) == 2 && at)
			path = copy_text(line + at);
	}
	free(line);
	return path;
}

static void read_one(struct config *config, const char *name, const char *path)
{
	FILE *file = fopen(name, "re");
	size_t count = config->count;
	unsigned long long folder;
	size_t order;
	char *of;

	/* Others stop what is theirs meanwhile. */
	if (!file && errno == ENOENT)
		return;
	if (!file) {
		config_error(config, "%s: %s", name, strerror(errno));
		return;
	}
	of = read_head(file, &order, &folder);
	if (!of) {
		config_error(config, "%s:1: is not understood", name);
	} else if (!strcmp(of, path)) {
		config_read(config, name, file);
		for (; count < config->count; count++) {
			config->sections[count]->order = order;
			config->sections[count]->folder = folder;
		}
	}
	free(of);
	fclose(file);
}

char *record_path(const struct config_section *section)
{
	return format_text(RECORD_FOLDER "/%s-%s", config_kind_name(section->kind),
			   section->name);
}

/**
 * record_other - find a section's record of another configuration
 * @section: the section
 * @path: the first file of its configuration
 *
 * Return: the first file of the other one, allocated; NULL if there is no such record.
 */
char *record_other(const struct config_section *section, const char *path)
{
	char *name = record_path(section);
	FILE *file = fopen(name, "re");
	unsigned long long folder;
	char *text, *of = NULL;
	size_t order;

	if (file) {
		of = read_head(file, &order, &folder);
		fclose(file);
	}
	text = record_absolute(path);
	if (of && !strcmp(of, text)) {
		free(of);
		of = NULL;
	}
	free(text);
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
 * record_read_all - add what was started of a configuration to an empty one
 * @config: all zero but @ram; what is wrong is in its errors
 * @folder: where the records are
 * @path: the first file of the configuration
 */
void record_read_all(struct config *config, const char *folder, const char *path)
{
	struct dirent **entries;
	char *name, *text;
	int count, i;

	count = scandir(folder, &entries, is_record, alphasort);
	if (count < 0) {
		if (errno != ENOENT)
			config_error(config, "%s: %s", folder, strerror(errno));
		return;
	}
	text = record_absolute(path);
	for (i = 0; i < count; i++) {
		name = format_text("%s/%s", folder, entries[i]->d_name);
		read_one(config, name, text);
		free(name);
		free(entries[i]);
	}
	free(text);
	free(entries);
}
