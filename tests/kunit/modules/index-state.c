// SPDX-License-Identifier: GPL-2.0-only
#include <linux/mm.h>

#include "index-test.h"

#define page_to_nid(page)	test_nid(page)
#include "../dm-target/state.c"
