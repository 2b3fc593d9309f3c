/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * rxd: RAM disks. The ioctls of /dev/rxd-control, and RXD_MAP of the disks.
 *
 * The node needs CAP_SYS_ADMIN, both to open it and for every ioctl. Each
 * argument is a structure that begins with the ABI version and whose reserved
 * words must be zero. Sizes are in bytes unless a name says otherwise.
 *
 * Errors that every ioctl may return:
 *
 *	EPERM		the caller lacks CAP_SYS_ADMIN (of the node's ioctls)
 *	ENOTTY		no such ioctl, or its argument has another size
 *	EFAULT		the argument cannot be read or written
 *	EPROTONOSUPPORT	@version is not RXD_ABI_VERSION
 *	EINVAL		an unknown flag, a reserved word that is not zero, or a
 *			value that is never allowed
 *	EINTR		a signal came before anything was done, or SIGKILL while memory
 *			was being reserved: nothing is left of what was done
 *
 * A disk that is being made or removed is not found by the other ioctls (ENODEV);
 * its number, UUID and share of the memory are taken.
 *
 * Whoever saves the disks of a module that is older than himself needs RXD_QUERY,
 * RXD_MAP and RXD_REMOVE: their arguments have the same layout in all versions, and
 * mean the same.
 */
#ifndef _UAPI_LINUX_RXD_H
#define _UAPI_LINUX_RXD_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define RXD_ABI_VERSION		1

#define RXD_CONTROL_NAME	"rxd-control"

/* The largest capacity in bytes: 256 TiB. */
#define RXD_SIZE_MAX		(1ULL << 48)

/* In rxd_create.index: take the lowest free device number. */
#define RXD_INDEX_ANY		(-1)
/* The largest device number. */
#define RXD_INDEX_MAX		1048575

/* Allow a size beyond the machine-wide share (module parameter memory_share). */
#define RXD_CREATE_OVERCOMMIT	(1U << 0)
/*
 * Take all the memory now and keep it until removal: no write can fail for want
 * of memory, and discard is not offered. No use as a cache.
 */
#define RXD_CREATE_RESERVE	(1U << 1)
/*
 * Do not store pages that hold zeros only: a write of zeros frees them, and so does
 * write-zeroes, whether it may unmap or not.
 */
#define RXD_CREATE_DETECT_ZEROES (1U << 2)

/* In rxd_create.node: the node of the CPU that writes first. */
#define RXD_NODE_LOCAL		(-1)
/* In rxd_create.node: each 2 MiB of the disk comes from the next node. */
#define RXD_NODE_INTERLEAVE	(-2)

/**
 * struct rxd_create - argument of RXD_CREATE
 * @version: in: RXD_ABI_VERSION
 * @flags: in: RXD_CREATE_* bits
 * @index: in: the device number wanted, 0 to RXD_INDEX_MAX, or RXD_INDEX_ANY;
 *	out: the number given
 * @logical_block_size: in: 512 or 4096 bytes; 0 means 512
 * @size: in: capacity in bytes, a multiple of 4096 and of the kernel's page
 *	size, greater than 0
 * @mem_limit: in: memory that data may take, in bytes, a multiple of the page
 *	size; 0 means no limit but the capacity; less than @size does not go
 *	with RXD_CREATE_RESERVE
 * @folio_size: in: the largest piece of contiguous memory that a long write
 *	asks for, in bytes: 0 or 4096 for single pages, 65536, or 2097152. Where
 *	the machine has none, smaller pieces do.
 * @node: in: the NUMA node whose memory is preferred, RXD_NODE_LOCAL, or
 *	RXD_NODE_INTERLEAVE; where a node has no more, others do
 * @uuid: in: the disk's UUID (RFC 4122, as bytes in the order of the text), or
 *	all zero: a random one is made; out: the UUID
 * @reserved: in: zero
 *
 * Errors: EINVAL; EEXIST: @index or @uuid is taken; ERANGE: @size, added to the
 * devices there are, exceeds the machine-wide share and RXD_CREATE_OVERCOMMIT is
 * not set; EFBIG: @size is more than RXD_SIZE_MAX; ENXIO: @node has no memory
 * (EINVAL if the kernel has no such number); ENOSPC: no device number is left, or
 * too little memory to reserve; ENOMEM.
 */
struct rxd_create {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 logical_block_size;
	__u64 size;
	__u64 mem_limit;
	__u32 folio_size;
	__s32 node;
	__u8 uuid[16];
	__u64 reserved[4];
};

/**
 * struct rxd_remove - argument of RXD_REMOVE
 * @version: in: RXD_ABI_VERSION
 * @flags: in: zero
 * @index: in: device number
 * @pad: in: zero
 * @reserved: in: zero
 *
 * Errors: ENODEV: no such device; EBUSY: it is open, mounted or in use as a
 * cache.
 */
struct rxd_remove {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 pad;
	__u64 reserved[2];
};

/* Shrink although the device is open or holds data beyond the new end. */
#define RXD_RESIZE_FORCE	(1U << 0)
/* As RXD_CREATE_OVERCOMMIT. */
#define RXD_RESIZE_OVERCOMMIT	(1U << 1)

/**
 * struct rxd_resize - argument of RXD_RESIZE
 * @version: in: RXD_ABI_VERSION
 * @flags: in: RXD_RESIZE_* bits
 * @index: in: device number
 * @pad: in: zero
 * @size: in: new capacity in bytes, with the limits of rxd_create.size
 * @reserved: in: zero
 *
 * Errors: ENODEV; ERANGE, EFBIG, ENOSPC, ENOMEM as RXD_CREATE; EBUSY: it would shrink
 * while it is open or in use as a cache; ENOTEMPTY: it would shrink and holds data
 * beyond the new end. RXD_RESIZE_FORCE overrules all but the use as a cache.
 *
 * Opening a disk with reserved memory fails with EBUSY while that is searched for data
 * beyond the new end.
 */
struct rxd_resize {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 pad;
	__u64 size;
	__u64 reserved[2];
};

/**
 * struct rxd_clear - argument of RXD_CLEAR: forget all data
 * @version: in: RXD_ABI_VERSION
 * @flags: in: zero
 * @index: in: device number
 * @pad: in: zero
 * @reserved: in: zero
 *
 * The disk reads as zeros afterwards, and its memory is free unless reserved: then
 * opening the disk fails with EBUSY while the memory is zeroed, and SIGKILL ends that
 * half-way.
 * This is what BLKFLSBUF once was to RAM disks; the block layer no longer hands
 * that ioctl to drivers.
 *
 * Errors: ENODEV: no such device; EROFS: it is read-only; EBUSY: it is open,
 * mounted or in use as a cache.
 */
struct rxd_clear {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 pad;
	__u64 reserved[2];
};

/* In rxd_query.flags: the device with the lowest number >= index. */
#define RXD_QUERY_NEXT		(1U << 0)

/* In rxd_query.state */
#define RXD_STATE_OPEN		(1U << 0)	/* open or mounted */
#define RXD_STATE_CACHE		(1U << 1)	/* claimed by a cache */
#define RXD_STATE_OVERCOMMIT	(1U << 2)	/* may exceed the share */
#define RXD_STATE_READONLY	(1U << 3)	/* set read-only */
#define RXD_STATE_RESERVED	(1U << 4)	/* all memory taken */
#define RXD_STATE_DETECT_ZEROES	(1U << 5)	/* zeros are not stored */

/**
 * struct rxd_query - argument of RXD_QUERY
 * @version: in: RXD_ABI_VERSION
 * @flags: in: 0 or RXD_QUERY_NEXT
 * @index: in: device number to ask for, or to start from; out: the device's
 * @state: out: RXD_STATE_* bits
 * @major: out: major of the block device
 * @minor: out: minor of the block device
 * @logical_block_size: out: bytes
 * @folio_size: out: bytes
 * @size: out: capacity in bytes
 * @mem_limit: out: bytes, 0 for none
 * @mem_used: out: bytes of memory that hold data
 * @mem_max_used: out: the largest @mem_used since creation
 * @mem_index: out: bytes of memory that keep track of the data
 * @mem_64k: out: bytes of @mem_used that came in pieces of 64 KiB or more
 * @mem_2m: out: bytes of @mem_used that came in pieces of 2 MiB
 * @nospc: out: writes that found no memory
 * @discards: out: discards and write-zeroes that freed memory
 * @node: out: as rxd_create.node
 * @pad: in: zero
 * @uuid: out: the disk's UUID
 * @reserved: in: zero
 *
 * Errors: ENODEV: no such device, or none from @index on.
 */
struct rxd_query {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 state;
	__u32 major;
	__u32 minor;
	__u32 logical_block_size;
	__u32 folio_size;
	__u64 size;
	__u64 mem_limit;
	__u64 mem_used;
	__u64 mem_max_used;
	__u64 mem_index;
	__u64 mem_64k;
	__u64 mem_2m;
	__u64 nospc;
	__u64 discards;
	__s32 node;
	__u32 pad;
	__u8 uuid[16];
	__u64 reserved[4];
};

/**
 * struct rxd_extent - a range that holds data
 * @start: bytes from the beginning of the disk
 * @length: bytes
 */
struct rxd_extent {
	__u64 start;
	__u64 length;
};

/* The most extents that one RXD_MAP returns. */
#define RXD_MAP_MAX		65536

/**
 * struct rxd_map - argument of RXD_MAP: which ranges hold data
 * @version: in: RXD_ABI_VERSION
 * @flags: in: zero
 * @start: in: where to begin, in bytes, a multiple of the page size
 * @length: in: how far to look, in bytes, a multiple of the page size; what
 *	lies beyond the end of the disk is left out
 * @extents: in: address of an array of struct rxd_extent
 * @count: in: how many of them there is room for, 1 to RXD_MAP_MAX; out: how
 *	many were filled in, in ascending order
 * @pad: in: zero
 * @next: in: zero; out: where to go on, or @start + @length at the end
 * @reserved: in: zero
 *
 * An ioctl of the whole disk (not of its partitions), open for reading. What is
 * in no extent reads as zeros. The map holds for a moment: what others write or
 * discard meanwhile may or may not be in it, all else is exact.
 *
 * Errors: ENOTTY: a partition; EBADF: not open for reading; EINVAL; EFAULT;
 * EBUSY: in use as a cache; EINTR: a signal came; ENOMEM.
 */
struct rxd_map {
	__u32 version;
	__u32 flags;
	__u64 start;
	__u64 length;
	__u64 extents;
	__u32 count;
	__u32 pad;
	__u64 next;
	__u64 reserved[2];
};

#define RXD_IOC_MAGIC	0xB7

#define RXD_CREATE	_IOWR(RXD_IOC_MAGIC, 0x01, struct rxd_create)
#define RXD_REMOVE	_IOW(RXD_IOC_MAGIC, 0x02, struct rxd_remove)
#define RXD_RESIZE	_IOW(RXD_IOC_MAGIC, 0x03, struct rxd_resize)
#define RXD_QUERY	_IOWR(RXD_IOC_MAGIC, 0x04, struct rxd_query)
#define RXD_CLEAR	_IOW(RXD_IOC_MAGIC, 0x05, struct rxd_clear)

#define RXD_MAP		_IOWR(RXD_IOC_MAGIC, 0x10, struct rxd_map)

#endif /* _UAPI_LINUX_RXD_H */
