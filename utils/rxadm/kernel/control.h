/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_CONTROL_H
#define RXADM_KERNEL_CONTROL_H

#include <linux/rxd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "device/device.h"

/* The oldest ABI version whose RAM disks this rxadm can save and remove. */
#define CONTROL_ABI_OLDEST	1

#define BUSY_ROUNDS	100	/* of pause_for() or of other short waits, until a device is idle */

enum exit_code control_open(int *fd);
uint32_t control_abi(void);
int control_query(int fd, int index, uint32_t flags, struct rxd_query *query);
bool control_is_lost(int fd, int index);
bool control_has_free_index(int fd);
int control_count_shared(int fd, const struct rxd_query *query, uint64_t diskseq,
			 uint64_t *shared);
bool control_has_uuid(int fd, const uint8_t *uuid);
enum exit_code control_error(int err, const char *object);
int control_discard(int fd, unsigned long command, const struct rxd_remove *arg);
bool control_wait_idle(const struct device *dev, unsigned int *round, enum exit_code *ret);
enum exit_code control_idle_check(int fd, int index, const struct device *dev);
enum exit_code control_resize_busy(int fd, const struct device *dev, const struct rxd_resize *arg);
bool control_reserve_forbids(int fd, int index, uint32_t flags);
enum exit_code control_reserved_error(const struct device *dev, bool own, const char *rule);
enum exit_code control_reserve_error(const char *text);
uint64_t control_share_left(int fd, int index);
enum exit_code control_clone_share_error(int fd, const struct device *source, uint64_t size,
					 unsigned int count);
enum exit_code control_clone_error(int err, const struct device *dev, const char *what);
enum exit_code control_share_error(int fd, const char *text, uint64_t size, int index,
				   const char *remedy);

#endif /* RXADM_KERNEL_CONTROL_H */
