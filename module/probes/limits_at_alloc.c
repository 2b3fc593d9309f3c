// SPDX-License-Identifier: GPL-2.0-only
/* 74fa8f9c553f ("block: pass a queue_limits argument to blk_alloc_disk") */
#include <linux/blkdev.h>

struct gendisk *probe(struct queue_limits *lim);
struct gendisk *probe(struct queue_limits *lim)
{
	return blk_alloc_disk(lim, NUMA_NO_NODE);
}
