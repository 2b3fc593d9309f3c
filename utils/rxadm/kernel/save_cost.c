// SPDX-License-Identifier: GPL-2.0-only
/*
 * Record what the saves of a RAM disk cost, in /run/rxadm/saves-DISKSEQ: the boot ID and the
 * numbers of struct save_cost. The record is only shown, so that no error here matters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/system.h"
#include "base/text.h"
#include "kernel/disk_state.h"
#include "kernel/save_cost.h"

#define NUMBERS	" %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64

static char *boot_id(void)
{
	return first_line("/proc/sys/kernel/random/boot_id");
}

/* /run may survive a reboot, after which diskseqs are used again. */
static void read_record(const char *path, struct save_cost *cost)
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

static void fill_record(FILE *file, const void *data)
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
	read_record(path, &cost);
	if (success) {
		cost.time = time(NULL);
		cost.ms = ms;
		cost.bytes = bytes;
	} else {
		cost.failures++;
	}
	file_replace("record", path, 0600, fill_record, &cost);
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

	read_record(path, &cost);
	if (sequence && !cost.start && !run_folder_make()) {
		cost.start = time(NULL);
		file_replace("record", path, 0600, fill_record, &cost);
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
	read_record(path, cost);
	free(path);
	free(sequence);
}
