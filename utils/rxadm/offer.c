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
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "device.h"
#include "dm.h"
#include "export.h"
#include "machine.h"
#include "nvmet.h"
#include "rxcache.h"
#include "users.h"

#define PORT_DEFAULT	4420
#define NQN_OF_UUID	"nqn.2014-08.org.nvmexpress:uuid:"
#define MODEL		"RXD"
#define SERIAL_DIGITS	20	/* what NVMe has room for */
#define KEY_PREFIX	"DHHC-1:"
#define KEY_MAX		256
#define MACHINE_ID	"/etc/machine-id"

#ifndef CONFIGFS_MAGIC
#define CONFIGFS_MAGIC	0x62656570
#endif

/* What is found out about the device. */
struct subject {
	struct device dev;
	char *path;		/* as all call it */
	char *nqn;
	char uuid[UUID_STR_LEN];
	char *key;		/* NULL: none wanted */
};

static enum exit_code check_key_file(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return report(exit_code_of(errno), "key file '%s': %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return report(EXIT_PARAMETERS, "key file '%s': is not a file", path);
	if (st.st_mode & 077)
		return report(EXIT_PARAMETERS,
			      "key file '%s': others may use it (mode %04o); must be 0600", path,
			      st.st_mode & 07777);
	return EXIT_OK;
}

static bool is_key(const char *text)
{
	static const char characters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:-";
	size_t length = strlen(text);

	return !strncmp(text, KEY_PREFIX, strlen(KEY_PREFIX)) &&
	       length > strlen(KEY_PREFIX) && length < KEY_MAX && text[length - 1] == ':' &&
	       strspn(text, characters) == length;
}

static enum exit_code read_key(const char *path, char **key)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char text[KEY_MAX + 1];
	enum exit_code ret;
	ssize_t length;

	if (fd < 0)
		return report(exit_code_of(errno), "key file '%s': %s", path, strerror(errno));
	ret = check_key_file(path, fd);
	length = ret ? 0 : read(fd, text, KEY_MAX);
	if (length < 0)
		ret = report(exit_code_of(errno), "key file '%s': %s", path, strerror(errno));
	close(fd);
	if (ret)
		return ret;
	text[length] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!is_key(text))
		return report(EXIT_PARAMETERS,
			      "key file '%s': must hold a line that begins with %s; 'nvme gen-dhchap-key' makes one",
			      path, KEY_PREFIX);
	*key = copy_text(text);
	return EXIT_OK;
}

/* Cached disks have a name but no UUID: make one that is the same after each boot. */
static bool uuid_of_name(const char *name, char *text)
{
	char id[2 * sizeof(uuid_t) + 1] = "";
	uuid_t machine, uuid;
	unsigned int i;
	FILE *file;

	file = fopen(MACHINE_ID, "re");
	if (!file)
		return false;
	if (!fgets(id, sizeof(id), file))
		id[0] = '\0';
	fclose(file);
	if (strspn(id, "0123456789abcdef") != 2 * sizeof(machine))
		return false;
	for (i = 0; i < sizeof(machine); i++)
		if (sscanf(id + 2 * i, "%2hhx", &machine[i]) != 1)
			return false;
	uuid_generate_sha1(uuid, machine, name, strlen(name));
	uuid_unparse_lower(uuid, text);
	return true;
}

static enum exit_code identify_cache(const struct export_request *request,
				     struct subject *subject)
{
	static const uuid_t any = { 0 };
	uuid_t uuid;

	if (uuid_of_name(subject->path, subject->uuid))
		return EXIT_OK;
	if (!request->nqn)
		return report(EXIT_PARAMETERS,
			      "device '%s': has no NQN of its own, as %s is not set up; give --nqn",
			      subject->dev.path, MACHINE_ID);
	uuid_generate_sha1(uuid, any, request->nqn, strlen(request->nqn));
	uuid_unparse_lower(uuid, subject->uuid);
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

static enum exit_code identify(const struct export_request *request, struct subject *subject)
{
	char *uuid = sysfs_read(subject->dev.number, "rxd/uuid");
	enum exit_code ret = EXIT_OK;
	bool cached;

	if (uuid) {
		snprintf(subject->uuid, sizeof(subject->uuid), "%s", uuid);
	} else {
		ret = find_cache(subject->dev.number, &cached);
		if (!ret && cached)
			ret = identify_cache(request, subject);
		else if (!ret)
			ret = report(EXIT_DEVICE,
				     "device '%s': is neither a whole RAM disk nor a cached disk; 'rxadm list' and 'rxadm status' show them",
				     subject->dev.path);
	}
	free(uuid);
	if (!ret)
		subject->nqn = request->nqn ? copy_text(request->nqn) :
			       format_text(NQN_OF_UUID "%s", subject->uuid);
	return ret;
}

static enum exit_code check_unused(const struct device *dev)
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

static enum exit_code check_nqn_is_free(const char *nqn)
{
	if (nvmet_exists("subsystems", nqn))
		return report(EXIT_BUSY,
			      "NQN '%s': exists already; give another --nqn, or end that export first",
			      nqn);
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
	struct step *step;

	if (!nvmet_exists("hosts", host)) {
		nvmet_plan_make(plan, "hosts", host, subject->nqn);
		if (subject->key) {
			step = steps_add(plan, STEP_WRITE,
					 format_text(NVMET_ROOT "/hosts/%s/dhchap_key", host),
					 copy_text(subject->key));
			step->source = request->key_path;
		}
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
			 request->port ? request->port : PORT_DEFAULT);
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
	unsigned int port = request->port ? request->port : PORT_DEFAULT;

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
			      "option --dhchap-key: this kernel's NVMe target knows no DH-HMAC-CHAP (CONFIG_NVME_TARGET_AUTH)");
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
		return report(exit_code_of(err), "cannot keep a record in /run: %s", strerror(err));
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
		ret = check_unused(&subject->dev);
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
 * @request: how; export_check() accepted it
 * @nqn: out: the name that hosts connect to, allocated; NULL after an error
 *
 * The caller has the privilege and the lock, and blocks signals.
 */
enum exit_code export_device(const struct export_request *request, char **nqn)
{
	struct subject subject = { 0 };
	enum exit_code ret;

	*nqn = NULL;
	ret = device_find("device", request->device, &subject.dev);
	if (ret)
		return ret;
	subject.path = device_path(subject.dev.number);
	ret = identify(request, &subject);
	if (!ret && request->key_path)
		ret = read_key(request->key_path, &subject.key);
	if (!ret)
		ret = export(request, &subject);
	*nqn = ret ? NULL : copy_text(subject.nqn);
	free(subject.key);
	free(subject.nqn);
	free(subject.path);
	device_release(&subject.dev);
	return ret;
}
