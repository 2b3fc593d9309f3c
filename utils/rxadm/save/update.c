// SPDX-License-Identifier: GPL-2.0-only
/*
 * Saving what has changed on a RAM disk to an image that has earlier states.
 *
 * The clone that is read has the record of changes since an earlier save. If anything fails, or
 * rxadm is killed, the record goes back to the disk with the clone's removal.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/file.h"
#include "base/size.h"
#include "base/system.h"
#include "base/text.h"
#include "copy/copy.h"
#include "copy/file.h"
#include "image/append.h"
#include "image/changes.h"
#include "image/compact.h"
#include "image/generations.h"
#include "image/log_file.h"
#include "image/log_read.h"
#include "image/names.h"
#include "kernel/extents.h"
#include "save/disk_access.h"
#include "save/save.h"
#include "save/save_source.h"

struct update {
	struct save_args *args;
	struct save_source *source;
	const struct copy_signals *signals;
	struct log_file file;
	uint64_t id;			/* of the image that is there */
	struct output output;		/* a new file, if it is not appended to the old one */
	int fd;				/* what is written */
	struct stat written;		/* the file that has it then */
	bool whole;			/* not only the changes */
	struct log_head head;
	struct append append;
	struct changes changes;
	struct extents map;
	struct extents changed;
	uint64_t bytes;			/* that have changed */
	char *read_error;
	int read_err;
};

static enum copy_step disk_failed(struct update *update, int err, const char *what)
{
	const struct device *dev = &update->source->dev;
	char *lost = save_source_lost(update->source);

	update->read_err = err;
	update->read_error = lost ?
		format_text("%s '%s': %s; nothing was saved", dev->what, dev->path, lost) :
		format_text("%s '%s': %s: %s", dev->what, dev->path, what, strerror(err));
	free(lost);
	return COPY_FAILED;
}

/* Find the next extent with memory. */
static enum copy_step find_data(void *context, uint64_t from, struct change *change)
{
	struct update *update = context;
	int err = extents_find(&update->map, from, &change->extent);

	change->hole = false;
	if (err)
		return disk_failed(update, err, "its list of extents cannot be read");
	return change->extent.length ? COPY_MORE : COPY_END;
}

/* Find the next range that has changed, and is data or a hole. */
static enum copy_step find_change(void *context, uint64_t from, struct change *change)
{
	struct update *update = context;
	struct image_extent *extent = &change->extent;
	struct image_extent data;
	int err;

	err = extents_find(&update->changed, from, extent);
	if (err)
		return disk_failed(update, err, "its changes cannot be read");
	if (!extent->length)
		return COPY_END;
	err = extents_find(&update->map, extent->start, &data);
	if (err)
		return disk_failed(update, err, "its list of extents cannot be read");
	change->hole = !data.length || data.start > extent->start;
	if (change->hole && data.length && data.start - extent->start < extent->length)
		extent->length = data.start - extent->start;
	if (!change->hole && data.length < extent->length)
		extent->length = data.length;
	return COPY_MORE;
}

static enum copy_step read_disk(void *context, const struct image_extent *extent, void *data)
{
	struct update *update = context;
	size_t done;
	int err;

	err = file_read(update->source->fd, data, extent->length, extent->start, &done);
	if (!err && done < extent->length)
		err = EIO;
	return err ? disk_failed(update, err, "cannot be read") : COPY_MORE;
}

/* Count what is written for the message. */
static enum copy_step next_frame(void *context, struct image_frame *frame, void *data)
{
	struct update *update = context;
	enum copy_step step = changes_next(&update->changes, frame, data);
	uint32_t i;

	for (i = 0; step == COPY_MORE && i < frame->count; i++)
		update->bytes += frame->extents[i].length;
	return step;
}

/* Which disk saves: the same number belongs to another one after a reboot. */
static struct log_writer this_writer(const struct save_source *source)
{
	struct log_writer writer = { .diskseq = strtoull(source->sequence, NULL, 10) };
	char *boot = first_line("/proc/sys/kernel/random/boot_id");

	if (!boot || uuid_parse(boot, writer.boot))
		writer.diskseq = 0;
	free(boot);
	return writer;
}

static bool same_writer(const struct log_writer *writer, const struct log_writer *other)
{
	return writer->diskseq && writer->diskseq == other->diskseq &&
	       !memcmp(writer->boot, other->boot, sizeof(writer->boot));
}

/* Is the newest segment there? Changes cannot be appended to a file that lacks it. */
static bool has_newest(const struct update *update)
{
	const struct log_head *head = &update->head;
	struct log_walk walk;
	bool good;

	log_walk_begin(&walk, update->file.fd, head->log);
	good = log_walk_to(&walk, log_newest(head)->position);
	log_walk_end(&walk);
	return good;
}

/*
 * Does the record have all changes since the newest generation? It may begin one earlier, if the
 * save of that one was killed at its end. If another disk has saved it, that is no use, nor if
 * the earlier one was loaded into this disk since, which its list of images tells.
 */
static bool record_fits(const struct update *update)
{
	const struct log_head *head = &update->head;
	const struct log_writer writer = this_writer(update->source);
	uint8_t state[LOG_STATE];

	if (update->file.fd < 0 || !update->file.start.log ||
	    head->header.size != update->source->query.size ||
	    extents_state(update->source->fd, update->source->query.size, state) ||
	    !has_newest(update))
		return false;
	return !memcmp(state, log_newest(head)->state, LOG_STATE) ||
	       (!memcmp(state, head->before, LOG_STATE) && same_writer(&writer, &head->writer) &&
		disk_images_has(update->source->sequence, head->header.id));
}

static bool has_changed(const struct update *update, const struct image_header *header)
{
	const struct image_header *old = &update->head.header;
	struct update first = *update;
	struct change change;
	bool changed;

	if (update->whole || old->mem_limit != header->mem_limit ||
	    old->disk_flags != header->disk_flags)
		return true;
	changed = find_change(&first, 0, &change) != COPY_END;
	free(first.read_error);
	return changed;
}

/* @early: the image still has its old head, and no other. */
static enum exit_code failed(struct update *update, int err, bool early)
{
	return report(exit_code_of(err), "file '%s': %s%s", update->args->file, strerror(err),
		      early ? "; nothing was saved" : "");
}

/* Cut off what a save that failed has appended. */
static void cut_off(struct update *update)
{
	if (update->fd == update->file.fd && update->fd >= 0 &&
	    ftruncate(update->fd, update->file.start.head.end))
		report(EXIT_OK, "note: file '%s': the incomplete update cannot be removed: %s",
		       update->args->file, strerror(errno));
}

static enum exit_code write_segment(struct update *update)
{
	struct append *append = &update->append;
	enum exit_code ret = EXIT_DEVICE;

	switch (append_segment(append)) {
	case COPY_DONE:
		return EXIT_OK;
	case COPY_NO_MEMORY:
		ret = report(EXIT_MEMORY, "too little memory for the buffers");
		break;
	case COPY_INTERRUPTED:
		ret = report(EXIT_DEVICE, "interrupted; nothing was saved");
		break;
	case COPY_ERROR:
		ret = append->err ? failed(update, append->err, true) :
		      report(exit_code_of(update->read_err), "%s", update->read_error);
		break;
	}
	update->args->signal = append->copy.signal;
	cut_off(update);
	return ret;
}

static enum exit_code check_path(const struct update *update)
{
	if (update->file.fd < 0 || log_has_path(update->file.fd, update->file.full))
		return EXIT_OK;
	return report(EXIT_BUSY, "file '%s': was replaced meanwhile; nothing was saved",
		      update->args->file);
}

/* The record of images was opened before the data was read. Has it been replaced since? */
static enum exit_code check_own(struct update *update)
{
	const char *sequence = update->source->sequence;
	const struct save_args *args = update->args;
	bool may;

	if (!args->own)
		return EXIT_OK;
	may = update->file.fd < 0 ? image_may_take_name(&update->output, sequence, args->folder) :
				    disk_images_has(sequence, update->id);
	return may && !disk_images_are_old(sequence, update->source->images) ?
	       EXIT_OK : image_kept_error(args->file);
}

/* From the moment that the head is written, the image has the new state. */
static enum exit_code commit(struct update *update)
{
	struct log_head *head = &update->head;
	const bool is_new = update->fd != update->file.fd;
	enum exit_code ret;
	int err;

	ret = check_own(update);
	if (!ret) {
		head->writer = this_writer(update->source);
		err = generations_add(head, &update->append.segment, update->args->generations,
				      update->append.written);
		ret = err ? failed(update, err, true) : EXIT_OK;
	}
	if (ret) {
		cut_off(update);
		return ret;
	}
	if (!disk_images_has(update->source->sequence, head->header.id))
		ret = disk_images_add(update->source->images, head->header.id);
	/* Later saves would find an image that is not the disk's own. */
	if (ret && is_new && update->args->own)
		return ret;
	if (ret)
		report(EXIT_OK, "note: the save continues");
	err = append_head(update->fd, head);
	ret = err ? failed(update, err, false) : check_path(update);
	/* The lock is of the old file. */
	update->output.exclusive = update->file.fd < 0;
	if (!ret && is_new)
		err = output_commit(&update->output, 0600, true);
	if (!ret && err)
		ret = failed(update, err, false);
	if (ret)
		return ret;
	/* Otherwise, the record would go back to the disk. */
	track_end(update->source->control, update->source->clone.query.index);
	update->args->written = update->append.written + IMAGE_BLOCK;
	return EXIT_OK;
}

static void tell(const struct update *update)
{
	const struct save_source *source = update->source;
	char bytes[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];
	const char *file = update->args->file;

	report(EXIT_OK, "%s: %s of %s %s, saved to '%s' as generation %llu",
	       source->dev.path + (strncmp(source->dev.path, "/dev/", 5) ? 0 : 5),
	       size_format(update->bytes, bytes), size_format(source->query.size, size),
	       update->whole ? "hold data" : "changed", file,
	       (unsigned long long)log_newest(&update->head)->number);
}

/* Prepare the segment, and a new file if need be. */
static int begin(struct update *update, const struct image_header *header, const uint8_t *state)
{
	struct log_segment *segment = &update->append.segment;
	const struct save_clone *clone = &update->source->clone;
	struct log_generation *generation = &segment->generation;
	int err;

	*generation = (struct log_generation){
		.number = 1,
		.time = time(NULL),
		.data = clone->query.mem_used,
	};
	if (clone->tracked)
		memcpy(generation->state, state, LOG_STATE);
	if (update->file.fd < 0 || !update->file.start.log) {
		err = output_open(&update->output, update->file.full, true);
		update->fd = update->output.fd;
		update->written = update->output.st;
		return err ? err : generations_begin(&update->head, header, segment);
	}
	update->fd = update->file.fd;
	segment->header = *header;
	segment->header.id = update->head.log;
	segment->first = update->head.end;
	segment->previous = log_newest(&update->head)->position;
	segment->whole = update->whole;
	generation->number = log_newest(&update->head)->number + 1;
	/* Remove the data that a save has appended before it was killed. */
	return (uint64_t)update->file.st.st_size > update->head.end &&
	       ftruncate(update->fd, update->head.end) ? errno : 0;
}

/* Save the clone. Return: EXIT_OK and no new generation if nothing has changed. */
static enum exit_code save_clone(struct update *update, const uint8_t *state, bool *unchanged)
{
	struct save_source *source = update->source;
	struct image_header header;
	enum exit_code ret;
	int err;

	disk_describe(&source->query, &header);
	extents_begin(&update->map, source->fd, header.size, false);
	extents_begin(&update->changed, source->fd, header.size, true);
	update->whole = !record_fits(update);
	*unchanged = !has_changed(update, &header);
	if (*unchanged)
		return EXIT_OK;
	if (!source->clone.tracked)
		report(EXIT_OK,
		       "note: the module rxd is older and records no changes, so the whole disk is saved");
	err = begin(update, &header, state);
	if (err)
		return file_replace_error("file", update->args->file, err);
	update->changes = (struct changes){
		.find = update->whole ? find_data : find_change,
		.read = read_disk,
		.context = update,
		.holes = !update->whole,
		.copy = &update->append.copy,
	};
	update->append.fd = update->fd;
	update->append.level = update->args->compress ? update->args->level : 0;
	update->append.next = next_frame;
	update->append.context = update;
	update->append.copy.signals = update->signals;
	update->append.progress = (struct progress){
		.mode = update->args->progress,
		.what = "save",
	};
	ret = update->file.fd < 0 ? check_own(update) : EXIT_OK;
	if (!ret)
		ret = write_segment(update);
	return ret ? ret : commit(update);
}

static enum exit_code save_tracked(struct update *update)
{
	struct save_source *source = update->source;
	struct compact compact = { .path = update->file.full, .name = update->args->file };
	uint8_t state[LOG_STATE];
	bool unchanged = false;
	enum exit_code ret, end;

	uuid_generate(state);
	ret = save_source_read(source, update->args->no_freeze, state);
	/* Before anything is copied, as for a new file in save_clone(). */
	if (!ret && update->file.fd >= 0)
		ret = check_own(update);
	if (!ret)
		ret = save_clone(update, state, &unchanged);
	/* If nothing has changed, the record goes on as it was. */
	end = save_source_end(source);
	if (ret)
		return ret;
	if (unchanged && (!update->args->terse || waits_are_told()))
		report(EXIT_OK, "%s: nothing has changed since generation %llu of '%s'",
		       source->dev.kernel_name,
		       (unsigned long long)log_newest(&update->head)->number, update->args->file);
	if (!unchanged)
		tell(update);
	if (!unchanged && update->fd == update->file.fd) {
		compact.fd = update->fd;
		compact.level = update->append.level;
		compact.signals = update->signals;
		compact.mode = update->args->progress;
		compact.head = update->head;
		compact_image(&compact);
		update->args->signal = compact.signal;
		if (compact.rewritten.st_ino)
			update->written = compact.rewritten;
		update->args->written += compact.written;
	}
	/* Last, as what precedes changes the file's time. */
	disk_saved_set(source->sequence, source->generation, update->file.full, &update->written);
	return end;
}

/* An image of another disk is not touched. */
static enum exit_code check_file(struct update *update)
{
	const struct image_start *start = &update->file.start;
	const struct image_header *header;
	enum exit_code ret;
	char uuid[UUID_STR_LEN];

	ret = image_check_loop(update->args->file);
	if (ret || update->file.fd < 0)
		return ret;
	header = start->log ? &start->head.header : &start->image.header;
	update->id = header->id;
	if (memcmp(header->uuid, update->source->query.uuid, sizeof(header->uuid))) {
		uuid_unparse_lower(header->uuid, uuid);
		return report(EXIT_PARAMETERS,
			      "file '%s': is an image of another disk, with the UUID %s; without --update, 'rxadm save' replaces it",
			      update->args->file, uuid);
	}
	if (start->log && start->damaged)
		log_tell_damage(update->file.fd, update->args->file, &start->head);
	log_check_replace(&update->file);
	update->head = start->head;
	update->written = update->file.st;
	return EXIT_OK;
}

/**
 * update_save - save what has changed to an image
 * @args: the disk and the image
 * @source: the disk, which is claimed
 */
enum exit_code update_save(struct save_args *args, struct save_source *source)
{
	struct update update = {
		.args = args,
		.source = source,
		.output = { .folder_fd = -1, .fd = -1 },
		.fd = -1,
	};
	struct copy_signals signals;
	enum exit_code ret;
	int err;

	ret = log_file_open(&update.file, args->file);
	if (!ret)
		ret = check_file(&update);
	if (!ret) {
		/* From here on, a signal must not leave a clone. */
		err = copy_signals_hold(&signals);
		if (err) {
			ret = report(EXIT_DEVICE, "cannot block signals: %s", strerror(err));
		} else {
			update.signals = &signals;
			ret = save_tracked(&update);
			copy_signals_release(&signals);
		}
	}
	disk_note(source->sequence, source->generation, &args->seen);
	output_discard(&update.output);
	log_file_close(&update.file);
	changes_end(&update.changes);
	extents_end(&update.map);
	extents_end(&update.changed);
	free(update.read_error);
	return ret;
}
