// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the parser of rxcache's table line.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/string.h>

#include "../dm-target/args.h"

#define MAX_ARGS	16

static char *line;
static char *argv[MAX_ARGS];
static struct rxc_args args;
static char *error;

static int parse(struct kunit *test, const char *table)
{
	unsigned int argc = 0;
	char *rest, *word;

	line = kunit_kstrdup(test, table, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, line);
	rest = line;
	while ((word = strsep(&rest, " ")) && *word) {
		KUNIT_ASSERT_LT(test, argc, MAX_ARGS);
		argv[argc++] = word;
	}
	memset(&args, 0, sizeof(args));
	error = NULL;
	return rxc_args_parse(&args, argc, argv, &error);
}

struct args_case {
	const char *name;
	const char *table;
	unsigned int block_size;
	enum rxc_mode mode;
	u64 seq_cutoff;
	bool if_same;
	u64 diskseq;
	u64 changes;
	u64 size;
	u64 min_size;
	bool advise;
};

static const struct args_case good[] = {
	{ "devices only", "8:0 252:0", 8 },
	{ "no features", "8:0 252:0 0", 8 },
	{ "no features, no policy", "8:0 252:0 0 0", 8 },
	{ "mode", "8:0 252:0 1 writethrough", 8 },
	{ "block size", "8:0 252:0 2 block_size 64", 64 },
	{ "mode and block size", "8:0 252:0 3 writethrough block_size 64", 64 },
	{ "block size and mode", "8:0 252:0 3 block_size 64 writethrough", 64 },
	{ "as the status prints it", "8:0 252:0 3 writethrough block_size 8 0", 8 },
	{ "smallest block", "8:0 252:0 2 block_size 8 0", 8 },
	{ "largest block", "8:0 252:0 2 block_size 2048 0", 2048 },
	{ "writearound", "8:0 252:0 1 writearound", 8, RXC_WRITEAROUND },
	{ "passthrough", "8:0 252:0 3 block_size 16 passthrough", 16, RXC_PASSTHROUGH },
	{ "cut-off", "8:0 252:0 0 2 seq_cutoff 1048576", 8, 0, 1048576 },
	{ "cut-off and all else", "8:0 252:0 3 writearound block_size 64 2 seq_cutoff 512", 64,
	  RXC_WRITEAROUND, 512 },
	{ "cut-off off", "8:0 252:0 0 2 seq_cutoff 0", 8 },
	{ "if_same", "8:0 252:0 3 if_same 12 3", 8, 0, 0, true, 12, 3 },
	{ "if_same and all else",
	  "8:0 252:0 6 if_same 18446744073709551615 0 writearound block_size 64 2 seq_cutoff 512",
	  64, RXC_WRITEAROUND, 512, true, U64_MAX, 0 },
	{ "size", "8:0 252:0 0 2 size 1048576", 8, .size = 1048576 },
	{ "size 0", "8:0 252:0 0 2 size 0", 8 },
	{ "size and cut-off", "8:0 252:0 0 4 size 65536 seq_cutoff 512", 8, 0, 512, .size = 65536 },
	{ "cut-off and size", "8:0 252:0 0 4 seq_cutoff 512 size 65536", 8, 0, 512, .size = 65536 },
	{ "advise on", "8:0 252:0 0 2 advise 1", 8, .advise = true },
	{ "advise off", "8:0 252:0 0 2 advise 0", 8 },
	{ "advise and cut-off", "8:0 252:0 0 4 advise 1 seq_cutoff 512", 8, .seq_cutoff = 512,
	  .advise = true },
	{ "cut-off and advise", "8:0 252:0 0 4 seq_cutoff 512 advise 1", 8, .seq_cutoff = 512,
	  .advise = true },
	{ "size and advise", "8:0 252:0 0 4 size 65536 advise 1", 8, .size = 65536,
	  .advise = true },
	{ "all", "8:0 252:0 0 6 seq_cutoff 512 size 65536 advise 1", 8, .seq_cutoff = 512,
	  .size = 65536, .advise = true },
	{ "all in another order", "8:0 252:0 0 6 advise 1 size 65536 seq_cutoff 512", 8,
	  .seq_cutoff = 512, .size = 65536, .advise = true },
	{ "minimum", "8:0 252:0 0 2 min_size 65536", 8, .min_size = 65536 },
	{ "all and minimum", "8:0 252:0 0 8 seq_cutoff 512 min_size 65536 size 131072 advise 1", 8,
	  .seq_cutoff = 512, .size = 131072, .min_size = 65536, .advise = true },
	{ "largest cut-off", "8:0 252:0 0 2 seq_cutoff 1099511627776", 8, 0, 1ULL << 40 },
};

static const struct args_case bad[] = {
	{ "nothing", "" },
	{ "origin only", "8:0" },
	{ "feature count of no number", "8:0 252:0 x" },
	{ "feature count negative", "8:0 252:0 -1 writethrough" },
	{ "feature count too large", "8:0 252:0 7 writethrough block_size 8 if_same 1 1 0" },
	{ "if_same without numbers", "8:0 252:0 1 if_same" },
	{ "if_same with one number", "8:0 252:0 2 if_same 1 0" },
	{ "if_same with a sign", "8:0 252:0 3 if_same 1 -1" },
	{ "if_same of no number", "8:0 252:0 3 if_same x 1" },
	{ "if_same twice", "8:0 252:0 6 if_same 1 1 if_same 1 1" },
	{ "fewer features than counted", "8:0 252:0 3 writethrough" },
	{ "more features than counted", "8:0 252:0 1 writethrough block_size 8" },
	{ "features without count", "8:0 252:0 writethrough" },
	{ "unknown feature", "8:0 252:0 1 writeback" },
	{ "feature in capitals", "8:0 252:0 1 WRITETHROUGH" },
	{ "mode twice", "8:0 252:0 2 writethrough writethrough" },
	{ "two modes", "8:0 252:0 2 writethrough passthrough" },
	{ "part of a mode", "8:0 252:0 1 pass" },
	{ "block size without number", "8:0 252:0 1 block_size" },
	{ "block size last of two", "8:0 252:0 2 writethrough block_size 8" },
	{ "block size of no number", "8:0 252:0 2 block_size x" },
	{ "block size with unit", "8:0 252:0 2 block_size 8k" },
	{ "block size negative", "8:0 252:0 2 block_size -8" },
	{ "block size hexadecimal", "8:0 252:0 2 block_size 0x8" },
	{ "block size 0", "8:0 252:0 2 block_size 0" },
	{ "block size 1", "8:0 252:0 2 block_size 1" },
	{ "block size 4", "8:0 252:0 2 block_size 4" },
	{ "block size 9", "8:0 252:0 2 block_size 9" },
	{ "block size 24", "8:0 252:0 2 block_size 24" },
	{ "block size 2047", "8:0 252:0 2 block_size 2047" },
	{ "block size 4096", "8:0 252:0 2 block_size 4096" },
	{ "block size 2^32 + 8", "8:0 252:0 2 block_size 4294967304" },
	{ "policy count of no number", "8:0 252:0 0 x" },
	{ "policy count negative", "8:0 252:0 0 -1" },
	{ "policy argument", "8:0 252:0 0 2 key value" },
	{ "policy count without arguments", "8:0 252:0 0 2" },
	{ "policy count of one", "8:0 252:0 0 1 seq_cutoff" },
	{ "policy count too large",
	  "8:0 252:0 0 10 seq_cutoff 0 size 0 advise 0 min_size 0 seq_cutoff 0" },
	{ "minimum without number", "8:0 252:0 0 1 min_size" },
	{ "minimum of no number", "8:0 252:0 0 2 min_size x" },
	{ "minimum with unit", "8:0 252:0 0 2 min_size 1M" },
	{ "minimum negative", "8:0 252:0 0 2 min_size -4096" },
	{ "minimum twice", "8:0 252:0 0 4 min_size 65536 min_size 65536" },
	{ "policy argument twice", "8:0 252:0 0 4 seq_cutoff 0 seq_cutoff 0" },
	{ "advise twice", "8:0 252:0 0 4 advise 1 advise 1" },
	{ "advise 2", "8:0 252:0 0 2 advise 2" },
	{ "advise of no number", "8:0 252:0 0 2 advise yes" },
	{ "policy count short of its arguments", "8:0 252:0 0 2 seq_cutoff" },
	{ "cut-off of no number", "8:0 252:0 0 2 seq_cutoff x" },
	{ "cut-off with unit", "8:0 252:0 0 2 seq_cutoff 1M" },
	{ "cut-off negative", "8:0 252:0 0 2 seq_cutoff -512" },
	{ "cut-off with plus", "8:0 252:0 0 2 seq_cutoff +512" },
	{ "cut-off of no whole sectors", "8:0 252:0 0 2 seq_cutoff 1000" },
	{ "cut-off too large", "8:0 252:0 0 2 seq_cutoff 1099511628288" },
	{ "cut-off of 2^64 + 512", "8:0 252:0 0 2 seq_cutoff 18446744073709552128" },
	{ "size without number", "8:0 252:0 0 1 size" },
	{ "size of no number", "8:0 252:0 0 2 size x" },
	{ "size with unit", "8:0 252:0 0 2 size 1M" },
	{ "size negative", "8:0 252:0 0 2 size -4096" },
	{ "size of 2^64", "8:0 252:0 0 2 size 18446744073709551616" },
	{ "size twice", "8:0 252:0 0 4 size 65536 size 65536" },
	{ "policy count of three", "8:0 252:0 0 3 size 65536 seq_cutoff" },
	{ "cut-off twice of three", "8:0 252:0 0 6 size 65536 seq_cutoff 0 seq_cutoff 0" },
	{ "surplus argument", "8:0 252:0 0 0 surplus" },
	{ "surplus after features", "8:0 252:0 1 writethrough 0 surplus" },
};

static void get_name(const struct args_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(good, good, get_name);
KUNIT_ARRAY_PARAM(bad, bad, get_name);

static void accepts(struct kunit *test)
{
	const struct args_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, parse(test, c->table), 0);
	KUNIT_EXPECT_NULL(test, error);
	KUNIT_EXPECT_STREQ(test, args.origin, "8:0");
	KUNIT_EXPECT_STREQ(test, args.cache, "252:0");
	KUNIT_EXPECT_EQ(test, args.block_size, c->block_size);
	KUNIT_EXPECT_EQ(test, args.mode, c->mode);
	KUNIT_EXPECT_EQ(test, args.seq_cutoff, c->seq_cutoff);
	KUNIT_EXPECT_EQ(test, args.advise, c->advise);
	KUNIT_EXPECT_EQ(test, args.if_same, c->if_same);
	KUNIT_EXPECT_EQ(test, args.diskseq, c->diskseq);
	KUNIT_EXPECT_EQ(test, args.changes, c->changes);
	KUNIT_EXPECT_EQ(test, args.size, c->size);
	KUNIT_EXPECT_EQ(test, args.min_size, c->min_size);
}

static void refuses(struct kunit *test)
{
	const struct args_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, parse(test, c->table), -EINVAL);
	KUNIT_ASSERT_NOT_NULL(test, error);
	KUNIT_EXPECT_GT(test, strlen(error), 0);
}

static void accepts_each_power_of_two(struct kunit *test)
{
	unsigned int size;
	char table[64];

	for (size = 8; size <= 2048; size *= 2) {
		snprintf(table, sizeof(table), "8:0 252:0 2 block_size %u", size);
		KUNIT_EXPECT_EQ(test, parse(test, table), 0);
		KUNIT_EXPECT_EQ(test, args.block_size, size);
	}
}

static void keeps_paths(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, parse(test, "/dev/sda /dev/rxd0"), 0);
	KUNIT_EXPECT_STREQ(test, args.origin, "/dev/sda");
	KUNIT_EXPECT_STREQ(test, args.cache, "/dev/rxd0");
}

static void mode_names(struct kunit *test)
{
	enum rxc_mode mode, found;

	for (mode = 0; mode < RXC_NR_MODES; mode++) {
		KUNIT_ASSERT_EQ(test, rxc_parse_mode(rxc_mode_name(mode), &found), 0);
		KUNIT_EXPECT_EQ(test, found, mode);
	}
	KUNIT_EXPECT_EQ(test, rxc_parse_mode("", &found), -EINVAL);
}

static struct kunit_case args_cases[] = {
	KUNIT_CASE_PARAM(accepts, good_gen_params),
	KUNIT_CASE_PARAM(refuses, bad_gen_params),
	KUNIT_CASE(accepts_each_power_of_two),
	KUNIT_CASE(keeps_paths),
	KUNIT_CASE(mode_names),
	{}
};

static struct kunit_suite args_suite = {
	.name = "rxcache_args",
	.test_cases = args_cases,
};

kunit_test_suite(args_suite);

MODULE_DESCRIPTION("KUnit tests of the parser of rxcache's table line");
MODULE_LICENSE("GPL");
