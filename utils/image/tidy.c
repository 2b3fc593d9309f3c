// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keep the file of an image from growing: punch out what no generation needs, or write it again.
 * The image is whole before and after each step, so a failure is no error of the save.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "copy/file.h"
#include "image/append.h"
#include "image/generations.h"
#include "image/log_file.h"
#include "image/rewrite.h"
#include "image/tidy.h"

static void rewrite(struct tidy *tidy)
{
	struct rewrite rewrite = {
		.from = tidy->fd,
		.level = tidy->level,
		.signals = tidy->signals,
		.mode = tidy->mode == PROGRESS_JSON ? PROGRESS_NONE : tidy->mode,
		.head = tidy->head,
	};
	enum copy_result done = COPY_ERROR;
	struct output output;
	struct stat st;
	int err;

	err = output_open(&output, tidy->path, true);
	if (!err) {
		st = output.st;
		rewrite.to = output.fd;
		done = rewrite_image(&rewrite);
		err = rewrite.err;
		/* Another file has the path: leave it there. */
		if (done == COPY_DONE && !log_has_path(tidy->fd, tidy->path))
			done = COPY_INTERRUPTED;
		if (done == COPY_DONE)
			err = output_commit(&output, 0600, true);
		if (done == COPY_DONE && !err)
			tidy->rewritten = st;
		tidy->signal = rewrite.signal;
		output_discard(&output);
	}
	if (rewrite.error || err)
		report(EXIT_OK, "note: file '%s': is saved, but cannot be made shorter: %s",
		       tidy->name, rewrite.error ? rewrite.error : strerror(err));
	free(rewrite.error);
}

/* No generation can be loaded that needs what is damaged: the next update must not need it. */
static void give_up_record(struct tidy *tidy, const char *error)
{
	struct log_head *head = &tidy->head;

	report(EXIT_OK,
	       "note: file '%s': %s; the next update saves the whole disk", tidy->name, error);
	memset(head->generations[head->count - 1].state, 0, LOG_STATE);
	head->sequence++;
	append_head(tidy->fd, head);
}

/**
 * tidy_image - look whether the file of an image has become too long, and make it shorter
 * @tidy: the image
 */
void tidy_image(struct tidy *tidy)
{
	struct log_head *head = &tidy->head;
	char *error = NULL;
	bool clean;

	clean = generations_need_cleaning(head) &&
		generations_clean(tidy->fd, head, signals_pending, &error);
	if (error)
		give_up_record(tidy, error);
	free(error);
	if (!clean)
		return;
	/* Both heads now have the same generations, whose data is there. */
	head->sequence++;
	if (!append_head(tidy->fd, head) && generations_need_rewriting(tidy->fd, head))
		rewrite(tidy);
}
