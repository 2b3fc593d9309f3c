// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write files and links to the output folder of a systemd generator.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "message.h"
#include "unit.h"

/* Begin the text of a unit: a comment and SourcePath= name the section. */
char *unit_begin(const struct config_section *section)
{
	return format_text("# Made by rxd-generator of %s, line %u.\n\n[Unit]\nSourcePath=%s\n",
			   section->file, section->line, section->file);
}

/**
 * unit_name_of_path - make the name of systemd's unit for a path
 * @path: absolute
 * @suffix: kind of the unit, with its dot
 *
 * Return: allocated name.
 */
char *unit_name_of_path(const char *path, const char *suffix)
{
	char *name = NULL;
	const char *c;

	for (c = path + 1; *c; c++) {
		if (*c == '/')
			append_text(&name, "-");
		else if (isalnum((unsigned char)*c) || *c == ':' || *c == '_' ||
			 (*c == '.' && c > path + 1))
			append_text(&name, "%c", *c);
		else
			append_text(&name, "\\x%02x", (unsigned char)*c);
	}
	append_text(&name, "%s", suffix);
	return name;
}

static void make_folder_of(const char *path)
{
	char *folder = strndup(path, strrchr(path, '/') - path);

	if (folder && mkdir(folder, 0755) && errno != EEXIST)
		complain("%s: %s", folder, strerror(errno));
	free(folder);
}

/**
 * unit_write - write a unit, or a part of one
 * @folder: output folder of the generator
 * @name: name of the file in the folder
 * @text: contents of the file; freed here
 */
void unit_write(const char *folder, const char *name, char *text)
{
	char *path = format_text("%s/%s", folder, name);
	size_t length = strlen(text);
	int fd;

	make_folder_of(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 && errno == EEXIST)
		complain("%s: a unit of this name exists already; is it also in /etc/fstab?", path);
	else if (fd < 0 || write(fd, text, length) != (ssize_t)length)
		complain("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(text);
	free(path);
}

/**
 * unit_want - have a unit started with another
 * @folder: output folder of the generator
 * @target: the other unit
 * @name: the unit
 * @file: the file of the unit
 */
void unit_want(const char *folder, const char *target, const char *name, const char *file)
{
	char *path = format_text("%s/%s.wants/%s", folder, target, name);

	make_folder_of(path);
	if (symlink(file, path))
		complain("%s: %s", path, strerror(errno));
	free(path);
}
