/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_PLAN_H
#define RXADM_CONFIG_PLAN_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/config_keys.h"
#include "kernel/device.h"
#include "lib/error.h"

struct plan;

struct plan_step {
	char *text;	/* what it does, for people */
	enum exit_code (*make)(struct plan *plan);
	bool optional;	/* its failure does not stop the steps after it */
};

/* What has to be done for a section, and what it begins with. */
struct plan {
	const struct config *config;
	const struct config_section *section;
	char **names;		/* of the sections that are asked for; none: all */
	bool dry_run;		/* no step is made */
	int control;		/* -1: the module rxd is not loaded */
	enum exit_code control_error;	/* why it is not, if it should be; reported */
	bool has_dm;		/* device-mapper answers */
	bool has_target;	/* so does its target rxcache */
	enum exit_code target_error;	/* why it is not there, if it should be; reported */
	uint8_t uuid[16];
	uint64_t image_size;	/* of the disk that an image is of; 0: there is none */
	bool has_disk;
	enum exit_code query_error;	/* why it is not known whether there is one; reported */
	struct rxd_query disk;
	bool made;		/* the disk was made by this plan */
	dev_t folder;		/* the file system that the image is on, or 0 */
	int signal;		/* that interrupted a step, or 0 */
	bool go_on;		/* the step that failed leaves nothing to be kept */
	bool whole;		/* all steps were made, but for optional ones */
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
bool plan_keeps_disk(const struct rxd_query *disk);
bool plan_find_disk(struct plan *plan);
enum exit_code plan_device(const struct plan *plan, struct device *dev, int *index);
enum exit_code plan_remove_disk(struct plan *plan);
enum exit_code plan_remove_saved(struct plan *plan);
enum exit_code plan_fixed(const struct plan *plan, const char *key, const char *has,
			  const char *wants);
enum exit_code plan_disk(struct plan *plan);
enum exit_code plan_make_steps(struct plan *plan, const char *name);
void plan_print_steps(const struct plan *plan, const char *name);
void plan_release_steps(struct plan *plan);

enum exit_code plan_start_ramdisk(struct plan *plan);
enum exit_code plan_stop_ramdisk(struct plan *plan);
enum exit_code plan_start_cache(struct plan *plan);
enum exit_code plan_start_uncached(struct plan *plan);
enum exit_code plan_stop_cache(struct plan *plan);
enum exit_code plan_start_export(struct plan *plan);
enum exit_code plan_stop_export(struct plan *plan);

#endif /* RXADM_CONFIG_PLAN_H */
