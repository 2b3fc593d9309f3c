// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lock exports, end them, and remove what a killed rxadm left of them.
 *
 * An export has a lock while it is made or ended. When its namespace goes, the kernel waits for the
 * I/O of hosts, which may be waiting for a disk that hangs. A second lock, which is taken last,
 * protects what exports share: ports, hosts, and the choice of names. Nobody has it in that wait.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/common.h"
#include "base/file.h"
#include "base/text.h"
#include "base/values.h"
#include "device/nvmet.h"
#include "device/nvmet_locks.h"
#include "device/nvmet_steps.h"

/* Return: the key of the lock of an export, or of what exports share if @nqn is empty. */
static uint64_t key_of(const char *nqn)
{
	uint64_t halves[2];

	uuid_derive(nqn, (uint8_t *)halves);
	return halves[0];
}

/* Wait until no other rxadm changes what exports share. Do not wait for I/O with this lock. */
enum exit_code exports_lock(void)
{
	return lock_take_one(key_of(""), "an export");
}

void exports_unlock(void)
{
	lock_give_one(key_of(""));
}

/* Wait until no other rxadm makes or ends an export. Take this before exports_lock(). */
enum exit_code export_lock(const char *nqn)
{
	char *what = format_text("export '%s'", nqn);
	enum exit_code ret = lock_take_one(key_of(nqn), what);

	free(what);
	return ret;
}

void export_unlock(const char *nqn)
{
	lock_give_one(key_of(nqn));
}

static enum exit_code cannot_read(const char *path, int err)
{
	return report(exit_code_of(err), "cannot read the exports from %s: %s", path,
		      strerror(err));
}

static enum exit_code read_records(struct nvmet_names *names)
{
	int err = nvmet_names_read(names, NVMET_RECORDS "/subsystems");

	return err ? cannot_read(NVMET_RECORDS "/subsystems", err) : EXIT_OK;
}

/**
 * exports_read - list all exports as nvmet_exports_read() does, or report why not
 * @exports: out: to be freed by nvmet_exports_free(), also after an error
 */
enum exit_code exports_read(struct nvmet_exports *exports)
{
	int err = nvmet_exports_read(exports);

	return err ? cannot_read(NVMET_ROOT, err) : EXIT_OK;
}

static enum exit_code remove_part(const char *nqn, enum nvmet_part part)
{
	enum exit_code ret = EXIT_OK;
	struct steps plan = { 0 };
	const char *failed;
	int err;

	nvmet_plan_removal(&plan, nqn, part);
	err = steps_run(&plan, &failed);
	if (err)
		ret = report(exit_code_of(err), "NQN '%s': '%s' cannot be removed: %s", nqn,
			     failed, strerror(err));
	steps_free(&plan);
	return ret;
}

static enum exit_code lock_and_remove(const char *nqn, enum nvmet_part part)
{
	enum exit_code ret;

	if (part == NVMET_NAMESPACES)
		return remove_part(nqn, part);
	ret = exports_lock();
	if (!ret) {
		ret = remove_part(nqn, part);
		exports_unlock();
	}
	return ret;
}

/**
 * export_undo - remove an export that no port has offered, so that it has no I/O
 * @nqn: the export; the caller has its lock and that of what exports share
 */
void export_undo(const char *nqn)
{
	if (!remove_part(nqn, NVMET_OFFERS) && !remove_part(nqn, NVMET_NAMESPACES))
		remove_part(nqn, NVMET_REST);
}

/**
 * export_take_back - remove a complete or incomplete export of rxadm
 * @nqn: the export; the caller has its lock
 * @dry_run: only print what would be done
 */
enum exit_code export_take_back(const char *nqn, bool dry_run)
{
	/*
	 * When the last offer over loop goes, the kernel waits for I/O with the target locked. So
	 * remove the namespace first.
	 */
	bool loop = nvmet_is_loop(nqn);
	const enum nvmet_part parts[] = {
		loop ? NVMET_NAMESPACES : NVMET_OFFERS,
		loop ? NVMET_OFFERS : NVMET_NAMESPACES,
		NVMET_REST,
	};
	enum exit_code ret = EXIT_OK;
	struct steps plan = { 0 };
	size_t i;

	for (i = 0; !ret && i < ARRAY_SIZE(parts); i++) {
		if (dry_run)
			nvmet_plan_removal(&plan, nqn, parts[i]);
		else
			ret = lock_and_remove(nqn, parts[i]);
	}
	steps_print(&plan);
	steps_free(&plan);
	return ret;
}

/**
 * export_end - end an export of rxadm, unless it is gone
 * @nqn: the export
 * @record: see nvmet_record_id(); an export with another record is kept
 * @dry_run: only print what would be done
 */
enum exit_code export_end(const char *nqn, const char *record, bool dry_run)
{
	enum exit_code ret = export_lock(nqn);
	char *now;

	if (ret)
		return ret;
	now = nvmet_record_id("subsystems", nqn);
	/* The process that had the lock may have ended it, and there may be a new one. */
	if (now && record && !strcmp(now, record))
		ret = export_take_back(nqn, dry_run);
	free(now);
	export_unlock(nqn);
	return ret;
}

/**
 * export_clean_up - remove an export that a killed rxadm left incomplete
 * @nqn: an export of rxadm; the caller has its lock
 */
enum exit_code export_clean_up(const char *nqn)
{
	bool complete;
	int err;

	err = nvmet_is_complete(nqn, &complete);
	if (err)
		return cannot_read(NVMET_ROOT, err);
	return complete ? EXIT_OK : export_take_back(nqn, false);
}

/*
 * Return true if the end of an export of another device may wait for I/O. A namespace that is left
 * may have I/O in flight, since its removal is what waits for this.
 */
static bool may_hang(const char *nqn, const char *device)
{
	char *note = nvmet_record_note("subsystems", nqn);
	struct nvmet_names namespaces;
	bool found = false;

	if ((!device || strcmp(note, device)) && !nvmet_is_ramdisk(note)) {
		found = nvmet_names_read(&namespaces, NVMET_ROOT "/subsystems/%s/namespaces", nqn);
		found |= namespaces.count;
		nvmet_names_free(&namespaces);
	}
	free(note);
	return found;
}

static enum exit_code clean_up_one(const char *nqn, const char *device)
{
	bool taken;
	enum exit_code ret = lock_try_one(key_of(nqn), &taken);

	/* Another process is making or ending it. */
	if (!taken)
		return ret;
	if (!may_hang(nqn, device))
		ret = export_clean_up(nqn);
	export_unlock(nqn);
	return ret;
}

/**
 * exports_clean_up - remove the exports that a killed rxadm left incomplete
 * @device: wait for the I/O of hosts only if it is that of this device; NULL: only of RAM disks
 */
enum exit_code exports_clean_up(const char *device)
{
	struct nvmet_names names;
	enum exit_code ret = read_records(&names);
	int i;

	for (i = 0; !ret && i < names.count; i++)
		ret = clean_up_one(names.entries[i]->d_name, device);
	nvmet_names_free(&names);
	return ret;
}

/**
 * exports_clean_up_shared - remove the ports and hosts of rxadm that nothing uses
 *
 * The caller has exports_lock(), so that no other process has just made one to use it.
 */
enum exit_code exports_clean_up_shared(void)
{
	enum exit_code ret = EXIT_OK;
	struct steps plan = { 0 };
	const char *failed;
	int err;

	nvmet_plan_unused(&plan);
	err = steps_run(&plan, &failed);
	if (err)
		ret = report(exit_code_of(err),
			     "'%s': is a remnant of an interrupted rxadm, and cannot be removed: %s",
			     failed, strerror(err));
	steps_free(&plan);
	return ret;
}

static enum exit_code wait_for(const char *nqn)
{
	enum exit_code ret = export_lock(nqn);

	if (!ret)
		export_unlock(nqn);
	return ret;
}

/**
 * export_wait - wait until no other rxadm makes or ends an export
 * @nqn: the export, or NULL
 * @device: its device
 */
enum exit_code export_wait(const char *nqn, const char *device)
{
	enum exit_code ret = nqn ? wait_for(nqn) : EXIT_OK;
	struct nvmet_names names;
	const char *name;
	char *note;
	int i;

	if (ret)
		return ret;
	ret = read_records(&names);
	for (i = 0; !ret && i < names.count; i++) {
		name = names.entries[i]->d_name;
		note = nvmet_record_note("subsystems", name);
		if (!strcmp(note, device))
			ret = wait_for(name);
		free(note);
	}
	nvmet_names_free(&names);
	return ret;
}

/**
 * export_find_left - find out whether a killed rxadm left parts of an export
 * @nqn: the export, or NULL
 * @device: its device, or NULL
 * @busy: out: another process is making or ending the export; whether it is complete is unknown
 * @left: out: the export is incomplete
 */
enum exit_code export_find_left(const char *nqn, const char *device, bool *busy, bool *left)
{
	struct nvmet_names names;
	enum exit_code ret = read_records(&names);
	const char *name;
	bool complete;
	pid_t holder;
	int i, err = 0;
	char *note;

	*busy = false;
	*left = false;
	for (i = 0; !err && i < names.count; i++) {
		name = names.entries[i]->d_name;
		note = nvmet_record_note("subsystems", name);
		if ((nqn && !strcmp(name, nqn)) || (device && !strcmp(note, device))) {
			if (lock_is_held(key_of(name), &holder)) {
				*busy = true;
			} else {
				err = nvmet_is_complete(name, &complete);
				*left |= !complete;
			}
		}
		free(note);
	}
	nvmet_names_free(&names);
	return err ? cannot_read(NVMET_ROOT, err) : ret;
}

/*
 * Return true if the target has the device of an export of rxadm closed. The namespace goes before
 * its removal waits, so another process may still be removing it. To read the folder, unlike its
 * number of links, would wait for that. A user who may not know of locks sees the export.
 */
static bool is_closed(const char *nqn)
{
	char *path = format_text(NVMET_ROOT "/subsystems/%s/namespaces", nqn);
	struct stat st;
	bool empty = !stat(path, &st) && st.st_nlink == 2;
	pid_t holder;

	free(path);
	return empty && !lock_is_held(key_of(nqn), &holder) && holder >= 0;
}

/**
 * nvmet_exports_of - describe how a device is exported
 * @number: the device
 *
 * Return: allocated text such as "NQN (tcp 192.0.2.1:4420)", or NULL if it is not. If some exports
 * cannot be read, the text says so: the device may be in use.
 */
char *nvmet_exports_of(dev_t number)
{
	const struct nvmet_export *export;
	struct nvmet_exports exports;
	char *text = NULL;
	size_t i;
	int err;

	err = nvmet_exports_read(&exports);
	if (err)
		append_text(&text, "unknown (" NVMET_ROOT ": %s)", strerror(err));
	for (i = 0; i < exports.count; i++) {
		export = &exports.list[i];
		if (nvmet_export_is_of(export, number) &&
		    !(export->ours && is_closed(export->nqn)))
			append_text(&text, "%s%s (%s)", text ? ", " : "", export->nqn,
				    export->address ? export->address : "no port");
	}
	nvmet_exports_free(&exports);
	return text;
}
