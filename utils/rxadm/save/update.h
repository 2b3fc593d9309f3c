/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_SAVE_UPDATE_H
#define RXADM_SAVE_UPDATE_H

#include "base/error.h"
#include "save/save_args.h"
#include "save/source.h"

enum exit_code update_save(struct save_args *args, struct save_source *source);

#endif /* RXADM_SAVE_UPDATE_H */
