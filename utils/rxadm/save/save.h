/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SAVE_SAVE_H
#define RXADM_SAVE_SAVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "copy/progress.h"
#include "kernel/disk_state.h"

struct load_args;
struct save_source;

/**
 * struct save_args - a RAM disk to be saved
 * @device: the disk, as the user named it
 * @file: the image; an old one is replaced once the new one is complete
 * @stream: write to standard output instead
 * @raw: write a plain disk image; excludes @compress and @keep
 * @compress: compress with zstd
 * @level: compression level
 * @progress: how to show the progress
 * @no_freeze: freeze no file systems of a disk in use
 * @update: write only what has changed since @file was written, if @file can be updated, and
 *	otherwise an image that can be; excludes @stream, @raw, @keep and @apart
 * @generations: with @update: how many states the image keeps, 1 to IMAGE_GENERATIONS_MAX
 * @keep: refuse a disk in use; replace only an image that this disk was loaded from or saved
 *	to; save beside anything else
 * @apart: with @keep: always save beside the file; out: set if @file can be no image
 * @keep_old: with @keep: do not lose the generations of an image that is replaced
 * @terse: with @update: say that nothing has changed only with --verbose
 * @own: replace only an image that this disk was loaded from or saved to, and refuse any other;
 *	what the caller has checked may be different after a wait for other saves
 * @folder: with @keep or @own: the file system that the image was on, or is expected on; 0: any
 * @instead: @file is not the image that should have been saved: the save counts as failed
 * @beside: out: with @keep or @own: allocated path of the image; NULL if it is @file
 * @old: out: with @keep_old: allocated path of the image that was replaced; NULL: none
 * @seen: out: what was saved
 * @written: out: bytes written to the image
 * @signal: out: the signal that interrupted it, or 0
 */
struct save_args {
	const char *device;
	const char *file;
	bool stream;
	bool raw;
	bool compress;
	int level;
	enum progress_mode progress;
	bool no_freeze;
	bool update;
	unsigned int generations;
	bool keep;
	bool apart;
	bool keep_old;
	bool terse;
	bool own;
	dev_t folder;
	bool instead;
	char *beside;
	char *old;
	struct disk_seen seen;
	uint64_t written;
	int signal;
};

enum exit_code image_save(struct save_args *args);
enum exit_code image_load(struct load_args *args, char **path);
enum exit_code update_save(struct save_args *args, struct save_source *source);

#endif /* RXADM_SAVE_SAVE_H */
