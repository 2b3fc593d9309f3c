/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_IMAGE_UPDATE_H
#define RXADM_IMAGE_UPDATE_H

#include "base/error.h"
#include "image/save_args.h"
#include "image/source.h"

enum exit_code update_save(struct save_args *args, struct save_source *source);

#endif /* RXADM_IMAGE_UPDATE_H */
