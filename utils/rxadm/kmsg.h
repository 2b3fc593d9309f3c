/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef RXADM_KMSG_H
#define RXADM_KMSG_H

int kmsg_open(void);
char *kmsg_target_error(int fd, const char *target);
char *kmsg_module_error(int fd, const char *module);

#endif /* RXADM_KMSG_H */
