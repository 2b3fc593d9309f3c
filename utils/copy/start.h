/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COPY_START_H
#define COPY_START_H

void copy_start(void);

#endif /* COPY_START_H */
