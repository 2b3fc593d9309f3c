// SPDX-License-Identifier: GPL-2.0-only
#include "../dm-target/policy-s3fifo.c"
