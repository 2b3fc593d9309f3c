// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arguments of a table line:
 *
 *	ORIGIN CACHE [FEATURE_COUNT feature ...] [POLICY_ARG_COUNT key value ...]
 *
 * Features are:
 *
 *	a mode: writethrough (default), writearound or passthrough
 *	block_size N, which counts as two: a number of sectors, a power of two from 8 to 2048,
 *	    and a multiple of the page size; the default is one page
 *	if_same DISKSEQ CHANGES, which counts as three: do not take the RAM disk if it has
 *	    another diskseq, or another number in its sysfs file changes
 *
 * Policy arguments are:
 *
 *	seq_cutoff BYTES (default 0: off)
 *	size BYTES: limit of the cached data (default 0: none)
 *	min_size BYTES: memory beyond it is lent, and given back when others need it (default 0:
 *	    none is lent)
 *	advise 0 or advise 1, which keeps the advice on (default 0: off)
 */
#include <linux/ctype.h>
#include <linux/device-mapper.h>
#include <linux/kstrtox.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "args.h"

#define FEATURES "writethrough, writearound, passthrough, block_size N or if_same DISKSEQ CHANGES"
#define BAD_SEQ_CUTOFF "seq_cutoff must be a multiple of 512 bytes, at most 1 TiB"
#define POLICY_ARGS "seq_cutoff BYTES, size BYTES, min_size BYTES or advise 0|1"

static const char *const mode_names[RXC_NR_MODES] = {
	[RXC_WRITETHROUGH] = "writethrough",
	[RXC_WRITEAROUND] = "writearound",
	[RXC_PASSTHROUGH] = "passthrough",
};

/**
 * rxc_mode_name - get the name of a mode
 * @mode: the mode
 *
 * Return: the name.
 */
const char *rxc_mode_name(enum rxc_mode mode)
{
	return mode_names[mode];
}

/**
 * rxc_parse_mode - find a mode by its name
 * @text: the name
 * @mode: set to the mode
 *
 * Return: 0 or -EINVAL.
 */
int rxc_parse_mode(const char *text, enum rxc_mode *mode)
{
	int i = match_string(mode_names, RXC_NR_MODES, text);

	if (i < 0)
		return -EINVAL;
	*mode = i;
	return 0;
}

/**
 * rxc_parse_number - parse a decimal number without a sign
 * @text: the text
 * @number: set to the number
 *
 * Return: 0 or -EINVAL.
 */
int rxc_parse_number(const char *text, u64 *number)
{
	return isdigit(*text) && !kstrtou64(text, 10, number) ? 0 : -EINVAL;
}

/**
 * rxc_parse_seq_cutoff - parse the length beyond which sequential I/O is not cached
 * @text: the text: a number of bytes, a multiple of the sector size
 * @bytes: set to the number
 *
 * Return: 0 or -EINVAL.
 */
int rxc_parse_seq_cutoff(const char *text, u64 *bytes)
{
	u64 number;

	if (rxc_parse_number(text, &number) || number > RXC_SEQ_CUTOFF_MAX ||
	    number % SECTOR_SIZE)
		return -EINVAL;
	*bytes = number;
	return 0;
}

static int parse_block_size(struct dm_arg_set *as, struct rxc_args *args, char **error)
{
	const char *value = dm_shift_arg(as);
	unsigned int size;

	if (!value || kstrtouint(value, 10, &size) || !is_power_of_2(size) ||
	    size < RXC_BLOCK_SIZE_MIN || size > RXC_BLOCK_SIZE_MAX ||
	    size % (PAGE_SIZE >> SECTOR_SHIFT)) {
		*error = "block_size must be a power of two, 8 to 2048 sectors, at least one page";
		return -EINVAL;
	}
	args->block_size = size;
	return 0;
}

static int parse_if_same(struct dm_arg_set *as, struct rxc_args *args, char **error)
{
	if (as->argc < 2 || rxc_parse_number(dm_shift_arg(as), &args->diskseq) ||
	    rxc_parse_number(dm_shift_arg(as), &args->changes)) {
		*error = "if_same must have two numbers: diskseq and changes";
		return -EINVAL;
	}
	args->if_same = true;
	return 0;
}

static int parse_features(struct dm_arg_set *as, struct rxc_args *args, char **error)
{
	static const struct dm_arg count = { 0, 6, "feature count must be 0 to 6" };
	bool have_mode = false, have_block_size = false;
	struct dm_arg_set features;
	unsigned int argc;
	const char *name;
	int ret;

	ret = dm_read_arg_group(&count, as, &argc, error);
	if (ret)
		return ret;
	features.argc = argc;
	features.argv = as->argv;
	dm_consume_args(as, argc);

	while (features.argc) {
		name = dm_shift_arg(&features);
		if (!have_mode && !rxc_parse_mode(name, &args->mode)) {
			have_mode = true;
		} else if (!strcmp(name, "block_size") && !have_block_size) {
			have_block_size = true;
			ret = parse_block_size(&features, args, error);
			if (ret)
				return ret;
		} else if (!strcmp(name, "if_same") && !args->if_same) {
			ret = parse_if_same(&features, args, error);
			if (ret)
				return ret;
		} else {
			*error = "unknown or repeated feature, must be " FEATURES;
			return -EINVAL;
		}
	}
	return 0;
}

static int parse_flag(const char *text, bool *flag)
{
	u64 number;

	if (rxc_parse_number(text, &number) || number > 1)
		return -EINVAL;
	*flag = number;
	return 0;
}

static int parse_policy_args(struct dm_arg_set *as, struct rxc_args *args, char **error)
{
	static const struct dm_arg count = { 0, 8, "policy argument count must be even, 0 to 8" };
	bool have_seq_cutoff = false, have_size = false, have_min_size = false, have_advise = false;
	const char *name, *value;
	unsigned int argc;
	int ret;

	ret = dm_read_arg_group(&count, as, &argc, error);
	if (ret)
		return ret;
	if (argc % 2) {
		*error = count.error;
		return -EINVAL;
	}
	for (; argc; argc -= 2) {
		name = dm_shift_arg(as);
		value = dm_shift_arg(as);
		if (!strcmp(name, "seq_cutoff") && !have_seq_cutoff) {
			have_seq_cutoff = true;
			if (rxc_parse_seq_cutoff(value, &args->seq_cutoff)) {
				*error = BAD_SEQ_CUTOFF;
				return -EINVAL;
			}
		} else if (!strcmp(name, "size") && !have_size) {
			have_size = true;
			if (rxc_parse_number(value, &args->size)) {
				*error = "size must be a number of bytes";
				return -EINVAL;
			}
		} else if (!strcmp(name, "min_size") && !have_min_size) {
			have_min_size = true;
			if (rxc_parse_number(value, &args->min_size)) {
				*error = "min_size must be a number of bytes";
				return -EINVAL;
			}
		} else if (!strcmp(name, "advise") && !have_advise) {
			have_advise = true;
			if (parse_flag(value, &args->advise)) {
				*error = "advise must be 0 or 1";
				return -EINVAL;
			}
		} else {
			*error = "unknown or repeated policy argument, must be " POLICY_ARGS;
			return -EINVAL;
		}
	}
	return 0;
}

/**
 * rxc_args_parse - parse the arguments of a table line
 * @args: filled in; refers to strings of @argv
 * @argc: number of arguments
 * @argv: the arguments
 * @error: set to a message on failure
 *
 * Return: 0 or -EINVAL.
 */
int rxc_args_parse(struct rxc_args *args, unsigned int argc, char **argv, char **error)
{
	struct dm_arg_set as = { .argc = argc, .argv = argv };
	int ret;

	if (argc < 2) {
		*error = "an origin device and a cache device are required";
		return -EINVAL;
	}
	args->origin = dm_shift_arg(&as);
	args->cache = dm_shift_arg(&as);
	args->block_size = max_t(unsigned int, RXC_BLOCK_SIZE_MIN, PAGE_SIZE >> SECTOR_SHIFT);
	args->mode = RXC_WRITETHROUGH;
	args->seq_cutoff = 0;
	args->size = 0;
	args->min_size = 0;
	args->if_same = false;
	args->diskseq = 0;
	args->changes = 0;
	args->advise = false;

	if (as.argc) {
		ret = parse_features(&as, args, error);
		if (ret)
			return ret;
	}
	if (as.argc) {
		ret = parse_policy_args(&as, args, error);
		if (ret)
			return ret;
	}
	if (as.argc) {
		*error = "too many arguments";
		return -EINVAL;
	}
	return 0;
}
