// SPDX-License-Identifier: GPL-2.0-only
/*
 * The source of a save: a RAM disk that is claimed during the save, or a clone of one in use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "copy/file.h"
#include "device/filesystems.h"
#include "kernel/attributes.h"
#include "kernel/control.h"
#include "kernel/disk_state.h"
#include "kernel/ramdisk.h"
#include "save/disk_access.h"
#include "save/save_source.h"

/* Count the writes and discards that the disk has completed. */
static uint64_t disk_changes(const struct device *dev)
{
	struct iostat io = { 0 };

	iostat_read(dev->number, &io);
	return io.requests[IO_WRITE] + io.requests[IO_DISCARD];
}

/* Return: 0 or an errno. */
static int switch_statistics(const struct device *dev, const char *value)
{
	char *path = format_text("/sys/dev/block/%u:%u/queue/iostats", major(dev->number),
				 minor(dev->number));
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	free(path);
	if (fd < 0)
		return errno;
	if (write(fd, value, strlen(value)) < 0)
		err = errno;
	close(fd);
	return err;
}

/*
 * If the driver does not count changes, enable the I/O statistics of the disk: the kernel
 * counts writes only while they are on. Call this before disk_claim(), so that writes by all
 * later openers are counted.
 */
static enum exit_code disk_statistics_on(const struct device *dev, bool *were_off)
{
	char *generation = disk_generation(dev->number);
	char *value = generation ? NULL : sysfs_read(dev->number, "queue/iostats");
	int err = 0;

	free(generation);
	*were_off = value && !strcmp(value, "0");
	free(value);
	if (*were_off)
		err = switch_statistics(dev, "1");
	return err ? report(exit_code_of(err),
			    "%s '%s': its I/O statistics, which are needed to detect writes during the save, cannot be enabled: %s",
			    dev->what, dev->path, strerror(err)) : EXIT_OK;
}

static void disk_statistics_off(const struct device *dev)
{
	switch_statistics(dev, "0");
}

/* Claim the disk, with its I/O statistics enabled if they are needed. */
static enum exit_code claim(struct save_source *source, bool may_clone)
{
	bool off_again = false;
	enum exit_code ret;

	ret = disk_statistics_on(&source->dev, &source->were_off);
	if (ret)
		return ret;
	ret = disk_claim(source->control, &source->dev, source->index, O_RDONLY, &source->query,
			 &source->fd, may_clone ? &source->in_use : NULL);
	if ((!ret || source->in_use) && source->query.state & RXD_STATE_LOST)
		return control_clone_error(EIO, &source->dev, "saved");
	if (source->in_use)
		return EXIT_OK;
	/* An earlier save, which the claim waited for, may have disabled them again. */
	if (!ret)
		ret = disk_statistics_on(&source->dev, &off_again);
	source->were_off |= off_again;
	return ret;
}

/**
 * save_source_claim - find the RAM disk to be saved, and open it if it is not in use
 * @source: out: to be released by save_source_release(), also after an error
 * @control: the control node
 * @name: the disk, as the user named it
 * @may_clone: a disk in use is not refused, unless it is a cache
 * @to_file: wait for other saves of the disk to files
 * @guarded: the caller checks which image the disk may replace
 */
enum exit_code save_source_claim(struct save_source *source, int control, const char *name,
				 bool may_clone, bool to_file, bool guarded)
{
	enum exit_code ret;

	*source = (struct save_source){
		.control = control,
		.clone = { .record = -1, .fd = -1 },
		.images = -ENODEV,
		.guarded = guarded,
		.fd = -1,
	};
	save_clones_clean(control);
	ret = device_find_rxd("device", name, &source->dev, &source->index);
	if (ret)
		return ret;
	source->found = true;
	source->sequence = disk_sequence(source->dev.number);
	if (!source->sequence)
		return control_error(ENODEV, source->dev.path);
	source->images = disk_images_open(source->sequence);
	/* A command that empties the disk now may be killed in the waits that follow. */
	if (!guarded)
		ret = disk_check_emptying(&source->dev, source->sequence);
	/* The last save to end must be of the newest state. */
	if (!ret && to_file)
		ret = disk_lock(&source->dev, source->sequence, DISK_LOCK_SAVE);
	source->locked = to_file && !ret;
	return ret ? ret : claim(source, may_clone);
}

/**
 * save_source_check_place - report an image on the disk itself, which would be lost with it
 * @source: result of save_source_claim()
 * @file: path of the image
 */
enum exit_code save_source_check_place(const struct save_source *source, const char *file)
{
	enum exit_code ret = EXIT_OK;
	struct output place;

	/* A disk that is not in use has no files. The save reports what is wrong with the path. */
	if (!source->in_use || output_find(&place, file, false))
		return EXIT_OK;
	if (filesystems_have(&source->dev, place.folder_fd))
		ret = report(EXIT_PARAMETERS,
			     "file '%s': lies on the RAM disk '%s' itself, or on a device that uses it, and may be lost with it; give a path on another file system",
			     file, source->dev.path);
	output_discard(&place);
	return ret;
}

/* Was the disk emptied or loaded since the save began? The user has not seen what it holds now. */
static enum exit_code check_emptied(const struct save_source *source)
{
	if (source->guarded || !disk_images_are_old(source->sequence, source->images))
		return EXIT_OK;
	return report(EXIT_BUSY, "%s '%s': was emptied or loaded meanwhile; nothing was saved",
		      source->dev.what, source->dev.path);
}

static enum exit_code read_clone(struct save_source *source, bool no_freeze, const uint8_t *state)
{
	const struct save_clone *clone = &source->clone;
	enum exit_code ret;

	source->cloned = true;
	/* A disk that nobody else has open has no file system that must be frozen. */
	ret = save_clone_make(source->control, &source->dev, source->index,
			      no_freeze || !source->in_use, state, &source->clone);
	if (!ret)
		ret = disk_check_same(&source->dev, source->sequence);
	/* A load may have begun, and may have ended by now. */
	if (!ret)
		ret = check_emptied(source);
	if (ret)
		return ret;
	/* The disk itself can be used from now on. */
	if (source->fd >= 0)
		close(source->fd);
	/* The image is of the source. */
	source->query.size = clone->query.size;
	source->query.mem_limit = clone->query.mem_limit;
	source->fd = clone->fd;
	source->generation = format_text("%llu", (unsigned long long)clone->changes);
	return EXIT_OK;
}

/* An image of half of the data must not replace the image that is being loaded. */
static enum exit_code unfinished_error(const struct save_source *source)
{
	const struct device *dev = &source->dev;

	if (source->in_use)
		return report(EXIT_BUSY,
			      "%s '%s': is being loaded, or was not loaded completely, and cannot be saved",
			      dev->what, dev->path);
	return report(EXIT_BUSY,
		      "%s '%s': was not loaded completely, and cannot be saved to a file; 'rxadm save %s -' writes what it holds, 'rxadm clear' empties it",
		      dev->what, dev->path, dev->path);
}

/**
 * save_source_read - prepare to read the disk, or a clone of it
 * @source: result of save_source_claim()
 * @no_freeze: freeze no file systems
 * @state: name of its state, to read a clone in any case, with the record of changes; or NULL
 *
 * The caller holds signals back until save_source_end().
 */
enum exit_code save_source_read(struct save_source *source, bool no_freeze, const uint8_t *state)
{
	enum exit_code ret;

	/* A command that empties the disk now began after the record of images was opened. */
	ret = check_emptied(source);
	if (ret)
		return ret;
	if ((source->in_use || source->locked) && !source->apart &&
	    disk_is_unfinished(source->query.uuid))
		return unfinished_error(source);
	if (source->in_use || state)
		return read_clone(source, no_freeze, state);
	source->generation = disk_generation(source->dev.number);
	source->changes = disk_changes(&source->dev);
	return EXIT_OK;
}

/*
 * Detect writes by processes that opened the disk without O_EXCL. I/O statistics do not count
 * writes in flight; the generation does, if the module has one. A clone does not change.
 */
bool save_source_unchanged(const struct save_source *source)
{
	char *now;
	bool same;

	if (source->cloned)
		return true;
	now = disk_generation(source->dev.number);
	same = !now || !source->generation || !strcmp(now, source->generation);
	free(now);
	return same && disk_changes(&source->dev) == source->changes;
}

/* Return: why nothing more can be read, as allocated text, if the clone was given up; or NULL. */
char *save_source_lost(const struct save_source *source)
{
	if (!save_clone_is_lost(&source->clone))
		return NULL;
	return copy_text("memory is short, so its clone was given up during the save");
}

/* Remove the clone, if any. */
enum exit_code save_source_end(struct save_source *source)
{
	if (!source->cloned)
		return EXIT_OK;
	/* Of a clone that was not made, the disk is open. */
	if (source->clone.fd >= 0 && source->fd == source->clone.fd)
		source->fd = -1;
	return save_clone_remove(&source->clone);
}

void save_source_release(struct save_source *source)
{
	/* Before close(), after which another save may claim the disk and enable them. */
	if (source->were_off)
		disk_statistics_off(&source->dev);
	if (source->fd >= 0)
		close(source->fd);
	if (source->images >= 0)
		close(source->images);
	if (source->locked)
		disk_unlock(source->sequence, DISK_LOCK_SAVE);
	if (source->found)
		device_release(&source->dev);
	free(source->sequence);
	free(source->generation);
}
