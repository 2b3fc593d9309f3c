/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_NVMET_H
#define DEVICE_NVMET_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

#define CONFIGFS	"/sys/kernel/config"
#define NVMET_ROOT	CONFIGFS "/nvmet"
#define NVMET_RECORDS	"/run/rxadm.nvmet"

/* A subsystem of the kernel's NVMe target, and its device. */
struct nvmet_export {
	char *nqn;
	char *device;	/* "": none yet */
	char *address;	/* "tcp 192.0.2.1:4420"; NULL: no port offers it */
	bool ours;	/* made by rxadm */
};

struct nvmet_exports {
	struct nvmet_export *list;
	size_t count;
};

/* The address of a port, as in its attributes in configfs. */
struct nvmet_address {
	const char *transport;	/* "tcp" or "loop"; the others are NULL for loop */
	const char *family;
	const char *address;
	const char *service;
};

int nvmet_exports_read(struct nvmet_exports *exports);
void nvmet_exports_free(struct nvmet_exports *exports);
bool nvmet_export_is_of(const struct nvmet_export *export, dev_t number);
bool nvmet_is_ramdisk(const char *device);
bool nvmet_may_wait(const char *nqn);

bool nvmet_exists(const char *folder, const char *name);
char *nvmet_host_key(const char *host);
bool nvmet_allows_any_host(const char *nqn);
bool nvmet_allows(const char *nqn, const char *host);
char *nvmet_allowed_hosts(const char *nqn, size_t *count);
bool nvmet_find_port(const struct nvmet_address *address, unsigned int *number);
bool nvmet_is_loop(const char *nqn);
unsigned int nvmet_free_port(void);

/* The names in a folder, sorted. */
struct nvmet_names {
	struct dirent **entries;
	int count;
};

__printf(2, 3)
int nvmet_names_read(struct nvmet_names *names, const char *format, ...);
void nvmet_names_free(struct nvmet_names *names);
char *nvmet_record_path(const char *folder, const char *name);
char *nvmet_record_id(const char *folder, const char *name);
char *nvmet_record_note(const char *folder, const char *name);
bool nvmet_is_ours(const char *folder, const char *name);
bool nvmet_offers(const char *port, const char *nqn);

enum exit_code nvmet_prepare(const char *transport, bool dry_run);

#endif /* DEVICE_NVMET_H */
