// SPDX-License-Identifier: GPL-2.0-only
/* 1122c0c1cc71 ("block: move cache control settings out of queue->flags") and after */
#include <linux/blkdev.h>

struct queue_limits probe = { .features = BLK_FEAT_SYNCHRONOUS | BLK_FEAT_NOWAIT };
