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

/* Whether a record's first line is understood, and of this configuration. */
static bool read_head(FILE *file, const char *path, size_t *order, unsigned long long *folder)
{
	char *line = NULL;
	size_t size = 0;
	bool ours = false;
	int at = 0;

	if (getline(&line, &size, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		ours = sscanf(line, "rxadm-record 1 %zu %llu %n", order, folder, &at) == 2 && at &&
		       !strcmp(line + at, path);
	}
	free(line);
	return ours;
}

static void read_one(struct config *config, const char *name, const char *path)
{
	FILE *file = fopen(name, "re");
	size_t count = config->count;
	unsigned long long folder;
	size_t order;

	/* Others stop what is theirs meanwhile. */
	if (!file && errno == ENOENT)
		return;
	if (!file) {
		config_error(config, "%s: %s", name, strerror(errno));
		return;
	}
	if (read_head(file, path, &order, &folder)) {
		config_read(config, name, file);
		for (; count < config->count; count++) {
			config->sections[count]->order = order;
			config->sections[count]->folder = folder;
		}
	}
	fclose(file);
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
