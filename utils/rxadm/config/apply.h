/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_APPLY_H
#define RXADM_CONFIG_APPLY_H

#include <stdbool.h>

#include "base/error.h"
#include "config/config_keys.h"

/* Which sections of a configuration to start or stop, and how. */
struct apply_request {
	const char *path;
	bool dry_run;
	bool stop;
	bool save;		/* with @stop: only save, also what is in use */
	char **names;		/* ends with NULL; empty: see plan_is_chosen() */
};

enum exit_code config_apply(const struct config *config, const struct apply_request *request);

#endif /* RXADM_CONFIG_APPLY_H */
