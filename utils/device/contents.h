/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef DEVICE_CONTENTS_H
#define DEVICE_CONTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"

enum exit_code signature_check(const char *what, const char *path);
enum exit_code member_check(const char *what, const char *path, const char *option);

enum exit_code contents_find(const struct device *dev, bool *found);
enum exit_code contents_check(const struct device *dev, uint64_t size, const char *size_text,
			      char **unknown);

#endif /* DEVICE_CONTENTS_H */
