// SPDX-License-Identifier: GPL-2.0-only
/*
 * Identify the device of an export (path, NQN, UUID, secret), check that it is unused, and compare
 * an existing export with the one that is requested.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"
#include "base/text.h"
#include "device/device_users.h"
#include "device/dm.h"
#include "device/nvmet.h"
#include "device/nvmet_key.h"
#include "device/nvmet_locks.h"
#include "kernel/attributes.h"
#include "kernel/cache_map.h"
#include "kernel/caches.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"
#include "kernel/nvmet_disk.h"
#include "kernel/rxcache.h"

#define NQN_OF_UUID	"nqn.2014-08.org.nvmexpress:uuid:"
#define MACHINE_ID	"/etc/machine-id"

/*
 * Derive a UUID that is the same after each boot, but differs between machines. RAM disks of two
 * machines with the same configuration have the same UUID, and a host that connects to both would
 * treat them as two paths to one disk. The hash does not reveal the machine ID.
 */
static bool uuid_here(const char *name, char *text)
{
	char id[2 * sizeof(uuid_t) + 1] = "";	/* a UUID without hyphens */
	char with_hyphens[UUID_STR_LEN];
	uuid_t machine, uuid;
	FILE *file;

	file = fopen(MACHINE_ID, "re");
	if (!file)
		return false;
	if (!fgets(id, sizeof(id), file))
		id[0] = '\0';
	fclose(file);
	snprintf(with_hyphens, sizeof(with_hyphens), "%.8s-%.4s-%.4s-%.4s-%.12s", id, id + 8,
		 id + 12, id + 16, id + 20);
	if (uuid_parse(with_hyphens, machine))
		return false;
	uuid_generate_sha1(uuid, machine, name, strlen(name));
	uuid_unparse_lower(uuid, text);
	return true;
}

/* @name: identifies the device on this machine */
static enum exit_code identify_as(const struct export_request *request, const char *name,
				  struct nvmet_disk *disk)
{
	static const uuid_t any = { 0 };
	uuid_t uuid;

	if (uuid_here(name, disk->uuid))
		return EXIT_OK;
	if (!request->nqn)
		return report(EXIT_PARAMETERS,
			      "device '%s': no NQN can be derived, because %s is not initialized; give %s",
			      disk->dev.path, MACHINE_ID, advice("--nqn", "the key nqn"));
	uuid_generate_sha1(uuid, any, request->nqn, strlen(request->nqn));
	uuid_unparse_lower(uuid, disk->uuid);
	return EXIT_OK;
}

static enum exit_code find_cache(dev_t number, bool *cached)
{
	char *name = sysfs_read(number, "dm/name");
	enum exit_code ret = EXIT_OK;
	struct mapping mapping;

	*cached = false;
	if (name && module_is_loaded("dm_rxcache")) {
		ret = dm_begin();
		if (!ret) {
			ret = mapping_read(name, MAPPING_TABLE, &mapping);
			*cached = mapping.target && !strcmp(mapping.target, RXCACHE_TARGET);
			mapping_release(&mapping);
			dm_end();
		}
	}
	free(name);
	return ret;
}

static enum exit_code identify(const struct export_request *request, struct nvmet_disk *disk)
{
	char *uuid = sysfs_read(disk->dev.number, "rxd/uuid");
	enum exit_code ret = EXIT_OK;
	bool cached;

	disk->index = -1;
	if (uuid && sscanf(disk->dev.kernel_name, "rxd%d", &disk->index) == 1) {
		ret = identify_as(request, uuid, disk);
	} else {
		ret = find_cache(disk->dev.number, &cached);
		if (!ret && cached)
			ret = identify_as(request, disk->path, disk);
		else if (!ret)
			ret = report(EXIT_DEVICE,
				     "device '%s': is neither a whole RAM disk nor a cached disk; 'rxadm list' and 'rxadm status' show them",
				     disk->dev.path);
	}
	free(uuid);
	if (!ret)
		disk->nqn = request->nqn ? copy_text(request->nqn) :
			       format_text(NQN_OF_UUID "%s", disk->uuid);
	return ret;
}

/**
 * nvmet_disk_find - identify the device of an export
 * @request: the export
 * @disk: out: to be released by nvmet_disk_release(), also after an error
 */
enum exit_code nvmet_disk_find(const struct export_request *request, struct nvmet_disk *disk)
{
	enum exit_code ret;

	*disk = (struct nvmet_disk){ 0 };
	ret = device_find_named("device", request->device, &disk->dev);
	if (ret)
		return ret;
	disk->path = device_path(disk->dev.number);
	/* Before anything that waits: the names that follow are those of this disk. */
	disk->sequence = disk_sequence(disk->dev.number);
	ret = identify(request, disk);
	if (!ret && request->key_path)
		ret = nvmet_key_read(request->key_path, &disk->key);
	return ret;
}

void nvmet_disk_release(struct nvmet_disk *disk)
{
	free(disk->key);
	free(disk->nqn);
	free(disk->sequence);
	free(disk->path);
	device_release(&disk->dev);
}

/* Return true if the path still leads to the device. */
static bool is_same(const struct nvmet_disk *disk)
{
	struct stat st;

	return !stat(disk->path, &st) && disk_is_same(st.st_rdev, disk->sequence);
}

/**
 * export_find - find the export of a device
 * @device: its path
 * @wait: wait until no other rxadm makes or ends it; it may change after this
 * @state: out: the export, to be released by export_state_release()
 */
enum exit_code export_find(const char *device, bool wait, struct export_state *state)
{
	struct nvmet_exports exports;
	const struct nvmet_export *export;
	bool busy, left;
	struct device dev;
	enum exit_code ret;
	size_t i;

	*state = (struct export_state){ 0 };
	ret = wait ? export_wait(NULL, device) : EXIT_OK;
	if (!ret)
		ret = export_find_left(NULL, device, &busy, &left);
	/* Another device may have the path after the wait. */
	if (!ret)
		ret = device_find("device", device, &dev);
	if (ret)
		return ret;
	state->left = busy || left;
	ret = exports_read(&exports);
	for (i = 0; !ret && i < exports.count && !state->nqn; i++) {
		export = &exports.list[i];
		if (!nvmet_export_is_of(export, dev.number) ||
		    (export->ours && (left || !export->address)))
			continue;
		state->nqn = copy_text(export->nqn);
		state->address = copy_text(export->address ? export->address : "no port");
		state->ours = export->ours;
	}
	nvmet_exports_free(&exports);
	device_release(&dev);
	return ret;
}

/**
 * export_is_made - return whether rxadm made an export, of any device, or may have made it
 * @nqn: the name of the export, or NULL for any
 */
bool export_is_made(const char *nqn)
{
	struct nvmet_exports exports;
	bool found = nvmet_exports_read(&exports);
	size_t i;

	for (i = 0; !found && i < exports.count; i++)
		found = exports.list[i].ours && (!nqn || !strcmp(exports.list[i].nqn, nqn));
	nvmet_exports_free(&exports);
	return found;
}

/* Note the first difference only. */
static void differ(struct export_state *state, const char *key, const char *has,
		   const char *wants)
{
	if (state->key)
		return;
	state->key = key;
	state->has = copy_text(has);
	state->wants = copy_text(wants);
}

static void compare_hosts(const struct export_request *request, struct export_state *state)
{
	bool any = nvmet_allows_any_host(state->nqn);
	char *wants = NULL;
	bool all = true;
	size_t count;
	char *has;
	size_t i;

	if (any != request->allow_any_host)
		differ(state, "allow-any-host", any ? "yes" : "no",
		       request->allow_any_host ? "yes" : "no");
	has = nvmet_allowed_hosts(state->nqn, &count);
	for (i = 0; i < request->host_count; i++) {
		all &= nvmet_allows(state->nqn, request->hosts[i]);
		append_text(&wants, "%s%s", wants ? " " : "", request->hosts[i]);
	}
	if (!all || count != request->host_count)
		differ(state, "allow-host", has ? has : "none", wants ? wants : "none");
	free(wants);
	free(has);
}

/* Secrets are compared, but not shown. */
static void compare_keys(const struct export_request *request, const char *key,
			 struct export_state *state)
{
	char *has;
	size_t i;

	for (i = 0; i < request->host_count; i++) {
		has = nvmet_host_key(request->hosts[i]);
		if (strcmp(has, key ? key : ""))
			differ(state, "dhchap-key", *has ? "another" : "none",
			       key ? request->key_path : "none");
		free(has);
	}
}

static enum exit_code compare(const struct export_request *request, const struct nvmet_disk *disk,
			      bool wait, struct export_state *state)
{
	enum exit_code ret = export_find(request->device, wait, state);
	char *address;

	if (ret || !state->nqn)
		return ret;
	address = export_address(request);
	if (strcmp(state->nqn, disk->nqn))
		differ(state, "nqn", state->nqn, disk->nqn);
	if (strcmp(state->address, address))
		differ(state, "address", state->address, address);
	compare_hosts(request, state);
	compare_keys(request, disk->key, state);
	free(address);
	return EXIT_OK;
}

/**
 * export_compare - compare the export of a device with a request
 * @request: the request; unless it is a dry run, wait for others that make or end the export
 * @state: out: the export and its first difference, to be released by export_state_release()
 */
enum exit_code export_compare(const struct export_request *request, struct export_state *state)
{
	struct nvmet_disk disk;
	enum exit_code ret;

	*state = (struct export_state){ 0 };
	ret = nvmet_disk_find(request, &disk);
	/* Another rxadm may be about to make the same export. */
	if (!ret && !request->dry_run)
		ret = export_wait(disk.nqn, request->device);
	if (!ret)
		ret = compare(request, &disk, !request->dry_run, state);
	nvmet_disk_release(&disk);
	return ret;
}

/**
 * nvmet_disk_find_same - find out whether rxadm has made an export already, but do not wait
 * @request: the export
 * @disk: the device; the caller has the lock of its NQN
 * @found: out: true if it has, and the path still leads to the device
 */
enum exit_code nvmet_disk_find_same(const struct export_request *request,
				    const struct nvmet_disk *disk, bool *found)
{
	struct export_state state;
	enum exit_code ret = compare(request, disk, false, &state);

	/* The target has the device of an export open, so look for the path last. */
	*found = !ret && state.nqn && state.ours && !state.key && is_same(disk);
	export_state_release(&state);
	return ret;
}

/**
 * export_address - format the address of an export as lists show it
 * @request: the export
 *
 * Return: allocated text.
 */
char *export_address(const struct export_request *request)
{
	if (!request->address)
		return copy_text(request->transport);
	return format_text(strchr(request->address, ':') ? "%s [%s]:%u" : "%s %s:%u",
			   request->transport, request->address,
			   request->port ? request->port : EXPORT_PORT);
}

void export_state_release(struct export_state *state)
{
	free(state->nqn);
	free(state->address);
	free(state->has);
	free(state->wants);
	*state = (struct export_state){ 0 };
}

/* Refuse a device that has users, such as an export, but do not wait. */
static enum exit_code check_users(const struct nvmet_disk *disk)
{
	struct nvmet_exports exports;
	enum exit_code ret = exports_read(&exports);
	char *users = ret ? NULL : users_of(disk->dev.number);

	nvmet_exports_free(&exports);
	if (users)
		ret = report(EXIT_BUSY, "%s '%s': is in use (%s); release it there first",
			     disk->dev.what, disk->dev.path, users);
	free(users);
	return ret;
}

static enum exit_code check_nqn_is_free(const char *nqn)
{
	if (nvmet_exists("subsystems", nqn))
		return report(EXIT_BUSY,
			      "NQN '%s': exists already; give %s, or end that export first",
			      nqn, advice("another --nqn", "another nqn"));
	return EXIT_OK;
}

/* A host has one key for all subsystems: refuse to change the key of an existing host. */
static enum exit_code check_host_key(const char *host, const char *key)
{
	enum exit_code ret = EXIT_OK;
	char *now;

	if (!nvmet_exists("hosts", host))
		return EXIT_OK;
	now = nvmet_host_key(host);
	if (strcmp(now, key ? key : ""))
		ret = report(EXIT_BUSY,
			     "host '%s': is allowed by another export with %s; give the same here",
			     host, *now && key ? "another key" : *now ? "a key" : "no key");
	free(now);
	return ret;
}

/**
 * nvmet_disk_check_free - refuse what another process may have taken in a wait, but do not wait
 * @request: the export
 * @disk: the device, which may have an export of another name
 *
 * The caller has exports_lock().
 */
enum exit_code nvmet_disk_check_free(const struct export_request *request,
				     const struct nvmet_disk *disk)
{
	enum exit_code ret = check_users(disk);
	size_t i;

	if (!ret)
		ret = check_nqn_is_free(disk->nqn);
	for (i = 0; !ret && i < request->host_count; i++)
		ret = check_host_key(request->hosts[i], disk->key);
	return ret;
}

static enum exit_code check_unheld(const struct device *dev)
{
	enum exit_code ret;
	int read_only;
	int fd;

	ret = device_open_unused(dev, &fd);
	if (ret)
		return ret;
	if (ioctl(fd, BLKROGET, &read_only))
		ret = report(exit_code_of(errno), "%s '%s': %s", dev->what, dev->path,
			     strerror(errno));
	else if (read_only)
		ret = report(EXIT_DEVICE,
			     "%s '%s': is read-only; 'blockdev --setrw' makes it writable",
			     dev->what, dev->path);
	close(fd);
	return ret;
}

static enum exit_code check_ramdisk_closed(const struct nvmet_disk *disk)
{
	enum exit_code ret;
	int control;

	ret = control_open(&control);
	if (ret)
		return ret;
	ret = control_idle_check(control, disk->index, &disk->dev);
	close(control);
	return ret;
}

static enum exit_code check_cache_closed(const struct nvmet_disk *disk)
{
	enum exit_code ret;

	ret = dm_begin();
	if (ret)
		return ret;
	ret = cache_closed_check(mapping_name(disk->path));
	dm_end();
	return ret;
}

/**
 * nvmet_disk_check_unused - refuse a device in use
 * @disk: the device
 *
 * This machine and the hosts would write it at the same time. The check may wait for the device.
 */
enum exit_code nvmet_disk_check_unused(const struct nvmet_disk *disk)
{
	enum exit_code ret;

	ret = check_users(disk);
	if (!ret)
		ret = check_unheld(&disk->dev);
	if (ret)
		return ret;
	return disk->index < 0 ? check_cache_closed(disk) : check_ramdisk_closed(disk);
}

/**
 * nvmet_disk_check_same - report if the path of a device leads to another one by now
 * @disk: the device
 */
enum exit_code nvmet_disk_check_same(const struct nvmet_disk *disk)
{
	if (is_same(disk))
		return EXIT_OK;
	return report(EXIT_BUSY, "%s '%s': was replaced meanwhile; the new one is not exported",
		      disk->dev.what, disk->dev.path);
}
