// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print the results of a subcommand as a table with libsmartcols, and parse the options
 * that choose columns and format.
 */
#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/suggest.h"
#include "base/text.h"
#include "output/table.h"

/* Maximum number of options of a subcommand. */
#define OPTIONS_MAX	15

struct table {
	const struct table_spec *spec;
	struct libscols_table *scols;
	struct libscols_line *line;
	size_t *chosen;			/* columns, in the order of printing */
	size_t chosen_count;
	bool bytes;
	bool vertical;
	bool noheadings;
};

/* Values of the options. */
struct wishes {
	const char *columns;
	bool all;
	bool json;
	bool raw;
	bool noheadings;
	bool bytes;
};

static void print_help(const struct table_spec *spec, const struct table_extra *extra)
{
	size_t i;

	printf("%s\nOptions:\n%s", spec->usage, extra ? extra->help : "");
	fputs(" -b, --bytes            print sizes in bytes\n"
	      " -J, --json             print JSON, with all columns unless -o is given\n"
	      " -n, --noheadings       do not print column names\n"
	      " -o, --output LIST      columns to print; +LIST adds them to the default\n"
	      " -O, --output-all       print all columns\n"
	      " -r, --raw              separate columns by one space; spaces in values are \\x20\n"
	      " -h, --help             print this help\n"
	      "\n"
	      "Columns:\n", stdout);
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
	struct suggestion suggestion = suggest_begin(name);
	char *names = NULL;
	enum exit_code ret;
	char *meant;
	size_t i;

	for (i = 0; i < spec->count; i++) {
		suggest_try(&suggestion, spec->columns[i].name);
		append_text(&names, "%s%s", i ? ", " : "", spec->columns[i].name);
	}
	meant = did_you_mean("", &suggestion);
	ret = report(EXIT_PARAMETERS, "unknown column '%s'%s there are %s", name, meant, names);
	free(meant);
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

static void add_column(struct libscols_table *scols, const char *name, enum column_kind kind)
{
	static const struct {
		int flags;
		int json_type;
	} kinds[] = {
		[COLUMN_TEXT]	= { 0, SCOLS_JSON_STRING },
		[COLUMN_NUMBER]	= { SCOLS_FL_RIGHT, SCOLS_JSON_NUMBER },
		[COLUMN_SIZE]	= { SCOLS_FL_RIGHT, SCOLS_JSON_NUMBER },
		/* Before 2.39, SCOLS_JSON_ARRAY_STRING prints [null] for an empty array. */
		[COLUMN_LIST]	= { SCOLS_FL_WRAP, SCOLS_JSON_NUMBER },
	};
	struct libscols_column *cl;

	cl = scols_table_new_column(scols, name, 0, kinds[kind].flags);
	if (!cl || scols_column_set_json_type(cl, kinds[kind].json_type))
		out_of_memory();
	if (kind == COLUMN_LIST) {
		scols_column_set_safechars(cl, "\n");
		scols_column_set_wrapfunc(cl, scols_wrapnl_chunksize, scols_wrapnl_nextchunk,
					  NULL);
	}
}

static enum exit_code table_new(const struct table_spec *spec, const struct wishes *wishes,
				struct table **result)
{
	const struct column *column;
	struct table *table;
	enum exit_code ret;
	size_t i;

	table = resize_array(NULL, 1, sizeof(*table));
	*table = (struct table) {
		.spec = spec,
		.scols = scols_new_table(),
		.chosen = resize_array(NULL, spec->count, sizeof(*table->chosen)),
		.bytes = wishes->bytes || wishes->json,
		.vertical = spec->vertical && !wishes->json,
		.noheadings = wishes->noheadings,
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
		add_column(table->scols, column->name, column->kind);
	}
	*result = table;
	return EXIT_OK;
}

/**
 * table_make - make a table for a subcommand that parses its own options
 * @spec: the columns
 * @json: print JSON
 *
 * Return: an empty table with the default columns; for JSON, with all columns.
 */
struct table *table_make(const struct table_spec *spec, bool json)
{
	const struct wishes wishes = { .json = json };
	struct table *table;

	table_new(spec, &wishes, &table);
	return table;
}

/**
 * table_hide - leave a column out when the table is printed
 * @table: the table
 * @column: index into the columns of the table's spec
 */
void table_hide(struct table *table, size_t column)
{
	struct libscols_column *cl;
	size_t i;

	for (i = 0; i < table->chosen_count; i++) {
		cl = scols_table_get_column(table->scols, i);
		if (table->chosen[i] == column)
			scols_column_set_flags(cl, scols_column_get_flags(cl) | SCOLS_FL_HIDDEN);
	}
}

void table_hide_headings(struct table *table)
{
	scols_table_enable_noheadings(table->scols, 1);
}

/* Remove all lines. */
void table_clear(struct table *table)
{
	scols_table_remove_lines(table->scols);
	table->line = NULL;
}

/**
 * table_text - format a table that is not vertical as text
 * @table: the table
 *
 * Return: allocated text; empty if the table has no lines.
 */
char *table_text(struct table *table)
{
	char *data = NULL;
	char *text;

	if (scols_print_table_to_string(table->scols, &data))
		out_of_memory();
	text = format_text("%s%s", data ? data : "", data && *data ? "\n" : "");
	free(data);
	return text;
}

static void add_options(struct option *options, const struct option *more)
{
	size_t i = 0;

	while (options[i].name)
		i++;
	for (; more->name; more++) {
		assert(i < OPTIONS_MAX);
		options[i++] = *more;
	}
}

/**
 * table_options - parse the options of a subcommand that prints a table
 * @argc: number of arguments
 * @argv: the arguments
 * @spec: columns that can be printed
 * @extra: options that only this subcommand has, or NULL
 * @table: out: empty table, which table_free() frees; NULL after --help or an error
 */
enum exit_code table_options(int argc, char **argv, const struct table_spec *spec,
			     const struct table_extra *extra, struct table **table)
{
	struct option options[OPTIONS_MAX + 1] = {
		{ "bytes",	no_argument,		NULL, 'b' },
		{ "json",	no_argument,		NULL, 'J' },
		{ "noheadings",	no_argument,		NULL, 'n' },
		{ "output",	required_argument,	NULL, 'o' },
		{ "output-all",	no_argument,		NULL, 'O' },
		{ "raw",	no_argument,		NULL, 'r' },
		{ "help",	no_argument,		NULL, 'h' },
	};
	struct wishes wishes = { 0 };
	int opt;

	*table = NULL;
	if (extra)
		add_options(options, extra->options);
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
			print_help(spec, extra);
			return EXIT_OK;
		case '?':
		case ':':
			return option_error(opt, argv, options);
		default:
			extra->set(extra->data, opt);
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
 * @text: the text of the cell
 */
void table_set_text(struct table *table, size_t column, const char *text)
{
	size_t i;

	for (i = 0; i < table->chosen_count; i++)
		if (table->chosen[i] == column && scols_line_set_data(table->line, i, text))
			out_of_memory();
}

/* Fill a cell with allocated text, which is freed. Without text, the cell stays empty. */
void table_set_freed(struct table *table, size_t column, char *text)
{
	if (text)
		table_set_text(table, column, text);
	free(text);
}

/* Return: the lines as an array of strings in JSON. */
static char *json_array(const char *lines)
{
	const char *end = lines ? lines + strlen(lines) : NULL;
	char *text = copy_text(lines ? "[\"" : "[");
	const char *c;

	for (c = lines; c < end; c++) {
		if (*c == '\n')
			append_text(&text, "\", \"");
		else if ((unsigned char)*c < ' ')
			append_text(&text, "\\u%04x", *c);
		else
			append_text(&text, "%s%c", strchr("\"\\", *c) ? "\\" : "", *c);
	}
	append_text(&text, lines ? "\"]" : "]");
	return text;
}

/**
 * table_set_list - fill a cell of the last line with a list
 * @table: the table
 * @column: index into the columns of the table's spec
 * @lines: one element per line; NULL: an empty list
 */
void table_set_list(struct table *table, size_t column, const char *lines)
{
	if (scols_table_is_json(table->scols))
		table_set_freed(table, column, json_array(lines));
	else if (lines)
		table_set_text(table, column, lines);
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

/* Make the key of a line in vertical output from the name of a column. */
static char *key_of(const struct column *column)
{
	char *key = format_text("%s:", column->name);
	char *c;

	for (c = key; *c; c++)
		*c = tolower((unsigned char)*c);
	return key;
}

static void add_pair(struct table *table, struct libscols_table *pairs, size_t chosen,
		     const char *value)
{
	const struct column *column = &table->spec->columns[table->chosen[chosen]];
	struct libscols_line *line = scols_table_new_line(pairs, NULL);
	size_t at = 0;

	if (!line || (!table->noheadings && scols_line_refer_data(line, at++, key_of(column))) ||
	    scols_line_set_data(line, at, value))
		out_of_memory();
}

/* Print each cell of a line that is set as a line: the name of its column and its value. */
static int print_pairs(struct table *table, struct libscols_line *line)
{
	struct libscols_table *pairs = scols_new_table();
	const char *value;
	size_t i;
	int err;

	if (!pairs)
		out_of_memory();
	scols_table_enable_noheadings(pairs, 1);
	scols_table_enable_raw(pairs, scols_table_is_raw(table->scols));
	if (!table->noheadings)
		add_column(pairs, "key", COLUMN_TEXT);
	add_column(pairs, "value", COLUMN_LIST);
	for (i = 0; i < table->chosen_count; i++) {
		value = scols_cell_get_data(scols_line_get_cell(line, i));
		if (value)
			add_pair(table, pairs, i, value);
	}
	err = scols_print_table(pairs);
	scols_unref_table(pairs);
	return err;
}

static int print_vertical(struct table *table)
{
	struct libscols_line *line;
	size_t nr;
	int err = 0;

	for (nr = 0; !err && (line = scols_table_get_line(table->scols, nr)); nr++) {
		if (nr)
			putchar('\n');
		err = print_pairs(table, line);
	}
	return err;
}

enum exit_code table_print(struct table *table)
{
	if (table->vertical ? print_vertical(table) : scols_print_table(table->scols))
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
