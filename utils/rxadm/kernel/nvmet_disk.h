/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_NVMET_DISK_H
#define RXADM_KERNEL_NVMET_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <uuid/uuid.h>

#include "base/error.h"
#include "device/device.h"

#define EXPORT_PORT	4420	/* the default */

/* How to export a device through the kernel's NVMe target. */
struct export_request {
	const char *device;
	const char *transport;		/* "tcp" or "loop" */
	const char *address;		/* IP address to listen at; NULL: not given */
	unsigned int port;		/* 0: not given */
	const char *nqn;		/* NULL: derive it from the device */
	const char **hosts;	/* NQNs of the hosts that may connect */
	size_t host_count;
	bool allow_any_host;
	const char *key_path;		/* file of the hosts' DH-HMAC-CHAP secret, or NULL */
	bool may_exist;			/* it is not an error if the same export exists */
	bool dry_run;			/* only print what would be done */
};

/* An existing export. */
struct export_state {
	char *nqn;		/* NULL: there is none */
	char *address;		/* as lists show it */
	bool ours;		/* made by rxadm */
	bool left;		/* there are parts of an export, or another rxadm is changing it */
	const char *key;	/* first key of rxd.conf that differs from the request, or NULL */
	char *has;
	char *wants;
};

enum exit_code export_find(const char *device, bool wait, struct export_state *state);
bool export_is_made(const char *nqn);
enum exit_code export_compare(const struct export_request *request, struct export_state *state);
void export_state_release(struct export_state *state);
char *export_address(const struct export_request *request);

/* Properties of a device that is to be exported. */
struct nvmet_disk {
	struct device dev;
	char *path;		/* as device_path() returns it */
	char *sequence;		/* as disk_sequence() returns it */
	int index;		/* of the RAM disk; -1: it is a cached disk */
	char *nqn;
	char uuid[UUID_STR_LEN];
	char *key;		/* NULL: none requested */
};

enum exit_code nvmet_disk_find(const struct export_request *request, struct nvmet_disk *disk);
enum exit_code nvmet_disk_find_same(const struct export_request *request,
				    const struct nvmet_disk *disk, bool *found);
enum exit_code nvmet_disk_check_free(const struct export_request *request,
				     const struct nvmet_disk *disk);
enum exit_code nvmet_disk_check_unused(const struct nvmet_disk *disk);
enum exit_code nvmet_disk_check_same(const struct nvmet_disk *disk);
void nvmet_disk_release(struct nvmet_disk *disk);

#endif /* RXADM_KERNEL_NVMET_DISK_H */
