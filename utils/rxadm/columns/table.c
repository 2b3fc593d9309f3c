// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tables of what a subcommand knows, printed by libsmartcols; and the options
 * that choose columns and format.
 */
#include <getopt.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "columns/table.h"
#include "options.h"
#include "size.h"

struct table {
	const struct table_spec *spec;
	struct libscols_table *scols;
	struct libscols_line *line;
	size_t *chosen;			/* columns, in the order of printing */
	size_t chosen_count;
	bool bytes;
};

/* What the options say. */
struct wishes {
	const char *columns;
	bool all;
	bool json;
	bool raw;
	bool noheadings;
	bool bytes;
};

static void print_help(const struct table_spec *spec)
{
	size_t i;

	printf("%s\n"
	       "Options:\n"
	       " -b, --bytes            print sizes in bytes\n"
	       " -J, --json             print JSON, with all columns unless -o is given\n"
	       " -n, --noheadings       print no column names\n"
	       " -o, --output LIST      columns to print; +LIST adds to the default\n"
	       " -O, --output-all       print all columns\n"
	       " -r, --raw              separate columns by one space, escape spaces in them\n"
	       " -h, --help             print this help\n"
	       "\n"
	       "Columns:\n", spec->usage);
	for (i = 0; i < spec->count; i++)
		printf(" %18s  %s\n", spec->columns[i].name, spec->columns[i].help);
}

static void choose(struct table *table, size_t column)
{
	size_t i;

	for (i = 0; i < table->chosen_count; i++)
		if (table->chosen[i] == column)
			return;
	table->chosen[table->chosen_count++] = column;
}

static enum exit_code unknown_column(const struct table_spec *spec, const char *name)
{
	enum exit_code ret;
	char *names = NULL;
	size_t i;

	for (i = 0; i < spec->count; i++)
		append_text(&names, "%s%s", i ? ", " : "", spec->columns[i].name);
	ret = report(EXIT_PARAMETERS, "unknown column '%s'; there are %s", name, names);
	free(names);
	return ret;
}

static enum exit_code choose_named(struct table *table, const char *list)
{
	const struct table_spec *spec = table->spec;
	enum exit_code ret = EXIT_OK;
	char *copy = copy_text(list);
	char *rest = copy;
	const char *name;
	size_t i;

	while (!ret && (name = strsep(&rest, ","))) {
		for (i = 0; i < spec->count; i++)
			if (!strcasecmp(name, spec->columns[i].name))
				break;
		if (i < spec->count)
			choose(table, i);
		else
			ret = unknown_column(spec, name);
	}
	free(copy);
	return ret;
}

static enum exit_code choose_columns(struct table *table, const struct wishes *wishes)
{
	const char *list = wishes->columns;
	bool all = wishes->all || (wishes->json && !list);
	size_t i;

	if (!list || *list == '+' || all)
		for (i = 0; i < table->spec->count; i++)
			if (all || table->spec->columns[i].by_default)
				choose(table, i);
	if (!list)
		return EXIT_OK;
	return choose_named(table, *list == '+' ? list + 1 : list);
}

static void out_of_memory(void)
{
	exit(report(EXIT_MEMORY, "out of memory"));
}

static enum exit_code table_new(const struct table_spec *spec, const struct wishes *wishes,
				struct table **result)
{
	const struct column *column;
	struct libscols_column *cl;
	struct table *table;
	enum exit_code ret;
	size_t i;

	table = resize_array(NULL, 1, sizeof(*table));
	*table = (struct table) {
		.spec = spec,
		.scols = scols_new_table(),
		.chosen = resize_array(NULL, spec->count, sizeof(*table->chosen)),
		.bytes = wishes->bytes || wishes->json,
	};
	if (!table->scols)
		out_of_memory();
	ret = choose_columns(table, wishes);
	if (ret) {
		table_free(table);
		return ret;
	}

	scols_table_set_name(table->scols, spec->name);
	scols_table_enable_json(table->scols, wishes->json);
	scols_table_enable_raw(table->scols, wishes->raw);
	scols_table_enable_noheadings(table->scols, wishes->noheadings);
	for (i = 0; i < table->chosen_count; i++) {
		column = &spec->columns[table->chosen[i]];
		cl = scols_table_new_column(table->scols, column->name, 0,
					    column->kind == COLUMN_TEXT ? 0 : SCOLS_FL_RIGHT);
		if (!cl)
			out_of_memory();
		if (column->kind != COLUMN_TEXT)
			scols_column_set_json_type(cl, SCOLS_JSON_NUMBER);
	}
	*result = table;
	return EXIT_OK;
}

/**
 * table_options - read the options of a subcommand that prints a table
 * @argc: number of arguments
 * @argv: the arguments
 * @spec: what can be printed
 * @table: out: empty table to be freed by table_free(); NULL if there is nothing
 *	left to do
 */
enum exit_code table_options(int argc, char **argv, const struct table_spec *spec,
			     struct table **table)
{
	static const struct option options[] = {
		{ "bytes",	no_argument,		NULL, 'b' },
		{ "json",	no_argument,		NULL, 'J' },
		{ "noheadings",	no_argument,		NULL, 'n' },
		{ "output",	required_argument,	NULL, 'o' },
		{ "output-all",	no_argument,		NULL, 'O' },
		{ "raw",	no_argument,		NULL, 'r' },
		{ "help",	no_argument,		NULL, 'h' },
		{ }
	};
	struct wishes wishes = { 0 };
	int opt;

	*table = NULL;
	while ((opt = getopt_long(argc, argv, ":bJno:Orh", options, NULL)) != -1) {
		switch (opt) {
		case 'b':
			wishes.bytes = true;
			break;
		case 'J':
			wishes.json = true;
			break;
		case 'n':
			wishes.noheadings = true;
			break;
		case 'o':
			wishes.columns = optarg;
			break;
		case 'O':
			wishes.all = true;
			break;
		case 'r':
			wishes.raw = true;
			break;
		case 'h':
			print_help(spec);
			return EXIT_OK;
		default:
			return option_error(opt, argv);
		}
	}
	if (wishes.json && wishes.raw)
		return report(EXIT_PARAMETERS, "options --json and --raw exclude each other");
	return table_new(spec, &wishes, table);
}

void table_add_line(struct table *table)
{
	table->line = scols_table_new_line(table->scols, NULL);
	if (!table->line)
		out_of_memory();
}

/**
 * table_set_text - fill a cell of the last line
 * @table: the table
 * @column: index into the columns of the table's spec
 * @text: what the cell says
 */
void table_set_text(struct table *table, size_t column, const char *text)
{
	size_t i;

	for (i = 0; i < table->chosen_count; i++)
		if (table->chosen[i] == column && scols_line_set_data(table->line, i, text))
			out_of_memory();
}

/**
 * table_set_number - fill a cell of the last line with a number or a size
 * @table: the table
 * @column: index into the columns of the table's spec
 * @number: the number, or the size in bytes
 */
void table_set_number(struct table *table, size_t column, uint64_t number)
{
	char text[SIZE_TEXT_MAX];

	if (table->spec->columns[column].kind == COLUMN_SIZE && !table->bytes)
		size_format(number, text);
	else
		snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	table_set_text(table, column, text);
}

bool table_wants_bytes(const struct table *table)
{
	return table->bytes;
}

enum exit_code table_print(struct table *table)
{
	if (scols_print_table(table->scols))
		return report(EXIT_DEVICE, "cannot print the table");
	return EXIT_OK;
}

void table_free(struct table *table)
{
	if (!table)
		return;
	scols_unref_table(table->scols);
	free(table->chosen);
	free(table);
}
