// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keep the file of an image from growing: punch out what no generation needs, or write it again.
 * The image is whole before and after each step, so a failure is no error of the save.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/signals.h"
#include "copy/file.h"
#include "image/append.h"
#include "image/compact.h"
#include "image/generations.h"
#include "image/log_file.h"

/* Return: whether the head was written and synced. */
static bool put_head(struct compact *compact)
{
	compact->head.sequence++;
	return !append_head(compact->fd, &compact->head);
}

/* No generation can be loaded that needs what is damaged: the next update must not need it. */
static void give_up_record(struct compact *compact, const char *error)
{
	struct log_head *head = &compact->head;

	report(EXIT_OK,
	       "note: file '%s': %s; the next update saves the whole disk", compact->name, error);
	memset(head->generations[head->count - 1].state, 0, LOG_STATE);
}

static void tell_failure(const struct compact *compact, int err)
{
	report(EXIT_OK, "note: file '%s': is saved, but %s: %s", compact->name,
	       compact->rewritten.st_ino ? "its folder cannot be synced" :
					   "cannot be made shorter", strerror(err));
}

static bool has_space(const struct compact *compact)
{
	struct statvfs fs;

	return fstatvfs(compact->fd, &fs) ||
	       fs.f_bavail * (uint64_t)fs.f_frsize >= compact->head.live;
}

static void rewrite(struct compact *compact)
{
	struct rewrite rewrite = {
		.from = compact->fd,
		.level = compact->level,
		.signals = compact->signals,
		.mode = compact->mode == PROGRESS_JSON ? PROGRESS_NONE : compact->mode,
		.head = compact->head,
	};
	enum copy_result done = COPY_ERROR;
	struct output output;
	struct stat st;
	int err;

	if (!has_space(compact)) {
		tell_failure(compact, ENOSPC);
		return;
	}
	err = output_open(&output, compact->path, true);
	if (!err) {
		st = output.st;
		rewrite.to = output.fd;
		done = rewrite_image(&rewrite);
		compact->written = rewrite.written;
		err = done == COPY_NO_MEMORY ? ENOMEM : rewrite.err;
		/* Another file has the path: leave it there. */
		if (done == COPY_DONE && !log_has_path(compact->fd, compact->path))
			done = COPY_INTERRUPTED;
		if (done == COPY_DONE)
			err = output_commit(&output, 0600, true);
		/* The file is closed once it has the path, also if its folder cannot be synced. */
		if (done == COPY_DONE && output.fd < 0)
			compact->rewritten = st;
		compact->signal = rewrite.signal;
		output_discard(&output);
	}
	if (rewrite.error) {
		give_up_record(compact, rewrite.error);
		put_head(compact);
	} else if (err) {
		tell_failure(compact, err);
	}
	free(rewrite.error);
}

/**
 * compact_image - look whether the file of an image has become too long, and make it shorter
 * @compact: the image
 *
 * If a step fails, this is tried again after some more was appended.
 */
void compact_image(struct compact *compact)
{
	struct log_head *head = &compact->head;
	char *error = NULL;
	uint64_t taken;
	bool clean;

	/* What is punched out, the older head must not need either. */
	if (!generations_need_cleaning(head) || !put_head(compact))
		return;
	clean = generations_clean(compact->fd, head, signals_pending, &taken, &error);
	if (!clean && !signals_pending())
		head->unneeded = 0;
	if (error)
		give_up_record(compact, error);
	free(error);
	if (put_head(compact) && clean && generations_need_rewriting(head, taken))
		rewrite(compact);
}
