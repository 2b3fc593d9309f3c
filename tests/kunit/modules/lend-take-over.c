// SPDX-License-Identifier: GPL-2.0-only
#include "../dm-target/take-over.c"
