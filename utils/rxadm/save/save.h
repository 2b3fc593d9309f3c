/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SAVE_SAVE_H
#define RXADM_SAVE_SAVE_H

#include "base/error.h"
#include "save/save_args.h"

enum exit_code image_save(struct save_args *args);

#endif /* RXADM_SAVE_SAVE_H */
