/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * rxd: RAM disks. The ioctls of /dev/rxd-control, and RXD_MAP, RXD_DIFF and RXD_CHANGED of the
 * disks.
 *
 * CAP_SYS_ADMIN is required to open the control node and for each of its ioctls. Each
 * argument is a structure that begins with the ABI version. Reserved words must be zero.
 * Sizes are in bytes.
 *
 * Errors that every ioctl may return:
 *
 *	EPERM		the caller lacks CAP_SYS_ADMIN (control node only)
 *	ENOTTY		the ioctl is unknown, or its argument has another size
 *	EFAULT		the argument cannot be read or written
 *	EPROTONOSUPPORT	@version is not RXD_ABI_VERSION
 *	EINVAL		a flag is unknown, a reserved word is not zero, or a value is
 *			never allowed
 *	EINTR		a signal arrived before anything was changed, or one that
 *			ends the process arrived while memory was being reserved,
 *			searched or zeroed; all changes were undone, except for zeros
 *			written by RXD_CLEAR
 *
 * With the flag RXD_DRY_RUN, an ioctl checks everything and changes nothing.
 *
 * Other ioctls do not find a disk that is being created or removed (ENODEV). Its number,
 * UUID and share of memory are in use.
 *
 * A tool that is newer than the module needs RXD_QUERY, RXD_MAP and RXD_REMOVE to save the
 * disks. The arguments of these ioctls have the same layout in all versions. A module returns
 * EINVAL for a flag that it does not know.
 */
#ifndef _UAPI_LINUX_RXD_H
#define _UAPI_LINUX_RXD_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define RXD_ABI_VERSION		1

#define RXD_CONTROL_NAME	"rxd-control"

/* The largest capacity in bytes: 256 TiB. */
#define RXD_SIZE_MAX		(1ULL << 48)

/*
 * In the flags of RXD_CREATE, RXD_REMOVE, RXD_RESIZE, RXD_CLEAR, RXD_CLONE, RXD_RESET and
 * RXD_TRACK: check everything that the ioctl checks without this flag, and return at the point
 * where the first change would be made. The errors are the same, and so is the order in which
 * they are found. RXD_RESIZE does not check whether there is memory for a shrink into a range of
 * 2 MiB with shared data. 0 means that the ioctl would have begun at that moment. It can still
 * fail later, because another task was faster, or because an allocation failed or the process
 * was killed while it was being executed.
 *
 * The argument is not changed either: RXD_CREATE and RXD_CLONE return neither a number nor a
 * UUID. The disk stays usable: it can be opened even while RXD_RESIZE looks for data beyond
 * the new end. As without the flag, the ioctl waits for other operations on the same disk, and
 * for memory that is being freed.
 *
 * Modules that do not know this flag return EINVAL. RXD_REMOVE of a number that is allowed
 * returns another result if the flag is known, whether the disk exists or not.
 */
#define RXD_DRY_RUN		(1U << 31)

/*
 * In the flags of RXD_REMOVE, RXD_CLEAR and RXD_RESET: discard the data only if it is still
 * what the caller has seen. The driver compares @diskseq and @changes when no task has the disk
 * open, and no task can open it before the data is gone. In the flags of RXD_TRACK: begin or end
 * the record only if the data is still what the caller has seen. The driver compares the numbers
 * while writes are held.
 *
 * Modules that do not know this flag return EINVAL.
 */
#define RXD_IF_SAME		(1U << 0)

/* In @changes of RXD_REMOVE, RXD_CLEAR, RXD_RESET and RXD_TRACK with RXD_IF_SAME: any data. */
#define RXD_CHANGES_ANY		(~0ULL)

/* In rxd_create.index: use the lowest free device number. */
#define RXD_INDEX_ANY		(-1)
/* The largest device number. */
#define RXD_INDEX_MAX		1048575

/*
 * The largest length of a name, which is written to the sysfs file rxd/name of a disk. A name
 * consists of ASCII letters, digits and the characters - _ . and begins with none of - and .
 * nor with "rxd" and a digit. It does not end in "-part" and a number, as links of partitions
 * do. No two disks have the same.
 */
#define RXD_NAME_MAX		32

/* Do not count the disk towards the share of memory (module parameter memory_share). */
#define RXD_CREATE_OVERCOMMIT	(1U << 0)
/*
 * Allocate all memory now and keep it until removal. Writes do not fail because memory is short,
 * unless the disk has clones; see struct rxd_clone. The disk does not support discard, and cannot
 * be used as a cache.
 */
#define RXD_CREATE_RESERVE	(1U << 1)
/*
 * Do not store pages that hold only zeros. Writes of zeros free them, and so do
 * write-zeroes, whether unmapping is allowed or not.
 */
#define RXD_CREATE_DETECT_ZEROES (1U << 2)
/*
 * Count the memory that a cache on the disk does not give back towards the share, in place of the
 * size of the disk. It is the minimum of the cache, or the size of the disk if the cache has none.
 * Without a cache, nothing counts. This flag excludes RXD_CREATE_OVERCOMMIT and RXD_CREATE_RESERVE.
 */
#define RXD_CREATE_ELASTIC	(1U << 3)

/* In rxd_create.node: use the node of the CPU that writes a page first. */
#define RXD_NODE_LOCAL		(-1)
/* In rxd_create.node: use the next node for each 2 MiB of the disk. */
#define RXD_NODE_INTERLEAVE	(-2)

/**
 * struct rxd_create - argument of RXD_CREATE
 * @version: in: RXD_ABI_VERSION
 * @flags: in: RXD_CREATE_* bits and RXD_DRY_RUN
 * @index: in: device number, 0 to RXD_INDEX_MAX, or RXD_INDEX_ANY; out: device number
 *	of the new disk
 * @logical_block_size: in: 512 or 4096 bytes; 0 means 512
 * @size: in: capacity in bytes, a multiple of 4096 and of the kernel's page
 *	size, greater than 0
 * @mem_limit: in: limit of the memory for data, in bytes, a multiple of the page size;
 *	0 means that only the capacity limits it; with RXD_CREATE_RESERVE, it must be 0
 *	or at least @size
 * @folio_size: in: the largest piece of contiguous memory that a long write
 *	allocates, in bytes: 0 or 4096 for single pages, 65536, or 2097152. If no
 *	piece of this size is free, smaller ones are used.
 * @node: in: the preferred NUMA node, RXD_NODE_LOCAL, or RXD_NODE_INTERLEAVE; if
 *	the node has no free memory, other nodes are used
 * @uuid: in: the UUID of the disk (RFC 4122, bytes in the order of the text), or
 *	all zeros for a random UUID; out: the UUID
 * @reserved: in: zero
 *
 * Errors: EINVAL; EEXIST: @index or @uuid is in use; ERANGE: @size and what is promised to
 * other disks exceed the share of memory, and neither RXD_CREATE_OVERCOMMIT nor
 * RXD_CREATE_ELASTIC is set;
 * EFBIG: @size exceeds RXD_SIZE_MAX; ENXIO: @node has no memory (EINVAL if the
 * kernel does not support the number); ENOSPC: no device number is free, or memory
 * is too short to reserve @size; ENOMEM.
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
 * @flags: in: RXD_IF_SAME and RXD_DRY_RUN
 * @index: in: device number
 * @pad: in: zero
 * @diskseq: in: with RXD_IF_SAME, the number in the sysfs file diskseq of the disk, which no
 *	other disk has had since boot; otherwise zero
 * @changes: in: with RXD_IF_SAME, the number that the sysfs file rxd/changes had before the
 *	caller looked at the data, or RXD_CHANGES_ANY; otherwise zero
 *
 * Errors: ENODEV: no such disk; EBUSY: the disk is open, mounted or in use as a
 * cache; ESTALE: another disk has the number @index, or the data has changed since.
 */
struct rxd_remove {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 pad;
	__u64 diskseq;
	__u64 changes;
};

/* Shrink even if the disk is open or holds data beyond the new end. */
#define RXD_RESIZE_FORCE	(1U << 0)
/* Like RXD_CREATE_OVERCOMMIT. */
#define RXD_RESIZE_OVERCOMMIT	(1U << 1)

/**
 * struct rxd_resize - argument of RXD_RESIZE
 * @version: in: RXD_ABI_VERSION
 * @flags: in: RXD_RESIZE_* bits and RXD_DRY_RUN
 * @index: in: device number
 * @pad: in: zero
 * @size: in: new capacity in bytes, with the limits of rxd_create.size
 * @reserved: in: zero
 *
 * Errors: ENODEV; ERANGE, EFBIG, ENOSPC, ENOMEM as for RXD_CREATE; EBUSY: the disk would
 * shrink, but is open or in use as a cache; or it is being cloned while it is open, or with
 * RXD_CLONE_TRACK, and has reserved memory or RXD_RESIZE_FORCE is set; ENOTEMPTY: the disk would
 * shrink, but holds data beyond the new end; EIO: it was given up; EINTR: the process is killed.
 * RXD_RESIZE_FORCE overrides EBUSY of an open disk that is not being cloned, and ENOTEMPTY.
 *
 * Opening the disk fails with EBUSY while the driver looks for data beyond the new end.
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
 * struct rxd_clear - argument of RXD_CLEAR: drop all data
 * @version: in: RXD_ABI_VERSION
 * @flags: in: RXD_IF_SAME and RXD_DRY_RUN
 * @index: in: device number
 * @pad: in: zero
 * @diskseq: in: as in rxd_remove
 * @changes: in: as in rxd_remove
 *
 * The disk reads as zeros afterwards, and its memory is freed. Reserved memory is zeroed
 * instead: opening the disk fails with EBUSY meanwhile, and a signal that ends the
 * process ends this half-way.
 * RXD_CLEAR replaces BLKFLSBUF, which the block layer no longer passes to drivers.
 *
 * Errors: ENODEV: no such disk; EROFS: the disk is read-only; EBUSY: it is open,
 * mounted or in use as a cache; ESTALE: as for RXD_REMOVE; EIO: it was given up; ENOSPC:
 * reserved memory is shared with a clone, which could not be given up; a part of the disk may be
 * zeroed.
 */
struct rxd_clear {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 pad;
	__u64 diskseq;
	__u64 changes;
};

/* The clone is read-only. "blockdev --setrw" changes this. */
#define RXD_CLONE_READ_ONLY	(1U << 8)
/*
 * Give up the clone if a write to another disk that shares memory with it finds no memory. All
 * I/O to the clone fails with EIO from then on. Implies RXD_CREATE_OVERCOMMIT.
 */
#define RXD_CLONE_EXPENDABLE	(1U << 9)
/* Freeze no file system. The clone contains what a power failure would have left. */
#define RXD_CLONE_NO_FREEZE	(1U << 10)
/*
 * Move the record of changes from the source to the clone, and begin a new one for the source,
 * of the changes since the state @state. See struct rxd_track.
 */
#define RXD_CLONE_TRACK		(1U << 11)

/* Maximum of rxd_clone.nr_fds. */
#define RXD_CLONE_FDS_MAX	64

/**
 * struct rxd_clone - argument of RXD_CLONE: create a disk with the data of another one
 * @version: in: RXD_ABI_VERSION
 * @flags: in: RXD_CREATE_OVERCOMMIT, RXD_CLONE_* bits and RXD_DRY_RUN
 * @source: in: device number of the disk with the data
 * @index: in: device number, 0 to RXD_INDEX_MAX, or RXD_INDEX_ANY; out: device number of
 *	the new disk
 * @uuid: in: the UUID of the new disk, or all zeros for a random UUID; out: the UUID
 * @fds: in: address of an array of __s32, descriptors of files or directories, one of each file
 *	system to be frozen, in this order; a file system in a file of another one comes before
 *	that one
 * @nr_fds: in: number of elements in the array, 0 to RXD_CLONE_FDS_MAX
 * @pad: in: zero
 * @held_ns: in: zero; out: how long writes to the source were held, in ns
 * @frozen_ns: in: zero; out: how long file systems were frozen, in ns, or 0 if there was none
 * @changes: in: zero; out: the number that the sysfs file rxd/changes of the source had at the
 *	moment of the clone
 * @state: in: with RXD_CLONE_TRACK, the name of the state that the clone has, not all zeros;
 *	otherwise zero
 *
 * The disks share the memory of the data. A write to one of them takes memory for the pages
 * that it changes, and the other disk does not change. The new disk has the size,
 * logical_block_size, mem_limit, folio_size, node and RXD_CREATE_DETECT_ZEROES of the source.
 * It takes over neither RXD_CREATE_OVERCOMMIT nor the read-only state. Both disks may be
 * changed, cloned and removed in any order. The kernel looks for partitions of the new disk
 * when it is opened for the first time.
 *
 * RXD_CLONE_EXPENDABLE is required to clone a disk with reserved memory, or a clone of such a disk.
 * A write to reserved memory that finds no memory for a copy gives up the clones; it fails with
 * ENOSPC only if that takes longer than 70 seconds. The memory of the clone is not reserved.
 *
 * The source may be open or mounted. The ioctl writes what the page cache holds of the disk,
 * freezes the file systems of @fds, holds the writes to the source while the data is shared, and
 * thaws the file systems before it returns, whatever happens. Reads continue.
 *
 * Errors: EINVAL; ENODEV: no disk has the number @source; EBUSY: the source is in use as a cache
 * or as swap space, or its size was changed meanwhile, or another task froze one of the file
 * systems before, or thawed it meanwhile; EBADF: one of @fds is not an open file; EOPNOTSUPP: the
 * memory of the data is reserved, and RXD_CLONE_EXPENDABLE is not set, or one of the file systems
 * cannot be frozen; EIO: the source was given up (RXD_STATE_LOST), or the page cache could not be
 * written; ENOSPC: as for RXD_CREATE, or the page cache could not be written; EEXIST, ERANGE,
 * ENOMEM as for RXD_CREATE; the error of the file system that could not be frozen.
 */
struct rxd_clone {
	__u32 version;
	__u32 flags;
	__s32 source;
	__s32 index;
	__u8 uuid[16];
	__u64 fds;
	__u32 nr_fds;
	__u32 pad;
	__u64 held_ns;
	__u64 frozen_ns;
	__u64 changes;
	__u8 state[16];
};

/**
 * struct rxd_reset - argument of RXD_RESET: replace all data by that of another disk
 * @version: in: RXD_ABI_VERSION
 * @flags: in: RXD_IF_SAME and RXD_DRY_RUN
 * @index: in: device number of the disk that is changed
 * @source: in: device number of the disk with the data
 * @diskseq: in: as in rxd_remove, for the disk @index
 * @changes: in: as in rxd_remove, for the disk @index
 * @reserved: in: zero
 *
 * The disks then share the memory of the data, as after RXD_CLONE.
 *
 * Errors: EINVAL, also if @index equals @source; ENODEV: one of the disks does not exist; EBUSY:
 * one of the disks is open, mounted or in use as a cache; EIO: one of the disks was given up;
 * EOPNOTSUPP: the memory of the disk @index, or of the data of the disk @source, is reserved;
 * EROFS: the disk @index is read-only; ERANGE: the capacities or the logical block sizes differ;
 * ENOSPC: the limit of the disk @index is lower than the memory that the data takes; ESTALE: as
 * for RXD_REMOVE; ENOMEM.
 */
struct rxd_reset {
	__u32 version;
	__u32 flags;
	__s32 index;
	__s32 source;
	__u64 diskseq;
	__u64 changes;
	__u64 reserved[2];
};

/* In rxd_query.flags: query the disk with the lowest number >= index. */
#define RXD_QUERY_NEXT		(1U << 0)

/* In rxd_query.state */
#define RXD_STATE_OPEN		(1U << 0)	/* open or mounted */
#define RXD_STATE_CACHE		(1U << 1)	/* claimed by a cache */
#define RXD_STATE_OVERCOMMIT	(1U << 2)	/* not counted in the share */
#define RXD_STATE_READONLY	(1U << 3)	/* set read-only */
#define RXD_STATE_RESERVED	(1U << 4)	/* all memory allocated */
#define RXD_STATE_DETECT_ZEROES	(1U << 5)	/* zeros are not stored */
#define RXD_STATE_EXPENDABLE	(1U << 6)	/* a clone that may be given up */
#define RXD_STATE_LOST		(1U << 7)	/* was given up: all I/O fails */
#define RXD_STATE_ELASTIC	(1U << 8)	/* counted in the share as its cache says */

/**
 * struct rxd_query - argument of RXD_QUERY
 * @version: in: RXD_ABI_VERSION
 * @flags: in: 0 or RXD_QUERY_NEXT
 * @index: in: device number of the disk, or number to start from; out: device number
 * @state: out: RXD_STATE_* bits
 * @major: out: major of the block device
 * @minor: out: minor of the block device
 * @logical_block_size: out: bytes
 * @folio_size: out: bytes
 * @size: out: capacity in bytes
 * @mem_limit: out: limit of @mem_used in bytes, or 0
 * @mem_used: out: memory that holds data, in bytes
 * @mem_max_used: out: the maximum of @mem_used since creation
 * @mem_index: out: memory of the index, in bytes
 * @promised: in: ignored; out: bytes that count towards the share of memory; zero from a module
 *	that does not know RXD_CREATE_ELASTIC
 * @reserved1: in: ignored; out: zero
 * @nospc: out: number of writes that failed with ENOSPC
 * @discards: out: number of discards and write-zeroes that freed memory
 * @node: out: as in rxd_create.node
 * @pad: in: zero
 * @uuid: out: the UUID of the disk
 * @reserved: in: zero
 *
 * Errors: ENODEV: no such disk, or none with @index or a higher number.
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
	__u64 promised;
	__u64 reserved1;
	__u64 nospc;
	__u64 discards;
	__s32 node;
	__u32 pad;
	__u8 uuid[16];
	__u64 reserved[4];
};

/**
 * struct rxd_extent - a range that holds data
 * @start: offset from the start of the disk, in bytes
 * @length: length in bytes
 */
struct rxd_extent {
	__u64 start;
	__u64 length;
};

/* Maximum number of extents that one RXD_MAP returns. */
#define RXD_MAP_MAX		65536

/**
 * struct rxd_map - argument of RXD_MAP: which ranges hold data
 * @version: in: RXD_ABI_VERSION
 * @flags: in: zero
 * @start: in: start of the range in bytes, a multiple of the page size
 * @length: in: length of the range in bytes, a multiple of the page size; the part
 *	beyond the end of the disk is ignored
 * @extents: in: address of an array of struct rxd_extent
 * @count: in: number of elements in the array, 1 to RXD_MAP_MAX; out: number of
 *	extents returned, in ascending order
 * @pad: in: zero
 * @next: in: zero; out: offset to continue from, or @start + @length at the end
 * @reserved: in: zero
 *
 * This is an ioctl of a whole disk, not of its partitions, which is open for reading.
 * Data outside of all extents reads as zeros. Data that is written or discarded meanwhile
 * may or may not be included; all other data is reported exactly.
 *
 * Errors: ENOTTY: the device is a partition; EBADF: the disk is not open for reading; EINVAL;
 * EFAULT; EBUSY: the disk is in use as a cache; EIO: the disk was given up; EINTR: a signal
 * arrived; ENOMEM.
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

/**
 * struct rxd_diff - argument of RXD_DIFF: which ranges two disks do not share
 * @version: in: RXD_ABI_VERSION
 * @flags: in: zero
 * @start: in: as in rxd_map
 * @length: in: as in rxd_map; the part beyond the end of the larger disk is ignored
 * @extents: in: address of an array of struct rxd_extent
 * @count: in: number of elements in the array, 1 to RXD_MAP_MAX; out: number of
 *	extents returned, in ascending order
 * @base: in: descriptor of the disk to compare with, which is open for reading
 * @next: in: zero; out: offset to continue from, or @start + @length at the end
 * @shared: in: zero; out: bytes of data between @start and @next that the disks share
 * @reserved: in: zero
 *
 * This is an ioctl of a whole disk, not of its partitions, which is open for reading. Disks share
 * memory after RXD_CLONE and RXD_RESET. The ioctl compares where the data is, and reads no data.
 * It lists each page that one of the disks holds and the other does not share. Outside of all
 * extents, the disks have the same data. Inside, the data may be the same by chance.
 *
 * If one disk is larger, what it holds beyond the end of the other one is listed. Data that is
 * written or discarded meanwhile, and data beyond the new end of a disk that shrinks meanwhile,
 * may or may not be included. All other data is reported exactly.
 *
 * Errors: ENOTTY: the device is a partition; EBADF: one of the disks is not open for reading;
 * ENODEV: @base is not a whole RAM disk; EINVAL, also if @base is the disk itself; EFAULT;
 * EBUSY: one of the disks is in use as a cache; EIO: one of them was given up; EINTR: a signal
 * arrived; ENOMEM.
 */
struct rxd_diff {
	__u32 version;
	__u32 flags;
	__u64 start;
	__u64 length;
	__u64 extents;
	__u32 count;
	__s32 base;
	__u64 next;
	__u64 shared;
	__u64 reserved[2];
};

/* End the record of changes. */
#define RXD_TRACK_STOP		(1U << 8)

/**
 * struct rxd_track - argument of RXD_TRACK: begin or end the record of changes
 * @version: in: RXD_ABI_VERSION
 * @flags: in: RXD_TRACK_STOP, RXD_IF_SAME and RXD_DRY_RUN
 * @index: in: device number
 * @pad: in: zero
 * @diskseq: in: as in rxd_remove
 * @changes: in: as in rxd_remove, but the disk may be open
 * @state: in: the name of the state that the disk has now, such as a random UUID, not all zeros;
 *	with RXD_TRACK_STOP, zero
 * @reserved: in: zero
 *
 * The record has a bit for each page that was written, zeroed or discarded since the state. It
 * replaces an earlier record. RXD_CHANGED reads it. The record ends if the disk is resized,
 * cleared or reset, or becomes a cache.
 *
 * RXD_CLONE_TRACK moves the record to a clone. If the clone is removed before RXD_TRACK_STOP, the
 * driver gives the record back: the source then has a record of all changes since the earlier
 * state, as if it had never been moved. It also contains what was changed in the clone. If the
 * record that began for the source has ended or was replaced meanwhile, nothing changes for the
 * source. Otherwise, if the moved record has ended or was replaced, or if there was none to be
 * moved, the record of the source ends.
 *
 * RXD_TRACK_STOP succeeds if there is no record, and if the disk was given up.
 *
 * Errors: EINVAL; ENODEV: no such disk; EIO: it was given up; EBUSY: it is in use as a cache;
 * ESTALE: as for RXD_REMOVE; ENOMEM.
 */
struct rxd_track {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 pad;
	__u64 diskseq;
	__u64 changes;
	__u8 state[16];
	__u64 reserved[2];
};

/**
 * struct rxd_changed - argument of RXD_CHANGED: which ranges were changed
 * @version: in: RXD_ABI_VERSION
 * @flags: in: zero
 * @start: in: as in rxd_map
 * @length: in: as in rxd_map
 * @extents: in: address of an array of struct rxd_extent
 * @count: in: number of elements in the array, 1 to RXD_MAP_MAX; out: number of
 *	extents returned, in ascending order
 * @pad: in: zero
 * @next: in: zero; out: offset to continue from, or @start + @length at the end
 * @state: in: zero; out: the name of the state since which changes were recorded
 * @reserved: in: zero
 *
 * This is an ioctl of a whole disk, not of its partitions, which is open for reading. Pages
 * outside of all extents have the same data as in the state @state. Pages inside may have data,
 * or none, as RXD_MAP says. Pages that are written or discarded meanwhile may or may not be
 * included.
 *
 * Errors: as for RXD_MAP; ENODATA: there is no record of changes.
 */
struct rxd_changed {
	__u32 version;
	__u32 flags;
	__u64 start;
	__u64 length;
	__u64 extents;
	__u32 count;
	__u32 pad;
	__u64 next;
	__u8 state[16];
	__u64 reserved[2];
};

/**
 * struct rxd_count_shared - argument of RXD_COUNT_SHARED: how much data other disks share
 * @version: in: RXD_ABI_VERSION
 * @flags: in: zero
 * @index: in: device number
 * @pad: in: zero
 * @diskseq: in: the number in the sysfs file diskseq of the disk, or 0 for any disk
 * @start: in: as in rxd_map
 * @length: in: as in rxd_map
 * @next: in: zero; out: offset to continue from, or @start + @length at the end
 * @shared: in: zero; out: bytes of data between @start and @next that this disk shares with others
 * @reserved: in: zero
 *
 * Disks share memory after RXD_CLONE and RXD_RESET. One call counts a part of a large disk, of
 * which @next is the end. The disk may be in use, and no I/O waits for this. What is
 * written, discarded, cloned or removed meanwhile may or may not be counted, and the number may be
 * out of date when the ioctl returns. The memory of a disk that was removed is
 * freed later, and counts as shared until then.
 *
 * Errors: EINVAL; ENODEV: no such disk; ESTALE: another disk has the number @index; EINTR: a signal
 * arrived before anything was counted.
 */
struct rxd_count_shared {
	__u32 version;
	__u32 flags;
	__s32 index;
	__u32 pad;
	__u64 diskseq;
	__u64 start;
	__u64 length;
	__u64 next;
	__u64 shared;
	__u64 reserved[2];
};

#define RXD_IOC_MAGIC	0xB7

#define RXD_CREATE	_IOWR(RXD_IOC_MAGIC, 0x01, struct rxd_create)
#define RXD_REMOVE	_IOW(RXD_IOC_MAGIC, 0x02, struct rxd_remove)
#define RXD_RESIZE	_IOW(RXD_IOC_MAGIC, 0x03, struct rxd_resize)
#define RXD_QUERY	_IOWR(RXD_IOC_MAGIC, 0x04, struct rxd_query)
#define RXD_CLEAR	_IOW(RXD_IOC_MAGIC, 0x05, struct rxd_clear)
#define RXD_CLONE	_IOWR(RXD_IOC_MAGIC, 0x06, struct rxd_clone)
#define RXD_RESET	_IOW(RXD_IOC_MAGIC, 0x07, struct rxd_reset)
#define RXD_TRACK	_IOW(RXD_IOC_MAGIC, 0x08, struct rxd_track)
#define RXD_COUNT_SHARED _IOWR(RXD_IOC_MAGIC, 0x09, struct rxd_count_shared)

#define RXD_MAP		_IOWR(RXD_IOC_MAGIC, 0x10, struct rxd_map)
#define RXD_DIFF	_IOWR(RXD_IOC_MAGIC, 0x11, struct rxd_diff)
#define RXD_CHANGED	_IOWR(RXD_IOC_MAGIC, 0x12, struct rxd_changed)

#endif /* _UAPI_LINUX_RXD_H */
