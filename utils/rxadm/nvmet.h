/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_NVMET_H
#define RXADM_NVMET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "steps.h"

#define CONFIGFS	"/sys/kernel/config"
#define NVMET_ROOT	CONFIGFS "/nvmet"
#define NVMET_RECORDS	"/run/rxadm.nvmet"

/* What the kernel's NVMe target offers: a subsystem and its device. */
struct nvmet_export {
	char *nqn;
	char *device;	/* "": none yet */
	char *address;	/* "tcp 192.0.2.1:4420"; NULL: nobody can reach it */
	bool ours;	/* made by rxadm */
};

struct nvmet_exports {
	struct nvmet_export *list;
	size_t count;
};

/* Where a port listens; texts as in its attributes. */
struct nvmet_address {
	const char *transport;	/* "tcp" or "loop"; the others are NULL for loop */
	const char *family;
	const char *address;
	const char *service;
};

void nvmet_exports_read(struct nvmet_exports *exports);
void nvmet_exports_free(struct nvmet_exports *exports);
bool nvmet_export_is_of(const struct nvmet_export *export, dev_t number);
char *nvmet_exports_of(dev_t number);

bool nvmet_exists(const char *folder, const char *name);
char *nvmet_host_key(const char *host);
bool nvmet_allows_any_host(const char *nqn);
bool nvmet_allows(const char *nqn, const char *host);
char *nvmet_allowed_hosts(const char *nqn, size_t *count);
bool nvmet_find_port(const struct nvmet_address *address, unsigned int *number);
unsigned int nvmet_free_port(void);

struct step *nvmet_plan_make(struct steps *plan, const char *folder, const char *name,
			     const char *note);
void nvmet_plan_removal(struct steps *plan, const char *nqn);
enum exit_code nvmet_plan_stale(struct steps *plan, const char *nqn, const char *device,
				bool *found);
int nvmet_records_begin(void);

#endif /* RXADM_NVMET_H */
