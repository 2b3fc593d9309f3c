/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KERNEL_NVMET_EXPORT_H
#define RXADM_KERNEL_NVMET_EXPORT_H

#include "kernel/nvmet_disk.h"

enum exit_code export_device(const struct export_request *request, char **nqn);
enum exit_code unexport_devices(char *const *names, bool gone_ok, bool dry_run);

#endif /* RXADM_KERNEL_NVMET_EXPORT_H */
