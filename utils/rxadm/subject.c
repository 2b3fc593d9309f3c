// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is to be offered by the kernel's NVMe target: the device, its names, its secret.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dm.h"
#include "machine.h"
#include "rxcache.h"
#include "subject.h"

#define NQN_OF_UUID	"nqn.2014-08.org.nvmexpress:uuid:"
#define KEY_PREFIX	"DHHC-1:"
#define KEY_MAX		256
#define MACHINE_ID	"/etc/machine-id"

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

/*
 * A UUID that is the same after each boot, and another on each machine: two machines'
 * RAM disks of one configuration have the same UUID, and a host that connects to both
 * would take them for two paths to one disk. The machine's ID cannot be found from it.
 */
static bool uuid_here(const char *name, char *text)
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

/* @name: what tells it from others on this machine */
static enum exit_code identify_as(const struct export_request *request, const char *name,
				  struct subject *subject)
{
	static const uuid_t any = { 0 };
	uuid_t uuid;

	if (uuid_here(name, subject->uuid))
		return EXIT_OK;
	if (!request->nqn)
		return report(EXIT_PARAMETERS,
			      "device '%s': has no NQN of its own, as %s is not set up; give %s",
			      subject->dev.path, MACHINE_ID, advice("--nqn", "the key nqn"));
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

	subject->index = -1;
	if (uuid && sscanf(subject->dev.kernel_name, "rxd%d", &subject->index) == 1) {
		ret = identify_as(request, uuid, subject);
	} else {
		ret = find_cache(subject->dev.number, &cached);
		if (!ret && cached)
			ret = identify_as(request, subject->path, subject);
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

/**
 * subject_find - find out what an export is of
 * @request: the export
 * @subject: out: to be released by subject_release(), after an error too
 */
enum exit_code subject_find(const struct export_request *request, struct subject *subject)
{
	enum exit_code ret;

	*subject = (struct subject){ 0 };
	ret = device_find("device", request->device, &subject->dev);
	if (ret)
		return ret;
	subject->path = device_path(subject->dev.number);
	ret = identify(request, subject);
	if (!ret && request->key_path)
		ret = read_key(request->key_path, &subject->key);
	return ret;
}

void subject_release(struct subject *subject)
{
	free(subject->key);
	free(subject->nqn);
	free(subject->path);
	device_release(&subject->dev);
}
