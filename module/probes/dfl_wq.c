// SPDX-License-Identifier: GPL-2.0-only
/* 128ea9f6ccfb ("workqueue: Add system_percpu_wq and system_dfl_wq") */
#include <linux/workqueue.h>

bool probe(struct work_struct *work);
bool probe(struct work_struct *work)
{
	return queue_work(system_dfl_wq, work);
}
