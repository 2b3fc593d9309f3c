// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files that a configuration consists of: FILE, and what ends with .conf in the
 * folder FILE.d, in the order of the names.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

static bool read_one(struct config *config, const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	config_read(config, path, file);
	fclose(file);
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

/* Return: whether the folder is there. */
static bool read_folder(struct config *config, const char *folder)
{
	struct dirent **entries;
	int count;
	char *path;
	int i;

	count = scandir(folder, &entries, is_part, by_bytes);
	if (count < 0) {
		if (errno != ENOENT)
			config_error(config, "%s: %s", folder, strerror(errno));
		return errno != ENOENT;
	}
	for (i = 0; i < count; i++) {
		path = format_text("%s/%s", folder, entries[i]->d_name);
		if (!read_one(config, path))
			config_error(config, "%s: %s", path, strerror(errno));
		free(path);
		free(entries[i]);
	}
	free(entries);
	return true;
}

/**
 * config_load - read a configuration and check it
 * @config: all zero but @ram; what is wrong is in its errors
 * @path: the first file
 */
void config_load(struct config *config, const char *path)
{
	char *folder = format_text("%s.d", path);
	int err = 0;

	if (!read_one(config, path))
		err = errno;
	if (err && err != ENOENT)
		config_error(config, "%s: %s", path, strerror(err));
	if (!read_folder(config, folder) && err == ENOENT)
		config_error(config, "%s: %s", path, strerror(err));
	config_check(config);
	free(folder);
}
