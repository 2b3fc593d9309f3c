// SPDX-License-Identifier: GPL-2.0-only
/*
 * Export a device through the kernel's NVMe target, and end an export.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/values.h"
#include "device/device.h"
#include "device/nvmet.h"
#include "device/nvmet_locks.h"
#include "device/nvmet_steps.h"
#include "kernel/attributes.h"
#include "kernel/disk_state.h"
#include "kernel/nvmet_disk.h"
#include "kernel/nvmet_export.h"
#include "kernel/ramdisk.h"

static enum exit_code not_exported(const char *name, const struct nvmet_export *foreign)
{
	if (foreign)
		return report(EXIT_DEVICE,
			      "'%s': was not exported by rxadm; remove '%s' with the tool that created it, such as 'nvmetcli'",
			      name, foreign->nqn);
	return report(EXIT_DEVICE,
		      "'%s': is not exported; 'rxadm list -o +EXPORT' and 'rxadm status -o +EXPORT' show what is",
		      name);
}

/* A device whose export ends, or the NQN of an export. */
struct ending {
	const char *name;	/* as the user wrote it */
	bool is_nqn;
	struct device dev;	/* unless it is an NQN */
	char *sequence;		/* as disk_sequence() returns it */
	bool was_left;		/* see export_find_left() */
	bool was_busy;
};

static enum exit_code check_nqn(const char *nqn)
{
	char *error = value_nqn(nqn);
	enum exit_code ret = EXIT_OK;

	if (error)
		ret = report(EXIT_PARAMETERS, "NQN '%s': %s", nqn, error);
	free(error);
	return ret;
}

static enum exit_code find_ending(const char *name, struct ending *ending)
{
	enum exit_code ret;
	char *path;

	*ending = (struct ending) {
		.name = name,
		.is_nqn = !strncmp(name, "nqn.", 4) && !strchr(name, '/'),
	};
	ret = ending->is_nqn ? check_nqn(name) : device_find_named("device", name, &ending->dev);
	if (ret)
		return ret;
	if (!ending->is_nqn)
		ending->sequence = disk_sequence(ending->dev.number);
	path = ending->is_nqn ? NULL : device_path(ending->dev.number);
	ret = export_find_left(ending->is_nqn ? name : NULL, path, &ending->was_busy,
			       &ending->was_left);
	free(path);
	return ret;
}

/* Exports of rxadm. */
struct nqns {
	struct nqn {
		char *name;
		char *record;	/* see nvmet_record_id() */
	} *list;
	size_t count;
};

static enum exit_code add_nqn(struct nqns *nqns, const char *nqn, const char *name)
{
	size_t i;

	for (i = 0; i < nqns->count; i++)
		if (!strcmp(nqns->list[i].name, nqn))
			return report(EXIT_PARAMETERS, "'%s': its export is given more than once",
				      name);
	nqns->list = resize_array(nqns->list, nqns->count + 1, sizeof(*nqns->list));
	nqns->list[nqns->count++] = (struct nqn) {
		.name = copy_text(nqn),
		.record = nvmet_record_id("subsystems", nqn),
	};
	return EXIT_OK;
}

static enum exit_code find_nqns(const struct ending *ending, bool gone_ok, struct nqns *nqns)
{
	const struct nvmet_export *foreign = NULL;
	const struct nvmet_export *export;
	bool found = ending->was_left || ending->was_busy;
	struct nvmet_exports exports;
	enum exit_code ret;
	bool same;
	size_t i;

	/* Another disk may have the number, and an export, after the wait. */
	same = !ending->sequence || disk_is_same(ending->dev.number, ending->sequence);
	ret = exports_read(&exports);
	for (i = 0; !ret && i < exports.count; i++) {
		export = &exports.list[i];
		if (ending->is_nqn ? strcmp(export->nqn, ending->name) != 0 :
				     !same || !nvmet_export_is_of(export, ending->dev.number))
			continue;
		if (!export->ours) {
			foreign = export;
			continue;
		}
		found = true;
		ret = add_nqn(nqns, export->nqn, ending->name);
	}
	if (!ret && !found && (foreign || !gone_ok))
		ret = not_exported(ending->name, foreign);
	nvmet_exports_free(&exports);
	return ret;
}

static enum exit_code unexport(const struct ending *endings, size_t count, bool gone_ok,
			       bool dry_run)
{
	enum exit_code first = exports_lock(), ret;
	struct nqns nqns = { 0 };
	size_t i;

	if (first)
		return first;
	if (!dry_run)
		first = exports_clean_up_shared();
	for (i = 0; i < count; i++) {
		ret = find_nqns(&endings[i], gone_ok, &nqns);
		first = first ? first : ret;
	}
	exports_unlock();
	for (i = 0; !first && i < nqns.count; i++)
		first = export_end(nqns.list[i].name, nqns.list[i].record, dry_run);
	for (i = 0; i < nqns.count; i++) {
		free(nqns.list[i].record);
		free(nqns.list[i].name);
	}
	free(nqns.list);
	return first;
}

/**
 * unexport_devices - end the exports of devices, or of none if one is not exported by rxadm
 * @names: the devices, or their NQNs, terminated by NULL
 * @gone_ok: if a device is not exported at all, this is not an error
 * @dry_run: only print what would be done
 *
 * The caller has the privilege, and blocks signals.
 *
 * Return: the exit code of the first error.
 */
enum exit_code unexport_devices(char *const *names, bool gone_ok, bool dry_run)
{
	enum exit_code first = EXIT_OK, ret;
	struct ending *endings = NULL;
	size_t count, i;

	/* Before anything that waits: the names are those of these disks. */
	for (count = 0; names[count]; count++) {
		endings = resize_array(endings, count + 1, sizeof(*endings));
		ret = find_ending(names[count], &endings[count]);
		first = first ? first : ret;
	}
	/* If one of these exports is left, and its end may wait, unexport() ends it. */
	if (!first && !dry_run)
		first = exports_clean_up(NULL);
	if (!first)
		first = unexport(endings, count, gone_ok, dry_run);
	for (i = 0; i < count; i++) {
		free(endings[i].sequence);
		device_release(&endings[i].dev);
	}
	free(endings);
	return first;
}

#define MODEL		"RXD"
#define SERIAL_DIGITS	20	/* length of the field in NVMe */

static void plan_subsystem(struct steps *plan, const struct export_request *request,
			   const struct nvmet_disk *disk)
{
	char serial[SERIAL_DIGITS + 1] = "";
	const char *c;
	size_t length = 0;

	for (c = disk->uuid; *c && length < SERIAL_DIGITS; c++)
		if (*c != '-')
			serial[length++] = *c;
	nvmet_plan_make(plan, "subsystems", disk->nqn, disk->path);
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/attr_model", disk->nqn),
		  copy_text(MODEL));
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/attr_serial", disk->nqn),
		  copy_text(serial));
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/attr_allow_any_host", disk->nqn),
		  copy_text(request->allow_any_host ? "1" : "0"));
}

static void plan_host(struct steps *plan, const struct export_request *request,
		      const struct nvmet_disk *disk, const char *host)
{
	bool is_new = !nvmet_exists("hosts", host);
	struct step *step;

	/*
	 * The kernel makes the key readable for all users. Restrict the folder first, so that
	 * no user can open the file of the key before its mode is changed.
	 */
	if (disk->key)
		steps_add(plan, STEP_MODE, copy_text(NVMET_ROOT "/hosts"), copy_text("0700"));
	if (is_new)
		nvmet_plan_make(plan, "hosts", host, disk->nqn);
	if (disk->key)
		steps_add(plan, STEP_MODE, format_text(NVMET_ROOT "/hosts/%s/dhchap_key", host),
			  copy_text("0600"));
	if (disk->key && is_new) {
		step = steps_add(plan, STEP_WRITE,
				 format_text(NVMET_ROOT "/hosts/%s/dhchap_key", host),
				 copy_text(disk->key));
		step->source = request->key_path;
	}
	steps_add(plan, STEP_LINK,
		  format_text(NVMET_ROOT "/subsystems/%s/allowed_hosts/%s", disk->nqn, host),
		 format_text(NVMET_ROOT "/hosts/%s", host));
}

static void plan_namespace(struct steps *plan, const struct nvmet_disk *disk)
{
	const char *nqn = disk->nqn;

	steps_add(plan, STEP_MAKE, format_text(NVMET_ROOT "/subsystems/%s/namespaces/1", nqn),
		  NULL);
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/namespaces/1/device_path", nqn),
		  copy_text(disk->path));
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/namespaces/1/device_uuid", nqn),
		  copy_text(disk->uuid));
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/namespaces/1/enable", nqn),
		  copy_text("1"));
}

static void plan_port_attribute(struct steps *plan, unsigned int port, const char *name,
				const char *value)
{
	if (value)
		steps_add(plan, STEP_WRITE, format_text(NVMET_ROOT "/ports/%u/%s", port, name),
			  copy_text(value));
}

/* One port object serves all subsystems that are offered at its address. */
static enum exit_code plan_port(struct steps *plan, const struct export_request *request,
				const struct nvmet_disk *disk)
{
	struct nvmet_address address = { .transport = request->transport };
	char service[16], name[16];
	unsigned int port;

	if (request->address) {
		snprintf(service, sizeof(service), "%u",
			 request->port ? request->port : EXPORT_PORT);
		address.family = strchr(request->address, ':') ? "ipv6" : "ipv4";
		address.address = request->address;
		address.service = service;
	}
	if (!nvmet_find_port(&address, &port)) {
		port = nvmet_free_port();
		if (!port)
			return report(EXIT_BUSY, "the NVMe target has no free port number");
		snprintf(name, sizeof(name), "%u", port);
		nvmet_plan_make(plan, "ports", name, disk->nqn);
		plan_port_attribute(plan, port, "addr_trtype", address.transport);
		plan_port_attribute(plan, port, "addr_adrfam", address.family);
		plan_port_attribute(plan, port, "addr_traddr", address.address);
		plan_port_attribute(plan, port, "addr_trsvcid", address.service);
	}
	steps_add(plan, STEP_LINK,
		  format_text(NVMET_ROOT "/ports/%u/subsystems/%s", port, disk->nqn),
		 format_text(NVMET_ROOT "/subsystems/%s", disk->nqn));
	return EXIT_OK;
}

static enum exit_code listen_error(const struct export_request *request, int err)
{
	unsigned int port = request->port ? request->port : EXPORT_PORT;

	switch (err) {
	case EADDRINUSE:
		return report(EXIT_BUSY,
			      "address '%s', port %u: another program listens there; 'ss -ltnp' shows which",
			      request->address, port);
	case EADDRNOTAVAIL:
		return report(EXIT_PARAMETERS,
			      "address '%s': is not an address of this machine; 'ip address' shows them",
			      request->address);
	default:
		return report(exit_code_of(err),
			      "the NVMe target cannot export over %s: %s; see the kernel log",
			      request->transport, strerror(err));
	}
}

static bool ends_with(const char *text, const char *ending)
{
	size_t length = strlen(text);

	return length >= strlen(ending) && !strcmp(text + length - strlen(ending), ending);
}

/* The link from a port. */
static bool is_offer(const char *path)
{
	return strstr(path, "/ports/") && strstr(path, "/subsystems/");
}

static enum exit_code step_error(const struct export_request *request,
				 const struct nvmet_disk *disk, const char *path, int err)
{
	if (ends_with(path, "/dhchap_key") && err == ENOENT)
		return report(EXIT_DEVICE,
			      "%s: the NVMe target of this kernel does not support DH-HMAC-CHAP (CONFIG_NVME_TARGET_AUTH)",
			      advice("option --dhchap-key", "key 'dhchap-key'"));
	if (ends_with(path, "/dhchap_key"))
		return report(EXIT_PARAMETERS,
			      "key file '%s': the kernel rejects its key: %s",
			      request->key_path, strerror(err));
	if (ends_with(path, "/enable"))
		return report(exit_code_of(err), "device '%s': the NVMe target cannot open it: %s",
			      disk->dev.path, strerror(err));
	if (is_offer(path))
		return listen_error(request, err);
	return report(exit_code_of(err), "cannot create '%s': %s", path, strerror(err));
}

static enum exit_code run_steps(const struct export_request *request,
				const struct nvmet_disk *disk, const struct steps *steps)
{
	const char *failed;
	int err = steps_run(steps, &failed);

	return err ? step_error(request, disk, failed, err) : EXIT_OK;
}

/* @offer: what comes last, so that hosts reach the device */
static enum exit_code run_plan(const struct export_request *request,
			       const struct nvmet_disk *disk, const struct steps *plan,
			       const struct steps *offer)
{
	enum exit_code ret;
	int err;

	if (request->dry_run) {
		steps_print(plan);
		steps_print(offer);
		return EXIT_OK;
	}
	err = nvmet_records_begin();
	if (err)
		return report(exit_code_of(err), "cannot write the record " NVMET_RECORDS ": %s",
			      strerror(err));
	ret = run_steps(request, disk, plan);
	/* While the target has it open, no other disk gets its number. Only now compare it. */
	if (!ret)
		ret = nvmet_disk_check_same(disk);
	if (!ret)
		ret = run_steps(request, disk, offer);
	/* The link from the port is the last step. */
	if (ret)
		export_undo(disk->nqn);
	return ret;
}

static enum exit_code make_export(const struct export_request *request,
				  const struct nvmet_disk *disk)
{
	struct steps plan = { 0 }, offer = { 0 };
	enum exit_code ret;
	size_t i;

	ret = nvmet_disk_check_free(request, disk);
	if (ret)
		return ret;

	plan_subsystem(&plan, request, disk);
	for (i = 0; i < request->host_count; i++)
		plan_host(&plan, request, disk, request->hosts[i]);
	plan_namespace(&plan, disk);
	ret = plan_port(&offer, request, disk);
	if (!ret)
		ret = run_plan(request, disk, &plan, &offer);
	steps_free(&offer);
	steps_free(&plan);
	return ret;
}

static enum exit_code check_and_make(const struct export_request *request,
				     const struct nvmet_disk *disk)
{
	enum exit_code ret = nvmet_disk_check_unused(disk);

	if (!ret)
		ret = exports_lock();
	if (ret)
		return ret;
	ret = nvmet_prepare(request->transport, request->dry_run);
	if (!ret && !request->dry_run)
		ret = exports_clean_up_shared();
	if (!ret)
		ret = make_export(request, disk);
	exports_unlock();
	return ret;
}

/* Another rxadm must not remove the RAM disk, or discard its data, until the target has it open. */
static enum exit_code lock_disk(const struct export_request *request,
				const struct nvmet_disk *disk)
{
	enum exit_code ret;

	if (disk->index < 0)
		return check_and_make(request, disk);
	ret = disk_lock(&disk->dev, disk->sequence, DISK_LOCK_DATA);
	if (!ret) {
		ret = check_and_make(request, disk);
		disk_unlock(disk->sequence, DISK_LOCK_DATA);
	}
	return ret;
}

static enum exit_code lock_export(const struct export_request *request,
				  const struct nvmet_disk *disk)
{
	enum exit_code ret = export_lock(disk->nqn);
	bool found = false;

	if (ret)
		return ret;
	/* The process that had the lock may have been killed. */
	if (!request->dry_run && nvmet_is_ours("subsystems", disk->nqn))
		ret = export_clean_up(disk->nqn);
	if (!ret && request->may_exist)
		ret = nvmet_disk_find_same(request, disk, &found);
	if (!ret && !found)
		ret = lock_disk(request, disk);
	export_unlock(disk->nqn);
	return ret;
}

/**
 * export_device - export a device, or report why not
 * @request: how, with values that have been checked
 * @nqn: out: the name that hosts connect to, allocated; NULL after an error
 *
 * The caller has the privilege, and blocks signals.
 */
enum exit_code export_device(const struct export_request *request, char **nqn)
{
	struct nvmet_disk disk;
	enum exit_code ret;

	ret = nvmet_disk_find(request, &disk);
	/* An export of this disk that ends keeps it in use. */
	if (!ret && !request->dry_run)
		ret = export_wait(disk.nqn, disk.path);
	if (!ret && !request->dry_run)
		ret = exports_clean_up(disk.path);
	if (!ret)
		ret = lock_export(request, &disk);
	*nqn = ret ? NULL : copy_text(disk.nqn);
	nvmet_disk_release(&disk);
	return ret;
}
