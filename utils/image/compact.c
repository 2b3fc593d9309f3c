// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keep the file of an image from growing: punch out what no generation needs, or write it again.
 * The image is whole before and after each step, so a failure is no error of the save.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/signals.h"
#include "copy/file.h"
#include "image/append.h"
#include "image/compact.h"
#include "image/generations.h"
#include "image/log_file.h"
#include "image/rewrite.h"

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

	err = output_open(&output, compact->path, true);
	if (!err) {
		st = output.st;
		rewrite.to = output.fd;
		done = rewrite_image(&rewrite);
		err = rewrite.err;
		/* Another file has the path: leave it there. */
		if (done == COPY_DONE && !log_has_path(compact->fd, compact->path))
			done = COPY_INTERRUPTED;
		if (done == COPY_DONE)
			err = output_commit(&output, 0600, true);
		if (done == COPY_DONE && !err)
			compact->rewritten = st;
		compact->signal = rewrite.signal;
		output_discard(&output);
	}
	if (rewrite.error || err) {
		report(EXIT_OK, "note: file '%s': is saved, but cannot be made shorter: %s",
		       compact->name, rewrite.error ? rewrite.error : strerror(err));
		generations_keep_all(compact->fd, &compact->head);
		compact->head.sequence++;
		append_head(compact->fd, &compact->head);
	}
	free(rewrite.error);
}

/* No generation can be loaded that needs what is damaged: the next update must not need it. */
static void give_up_record(struct compact *compact, const char *error)
{
	struct log_head *head = &compact->head;

	report(EXIT_OK,
	       "note: file '%s': %s; the next update saves the whole disk", compact->name, error);
	memset(head->generations[head->count - 1].state, 0, LOG_STATE);
	head->sequence++;
	append_head(compact->fd, head);
}

/**
 * compact_image - look whether the file of an image has become too long, and make it shorter
 * @compact: the image
 */
void compact_image(struct compact *compact)
{
	struct log_head *head = &compact->head;
	char *error = NULL;
	bool clean;

	clean = generations_need_cleaning(compact->fd, head) &&
		generations_clean(compact->fd, head, signals_pending, &error);
	if (error)
		give_up_record(compact, error);
	free(error);
	if (!clean)
		return;
	/* Both heads now have the same generations, whose data is there. */
	head->sequence++;
	if (!append_head(compact->fd, head) && generations_need_rewriting(compact->fd, head))
		rewrite(compact);
}
