// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of the ioctl arguments. They use nothing but the arguments and change nothing.
 */
#include <linux/align.h>
#include <linux/ctype.h>
#include <linux/errno.h>
#include <linux/kstrtox.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/numa.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "check.h"

static int check_header(u32 version, u32 flags, u32 known_flags)
{
	if (version != RXD_ABI_VERSION)
		return -EPROTONOSUPPORT;
	if (flags & ~known_flags)
		return -EINVAL;
	return 0;
}

static int check_index(s32 index)
{
	return index < 0 || index > RXD_INDEX_MAX ? -EINVAL : 0;
}

static int check_size(u64 size)
{
	if (!size || !IS_ALIGNED(size, PAGE_SIZE))
		return -EINVAL;
	if (size > RXD_SIZE_MAX)
		return -EFBIG;
	return 0;
}

static bool is_zero(const void *reserved, size_t size)
{
	return !memchr_inv(reserved, 0, size);
}

/**
 * rxd_check_create - check the argument of RXD_CREATE
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT, -EINVAL or -EFBIG; see struct rxd_create.
 */
int rxd_check_create(const struct rxd_create *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags,
			   RXD_CREATE_OVERCOMMIT | RXD_CREATE_RESERVE |
			   RXD_CREATE_DETECT_ZEROES | RXD_CREATE_ELASTIC | RXD_DRY_RUN);
	if (ret)
		return ret;
	if (!is_zero(arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	if (arg->index != RXD_INDEX_ANY && check_index(arg->index))
		return -EINVAL;
	if (arg->logical_block_size != 0 && arg->logical_block_size != 512 &&
	    arg->logical_block_size != 4096)
		return -EINVAL;
	if (!IS_ALIGNED(arg->mem_limit, PAGE_SIZE))
		return -EINVAL;
	if (arg->folio_size != 0 && arg->folio_size != SZ_4K &&
	    arg->folio_size != SZ_64K && arg->folio_size != SZ_2M)
		return -EINVAL;
	if (arg->node < RXD_NODE_INTERLEAVE || arg->node >= MAX_NUMNODES)
		return -EINVAL;
	ret = check_size(arg->size);
	if (ret)
		return ret;
	if (arg->flags & RXD_CREATE_RESERVE) {
		/* A reserved disk stores zeros, and needs memory for its whole size. */
		if (arg->flags & RXD_CREATE_DETECT_ZEROES ||
		    (arg->mem_limit && arg->mem_limit < arg->size))
			return -EINVAL;
	}
	/* These count nothing, or the whole size, whatever the cache is. */
	if (arg->flags & RXD_CREATE_ELASTIC &&
	    arg->flags & (RXD_CREATE_OVERCOMMIT | RXD_CREATE_RESERVE))
		return -EINVAL;
	return 0;
}

/* Without RXD_IF_SAME, the two words are reserved. */
static int check_same(u32 flags, u64 diskseq, u64 changes)
{
	return !(flags & RXD_IF_SAME) && (diskseq || changes) ? -EINVAL : 0;
}

/**
 * rxd_check_remove - check the argument of RXD_REMOVE
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_remove(const struct rxd_remove *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags, RXD_IF_SAME | RXD_DRY_RUN);
	if (ret)
		return ret;
	if (arg->pad || check_same(arg->flags, arg->diskseq, arg->changes))
		return -EINVAL;
	return check_index(arg->index);
}

/**
 * rxd_check_resize - check the argument of RXD_RESIZE
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT, -EINVAL or -EFBIG.
 */
int rxd_check_resize(const struct rxd_resize *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags,
			   RXD_RESIZE_FORCE | RXD_RESIZE_OVERCOMMIT | RXD_DRY_RUN);
	if (ret)
		return ret;
	if (arg->pad || !is_zero(arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	ret = check_index(arg->index);
	if (ret)
		return ret;
	return check_size(arg->size);
}

/**
 * rxd_check_clear - check the argument of RXD_CLEAR
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_clear(const struct rxd_clear *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags, RXD_IF_SAME | RXD_DRY_RUN);
	if (ret)
		return ret;
	if (arg->pad || check_same(arg->flags, arg->diskseq, arg->changes))
		return -EINVAL;
	return check_index(arg->index);
}

/**
 * rxd_check_clone - check the argument of RXD_CLONE
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_clone(const struct rxd_clone *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags,
			   RXD_CREATE_OVERCOMMIT | RXD_CLONE_READ_ONLY |
			   RXD_CLONE_EXPENDABLE | RXD_CLONE_NO_FREEZE | RXD_CLONE_TRACK |
			   RXD_DRY_RUN);
	if (ret)
		return ret;
	if (arg->pad || arg->held_ns || arg->frozen_ns || arg->changes)
		return -EINVAL;
	/* A state has a name if and only if a record begins. */
	if (is_zero(arg->state, sizeof(arg->state)) != !(arg->flags & RXD_CLONE_TRACK))
		return -EINVAL;
	if (arg->nr_fds > RXD_CLONE_FDS_MAX || (!arg->nr_fds && arg->fds) ||
	    (arg->nr_fds && arg->flags & RXD_CLONE_NO_FREEZE))
		return -EINVAL;
	if (arg->index != RXD_INDEX_ANY && check_index(arg->index))
		return -EINVAL;
	return check_index(arg->source);
}

/**
 * rxd_check_reset - check the argument of RXD_RESET
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_reset(const struct rxd_reset *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags, RXD_IF_SAME | RXD_DRY_RUN);
	if (ret)
		return ret;
	if (!is_zero(arg->reserved, sizeof(arg->reserved)) ||
	    check_same(arg->flags, arg->diskseq, arg->changes))
		return -EINVAL;
	if (arg->index == arg->source)
		return -EINVAL;
	return check_index(arg->index) ?: check_index(arg->source);
}

static bool is_range(u64 start, u64 length)
{
	u64 end;

	return IS_ALIGNED(start | length, PAGE_SIZE) && !check_add_overflow(start, length, &end);
}

/* Return: whether the range and the size of the array of a walk are allowed. */
static bool is_walk(u64 start, u64 length, u32 count)
{
	return count && count <= RXD_MAP_MAX && is_range(start, length);
}

/**
 * rxd_check_map - check the argument of RXD_MAP
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_map(const struct rxd_map *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags, 0);
	if (ret)
		return ret;
	if (arg->pad || arg->next || !is_zero(arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	return is_walk(arg->start, arg->length, arg->count) ? 0 : -EINVAL;
}

/**
 * rxd_check_diff - check the argument of RXD_DIFF
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_diff(const struct rxd_diff *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags, 0);
	if (ret)
		return ret;
	if (arg->next || arg->shared || !is_zero(arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	return is_walk(arg->start, arg->length, arg->count) ? 0 : -EINVAL;
}

/**
 * rxd_check_track - check the argument of RXD_TRACK
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_track(const struct rxd_track *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags,
			   RXD_TRACK_STOP | RXD_IF_SAME | RXD_DRY_RUN);
	if (ret)
		return ret;
	if (arg->pad || !is_zero(arg->reserved, sizeof(arg->reserved)) ||
	    check_same(arg->flags, arg->diskseq, arg->changes))
		return -EINVAL;
	if (is_zero(arg->state, sizeof(arg->state)) != !!(arg->flags & RXD_TRACK_STOP))
		return -EINVAL;
	return check_index(arg->index);
}

/**
 * rxd_check_changed - check the argument of RXD_CHANGED
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_changed(const struct rxd_changed *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags, 0);
	if (ret)
		return ret;
	if (arg->pad || arg->next || !is_zero(arg->state, sizeof(arg->state)) ||
	    !is_zero(arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	return is_walk(arg->start, arg->length, arg->count) ? 0 : -EINVAL;
}

/**
 * rxd_check_count_shared - check the argument of RXD_COUNT_SHARED
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_count_shared(const struct rxd_count_shared *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags, 0);
	if (ret)
		return ret;
	if (arg->pad || arg->next || arg->shared || !is_zero(arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	if (!is_range(arg->start, arg->length))
		return -EINVAL;
	return check_index(arg->index);
}

/**
 * rxd_check_query - check the argument of RXD_QUERY
 * @arg: as it came from user space
 *
 * Return: 0, -EPROTONOSUPPORT or -EINVAL.
 */
int rxd_check_query(const struct rxd_query *arg)
{
	int ret;

	ret = check_header(arg->version, arg->flags, RXD_QUERY_NEXT);
	if (ret)
		return ret;
	if (arg->pad || !is_zero(arg->reserved, sizeof(arg->reserved)))
		return -EINVAL;
	/* A walk ends at RXD_INDEX_MAX + 1. */
	if (arg->flags & RXD_QUERY_NEXT)
		return arg->index < 0 ? -EINVAL : 0;
	return check_index(arg->index);
}

/**
 * rxd_check_share - check whether the share of memory allows one more disk
 * @promised: bytes promised to the other disks
 * @size: size of the disk in bytes, at most RXD_SIZE_MAX
 * @ram: memory of the machine in bytes
 * @percent: percentage of @ram that may be promised, 1 to 100
 *
 * Return: 0 or -ERANGE.
 */
int rxd_check_share(u64 promised, u64 size, u64 ram, unsigned int percent)
{
	u64 share = div_u64(ram, 100) * percent;

	return promised > share || size > share - promised ? -ERANGE : 0;
}

/* The name of one disk must not be the device name of another. */
static bool is_device_name(const char *text, size_t len)
{
	return len > 3 && !memcmp(text, "rxd", 3) && isdigit(text[3]);
}

/* udev calls a partition of the disk NAME NAME-partN. */
static bool is_partition_name(const char *text, size_t len)
{
	size_t end = len;

	while (len && isascii(text[len - 1]) && isdigit(text[len - 1]))
		len--;
	return len < end && len >= 5 && !memcmp(text + len - 5, "-part", 5);
}

/**
 * rxd_check_name - check the name of a disk
 * @text: the name, without a NUL at its end
 * @len: number of bytes; 0 for no name
 *
 * Return: 0 or -EINVAL; see RXD_NAME_MAX.
 */
int rxd_check_name(const char *text, size_t len)
{
	size_t i;

	if (!len)
		return 0;
	if (len > RXD_NAME_MAX || *text == '-' || *text == '.' || is_device_name(text, len) ||
	    is_partition_name(text, len))
		return -EINVAL;
	for (i = 0; i < len; i++)
		if (!isascii(text[i]) || (!isalnum(text[i]) && !memchr("-_.", text[i], 3)))
			return -EINVAL;
	return 0;
}

/**
 * rxd_parse_size - parse a size with an optional unit
 * @text: decimal digits, optionally followed by K, M, G or T in either case
 * @size: set to the size in bytes on success
 *
 * Return: 0, -EINVAL, or -EFBIG if the size does not fit in 64 bits.
 */
int rxd_parse_size(const char *text, u64 *size)
{
	static const char units[] = "KMGT";
	size_t len = strspn(text, "0123456789");
	const char *unit = NULL;
	char digits[24];
	u64 number;

	if (!len)
		return -EINVAL;
	if (text[len]) {
		unit = strchr(units, toupper(text[len]));
		if (!unit || text[len + 1])
			return -EINVAL;
	}
	if (len >= sizeof(digits))
		return -EFBIG;
	strscpy(digits, text, len + 1);
	if (kstrtou64(digits, 10, &number) ||
	    check_shl_overflow(number, unit ? 10 * (unit - units + 1) : 0, size))
		return -EFBIG;
	return 0;
}
