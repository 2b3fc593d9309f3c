/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_CONFIG_APPLY_H
#define RXADM_CONFIG_APPLY_H

#include <stdbool.h>

#include "config/config_keys.h"
#include "lib/error.h"

/* What of a configuration is to be made or ended. */
struct apply_request {
	const char *path;
	bool dry_run;
	bool stop;
	char **names;		/* NULL after the last; none: all sections */
};

enum exit_code config_apply(const struct config *config, const struct apply_request *request);

#endif /* RXADM_CONFIG_APPLY_H */
