/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_NVMET_STEPS_H
#define DEVICE_NVMET_STEPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum step_kind {
	STEP_MAKE,	/* a folder */
	STEP_WRITE,	/* an attribute */
	STEP_MODE,	/* the permissions of a file or folder */
	STEP_LINK,
	STEP_UNLINK,
	STEP_REMOVE,	/* a folder; a missing one is not an error */
};

struct step {
	enum step_kind kind;
	char *path;
	char *value;		/* what to write, the mode, or what the link points to */
	char *record;		/* of a folder: path of its link in NVMET_RECORDS, or NULL */
	char *note;		/* the target of that link */
	bool may_stay;		/* it is not an error if the folder to remove is in use */
	const char *source;	/* of a secret value: the file it came from, or NULL */
};

/* Changes of configfs in order, to be printed or made. */
struct steps {
	struct step *list;
	size_t count;
};

struct step *steps_add(struct steps *steps, enum step_kind kind, char *path, char *value);
int steps_run(const struct steps *steps, const char **failed);
void steps_print(const struct steps *steps);
void steps_free(struct steps *steps);

struct step *nvmet_plan_make(struct steps *plan, const char *folder, const char *name,
			     const char *note);

/* Parts of the removal of an export. */
enum nvmet_part {
	NVMET_OFFERS,		/* the links from ports */
	NVMET_NAMESPACES,	/* waits for the I/O of hosts */
	NVMET_REST,
};

void nvmet_plan_removal(struct steps *plan, const char *nqn, enum nvmet_part part);
void nvmet_plan_unused(struct steps *plan);
int nvmet_is_complete(const char *nqn, bool *complete);
int nvmet_records_begin(void);

#endif /* DEVICE_NVMET_STEPS_H */
