/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_PLAN_H
#define RXADM_CONFIG_PLAN_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "config/config_keys.h"
#include "device/device.h"
#include "device/device_users.h"
#include "kernel/disk_state.h"

struct plan;

struct plan_step {
	char *text;	/* its description for the user */
	enum exit_code (*make)(struct plan *plan);
	enum exit_code (*ask)(struct plan *plan);	/* has the driver check it; or NULL */
	bool frees;	/* the driver may accept what it refused before this step */
	bool optional;	/* its failure does not stop the steps after it */
	bool told;	/* it reports itself what it has done */
};

/* The steps for a section, and the state that they start from. */
struct plan {
	const struct config *config;
	const struct config_section *section;
	char **names;		/* the selection, see plan_is_chosen() */
	bool dry_run;		/* print the steps only */
	bool pending;		/* a step that was printed, of any section, frees something */
	struct users ended;	/* what printed steps of a stop, of any section, would end */
	int control;		/* the control node; -1: not open */
	enum exit_code control_error;	/* why it could not be opened; already reported */
	bool has_dm;		/* device-mapper is available */
	bool has_target;	/* the target rxcache is available */
	enum exit_code target_error;	/* why it could not be loaded; already reported */
	uint8_t uuid[16];
	uint64_t min_size;	/* that the cache will have; 0: nothing is lent */
	bool grows;		/* the cache will use more of its RAM disk */
	uint64_t image_size;	/* size of the disk in the image; 0: no image */
	bool has_disk;
	enum exit_code query_error;	/* why the search for the disk failed; already reported */
	struct rxd_query disk;
	bool made;		/* the disk was made by this plan */
	dev_t folder;		/* the file system that the image is on, or 0 */
	dev_t origin;		/* the slow disk of the cache */
	int signal;		/* the signal that interrupted a step, or 0 */
	enum exit_code (*save)(struct plan *plan);	/* saves the disk before its removal */
	struct disk_seen saved;	/* what may be removed; @diskseq 0: anything */
	enum exit_code late;	/* an error that does not stop the steps */
	bool go_on;		/* continue after a failed step: the data is saved */
	bool whole;		/* no step failed that stops the plan */
	struct plan_step *steps;
	size_t count;
};

bool plan_is_chosen(const struct config_section *section, char **names);
__printf(3, 4)
void plan_step(struct plan *plan, enum exit_code (*make)(struct plan *plan),
	       const char *format, ...);
void plan_optional(struct plan *plan);
const struct config_section *plan_section_of(const struct config *config,
					     const struct rxd_query *disk);
bool plan_is_exported(const struct plan *plan);
enum exit_code plan_print_others(const struct plan *plan);
bool plan_keeps_disk(const struct rxd_query *disk);
enum exit_code plan_check_unsaved(const struct plan *plan);
bool plan_find_disk(struct plan *plan);
enum exit_code plan_device(const struct plan *plan, struct device *dev, int *index);
enum exit_code plan_remove_same(struct plan *plan, const struct disk_seen *saved, bool *changed);
enum exit_code plan_remove_disk(struct plan *plan);
enum exit_code plan_fixed(const struct plan *plan, const char *key, const char *has,
			  const char *wants);
uint64_t plan_size(const struct plan *plan);
enum exit_code plan_disk(struct plan *plan);
enum exit_code plan_make_steps(struct plan *plan, const char *name);
enum exit_code plan_print_steps(struct plan *plan, const char *name);
void plan_release_steps(struct plan *plan);

enum exit_code plan_start_ramdisk(struct plan *plan);
enum exit_code plan_stop_ramdisk(struct plan *plan);
enum exit_code plan_save_ramdisk(struct plan *plan);
void plan_begin_autosave(struct plan *plan);
void plan_check_service(const struct plan *plan);
enum exit_code plan_save_image(struct plan *plan);
enum exit_code plan_save_used(struct plan *plan);
void plan_save_hotlist(struct plan *plan);
enum exit_code plan_save_unfinished(struct plan *plan);
enum exit_code plan_start_cache(struct plan *plan);
enum exit_code plan_start_uncached(struct plan *plan);
enum exit_code plan_stop_cache(struct plan *plan);
enum exit_code plan_start_export(struct plan *plan);
enum exit_code plan_stop_export(struct plan *plan);

#endif /* RXADM_CONFIG_PLAN_H */
