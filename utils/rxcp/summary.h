/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXCP_SUMMARY_H
#define RXCP_SUMMARY_H

#include <stdbool.h>

#include "../copy/copy.h"

void summary_print(const char *from, const char *to, const struct copy_job *copy, uint64_t size,
		   bool has_checksum);

#endif /* RXCP_SUMMARY_H */
