// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plans for sections [ramdisk NAME].
 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "config/config.h"
#include "config/plan.h"
#include "copy/file.h"
#include "device/contents.h"
#include "image/format.h"
#include "image/load_job.h"
#include "image/names.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"
#include "save/disk_access.h"
#include "save/save.h"

#define SAVE_ROUNDS	4
#define EMPTYING_ROUNDS	200	/* of pause_briefly(): ten seconds */

static const char *value(const struct plan *plan, enum config_key key)
{
	return plan->section->values[key].text;
}

static char *disk_path(const struct plan *plan)
{
	return format_text("/dev/rxd%d", plan->disk.index);
}

static char *mkfs_path(const char *fs)
{
	char *name = format_text("mkfs.%s", fs);
	char *path = program_find(name);

	free(name);
	return path;
}

static enum exit_code check_file_system(const char *fs)
{
	char *program = mkfs_path(fs);
	enum exit_code ret = EXIT_OK;

	if (!program)
		ret = report(EXIT_DEVICE,
			     "fs '%s': there is no program mkfs.%s; install the package that has it, or choose another file system",
			     fs, fs);
	free(program);
	return ret;
}

/* Create a file system only on an empty disk. A loaded image may hold no data. */
static enum exit_code make_file_system(struct plan *plan)
{
	const char *fs = value(plan, CONFIG_FS);
	enum exit_code ret = EXIT_OK;
	char *program, *device;
	bool empty = false;
	char *reason;

	if (plan_find_disk(plan))
		ret = disk_is_empty(&plan->disk, &empty);
	else
		ret = plan->query_error;
	if (!empty)
		return ret;
	/* With an image, the plan did not know that this is needed. */
	ret = check_file_system(fs);
	if (ret)
		return ret;
	program = mkfs_path(fs);
	device = disk_path(plan);
	reason = program_run((char *const []){ program, device, NULL });
	if (reason)
		ret = report(EXIT_DEVICE, "fs '%s': '%s %s' failed: %s", fs, program, device,
			     reason);
	free(reason);
	free(device);
	free(program);
	return ret;
}

static enum exit_code load_image(struct plan *plan)
{
	char *device = disk_path(plan);
	struct load_args args = {
		.file = value(plan, CONFIG_IMAGE),
		.into = device,
		.exported = plan_is_exported(plan),
		.progress = PROGRESS_NONE,
	};
	enum exit_code ret;
	char *path;

	ret = image_load(&args, &path);
	if (!ret)
		signals_allow();
	plan->signal = args.signal;
	free(device);
	if (!ret && value(plan, CONFIG_FS))
		ret = make_file_system(plan);
	return ret;
}

/* Plan to load the image into a new disk, or to create a file system on it. */
static enum exit_code plan_contents(struct plan *plan)
{
	const char *image = value(plan, CONFIG_IMAGE);
	const char *fs = value(plan, CONFIG_FS);
	enum exit_code ret;

	if (image && !access(image, F_OK)) {
		plan_step(plan, load_image, "load '%s'", image);
	} else if (image && errno != ENOENT) {
		return report(exit_code_of(errno), "image '%s': %s", image, strerror(errno));
	} else if (fs) {
		ret = check_file_system(fs);
		if (ret)
			return ret;
		plan_step(plan, make_file_system, "create a file system %s", fs);
	}
	return EXIT_OK;
}

/* Return: the folder of an image. A save replaces the target of a link, so resolve links. */
static char *folder_of(const char *image)
{
	char *real = realpath(image, NULL);
	char *copy = real ? real : copy_text(image);
	char *folder = copy_text(dirname(copy));

	free(copy);
	return folder;
}

static enum exit_code place_error(const char *what, const char *image, int err)
{
	enum exit_code ret;
	char *folder;

	if (err == ENOTSUP || err == ENOLINK || err == EISDIR)
		return file_replace_error(what, image, err);
	folder = folder_of(image);
	ret = report(exit_code_of(err), "%s '%s': cannot be saved in the directory '%s': %s", what,
		     image, folder, strerror(err));
	free(folder);
	return ret;
}

/* Return: the largest size of an image: uncompressed, each frame full of one-page extents. */
static uint64_t room_for(const struct plan *plan)
{
	uint64_t size = plan->section->disk.size;
	uint64_t limit = plan->section->disk.mem_limit;
	uint64_t data = limit && limit < size ? limit : size;

	return data + (data / IMAGE_PAGE / IMAGE_EXTENTS_MAX + 3) * IMAGE_BLOCK;
}

/*
 * Report what an earlier stop has saved beside the image. The user must decide which of the two
 * to keep.
 */
static void tell_of_beside(const char *image, const struct output *output)
{
	const struct stat *old = &output->old;
	struct image_beside beside;
	char *path, *count;
	bool newer;
	int err;

	err = image_find_beside(output->folder_fd, output->name, &beside);
	if (err)
		report(EXIT_OK, "note: image '%s': its directory cannot be read: %s", image,
		       strerror(err));
	if (!beside.count)
		return;
	newer = image_beside_is_newer(&beside, &old->st_mtim);
	path = image_beside_path(output->folder_fd, beside.name);
	count = beside.count > 1 ? format_text(" (the newest of %zu)", beside.count) :
				   copy_text("");
	report(EXIT_OK,
	       "note: image '%s': %s'%s'%s was saved beside it%s; inspect it with 'rxadm load --uuid random FILE'; rename it to '%s' to load it at the next start, or remove it",
	       image, old->st_mode ? "" : "does not exist, but ", path, count,
	       !old->st_mode ? "" : newer ? " and is newer" : " and is older", image);
	free(count);
	free(path);
	free(beside.name);
}

/*
 * Return: the allocated command that saves the disk to its image in spite of that. An update keeps
 * generations, but is refused for an image of another disk.
 */
static char *save_command(const struct plan *plan, const struct output *output, bool *update)
{
	const struct config_section *section = plan->section;
	const char *image = value(plan, CONFIG_IMAGE);
	char *compress = NULL, *command;
	int index = plan->disk.index;

	*update = (section->autosave || section->keep) &&
		  image_is_of(output->folder_fd, output->name, plan->disk.uuid);
	if (section->compress)
		compress = format_text(" --compress zstd:%d", section->compress);
	command = *update ? format_text("rxadm save --update --keep %u%s /dev/rxd%d %s",
					section->keep ? section->keep : 1,
					compress ? compress : "", index, image) :
			    format_text("rxadm save%s /dev/rxd%d %s", compress ? compress : "",
					index, image);
	free(compress);
	return command;
}

/* Report an image that the next stop will not replace. */
static void tell_of_other(const struct plan *plan, const char *image, const struct output *output)
{
	char *sequence, *command;
	bool update, may;

	if (!plan->has_disk || !output->old.st_mode)
		return;
	sequence = disk_sequence(makedev(plan->disk.major, plan->disk.minor));
	may = image_may_be_replaced(sequence, output->folder_fd, output->name);
	free(sequence);
	if (may)
		return;
	command = save_command(plan, output, &update);
	report(EXIT_OK,
	       "note: image '%s': is not known as an earlier state of /dev/rxd%d, so a stop saves the RAM disk as '%s.new-DATE'; to %s the image, run '%s'",
	       image, plan->disk.index, image, update ? "update" : "replace", command);
	free(command);
}

/*
 * Check that a new image can be written beside the old one, which is kept until the new one is
 * complete. Too little space is only reported: most disks are not full, and images can be
 * compressed.
 */
static enum exit_code check_room(struct plan *plan, const char *image)
{
	char left[SIZE_TEXT_MAX], needed[SIZE_TEXT_MAX];
	const char *what = plan->has_disk ? "note: image" : "image";
	struct output output;
	struct statvfs fs;
	struct stat st;
	uint64_t room;
	int err;

	/* Report now what a later save would refuse. */
	err = output_find(&output, image, false);
	if (!err && (fstat(output.folder_fd, &st) || fstatvfs(output.folder_fd, &fs) ||
		     faccessat(output.folder_fd, ".", W_OK | X_OK, 0)))
		err = errno;
	if (!err) {
		tell_of_beside(image, &output);
		tell_of_other(plan, image, &output);
	}
	output_discard(&output);
	if (err)
		return place_error(what, image, err);
	plan->folder = st.st_dev;
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (room < room_for(plan))
		report(EXIT_OK,
		       "note: image '%s': its file system has %s free, and a new image may need %s beside the old one; free some space, or set a smaller size or mem-limit",
		       image, size_format(room, left), size_format(room_for(plan), needed));
	return EXIT_OK;
}

/* Remove a disk that was saved. If a program has written to it since, save it again. */
static enum exit_code remove_saved(struct plan *plan)
{
	const struct disk_seen *saved = plan->saved.diskseq ? &plan->saved : NULL;
	unsigned int round;
	enum exit_code ret;
	bool changed;

	for (round = 1;; round++) {
		plan->go_on = false;
		changed = false;
		ret = plan_remove_same(plan, saved, &changed);
		if (!changed)
			return ret;
		if (!plan->save || round == SAVE_ROUNDS)
			break;
		ret = plan->save(plan);
		if (ret && !plan->go_on)
			return ret;
		plan->late = plan->late ? plan->late : ret;
	}
	return report(EXIT_BUSY,
		      "RAM disk '/dev/rxd%d': was not removed: a program wrote to it after it was checked or saved (attempts: %u); stop that program first",
		      plan->disk.index, round);
}

/* Note the state of the disk for remove_saved(), and then find out whether it holds data. */
static enum exit_code look_again(struct plan *plan, bool *empty)
{
	const dev_t disk = makedev(plan->disk.major, plan->disk.minor);
	char *sequence = disk_sequence(disk), *generation = disk_generation(disk);

	disk_note(sequence, generation, &plan->saved);
	free(generation);
	free(sequence);
	*empty = true;
	return plan_find_disk(plan) ? disk_is_empty(&plan->disk, empty) : plan->query_error;
}

/*
 * After a kill, another process may still be emptying the disk, and a user may be loading it: wait
 * until that is done. If the search for the disk fails, set query_error.
 */
static bool is_unfinished(struct plan *plan)
{
	unsigned int round = 0;

	while (plan->has_disk && disk_is_unfinished(plan->uuid)) {
		if (!(plan->disk.state & RXD_STATE_OPEN) || round == EMPTYING_ROUNDS)
			return true;
		pause_for(round++, "until '/dev/rxd%d' is closed", plan->disk.index);
		plan_find_disk(plan);
	}
	return false;
}

/* A disk that was not filled completely is of no use unless it was written to since. */
static enum exit_code plan_unfinished(struct plan *plan,
				      enum exit_code (*rescue)(struct plan *plan))
{
	const char *image = value(plan, CONFIG_IMAGE);
	enum exit_code ret;
	struct device dev;
	bool empty = true;
	int index;

	plan->save = image ? rescue : NULL;
	if (image) {
		ret = plan_device(plan, &dev, &index);
		if (ret)
			return ret;
		ret = control_idle_check(plan->control, index, &dev);
		device_release(&dev);
		if (!ret)
			ret = look_again(plan, &empty);
		if (ret)
			return ret;
	}
	if (!empty)
		plan_step(plan, rescue,
			  "save /dev/rxd%d, which was not started completely, beside '%s'",
			  plan->disk.index, image);
	return EXIT_OK;
}

/*
 * Without an image, keep a disk that another program may have used since: it holds data, and a file
 * system if the section has one. A killed mkfs leaves data, but no file system that is complete.
 */
static enum exit_code may_be_in_use(struct plan *plan, bool *used)
{
	struct device dev = { .what = "RAM disk", .path = disk_path(plan) };
	bool empty;
	enum exit_code ret = look_again(plan, &empty);

	*used = !ret && !empty;
	if (*used && value(plan, CONFIG_FS))
		ret = contents_find(&dev, used);
	free(dev.path);
	return ret;
}

/* Refuse an image that cannot be loaded before a disk is created for it. */
static enum exit_code check_image(struct plan *plan, const char *image)
{
	const uint32_t wanted = plan->section->disk.logical_block_size;
	const uint32_t block = wanted ? wanted : 512;
	const struct image_header header = image_peek(image);

	plan->image_size = header.size;
	if (header.size > plan_size(plan))
		return report(EXIT_PARAMETERS,
			      "size '%s' (%llu bytes): is less than that of the disk in the image '%s' (%llu bytes); increase it",
			      plan->section->disk.size_text, (unsigned long long)plan_size(plan),
			      image, (unsigned long long)header.size);
	if (header.size && header.logical_block_size && header.logical_block_size != block)
		return report(EXIT_PARAMETERS,
			      "logical-block-size '%u': the disk in the image '%s' has logical blocks of %u bytes; set it to that",
			      block, image, header.logical_block_size);
	return EXIT_OK;
}

/**
 * plan_start_ramdisk - plan to create or change a RAM disk as its section says
 * @plan: the plan
 */
enum exit_code plan_start_ramdisk(struct plan *plan)
{
	const char *image = value(plan, CONFIG_IMAGE);
	const char *fs = value(plan, CONFIG_FS);
	bool empty = false, used = false;
	enum exit_code ret;

	if (is_unfinished(plan)) {
		ret = plan_unfinished(plan, plan_save_unfinished);
		if (!ret && plan->has_disk && !image)
			ret = may_be_in_use(plan, &used);
		if (ret)
			return ret;
		if (used && !plan->dry_run)
			disk_unfinished_end(plan->uuid);
		if (!used && plan->has_disk) {
			plan_step(plan, remove_saved,
				  "remove /dev/rxd%d, which was not started completely",
				  plan->disk.index);
			plan->steps[plan->count - 1].frees = true;
		}
		plan->has_disk = used;
	}
	if (plan->query_error)
		return plan->query_error;
	/* Ignore an error if the disk exists: if its service failed, nothing would be saved. */
	ret = image ? check_room(plan, image) : EXIT_OK;
	if (ret && !plan->has_disk)
		return ret;
	if (!plan->has_disk) {
		ret = image ? check_image(plan, image) : EXIT_OK;
		if (!ret)
			ret = plan_disk(plan);
		return ret ? ret : plan_contents(plan);
	}
	ret = plan_disk(plan);
	if (!ret && fs && !(plan->disk.state & RXD_STATE_OPEN))
		ret = disk_is_empty(&plan->disk, &empty);
	if (!ret && empty) {
		ret = check_file_system(fs);
		plan_step(plan, make_file_system, "create a file system %s", fs);
	}
	return ret;
}

static enum exit_code check_unused(const struct plan *plan)
{
	char *users = users_left(makedev(plan->disk.major, plan->disk.minor), &plan->ended);
	enum exit_code ret = EXIT_OK;

	if (users)
		ret = report(EXIT_BUSY,
			     "RAM disk '/dev/rxd%d': is in use (%s); release it there first",
			     plan->disk.index, users);
	free(users);
	return ret;
}

/**
 * plan_stop_ramdisk - plan to save a RAM disk and to remove it
 * @plan: the plan
 */
enum exit_code plan_stop_ramdisk(struct plan *plan)
{
	const char *image = value(plan, CONFIG_IMAGE);
	enum exit_code ret;

	if (!plan->has_disk)
		return EXIT_OK;
	ret = check_unused(plan);
	if (ret && image && !disk_is_unfinished(plan->uuid)) {
		plan->late = ret;
		plan_step(plan, plan_save_used, "save /dev/rxd%d, which is in use, to '%s'",
			  plan->disk.index, image);
		return EXIT_OK;
	}
	if (ret)
		return ret;
	if (is_unfinished(plan))
		ret = plan_unfinished(plan, plan_save_image);
	else if (!plan->has_disk)
		ret = plan->query_error;
	else if (image)
		plan_step(plan, plan->save = plan_save_image, "save /dev/rxd%d to '%s'",
			  plan->disk.index, image);
	if (!ret && plan->has_disk)
		plan_step(plan, remove_saved, "remove /dev/rxd%d", plan->disk.index);
	return ret;
}
