/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXC_ARGS_H
#define RXC_ARGS_H

#include <linux/sizes.h>
#include <linux/types.h>

/* In sectors. */
#define RXC_BLOCK_SIZE_MIN	8
#define RXC_BLOCK_SIZE_MAX	2048

/* In bytes. */
#define RXC_SEQ_CUTOFF_MAX	SZ_1T

/**
 * enum rxc_mode - which I/O is cached
 * @RXC_WRITETHROUGH: reads and writes are cached
 * @RXC_WRITEAROUND: reads are cached; writes remove their blocks from the cache
 * @RXC_PASSTHROUGH: nothing is cached; writes remove their blocks from the cache
 * @RXC_NR_MODES: number of modes
 */
enum rxc_mode {
	RXC_WRITETHROUGH,
	RXC_WRITEAROUND,
	RXC_PASSTHROUGH,
	RXC_NR_MODES,
};

/**
 * struct rxc_args - the arguments of a table line
 * @origin: path or MAJOR:MINOR of the disk to be cached
 * @cache: path or MAJOR:MINOR of the RAM disk
 * @block_size: size of a cache block, in sectors
 * @mode: the initial mode
 * @seq_cutoff: sequential I/O bypasses the cache beyond this many bytes; 0: never
 * @size: limit of the cached data, in bytes; 0: none
 * @min_size: the data beyond it is lent, in bytes; 0: none is
 * @if_same: take the RAM disk only if it has @diskseq and @changes
 * @diskseq: the diskseq of the disk
 * @changes: the number in its sysfs file changes
 * @advise: keep the advice on
 */
struct rxc_args {
	const char *origin;
	const char *cache;
	unsigned int block_size;
	enum rxc_mode mode;
	u64 seq_cutoff;
	u64 size;
	u64 min_size;
	bool if_same;
	u64 diskseq;
	u64 changes;
	bool advise;
};

int rxc_args_parse(struct rxc_args *args, unsigned int argc, char **argv, char **error);

const char *rxc_mode_name(enum rxc_mode mode);
int rxc_parse_mode(const char *text, enum rxc_mode *mode);
int rxc_parse_number(const char *text, u64 *number);
int rxc_parse_seq_cutoff(const char *text, u64 *bytes);

#endif /* RXC_ARGS_H */
