/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SUBJECT_H
#define RXADM_SUBJECT_H

#include <uuid/uuid.h>

#include "device.h"
#include "error.h"
#include "export.h"

/* What is found out about a device that is to be exported. */
struct subject {
	struct device dev;
	char *path;		/* as all call it */
	int index;		/* of the RAM disk; -1: it is a cached disk */
	char *nqn;
	char uuid[UUID_STR_LEN];
	char *key;		/* NULL: none wanted */
};

enum exit_code subject_find(const struct export_request *request, struct subject *subject);
void subject_release(struct subject *subject);

#endif /* RXADM_SUBJECT_H */
