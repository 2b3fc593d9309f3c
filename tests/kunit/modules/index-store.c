// SPDX-License-Identifier: GPL-2.0-only
#include "../module/store.c"
#include "../module/alloc.c"
#include "../module/copy.c"
#include "../module/share.c"
#include "../module/share-marks.c"
#include "../module/hold.c"
#include "../module/record.c"
#include "../module/expendable.c"
