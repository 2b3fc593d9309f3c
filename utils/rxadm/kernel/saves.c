// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clone that a save of a RAM disk in use reads, and removes at its end; a record of what the
 * saves of a RAM disk cost.
 *
 * save-UUID in /run/rxadm exists before the clone with that UUID, and until it is removed. The
 * save holds a lock on the file. A file without a lock means that the save was killed: the next
 * save, and "remove --all", remove its clone.
 *
 * saves-DISKSEQ has the boot ID and the numbers of struct save_cost. It is only shown, so that no
 * error with it matters.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/file.h"
#include "base/system.h"
#include "base/text.h"
#include "device/device.h"
#include "device/filesystems.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/create.h"
#include "kernel/disk_state.h"
#include "kernel/saves.h"

#define PREFIX	"save-"

/* Return: 0 or an errno. */
static int lock_record(struct save_clone *clone)
{
	unsigned int round = 0;
	struct stat st;
	int err;

	do {
		clone->record = open(clone->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (clone->record < 0)
			return errno;
		err = flock(clone->record, LOCK_EX | LOCK_NB) || fstat(clone->record, &st) ?
		      errno : 0;
		if (!err && st.st_nlink)
			return 0;
		/* Another rxadm removes the file, which had no lock yet, or has removed it. */
		close(clone->record);
		clone->record = -1;
		if (err == EWOULDBLOCK)
			pause_for(round++, "until another rxadm has removed '%s'", clone->path);
	} while (!err || err == EWOULDBLOCK);
	return err;
}

static enum exit_code make_record(struct save_clone *clone, const uint8_t *uuid)
{
	char *text = ramdisk_uuid(uuid);
	int err = run_folder_make();

	clone->path = format_text(RUN_FOLDER "/" PREFIX "%s", text);
	free(text);
	if (!err)
		err = lock_record(clone);
	return err ? report(exit_code_of(err), "cannot create %s: %s", clone->path,
			    strerror(err)) : EXIT_OK;
}

static enum exit_code open_clone(struct save_clone *clone, const struct rxd_clone *made)
{
	enum exit_code ret;
	int err;

	clone->node = format_text("/dev/rxd%d", made->index);
	ret = ramdisk_create_wait(clone->control, made->index, clone->node);
	if (ret)
		return ret;
	clone->fd = open(clone->node, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (clone->fd < 0)
		return control_error(errno, clone->node);
	/* From now on, it cannot be removed. */
	err = control_query(clone->control, made->index, 0, &clone->query);
	if (!err && memcmp(clone->query.uuid, made->uuid, sizeof(made->uuid)))
		err = ENODEV;
	return err ? control_error(err, clone->node) : EXIT_OK;
}

/**
 * save_clone_make - clone a RAM disk in use to save it
 * @control: the control node
 * @source: the RAM disk
 * @index: its number
 * @no_freeze: freeze no file systems
 * @state: name of its state, for a record of changes since; NULL: none is wanted
 * @clone: out: to be released by save_clone_remove(), also after an error
 *
 * The caller holds signals back.
 */
enum exit_code save_clone_make(int control, const struct device *source, int index, bool no_freeze,
			       const uint8_t *state, struct save_clone *clone)
{
	struct clone_request request = {
		.source = index,
		.count = 1,
		.state = state,
		.create.flags = RXD_CLONE_READ_ONLY | RXD_CLONE_EXPENDABLE |
				(no_freeze ? RXD_CLONE_NO_FREEZE : 0),
	};
	struct filesystems files;
	struct rxd_clone made;
	enum exit_code ret;

	*clone = (struct save_clone){ .control = control, .record = -1, .fd = -1 };
	uuid_generate(request.create.uuid);
	ret = make_record(clone, request.create.uuid);
	if (ret)
		return ret;
	ret = clone_files(control, source, &request, &files);
	if (!ret)
		ret = clone_make(control, source, &request, &files, &made);
	filesystems_close(&files);
	if (ret)
		return ret;
	clone->changes = made.changes;
	clone->tracked = made.flags & RXD_CLONE_TRACK;
	return open_clone(clone, &made);
}

/**
 * save_clone_remove - remove the clone of a save
 * @clone: the clone, or what a failed save_clone_make() has left
 *
 * If this fails, the record stays, and the next save tries again.
 */
enum exit_code save_clone_remove(struct save_clone *clone)
{
	enum exit_code ret = EXIT_OK;
	uuid_t uuid;

	if (clone->fd >= 0)
		close(clone->fd);
	if (clone->record >= 0) {
		if (!uuid_parse(strrchr(clone->path, '/') + 1 + strlen(PREFIX), uuid))
			ret = ramdisk_remove_made(clone->control, uuid);
		if (!ret)
			unlink(clone->path);
		close(clone->record);
	}
	free(clone->node);
	free(clone->path);
	*clone = (struct save_clone){ .record = -1, .fd = -1 };
	return ret;
}

/* Return true if the driver has given up the clone, because memory was short. */
bool save_clone_is_lost(const struct save_clone *clone)
{
	return clone->record >= 0 && control_is_lost(clone->control, clone->query.index);
}

/**
 * save_clones_clean - remove the clones of saves that were killed
 * @control: the control node
 */
void save_clones_clean(int control)
{
	DIR *dir = opendir(RUN_FOLDER);
	struct save_clone clone;
	struct dirent *entry;
	uuid_t uuid;

	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) ||
		    uuid_parse(entry->d_name + strlen(PREFIX), uuid))
			continue;
		clone = (struct save_clone){ .control = control, .fd = -1 };
		clone.path = format_text(RUN_FOLDER "/%s", entry->d_name);
		clone.record = open(clone.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (clone.record >= 0 && !flock(clone.record, LOCK_EX | LOCK_NB)) {
			save_clone_remove(&clone);
			continue;
		}
		if (clone.record >= 0)
			close(clone.record);
		free(clone.path);
	}
	if (dir)
		closedir(dir);
}

#define NUMBERS	" %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64

static char *boot_id(void)
{
	return first_line("/proc/sys/kernel/random/boot_id");
}

/* /run may survive a reboot, after which diskseqs are used again. */
static void read_cost(const char *path, struct save_cost *cost)
{
	struct save_cost found = { 0 };
	char *text = whole_file(path);
	char *boot = boot_id();

	if (text && boot && !strncmp(text, boot, strlen(boot)) &&
	    sscanf(text + strlen(boot), NUMBERS, &found.failures, &found.time, &found.ms,
		   &found.bytes, &found.start) >= 4)
		*cost = found;
	free(boot);
	free(text);
}

static void fill_cost(FILE *file, const void *data)
{
	const struct save_cost *cost = data;
	char *boot = boot_id();

	fprintf(file, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		boot ? boot : "", cost->failures, cost->time, cost->ms, cost->bytes, cost->start);
	free(boot);
}

/**
 * save_cost_add - record a save of a RAM disk to a file
 * @sequence: its disk_sequence(), or NULL
 * @success: whether the save succeeded
 * @ms: how long it took
 * @bytes: what it wrote
 *
 * The caller excludes other saves of the disk.
 */
void save_cost_add(const char *sequence, bool success, uint64_t ms, uint64_t bytes)
{
	struct save_cost cost = { 0 };
	char *path;

	if (!sequence || run_folder_make())
		return;
	path = format_text(RUN_FOLDER "/saves-%s", sequence);
	read_cost(path, &cost);
	if (success) {
		cost.time = time(NULL);
		cost.ms = ms;
		cost.bytes = bytes;
	} else {
		cost.failures++;
	}
	file_replace("record", path, 0600, fill_cost, &cost);
	free(path);
}

/**
 * save_cost_begin - record that a RAM disk is saved regularly from now on, unless it was already
 * @disk: its device number
 */
void save_cost_begin(dev_t disk)
{
	char *sequence = disk_sequence(disk);
	char *path = format_text(RUN_FOLDER "/saves-%s", sequence ? sequence : "");
	struct save_cost cost = { 0 };

	read_cost(path, &cost);
	if (sequence && !cost.start && !run_folder_make()) {
		cost.start = time(NULL);
		file_replace("record", path, 0600, fill_cost, &cost);
	}
	free(path);
	free(sequence);
}

/**
 * save_cost_read - read what the saves of a RAM disk cost
 * @disk: its device number
 * @cost: out: all zero if there was no save
 */
void save_cost_read(dev_t disk, struct save_cost *cost)
{
	char *sequence = disk_sequence(disk);
	char *path = format_text(RUN_FOLDER "/saves-%s", sequence ? sequence : "");

	*cost = (struct save_cost){ 0 };
	read_cost(path, cost);
	free(path);
	free(sequence);
}
