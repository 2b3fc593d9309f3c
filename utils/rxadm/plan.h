/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_PLAN_H
#define RXADM_PLAN_H

#include <stdbool.h>
#include <stddef.h>

enum step_kind {
	STEP_MAKE,	/* a folder */
	STEP_WRITE,	/* an attribute */
	STEP_LINK,
	STEP_UNLINK,
	STEP_REMOVE,	/* a folder; one that is not there is no error */
};

struct step {
	enum step_kind kind;
	char *path;
	char *value;		/* what to write, or what the link points to */
	char *record;		/* of a folder: link that says that it is ours, or NULL */
	char *note;		/* what that link says */
	const char *source;	/* of a secret value: the file it came from, or NULL */
};

/* Changes of configfs in their order, to be printed or made. */
struct plan {
	struct step *steps;
	size_t count;
};

struct step *plan_add(struct plan *plan, enum step_kind kind, char *path, char *value);
int plan_run(const struct plan *plan, const struct step **failed);
void plan_print(const struct plan *plan);
void plan_free(struct plan *plan);

#endif /* RXADM_PLAN_H */
