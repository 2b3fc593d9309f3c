// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find the sections that depend on file systems which need the network.
 *
 * systemd mounts such a file system after the network is up, and services of the network usually
 * start after local-fs.target. A section that waits for such a mount cannot be started before
 * local-fs.target, therefore: systemd would find an ordering cycle, and leave out units.
 */
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "network.h"
#include "unit.h"

/* The types that systemd mounts after the network, also with the prefix "fuse.". */
static const char *const network_types[] = {
	"afs", "beegfs", "ceph", "cifs", "cpfs", "davfs", "gfs", "gfs2", "glusterfs", "lustre",
	"ncp", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "sshfs",
};

static bool is_network(char *type, char *options)
{
	const struct mntent entry = { .mnt_opts = options };
	size_t i;

	if (options && hasmntopt(&entry, "_netdev"))
		return true;
	if (type && !strncmp(type, "fuse.", 5))
		type += 5;
	for (i = 0; type && i < ARRAY_SIZE(network_types); i++)
		if (!strcmp(type, network_types[i]))
			return true;
	return false;
}

/* Return: whether a path is a folder, or lies in it. Repeated slashes count as one. */
static bool is_in(const char *path, const char *folder)
{
	size_t length;

	if (!path || !folder || *path != '/' || *folder != '/')
		return false;
	for (;;) {
		path += strspn(path, "/");
		folder += strspn(folder, "/");
		length = strcspn(folder, "/");
		if (!length)
			return true;
		if (strncmp(path, folder, length) || (path[length] && path[length] != '/'))
			return false;
		path += length;
		folder += length;
	}
}

/* The initramfs mounts / and /usr. Nothing waits for them. */
static bool is_mounted_early(const char *folder)
{
	return is_in("/usr", folder);
}

static bool is_network_in_fstab(const char *fstab, const char *path)
{
	FILE *file = setmntent(fstab, "re");
	struct mntent *entry;
	bool found = false;

	if (!file)
		return false;
	while (!found && (entry = getmntent(file)))
		found = is_in(path, entry->mnt_dir) && !is_mounted_early(entry->mnt_dir) &&
			is_network(entry->mnt_type, entry->mnt_opts);
	endmntent(file);
	return found;
}

/* Read the value of a line KEY=VALUE. Of several lines with a key, systemd uses the last one. */
static void read_value(const char *line, const char *key, char **value)
{
	size_t length = strlen(key);

	line += strspn(line, CONFIG_BLANKS);
	if (strncmp(line, key, length))
		return;
	line += length;
	line += strspn(line, CONFIG_BLANKS);
	if (*line != '=')
		return;
	line++;
	line += strspn(line, CONFIG_BLANKS);
	free(*value);
	*value = format_text("%.*s", (int)strcspn(line, CONFIG_BLANKS), line);
}

static bool is_network_unit(FILE *file)
{
	char *options = NULL;
	char *type = NULL;
	char *line = NULL;
	size_t size = 0;
	bool found;

	while (getline(&line, &size, file) > 0) {
		read_value(line, "Type", &type);
		read_value(line, "Options", &options);
	}
	found = is_network(type, options);
	free(options);
	free(type);
	free(line);
	return found;
}

/* Look for the mount unit of a folder. */
static bool is_network_in_units(const char *units, const char *folder)
{
	char *name = unit_name_of_path(folder, ".mount");
	FILE *file = NULL;
	bool found = false;
	size_t length;
	char *path;

	for (; *units && !file; units += length + !!units[length]) {
		length = strcspn(units, ":");
		path = format_text("%.*s/%s", (int)length, units, name);
		file = fopen(path, "re");
		free(path);
	}
	if (file) {
		found = is_network_unit(file);
		fclose(file);
	}
	free(name);
	return found;
}

/* A unit with RequiresMountsFor=PATH waits for the mounts of all folders that PATH consists of. */
static bool needs_network(const struct mount_sources *sources, const char *path)
{
	const char *end = path;
	bool found;
	char *folder;

	if (!path)
		return false;
	found = is_network_in_fstab(sources->fstab, path);
	while (!found && *end) {
		end += 1 + strcspn(end + 1, "/");
		folder = format_text("%.*s", (int)(end - path), path);
		found = !is_mounted_early(folder) && is_network_in_units(sources->units, folder);
		free(folder);
	}
	return found;
}

/* A section also waits for another whose RAM disk its image or its mount point is on. */
static bool waits_for(const struct config_section *section, const struct config_section *other)
{
	const char *mount = other->values[CONFIG_MOUNT].text;

	return is_in(section->values[CONFIG_IMAGE].text, mount) ||
	       is_in(section->values[CONFIG_MOUNT].text, mount) ||
	       (section->kind == other->kind && !strcmp(section->name, other->name));
}

static bool waits_for_any(const struct config_section *section, const struct config *others)
{
	size_t i;

	for (i = 0; i < others->count; i++)
		if (others->sections[i]->remote && waits_for(section, others->sections[i]))
			return true;
	return false;
}

/**
 * network_mark - set @remote of all sections that depend on a file system which needs the network
 * @config: the configuration
 * @started: the sections as they were started, which are stopped so
 * @sources: where to look for mounts
 */
void network_mark(struct config *config, struct config *started,
		  const struct mount_sources *sources)
{
	struct config *const both[] = { config, started };
	struct config_section *section;
	bool changed = true;
	size_t i, k;

	for (k = 0; k < ARRAY_SIZE(both); k++) {
		for (i = 0; i < both[k]->count; i++) {
			section = both[k]->sections[i];
			section->remote =
				!section->broken &&
				(is_network(NULL, section->values[CONFIG_OPTIONS].text) ||
				 needs_network(sources, section->values[CONFIG_IMAGE].text) ||
				 needs_network(sources, section->values[CONFIG_MOUNT].text));
		}
	}
	while (changed) {
		changed = false;
		for (k = 0; k < ARRAY_SIZE(both); k++) {
			for (i = 0; i < both[k]->count; i++) {
				section = both[k]->sections[i];
				if (section->remote || section->broken ||
				    (!waits_for_any(section, config) &&
				     !waits_for_any(section, started)))
					continue;
				section->remote = true;
				changed = true;
			}
		}
	}
}
