/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What lend.c tells give-back.c of a node.
 */
#ifndef RXD_LEND_INTERNAL_H
#define RXD_LEND_INTERNAL_H

#include <linux/mmzone.h>

unsigned long rxd_lent_on(int nid);
long rxd_lend_spare(int nid, enum zone_watermarks mark);
long rxd_lend_boost(int nid);
unsigned long rxd_lend_node_pages(int nid);
long rxd_lend_headroom(int nid);
long rxd_lend_enough(int nid);
void rxd_lend_watch(int nid);
long rxd_lend_idle_cache(int nid);

#endif /* RXD_LEND_INTERNAL_H */
