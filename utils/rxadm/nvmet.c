// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's NVMe target, as its tree in configfs has it:
 *
 *	subsystems/NQN/namespaces/N/device_path		what is offered
 *	subsystems/NQN/allowed_hosts/HOST -> hosts/HOST	to whom
 *	ports/N/subsystems/NQN -> subsystems/NQN	where
 *
 * Of each folder that rxadm makes there is a link of the same name in NVMET_RECORDS,
 * made before and removed after it. A subsystem of ours that no port offers was left half
 * made, or half removed, by one that was killed: the link from the port is what an
 * export makes last, and takes away first. Both trees end with the machine.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"
#include "nvmet.h"

#define PORT_MAX	65535

static const char *const recorded[] = { "subsystems", "ports", "hosts" };

struct names {
	struct dirent **entries;
	int count;
};

static int is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/*
 * The names in a folder, in order; none if there is no such folder.
 *
 * Return: 0, or the errno of a folder that cannot be read and counts as empty.
 */
__printf(2, 3)
static int names_read(struct names *names, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	names->count = scandir(path, &names->entries, is_name, alphasort);
	if (names->count >= 0)
		return 0;
	*names = (struct names){ 0 };
	return errno == ENOENT ? 0 : errno;
}

static void names_free(struct names *names)
{
	int i;

	for (i = 0; i < names->count; i++)
		free(names->entries[i]);
	free(names->entries);
}

/* An attribute without its newline; "" if it cannot be read. */
__printf(1, 2)
static char *attribute(const char *format, ...)
{
	char path[PATH_MAX];
	char *text = NULL;
	size_t size = 0;
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	file = fopen(path, "re");
	if (!file)
		return copy_text("");
	if (getline(&text, &size, file) < 0) {
		free(text);
		text = copy_text("");
	}
	text[strcspn(text, "\n")] = '\0';
	fclose(file);
	return text;
}

/**
 * nvmet_exists - whether there is such a folder
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

static char *record_path(const char *folder, const char *name)
{
	return format_text(NVMET_RECORDS "/%s/%s", folder, name);
}

static bool is_ours(const char *folder, const char *name)
{
	char *path = record_path(folder, name);
	struct stat st;
	bool ours = !lstat(path, &st);

	free(path);
	return ours;
}

/* What was to be remembered of a folder of ours; "" if it cannot be read. */
static char *record_note(const char *folder, const char *name)
{
	char *path = record_path(folder, name);
	char note[PATH_MAX];
	ssize_t length;

	length = readlink(path, note, sizeof(note) - 1);
	free(path);
	note[length < 0 ? 0 : length] = '\0';
	return copy_text(note);
}

static bool offers(const char *port, const char *nqn)
{
	char *path = format_text(NVMET_ROOT "/ports/%s/subsystems/%s", port, nqn);
	struct stat st;
	bool found = !lstat(path, &st);

	free(path);
	return found;
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

/* Where a subsystem is offered, or NULL. */
static char *address_of(const char *nqn)
{
	struct names ports;
	char *text = NULL;
	char *port;
	int i;

	names_read(&ports, NVMET_ROOT "/ports");
	for (i = 0; i < ports.count; i++) {
		if (!offers(ports.entries[i]->d_name, nqn))
			continue;
		port = port_text(ports.entries[i]->d_name);
		append_text(&text, "%s%s", text ? ", " : "", port);
		free(port);
	}
	names_free(&ports);
	return text;
}

static void add_export(struct nvmet_exports *exports, const char *nqn, char *device)
{
	exports->list = resize_array(exports->list, exports->count + 1, sizeof(*exports->list));
	exports->list[exports->count++] = (struct nvmet_export) {
		.nqn = copy_text(nqn),
		.device = device,
		.address = address_of(nqn),
		.ours = is_ours("subsystems", nqn),
	};
}

/**
 * nvmet_exports_read - list what the kernel's NVMe target offers, whoever made it
 * @exports: out: one for each device of each subsystem, to be freed by
 *	nvmet_exports_free()
 */
void nvmet_exports_read(struct nvmet_exports *exports)
{
	struct names subsystems, namespaces;
	const char *nqn;
	int i, k;

	*exports = (struct nvmet_exports){ 0 };
	names_read(&subsystems, NVMET_ROOT "/subsystems");
	for (i = 0; i < subsystems.count; i++) {
		nqn = subsystems.entries[i]->d_name;
		names_read(&namespaces, NVMET_ROOT "/subsystems/%s/namespaces", nqn);
		for (k = 0; k < namespaces.count; k++)
			add_export(exports, nqn,
				   attribute(NVMET_ROOT "/subsystems/%s/namespaces/%s/device_path",
					     nqn, namespaces.entries[k]->d_name));
		if (!namespaces.count)
			add_export(exports, nqn, copy_text(""));
		names_free(&namespaces);
	}
	names_free(&subsystems);
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

/**
 * nvmet_exports_of - say how a device is exported
 * @number: the device
 *
 * Return: allocated text such as "NQN (tcp 192.0.2.1:4420)", or NULL if it is not.
 */
char *nvmet_exports_of(dev_t number)
{
	struct nvmet_exports exports;
	char *text = NULL;
	size_t i;

	nvmet_exports_read(&exports);
	for (i = 0; i < exports.count; i++)
		if (nvmet_export_is_of(&exports.list[i], number))
			append_text(&text, "%s%s (%s)", text ? ", " : "", exports.list[i].nqn,
				    exports.list[i].address ? exports.list[i].address :
				    "no port");
	nvmet_exports_free(&exports);
	return text;
}

/**
 * nvmet_host_key - the secret that a host must know
 * @host: its NQN
 *
 * Return: allocated text, "" if it needs none.
 */
char *nvmet_host_key(const char *host)
{
	char *key = attribute(NVMET_ROOT "/hosts/%s/dhchap_key", host);

	/* Linux 6.1 prints an absent one so. */
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

/* Whether a host is among those that may reach a subsystem. */
bool nvmet_allows(const char *nqn, const char *host)
{
	char *path = format_text(NVMET_ROOT "/subsystems/%s/allowed_hosts/%s", nqn, host);
	struct stat st;
	bool allows = !lstat(path, &st);

	free(path);
	return allows;
}

/**
 * nvmet_allowed_hosts - the hosts that may reach a subsystem
 * @nqn: the subsystem
 * @count: out: how many
 *
 * Return: allocated text with spaces between them, NULL if there are none.
 */
char *nvmet_allowed_hosts(const char *nqn, size_t *count)
{
	struct names names;
	char *text = NULL;
	int i;

	names_read(&names, NVMET_ROOT "/subsystems/%s/allowed_hosts", nqn);
	for (i = 0; i < names.count; i++)
		append_text(&text, "%s%s", text ? " " : "", names.entries[i]->d_name);
	*count = names.count;
	names_free(&names);
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
 * nvmet_find_port - find the port that listens at an address, or is meant to
 * @address: the address
 * @number: out: the port's
 */
bool nvmet_find_port(const struct nvmet_address *address, unsigned int *number)
{
	struct names ports;
	bool found = false;
	const char *port;
	int i;

	names_read(&ports, NVMET_ROOT "/ports");
	for (i = 0; !found && i < ports.count; i++) {
		port = ports.entries[i]->d_name;
		found = has_value(port, "addr_trtype", address->transport) &&
			has_value(port, "addr_adrfam", address->family) &&
			has_value(port, "addr_traddr", address->address) &&
			has_value(port, "addr_trsvcid", address->service);
		if (found)
			*number = strtoul(port, NULL, 10);
	}
	names_free(&ports);
	return found;
}

/* The lowest number that no port has; 0: there is none. */
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

/**
 * nvmet_plan_make - plan to make a folder that is known as ours from then on
 * @plan: what to add it to
 * @folder: "subsystems", "ports" or "hosts"
 * @name: its name there
 * @note: what to remember of it, not empty
 */
struct step *nvmet_plan_make(struct steps *plan, const char *folder, const char *name,
			     const char *note)
{
	struct step *step = steps_add(plan, STEP_MAKE,
				      format_text(NVMET_ROOT "/%s/%s", folder, name), NULL);

	step->record = record_path(folder, name);
	step->note = copy_text(note);
	return step;
}

static void plan_remove_ours(struct steps *plan, const char *folder, const char *name)
{
	struct step *step = steps_add(plan, STEP_REMOVE,
				      format_text(NVMET_ROOT "/%s/%s", folder, name), NULL);

	step->record = record_path(folder, name);
}

static bool has_other_name(const struct names *names, const char *name)
{
	int i;

	for (i = 0; i < names->count; i++)
		if (!name || strcmp(names->entries[i]->d_name, name))
			return true;
	return false;
}

/* Whether a port offers anything but @nqn. */
static bool port_is_used(const char *port, const char *nqn)
{
	struct names subsystems;
	bool used;

	names_read(&subsystems, NVMET_ROOT "/ports/%s/subsystems", port);
	used = has_other_name(&subsystems, nqn);
	names_free(&subsystems);
	return used;
}

/* Whether a host may reach anything but @nqn. */
static bool host_is_used(const char *host, const char *nqn)
{
	struct names subsystems;
	bool used = false;
	const char *name;
	int i;

	names_read(&subsystems, NVMET_ROOT "/subsystems");
	for (i = 0; !used && i < subsystems.count; i++) {
		name = subsystems.entries[i]->d_name;
		used = (!nqn || strcmp(name, nqn)) && nvmet_allows(name, host);
	}
	names_free(&subsystems);
	return used;
}

/* Ports and hosts of ours that nothing but @nqn uses. */
static void plan_remove_unused(struct steps *plan, const char *nqn)
{
	struct names names;
	int i;

	names_read(&names, NVMET_RECORDS "/ports");
	for (i = 0; i < names.count; i++)
		if (!port_is_used(names.entries[i]->d_name, nqn))
			plan_remove_ours(plan, "ports", names.entries[i]->d_name);
	names_free(&names);
	names_read(&names, NVMET_RECORDS "/hosts");
	for (i = 0; i < names.count; i++)
		if (!host_is_used(names.entries[i]->d_name, nqn))
			plan_remove_ours(plan, "hosts", names.entries[i]->d_name);
	names_free(&names);
}

static void plan_remove_subsystem(struct steps *plan, const char *nqn)
{
	struct names names;
	int i;

	names_read(&names, NVMET_ROOT "/ports");
	for (i = 0; i < names.count; i++)
		if (offers(names.entries[i]->d_name, nqn))
			steps_add(plan, STEP_UNLINK,
				  format_text(NVMET_ROOT "/ports/%s/subsystems/%s",
					      names.entries[i]->d_name, nqn), NULL);
	names_free(&names);
	names_read(&names, NVMET_ROOT "/subsystems/%s/namespaces", nqn);
	for (i = 0; i < names.count; i++)
		steps_add(plan, STEP_REMOVE,
			  format_text(NVMET_ROOT "/subsystems/%s/namespaces/%s", nqn,
				      names.entries[i]->d_name), NULL);
	names_free(&names);
	names_read(&names, NVMET_ROOT "/subsystems/%s/allowed_hosts", nqn);
	for (i = 0; i < names.count; i++)
		steps_add(plan, STEP_UNLINK,
			  format_text(NVMET_ROOT "/subsystems/%s/allowed_hosts/%s", nqn,
				      names.entries[i]->d_name), NULL);
	names_free(&names);
	plan_remove_ours(plan, "subsystems", nqn);
}

/**
 * nvmet_plan_removal - plan to remove a subsystem, whole or half made, and what was made
 * for nothing else; unless it is not ours
 * @plan: what to add it to
 * @nqn: the subsystem
 */
void nvmet_plan_removal(struct steps *plan, const char *nqn)
{
	if (is_ours("subsystems", nqn))
		plan_remove_subsystem(plan, nqn);
	plan_remove_unused(plan, nqn);
}

/* Find out whether any port offers a subsystem. Return: 0 or an errno. */
static int look_for_port(const char *nqn, bool *found)
{
	struct names ports;
	struct stat st;
	char *path;
	int i, err;

	*found = false;
	err = names_read(&ports, NVMET_ROOT "/ports");
	for (i = 0; !err && !*found && i < ports.count; i++) {
		path = format_text(NVMET_ROOT "/ports/%s/subsystems/%s", ports.entries[i]->d_name,
				   nqn);
		*found = !lstat(path, &st);
		if (!*found && errno != ENOENT)
			err = errno;
		free(path);
	}
	names_free(&ports);
	return err;
}

/**
 * nvmet_plan_stale - plan to remove what one that was killed left
 * @plan: what to add it to
 * @nqn: a subsystem that the caller looks for, or NULL
 * @device: a device that the caller looks for, or NULL
 * @found: out: whether one of them was among it
 *
 * What cannot be read may be in use: nothing is to be removed then.
 */
enum exit_code nvmet_plan_stale(struct steps *plan, const char *nqn, const char *device,
				bool *found)
{
	struct names names;
	const char *name;
	bool offered;
	char *note;
	int i, err;

	*found = false;
	err = names_read(&names, NVMET_RECORDS "/subsystems");
	for (i = 0; !err && i < names.count; i++) {
		name = names.entries[i]->d_name;
		err = look_for_port(name, &offered);
		if (err || offered)
			continue;
		note = record_note("subsystems", name);
		*found |= (nqn && !strcmp(name, nqn)) || (device && !strcmp(note, device));
		free(note);
		nvmet_plan_removal(plan, name);
	}
	if (!err && !plan->count)
		plan_remove_unused(plan, NULL);
	names_free(&names);
	return err ? report(exit_code_of(err),
			    "what is exported cannot be read from " NVMET_ROOT ": %s",
			    strerror(err)) : EXIT_OK;
}

/**
 * nvmet_records_begin - make the folders that the records are in
 *
 * Return: 0 or an errno.
 */
int nvmet_records_begin(void)
{
	char *path;
	size_t i;
	int err = 0;

	if (mkdir(NVMET_RECORDS, 0755) && errno != EEXIST)
		return errno;
	for (i = 0; !err && i < ARRAY_SIZE(recorded); i++) {
		path = format_text(NVMET_RECORDS "/%s", recorded[i]);
		if (mkdir(path, 0755) && errno != EEXIST)
			err = errno;
		free(path);
	}
	return err;
}
