/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_TRANSFER_H
#define RXCP_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "../copy/copy.h"
#include "copied.h"
#include "source.h"

enum sparse {
	SPARSE_DEFAULT,	/* as SPARSE_ALWAYS, but data may be shared */
	SPARSE_ALWAYS,
	SPARSE_NEVER,
};

struct options {
	enum sparse sparse;
	enum smart smart;
	enum progress_mode progress;
	bool verbose;
	bool sync;
	mode_t mask;		/* the user's umask */
	struct copy_signals signals;	/* held for all files */
	uint64_t buffer;	/* in bytes; 0: choose a size */
	const char *checksum;	/* algorithm, or NULL */
	struct copied *copied;	/* by this run: none of it is replaced */
};

bool transfer(const struct options *options, const char *from, const char *to, int folder,
	      int *signal);

#endif /* RXCP_TRANSFER_H */
