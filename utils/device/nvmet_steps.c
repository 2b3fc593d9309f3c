// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plan, print and make changes of the NVMe target's tree in configfs.
 *
 * For each folder that rxadm makes, NVMET_RECORDS has a symbolic link of the same name. rxadm makes
 * the link before the folder, and removes it after the folder. An export makes the link from the
 * port last, and its end removes that link or the namespace first. So if no port offers a subsystem
 * of rxadm, or it has no namespace, a killed rxadm left it incomplete. Neither tree survives a
 * reboot.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "device/nvmet.h"
#include "device/nvmet_steps.h"

/**
 * steps_add - add a step to the end
 * @steps: the steps
 * @kind: what to do
 * @path: allocated; steps_free() frees it
 * @value: allocated, or NULL; steps_free() frees it
 *
 * Return: the step, valid until the next one is added.
 */
struct step *steps_add(struct steps *steps, enum step_kind kind, char *path, char *value)
{
	steps->list = resize_array(steps->list, steps->count + 1, sizeof(*steps->list));
	steps->list[steps->count] = (struct step){ .kind = kind, .path = path, .value = value };
	return &steps->list[steps->count++];
}

/* Return: 0 or an errno. */
static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t length = strlen(text);
	ssize_t done;
	int err = 0;

	if (fd < 0)
		return errno;
	done = write(fd, text, length);
	if (done < 0)
		err = errno;
	else if ((size_t)done != length)
		err = EIO;
	if (close(fd) && !err)
		err = errno;
	return err;
}

/* Make the record first: clean-up finds a folder by its record, and accepts a missing folder. */
static int make(const struct step *step, const char **path)
{
	int err;

	/* A symbolic link, unlike a file, is created together with its content. */
	if (step->record && symlink(step->note, step->record)) {
		*path = step->record;
		return errno;
	}
	if (!mkdir(step->path, 0755))
		return 0;
	err = errno;
	if (step->record)
		unlink(step->record);
	return err;
}

static int remove_folder(const struct step *step, const char **path)
{
	if (rmdir(step->path) && errno != ENOENT)
		return step->may_stay && (errno == ENOTEMPTY || errno == EBUSY) ? 0 : errno;
	*path = step->record;
	return step->record && unlink(step->record) && errno != ENOENT ? errno : 0;
}

/* @path: out: what @step is about */
static int run_step(const struct step *step, const char **path)
{
	*path = step->path;
	switch (step->kind) {
	case STEP_MAKE:
		return make(step, path);
	case STEP_WRITE:
		return write_text(step->path, step->value);
	case STEP_MODE:
		return chmod(step->path, strtoul(step->value, NULL, 8)) ? errno : 0;
	case STEP_LINK:
		return symlink(step->value, step->path) ? errno : 0;
	case STEP_UNLINK:
		return unlink(step->path) && errno != ENOENT ? errno : 0;
	case STEP_REMOVE:
		return remove_folder(step, path);
	}
	return EINVAL;
}

/**
 * steps_run - make the changes, up to the first that fails
 * @steps: the changes
 * @failed: out: the path that could not be changed, if there is one
 *
 * Return: 0 or an errno.
 */
int steps_run(const struct steps *steps, const char **failed)
{
	size_t i;
	int err = 0;

	for (i = 0; !err && i < steps->count; i++)
		err = run_step(&steps->list[i], failed);
	return err;
}

static void print_step(const struct step *step)
{
	switch (step->kind) {
	case STEP_MAKE:
		printf("mkdir '%s'\n", step->path);
		break;
	case STEP_WRITE:
		if (step->source)
			printf("cat '%s' > '%s'\n", step->source, step->path);
		else
			printf("echo '%s' > '%s'\n", step->value, step->path);
		break;
	case STEP_MODE:
		printf("chmod %s '%s'\n", step->value, step->path);
		break;
	case STEP_LINK:
		printf("ln -s '%s' '%s'\n", step->value, step->path);
		break;
	case STEP_UNLINK:
		printf("rm '%s'\n", step->path);
		break;
	case STEP_REMOVE:
		printf("rmdir '%s'\n", step->path);
		break;
	}
}

/* Print the steps as shell commands. */
void steps_print(const struct steps *steps)
{
	size_t i;

	for (i = 0; i < steps->count; i++)
		print_step(&steps->list[i]);
}

void steps_free(struct steps *steps)
{
	size_t i;

	for (i = 0; i < steps->count; i++) {
		free(steps->list[i].path);
		free(steps->list[i].value);
		free(steps->list[i].record);
		free(steps->list[i].note);
	}
	free(steps->list);
	*steps = (struct steps){ 0 };
}

static const char *const recorded[] = { "subsystems", "ports", "hosts" };

/**
 * nvmet_plan_make - plan to make a folder and its record
 * @plan: the plan to add to
 * @folder: "subsystems", "ports" or "hosts"
 * @name: its name there
 * @note: the content of the record, not empty
 */
struct step *nvmet_plan_make(struct steps *plan, const char *folder, const char *name,
			     const char *note)
{
	struct step *step = steps_add(plan, STEP_MAKE,
				      format_text(NVMET_ROOT "/%s/%s", folder, name), NULL);

	step->record = nvmet_record_path(folder, name);
	step->note = copy_text(note);
	return step;
}

static struct step *plan_remove_ours(struct steps *plan, const char *folder, const char *name)
{
	struct step *step = steps_add(plan, STEP_REMOVE,
				      format_text(NVMET_ROOT "/%s/%s", folder, name), NULL);

	step->record = nvmet_record_path(folder, name);
	return step;
}

static bool has_other_name(const struct nvmet_names *names, const char *name)
{
	int i;

	for (i = 0; i < names->count; i++)
		if (!name || strcmp(names->entries[i]->d_name, name))
			return true;
	return false;
}

/* Return true if a port offers a subsystem other than @nqn, or if that is unknown. */
static bool port_is_used(const char *port, const char *nqn)
{
	struct nvmet_names subsystems;
	bool used;

	used = nvmet_names_read(&subsystems, NVMET_ROOT "/ports/%s/subsystems", port) ||
	       has_other_name(&subsystems, nqn);
	nvmet_names_free(&subsystems);
	return used;
}

/* Return true if a host may connect to a subsystem other than @nqn, or if that is unknown. */
static bool host_is_used(const char *host, const char *nqn)
{
	struct nvmet_names subsystems;
	const char *name;
	bool used;
	int i;

	used = nvmet_names_read(&subsystems, NVMET_ROOT "/subsystems");
	for (i = 0; !used && i < subsystems.count; i++) {
		name = subsystems.entries[i]->d_name;
		used = (!nqn || strcmp(name, nqn)) && nvmet_allows(name, host);
	}
	nvmet_names_free(&subsystems);
	return used;
}

/*
 * Plan to remove the ports and hosts of rxadm that no subsystem but @nqn uses. When a port goes,
 * the kernel waits for the I/O of all connections that have ended, and no process can read the
 * folder of the ports meanwhile. So leave ports to a later removal if some I/O might not end. Those
 * that another tool uses, for referrals of its own, stay as well.
 */
static void plan_remove_unused(struct steps *plan, const char *nqn)
{
	struct nvmet_names names;
	bool checked = false, keep = false;
	const char *name;
	int i;

	nvmet_names_read(&names, NVMET_RECORDS "/ports");
	for (i = 0; i < names.count; i++) {
		name = names.entries[i]->d_name;
		if (port_is_used(name, nqn))
			continue;
		/* Without a port, only the record goes, and nothing waits. */
		if (nvmet_exists("ports", name)) {
			if (!checked)
				keep = nvmet_may_wait(nqn);
			checked = true;
			if (keep)
				continue;
		}
		plan_remove_ours(plan, "ports", name)->may_stay = true;
	}
	nvmet_names_free(&names);
	nvmet_names_read(&names, NVMET_RECORDS "/hosts");
	for (i = 0; i < names.count; i++)
		if (!host_is_used(names.entries[i]->d_name, nqn))
			plan_remove_ours(plan, "hosts", names.entries[i]->d_name)->may_stay = true;
	nvmet_names_free(&names);
}

static void plan_remove_offers(struct steps *plan, const char *nqn)
{
	struct nvmet_names names;
	int i;

	nvmet_names_read(&names, NVMET_ROOT "/ports");
	for (i = 0; i < names.count; i++)
		if (nvmet_offers(names.entries[i]->d_name, nqn))
			steps_add(plan, STEP_UNLINK,
				  format_text(NVMET_ROOT "/ports/%s/subsystems/%s",
					      names.entries[i]->d_name, nqn), NULL);
	nvmet_names_free(&names);
}

static void plan_remove_namespaces(struct steps *plan, const char *nqn)
{
	struct nvmet_names names;
	int i;

	nvmet_names_read(&names, NVMET_ROOT "/subsystems/%s/namespaces", nqn);
	for (i = 0; i < names.count; i++)
		steps_add(plan, STEP_REMOVE,
			  format_text(NVMET_ROOT "/subsystems/%s/namespaces/%s", nqn,
				      names.entries[i]->d_name), NULL);
	nvmet_names_free(&names);
}

static void plan_remove_hosts(struct steps *plan, const char *nqn)
{
	struct nvmet_names names;
	int i;

	nvmet_names_read(&names, NVMET_ROOT "/subsystems/%s/allowed_hosts", nqn);
	for (i = 0; i < names.count; i++)
		steps_add(plan, STEP_UNLINK,
			  format_text(NVMET_ROOT "/subsystems/%s/allowed_hosts/%s", nqn,
				      names.entries[i]->d_name), NULL);
	nvmet_names_free(&names);
}

/**
 * nvmet_plan_removal - plan a part of the removal of a subsystem
 * @plan: the plan to add to
 * @nqn: the subsystem, which may be incomplete; one that rxadm did not make is kept
 * @part: the part
 */
void nvmet_plan_removal(struct steps *plan, const char *nqn, enum nvmet_part part)
{
	bool ours = nvmet_is_ours("subsystems", nqn);

	switch (part) {
	case NVMET_OFFERS:
		if (ours)
			plan_remove_offers(plan, nqn);
		break;
	case NVMET_NAMESPACES:
		if (ours)
			plan_remove_namespaces(plan, nqn);
		break;
	case NVMET_REST:
		if (ours)
			plan_remove_hosts(plan, nqn);
		/* The subsystem comes last: a stop after a kill finds the device by it. */
		plan_remove_unused(plan, nqn);
		if (ours)
			plan_remove_ours(plan, "subsystems", nqn);
		break;
	}
}

/* Plan to remove the ports and hosts of rxadm that nothing uses. */
void nvmet_plan_unused(struct steps *plan)
{
	plan_remove_unused(plan, NULL);
}

/**
 * nvmet_is_complete - find out whether an export of rxadm can be used
 * @nqn: its subsystem
 * @complete: out: whether it has a namespace, and any port offers it
 *
 * The caller must not remove the export after an error: what cannot be read may be in use.
 *
 * Return: 0 or an errno.
 */
int nvmet_is_complete(const char *nqn, bool *complete)
{
	struct nvmet_names ports;
	struct stat st;
	char *path;
	int i, err;

	*complete = false;
	err = nvmet_names_read(&ports, NVMET_ROOT "/ports");
	for (i = 0; !err && !*complete && i < ports.count; i++) {
		path = format_text(NVMET_ROOT "/ports/%s/subsystems/%s", ports.entries[i]->d_name,
				   nqn);
		*complete = !lstat(path, &st);
		if (!*complete && errno != ENOENT)
			err = errno;
		free(path);
	}
	nvmet_names_free(&ports);
	if (!*complete)
		return err;
	path = format_text(NVMET_ROOT "/subsystems/%s/namespaces/1", nqn);
	*complete = !access(path, F_OK);
	if (!*complete && errno != ENOENT)
		err = errno;
	free(path);
	return err;
}

/* All users may read it, whatever the umask is: without records, lists would wait for I/O. */
static int make_public(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		return errno;
	return chmod(path, 0755) ? errno : 0;
}

/**
 * nvmet_records_begin - make the folders of the records
 *
 * Return: 0 or an errno.
 */
int nvmet_records_begin(void)
{
	int err = make_public(NVMET_RECORDS);
	char *path;
	size_t i;

	for (i = 0; !err && i < ARRAY_SIZE(recorded); i++) {
		path = format_text(NVMET_RECORDS "/%s", recorded[i]);
		err = make_public(path);
		free(path);
	}
	return err;
}
