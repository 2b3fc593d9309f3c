/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_OUTPUT_TABLE_H
#define RXADM_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct option;

enum column_kind {
	COLUMN_TEXT,
	COLUMN_NUMBER,
	COLUMN_SIZE,	/* bytes; in human units unless --bytes or --json is given */
	COLUMN_LIST,	/* one element per line; an array in JSON */
};

struct column {
	const char *name;
	enum column_kind kind;
	bool by_default;	/* printed without --output, except as JSON */
	const char *help;
};

/* Columns that a subcommand can print. */
struct table_spec {
	const char *name;	/* of the JSON array */
	const char *usage;
	bool vertical;		/* print one line per column, except as JSON */
	const struct column *columns;
	size_t count;
};

/* Options of a subcommand that other subcommands with a table do not have. */
struct table_extra {
	const struct option *options;	/* the last element has no name */
	const char *help;		/* a line for each option */
	void (*set)(void *data, int opt);	/* called with the value in optarg */
	void *data;
};

struct table;

enum exit_code table_options(int argc, char **argv, const struct table_spec *spec,
			     const struct table_extra *extra, struct table **table);
void table_add_line(struct table *table);
void table_set_text(struct table *table, size_t column, const char *text);
void table_set_freed(struct table *table, size_t column, char *text);
void table_set_number(struct table *table, size_t column, uint64_t number);
bool table_wants_bytes(const struct table *table);
void table_set_list(struct table *table, size_t column, const char *lines);
enum exit_code table_print(struct table *table);

struct table *table_make(const struct table_spec *spec, bool json);
void table_hide(struct table *table, size_t column);
void table_hide_headings(struct table *table);
void table_clear(struct table *table);
char *table_text(struct table *table);

void table_free(struct table *table);

#endif /* RXADM_OUTPUT_TABLE_H */
