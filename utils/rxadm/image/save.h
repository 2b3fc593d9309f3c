/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IMAGE_SAVE_H
#define RXADM_IMAGE_SAVE_H

#include "base/error.h"
#include "image/save_args.h"

enum exit_code image_save(struct save_args *args);

#endif /* RXADM_IMAGE_SAVE_H */
