/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXD_CHECK_H
#define RXD_CHECK_H

#include <linux/types.h>
#include <uapi/linux/rxd.h>

int rxd_check_create(const struct rxd_create *arg);
int rxd_check_remove(const struct rxd_remove *arg);
int rxd_check_resize(const struct rxd_resize *arg);
int rxd_check_clear(const struct rxd_clear *arg);
int rxd_check_clone(const struct rxd_clone *arg);
int rxd_check_reset(const struct rxd_reset *arg);
int rxd_check_map(const struct rxd_map *arg);
int rxd_check_diff(const struct rxd_diff *arg);
int rxd_check_track(const struct rxd_track *arg);
int rxd_check_changed(const struct rxd_changed *arg);
int rxd_check_count_shared(const struct rxd_count_shared *arg);
int rxd_check_query(const struct rxd_query *arg);
int rxd_check_share(u64 promised, u64 size, u64 ram, unsigned int percent);
int rxd_check_name(const char *text, size_t len);
int rxd_parse_size(const char *text, u64 *size);

#endif /* RXD_CHECK_H */
