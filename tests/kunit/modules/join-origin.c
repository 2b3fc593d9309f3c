// SPDX-License-Identifier: GPL-2.0-only
#include <linux/device-mapper.h>
#include <linux/sched.h>

#include "join-test.h"

#define dm_accept_partial_bio	test_accept_partial_bio
#define dm_per_bio_data		test_per_bio_data
#undef cond_resched
#define cond_resched		test_others_run

#include "../dm-target/failed.c"
#include "../dm-target/origin.c"
#include "../dm-target/fill.c"
#include "../dm-target/prefetch.c"
#include "../dm-target/read.c"
#include "../dm-target/write.c"
