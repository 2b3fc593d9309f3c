// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which processes have a block device open.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "error.h"
#include "family.h"
#include "openers.h"

#define COMM_MAX	64

static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

/* A descriptor may lead to a server that does not answer: do not ask it. */
static bool leads_to(int dir, const char *name, const struct family *family)
{
	struct statx st;

	return !statx(dir, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st) &&
	       S_ISBLK(st.stx_mode) &&
	       family_has(family, makedev(st.stx_rdev_major, st.stx_rdev_minor));
}

static bool has_open(const char *pid, const struct family *family)
{
	char *path = format_text("/proc/%s/fd", pid);
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool found = false;

	free(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir)))
		found = is_number(entry->d_name) && leads_to(dirfd(dir), entry->d_name, family);
	closedir(dir);
	return found;
}

static void read_comm(const char *pid, char *comm)
{
	char *path = format_text("/proc/%s/comm", pid);
	FILE *file = fopen(path, "re");
	char *c;

	free(path);
	snprintf(comm, COMM_MAX, "?");
	if (!file)
		return;
	if (fgets(comm, COMM_MAX, file))
		comm[strcspn(comm, "\n")] = '\0';
	fclose(file);
	/* A program chooses its name: keep to one line. */
	for (c = comm; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
}

/**
 * openers_read - find the processes that have a device, a partition of it, or its
 * whole disk open
 * @number: the device
 *
 * Return: allocated list of an element a line, "PID (PROGRAM)"; NULL: none but this.
 */
char *openers_read(dev_t number)
{
	struct family family = family_of(number);
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char comm[COMM_MAX];
	char *list = NULL;

	while (dir && (entry = readdir(dir))) {
		if (!is_number(entry->d_name) || atoi(entry->d_name) == getpid() ||
		    !has_open(entry->d_name, &family))
			continue;
		read_comm(entry->d_name, comm);
		append_text(&list, "%s%s (%s)", list ? "\n" : "", entry->d_name, comm);
	}
	if (dir)
		closedir(dir);
	family_release(&family);
	return list;
}
