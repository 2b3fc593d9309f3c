/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SAVE_LOAD_H
#define RXADM_SAVE_LOAD_H

#include "base/error.h"
#include "image/load_args.h"

enum exit_code image_load(struct load_args *args, char **path);

#endif /* RXADM_SAVE_LOAD_H */
