/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_COMMANDS_COMMAND_H
#define RXADM_COMMANDS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct command {
	const char *name;
	const char *summary;
	enum exit_code (*run)(int argc, char **argv);
};

extern const struct command command_advise;
extern const struct command command_apply;
extern const struct command command_clear;
extern const struct command command_clone;
extern const struct command command_completion;
extern const struct command command_create;
extern const struct command command_diff;
extern const struct command command_export;
extern const struct command command_extents;
extern const struct command command_limit;
extern const struct command command_help;
extern const struct command command_hotlist;
extern const struct command command_info;
extern const struct command command_list;
extern const struct command command_load;
extern const struct command command_map;
extern const struct command command_metrics;
extern const struct command command_mode;
extern const struct command command_remove;
extern const struct command command_reset;
extern const struct command command_resize;
extern const struct command command_save;
extern const struct command command_set;
extern const struct command command_stats;
extern const struct command command_status;
extern const struct command command_top;
extern const struct command command_unexport;
extern const struct command command_unmap;
extern const struct command command_warm;

/* Columns that status and info share. */
struct cache;
struct rxcache_status;
struct table;
struct table_spec;
extern const struct table_spec latency_spec;
enum exit_code add_latency(struct table *table, const struct cache *cache, bool named);
void cache_columns_fill(struct table *table, size_t origin, size_t metadata, size_t limit,
			size_t counters, const struct cache *cache,
			const struct rxcache_status *status);

/* The completion scripts. The Makefile converts them to strings. */
extern const char completion_bash[];
extern const char completion_fish[];
extern const char completion_zsh[];

#endif /* RXADM_COMMANDS_COMMAND_H */
