// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read the configuration of the kernel's NVMe target in configfs:
 *
 *	subsystems/NQN/namespaces/N/device_path		the exported device
 *	subsystems/NQN/allowed_hosts/HOST -> hosts/HOST	a host that may connect
 *	ports/N/subsystems/NQN -> subsystems/NQN	a port that offers the subsystem
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "device/nvmet.h"

#define PORT_MAX	65535

#ifndef CONFIGFS_MAGIC
#define CONFIGFS_MAGIC	0x62656570
#endif

static int is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/*
 * Read the names in a folder, sorted. A folder that does not exist counts as empty.
 *
 * Return: 0 or an errno, which leaves @names empty.
 */
__printf(2, 3)
int nvmet_names_read(struct nvmet_names *names, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	names->count = scandir(path, &names->entries, is_name, alphasort);
	if (names->count >= 0)
		return 0;
	*names = (struct nvmet_names){ 0 };
	return errno == ENOENT ? 0 : errno;
}

void nvmet_names_free(struct nvmet_names *names)
{
	int i;

	for (i = 0; i < names->count; i++)
		free(names->entries[i]);
	free(names->entries);
}

/* Return an attribute without its newline, or "" if it cannot be read. */
__printf(1, 2)
static char *attribute(const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	char *text;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	text = first_line(path);
	return text ? text : copy_text("");
}

/**
 * nvmet_exists - return whether a folder exists
 * @folder: "subsystems", "ports" or "hosts"
 * @name: its name there
 */
bool nvmet_exists(const char *folder, const char *name)
{
	char *path = format_text(NVMET_ROOT "/%s/%s", folder, name);
	bool exists = !access(path, F_OK);

	free(path);
	return exists;
}

char *nvmet_record_path(const char *folder, const char *name)
{
	return format_text(NVMET_RECORDS "/%s/%s", folder, name);
}

/* Return true if a path exists, even if it is a dangling link. Free the path. */
static bool is_there(char *path)
{
	struct stat st;
	bool there = !lstat(path, &st);

	free(path);
	return there;
}

bool nvmet_is_ours(const char *folder, const char *name)
{
	return is_there(nvmet_record_path(folder, name));
}

/* Return the note in the record of a folder, or "" if it cannot be read. */
char *nvmet_record_note(const char *folder, const char *name)
{
	char *path = nvmet_record_path(folder, name);
	char note[PATH_MAX];
	ssize_t length;

	length = readlink(path, note, sizeof(note) - 1);
	free(path);
	note[length < 0 ? 0 : length] = '\0';
	return copy_text(note);
}

/**
 * nvmet_record_id - tell the record of a folder from a later one of the same name
 * @folder: as for nvmet_exists()
 * @name: as for nvmet_exists()
 *
 * Return: allocated text, or NULL if there is no record.
 */
char *nvmet_record_id(const char *folder, const char *name)
{
	char *path = nvmet_record_path(folder, name);
	bool missing;
	struct stat st;

	missing = lstat(path, &st);
	free(path);
	return missing ? NULL :
	       format_text("%ju %jd.%09ld", (uintmax_t)st.st_ino, (intmax_t)st.st_ctim.tv_sec,
			   st.st_ctim.tv_nsec);
}

bool nvmet_offers(const char *port, const char *nqn)
{
	return is_there(format_text(NVMET_ROOT "/ports/%s/subsystems/%s", port, nqn));
}

static char *port_text(const char *port)
{
	char *transport = attribute(NVMET_ROOT "/ports/%s/addr_trtype", port);
	char *address = attribute(NVMET_ROOT "/ports/%s/addr_traddr", port);
	char *service = attribute(NVMET_ROOT "/ports/%s/addr_trsvcid", port);
	char *text;

	if (!strcmp(transport, "loop"))
		text = copy_text("loop");
	else
		text = format_text(strchr(address, ':') ? "%s [%s]:%s" : "%s %s:%s", transport,
				   address, service);
	free(service);
	free(address);
	free(transport);
	return text;
}

/* Return the addresses of all ports that offer a subsystem, or NULL. */
static char *address_of(const char *nqn)
{
	struct nvmet_names ports;
	char *text = NULL;
	char *port;
	int i;

	nvmet_names_read(&ports, NVMET_ROOT "/ports");
	for (i = 0; i < ports.count; i++) {
		if (!nvmet_offers(ports.entries[i]->d_name, nqn))
			continue;
		port = port_text(ports.entries[i]->d_name);
		append_text(&text, "%s%s", text ? ", " : "", port);
		free(port);
	}
	nvmet_names_free(&ports);
	return text;
}

static void add_export(struct nvmet_exports *exports, const char *nqn, bool ours, char *device)
{
	exports->list = resize_array(exports->list, exports->count + 1, sizeof(*exports->list));
	exports->list[exports->count++] = (struct nvmet_export) {
		.nqn = copy_text(nqn),
		.device = device,
		.address = address_of(nqn),
		.ours = ours,
	};
}

static int add_namespaces(struct nvmet_exports *exports, const char *nqn)
{
	struct nvmet_names names;
	int i, err;

	err = nvmet_names_read(&names, NVMET_ROOT "/subsystems/%s/namespaces", nqn);
	for (i = 0; i < names.count; i++)
		add_export(exports, nqn, false,
			   attribute(NVMET_ROOT "/subsystems/%s/namespaces/%s/device_path", nqn,
				     names.entries[i]->d_name));
	if (!names.count)
		add_export(exports, nqn, false, copy_text(""));
	nvmet_names_free(&names);
	return err;
}

/**
 * nvmet_exports_read - list all exports of the kernel's NVMe target, also those of other tools
 * @exports: out: one for each namespace, and one for a subsystem without namespaces; to be
 *	freed by nvmet_exports_free()
 *
 * The device of an export of rxadm is in its record. While the kernel removes a namespace, which
 * may wait for I/O, a process that reads the folder of the namespaces waits, too.
 *
 * Return: 0, or an errno if some may be missing.
 */
int nvmet_exports_read(struct nvmet_exports *exports)
{
	struct nvmet_names subsystems;
	const char *nqn;
	int i, err, first;

	*exports = (struct nvmet_exports){ 0 };
	first = nvmet_names_read(&subsystems, NVMET_ROOT "/subsystems");
	for (i = 0; i < subsystems.count; i++) {
		nqn = subsystems.entries[i]->d_name;
		err = 0;
		if (nvmet_is_ours("subsystems", nqn))
			add_export(exports, nqn, true, nvmet_record_note("subsystems", nqn));
		else
			err = add_namespaces(exports, nqn);
		first = first ? first : err;
	}
	nvmet_names_free(&subsystems);
	return first;
}

void nvmet_exports_free(struct nvmet_exports *exports)
{
	size_t i;

	for (i = 0; i < exports->count; i++) {
		free(exports->list[i].nqn);
		free(exports->list[i].device);
		free(exports->list[i].address);
	}
	free(exports->list);
	*exports = (struct nvmet_exports){ 0 };
}

bool nvmet_export_is_of(const struct nvmet_export *export, dev_t number)
{
	struct stat st;

	return *export->device == '/' && !stat(export->device, &st) && S_ISBLK(st.st_mode) &&
	       st.st_rdev == number;
}

/* RAM disks complete all I/O. */
bool nvmet_is_ramdisk(const char *device)
{
	struct stat st;
	char *uuid = stat(device, &st) ? NULL : sysfs_read(st.st_rdev, "rxd/uuid");
	bool found = uuid;

	free(uuid);
	return found;
}

/**
 * nvmet_may_wait - return whether I/O of an export may be waiting for a disk
 * @nqn: an export that does not count, or NULL
 */
bool nvmet_may_wait(const char *nqn)
{
	struct nvmet_exports exports;
	bool found = nvmet_exports_read(&exports);
	size_t i;

	for (i = 0; !found && i < exports.count; i++)
		found = *exports.list[i].device && !nvmet_is_ramdisk(exports.list[i].device) &&
			!(nqn && !strcmp(exports.list[i].nqn, nqn));
	nvmet_exports_free(&exports);
	return found;
}

/**
 * nvmet_host_key - return the DH-HMAC-CHAP secret of a host
 * @host: its NQN
 *
 * Return: allocated text, "" if the host has none.
 */
char *nvmet_host_key(const char *host)
{
	char *key = attribute(NVMET_ROOT "/hosts/%s/dhchap_key", host);

	/* Linux 6.1 prints this for a missing key. */
	if (!strcmp(key, "(null)"))
		*key = '\0';
	return key;
}

bool nvmet_allows_any_host(const char *nqn)
{
	char *value = attribute(NVMET_ROOT "/subsystems/%s/attr_allow_any_host", nqn);
	bool any = !strcmp(value, "1");

	free(value);
	return any;
}

/* Return true if a host is in the list of those that may connect to a subsystem. */
bool nvmet_allows(const char *nqn, const char *host)
{
	return is_there(format_text(NVMET_ROOT "/subsystems/%s/allowed_hosts/%s", nqn, host));
}

/**
 * nvmet_allowed_hosts - list the hosts that may connect to a subsystem
 * @nqn: the subsystem
 * @count: out: how many
 *
 * Return: allocated text, separated by spaces, or NULL if there are none.
 */
char *nvmet_allowed_hosts(const char *nqn, size_t *count)
{
	struct nvmet_names names;
	char *text = NULL;
	int i;

	nvmet_names_read(&names, NVMET_ROOT "/subsystems/%s/allowed_hosts", nqn);
	for (i = 0; i < names.count; i++)
		append_text(&text, "%s%s", text ? " " : "", names.entries[i]->d_name);
	*count = names.count;
	nvmet_names_free(&names);
	return text;
}

static bool has_value(const char *port, const char *name, const char *wanted)
{
	char *value = attribute(NVMET_ROOT "/ports/%s/%s", port, name);
	bool same = !wanted || !strcmp(value, wanted);

	free(value);
	return same;
}

/**
 * nvmet_find_port - find the port that is configured for an address
 * @address: the address
 * @number: out: number of the port
 */
bool nvmet_find_port(const struct nvmet_address *address, unsigned int *number)
{
	struct nvmet_names ports;
	bool found = false;
	const char *port;
	int i;

	nvmet_names_read(&ports, NVMET_ROOT "/ports");
	for (i = 0; !found && i < ports.count; i++) {
		port = ports.entries[i]->d_name;
		found = has_value(port, "addr_trtype", address->transport) &&
			has_value(port, "addr_adrfam", address->family) &&
			has_value(port, "addr_traddr", address->address) &&
			has_value(port, "addr_trsvcid", address->service);
		if (found)
			*number = strtoul(port, NULL, 10);
	}
	nvmet_names_free(&ports);
	return found;
}

/* Return true if a port of the loop transport offers a subsystem. */
bool nvmet_is_loop(const char *nqn)
{
	struct nvmet_names ports;
	bool found = false;
	int i;

	nvmet_names_read(&ports, NVMET_ROOT "/ports");
	for (i = 0; !found && i < ports.count; i++)
		found = nvmet_offers(ports.entries[i]->d_name, nqn) &&
			has_value(ports.entries[i]->d_name, "addr_trtype", "loop");
	nvmet_names_free(&ports);
	return found;
}

/* Return the lowest free port number, or 0 if there is none. */
unsigned int nvmet_free_port(void)
{
	unsigned int number;
	char name[16];

	for (number = 1; number <= PORT_MAX; number++) {
		snprintf(name, sizeof(name), "%u", number);
		if (!nvmet_exists("ports", name))
			return number;
	}
	return 0;
}

static enum exit_code mount_configfs(bool dry_run)
{
	struct statfs fs;

	if (!statfs(CONFIGFS, &fs) && fs.f_type == CONFIGFS_MAGIC)
		return EXIT_OK;
	if (dry_run)
		puts("mount -t configfs none " CONFIGFS);
	else if (mount("none", CONFIGFS, "configfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return report(exit_code_of(errno), "cannot mount configfs on " CONFIGFS ": %s",
			      strerror(errno));
	return EXIT_OK;
}

static enum exit_code need_module(const char *file, const char *name, bool dry_run)
{
	if (module_is_loaded(name))
		return EXIT_OK;
	if (!dry_run)
		return module_load(file);
	printf("modprobe %s\n", file);
	return EXIT_OK;
}

/**
 * nvmet_prepare - load the modules of the NVMe target, and mount configfs
 * @transport: "tcp" or "loop"
 * @dry_run: only print what would be done
 */
enum exit_code nvmet_prepare(const char *transport, bool dry_run)
{
	bool tcp = !strcmp(transport, "tcp");
	enum exit_code ret;

	ret = need_module("nvmet", "nvmet", dry_run);
	if (!ret)
		ret = need_module(tcp ? "nvmet-tcp" : "nvme-loop", tcp ? "nvmet_tcp" : "nvme_loop",
				  dry_run);
	if (!ret)
		ret = mount_configfs(dry_run);
	return ret;
}
