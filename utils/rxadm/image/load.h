/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IMAGE_LOAD_H
#define RXADM_IMAGE_LOAD_H

#include "base/error.h"
#include "image/load_args.h"

enum exit_code image_load(struct load_args *args, char **path);
enum exit_code image_list(const char *file);

#endif /* RXADM_IMAGE_LOAD_H */
