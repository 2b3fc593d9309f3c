// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the argument checks of the ioctls.
 */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/numa.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "../module/check.h"

/*
 * Each case changes one field of a valid argument, and states what the check returns.
 */

static struct rxd_create good_create(void)
{
	return (struct rxd_create) {
		.version = RXD_ABI_VERSION,
		.index = RXD_INDEX_ANY,
		.size = SZ_1M,
	};
}

static struct rxd_remove good_remove(void)
{
	return (struct rxd_remove) { .version = RXD_ABI_VERSION };
}

static struct rxd_resize good_resize(void)
{
	return (struct rxd_resize) { .version = RXD_ABI_VERSION, .size = SZ_1M };
}

static struct rxd_clear good_clear(void)
{
	return (struct rxd_clear) { .version = RXD_ABI_VERSION };
}

static struct rxd_clone good_clone(void)
{
	return (struct rxd_clone) { .version = RXD_ABI_VERSION, .index = RXD_INDEX_ANY };
}

static struct rxd_reset good_reset(void)
{
	return (struct rxd_reset) { .version = RXD_ABI_VERSION, .source = 1 };
}

static struct rxd_map good_map(void)
{
	return (struct rxd_map) { .version = RXD_ABI_VERSION, .length = SZ_1M, .count = 1 };
}

static struct rxd_track good_track(void)
{
	return (struct rxd_track) { .version = RXD_ABI_VERSION, .state = { 1 } };
}

static struct rxd_changed good_changed(void)
{
	return (struct rxd_changed) { .version = RXD_ABI_VERSION, .length = SZ_1M, .count = 1 };
}

static struct rxd_diff good_diff(void)
{
	return (struct rxd_diff) { .version = RXD_ABI_VERSION, .length = SZ_1M, .count = 1 };
}

static struct rxd_query good_query(void)
{
	return (struct rxd_query) { .version = RXD_ABI_VERSION };
}

static struct rxd_count_shared good_count_shared(void)
{
	return (struct rxd_count_shared) { .version = RXD_ABI_VERSION, .length = SZ_1M };
}

#define EXPECT_CHECK(test, ioctl, field, value, answer)				\
do {										\
	struct rxd_##ioctl arg = good_##ioctl();				\
										\
	arg.field = value;							\
	KUNIT_EXPECT_EQ_MSG(test, rxd_check_##ioctl(&arg), answer,		\
			    #ioctl "." #field " = " #value);			\
} while (0)

static void good_arguments(struct kunit *test)
{
	struct rxd_create create = good_create();
	struct rxd_remove remove = good_remove();
	struct rxd_resize resize = good_resize();
	struct rxd_clear clear = good_clear();
	struct rxd_clone clone = good_clone();
	struct rxd_reset reset = good_reset();
	struct rxd_query query = good_query();
	struct rxd_count_shared count = good_count_shared();
	struct rxd_changed changed = good_changed();
	struct rxd_track track = good_track();
	struct rxd_diff diff = good_diff();
	struct rxd_map map = good_map();

	KUNIT_EXPECT_EQ(test, rxd_check_changed(&changed), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_track(&track), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_create(&create), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_remove(&remove), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_resize(&resize), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_clear(&clear), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_clone(&clone), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_reset(&reset), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_query(&query), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_count_shared(&count), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_map(&map), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_diff(&diff), 0);
}

static void version(struct kunit *test)
{
	EXPECT_CHECK(test, create, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, create, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, create, version, U32_MAX, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, remove, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, remove, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, resize, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, resize, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, clear, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, clear, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, clone, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, clone, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, reset, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, reset, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, map, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, map, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, diff, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, diff, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, track, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, track, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, changed, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, changed, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, query, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, query, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, count_shared, version, 0, -EPROTONOSUPPORT);
	EXPECT_CHECK(test, count_shared, version, RXD_ABI_VERSION + 1, -EPROTONOSUPPORT);
}

/* The version is checked first, because other versions may use other fields differently. */
static void version_comes_first(struct kunit *test)
{
	struct rxd_create arg = good_create();

	arg.version = RXD_ABI_VERSION + 1;
	arg.flags = U32_MAX;
	arg.size = 0;
	arg.reserved[0] = 1;
	KUNIT_EXPECT_EQ(test, rxd_check_create(&arg), -EPROTONOSUPPORT);
}

static void known_flags(struct kunit *test)
{
	EXPECT_CHECK(test, create, flags, RXD_CREATE_OVERCOMMIT, 0);
	EXPECT_CHECK(test, create, flags, RXD_CREATE_RESERVE, 0);
	EXPECT_CHECK(test, create, flags, RXD_CREATE_DETECT_ZEROES, 0);
	EXPECT_CHECK(test, create, flags, RXD_CREATE_ELASTIC, 0);
	EXPECT_CHECK(test, create, flags, RXD_CREATE_ELASTIC | RXD_CREATE_DETECT_ZEROES, 0);
	EXPECT_CHECK(test, create, flags, RXD_CREATE_OVERCOMMIT | RXD_CREATE_RESERVE, 0);
	EXPECT_CHECK(test, create, flags, RXD_CREATE_OVERCOMMIT | RXD_CREATE_DETECT_ZEROES, 0);
	EXPECT_CHECK(test, resize, flags, RXD_RESIZE_FORCE, 0);
	EXPECT_CHECK(test, resize, flags, RXD_RESIZE_OVERCOMMIT, 0);
	EXPECT_CHECK(test, resize, flags, RXD_RESIZE_FORCE | RXD_RESIZE_OVERCOMMIT, 0);
	EXPECT_CHECK(test, query, flags, RXD_QUERY_NEXT, 0);
	EXPECT_CHECK(test, create, flags, RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, create, flags, RXD_CREATE_RESERVE | RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, resize, flags, RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, resize, flags, RXD_RESIZE_FORCE | RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, remove, flags, RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, remove, flags, RXD_IF_SAME, 0);
	EXPECT_CHECK(test, remove, flags, RXD_IF_SAME | RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, clear, flags, RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, clear, flags, RXD_IF_SAME, 0);
	EXPECT_CHECK(test, clear, flags, RXD_IF_SAME | RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, clone, flags, RXD_CREATE_OVERCOMMIT | RXD_CLONE_READ_ONLY, 0);
	EXPECT_CHECK(test, clone, flags, RXD_CLONE_READ_ONLY | RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, clone, flags, RXD_CLONE_NO_FREEZE | RXD_CLONE_READ_ONLY, 0);
	EXPECT_CHECK(test, track, flags, RXD_IF_SAME, 0);
	EXPECT_CHECK(test, track, flags, RXD_IF_SAME | RXD_DRY_RUN, 0);
	EXPECT_CHECK(test, reset, flags, RXD_IF_SAME, 0);
	EXPECT_CHECK(test, reset, flags, RXD_DRY_RUN, 0);
}

/* Any two numbers are allowed with RXD_IF_SAME, and none without it. */
static void numbers_of_if_same(struct kunit *test)
{
	struct rxd_remove remove = good_remove();
	struct rxd_clear clear = good_clear();
	struct rxd_reset reset = good_reset();

	EXPECT_CHECK(test, remove, diskseq, 1ULL << 63, -EINVAL);
	EXPECT_CHECK(test, remove, changes, 1, -EINVAL);
	EXPECT_CHECK(test, clear, diskseq, 1, -EINVAL);
	EXPECT_CHECK(test, clear, changes, RXD_CHANGES_ANY, -EINVAL);
	EXPECT_CHECK(test, reset, diskseq, 1, -EINVAL);
	EXPECT_CHECK(test, reset, changes, 1, -EINVAL);
	remove.flags = RXD_IF_SAME;
	remove.diskseq = 1ULL << 63;
	remove.changes = RXD_CHANGES_ANY;
	KUNIT_EXPECT_EQ(test, rxd_check_remove(&remove), 0);
	clear.flags = RXD_IF_SAME;
	clear.diskseq = 1;
	clear.changes = 1ULL << 32;
	KUNIT_EXPECT_EQ(test, rxd_check_clear(&clear), 0);
	reset.flags = RXD_IF_SAME;
	reset.diskseq = 1;
	reset.changes = 1;
	KUNIT_EXPECT_EQ(test, rxd_check_reset(&reset), 0);
}

/* A state has a name, also one that begins with zeros, and only where a record begins. */
static void names_of_states(struct kunit *test)
{
	struct rxd_clone clone = good_clone();
	struct rxd_track track = good_track();

	EXPECT_CHECK(test, clone, flags, RXD_CLONE_TRACK, -EINVAL);
	EXPECT_CHECK(test, clone, state[15], 1, -EINVAL);
	clone.flags = RXD_CLONE_TRACK;
	clone.state[15] = 1;
	KUNIT_EXPECT_EQ(test, rxd_check_clone(&clone), 0);
	clone.flags |= RXD_CREATE_OVERCOMMIT | RXD_CLONE_EXPENDABLE | RXD_CLONE_NO_FREEZE;
	KUNIT_EXPECT_EQ(test, rxd_check_clone(&clone), 0);

	EXPECT_CHECK(test, track, state[0], 0, -EINVAL);
	EXPECT_CHECK(test, track, state[15], 1, 0);
	EXPECT_CHECK(test, track, flags, RXD_TRACK_STOP, -EINVAL);
	track.flags = RXD_TRACK_STOP;
	track.state[0] = 0;
	KUNIT_EXPECT_EQ(test, rxd_check_track(&track), 0);
	track.flags |= RXD_IF_SAME | RXD_DRY_RUN;
	KUNIT_EXPECT_EQ(test, rxd_check_track(&track), 0);
}

/* Descriptors are given with their number, and not if nothing is frozen. */
static void descriptors(struct kunit *test)
{
	struct rxd_clone clone = good_clone();

	clone.fds = 4096;
	KUNIT_EXPECT_EQ(test, rxd_check_clone(&clone), -EINVAL);
	clone.nr_fds = RXD_CLONE_FDS_MAX;
	KUNIT_EXPECT_EQ(test, rxd_check_clone(&clone), 0);
	clone.flags = RXD_CLONE_NO_FREEZE;
	KUNIT_EXPECT_EQ(test, rxd_check_clone(&clone), -EINVAL);
	clone.flags = 0;
	clone.nr_fds = RXD_CLONE_FDS_MAX + 1;
	KUNIT_EXPECT_EQ(test, rxd_check_clone(&clone), -EINVAL);
}

static void unknown_flags(struct kunit *test)
{
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		if (bit > 0)
			EXPECT_CHECK(test, query, flags, 1U << bit, -EINVAL);
		EXPECT_CHECK(test, map, flags, 1U << bit, -EINVAL);
		EXPECT_CHECK(test, diff, flags, 1U << bit, -EINVAL);
		EXPECT_CHECK(test, changed, flags, 1U << bit, -EINVAL);
		EXPECT_CHECK(test, count_shared, flags, 1U << bit, -EINVAL);
		if (1U << bit == RXD_DRY_RUN)
			continue;
		if (bit > 3)
			EXPECT_CHECK(test, create, flags, 1U << bit, -EINVAL);
		if (bit > 1) {
			EXPECT_CHECK(test, resize, flags, 1U << bit, -EINVAL);
			EXPECT_CHECK(test, clone, flags, 1U << bit,
				     1U << bit == RXD_CLONE_READ_ONLY ||
				     1U << bit == RXD_CLONE_EXPENDABLE ||
				     1U << bit == RXD_CLONE_NO_FREEZE ? 0 : -EINVAL);
		}
		if (bit > 0) {
			EXPECT_CHECK(test, remove, flags, 1U << bit, -EINVAL);
			EXPECT_CHECK(test, clear, flags, 1U << bit, -EINVAL);
			EXPECT_CHECK(test, reset, flags, 1U << bit, -EINVAL);
			EXPECT_CHECK(test, track, flags, 1U << bit, -EINVAL);
		}
	}
	EXPECT_CHECK(test, create, flags, RXD_CREATE_RESERVE | 1U << 30, -EINVAL);
	EXPECT_CHECK(test, remove, flags, RXD_DRY_RUN | 2, -EINVAL);
}

/* A reserved disk stores zeros. */
static void reserve_with_detect_zeroes(struct kunit *test)
{
	EXPECT_CHECK(test, create, flags, RXD_CREATE_RESERVE | RXD_CREATE_DETECT_ZEROES, -EINVAL);
	EXPECT_CHECK(test, create, flags,
		     RXD_CREATE_RESERVE | RXD_CREATE_DETECT_ZEROES | RXD_CREATE_OVERCOMMIT,
		     -EINVAL);
}

/* Such a disk counts nothing, or its size, whatever the cache is. */
static void elastic_with_others(struct kunit *test)
{
	EXPECT_CHECK(test, create, flags, RXD_CREATE_ELASTIC | RXD_CREATE_OVERCOMMIT, -EINVAL);
	EXPECT_CHECK(test, create, flags, RXD_CREATE_ELASTIC | RXD_CREATE_RESERVE, -EINVAL);
}

static void reserve_with_mem_limit(struct kunit *test)
{
	struct rxd_create arg = good_create();

	arg.flags = RXD_CREATE_RESERVE;
	arg.mem_limit = arg.size - PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, rxd_check_create(&arg), -EINVAL);
	arg.mem_limit = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, rxd_check_create(&arg), -EINVAL);
	arg.mem_limit = arg.size;
	KUNIT_EXPECT_EQ(test, rxd_check_create(&arg), 0);
	arg.mem_limit = arg.size + PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, rxd_check_create(&arg), 0);

	/* Without reservation, the limit may be below the size. */
	arg.flags = RXD_CREATE_OVERCOMMIT;
	arg.mem_limit = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, rxd_check_create(&arg), 0);
}

static void piece_size(struct kunit *test)
{
	EXPECT_CHECK(test, create, folio_size, 0, 0);
	EXPECT_CHECK(test, create, folio_size, SZ_4K, 0);
	EXPECT_CHECK(test, create, folio_size, SZ_64K, 0);
	EXPECT_CHECK(test, create, folio_size, SZ_2M, 0);
	EXPECT_CHECK(test, create, folio_size, 1, -EINVAL);
	EXPECT_CHECK(test, create, folio_size, 512, -EINVAL);
	EXPECT_CHECK(test, create, folio_size, SZ_4K + 1, -EINVAL);
	EXPECT_CHECK(test, create, folio_size, SZ_16K, -EINVAL);
	EXPECT_CHECK(test, create, folio_size, SZ_1M, -EINVAL);
	EXPECT_CHECK(test, create, folio_size, SZ_4M, -EINVAL);
	EXPECT_CHECK(test, create, folio_size, U32_MAX, -EINVAL);
}

/* The check does not ask whether a node has memory. */
static void node(struct kunit *test)
{
	EXPECT_CHECK(test, create, node, RXD_NODE_LOCAL, 0);
	EXPECT_CHECK(test, create, node, RXD_NODE_INTERLEAVE, 0);
	EXPECT_CHECK(test, create, node, 0, 0);
	EXPECT_CHECK(test, create, node, MAX_NUMNODES - 1, 0);
	EXPECT_CHECK(test, create, node, MAX_NUMNODES, -EINVAL);
	EXPECT_CHECK(test, create, node, -3, -EINVAL);
	EXPECT_CHECK(test, create, node, S32_MIN, -EINVAL);
	EXPECT_CHECK(test, create, node, S32_MAX, -EINVAL);
}

static void names(struct kunit *test)
{
	static const char *const good[] = {
		"", "a", "scratch", "A-Z_0.9", "0", "_", "rxd", "rxd-0", "my-rxd0",
		"abcdefghijklmnopqrstuvwxyz012345",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(good); i++)
		KUNIT_EXPECT_EQ_MSG(test, rxd_check_name(good[i], strlen(good[i])), 0,
				    "'%s'", good[i]);
}

static void names_that_are_not_allowed(struct kunit *test)
{
	static const char *const bad[] = {
		"-", ".", "..", "-a", ".a", " ", "a b", "a/b", "a\n", "a\\", "a\"", "a,b", "a=b",
		"\303\244", "\177", "rxd0", "rxd9x", "abcdefghijklmnopqrstuvwxyz0123456",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, rxd_check_name(bad[i], strlen(bad[i])), -EINVAL,
				    "'%s'", bad[i]);
	KUNIT_EXPECT_EQ(test, rxd_check_name("a\0b", 3), -EINVAL);
}

/* Any UUID is valid, and so is none. */
static void uuid(struct kunit *test)
{
	struct rxd_create arg = good_create();

	memset(arg.uuid, 0xff, sizeof(arg.uuid));
	KUNIT_EXPECT_EQ(test, rxd_check_create(&arg), 0);
	EXPECT_CHECK(test, create, uuid[15], 1, 0);
}

static void reserved_words(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(good_create().reserved); i++)
		EXPECT_CHECK(test, create, reserved[i], 1, -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good_resize().reserved); i++)
		EXPECT_CHECK(test, resize, reserved[i], 1, -EINVAL);
	EXPECT_CHECK(test, clone, pad, 1, -EINVAL);
	EXPECT_CHECK(test, clone, held_ns, 1, -EINVAL);
	EXPECT_CHECK(test, clone, frozen_ns, 1, -EINVAL);
	EXPECT_CHECK(test, clone, changes, 1, -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good_reset().reserved); i++)
		EXPECT_CHECK(test, reset, reserved[i], 1, -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good_map().reserved); i++)
		EXPECT_CHECK(test, map, reserved[i], 1, -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good_diff().reserved); i++)
		EXPECT_CHECK(test, diff, reserved[i], 1, -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good_track().reserved); i++)
		EXPECT_CHECK(test, track, reserved[i], 1, -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good_changed().reserved); i++)
		EXPECT_CHECK(test, changed, reserved[i], 1, -EINVAL);
	EXPECT_CHECK(test, changed, state[0], 1, -EINVAL);
	EXPECT_CHECK(test, changed, next, 1, -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good_query().reserved); i++)
		EXPECT_CHECK(test, query, reserved[i], 1ULL << 63, -EINVAL);
	for (i = 0; i < ARRAY_SIZE(good_count_shared().reserved); i++)
		EXPECT_CHECK(test, count_shared, reserved[i], 1, -EINVAL);
	EXPECT_CHECK(test, count_shared, next, 1, -EINVAL);
	EXPECT_CHECK(test, count_shared, shared, 1, -EINVAL);
}

static void padding(struct kunit *test)
{
	EXPECT_CHECK(test, remove, pad, 1, -EINVAL);
	EXPECT_CHECK(test, resize, pad, 1, -EINVAL);
	EXPECT_CHECK(test, clear, pad, 1, -EINVAL);
	EXPECT_CHECK(test, map, pad, U32_MAX, -EINVAL);
	EXPECT_CHECK(test, track, pad, 1, -EINVAL);
	EXPECT_CHECK(test, changed, pad, U32_MAX, -EINVAL);
	EXPECT_CHECK(test, query, pad, 1, -EINVAL);
	EXPECT_CHECK(test, count_shared, pad, 1, -EINVAL);
}

static void create_index(struct kunit *test)
{
	EXPECT_CHECK(test, create, index, 0, 0);
	EXPECT_CHECK(test, create, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, create, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, create, index, -2, -EINVAL);
	EXPECT_CHECK(test, create, index, S32_MIN, -EINVAL);
	EXPECT_CHECK(test, create, index, S32_MAX, -EINVAL);
}

static void device_index(struct kunit *test)
{
	EXPECT_CHECK(test, remove, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, remove, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, remove, index, RXD_INDEX_ANY, -EINVAL);
	EXPECT_CHECK(test, resize, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, resize, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, resize, index, RXD_INDEX_ANY, -EINVAL);
	EXPECT_CHECK(test, clear, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, clear, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, clear, index, RXD_INDEX_ANY, -EINVAL);
	EXPECT_CHECK(test, clear, index, S32_MIN, -EINVAL);
	EXPECT_CHECK(test, clone, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, clone, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, clone, index, -2, -EINVAL);
	EXPECT_CHECK(test, clone, source, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, clone, source, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, clone, source, RXD_INDEX_ANY, -EINVAL);
	EXPECT_CHECK(test, track, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, track, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, track, index, RXD_INDEX_ANY, -EINVAL);
	EXPECT_CHECK(test, reset, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, reset, index, 1, -EINVAL);
	EXPECT_CHECK(test, reset, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, reset, source, 0, -EINVAL);
	EXPECT_CHECK(test, reset, source, RXD_INDEX_ANY, -EINVAL);
	EXPECT_CHECK(test, query, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, query, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, query, index, RXD_INDEX_ANY, -EINVAL);
	EXPECT_CHECK(test, count_shared, index, RXD_INDEX_MAX, 0);
	EXPECT_CHECK(test, count_shared, index, RXD_INDEX_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, count_shared, index, RXD_INDEX_ANY, -EINVAL);
}

static void logical_block_size(struct kunit *test)
{
	EXPECT_CHECK(test, create, logical_block_size, 0, 0);
	EXPECT_CHECK(test, create, logical_block_size, 512, 0);
	EXPECT_CHECK(test, create, logical_block_size, 4096, 0);
	EXPECT_CHECK(test, create, logical_block_size, 1, -EINVAL);
	EXPECT_CHECK(test, create, logical_block_size, 511, -EINVAL);
	EXPECT_CHECK(test, create, logical_block_size, 1024, -EINVAL);
	EXPECT_CHECK(test, create, logical_block_size, 8192, -EINVAL);
	EXPECT_CHECK(test, create, logical_block_size, U32_MAX, -EINVAL);
}

static void mem_limit(struct kunit *test)
{
	EXPECT_CHECK(test, create, mem_limit, PAGE_SIZE, 0);
	EXPECT_CHECK(test, create, mem_limit, PAGE_SIZE - 1, -EINVAL);
	EXPECT_CHECK(test, create, mem_limit, PAGE_SIZE + 512, -EINVAL);
	EXPECT_CHECK(test, create, mem_limit, U64_MAX, -EINVAL);
}

static void size(struct kunit *test)
{
	EXPECT_CHECK(test, create, size, PAGE_SIZE, 0);
	EXPECT_CHECK(test, create, size, RXD_SIZE_MAX, 0);
	EXPECT_CHECK(test, resize, size, PAGE_SIZE, 0);
	EXPECT_CHECK(test, resize, size, RXD_SIZE_MAX, 0);
}

static void size_zero(struct kunit *test)
{
	EXPECT_CHECK(test, create, size, 0, -EINVAL);
	EXPECT_CHECK(test, resize, size, 0, -EINVAL);
}

static void size_not_a_multiple(struct kunit *test)
{
	EXPECT_CHECK(test, create, size, 1, -EINVAL);
	EXPECT_CHECK(test, create, size, 512, -EINVAL);
	EXPECT_CHECK(test, create, size, SZ_1M + 512, -EINVAL);
	EXPECT_CHECK(test, create, size, U64_MAX, -EINVAL);
	EXPECT_CHECK(test, resize, size, 512, -EINVAL);
	EXPECT_CHECK(test, resize, size, SZ_1M - 1, -EINVAL);
	EXPECT_CHECK(test, resize, size, U64_MAX, -EINVAL);
}

static void size_too_large(struct kunit *test)
{
	EXPECT_CHECK(test, create, size, RXD_SIZE_MAX + PAGE_SIZE, -EFBIG);
	EXPECT_CHECK(test, create, size, U64_MAX - PAGE_SIZE + 1, -EFBIG);
	EXPECT_CHECK(test, resize, size, RXD_SIZE_MAX + PAGE_SIZE, -EFBIG);
	EXPECT_CHECK(test, resize, size, 1ULL << 63, -EFBIG);
}

static void map_range(struct kunit *test)
{
	struct rxd_map arg = good_map();

	EXPECT_CHECK(test, map, length, 0, 0);
	EXPECT_CHECK(test, map, length, PAGE_SIZE, 0);
	EXPECT_CHECK(test, map, length, PAGE_SIZE - 1, -EINVAL);
	EXPECT_CHECK(test, map, length, 512, -EINVAL);
	EXPECT_CHECK(test, map, start, PAGE_SIZE, 0);
	EXPECT_CHECK(test, map, start, 1, -EINVAL);
	EXPECT_CHECK(test, map, start, PAGE_SIZE + 512, -EINVAL);
	/* A range beyond the end of the disk is ignored, not rejected. */
	EXPECT_CHECK(test, map, start, RXD_SIZE_MAX, 0);
	EXPECT_CHECK(test, map, length, U64_MAX - PAGE_SIZE + 1, 0);

	arg.start = U64_MAX - 2 * PAGE_SIZE + 1;
	arg.length = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, rxd_check_map(&arg), 0);
	arg.length = 2 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, rxd_check_map(&arg), -EINVAL);
	arg.start = PAGE_SIZE;
	arg.length = U64_MAX - PAGE_SIZE + 1;
	KUNIT_EXPECT_EQ(test, rxd_check_map(&arg), -EINVAL);
}

static void map_count(struct kunit *test)
{
	EXPECT_CHECK(test, map, count, 1, 0);
	EXPECT_CHECK(test, map, count, RXD_MAP_MAX, 0);
	EXPECT_CHECK(test, map, count, 0, -EINVAL);
	EXPECT_CHECK(test, map, count, RXD_MAP_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, map, count, U32_MAX, -EINVAL);
}

static void map_next(struct kunit *test)
{
	EXPECT_CHECK(test, map, next, 1, -EINVAL);
	EXPECT_CHECK(test, map, next, PAGE_SIZE, -EINVAL);
	EXPECT_CHECK(test, map, next, U64_MAX, -EINVAL);
}

static void diff_range(struct kunit *test)
{
	EXPECT_CHECK(test, diff, start, PAGE_SIZE, 0);
	EXPECT_CHECK(test, diff, start, 512, -EINVAL);
	EXPECT_CHECK(test, diff, start, U64_MAX - PAGE_SIZE + 1, -EINVAL);
	EXPECT_CHECK(test, diff, length, 512, -EINVAL);
	EXPECT_CHECK(test, diff, count, RXD_MAP_MAX, 0);
	EXPECT_CHECK(test, diff, count, 0, -EINVAL);
	EXPECT_CHECK(test, diff, count, RXD_MAP_MAX + 1, -EINVAL);
	EXPECT_CHECK(test, diff, next, PAGE_SIZE, -EINVAL);
	EXPECT_CHECK(test, diff, shared, PAGE_SIZE, -EINVAL);
	/* rxd_diff() checks the descriptor. */
	EXPECT_CHECK(test, diff, base, -1, 0);
}

static void count_range(struct kunit *test)
{
	EXPECT_CHECK(test, count_shared, start, PAGE_SIZE, 0);
	EXPECT_CHECK(test, count_shared, start, 512, -EINVAL);
	EXPECT_CHECK(test, count_shared, start, U64_MAX - PAGE_SIZE + 1, -EINVAL);
	EXPECT_CHECK(test, count_shared, length, 0, 0);
	EXPECT_CHECK(test, count_shared, length, 512, -EINVAL);
	EXPECT_CHECK(test, count_shared, length, U64_MAX - PAGE_SIZE + 1, 0);
	EXPECT_CHECK(test, count_shared, diskseq, U64_MAX, 0);
}

/* The check does not test whether the array can be written. */
static void map_extents(struct kunit *test)
{
	EXPECT_CHECK(test, map, extents, 0, 0);
	EXPECT_CHECK(test, map, extents, U64_MAX, 0);
}

/* 32-bit and 64-bit programs use the same layout: no holes, and no padding at the end. */
static void layout(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_create), 88);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_create, size), 16);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_create, folio_size), 32);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_create, uuid), 40);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_create, reserved), 56);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_remove), 32);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_resize), 40);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_resize, size), 16);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_clear), 32);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_clone), 88);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_clone, uuid), 16);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_reset), 48);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_reset, diskseq), 16);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_query), 160);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_query, size), 32);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_query, node), 104);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_query, reserved), 128);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_extent), 16);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_map), 64);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_map, next), 40);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_diff), 72);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_diff, next), 40);
	KUNIT_EXPECT_EQ(test, sizeof(struct rxd_count_shared), 72);
	KUNIT_EXPECT_EQ(test, offsetof(struct rxd_count_shared, next), 40);
}

static void expect_size(struct kunit *test, const char *text, int answer, u64 size)
{
	u64 got = 0x5a;

	KUNIT_EXPECT_EQ_MSG(test, rxd_parse_size(text, &got), answer, "'%s'", text);
	if (!answer)
		KUNIT_EXPECT_EQ_MSG(test, got, size, "'%s'", text);
}

static void parse_size(struct kunit *test)
{
	expect_size(test, "0", 0, 0);
	expect_size(test, "4096", 0, 4096);
	expect_size(test, "0100", 0, 100);
	expect_size(test, "4K", 0, SZ_4K);
	expect_size(test, "64m", 0, SZ_64M);
	expect_size(test, "1G", 0, SZ_1G);
	expect_size(test, "256T", 0, RXD_SIZE_MAX);
	expect_size(test, "18446744073709551615", 0, U64_MAX);
	expect_size(test, "16777215T", 0, 16777215ULL << 40);
}

static void parse_bad_size(struct kunit *test)
{
	static const char * const bad[] = {
		"", " 1G", "1G ", "-1", "+1", "G", "1P", "1E", "1GB", "1GiB", "1.5G", "0x1000",
		"1G\n", "1 G", "1,5", "none",
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		expect_size(test, bad[i], -EINVAL, 0);
}

static void parse_too_large_size(struct kunit *test)
{
	expect_size(test, "18446744073709551616", -EFBIG, 0);
	expect_size(test, "16777216T", -EFBIG, 0);
	expect_size(test, "16777217T", -EFBIG, 0);
	expect_size(test, "18446744073709551615K", -EFBIG, 0);
	expect_size(test, "99999999999999999999999999999999999999999999999999G", -EFBIG, 0);
}

/* A check does not change the argument. */
static void argument_is_left_alone(struct kunit *test)
{
	const struct rxd_create before = good_create();
	struct rxd_create arg = before;

	KUNIT_ASSERT_EQ(test, rxd_check_create(&arg), 0);
	KUNIT_EXPECT_MEMEQ(test, &arg, &before, sizeof(arg));
}

static void share(struct kunit *test)
{
	const u64 ram = 100 * (u64)SZ_1M;

	KUNIT_EXPECT_EQ(test, rxd_check_share(0, 75 * (u64)SZ_1M, ram, 75), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_share(0, 75 * (u64)SZ_1M + PAGE_SIZE, ram, 75), -ERANGE);
	KUNIT_EXPECT_EQ(test, rxd_check_share(0, ram, ram, 100), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_share(0, SZ_1M, ram, 1), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_share(0, 2 * SZ_1M, ram, 1), -ERANGE);
}

static void share_counts_what_was_promised(struct kunit *test)
{
	const u64 ram = 100 * (u64)SZ_1M;

	KUNIT_EXPECT_EQ(test, rxd_check_share(70 * SZ_1M, 5 * SZ_1M, ram, 75), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_share(70 * SZ_1M, 6 * SZ_1M, ram, 75), -ERANGE);
	/* The share may have been lowered after disks were created. */
	KUNIT_EXPECT_EQ(test, rxd_check_share(70 * SZ_1M, PAGE_SIZE, ram, 50), -ERANGE);
}

static void share_does_not_wrap(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, rxd_check_share(U64_MAX, PAGE_SIZE, SZ_1G, 75), -ERANGE);
	KUNIT_EXPECT_EQ(test, rxd_check_share(PAGE_SIZE, U64_MAX, SZ_1G, 75), -ERANGE);
	KUNIT_EXPECT_EQ(test, rxd_check_share(0, RXD_SIZE_MAX, 1ULL << 60, 100), 0);
	KUNIT_EXPECT_EQ(test, rxd_check_share(0, RXD_SIZE_MAX, U64_MAX, 100), 0);
}

static struct kunit_case check_cases[] = {
	KUNIT_CASE(good_arguments),
	KUNIT_CASE(version),
	KUNIT_CASE(version_comes_first),
	KUNIT_CASE(known_flags),
	KUNIT_CASE(names_of_states),
	KUNIT_CASE(descriptors),
	KUNIT_CASE(unknown_flags),
	KUNIT_CASE(numbers_of_if_same),
	KUNIT_CASE(reserve_with_detect_zeroes),
	KUNIT_CASE(elastic_with_others),
	KUNIT_CASE(reserve_with_mem_limit),
	KUNIT_CASE(piece_size),
	KUNIT_CASE(node),
	KUNIT_CASE(uuid),
	KUNIT_CASE(names),
	KUNIT_CASE(names_that_are_not_allowed),
	KUNIT_CASE(reserved_words),
	KUNIT_CASE(padding),
	KUNIT_CASE(create_index),
	KUNIT_CASE(device_index),
	KUNIT_CASE(logical_block_size),
	KUNIT_CASE(mem_limit),
	KUNIT_CASE(size),
	KUNIT_CASE(size_zero),
	KUNIT_CASE(size_not_a_multiple),
	KUNIT_CASE(size_too_large),
	KUNIT_CASE(map_range),
	KUNIT_CASE(map_count),
	KUNIT_CASE(map_next),
	KUNIT_CASE(map_extents),
	KUNIT_CASE(diff_range),
	KUNIT_CASE(count_range),
	KUNIT_CASE(layout),
	KUNIT_CASE(parse_size),
	KUNIT_CASE(parse_bad_size),
	KUNIT_CASE(parse_too_large_size),
	KUNIT_CASE(argument_is_left_alone),
	KUNIT_CASE(share),
	KUNIT_CASE(share_counts_what_was_promised),
	KUNIT_CASE(share_does_not_wrap),
	{}
};

static struct kunit_suite check_suite = {
	.name = "rxd_check",
	.test_cases = check_cases,
};

kunit_test_suite(check_suite);

MODULE_DESCRIPTION("KUnit tests of the argument checks of rxd's ioctls");
MODULE_LICENSE("GPL");
