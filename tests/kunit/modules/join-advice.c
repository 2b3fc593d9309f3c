// SPDX-License-Identifier: GPL-2.0-only
#include "../dm-target/mini.c"
#include "../dm-target/advice.c"
