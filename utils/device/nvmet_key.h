/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_NVMET_KEY_H
#define DEVICE_NVMET_KEY_H

#include "base/error.h"

enum exit_code nvmet_key_read(const char *path, char **key);

#endif /* DEVICE_NVMET_KEY_H */
