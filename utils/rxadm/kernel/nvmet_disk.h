/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_NVMET_DISK_H
#define RXADM_KERNEL_NVMET_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <uuid/uuid.h>

#include "kernel/device.h"
#include "lib/error.h"

#define EXPORT_PORT	4420	/* where none is given */

/* How a device is to be offered by the kernel's NVMe target. */
struct export_request {
	const char *device;
	const char *transport;		/* "tcp" or "loop" */
	const char *address;		/* IP address to listen at; NULL: not given */
	unsigned int port;		/* 0: not given */
	const char *nqn;		/* NULL: one that belongs to the device */
	const char **hosts;	/* NQNs of those who may connect */
	size_t host_count;
	bool allow_any_host;
	const char *key_path;		/* file of the hosts' DH-HMAC-CHAP secret, or NULL */
	bool dry_run;			/* only print what would be done */
};

/* An export that there is. */
struct export_state {
	char *nqn;		/* NULL: there is none */
	char *address;		/* as lists show it */
	bool ours;		/* made by rxadm */
	bool left;		/* there is something that a killed rxadm left */
	const char *key;	/* what is otherwise than wanted, as rxd.conf calls it, or NULL */
	char *has;
	char *wants;
};

enum exit_code export_find(const char *device, struct export_state *state);
bool export_is_made(const char *nqn);
enum exit_code export_compare(const struct export_request *request, struct export_state *state);
void export_state_release(struct export_state *state);
char *export_address(const struct export_request *request);

/* What is found out about a device that is to be exported. */
struct nvmet_disk {
	struct device dev;
	char *path;		/* as all call it */
	int index;		/* of the RAM disk; -1: it is a cached disk */
	char *nqn;
	char uuid[UUID_STR_LEN];
	char *key;		/* NULL: none wanted */
};

enum exit_code nvmet_disk_find(const struct export_request *request, struct nvmet_disk *disk);
void nvmet_disk_release(struct nvmet_disk *disk);

#endif /* RXADM_KERNEL_NVMET_DISK_H */
