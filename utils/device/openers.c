// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find the processes that have a block device open.
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

#include "base/text.h"
#include "device/device.h"
#include "device/openers.h"

#define COMM_MAX	64

static bool is_number(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

/* A descriptor may be of a network file system that does not answer: use cached attributes. */
static bool leads_to(int dir, const char *name, const struct disk_family *family)
{
	struct statx st;

	return !statx(dir, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st) &&
	       S_ISBLK(st.stx_mode) &&
	       disk_family_has(family, makedev(st.stx_rdev_major, st.stx_rdev_minor));
}

/* Return true if a descriptor of a process may be written to. */
static bool is_writable(const char *pid, const char *fd)
{
	char *path = format_text("/proc/%s/fdinfo/%s", pid, fd);
	FILE *file = fopen(path, "re");
	unsigned int flags = O_RDONLY;

	free(path);
	if (!file)
		return false;
	if (fscanf(file, "pos: %*d flags: %o", &flags) != 1)
		flags = O_RDONLY;
	fclose(file);
	return (flags & O_ACCMODE) != O_RDONLY;
}

static bool has_open(const char *pid, const struct disk_family *family, bool writable)
{
	char *path = format_text("/proc/%s/fd", pid);
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool found = false;

	free(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir)))
		found = is_number(entry->d_name) && leads_to(dirfd(dir), entry->d_name, family) &&
			(!writable || is_writable(pid, entry->d_name));
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
	/* Replace control characters, which a program can put into its name. */
	for (c = comm; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
}

static char *find_openers(dev_t number, bool writable)
{
	struct disk_family family = disk_family_of(number);
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	char comm[COMM_MAX];
	char *list = NULL;

	while (dir && (entry = readdir(dir))) {
		if (!is_number(entry->d_name) || atoi(entry->d_name) == getpid() ||
		    !has_open(entry->d_name, &family, writable))
			continue;
		read_comm(entry->d_name, comm);
		append_text(&list, "%s%s (%s)", list ? "\n" : "", entry->d_name, comm);
	}
	if (dir)
		closedir(dir);
	disk_family_release(&family);
	return list;
}

/**
 * device_openers - find the processes that have a device, a partition of it, or its
 * whole disk open
 * @number: the device
 *
 * Return: allocated list with one "PID (PROGRAM)" per line, without this process, or NULL.
 */
char *device_openers(dev_t number)
{
	return find_openers(number, false);
}

/* The same for processes that can write to it. */
char *device_writers(dev_t number)
{
	return find_openers(number, true);
}

/**
 * openers_of - describe the processes that have a block device open
 * @number: the device
 *
 * Return: allocated text, such as "open in process 1234 (dd)", or NULL.
 */
char *openers_of(dev_t number)
{
	char *openers = device_openers(number);
	char *rest = openers;
	char *text = NULL;
	const char *name;

	while ((name = strsep(&rest, "\n")))
		append_text(&text, "%sopen in process %s", text ? ", " : "", name);
	free(openers);
	return text;
}
