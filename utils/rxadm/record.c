// SPDX-License-Identifier: GPL-2.0-only
/*
 * What apply has started: a copy of each section, in a file of its own in /run/rxadm.
 * What is stopped, and what is saved where, goes by these and not by a configuration
 * that has been changed since.
 *
 * The first line is of the record, the others are a section as rxd.conf(5) has it:
 *
 *	rxadm-record 1 ORDER FOLDER CONFIGURATION
 *
 * ORDER is the section's place among the others, FOLDER the device number of the file
 * system that the image is on, or 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_keys.h"
#include "record.h"
#include "replace.h"

struct record {
	const struct config_section *section;
	dev_t folder;
	const char *path;
};

/* Return: 0 or an errno. */
int record_make_folder(void)
{
	return mkdir(RECORD_FOLDER, 0700) && errno != EEXIST ? errno : 0;
}

static void fill(FILE *file, const void *data)
{
	const struct record *record = data;
	const struct config_section *section = record->section;
	size_t i;

	fprintf(file, "rxadm-record 1 %zu %llu %s\n", section->order,
		(unsigned long long)record->folder, record->path);
	fprintf(file, "[%s %s]\n", config_kind_name(section->kind), section->name);
	/* No line may become longer than it was. */
	for (i = 0; i < CONFIG_KEYS; i++)
		if (section->values[i].text)
			fprintf(file, "%s=%s\n", config_keys[i].name, section->values[i].text);
}

/**
 * record_write - note that a section is being started, or changed
 * @section: the section
 * @folder: the file system that its image is on, or 0
 * @path: the first file of its configuration
 */
enum exit_code record_write(const struct config_section *section, dev_t folder,
			    const char *path)
{
	struct record record = { .section = section, .folder = folder };
	char *name, *text;
	enum exit_code ret;
	int err;

	err = record_make_folder();
	if (err)
		return report(exit_code_of(err), "cannot make " RECORD_FOLDER ": %s",
			      strerror(err));
	name = record_path(section);
	text = record_absolute(path);
	record.path = text;
	ret = replace_file("record", name, 0600, fill, &record);
	free(text);
	free(name);
	return ret;
}

/**
 * record_remove - note that nothing of a section is left
 * @section: the section
 */
void record_remove(const struct config_section *section)
{
	char *path = record_path(section);

	unlink(path);
	free(path);
}
