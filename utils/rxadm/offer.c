// SPDX-License-Identifier: GPL-2.0-only
/*
 * Offering a device by the kernel's NVMe target.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "caches.h"
#include "control.h"
#include "dm.h"
#include "export.h"
#include "machine.h"
#include "nvmet.h"
#include "subject.h"
#include "unmap.h"
#include "users.h"

#define MODEL		"RXD"
#define SERIAL_DIGITS	20	/* what NVMe has room for */

#ifndef CONFIGFS_MAGIC
#define CONFIGFS_MAGIC	0x62656570
#endif

static enum exit_code check_unheld(const struct device *dev)
{
	enum exit_code ret = EXIT_OK;
	char *users = users_of(dev->number);
	int read_only;
	int fd;

	if (users) {
		ret = report(EXIT_BUSY, "%s '%s': is in use (%s); release it there first",
			     dev->what, dev->path, users);
		free(users);
		return ret;
	}
	/* Whoever holds it without showing up above is found by this. */
	fd = open(dev->path, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		return report(EXIT_BUSY,
			      "%s '%s': is in use by the kernel, perhaps mounted in another namespace; release it there first",
			      dev->what, dev->path);
	if (fd < 0 || ioctl(fd, BLKROGET, &read_only))
		ret = report(exit_code_of(errno), "%s '%s': %s", dev->what, dev->path,
			     strerror(errno));
	else if (read_only)
		ret = report(EXIT_DEVICE,
			     "%s '%s': is read-only; 'blockdev --setrw' makes it writable",
			     dev->what, dev->path);
	if (fd >= 0)
		close(fd);
	return ret;
}

static enum exit_code check_ramdisk_closed(const struct subject *subject)
{
	enum exit_code ret;
	int control;

	ret = control_open(&control);
	if (ret)
		return ret;
	ret = control_idle_check(control, subject->index, &subject->dev);
	close(control);
	return ret;
}

static enum exit_code check_cache_closed(const struct subject *subject)
{
	enum exit_code ret;

	ret = dm_begin();
	if (ret)
		return ret;
	ret = cache_closed_check(mapping_name(subject->path));
	dm_end();
	return ret;
}

/* Hosts and a process of this machine would write it at once. */
static enum exit_code check_unused(const struct subject *subject)
{
	enum exit_code ret;

	ret = check_unheld(&subject->dev);
	if (ret)
		return ret;
	return subject->index < 0 ? check_cache_closed(subject) : check_ramdisk_closed(subject);
}

static enum exit_code check_nqn_is_free(const char *nqn)
{
	if (nvmet_exists("subsystems", nqn))
		return report(EXIT_BUSY,
			      "NQN '%s': exists already; give %s, or end that export first",
			      nqn, advice("another --nqn", "another nqn"));
	return EXIT_OK;
}

/* A host that exists already has its key for all subsystems. */
static enum exit_code check_host_key(const char *host, const char *key)
{
	enum exit_code ret = EXIT_OK;
	char *now;

	if (!nvmet_exists("hosts", host))
		return EXIT_OK;
	now = nvmet_host_key(host);
	if (strcmp(now, key ? key : ""))
		ret = report(EXIT_BUSY,
			     "host '%s': is allowed elsewhere with %s; give the same here", host,
			     *now && key ? "another key" : *now ? "a key" : "no key");
	free(now);
	return ret;
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

static enum exit_code prepare_kernel(const struct export_request *request)
{
	bool tcp = !strcmp(request->transport, "tcp");
	enum exit_code ret;

	ret = need_module("nvmet", "nvmet", request->dry_run);
	if (!ret)
		ret = need_module(tcp ? "nvmet-tcp" : "nvme-loop", tcp ? "nvmet_tcp" : "nvme_loop",
				  request->dry_run);
	if (!ret)
		ret = mount_configfs(request->dry_run);
	return ret;
}

static void plan_subsystem(struct steps *plan, const struct export_request *request,
			   const struct subject *subject)
{
	char serial[SERIAL_DIGITS + 1] = "";
	const char *c;
	size_t length = 0;

	for (c = subject->uuid; *c && length < SERIAL_DIGITS; c++)
		if (*c != '-')
			serial[length++] = *c;
	nvmet_plan_make(plan, "subsystems", subject->nqn, subject->path);
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/attr_model", subject->nqn),
		  copy_text(MODEL));
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/attr_serial", subject->nqn),
		  copy_text(serial));
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/attr_allow_any_host", subject->nqn),
		  copy_text(request->allow_any_host ? "1" : "0"));
}

static void plan_host(struct steps *plan, const struct export_request *request,
		      const struct subject *subject, const char *host)
{
	bool is_new = !nvmet_exists("hosts", host);
	struct step *step;

	/* The kernel shows it to all, and to who had it open before it was closed. */
	if (subject->key)
		steps_add(plan, STEP_MODE, copy_text(NVMET_ROOT "/hosts"), copy_text("0700"));
	if (is_new)
		nvmet_plan_make(plan, "hosts", host, subject->nqn);
	if (subject->key)
		steps_add(plan, STEP_MODE, format_text(NVMET_ROOT "/hosts/%s/dhchap_key", host),
			  copy_text("0600"));
	if (subject->key && is_new) {
		step = steps_add(plan, STEP_WRITE,
				 format_text(NVMET_ROOT "/hosts/%s/dhchap_key", host),
				 copy_text(subject->key));
		step->source = request->key_path;
	}
	steps_add(plan, STEP_LINK,
		  format_text(NVMET_ROOT "/subsystems/%s/allowed_hosts/%s", subject->nqn, host),
		 format_text(NVMET_ROOT "/hosts/%s", host));
}

static void plan_namespace(struct steps *plan, const struct subject *subject)
{
	const char *nqn = subject->nqn;

	steps_add(plan, STEP_MAKE, format_text(NVMET_ROOT "/subsystems/%s/namespaces/1", nqn),
		  NULL);
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/namespaces/1/device_path", nqn),
		  copy_text(subject->path));
	steps_add(plan, STEP_WRITE,
		  format_text(NVMET_ROOT "/subsystems/%s/namespaces/1/device_uuid", nqn),
		  copy_text(subject->uuid));
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
				const struct subject *subject)
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
			return report(EXIT_BUSY, "the NVMe target has no port number free");
		snprintf(name, sizeof(name), "%u", port);
		nvmet_plan_make(plan, "ports", name, subject->nqn);
		plan_port_attribute(plan, port, "addr_trtype", address.transport);
		plan_port_attribute(plan, port, "addr_adrfam", address.family);
		plan_port_attribute(plan, port, "addr_traddr", address.address);
		plan_port_attribute(plan, port, "addr_trsvcid", address.service);
	}
	steps_add(plan, STEP_LINK,
		  format_text(NVMET_ROOT "/ports/%u/subsystems/%s", port, subject->nqn),
		 format_text(NVMET_ROOT "/subsystems/%s", subject->nqn));
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
			      "address '%s': is none of this machine's; 'ip address' shows them",
			      request->address);
	default:
		return report(exit_code_of(err),
			      "the NVMe target cannot offer it over %s: %s; the kernel log may say more",
			      request->transport, strerror(err));
	}
}

static bool ends_with(const char *text, const char *ending)
{
	size_t length = strlen(text);

	return length >= strlen(ending) && !strcmp(text + length - strlen(ending), ending);
}

static enum exit_code step_error(const struct export_request *request,
				 const struct subject *subject, const struct step *step, int err)
{
	if (ends_with(step->path, "/dhchap_key") && err == ENOENT)
		return report(EXIT_DEVICE,
			      "%s: this kernel's NVMe target knows no DH-HMAC-CHAP (CONFIG_NVME_TARGET_AUTH)",
			      advice("option --dhchap-key", "key 'dhchap-key'"));
	if (ends_with(step->path, "/dhchap_key"))
		return report(EXIT_PARAMETERS,
			      "key file '%s': the kernel does not take its key: %s",
			      request->key_path, strerror(err));
	if (ends_with(step->path, "/enable"))
		return report(exit_code_of(err), "device '%s': the NVMe target cannot open it: %s",
			      subject->dev.path, strerror(err));
	if (step->kind == STEP_LINK && strstr(step->path, "/ports/"))
		return listen_error(request, err);
	return report(exit_code_of(err), "cannot make '%s': %s", step->path, strerror(err));
}

static enum exit_code run_plan(const struct export_request *request,
			       const struct subject *subject, const struct steps *plan)
{
	const struct step *failed;
	enum exit_code ret;
	int err;

	if (request->dry_run) {
		steps_print(plan);
		return EXIT_OK;
	}
	err = nvmet_records_begin();
	if (err)
		return report(exit_code_of(err), "cannot keep a record in " NVMET_RECORDS ": %s",
			      strerror(err));
	err = steps_run(plan, &failed);
	if (err) {
		ret = step_error(request, subject, failed, err);
		export_take_back(subject->nqn);
		return ret;
	}
	return EXIT_OK;
}

static enum exit_code export(const struct export_request *request, const struct subject *subject)
{
	struct steps plan = { 0 };
	enum exit_code ret;
	bool found;
	size_t i;

	ret = export_clean_up(NULL, NULL, request->dry_run, &found);
	if (!ret)
		ret = check_unused(subject);
	if (!ret)
		ret = prepare_kernel(request);
	if (!ret)
		ret = check_nqn_is_free(subject->nqn);
	for (i = 0; !ret && i < request->host_count; i++)
		ret = check_host_key(request->hosts[i], subject->key);
	if (ret)
		return ret;

	plan_subsystem(&plan, request, subject);
	for (i = 0; i < request->host_count; i++)
		plan_host(&plan, request, subject, request->hosts[i]);
	plan_namespace(&plan, subject);
	ret = plan_port(&plan, request, subject);
	if (!ret)
		ret = run_plan(request, subject, &plan);
	steps_free(&plan);
	return ret;
}

/**
 * export_device - offer a device, or change nothing
 * @request: how; what it says has been checked
 * @nqn: out: the name that hosts connect to, allocated; NULL after an error
 *
 * The caller has the privilege and the lock, and blocks signals.
 */
enum exit_code export_device(const struct export_request *request, char **nqn)
{
	struct subject subject;
	enum exit_code ret;

	ret = subject_find(request, &subject);
	if (!ret)
		ret = export(request, &subject);
	*nqn = ret ? NULL : copy_text(subject.nqn);
	subject_release(&subject);
	return ret;
}
