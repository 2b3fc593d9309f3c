// SPDX-License-Identifier: GPL-2.0-only
/* 1e1a9cecfab3 ("block: force noio scope in blk_mq_freeze_queue") */
#include <linux/blk-mq.h>

void probe(struct request_queue *q);
void probe(struct request_queue *q)
{
	unsigned int memflags = blk_mq_freeze_queue(q);

	blk_mq_unfreeze_queue(q, memflags);
}
